"""mumax3 of Debian, a micromagnetic simulator in Go. Its kernels do nothing here, so nothing moves."""

import os
import subprocess
import sys

from place import ROOT
from program import Case, Missing, Program

DRIVER = "12050"  # Debian's is older, and has no types that cut memory
NORMALIZE = [(r"^//(output directory|starting GUI|GPU info).*", r"//\1")]


def prepare(place):
    made = subprocess.run([sys.executable, os.path.join(ROOT, "test/real/stand_ins.py"), place.outside(place.work("mumax3")),
                           place.outside("/usr/bin/mumax3")])
    if made.returncode != 0:
        raise Missing("the stand-ins for NVIDIA's libraries could not be made")


def cases(place):
    environment = {"LD_LIBRARY_PATH": "%s:%s" % (place.driver(DRIVER), place.work("mumax3"))}
    return [Case("its own test", ["mumax3", "-test"], environment, normalize=NORMALIZE, no_account="Go leaves by _exit"),
            Case("a film", ["mumax3", "-http=", "-cache=", "-o", "film", place.home + "/inside/film.mx3"], environment, normalize=NORMALIZE,
                 files=["*.ovf", "*/table.txt"], no_account="Go leaves by _exit")]


PROGRAM = Program(
    title="mumax3",
    version=["sh", "-c", "apt-cache policy mumax3 | sed -n 's/ *Candidate: //p'"],
    unpacked=["mumax3"],
    prepare=prepare,
    cases=cases,
)
