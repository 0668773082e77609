"""NVIDIA's cuda-samples, built with this machine's nvcc for the shared runtime."""

import glob
import os

import toolkit
from program import Case, Missing, Program

# What their checks ask of kernels, the simulated GPU does not compute: those fail without the library, too, in the same way.
UTILITIES = ("deviceQuery", "deviceQueryDrv", "topologyQuery")
GRAPHS = ("graphMemoryFootprint", "graphMemoryNodes")
LACKING = ("simpleAttributes", "streamOrderedAllocationP2P")  # which find that the device lacks something, and end
CHECKED = ("vectorAdd", "simpleStreams", "streamOrderedAllocation", "simpleZeroCopy")
SHARING = ("memMapIPCDrv", "streamOrderedAllocationIPC")  # a process of the sample's for each device
SAMPLES = UTILITIES + GRAPHS + LACKING + CHECKED + SHARING
COUNTS_AT_LAUNCH = "memory of graphs counts when a graph is launched, not when it is captured"
TIMED = [(r"\d+\.\d+", "N")]
NAMED = [(r"(lshmName = [a-zA-Z_]+)\d+", r"\1PID"), (r"JIT log:(?s:.*?)\nStep", "Step")]  # the log is memory that nothing has written
KERNEL = "memMapIpc_kernel64.ptx"  # which the sample looks for in its folder


def prepare(place):
    tools, checkout, folder = toolkit.with_nvcc(), place.checkouts["cuda_samples"], place.outside(place.work("cuda_samples"))
    for name in SAMPLES:
        found = glob.glob(os.path.join(checkout, "Samples/*", name))
        if not found:
            raise Missing("the checkout has no sample %s" % name)
        sources = glob.glob(os.path.join(found[0], "*.cu")) + glob.glob(os.path.join(found[0], "*.cpp"))
        if name in SHARING:
            sources.append(os.path.join(checkout, "Common/helper_multiprocess.cpp"))
        if name == "memMapIPCDrv":
            kernel = next(source for source in sources if source.endswith(".cu"))
            sources.remove(kernel)
            toolkit.build(tools, os.path.join(folder, KERNEL), [kernel], ["-ptx"])
        toolkit.build(tools, os.path.join(folder, name), sources, ["-I" + os.path.join(checkout, "Common")])


def cases(place):
    folder = place.work("cuda_samples")
    found = [Case(name, [folder + "/" + name], normalize=TIMED, no_account=name in GRAPHS and COUNTS_AT_LAUNCH or "")
             for name in SAMPLES]
    for case in found:
        if case.label in SHARING:
            case.normalize = NAMED
        if case.label == "memMapIPCDrv":
            case.command = ["sh", "-c", "ln -s %s/%s . && exec %s" % (folder, KERNEL, case.command[0])]
    return found


PROGRAM = Program(
    title="NVIDIA's cuda-samples",
    version=lambda place: ["sed", "-n", "s/^### CUDA //p", place.checkout("cuda_samples") + "/CHANGELOG.md"],
    packages=["libstdc++6"],
    checkout="NVIDIA/cuda-samples",
    prepare=prepare,
    cases=cases,
    note="%s compare with what kernels compute: they fail, without the library, too" % ", ".join(CHECKED),
)
