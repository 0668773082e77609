"""PyCUDA of Debian, without nvcc: memory, streams and pools."""

import glob
import os
import subprocess
import sys

from place import ROOT
from program import Case, Missing, Program

CASES = ("copies", "arrays", "pools", "streams", "full", "contexts")
LIMITS = {"full": "100GiB"}  # it takes all memory of the device


def prepare(place):
    """Its module is linked to NVIDIA's generator of random numbers, which is not used here."""
    modules = glob.glob(place.outside("/usr/lib/python3/dist-packages/pycuda/*.so"))
    if not modules:
        raise Missing("needs the package python3-pycuda")
    made = subprocess.run([sys.executable, os.path.join(ROOT, "test/real/stand_ins.py"), place.outside(place.work("pycuda"))] + modules)
    if made.returncode != 0:
        raise Missing("the stand-in for libcurand could not be made")


def cases(place):
    script = place.home + "/inside/pycuda_memory.py"
    return [Case(case, ["python3", script, case], {"LD_LIBRARY_PATH": place.work("pycuda")}, limit=LIMITS.get(case, "")) for case in CASES]


PROGRAM = Program(
    title="PyCUDA",
    version=["python3", "-c", "import pycuda; print(pycuda.VERSION_TEXT)"],
    packages="python3 python3-numpy python3-platformdirs python3-pytools python3-mako libboost-python1.83.0 libboost-thread1.83.0".split(),
    unpacked=["python3-pycuda"],
    prepare=prepare,
    cases=cases,
    note="what it compiles with nvcc is left out",
)
