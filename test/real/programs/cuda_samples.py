"""NVIDIA's cuda-samples, built with this machine's nvcc for the shared runtime."""

import glob
import os
import shutil
import subprocess

from program import Case, Missing, Program

# What their checks ask of kernels, the simulated GPU does not compute: those fail without the library, too, in the same way.
UTILITIES = ("deviceQuery", "deviceQueryDrv", "topologyQuery")
GRAPHS = ("graphMemoryFootprint", "graphMemoryNodes")
LACKING = ("simpleAttributes", "streamOrderedAllocationP2P")  # which find that the device lacks something, and end
CHECKED = ("vectorAdd", "simpleStreams", "streamOrderedAllocation", "simpleZeroCopy")
SAMPLES = UTILITIES + GRAPHS + LACKING + CHECKED
COUNTS_AT_LAUNCH = "memory of graphs counts when a graph is launched, not when it is captured"
TIMED = [(r"\d+\.\d+", "N")]


def find_nvcc():
    nvcc = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
    if not nvcc:
        raise Missing("needs nvcc on this machine")
    return nvcc


def build(nvcc, checkout, name, folder):
    """Returns why it cannot be built, or an empty string."""
    program = os.path.join(folder, name)
    found = glob.glob(os.path.join(checkout, "Samples/*", name))
    if not found:
        return "the checkout has no sample %s" % name
    sources = glob.glob(os.path.join(found[0], "*.cu")) + glob.glob(os.path.join(found[0], "*.cpp"))
    if os.path.exists(program) and all(os.path.getmtime(program) > os.path.getmtime(source) for source in sources):
        return ""
    stubs = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(nvcc))), "lib64/stubs")
    command = [nvcc, "-w", "-cudart", "shared", "-arch=sm_80", "-I" + os.path.join(checkout, "Common"), "-L" + stubs,
               "-o", program] + sources + ["-lcuda"]
    with open(program + ".log", "w") as log:
        status = subprocess.run(command, stdout=log, stderr=log).returncode
    return "" if status == 0 else "%s could not be built: see %s.log" % (name, program)


def prepare(place):
    nvcc, checkout, folder = find_nvcc(), place.checkouts["cuda_samples"], place.outside(place.work("cuda_samples"))
    for name in SAMPLES:
        problem = build(nvcc, checkout, name, folder)
        if problem:
            raise Missing(problem)


def cases(place):
    folder = place.work("cuda_samples")
    return [Case(name, [folder + "/" + name], normalize=TIMED, no_account=name in GRAPHS and COUNTS_AT_LAUNCH or "")
            for name in SAMPLES]


PROGRAM = Program(
    title="NVIDIA's cuda-samples",
    version=["sh", "-c", "sed -n 's/^### CUDA //p' /checkout/cuda_samples/CHANGELOG.md | head -n 1"],
    packages=["libstdc++6"],
    checkout="NVIDIA/cuda-samples",
    prepare=prepare,
    cases=cases,
    note="%s compare with what kernels compute: they fail, without the library, too" % ", ".join(CHECKED),
)
