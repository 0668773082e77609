"""Examples of cuda-api-wrappers that launch no kernel, built with this machine's compiler and CUDA headers."""

import os

import toolkit
from program import Case, Missing, Program

EXAMPLES = ("version_management", "device_management", "context_management", "unified_addressing", "memory_pools")
UNLIKE = {"device_management": {"limit": "it prints how much memory is free, which the limit bounds"}}
NO_ACCOUNT = dict.fromkeys(("unified_addressing", "memory_pools"), "contexts end that hold memory, which no call frees")


def prepare(place):
    """It includes nvFatbin.h, which is in a package of its own; CPATH may name another folder with it."""
    folders = [toolkit.find_headers()] + os.environ.get("CPATH", "").split(":")
    if not any(os.path.exists(os.path.join(folder, "nvFatbin.h")) for folder in folders):
        raise Missing("needs nvFatbin.h of the toolkit; CPATH may name its folder")
    checkout, tools = place.checkouts["cuda_api_wrappers"], toolkit.with_compiler("g++")
    for name in EXAMPLES:
        toolkit.build(tools, os.path.join(place.outside(place.work("cuda_api_wrappers")), name),
                      [os.path.join(checkout, "examples/by_api_module", name + ".cpp")],
                      ["-std=c++17", "-I" + checkout + "/src", "-I" + checkout + "/examples"])


def cases(place):
    folder = place.work("cuda_api_wrappers")
    return [Case(name, [folder + "/" + name], normalize=[(r"0x[0-9a-f]+", "0xN")], unlike=UNLIKE.get(name, {}),
                 no_account=NO_ACCOUNT.get(name, "")) for name in EXAMPLES]


PROGRAM = Program(
    title="cuda-api-wrappers, examples",
    version=lambda place: ["sed", "-n", r"s/^[[:space:]]*VERSION \([0-9.]*\)$/\1/p", place.checkout("cuda_api_wrappers") + "/CMakeLists.txt"],
    packages=["libstdc++6"],
    checkout="eyalroz/cuda-api-wrappers",
    prepare=prepare,
    cases=cases,
    note="those that launch no kernel",
)
