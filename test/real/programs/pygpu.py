"""pygpu and libgpuarray, Theano's arrays, of Debian 12; Debian 13 has none."""

import os

from program import Case, Program

CASES = ("copies", "views", "full")
LIMITS = {"full": "100GiB"}  # it takes all memory of the device


def cases(place):
    links = place.work("pygpu")  # the name that libgpuarray looks for; NVIDIA's development package has it
    link = place.outside(links + "/libnvrtc.so")
    if not os.path.islink(link):
        os.symlink("/usr/lib/x86_64-linux-gnu/libnvrtc.so.11.2", link)
    script = place.home + "/inside/pygpu_memory.py"
    return [Case(case, ["python3", script, case], {"LD_LIBRARY_PATH": "%s:%s" % (place.driver("11080"), links)},
                 limit=LIMITS.get(case, "")) for case in CASES]


PROGRAM = Program(
    title="pygpu",
    version=["dpkg-query", "-W", "-f", "${Version}", "python3-pygpu"],
    packages="python3-pygpu libnvrtc11.2".split(),
    cases=cases,
    note="what runs kernels is left out",
)
