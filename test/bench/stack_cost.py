#!/usr/bin/env python3
"""What stacks cost, by GPUPOOL_STACKS: stack_cost.py BUILD [PYTHON...]

BUILD is a release build with the simulated GPU and test/bench/bench_cuda. That allocates and frees small blocks natively. Each
Python (default: the one that runs this) does so below FRAMES different functions, in two forms: imported from a compiled file,
and compiled by the program itself. valgrind counts the instructions of a pair of cudaMalloc and cudaFree; two runs of different
length are subtracted, so that starting up does not count. The times are of the quickest of many short stretches, the modes in
turns. The last columns are the share of its time that a program spends in stacks that makes so many pairs a second.
"""

import importlib
import os
import subprocess
import sys
import tempfile
import time

FRAMES = 20
MODES = ("off", "auto", "python", "native", "all")
RATES = (1000, 100000)  # pairs a second
COUNTED = (1000, 3000)  # pairs
STRETCH = 500
STRETCHES = 300
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
    if pairs:
        return outermost(pairs, loop)
    stretches = []
    for _ in range(STRETCHES):
        began = time.perf_counter()
        outermost(STRETCH, loop)
        stretches.append((time.perf_counter() - began) / STRETCH * 1e9)
    print(min(stretches))


def settings(build, mode, folder):
    env = {key: value for key, value in os.environ.items() if not key.startswith("GPUPOOL_")}
    env.update(LD_PRELOAD=os.path.join(build, "interpose", "libgpupool.so"), LD_LIBRARY_PATH=os.path.join(build, "test", "sim"),
               GPUPOOL_STACKS=mode, GPUPOOL_SNAPSHOT_AT="none", GPUPOOL_RECORD=folder, PYTHONHASHSEED="0")
    return env


def instructions(command, env):
    """Of a run, in all."""
    told = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"] + command, env=env, check=True,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE).stderr.decode()
    return int(told.split("Collected :")[1].split()[0])


def nanoseconds(command, env):
    return min(float(line.split()[-2 if line.startswith("pair") else -1]) for line in subprocess.run(
        command, env=env, check=True, stdout=subprocess.PIPE).stdout.decode().splitlines())


def measure(build, title, count, timed, folder):
    """count: the command that makes so many pairs; timed: the one that prints their time."""
    short, long = COUNTED
    counts, times = {}, {mode: [] for mode in MODES}
    for mode in MODES:
        env = settings(build, mode, folder)
        counts[mode] = (instructions(count(long), env) - instructions(count(short), env)) / (long - short)
    for _ in range(ROUNDS):
        for mode in MODES:
            times[mode].append(nanoseconds(timed, settings(build, mode, folder)))
    for mode in MODES:
        more = min(times[mode]) - min(times["off"])
        print("%-16s %-7s %6.0f instructions a pair, %+6.0f; %5.0f ns, %+5.0f; %s" % (
            title, mode, counts[mode], counts[mode] - counts["off"], min(times[mode]), more,
            ", ".join("%.3f%% at %d/s" % (more * rate / 1e7, rate) for rate in RATES)))
    sys.stdout.flush()


def measure_python(build, python, form, folder):
    version = subprocess.run([python, "-V"], stdout=subprocess.PIPE).stdout.decode().split()[1]

    def run_pairs(pairs):
        return [python, os.path.abspath(__file__), "--run", str(pairs), form, folder]
    measure(build, version + " " + form, run_pairs, run_pairs(0), folder)


def main():
    if sys.argv[1] == "--run":
        return run(int(sys.argv[2]))
    build = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        native = os.path.join(build, "test", "bench", "bench_cuda")
        measure(build, "native", lambda pairs: [native, "--count", str(pairs)], [native, "--rounds", "20", "pair"], folder)
    for python in sys.argv[2:] or [sys.executable]:
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "levels.py"), "w") as file:
                file.write(levels())
            subprocess.run([python, "-m", "py_compile", os.path.join(folder, "levels.py")], check=True)
            for form in ("imported", "compiled"):
                measure_python(build, python, form, folder)


if __name__ == "__main__":
    sys.exit(main())
