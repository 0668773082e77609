"""StarPU of Debian, built with CUDA: its examples whose result needs no kernel, on the device alone."""

import glob
import os
import subprocess
import sys

from place import ROOT
from program import Case, Missing, Program

LIBRARIES = "/usr/lib/x86_64-linux-gnu"
EXAMPLES = LIBRARIES + "/starpu/examples/"
NAMES = """cg/cg cholesky/cholesky_implicit cholesky/cholesky_tag cholesky/cholesky_tile_tag mult/dgemm mult/sgemm lu/lu_example_float
    lu/lu_implicit_example_double filters/shadow filters/shadow2d filters/shadow3d heat/heat""".split()


def find(place, name):
    base = os.path.basename(name)
    found = glob.glob(place.outside(EXAMPLES + "**/" + base), recursive=True)
    if not found:
        raise Missing("the package starpu-contrib-examples has no %s" % base)
    return found[0][len(place.outside("")):]


def prepare(place):
    asking = glob.glob(place.outside(LIBRARIES + "/libstarpu*.so.*[0-9]")) + [place.outside(find(place, name)) for name in NAMES]
    made = subprocess.run([sys.executable, os.path.join(ROOT, "test/real/stand_ins.py"), place.outside(place.work("starpu"))] + asking)
    if made.returncode != 0:
        raise Missing("the stand-ins for NVIDIA's libraries could not be made")


def cases(place):
    environment = {"LD_LIBRARY_PATH": place.work("starpu"), "STARPU_NCPU": "0", "STARPU_NOPENCL": "0", "STARPU_SILENT": "1",
                   "STARPU_WORKERS_NOBIND": "1", "STARPU_HOME": place.work("starpu")}
    return [Case(os.path.basename(name), [find(place, name)], environment, normalize=[(r"\d+(\.\d+)?(e[+-]\d+)?", "N")]) for name in NAMES]


PROGRAM = Program(
    title="StarPU",
    version=["sh", "-c", "apt-cache policy libstarpu-contrib-1.4-6 | sed -n 's/ *Candidate: //p'"],
    packages="libblas3 libgfortran5 libgl1 libglu1-mesa libglut3.12 libgomp1 libhwloc15 libnuma1 libomp5-19 libopenmpi40 libx11-6 "
             "ocl-icd-libopencl1 libfxt2t64 libglpk40 libpapi7.1t64".split(),
    unpacked="starpu-contrib-examples libstarpu-contrib-1.4-6 libstarpu-contrib-openmp-llvm-1.4-1t64 libstarpu-contribmpi-1.4-3t64 "
             "libstarpu-contribrm-1.4-1t64".split(),
    prepare=prepare,
    cases=cases,
)
