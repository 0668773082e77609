#!/usr/bin/env python3
"""Memory held, time, and calls of the driver, by pool type, synchronization, streams and API: policies.py BUILD [TYPE ...]

The traces of traces.py in two groups: recorded and made from models, and those of sizes that hardly come twice. The device does
nothing before the program synchronizes, after each so many rows, and the clock is the virtual one, so that the figures are the
same in each run, and streams matter in stream order alone. A row is a group: most bytes held in the first pass over the most in
use, or freed by cudaFree and unfinished, geometric mean and worst; calls of the driver for memory, of all traces together, in
the first, second and third pass; and what those of the first and third would take on an idle H100, without the part that goes
with the size (tools/replay/offline_driver.c has the costs).

A second table has a device that lags at random, as the simulated one does by itself, and compares with the same replay without
the library: bytes held over its bytes, and seconds over its seconds, each a geometric mean and the worst. The program synchronizes
after each row, after each 64, or never. Most bytes and least seconds of RUNS runs, which take turns: on a quiet machine.
"""

import os
import re
import sys
import time

import runs
import traces

COST_US = {"cuMemAlloc": 45.5, "cuMemFree": 37.8, "cuMemCreate": 13, "cuMemMap": 0.9, "cuMemSetAccess": 26.4,
           "cuMemUnmap": 18.1, "cuMemRelease": 13.4, "cuMemAddressReserve": 1, "cuMemAddressFree": 1,
           "cuMemAllocAsync": 45.5, "cuMemFreeAsync": 37.8}
CALL = re.compile("(%s)(_v[0-9]+)?$" % "|".join(COST_US))
RUNS = 3
WAYS = [(rows, streams, ordered) for streams, ordered in ((1, False), (1, True), (4, True)) for rows in (1, 16, 64)]


def floor(path, way):
    """The most bytes that are in use, or freed since the last synchronization; in stream order they are at once free."""
    every, _, ordered = way
    sizes, live, freed, most = {}, 0, 0, 0
    with open(path) as file:
        next(file)
        for number, row in enumerate(file, 1):
            action, block, size, _ = row.split(",")
            if action == "A":
                sizes[block] = int(size)
                live += int(size)
            else:
                live -= sizes[block]
                freed += 0 if ordered else sizes[block]
            most = max(most, live + freed)
            freed = 0 if number % every == 0 else freed
    return most


def perform(build, path, kind, way, passes):
    """Held over what it has to hold, and calls by name."""
    rows, streams, ordered = way
    command = [os.path.join(build.path, "test", "prog", "replay"), path, "--sync-every", str(rows),
               "--streams", str(streams), "--repeat", str(passes)] + ["--async"] * ordered
    settings = {"GPUPOOL_TYPE": kind, "GPUPOOL_TRACE": "off", "GPUPOOL_REUSE": "context", "SIMCUDA_PACE": "waits"}
    clocks = (os.path.join(build.path, "test", "interpose", "libgpupool_system_clock.so"),
              os.path.join(build.sim, "libvirtual_clock.so"))
    _, counts = runs.run(build, command, settings, ":".join(clocks))
    calls = {}
    for name, count in counts["calls"].items():
        known = CALL.match(name)
        if known:
            calls[known.group(1)] = calls.get(known.group(1), 0) + count
    return counts["peak_bytes"][0] / floor(path, way), calls


def show(build, group, paths, kind, way):
    held, passes = [], [{}, {}, {}]
    for path in paths:
        before = {}
        for number in range(3):
            ratio, calls = perform(build, path, kind, way, number + 1)
            held += [ratio] * (number == 0)
            for name, count in calls.items():
                passes[number][name] = passes[number].get(name, 0) + count - before.get(name, 0)
            before = calls
    counts = [sum(each.values()) for each in passes]
    cost = [sum(COST_US[name] * count for name, count in each.items()) / 1000 for each in passes]
    print("| %s | %s | %d | %d | %s | %.2f, %.2f | %d, %d, %d | %.0f, %.0f |" % (
        group, kind, way[0], way[1], "ordered" if way[2] else "plain", traces.mean(held), max(held), *counts,
        cost[0], cost[2]))
    sys.stdout.flush()


def replay(build, path, every, ordered, kind):
    """Bytes held at most, and seconds; kind None: without the library."""
    command = [os.path.join(build.path, "test", "prog", "replay"), path, "--sync-every", str(every)] + ["--async"] * ordered
    settings = {"GPUPOOL_TYPE": kind, "GPUPOOL_TRACE": "off", "GPUPOOL_SNAPSHOT_AT": "none"} if kind else {}
    begin = time.monotonic()
    _, counts = runs.run(build, command, settings, build.library if kind else None)
    return counts["peak_bytes"][0], time.monotonic() - begin


def show_against_native(build, group, paths, kinds, every, ordered):
    figures = {kind: ([], []) for kind in kinds}
    for path in paths:
        seen = {kind: [] for kind in [None] + kinds}
        for _ in range(RUNS):
            for kind, results in seen.items():
                results.append(replay(build, path, every, ordered, kind))
        best = {kind: (max(held for held, _ in results), min(seconds for _, seconds in results))
                for kind, results in seen.items()}
        for kind in kinds:
            for number in range(2):
                figures[kind][number].append(best[kind][number] / best[None][number])
    for kind in kinds:
        held, seconds = figures[kind]
        print("| %s | %s | %s | %s | %.2f, %.2f | %.2f, %.2f |" % (
            group, kind, every or "never", "ordered" if ordered else "plain", traces.mean(held), max(held),
            traces.mean(seconds), max(seconds)))
        sys.stdout.flush()


def main(folder, kinds):
    build = runs.Build(folder, False)
    paths = traces.paths(build)
    groups = [("recorded", [path for path in paths if "sizes-" not in path]),
              ("sizes", [path for path in paths if "sizes-" in path and "pytorch" not in path])]
    kinds = kinds or [kind for kind in traces.types() if kind != "naive"]
    print("| traces | type | rows | API | held over native: mean, worst | seconds over native: mean, worst |")
    print("|---" * 6 + "|")
    for group, paths_of_group in groups:
        for every, ordered in ((1, False), (64, False), (0, False), (0, True)):
            show_against_native(build, group, paths_of_group, kinds, every, ordered)
    print("\n| traces | type | rows | streams | API | held over used: mean, worst | calls by pass | ms: first, third pass |")
    print("|---" * 8 + "|")
    for group, paths_of_group in groups:
        for kind in kinds:
            for way in WAYS:
                show(build, group, paths_of_group, kind, way)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2:])
