"""CCCL's test of cub::CachingDeviceAllocator, built with this machine's nvcc."""

import os

import toolkit
from program import Case, Missing, Program

TEST = "test_allocator"
# Times, addresses, and the memory of the device, which the limit bounds.
PRINTED = [(r"-?\d+\.\d+|-?nan|-?inf", "N"), (r"0x[0-9a-f]+", "ADDRESS"), (r"[Ss]tream \d+", "stream N"),
           (r"\d+ free / \d+ total MB", "memory")]


def find_catch2(place):
    """The folder with headers of Catch2 3, which the test includes and does not call. Other headers must not come from there."""
    headers = place.outside("/usr/include/catch2")
    if not os.path.exists(headers + "/catch_test_macros.hpp"):
        raise Missing("needs headers of Catch2 3: the package libcatch2-dev of Debian 13")
    folder = os.path.join(place.outside(place.work("cccl")), "catch")
    os.makedirs(folder, exist_ok=True)
    link = os.path.join(folder, "catch2")
    if os.path.lexists(link):
        os.remove(link)
    os.symlink(os.path.abspath(headers), link)
    return folder


def prepare(place):
    tools, checkout, catch2 = toolkit.with_nvcc(), place.checkouts["cccl"], find_catch2(place)
    source = os.path.join(checkout, "cub/test", TEST + ".cu")
    if not os.path.exists(source):
        raise Missing("the checkout has no cub/test/%s.cu" % TEST)
    options = ["-std=c++17", "-DCATCH_CONFIG_PREFIX_ALL"] + ["-I" + folder for folder in [catch2] + [
        os.path.join(checkout, one) for one in ("c2h/include", "cub", "thrust", "libcudacxx/include", "cub/test")]]
    toolkit.build(tools, os.path.join(place.outside(place.work("cccl")), TEST), [source], options)


def cases(place):
    command = [place.work("cccl") + "/" + TEST, "--i=200"]
    # Work waits until a call waits for it: the test looks at its cache beside kernels that are not to end before.
    return [Case(label, command, {"SIMCUDA_PACE": "waits", "SIMCUDA_DEVICES": devices}, normalize=PRINTED)
            for label, devices in (("one device", "1"), ("two devices", "2"))]


PROGRAM = Program(
    title="CCCL, cub::CachingDeviceAllocator",
    version=lambda place: ["sed", "-n", r's/.*"full": "\(.*\)".*/\1/p', place.checkout("cccl") + "/cccl-version.json"],
    packages=["libstdc++6", "libcatch2-dev"],
    checkout="NVIDIA/cccl",
    prepare=prepare,
    cases=cases,
    note="its own test, whose kernels end when the host waits for them",
)
