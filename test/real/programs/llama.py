"""The CUDA backend of llama.cpp, as node-llama-cpp's package @node-llama-cpp/linux-x64-cuda has it."""

import os
import subprocess
import sys

from place import ROOT
from program import Case, Missing, Program

BINARIES = "/bins/linux-x64-cuda"
SIZES = [(r"allocating [0-9.]+ MiB", "allocating")]
GRAPHS = [(r"^.*: CUDA graph warmup .*\n", "")]  # it knows a graph by its address in host memory


def prepare(place):
    library = os.path.join(place.checkouts["llama"] + BINARIES, "libggml-cuda.so")
    if not os.path.exists(library):
        raise Missing("the checkout has no %s/libggml-cuda.so" % BINARIES)
    folder = place.outside(place.work("llama"))
    if subprocess.run([sys.executable, os.path.join(ROOT, "test/real/stand_ins.py"), folder, library]).returncode != 0:
        raise Missing("the stand-in for cuBLAS could not be made")


def cases(place):
    command = ["python3", place.home + "/inside/llama.py", place.checkout("llama") + BINARIES]
    environment = {"LD_LIBRARY_PATH": "%s:%s" % (place.work("llama"), place.checkout("llama") + BINARIES)}
    return [Case("devices", command + ["devices"], environment,
                 unlike={"limit": "the limit is the answer when a program asks for the size of the device"}),
            Case("buffers", command + ["buffers"], dict(environment, SIMCUDA_CAPACITY="8GiB"),
                 normalize=SIZES, varies="how many fit depends on the type"),
            Case("graphs", command + ["graphs"], environment, normalize=GRAPHS),
            Case("graphs without CUDA graphs", command + ["graphs"], dict(environment, GGML_CUDA_DISABLE_GRAPHS="1")),
            Case("graphs, temporary memory by cudaMalloc", command + ["graphs"], dict(environment, GGML_CUDA_NO_VMM="1"),
                 normalize=GRAPHS)]


PROGRAM = Program(
    title="llama.cpp",
    version=lambda place: ["sed", "-n", r's/.*"release":"\([^"]*\)".*/\1/p', place.checkout("llama") + BINARIES + "/_nlcBuildMetadata.json"],
    packages=["python3"],
    checkout="npm pack @node-llama-cpp/linux-x64-cuda, unpacked",
    prepare=prepare,
    cases=cases,
    note="its backend for CUDA by its C functions: no model is loaded, and cuBLAS is a stand-in",
)
