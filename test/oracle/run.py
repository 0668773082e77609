#!/usr/bin/env python3
"""Runs random programs under the library, every pool type by reuse mode by driver, and judges each by the oracle.

    test/oracle/run.py BUILD                          10,000 programs
    test/oracle/run.py BUILD --programs N --seed S    N of them, the seeds from S on (soak.sh: without end)
    test/oracle/run.py BUILD --only-seed S            that program, in every row, in turns
    test/oracle/run.py BUILD --row PATTERN            only the rows whose name matches, as in "round context 12.5"
    test/oracle/run.py BUILD --waits                  programs with kernels that wait for the host or for each other, on
                                                      drivers whose cuMemFree waits for them and on others
    test/oracle/run.py BUILD --ordered                programs with memory of cudaMallocAsync, too; with --waits: beside kernels
                                                      that wait
    test/oracle/run.py BUILD --late                   programs with kernels that wait, many of which free memory in a stream
                                                      that waits and use it until that goes on; also with --ordered
    test/oracle/run.py BUILD --newer                  on a driver that the library does not know; every second cuMemFree is made
                                                      by a function that it does not know, either; also with the others
    test/oracle/run.py BUILD --set FILL=poison        with that setting of the library, GPUPOOL_FILL; how much is
                                                      reused is not judged then
    test/oracle/run.py BUILD --library PATH           of another build
    test/oracle/run.py BUILD --unsafe CC...           the library that reuses at once: has to be caught, and the C that
                                                      is printed, compiled by CC..., has to show it

Each row has its own seeds, and its programs run in two ways: in turns, which a seed repeats exactly, and with their
threads running freely. What is wrong is made small and printed as C that shows it. A program that does not end is named
by its seed. It is run without the library first: if it does not end there, either, the generator is wrong. Exit status: 0 nothing wrong, and memory was really reused; 1 otherwise.
"""

import argparse
import collections
import concurrent.futures
import copy
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time

MODES = ("strict", "context", "auto")  # one that the library does not know is left out
UNSAFE = "libgpupool_unsafe.so"  # which reuses at once
TYPES = ("round", "naive", "segment", "vmm", "unpooled")
CUTTING = ("segment", "vmm")  # memory of cudaMallocAsync is memory of cudaMalloc, too
DRIVERS = {"11080": "11.8", "12040": "12.4", "12050": "12.5", "13000": "13.0"}
ORDERED_DRIVERS = {"11020": "11.2", "12040": "12.4", "12050": "12.5", "13000": "13.0"}  # 11.2 brought cudaMallocAsync
NEWER_DRIVERS = {"14000": "14.0"}
FENCE_SINCE = 12050
# Small has the library wait and fence often. Its budget has no slack, so that requests get larger blocks and others go back.
DEFERRED = {"small": {"GPUPOOL_MAX_DEFERRED": "4096", "GPUPOOL_SLACK": "0"}, "large": {}}

# Of rows with kernels that wait: the environment of the library, and the bytes that a program has at most on each device
# (0: ample), which then has CAPACITY. An allocation that the library refuses there is counted; elsewhere it is wrong. In
# turns, such programs run by the virtual clock, on which waiting takes no time.
TIGHT = 6 << 20
CAPACITY = "8MiB"
POOLS_LIMIT = "40MiB"  # where memory of cudaMallocAsync counts as grown by 32 MiB
MEMORY = {
    "ample": ({}, 0),
    "small": (DEFERRED["small"], 0),
    "surplus": ({"GPUPOOL_MAX_CACHED": "64KiB", "GPUPOOL_RESERVE": "80GiB"}, 0),
    "tight": ({"GPUPOOL_RESERVE": "0", "GPUPOOL_PATIENCE": "0"}, TIGHT),
    "reserve": ({"GPUPOOL_RESERVE": "4MiB", "GPUPOOL_MAX_CACHED": "2MiB", "GPUPOOL_PATIENCE": "0"}, TIGHT),
    "limit": ({"GPUPOOL_LIMIT": CAPACITY, "GPUPOOL_PATIENCE": "0"}, TIGHT),
    "pools limit": ({"GPUPOOL_LIMIT": POOLS_LIMIT, "GPUPOOL_PATIENCE": "0"}, TIGHT),
    "patient": ({"GPUPOOL_RESERVE": "0"}, TIGHT),
}
# Of rows with memory of cudaMallocAsync: the environment, and options of the generator. early: with launches that overlap the
# kernel in front of them; the first one in a process ends the reuse in the order of streams, so each program has its own.
# no-rule: the two calls do not put streams behind others. leaving: memory ends with a context, as with GPUPOOL_ASYNC=plain
# and with the types that cut.
ORDERED = {
    "ordered": ({}, ["--ordered", "--pool-orders"]),
    "early": ({}, ["--ordered", "--pool-orders", "--programmatic"]),
    "no-rule": ({"SIMCUDA_POOL_ORDERS": "0"}, ["--ordered"]),
    "leaving": ({}, ["--ordered", "--leaving", "--pool-orders"]),
    "leaving early": ({}, ["--ordered", "--leaving", "--pool-orders", "--programmatic"]),
    "leaving no-rule": ({"SIMCUDA_POOL_ORDERS": "0"}, ["--ordered", "--leaving"]),
}
HIDES_POOLS = "11020"  # says not what its pools hold: where memory is short it is asked all the same, and may wait
APART_SHARE = 0.5  # of the programs of another row
ORDERED_WAITING_MEMORY = ("ample", "small", "surplus", "tight", "pools limit")
SLOW_SHARE = 0.2  # of the programs of another row, where the library may wait a minute
STALL_S = 20  # longer than a program's refusals take by GPUPOOL_PATIENCE
LIMIT_S = 30  # for one program
NATIVE_RUNS = 10  # of one that does not end under the library, where threads run freely
# Why the library refuses what natively fits, in its own words; it explains the first refusal of a process, so some
# programs of each row are run again alone.
REFUSED = re.compile(r"^seed (\d+): \d+ refused, for (\d+) of them there is room$", re.M)
CAPTURE = "a capture, beside which the library makes no call"
CAUSES = ((CAPTURE, "the library could make no call"),
          ("freed memory that the device has not finished with", "of freed memory is still in use"),
          ("freed memory that the device has not finished with", "freed but still in use"),  # under a limit
          ("idle memory that cannot go back while the device is busy", "of cached memory cannot be released"))
EXPLAINED = 3  # in each row
# The blocks that the program holds are spread over pages of the device, or over segments: where they lie is not what the
# generator counts. The simulated device knows (simcuda_fits).
PAGES = "blocks of the program in pages and segments that are not full"
WRONG = "memory that the device is not busy with"  # a failure

# Reuses in 100 allocations, at least: with fewer the programs prove nothing, or the library waits for more than it has to.
LEAST_REUSES = {("strict", "small"): 25, ("strict", "large"): 25, ("context", "small"): 20, ("context", "large"): 8}
# Drivers before 12.5 have no fence of a context. There what is freed beyond GPUPOOL_MAX_DEFERRED goes to the driver, and in
# `strict` a free asks nothing, so most memory is reused after synchronizations of the program's own.
LEAST_WITHOUT_FENCES = {("strict", "small"): 2, ("strict", "large"): 12, ("context", "small"): 2,
                        ("auto", "small"): 2}
LEAST_WAITING = 2  # reuses in programs whose kernels wait: much of what they free stays in use
# With memory of cudaMallocAsync: reuses and those with work pending, by kind of row. GPUPOOL_ASYNC=driver: of cudaMalloc's only.
LEAST_ORDERED = {"ordered": (25, 12), "no-rule": (25, 12), "early": (25, 8), "driver": (1, 0), "leaving": (25, 12),
                 "leaving no-rule": (25, 12), "leaving early": (25, 8)}
# Share of the programs. With fewer than all, a row has too few to judge its shares of reuses.
PART = {"1": 8, "2": 24}.get(os.environ.get("GP_QUICK"), 1)
LEAST_ALLOCATIONS = float("inf") if PART > 1 else 1000  # before that is asked
FREELY = 0.3  # of the programs
RESULT = re.compile(r"^programs=(\d+) steps=(\d+) allocations=(\d+) reuses=(\d+) pending_reuses=(\d+) "
                    r"early_reuses=(\d+) wrong=(\d+) first_wrong=(\d+) refused=(\d+) refused_beside=(\d+) "
                    r"refused_captured=(\d+) refused_fitting=(\d+) longest_ms=(\d+) stalled=(\d+) "
                    r"first_stalled=(\d+) hung=(\d+)$", re.M)
FIELDS = ("programs", "steps", "allocations", "reuses", "pending_reuses", "early_reuses", "wrong", "first_wrong",
          "refused", "refused_beside", "refused_captured", "refused_fitting", "longest_ms", "stalled", "first_stalled", "hung")
PROGRAM_HUNG = 3  # exit status


class Row:
    def __init__(self, driver, library=None, pool=None, mode=None, deferred="large", memory=None, free_waits=True,
                 ordered=None, mempool="pool"):
        self.driver, self.preload, self.pool, self.mode, self.deferred = driver, library, pool, mode, deferred
        self.memory, self.free_waits = memory, free_waits  # memory: a key of MEMORY; None: no kernels that wait
        self.ordered, self.mempool = ordered, mempool  # a key of ORDERED, or None; GPUPOOL_ASYNC
        version = ORDERED_DRIVERS.get(driver) or DRIVERS.get(driver) or NEWER_DRIVERS[driver]
        self.name = "%s %s %s" % (pool, mode, version) if library else "no library %s" % version
        if library and deferred == "small":
            self.name += " small"
        if memory:
            self.name += " %s%s" % (memory, "" if free_waits else " async-free")
        if ordered:
            self.name += " " + ordered + {"pool": "", "driver": " driver's", "plain": " plain"}[mempool]
        self.is_tight = memory is not None and MEMORY[memory][1] > 0
        # The library waits a minute for work that was submitted before a free, as the driver's own free would have. On a
        # driver whose free waits for less, that can be a kernel that has nothing to do with the memory.
        self.must_not_stall = free_waits
        self.share = 1 if self.must_not_stall or not self.is_tight else SLOW_SHARE
        # What ends some reuse for good ends it for the process: such programs have one each.
        self.is_apart = ordered is not None and "--programmatic" in ORDERED[ordered][1]
        if self.is_apart:
            self.share *= APART_SHARE
        # By the real clock: the virtual one is slow beside threads that loop. So not where much has to be waited for.
        self.may_run_freely = not self.is_tight or (self.must_not_stall and memory != "patient")
        self.hung = []  # seeds
        self.causes = collections.Counter()
        self.figures = dict.fromkeys(FIELDS, 0)
        self.problems = []


class Runner:
    def __init__(self, build, folder, shrink, limit_s=LIMIT_S, most_hung=1, settings=(), late=False):
        self.program = os.path.join(build, "test", "oracle", "reuse_programs")
        self.sim = os.path.join(build, "test", "sim")
        self.library = os.path.join(build, "interpose", "libgpupool.so")
        self.folder = folder
        self.shrink = shrink
        self.settings = {"GPUPOOL_" + setting.split("=", 1)[0]: setting.split("=", 1)[1] for setting in settings}
        self.limit_s, self.most_hung, self.late = limit_s, most_hung, late
        self.processors = sorted(os.sched_getaffinity(0))
        self.thread, self.threads = threading.local(), itertools.count()
        for driver in {**DRIVERS, **ORDERED_DRIVERS, **NEWER_DRIVERS}:
            path = os.path.join(folder, driver)
            os.mkdir(path)
            name = "libcuda.so.1" if driver == "13000" else "libcuda-%s.so" % driver
            os.symlink(os.path.join(self.sim, name), os.path.join(path, "libcuda.so.1"))

    def environment(self, row, freely=False):
        env = {key: value for key, value in os.environ.items() if not key.startswith(("GPUPOOL_", "SIMCUDA_"))}
        env.update(LD_LIBRARY_PATH=os.path.join(self.folder, row.driver) + ":" + self.sim, SIMCUDA_ORACLE="1",
                   SIMCUDA_DEVICES="2")
        if row.preload:
            env.update(LD_PRELOAD=(env.get("LD_PRELOAD", "") + ":" + row.preload).lstrip(":"),
                       GPUPOOL_TYPE=row.pool,
                       GPUPOOL_REUSE=row.mode, GPUPOOL_SNAPSHOT_AT="none")
            env.update(self.settings)
            if "GPUPOOL_FILL" in env or "GPUPOOL_CHECK" in env:
                env["SIMCUDA_FILLS"] = "1"
            env.update(DEFERRED[row.deferred])
        if row.ordered:
            env.update(ORDERED[row.ordered][0])
            if row.preload:
                env.update(GPUPOOL_ASYNC=row.mempool)
        if row.memory:
            settings, tight = MEMORY[row.memory]
            env.update(SIMCUDA_FREE_WAITS="1" if row.free_waits else "0")
            if tight and "GPUPOOL_LIMIT" not in settings:
                env.update(SIMCUDA_CAPACITY=CAPACITY)
            if row.preload:
                env.update(settings)
        if row.is_tight and row.preload and not freely:  # the library with a clock that can be replaced is built beside it
            library = os.path.join(row.preload, "..", "..", "test", "interpose", "libgpupool_system_clock.so")
            env["LD_PRELOAD"] = env["LD_PRELOAD"].replace(row.preload, "%s:%s" % (
                os.path.abspath(library), os.path.join(self.sim, "libvirtual_clock.so")))
        return env

    def options(self, row, freely):
        options = ["--devices", "2"] + (ORDERED[row.ordered][1] if row.ordered else ["--programmatic"])
        options += ["--freely"] * freely + ["--apart"] * row.is_apart
        if int(row.driver) >= FENCE_SINCE:
            options += ["--ctx-events"]
        if row.preload and not row.ordered and not row.preload.endswith(UNSAFE):  # that one does more than that
            options += ["--no-pending"]
        if row.memory:
            tight = MEMORY[row.memory][1]
            options += ["--waits"] + ["--late"] * self.late + ([] if row.free_waits else ["--free-is-async"]) + (
                ["--tight", str(tight)] if tight else [])
            limit = MEMORY[row.memory][0].get("GPUPOOL_LIMIT")
            options += ["--limit", str(int(limit[:-3]) << 20)] if limit else []
        return options

    def choose_processors(self, freely):
        """Of the calling thread, for its next program. Threads that take turns switch on one processor in half the time."""
        if not hasattr(self.thread, "processor"):
            self.thread.processor = self.processors[next(self.threads) % len(self.processors)]
        os.sched_setaffinity(0, self.processors if freely else {self.thread.processor})

    def call(self, row, freely, arguments, limit_s):
        self.choose_processors(freely)
        return subprocess.run([self.program] + self.options(row, freely) + ["--limit-s", str(self.limit_s), "--stall-s", str(STALL_S)] +
                              [str(a) for a in arguments],
                              env=self.environment(row, freely), cwd=self.folder, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, universal_newlines=True, errors="replace", timeout=limit_s)

    def knows(self, library, mode):
        row = Row("13000", library, "round", mode)
        return "GPUPOOL_REUSE" not in self.call(row, False, [1], 60).stderr

    def died(self, row, freely, first, count):
        """The seed that ends the process by itself, or None."""
        while count > 1:
            half = count // 2
            if self.call(row, freely, [first, half], 600).returncode not in (0, 1):
                count = half
            else:
                first, count = first + half, count - half
        return first if self.call(row, freely, [first], 60).returncode not in (0, 1) else None

    def run(self, row, freely, first, count):
        result = self.call(row, freely, [first, count], 600 + count)
        match = RESULT.search(result.stdout)
        if not match or result.returncode not in (0, 1, PROGRAM_HUNG):
            seed = self.died(row, freely, first, count)
            row.problems.append("seeds %d to %d%s: exit status %d%s\n%s" % (
                first, first + count - 1, " freely" if freely else "", result.returncode,
                ", by seed %d" % seed if seed else "", result.stderr[-2000:]))
            return
        figures = dict(zip(FIELDS, map(int, match.groups())))
        for seed, _ in REFUSED.findall(result.stderr)[:EXPLAINED if not freely else 0]:
            row.causes[self.cause(row, seed)] += 1
        for seed, fitting in REFUSED.findall(result.stderr):
            # Without patience, work that was submitted after a free is an excuse.
            if int(fitting) > 0 and (row.memory == "patient" or self.cause(row, seed) == WRONG):
                row.problems.append("seed %s: an allocation is refused for which the device has room\n%s" % (
                    seed, self.repeat(row, freely, int(seed))))
        hung, longest_ms = figures.pop("hung"), figures.pop("longest_ms")
        row.figures["longest_ms"] = max(row.figures["longest_ms"], longest_ms)
        if figures["stalled"] and row.must_not_stall:
            row.problems.append("seed %d takes longer than %d s\n%s" % (
                figures["first_stalled"], STALL_S, self.repeat(row, freely, figures["first_stalled"])))
        for name in figures:
            row.figures[name] += figures[name]
        if hung:
            hangs, lacks_memory = self.natively(row, freely, hung)
            is_native = hangs or (row.is_tight and lacks_memory)
            if not is_native:
                row.figures["hung"] += 1
                if not row.hung:
                    row.problems.append("seed %d does not end\n%s" % (hung, self.repeat(row, freely, hung)))
                row.hung.append(hung)
            elif hangs and not row.is_tight:
                row.problems.append("seed %d does not end without the library, either: the program is not legal\n%s" % (
                    hung, self.repeat(row, freely, hung)))
            if (is_native or len(row.hung) < self.most_hung) and hung + 1 < first + count:
                self.run(row, freely, hung + 1, first + count - hung - 1)
        if figures["wrong"]:
            text = "%s%s" % (result.stderr[-1500:], self.repeat(row, freely, figures["first_wrong"]))
            if self.shrink and not freely:  # one will do
                self.shrink = False
                small = self.call(row, freely, ["--shrink", figures["first_wrong"]], 600)
                text += "\n" + small.stderr[-4000:] + small.stdout
            row.problems.append(text)

    def natively(self, row, freely, seed):
        """Whether by itself the program hangs, too, or is refused memory: see PAGES. Then it shows nothing of the library.
        Run freely, a program may hang in some orders of its threads only."""
        alone = copy.copy(row)
        alone.preload = None
        lacks_memory = False
        for _ in range(NATIVE_RUNS if freely else 1):
            result = self.call(alone, freely, [seed], 60 + self.limit_s)
            match = RESULT.search(result.stdout)
            lacks_memory |= bool(match) and int(match[FIELDS.index("refused") + 1]) > 0
            if result.returncode == PROGRAM_HUNG:
                return True, lacks_memory
        return False, lacks_memory

    def cause(self, row, seed):
        said = self.call(row, False, [seed], 60 + self.limit_s).stderr
        if "out of memory on device" not in said:
            return CAPTURE
        causes = list(dict.fromkeys(cause for cause, words in CAUSES if words in said))
        has_room = any(int(fitting) > 0 for _, fitting in REFUSED.findall(said))
        return " and ".join(causes) or (WRONG if has_room else PAGES)

    def repeat(self, row, freely, seed):
        env = self.environment(row, freely)
        names = sorted(name for name in env if name.startswith(("GPUPOOL_", "SIMCUDA_", "LD_")))
        return "To see it again: %s %s %d" % (" ".join("%s=%s" % (name, env[name]) for name in names),
                                             " ".join([self.program] + self.options(row, freely)), seed)

    def run_row(self, row, first, count):
        began = time.monotonic()
        count = int(count * row.share) or 1
        free = int(count * FREELY) if row.may_run_freely else 0
        self.run(row, False, first, count - free)
        if free and (not row.problems or len(row.hung) < self.most_hung):
            self.run(row, True, first + count - free, free)
        row.seconds = time.monotonic() - began
        return row


def judge(row, with_settings):
    figures = row.figures
    if row.problems or figures["wrong"] or with_settings:
        return
    # Where memory is tight, see PAGES, that happens to one program in thousands.
    if not row.preload and figures["refused"] > (1 + figures["allocations"] / 1000 if row.is_tight else 0):
        row.problems.append("allocations are refused without the library: the programs are not legal")
    if row.driver in NEWER_DRIVERS:  # what an unknown function frees in the order of a stream ends the pool
        return
    pooled = row.preload and row.pool != "unpooled"
    least, pending = LEAST_REUSES.get((row.mode, row.deferred), LEAST_REUSES["context", row.deferred]), 0
    if row.memory:
        least = LEAST_WAITING
    elif row.ordered:
        least, pending = LEAST_ORDERED[row.mempool if row.mempool == "driver" else row.ordered]
    elif int(row.driver) < FENCE_SINCE:
        least = LEAST_WITHOUT_FENCES.get((row.mode, row.deferred), least)
    if pooled and figures["allocations"] > LEAST_ALLOCATIONS and 100 * figures["reuses"] < least * figures["allocations"]:
        row.problems.append("memory was reused for fewer than %d of 100 allocations" % least)
    if pooled and figures["allocations"] > LEAST_ALLOCATIONS and 100 * figures["pending_reuses"] < pending * figures["allocations"]:
        row.problems.append("memory was handed out at once for fewer than %d of 100 allocations" % pending)
    if not pooled and figures["reuses"]:
        row.problems.append("memory was reused without a pool")


def rows_of(runner, library, drivers):
    rows = [Row(driver) for driver in drivers]
    for mode in MODES:
        if runner.knows(library, mode):
            rows += [Row(driver, library, pool, mode, deferred) for driver in drivers for pool in TYPES
                     for deferred in DEFERRED if pool != "unpooled" or deferred == "large"]
    return rows


def some_of(drivers):
    """Where all would take long: one without fences of contexts and one with them, or the only one."""
    return [driver for driver in ("12040", "13000") if driver in drivers] or list(drivers)


def waiting_rows(runner, library, drivers):
    rows = [Row(driver, memory=memory, free_waits=waits) for driver in drivers for memory in ("ample", "tight")
            for waits in (True, False)]
    for mode in MODES:
        if not runner.knows(library, mode):
            continue
        rows += [Row(driver, library, "round", mode, memory=memory, free_waits=waits) for driver in drivers
                 for memory in MEMORY for waits in (True, False)]
    rows += [Row(driver, library, pool, "context", memory=memory, free_waits=waits) for driver in drivers
             for pool in ("naive", "unpooled") for memory in ("surplus", "tight", "limit") for waits in (True, False)]
    rows += [Row(driver, library, "segment", mode, memory=memory, free_waits=waits) for driver in drivers
             for mode in ("context", "strict") for memory in ("ample", "small", "surplus") for waits in (True, False)]
    rows += [Row(driver, library, pool, "context", memory=memory, free_waits=waits) for driver in drivers
             for pool in CUTTING for memory in ("tight", "limit", "patient") for waits in (True, False)]
    return rows


def ordered_rows(runner, library, drivers):
    rows = [Row(driver, ordered=kind) for driver in drivers for kind in ORDERED]
    kinds = [kind for kind in ORDERED if kind.startswith("leaving")]
    modes = [mode for mode in MODES if runner.knows(library, mode)]
    rows += [Row(driver, library, pool, mode, ordered="leaving" if pool in CUTTING else "ordered") for mode in modes
             for driver in drivers for pool in TYPES if pool in ("round", "segment") or mode == "context"]
    rows += [Row(driver, library, "round", mode, ordered=kind) for mode in modes for kind in ("early", "no-rule")
             for driver in some_of(drivers)]
    rows += [Row(driver, library, "round", "context", ordered="ordered", mempool="driver") for driver in drivers]
    rows += [Row(driver, library, pool, mode, ordered=kind, mempool="plain") for mode in modes for kind in kinds
             for pool in ("round", "segment", "vmm") for driver in drivers
             if (pool == "round" and kind == "leaving") or driver in some_of(drivers)]
    return rows


def ordered_waiting_rows(runner, library, drivers):
    rows = [Row(driver, memory="ample", free_waits=waits, ordered="ordered") for driver in drivers
            for waits in (True, False)]
    rows += [Row(driver, library, pool, mode, memory=memory, free_waits=waits, ordered="ordered")
             for mode in MODES if runner.knows(library, mode) for driver in drivers
             for pool in ("round", "naive") for memory in ORDERED_WAITING_MEMORY for waits in (True, False)
             if (pool == "round" or memory != "small") and (driver != HIDES_POOLS or not MEMORY[memory][1])]
    rows += [Row(driver, library, pool, mode, memory=memory, free_waits=waits, ordered="leaving", mempool="plain")
             for mode in MODES if runner.knows(library, mode) for driver in some_of(drivers)
             for pool in ("round", "segment", "vmm") for memory in ("ample", "surplus") for waits in (True, False)]
    return rows


def report_causes(rows):
    """Allocations that were refused and natively would not have been: how they come about, of those looked at."""
    causes = collections.Counter()
    for row in rows:
        for cause, count in row.causes.items():
            causes["limit" if "limit" in row.memory else "device", row.mode, cause] += count
    for (by, mode, cause), count in sorted(causes.items(), key=str):
        print("refused by the %s, %s: %d by %s" % (by, mode, count, cause))


def report(rows):
    form = "%-40s %9s %10s %11s %9s %8s %6s %6s %8s %7s %8s %5s %7s %8s %6s"
    shown = ("programs", "steps", "allocations", "reuses", "pending_reuses", "early_reuses", "wrong", "refused",
             "refused_beside", "refused_captured", "hung", "stalled", "longest_ms")
    print(form % ("row", "programs", "steps", "allocations", "reuses", "pending", "early", "wrong", "refused", "beside",
                  "captured", "hung", "stalled", "most ms", "s"))
    total = dict.fromkeys(FIELDS, 0)
    for row in rows:
        print(form % ((row.name,) + tuple(row.figures[name] for name in shown) + ("%.1f" % row.seconds,)))
        for name in FIELDS:
            total[name] = (max if name == "longest_ms" else lambda a, b: a + b)(total[name], row.figures[name])
    print(form % (("all",) + tuple(total[name] for name in shown) + ("",)))
    report_causes(rows)
    for row in rows:
        for problem in row.problems:
            print("\n%s: %s" % (row.name, problem))
    return not any(row.problems for row in rows)


def built(runner, text, compiler):
    """The printed program, compiled."""
    source, target = os.path.join(runner.folder, "printed.c"), os.path.join(runner.folder, "printed")
    with open(source, "w") as file:
        file.write(text)
    here = os.path.dirname(os.path.abspath(__file__))
    subprocess.run(compiler + ["-w", "-D_GNU_SOURCE", "-I", here, source, os.path.join(here, "turns.c"), "-L", runner.sim,
                               "-l:libcuda.so.1", "-ldl", "-pthread", "-o", target], check=True)
    return target


def early_reuses(runner, row, program):
    stats = os.path.join(runner.folder, "stats.json")
    env = dict(runner.environment(row), SIMCUDA_STATS=stats)
    result = subprocess.run([program], env=env, cwd=runner.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            universal_newlines=True, timeout=60)
    if result.returncode != 0:
        raise SystemExit("the printed program says %d: %s" % (result.returncode, result.stdout))
    with open(stats) as file:
        return json.load(file)["early_reuse"]


def unsafe(runner, library, good_library, compiler):
    """The library without its rules is caught, the program that shows it gets small, and its C shows it, too."""
    row = Row("13000", library, "round", "auto")
    good = Row("13000", good_library, "round", "context")
    result = runner.call(row, False, ["--keep-going", 1, 20], 120)
    match = RESULT.search(result.stdout)
    print(result.stdout, end="")
    first = int(match.group(1 + FIELDS.index("first_wrong"))) if match else 0
    if not 1 <= first <= 5:
        print("not caught by the first 5 programs\n%s" % result.stderr)
        return False
    small = runner.call(row, False, ["--shrink", first], 300)
    print(small.stderr + small.stdout)
    steps = len(re.findall(r"^ *\d+: ", small.stderr, re.M))
    if not 1 <= steps <= 8:
        print("it has %d steps" % steps)
        return False
    program = built(runner, small.stdout, compiler)
    if not early_reuses(runner, row, program) or early_reuses(runner, good, program):
        print("its C does not show what it did")
        return False
    for seed in range(1, 40):  # with threads that take turns inside each other's calls
        text = runner.call(row, False, ["--c", seed], 60).stdout
        if "turns_take" not in text or runner.call(row, False, [seed], 60).returncode == 0:
            continue
        program = built(runner, text, compiler)
        print("seed %d in C: %d early reuses, %d under the library" % (
            seed, early_reuses(runner, row, program), early_reuses(runner, good, program)))
        return early_reuses(runner, row, program) > 0 and early_reuses(runner, good, program) == 0
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--programs", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only-seed", type=int, metavar="S")
    parser.add_argument("--row", default="", metavar="PATTERN")
    parser.add_argument("--waits", action="store_true")
    parser.add_argument("--late", action="store_true")
    parser.add_argument("--ordered", action="store_true")
    parser.add_argument("--newer", action="store_true")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--library", metavar="PATH")
    parser.add_argument("--limit-s", type=int, default=LIMIT_S, help="for one program")
    parser.add_argument("--most-hung", type=int, default=1, help="programs that do not end, before a row ends")
    parser.add_argument("--unsafe", nargs=argparse.REMAINDER, metavar="CC")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--no-shrink", action="store_true")
    options = parser.parse_args()
    options.programs //= PART
    build = os.path.abspath(options.build)
    with tempfile.TemporaryDirectory(prefix="gpupool-oracle-") as folder:
        runner = Runner(build, folder, not options.no_shrink, options.limit_s, options.most_hung, options.set,
                        options.late)
        library = os.path.abspath(options.library or runner.library)
        if options.unsafe:
            unsafe_library = os.path.join(build, "test", "interpose", UNSAFE)
            return 0 if unsafe(runner, unsafe_library, library, options.unsafe) else 1
        make_rows = {(False, False): rows_of, (True, False): waiting_rows, (False, True): ordered_rows,
                     (True, True): ordered_waiting_rows}[options.waits or options.late, options.ordered]
        drivers = NEWER_DRIVERS if options.newer else ORDERED_DRIVERS if options.ordered else DRIVERS
        all_rows = make_rows(runner, library, drivers)
        rows = [row for row in all_rows if re.search(options.row, row.name)]
        if not rows:
            sys.stderr.write("run.py: no row matches %s\n" % options.row)
            return 1
        each = -(-options.programs // len(rows))
        first = [options.seed + i * each for i in range(len(rows))]
        if options.only_seed is not None:
            each, first = 1, [options.only_seed] * len(rows)
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(lambda row, seed: runner.run_row(row, seed, each), rows, first))
        for row in rows:
            judge(row, bool(options.set))
        return 0 if report(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
