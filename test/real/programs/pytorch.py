"""PyTorch of Debian. NVIDIA's libraries, which do not start on the simulated GPU, are replaced by stand_ins.py."""

import glob
import os
import subprocess
import sys

from place import ROOT
from program import Case, Missing, Program

LIBRARIES = "/usr/lib/x86_64-linux-gnu"
ALLOCATORS = {
    "own": {},
    "expandable": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
    "cudaMallocAsync": {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"},
    "no cache": {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},
}
CASES = ("train", "streams", "pinned", "graph", "pool", "out_of_memory", "processes")
WARNINGS = [(r"^\[W[\d .:]+", "[W "), (r"0x[0-9a-f]+", "ADDRESS")]
VARIES = {"streams": "PyTorch asks whether another stream is done"}


def prepare(place):
    folder = place.outside("/stand-ins")
    if os.path.exists(folder + "/libcublas.so.12"):
        return
    asking = []
    for name in ("libtorch_*.so.2.6.0", "libc10_cuda.so.2.6.0", "libgloo*.so.0", "libtensorpipe_cuda.so.0", "libcaffe2_nvrtc.so"):
        asking += glob.glob(place.outside(LIBRARIES + "/" + name)) or glob.glob(place.outside("/usr/lib/**/" + name), recursive=True)
    made = subprocess.run([sys.executable, os.path.join(ROOT, "test/real/stand_ins.py"), folder] + asking)
    if made.returncode != 0:
        raise Missing("the stand-ins for NVIDIA's libraries could not be made")


def cases(place):
    script = place.home + "/inside/pytorch.py"
    found = [Case("%s, %s" % (case, name), ["python3", script, case], environment, varies=VARIES.get(case, ""))
             for name, environment in ALLOCATORS.items() for case in CASES]
    for case in found:
        case.normalize = WARNINGS
        if case.label.startswith("out_of_memory"):
            case.environment = dict(case.environment, SIMCUDA_CAPACITY="2GiB")
            case.varies = "what PyTorch's cache still has depends on the schedule"
    found.append(Case("shared, own", ["python3", script, "shared"],  # the others have no such handles
                      unlike={"vmm": "mapped memory has no handle for other processes, and the program ends there"}))
    found.append(Case("shared, expandable", ["python3", script, "shared"], ALLOCATORS["expandable"]))
    found.append(Case("pluggable", ["python3", script, "pluggable"], varies="without the library PyTorch's own allocator is used"))
    return found


PROGRAM = Program(
    title="PyTorch",
    version=["python3", "-c", "import torch; print(torch.__version__.split('+')[0])"],
    packages="""python3 python3-numpy python3-filelock python3-fsspec python3-jinja2 python3-networkx python3-packaging
        python3-sympy python3-typing-extensions python3-yaml libblas3 liblapack3 libcpp-httplib0.18 libcpuinfo0 libdnnl3.6
        libfmt10 libgomp1 libhiredis1.1.0 libnuma1 libonnx1t64 libprotobuf32t64 libpthreadpool0 libsleef3 libuv1t64
        libvulkan1 libxnnpack0.20241108 libz3-4 libzstd1 zlib1g""".split(),
    unpacked="libtorch-cuda-2.6 python3-torch-cuda libgloo-cuda-0 libtensorpipe-cuda-0".split(),
    prepare=prepare,
    environment={"LD_LIBRARY_PATH": "/stand-ins"},
    cases=cases,
)
