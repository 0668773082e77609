"""RMM's tests in C++, built with this machine's nvcc and its CCCL, GoogleTest and spdlog."""

import os

import toolkit
from program import Case, Missing, Program

# By program, what is left out of it, since it fails without the library, too: thrust::reduce, cudaMemRangeGetAttribute
TESTS = {
    "container_multidevice_tests.cu": "",
    "cuda_stream_pool_tests.cpp": "",
    "cuda_stream_tests.cpp": "",
    "device_buffer_tests.cu": "*.CopyConstructor*:*.CopyCapacityLargerThanSize*:*.ResizeSmaller",
    "device_scalar_tests.cpp": "",
    "device_uvector_tests.cpp": "",
    "mr/device/adaptor_tests.cpp": "",
    "mr/device/aligned_mr_tests.cpp": "",
    "mr/device/arena_mr_tests.cpp": "",
    "mr/device/binning_mr_tests.cpp": "",
    "mr/device/callback_mr_tests.cpp": "",
    "mr/device/cuda_async_mr_tests.cpp": "",
    "mr/device/failure_callback_mr_tests.cpp": "",
    "mr/device/limiting_mr_tests.cpp": "",
    "mr/device/mr_ref_multithreaded_tests.cpp": "",
    "mr/device/mr_ref_tests.cpp": "",
    "mr/device/polymorphic_allocator_tests.cpp": "",
    "mr/device/pool_mr_tests.cpp": "",
    "mr/device/prefetch_resource_adaptor_tests.cpp": "PrefetchAdaptorTest/1.*",
    "mr/device/statistics_mr_tests.cpp": "",
    "mr/device/stream_allocator_adaptor_tests.cpp": "",
    "mr/device/system_mr_tests.cu": "",
    "mr/device/thrust_allocator_tests.cu": "*.first/*",
    "mr/device/tracking_mr_tests.cpp": "",
    "mr/host/mr_ref_tests.cpp": "",
    "mr/host/pinned_mr_tests.cpp": "",
    "mr/host/pinned_pool_mr_tests.cpp": "",
    "prefetch_tests.cpp": "PrefetchTest/1.*",
}
PRINTED = [(r"^\[ *\d+\]\[[\d:]+\]", "[N]"), (r" \(\d+ ms( total)?\)", ""), (r"0x[0-9a-f]+", "ADDRESS")]
VARIES = dict.fromkeys(("mr/device/mr_ref_multithreaded_tests.cpp", "mr/device/mr_ref_tests.cpp", "mr/device/thrust_allocator_tests.cu"),
                       "pools take half of what is free, which depends on the schedule")
UNLIKE = dict.fromkeys(("mr/device/arena_mr_tests.cpp", "mr/device/pool_mr_tests.cpp"),
                       {"limit": "pools take half of what is free, which the limit bounds"})


def label(test):
    return os.path.splitext(test)[0].replace("/", "_")


def make_macros(folder, logger):
    """RMM's configuration fills this in."""
    with open(logger + "/cmake/logger_macros.hpp.in") as file:
        text = file.read()
    os.makedirs(folder + "/rmm", exist_ok=True)
    with open(folder + "/rmm/logger_macros.hpp", "w") as file:
        file.write(text.replace("@_RAPIDS_LOGGER_MACRO_PREFIX@", "RMM").replace("@_RAPIDS_LOGGER_DEFAULT_LOGGER@", "rmm::default_logger()"))


def prepare(place):
    rmm, logger = (os.path.join(place.checkouts["rmm"], name) for name in ("rmm/cpp", "rapids-logger"))
    folder = place.outside(place.work("rmm"))
    if not (os.path.isdir(rmm) and os.path.isdir(logger)):
        raise Missing("--checkout rmm=PATH has to name a folder with checkouts of rmm and rapids-logger")
    make_macros(folder, logger)
    options = ["-O1", "-std=c++17", "-DSPDLOG_HEADER_ONLY", "-DSPDLOG_FMT_EXTERNAL", "-DFMT_HEADER_ONLY",
               "-DLIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE"]
    options += ["-I" + path for path in (folder, rmm, rmm + "/..", rmm + "/include", logger + "/include")]
    compiler, nvcc = toolkit.with_compiler("g++"), toolkit.with_nvcc()
    compiler[0].append("-I%s/cccl" % toolkit.find_headers())
    sources = [os.path.join(rmm, "src", name) for name in sorted(os.listdir(rmm + "/src"))] + [logger + "/src/logger.cpp"]
    toolkit.build(compiler, folder + "/librmm.so", sources, options + ["-shared", "-fPIC"])
    for test in TESTS:
        toolkit.build(nvcc if test.endswith(".cu") else compiler, os.path.join(folder, label(test)), [os.path.join(rmm, "tests", test)],
                      options + ["-L" + folder], ["-lrmm", "-lgmock_main", "-lgmock", "-lgtest"])


def cases(place):
    folder = place.work("rmm")
    return [Case(label(test), ["%s/%s" % (folder, label(test))] + (["--gtest_filter=-" + left_out] if left_out else []),
                 {"LD_LIBRARY_PATH": folder, "SIMCUDA_DEVICES": "2"}, normalize=PRINTED, varies=VARIES.get(test, ""),
                 unlike=UNLIKE.get(test, {})) for test, left_out in TESTS.items()]


PROGRAM = Program(
    title="RMM, tests in C++",
    version=lambda place: ["cat", place.checkout("rmm") + "/rmm/VERSION"],
    packages=["libstdc++6"],
    checkout="rapidsai/rmm and rapidsai/rapids-logger, beside each other",
    prepare=prepare,
    cases=cases,
    note="without single tests: those of thrust::reduce, and of cudaMemRangeGetAttribute, which the simulated runtime does not know",
)
