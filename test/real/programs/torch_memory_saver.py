"""torch_memory_saver's examples that need no kernel, with PyTorch of Debian. Its library is built with this machine's compiler."""

import os
import shutil

import toolkit
from program import Case, Missing, Program
from programs import pytorch

SOURCES = ("api_forwarder.cpp", "core.cpp", "disk_backend.cpp", "entrypoint.cpp")
LIBRARY = "torch_memory_saver_hook_mode_%s_cu12.abi3.so"
# Module, function, modes, environment. cpu_backup's other functions, cuda_graph, nested_region, rl_example and training_engine
# ask for the result of a kernel.
EXAMPLES = (
    ("simple", "run", ("preload", "torch"), {}),
    ("disk_backup", "run", ("preload", "torch"), {}),
    ("cpu_backup", "run_retain_from_env", ("preload", "torch"), {"TMS_RETAIN_CPU_BACKUP": "1"}),
    ("cpu_backup", "run_backend_from_env", ("preload", "torch"), {"TMS_INIT_CPU_BACKUP_BACKEND": "mmap"}),
    ("cuda_vmm_granularity", "run", ("preload",), {"TMS_INIT_ENABLE": "1"}),
)
PRINTED = [(r"0x[0-9a-f]+", "ADDRESS"), (r"memory: [0-9.]+ GB", "memory: N GB"), (r"tensor\([^)]*\)", "tensor(...)"),
           (r"tms_disk_backup_\w+", "DIRECTORY")]


def prepare(place):
    """The libraries link with the simulator's runtime of CUDA 12, which is PyTorch's of Debian."""
    pytorch.prepare(place)
    checkout, folder = place.checkouts["torch_memory_saver"], place.outside(place.work("torch_memory_saver"))
    for name in ("torch_memory_saver", "test/examples"):
        if not os.path.isdir(os.path.join(checkout, name)):
            raise Missing("the checkout has no folder %s" % name)
        shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
        shutil.copytree(os.path.join(checkout, name), os.path.join(folder, name))
    first, last = toolkit.with_compiler("g++")
    runtime = ["-L" + os.path.join(place.build, "test/sim"), "-l:libcudart.so.12"]
    last = runtime + [option for option in last if option != "-lcudart"]
    for mode in ("preload", "torch"):
        toolkit.build((first, last), os.path.join(folder, LIBRARY % mode), [os.path.join(checkout, "csrc", name) for name in SOURCES],
                      ["-std=c++17", "-O1", "-shared", "-fPIC", "-DUSE_CUDA=1", "-DTMS_HOOK_MODE_%s=1" % mode.upper()])


def cases(place):
    folder = place.work("torch_memory_saver")
    command = ["python3", place.home + "/inside/tms_example.py", folder]
    return [Case("%s, %s, %s" % (module, function, mode), command + [module, function, mode],
                 dict(environment, **({"LD_PRELOAD": os.path.join(folder, LIBRARY % mode)} if mode == "preload" else {})),
                 normalize=PRINTED)
            for module, function, modes, environment in EXAMPLES for mode in modes]


PROGRAM = Program(
    title="torch_memory_saver, examples",
    version=lambda place: ["sed", "-n", r"s/^ *version='\(.*\)',$/\1/p", place.checkout("torch_memory_saver") + "/setup.py"],
    packages=pytorch.PROGRAM.packages,
    unpacked=pytorch.PROGRAM.unpacked,
    checkout="fzyzcjy/torch_memory_saver",
    prepare=prepare,
    environment=pytorch.PROGRAM.environment,
    cases=cases,
    note="those that need no result of a kernel but to fill a tensor, which is done on the host; disk_backup wants memory without "
         "a backup to lose its bytes, which a simulated range keeps while nothing is mapped: it fails, without the library, too",
)
