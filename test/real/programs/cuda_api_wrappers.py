"""Examples of cuda-api-wrappers that launch no kernel, built with this machine's compiler and CUDA headers."""

import os
import subprocess

from place import ROOT
from program import Case, Missing, Program

EXAMPLES = ("version_management", "device_management", "context_management", "unified_addressing", "memory_pools")
UNLIKE = {"device_management": {"limit": "it prints how much memory is free, which the limit bounds"}}
NO_ACCOUNT = dict.fromkeys(("unified_addressing", "memory_pools"), "contexts end that hold memory, which no call frees")


def build(include, checkout, name, folder):
    """Returns why it cannot be built, or an empty string."""
    program = os.path.join(folder, name)
    source = os.path.join(checkout, "examples/by_api_module", name + ".cpp")
    if os.path.exists(program) and os.path.getmtime(program) > os.path.getmtime(source):
        return ""
    toolkit = os.path.dirname(include)
    command = ["g++", "-w", "-std=c++17", "-I" + checkout + "/src", "-I" + checkout + "/examples", "-I" + include, "-o", program,
               source, "-L%s/lib64" % toolkit, "-L%s/lib64/stubs" % toolkit, "-lcudart", "-lcuda"]
    with open(program + ".log", "w") as log:
        status = subprocess.run(command, stdout=log, stderr=log).returncode
    return "" if status == 0 else "%s could not be built: see %s.log" % (name, program)


def prepare(place):
    """It includes nvFatbin.h, which is in a package of its own; CPATH may name another folder with it."""
    found = subprocess.run([ROOT + "/scripts/find-cuda.sh", "12040"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           universal_newlines=True)
    if found.returncode != 0:
        raise Missing(found.stderr.strip().rstrip("."))
    include = found.stdout.strip()
    folders = [include] + os.environ.get("CPATH", "").split(":")
    if not any(os.path.exists(os.path.join(folder, "nvFatbin.h")) for folder in folders):
        raise Missing("needs nvFatbin.h of the toolkit; CPATH may name its folder")
    for name in EXAMPLES:
        problem = build(include, place.checkouts["cuda_api_wrappers"], name, place.outside(place.work("cuda_api_wrappers")))
        if problem:
            raise Missing(problem)


def cases(place):
    folder = place.work("cuda_api_wrappers")
    return [Case(name, [folder + "/" + name], normalize=[(r"0x[0-9a-f]+", "0xN")], unlike=UNLIKE.get(name, {}),
                 no_account=NO_ACCOUNT.get(name, "")) for name in EXAMPLES]


PROGRAM = Program(
    title="cuda-api-wrappers, examples",
    version=["sh", "-c", "sed -n 's/^[[:space:]]*VERSION \\([0-9.]*\\)$/\\1/p' /checkout/cuda_api_wrappers/CMakeLists.txt"],
    packages=["libstdc++6"],
    checkout="eyalroz/cuda-api-wrappers",
    prepare=prepare,
    cases=cases,
    note="those that launch no kernel",
)
