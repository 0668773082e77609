#!/usr/bin/env python3
"""Runs random programs under the library, every pool type by reuse mode by driver, and judges each by the oracle.

    test/oracle/run.py BUILD                          10,000 programs
    test/oracle/run.py BUILD --programs N --seed S    N of them, the seeds from S on (soak.sh: without end)
    test/oracle/run.py BUILD --only-seed S            that program, in every row, in turns
    test/oracle/run.py BUILD --row PATTERN            only the rows whose name matches, as in "round context 12.5"
    test/oracle/run.py BUILD --unsafe CC...           the library that reuses at once: has to be caught, and the C that
                                                      is printed, compiled by CC..., has to show it

Each row has its own seeds, and its programs run in two ways: in turns, which a seed repeats exactly, and with their
threads running freely. What is wrong is made small and printed as C that shows it. Exit status: 0 nothing wrong, and memory
was really reused; 1 otherwise.
"""

import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile
import time

# Of a mode: whether memory may be handed out while work of its earlier owner is pending (all later work being ordered
# behind it). A mode that the library does not know is left out.
MODES = {"strict": False, "context": False, "epoch": False, "single": True, "auto": True}
TYPES = ("round", "naive", "unpooled")
DRIVERS = {"11080": "11.8", "12040": "12.4", "12050": "12.5", "13000": "13.0"}
FENCE_SINCE = 12050
DEFERRED = {"small": "4096", "large": None}  # GPUPOOL_MAX_DEFERRED: small has the library wait and fence often

# Reuses in 100 allocations, at least: with fewer the programs prove nothing, or the library waits for more than it has to.
LEAST_REUSES = {("strict", "small"): 25, ("strict", "large"): 25, ("context", "small"): 20, ("context", "large"): 8,
                ("epoch", "small"): 25, ("epoch", "large"): 10, ("single", "small"): 27, ("single", "large"): 17}
# And of these with work of the earlier owner pending, where the mode allows that: memory handed out at once.
LEAST_PENDING = {"single": 4}
LEAST_ALLOCATIONS = 1000  # before that is asked
FREELY = 0.3  # of the programs
RESULT = re.compile(r"^programs=(\d+) steps=(\d+) allocations=(\d+) reuses=(\d+) pending_reuses=(\d+) "
                    r"early_reuses=(\d+) wrong=(\d+) first_wrong=(\d+)$", re.M)
FIELDS = ("programs", "steps", "allocations", "reuses", "pending_reuses", "early_reuses", "wrong", "first_wrong")


class Row:
    def __init__(self, driver, library=None, pool=None, mode=None, deferred="large"):
        self.driver, self.preload, self.pool, self.mode, self.deferred = driver, library, pool, mode, deferred
        self.name = "%s %s %s" % (pool, mode, DRIVERS[driver]) if library else "no library %s" % DRIVERS[driver]
        if library and deferred == "small":
            self.name += " small"
        self.figures = dict.fromkeys(FIELDS, 0)
        self.problems = []


class Runner:
    def __init__(self, build, folder, shrink):
        self.program = os.path.join(build, "test", "oracle", "reuse_programs")
        self.sim = os.path.join(build, "test", "sim")
        self.folder = folder
        self.shrink = shrink
        for driver in DRIVERS:
            path = os.path.join(folder, driver)
            os.mkdir(path)
            name = "libcuda.so.1" if driver == "13000" else "libcuda-%s.so" % driver
            os.symlink(os.path.join(self.sim, name), os.path.join(path, "libcuda.so.1"))

    def environment(self, row):
        env = {key: value for key, value in os.environ.items() if not key.startswith(("GPUPOOL_", "SIMCUDA_"))}
        env.update(LD_LIBRARY_PATH=os.path.join(self.folder, row.driver) + ":" + self.sim, SIMCUDA_ORACLE="1",
                   SIMCUDA_DEVICES="2")
        if row.preload:
            env.update(LD_PRELOAD=(env.get("LD_PRELOAD", "") + ":" + row.preload).lstrip(":"), GPUPOOL_TYPE=row.pool,
                       GPUPOOL_REUSE=row.mode, GPUPOOL_SNAPSHOT_AT="none")
            if DEFERRED[row.deferred]:
                env["GPUPOOL_MAX_DEFERRED"] = DEFERRED[row.deferred]
        return env

    def options(self, row, freely):
        return (["--freely"] if freely else []) + ["--devices", "2", "--programmatic"] + (
            ["--ctx-events"] if int(row.driver) >= FENCE_SINCE else []) + (
            ["--no-pending"] if row.preload and not MODES[row.mode] else [])

    def call(self, row, freely, arguments, limit_s):
        return subprocess.run([self.program] + self.options(row, freely) + [str(a) for a in arguments],
                              env=self.environment(row), cwd=self.folder, stdout=subprocess.PIPE,
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
        result = self.call(row, freely, [first, count], 60 + count / 20)
        match = RESULT.search(result.stdout)
        if not match or result.returncode not in (0, 1):
            seed = self.died(row, freely, first, count)
            row.problems.append("seeds %d to %d%s: exit status %d%s\n%s" % (
                first, first + count - 1, " freely" if freely else "", result.returncode,
                ", by seed %d" % seed if seed else "", result.stderr[-2000:]))
            return
        figures = dict(zip(FIELDS, map(int, match.groups())))
        for name in FIELDS:
            row.figures[name] += figures[name]
        if figures["wrong"]:
            text = "%s%s" % (result.stderr[-1500:], self.repeat(row, freely, figures["first_wrong"]))
            if self.shrink and not freely:  # one will do
                self.shrink = False
                small = self.call(row, freely, ["--shrink", figures["first_wrong"]], 600)
                text += "\n" + small.stderr[-4000:] + small.stdout
            row.problems.append(text)

    def repeat(self, row, freely, seed):
        env = self.environment(row)
        names = sorted(name for name in env if name.startswith(("GPUPOOL_", "SIMCUDA_", "LD_")))
        return "To see it again: %s %s %d" % (" ".join("%s=%s" % (name, env[name]) for name in names),
                                             " ".join([self.program] + self.options(row, freely)), seed)

    def run_row(self, row, first, count):
        began = time.monotonic()
        free = int(count * FREELY)
        self.run(row, False, first, count - free)
        if free and not row.problems:
            self.run(row, True, first + count - free, free)
        row.seconds = time.monotonic() - began
        return row


def judge(row):
    figures = row.figures
    if row.problems or figures["wrong"]:
        return
    pooled = row.preload and row.pool != "unpooled"
    least = LEAST_REUSES.get((row.mode, row.deferred), LEAST_REUSES["context", row.deferred])
    if pooled and figures["allocations"] > LEAST_ALLOCATIONS and 100 * figures["reuses"] < least * figures["allocations"]:
        row.problems.append("memory was reused for fewer than %d of 100 allocations" % least)
    pending = LEAST_PENDING.get(row.mode, 0)
    if pooled and figures["allocations"] > LEAST_ALLOCATIONS and 100 * figures["pending_reuses"] < pending * figures["allocations"]:
        row.problems.append("memory was handed out at once for fewer than %d of 100 allocations" % pending)
    if not pooled and figures["reuses"]:
        row.problems.append("memory was reused without a pool")


def rows_of(runner, library):
    rows = [Row(driver) for driver in DRIVERS]
    for mode in MODES:
        if runner.knows(library, mode):
            rows += [Row(driver, library, pool, mode, deferred) for driver in DRIVERS for pool in TYPES
                     for deferred in DEFERRED if pool != "unpooled" or deferred == "large"]
    return rows


def report(rows):
    form = "%-28s %9s %10s %11s %9s %8s %6s %6s %6s"
    print(form % ("row", "programs", "steps", "allocations", "reuses", "pending", "early", "wrong", "s"))
    total = dict.fromkeys(FIELDS, 0)
    for row in rows:
        print(form % ((row.name,) + tuple(row.figures[name] for name in FIELDS[:7]) + ("%.1f" % row.seconds,)))
        for name in FIELDS:
            total[name] += row.figures[name]
    print(form % (("all",) + tuple(total[name] for name in FIELDS[:7]) + ("",)))
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
    subprocess.run(compiler + ["-w", "-I", here, source, os.path.join(here, "turns.c"), "-L", runner.sim,
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
    first = int(match.group(len(FIELDS))) if match else 0
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
    parser.add_argument("--unsafe", nargs=argparse.REMAINDER, metavar="CC")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--no-shrink", action="store_true")
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    library = os.path.join(build, "interpose", "libgpupool.so")
    with tempfile.TemporaryDirectory(prefix="gpupool-oracle-") as folder:
        runner = Runner(build, folder, not options.no_shrink)
        if options.unsafe:
            unsafe_library = os.path.join(build, "test", "interpose", "libgpupool_unsafe.so")
            return 0 if unsafe(runner, unsafe_library, library, options.unsafe) else 1
        rows = [row for row in rows_of(runner, library) if re.search(options.row, row.name)]
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
            judge(row)
        return 0 if report(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
