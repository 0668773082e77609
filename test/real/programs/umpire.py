"""Umpire's tests and examples that use a GPU, built with CMake and this machine's nvcc."""

import os
import subprocess

import toolkit
from program import Case, Missing, Program

TESTS = ("allocator_accessibility_tests", "allocator_c_tests", "allocator_integration_tests", "cuda_mem_advise_op_tests",
         "free_functions_integration_tests", "memory_allocator_tests", "memory_resource_traits_tests", "operation_c_tests",
         "operation_tests", "primary_pool_tests", "resource.offload", "strategy_tests", "typed_allocator_integration_tests")
EXAMPLES = ("recipe_advice_device_id", "recipe_memprefetch_pool", "recipe_move_to_managed", "recipe_pool_advice", "recipe_shrink",
            "recipe_use_advice_ops", "tut_copy", "tut_dynamic_pool_1", "tut_dynamic_pool_2", "tut_introspection", "tut_memset",
            "tut_move", "tut_reallocate", "tut_resources", "tut_resources_c")
PRINTED = [(r" \(\d+ ms( total)?\)", ""), (r"0x[0-9a-f]+", "ADDRESS")]
VARIES = {"primary_pool_tests": "PrimaryPoolTest.Alignment draws its sizes"}
OPTIONS = ("-DENABLE_CUDA=On", "-DUMPIRE_ENABLE_C=On", "-DENABLE_OPENMP=Off", "-DENABLE_MPI=Off", "-DENABLE_BENCHMARKS=Off",
           "-DENABLE_DOCS=Off", "-DCMAKE_CUDA_ARCHITECTURES=90", "-DCUDA_USE_STATIC_CUDA_RUNTIME=Off", "-DCMAKE_SKIP_RPATH=On",
           "-Ucamp_DIR", "-Ufmt_DIR")  # which name an installation, as if these were not built here
HEADER = """#ifdef __cplusplus
#include <cuda_runtime_api.h>
// CUDA 13 took these forms away.
static inline cudaMemLocation gp_location(int device)
{
  return {device < 0 ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice, device < 0 ? 0 : device};
}
static inline cudaError_t cudaMemAdvise(const void *memory, size_t size, cudaMemoryAdvise advice, int device)
{
  return cudaMemAdvise(memory, size, advice, gp_location(device));
}
static inline cudaError_t cudaMemPrefetchAsync(const void *memory, size_t size, int device, cudaStream_t stream = 0)
{
  return cudaMemPrefetchAsync(memory, size, gp_location(device), 0, stream);
}
#endif
"""


def prepare(place):
    checkout, folder = place.checkouts["umpire"], place.outside(place.work("umpire"))
    if not all(os.path.exists("%s/%s" % (checkout, part)) for part in ("blt/SetupBLT.cmake", "src/tpl/umpire/camp/include",
                                                                       "src/tpl/umpire/fmt/include")):
        raise Missing("needs a checkout with the submodules blt, camp and fmt")
    nvcc, include = toolkit.find_nvcc(), toolkit.find_headers()
    with open(folder + "/runtime12.h", "w") as file:
        file.write(HEADER)
    flags = "-DCMAKE_CXX_FLAGS=-w -I%s -include %s/runtime12.h" % (include, folder)
    with open(folder + "/build.log", "w") as log:
        for command in (["cmake", "-S", checkout, "-B", folder, "-DCMAKE_CUDA_COMPILER=" + nvcc, flags, *OPTIONS],
                        ["cmake", "--build", folder, "--parallel", "2", "--target", *TESTS, *EXAMPLES]):
            if subprocess.run(command, stdout=log, stderr=log).returncode != 0:
                raise Missing("Umpire could not be built: see %s/build.log" % folder)


def cases(place):
    folder = place.work("umpire")
    return [Case(name, ["%s/bin/%s" % (folder, name)], normalize=PRINTED, varies=VARIES.get(name, "")) for name in TESTS + EXAMPLES]


PROGRAM = Program(
    title="Umpire, tests and examples",
    version=lambda place: ["sed", "-n", r"s/^  VERSION \([0-9.]*\))$/\1/p", place.checkout("umpire") + "/CMakeLists.txt"],
    packages=["libstdc++6"],
    checkout="LLNL/Umpire with its submodules",
    prepare=prepare,
    cases=cases,
    environment={"SIMCUDA_DEVICES": "2"},
    note="those that use a GPU",
)
