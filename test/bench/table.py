#!/usr/bin/env python3
"""The table of scripts/bench.sh: table.py BUILD [--quick]

Each figure stands beside those of the other allocators, and as a ratio to the C library's pair of malloc and free, measured
in the same process just before. doc/performance.md tells how to read it.
"""

import argparse
import os
import sys
import time

import runs
import traces

MODES = ("off", "state", "all")
REPLACED = (100, 1000, 10000, 50000)
HOLES = (0, 4096, 16384, 65536)
THREADS = (1, 2, 4, 8, 16)
DEFERRED = 100000
EVENTS_OF_A_PAIR = 3  # alloc, free_requested, free_completed


def recorded(mode, stacks="off"):
    return {"GPUPOOL_TRACE": mode, "GPUPOOL_STACKS": stacks, "GPUPOOL_REUSE": "context"}


class Goals:
    """What was to be reached, and what was."""

    def __init__(self):
        self.rows = []

    def at_most(self, what, value, bound, text="%.0f ns"):
        self.rows.append((what, text % value, "<= " + text % bound, "reached" if value <= bound else "missed"))

    def at_least(self, what, value, bound, text="%.2f"):
        self.rows.append((what, text % value, ">= " + text % bound, "reached" if value >= bound else "missed"))

    def unknown(self, what, goal, why):
        self.rows.append((what, "-", goal, why))

    def show(self):
        print("\n== Goals")
        for row in self.rows:
            print("%-88s %10s  %-12s %s" % row)


def heading(text, columns=()):
    print("\n== %s" % text)
    if columns:
        print("%-44s" % "" + "".join("%14s" % column for column in columns))
    sys.stdout.flush()


def line(name, cells):
    print("%-44s" % name + "".join("%14s" % cell for cell in cells))
    sys.stdout.flush()


def allocators(build):
    """Name, program, settings and preloaded library of what the engine is compared with."""
    yield "C library", "bench_malloc", {}, None
    if build.mimalloc:
        yield "mimalloc", "bench_malloc", {}, build.mimalloc
    if build.has("bench_cub"):
        yield "CUB, runtime does nothing", "bench_cub", {}, None


def engines(modes=MODES):
    """Of both ways to cut memory: whole blocks, which are the default, and parts of segments."""
    for mode in modes:
        yield "engine, trace=" + mode, "bench_engine", recorded(mode), None
    for mode in modes:
        yield "engine, type=segment, trace=" + mode, "bench_engine", dict(recorded(mode), GPUPOOL_TYPE="segment"), None


def show_missing(build):
    if not build.has("bench_cub"):
        print("CUB is left out: its headers were not found beside cuda.h, or the C++ compiler does not take them")
    if not build.mimalloc:
        print("mimalloc is left out: it is not installed")


def show_pairs(build, goals):
    heading("A warm pair of 1 KiB, 64 between synchronizations", ("ns", "x C library"))
    rows = list(allocators(build)) + list(engines())
    bounds = {"off": 20, "state": 25, "all": 40}
    for name, program, settings, preload in rows:
        figure = runs.measure(build, program, ["pair"], settings, preload)[0]["pair"]
        line(name, ("%.1f" % figure.value, "%.2f" % figure.ratio))
        if program == "bench_engine":
            goals.at_most("warm pair, " + name, figure.value, bounds[settings["GPUPOOL_TRACE"]])


def calls_of_a_pair(build, calls):
    """How often a pair asked the driver for the current context's id, as the workload `pair` has counted it."""
    pairs = int(build.effort[1]) * int(build.effort[3])
    return calls["pair"].get("cuCtxGetId", 0) / pairs


def show_preloaded(build, goals):
    heading("The same through cudaMalloc and cudaFree on the simulated GPU", ("ns", "less runtime", "x C library"))

    def pair(program, settings, preload=None):
        figures, calls = runs.measure(build, program, ["pair"], settings, preload)
        return figures["pair"], calls_of_a_pair(build, calls)

    native = pair("bench_cuda", {})[0]
    line("no preload: the simulated driver's allocator", ("%.1f" % native.value, "", ""))
    if build.has("bench_cub_sim"):
        cub = pair("bench_cub_sim", {})[0]
        line("CUB", ("%.1f" % cub.value, "", ""))
    rows = [("preloaded, trace=" + mode, recorded(mode), True) for mode in MODES]
    rows += [("... through the runtime, trace=" + mode, dict(recorded(mode), GPUPOOL_RUNTIME_HOOKS="0"), False)
             for mode in MODES]
    rows.append(("... trace=all, a stack each", recorded("all", "native"), False))
    runtime_alone = pair("bench_runtime", {"BENCH_CONTEXT_CALLS": "0"})[0]
    for name, settings, is_served in rows:
        figure, asked = pair("bench_cuda", settings, build.library)
        runtime = pair("bench_runtime", {"BENCH_CONTEXT_CALLS": "%.0f" % asked})[0]
        # Calls that are served do not come to the runtime: only what the driver is asked is not the library's.
        own = figure.value - (runtime.value - runtime_alone.value if is_served else runtime.value)
        line(name, ("%.1f" % figure.value, "%.1f" % own, "%.2f" % (own / figure.host)))
        if name == "preloaded, trace=all":
            goals.at_most("preloaded pair, recorded, less the simulator's runtime and driver", own, 40)
    in_order = (("no preload: the driver's cudaMallocAsync", {}, None),
                ("preloaded, trace=off, in order of a stream", recorded("off"), build.library),
                ("preloaded, trace=all, in order of a stream", recorded("all"), build.library),
                ("preloaded, trace=all, of the legacy stream", dict(recorded("all"), BENCH_STREAM="legacy"), build.library))
    for name, settings, preload in in_order:
        line(name, ("%.1f" % runs.measure(build, "bench_ordered", ["pair"], settings, preload)[0]["pair"].value, "", ""))
    print("A pair asks the driver %.1f times for the current context and its id. The simulated runtime and driver cost %.1f ns "
          "by themselves, that included, the runtime %.1f ns, which a served pair is spared."
          % (asked, runtime.value, runtime_alone.value))


def show_workloads(build, goals):
    rows = list(allocators(build)) + list(engines(("off", "all")))
    rows.append(("preloaded, trace=all, simulator included", "bench_cuda", recorded("all"), build.library))

    heading("Random replace among so many live blocks of mixed sizes, ns", REPLACED)
    for name, program, settings, preload in rows:
        figures = runs.measure(build, program, ["replace:%d" % count for count in REPLACED], settings, preload)[0]
        line(name, ["%.1f" % figures["replace:%d" % count].value for count in REPLACED])
        if name.startswith("engine") and name.endswith("off"):
            goals.at_most("random replace among 10,000 live, " + name, figures["replace:10000"].value, 60)

    heading("A warm pair beside so many idle blocks of other sizes, ns", HOLES)
    for name, program, settings, preload in rows:
        figures = runs.measure(build, program, ["holes:%d" % count for count in HOLES], settings, preload)[0]
        values = [figures["holes:%d" % count].value for count in HOLES]
        line(name, ["%.1f" % value for value in values])
        if name.startswith("engine") and name.endswith("off"):
            goals.at_most("most beside 0 to 65,536 holes over least, " + name, max(values) / min(values), 1.5, "%.2f")

    heading("Threads on %d processors, ns a pair of all threads together" % os.cpu_count(),
            ("hand-off",) + tuple("%d at once" % count for count in THREADS) + ("2 over 1",))
    for name, program, settings, preload in rows:
        workloads = ["handoff"] + ["threads:%d" % count for count in THREADS]
        figures = runs.measure(build, program, [" ".join(workloads)], settings, preload)[0]
        speedup = figures["threads:1"].value / figures["threads:2"].value
        line(name, ["%.1f" % figures[workload].value for workload in workloads] + ["%.2f" % speedup])
        if name.startswith("engine") and name.endswith("off"):
            goals.at_least("work of two threads over that of one, " + name, speedup, 1.5)


def show_deferred(build, goals):
    workload = "deferred:%d" % (DEFERRED // 10 if build.is_quick else DEFERRED)
    heading("A synchronization with %s freed blocks, and the first miss after it" % workload.split(":")[1],
            ("sync, us", "bare, us", "miss, us", "bare, us"))
    rows = list(engines(("off", "all")))
    rows.append(("preloaded, trace=all, simulator included", "bench_cuda", recorded("all"), build.library))
    count = int(workload.split(":")[1])
    for name, program, settings, preload in rows:
        figures = runs.measure(build, program, [workload], settings, preload)[0]
        sync, bare, miss, bare_miss = (figures["%s/%s" % (workload, part)].value
                                       for part in ("sync", "sync-bare", "miss", "miss-bare"))
        line(name, ["%.2f" % (ns / 1000) for ns in (sync, bare, miss, bare_miss)])
        if name.startswith("engine") and name.endswith("off"):
            goals.at_most("what freed blocks add to a synchronization, " + name, (sync - bare) / 1000, 1, "%.2f us")
            if "segment" not in name:  # which has room left in a segment: no miss
                goals.at_most("what a freed block adds to the first miss after it, " + name, (miss - bare_miss) / count, 30)


def show_memory(build):
    heading("Memory of the host, bytes", ("a block", "a thread", "an event"))
    rows = [row for row in allocators(build) if row[1] == "bench_cub"] + list(engines())
    for name, program, settings, preload in rows:
        figures = runs.measure(build, program, ["blocks:50000", "workers:32", "events"], settings, preload)[0]
        events = figures["events"].value / EVENTS_OF_A_PAIR if name.endswith("all") else None
        line(name, ("%.0f" % figures["blocks:50000"].value, "%.0f" % figures["workers:32"].value,
                    "-" if events is None else "%.0f" % events))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", help="a release build with test/bench")
    parser.add_argument("--quick", action="store_true", help="seconds, and less exact")
    arguments = parser.parse_args()
    build = runs.Build(arguments.build, arguments.quick)
    goals = Goals()
    began = time.monotonic()
    show_missing(build)
    show_pairs(build, goals)
    show_preloaded(build, goals)
    show_workloads(build, goals)
    show_deferred(build, goals)
    show_memory(build)
    traces.show(build, goals, heading, line)
    goals.unknown("own waits beside a kernel that never ends", "0 hangs", "tests preload-waiting and reuse-waits")
    goals.show()
    print("\n%.0f s" % (time.monotonic() - began))


if __name__ == "__main__":
    main()
