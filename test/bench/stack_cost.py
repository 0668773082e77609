#!/usr/bin/env python3
"""What the Python frames of a stack cost: python_stacks.py BUILD [PYTHON...]

BUILD is a release build with the simulated GPU. Each Python (default: the one that runs this) allocates and frees below
FRAMES different functions, in two forms: imported from a compiled file, and compiled by the program itself. valgrind
counts the instructions that each GPUPOOL_STACKS adds to a pair of cudaMalloc and cudaFree; two runs of different length
are subtracted, so that starting up does not count. The times are the smallest of ROUNDS, the modes in turns.
"""

import importlib
import os
import subprocess
import sys
import tempfile
import time

FRAMES = 20
MODES = ("off", "python", "native", "all")
COUNTED = (1000, 3000)  # pairs
TIMED = 100000
ROUNDS = 3

# A middling function: about 60 bytes of line table in CPython 3.11.
LEVEL = """
def level_%d(number, call):
    first = number + %d
    second = [first, number]
    if first < 0:
        raise ValueError("negative")
    third = {"second": second}
    return %s if third else None
"""


def levels():
    """All frames but those of loop(), run(), main() and the module."""
    return "".join(LEVEL % (i, i, "level_%d(number, call)" % (i - 1) if i else "call(number)") for i in range(FRAMES - 4))


def run(pairs):
    import ctypes
    runtime = ctypes.CDLL("libcudart.so.13")
    pointer, size = ctypes.c_void_p(), ctypes.c_size_t(4096)
    reference, allocate, free = ctypes.byref(pointer), runtime.cudaMalloc, runtime.cudaFree

    def loop(count):
        for _ in range(count):
            allocate(reference, size)
            free(pointer)
    if sys.argv[3] == "imported":
        sys.path.insert(0, sys.argv[4])
        names = vars(importlib.import_module("levels"))
    else:
        names = {}
        with open(os.path.join(sys.argv[4], "levels.py")) as file:
            exec(compile(file.read(), os.path.join(sys.argv[4], "levels.py"), "exec"), names)
    outermost = names["level_%d" % (FRAMES - 5)]
    outermost(1000, loop)
    began = time.perf_counter()
    outermost(pairs, loop)
    print((time.perf_counter() - began) / pairs * 1e9)


def command(build, python, mode, form, pairs, folder):
    env = {key: value for key, value in os.environ.items() if not key.startswith("GPUPOOL_")}
    env.update(LD_PRELOAD=os.path.join(build, "interpose", "libgpupool.so"), LD_LIBRARY_PATH=os.path.join(build, "test", "sim"),
               GPUPOOL_STACKS=mode, GPUPOOL_SNAPSHOT_AT="none", GPUPOOL_RECORD=folder, PYTHONHASHSEED="0")
    return [python, os.path.abspath(__file__), "--run", str(pairs), form, folder], env


def instructions(*args):
    """Of a run, in all."""
    words, env = command(*args)
    told = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"] + words, env=env, check=True,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE).stderr.decode()
    return int(told.split("Collected :")[1].split()[0])


def nanoseconds(*args):
    words, env = command(*args)
    return float(subprocess.run(words, env=env, check=True, stdout=subprocess.PIPE).stdout)


def measure(build, python, form, folder):
    short, long = COUNTED
    counts = {mode: (instructions(build, python, mode, form, long, folder) - instructions(build, python, mode, form, short, folder)) /
              (long - short) for mode in MODES}
    times = {mode: [] for mode in MODES}
    for _ in range(ROUNDS):
        for mode in MODES:
            times[mode].append(nanoseconds(build, python, mode, form, TIMED, folder))
    version = subprocess.run([python, "-V"], stdout=subprocess.PIPE).stdout.decode().split()[1]
    for mode in MODES:
        print("%-8s %-9s %-7s %6.0f instructions a pair, %+6.0f; %5.0f ns, %+5.0f" % (
            version, form, mode, counts[mode], counts[mode] - counts["off"], min(times[mode]), min(times[mode]) - min(times["off"])))
    sys.stdout.flush()


def main():
    if sys.argv[1] == "--run":
        return run(int(sys.argv[2]))
    for python in sys.argv[2:] or [sys.executable]:
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "levels.py"), "w") as file:
                file.write(levels())
            subprocess.run([python, "-m", "py_compile", os.path.join(folder, "levels.py")], check=True)
            for form in ("imported", "compiled"):
                measure(os.path.abspath(sys.argv[1]), python, form, folder)


if __name__ == "__main__":
    sys.exit(main())
