#!/usr/bin/env python3
"""Fails if an allocation and its free cost more instructions than they may.

    instructions.py BUILD [--update]

BUILD is a release build (-Dbuildtype=release, asserts left out) with the target bench-programs. valgrind counts what the pool and
the recorder execute in a pair that needs no driver call, on a driver that does nothing and a clock that steps: the same in
each run and, with the same compiler, on each machine. The C library's instructions are left out. Two runs of different
length are subtracted, so that starting up does not count.

Preloaded, it counts all that the library executes for a pair of the runtime's calls, on the simulated GPU: its hooks, and its part
in a synchronization after 64 pairs. What the library asks the driver is the driver's.

instructions.json has the bounds: a pair may cost MOST_PERCENT of its bound. A change that is worth more instructions writes
the bounds anew with --update, in the same commit, and says why; so does one that saves some, that they stay saved.
"""

import json
import os
import subprocess
import sys
import tempfile

BOUNDS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "instructions.json")
MOST_PERCENT = 110
SHORT, LONG = 6400, 12800  # pairs
COUNTED = ("gp_engine_alloc", "gp_engine_free", "gp_engine_sync_begin", "gp_engine_sync_end")
LIBRARY = "libgpupool.so"
CASES = {  # the program, and settings
    "trace off": ("bench_engine", {"GPUPOOL_TRACE": "off"}),
    "trace state": ("bench_engine", {"GPUPOOL_TRACE": "state"}),
    "trace all": ("bench_engine", {"GPUPOOL_TRACE": "all"}),
    "segment, trace off": ("bench_engine", {"GPUPOOL_TYPE": "segment", "GPUPOOL_TRACE": "off"}),
    "segment, trace all": ("bench_engine", {"GPUPOOL_TYPE": "segment", "GPUPOOL_TRACE": "all"}),
    "preloaded, trace off": ("bench_cuda", {"GPUPOOL_TRACE": "off"}),
    "preloaded, in stream order, trace off": ("bench_ordered", {"GPUPOOL_TRACE": "off"}),
}


def own_instructions(profile, object_name):
    """What callgrind counted in the library itself, or in the program that has it linked into it."""
    names = {}
    total = 0
    is_own = is_of_call = False
    with open(profile) as file:
        for line in file:
            key, _, rest = line.strip().partition("=")
            if key in ("ob", "cob"):
                number, _, name = rest.partition(" ")
                name = names.setdefault(number, name)
                if key == "ob":
                    is_own = os.path.basename(name) == object_name
            elif key == "calls":
                is_of_call = True  # the next line is what was called, which has its own lines
            elif line[:1] in "0123456789+-*":
                if is_own and not is_of_call:
                    total += int(line.split()[1])
                is_of_call = False
    return total


def count(build, program, pairs, settings, folder):
    profile = os.path.join(folder, "callgrind.out")
    command = ["valgrind", "-q", "--tool=callgrind", "--callgrind-out-file=" + profile]
    env = {key: value for key, value in os.environ.items() if not key.startswith("GPUPOOL_")}
    env.update(settings, GPUPOOL_REUSE="context", GPUPOOL_STACKS="off", GPUPOOL_RECORD=folder)
    if program == "bench_engine":
        command += ["--toggle-collect=" + function for function in COUNTED]
    else:
        env.update(GPUPOOL_SNAPSHOT_AT="none", LD_LIBRARY_PATH=os.path.join(build, "test", "sim"),
                   LD_PRELOAD=os.path.join(build, "interpose", LIBRARY))
    command += [os.path.join(build, "test", "bench", program), "--count", str(pairs)]
    subprocess.run(command, env=env, check=True, stdin=subprocess.DEVNULL)
    return own_instructions(profile, program if program == "bench_engine" else LIBRARY)


def is_release(build):
    with open(os.path.join(build, "meson-info", "intro-buildoptions.json")) as file:
        options = {option["name"]: option["value"] for option in json.load(file)}
    return options["buildtype"] == "release" and options["debug_level"] == 0


def main():
    build = os.path.abspath(sys.argv[1])
    update = sys.argv[2:] == ["--update"]
    if sys.argv[2:] and not update:
        sys.exit(__doc__)
    if not is_release(build):
        sys.exit("instructions.py: %s is no release build without asserts" % build)
    with tempfile.TemporaryDirectory() as folder:
        counts = {name: round((count(build, program, LONG, settings, folder) - count(build, program, SHORT, settings, folder)) /
                              (LONG - SHORT)) for name, (program, settings) in CASES.items()}
    if update:
        with open(BOUNDS, "w") as file:
            json.dump(counts, file, indent=2)
            file.write("\n")
    with open(BOUNDS) as file:
        bounds = json.load(file)
    too_many = []
    for name, instructions in counts.items():
        percent = 100 * instructions / bounds[name]
        print("%-37s %5d instructions a pair, %.1f%% of the bound %d" % (name, instructions, percent, bounds[name]))
        if percent > MOST_PERCENT:
            too_many.append(name)
    if too_many:
        sys.exit("instructions.py: a pair costs more than %d%% of its bound with %s. If it is worth that, `%s %s --update` "
                 "writes the bounds anew; the commit says why." % (MOST_PERCENT, ", ".join(too_many), sys.argv[0], build))


if __name__ == "__main__":
    main()
