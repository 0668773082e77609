"""HAMi-core's tests, which are its programs alone here: without its library, and with a stand-in for NVML."""

import os
import subprocess

import toolkit
from place import ROOT
from program import Case, Program

# Left out: test_alloc_hold never ends, and test_multi_gpu_utilization judges by the time of kernels.
TESTS = ("test_alloc", "test_alloc_host", "test_alloc_managed", "test_alloc_pitch", "test_create_3d_array", "test_create_array",
         "test_host_alloc", "test_host_register", "test_mem_create", "test_runtime_alloc", "test_runtime_alloc_host",
         "test_runtime_alloc_managed", "test_runtime_host_alloc", "test_runtime_host_register")
KERNELS = ("test_runtime_launch",)
THREADS = [(r"^thread \d:", "thread N:")]  # in any order
STAND_IN = os.path.join(ROOT, "test/prog/nvml")
HEADER = """#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif
#include "%s/nvml.h"
#ifdef __cplusplus
}
#endif
typedef int nvmlReturn_t;
static inline int nvmlInit(void) { return nvmlInit_v2(); }
static inline int nvmlShutdown(void) { return NVML_SUCCESS; }
static inline int nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *device)
{
  return nvmlDeviceGetHandleByIndex_v2(index, device);
}
""" % STAND_IN


def prepare(place):
    checkout, folder = place.checkouts["hami_core"], place.outside(place.work("hami_core"))
    with open(os.path.join(folder, "nvml.h"), "w") as file:
        file.write(HEADER)
    library = os.path.join(folder, "libnvidia-ml.so.1")
    tools = toolkit.with_compiler("gcc")
    toolkit.build(tools, library, [STAND_IN + "/stand_in.c"], ["-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1"])
    options = ["-O1", "-I" + folder, "-I" + checkout + "/src", "-L" + folder]
    for names, kind, tools in ((TESTS, ".c", tools), (KERNELS, ".cu", toolkit.with_nvcc())):
        for name in names:
            toolkit.build(tools, os.path.join(folder, name), [os.path.join(checkout, "test", name + kind)], options,
                          ["-l:libnvidia-ml.so.1"])


def cases(place):
    folder = place.work("hami_core")
    return [Case(name, [folder + "/" + name], {"LD_LIBRARY_PATH": folder}, normalize=THREADS) for name in TESTS + KERNELS]


def version(place):
    found = subprocess.run(["git", "-C", place.checkouts["hami_core"], "log", "-1", "--format=%h"], stdout=subprocess.PIPE,
                           universal_newlines=True)
    return ["echo", found.stdout.strip() or "?"]


PROGRAM = Program(
    title="HAMi-core, tests",
    version=version,
    packages=["libstdc++6"],
    checkout="Project-HAMi/HAMi-core",
    prepare=prepare,
    cases=cases,
    note="its programs without its library; NVML is a stand-in, whose figures are constant",
)
