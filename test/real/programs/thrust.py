"""CCCL's tests of Thrust's allocators, built with this machine's nvcc."""

import os

import toolkit
from program import Case, Program

# By program, its tests; none: all. What compares with the results of kernels is left out.
TESTS = {
    "caching_allocator": [],
    "out_of_memory_recovery": [],
    "universal_memory": ["TestUniversal%s*" % letter for letter in "AHIRS"],
    "vector_allocators": ["TestVectorAllocatorPropagateOnMove*", "TestVectorAllocatorPropagateOnSwap*"],
}
PRINTED = [(r" +\S+ ms ", " N ms "), (r"[\d.]+ minutes", "N minutes")]


def prepare(place):
    tools, checkout, folder = toolkit.with_nvcc(), place.checkouts["thrust"], place.outside(place.work("thrust"))
    options = ["-O1", "-std=c++17"] + ["-I" + os.path.join(checkout, one) for one in (
        "thrust", "cub", "libcudacxx/include", "c2h/include", "thrust/testing")]
    testing = checkout + "/thrust/testing/"
    frame = folder + "/frame.a"
    toolkit.build(tools, frame, [testing + "unittest/testframework.cu", testing + "unittest/cuda/testframework.cu"], options + ["-lib"])
    for test in TESTS:
        toolkit.build(tools, os.path.join(folder, test), ["%s%s.cu" % (testing, test)], options, [frame])


def cases(place):
    folder = place.work("thrust")
    return [Case(test, ["%s/%s" % (folder, test), "--verbose", *wanted], normalize=PRINTED) for test, wanted in TESTS.items()]


PROGRAM = Program(
    title="CCCL, Thrust's allocators",
    version=lambda place: ["sed", "-n", r's/.*"full": "\(.*\)".*/\1/p', place.checkout("thrust") + "/cccl-version.json"],
    packages=["libstdc++6"],
    checkout="NVIDIA/cccl",
    prepare=prepare,
    cases=cases,
    note="those that compare with no kernel's results",
)
