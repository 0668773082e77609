"""Traces of allocations under the library, for table.py: memory held over memory in use, and calls of the driver."""

import glob
import math
import os
import re
import subprocess

import runs

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
# The driver's functions that get, give back or map memory of the device
MEMORY = re.compile(r"cuMem(Alloc|Free|Create|Release|Map|Unmap|SetAccess|AddressReserve|AddressFree)(_v\d+)?$")
PAGE = 2 << 20  # of the device
OTHER_TYPES = ("naive", "round", "segment", "vmm")  # in the order of the table; those that the library has
# Of a type: most of the geometric mean and of the worst of memory held over memory in use, calls cold, calls of a third pass
GOALS = {"segment": (1.06, 1.24, 165, 10), "vmm": (1.02, 1.04, 3500, 20)}


def paths(build):
    found = sorted(glob.glob(os.path.join(build.path, "test", "workloads", "*.csv")))
    return found + sorted(glob.glob(os.path.join(ROOT, "..", "shared", "traces", "*.csv")))


def types():
    with open(os.path.join(ROOT, "base", "options.def")) as file:
        known = re.search(r'^OPTION\(type, .*?"([a-z|]*\|[a-z|]*)"', file.read(), re.M).group(1).split("|")
    return [name for name in OTHER_TYPES if name in known]


class Replay:
    """One replay: memory held at most over memory in use at most, and how often the driver was called for memory."""

    def __init__(self, build, path, kind, sync_every, passes):
        command = [os.path.join(build.path, "test", "prog", "replay"), path, "--sync-every", str(sync_every),
                   "--repeat", str(passes)]
        settings = {"GPUPOOL_TYPE": kind, "GPUPOOL_TRACE": "off", "GPUPOOL_REUSE": "context"}
        output, counts = runs.run(build, command, settings, build.library)
        self.used = int(re.search(r"peak_requested=(\d+)", output).group(1))
        self.held = counts["peak_bytes"][0] / self.used
        self.calls = sum(count for name, count in counts["calls"].items() if MEMORY.match(name))


CAPACITY = 1.05  # times the memory in use at most


def completes(build, path, kind, used):
    """Whether no allocation fails on a device that has little more than is in use at most."""
    command = [os.path.join(build.path, "test", "prog", "replay"), path, "--sync-every", "1", "--strict"]
    settings = {"GPUPOOL_TYPE": kind, "GPUPOOL_TRACE": "off", "GPUPOOL_SNAPSHOT_AT": "none", "GPUPOOL_RESERVE": "0",
                "GPUPOOL_LOG": os.devnull, "SIMCUDA_CAPACITY": str(int(CAPACITY * used) + PAGE - 1 & -PAGE)}
    try:
        runs.run(build, command, settings, build.library)
    except subprocess.CalledProcessError as error:
        if error.returncode != 1:
            raise
        return False
    return True


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def show(build, goals, heading, line):
    """heading, line: how table.py prints. A synchronization after every row makes every free reusable at once."""
    found = paths(build)
    heading("Traces: bytes held over bytes in use, and calls of the driver for memory", (
        "at once", "64 later", "calls, cold", "3rd pass", "fits %.2f" % CAPACITY))
    for kind in types():
        rows = []
        for path in found[:2] if build.is_quick else found:
            cold = Replay(build, path, kind, 1, 1)
            later = Replay(build, path, kind, 64, 1)
            third = Replay(build, path, kind, 1, 3).calls - Replay(build, path, kind, 1, 2).calls
            fits = completes(build, path, kind, cold.used)
            rows.append((cold.held, later.held, cold.calls, third, fits))
            line("%s, %s" % (kind, os.path.basename(path)[:-4][:32]),
                 ("%.2f" % cold.held, "%.2f" % later.held, cold.calls, third, "yes" if fits else "no"))
        at_once, later, calls, third, fits = zip(*rows)
        line("%s: mean" % kind, ("%.2f" % mean(at_once), "%.2f" % mean(later), "%.0f" % (sum(calls) / len(calls)),
                                 "%.0f" % (sum(third) / len(third)), "%d of %d" % (sum(fits), len(fits))))
        line("%s: worst" % kind, ("%.2f" % max(at_once), "%.2f" % max(later), max(calls), max(third), ""))
        if kind in GOALS:
            mean_goal, worst_goal, calls_goal, third_goal = GOALS[kind]
            goals.at_most("traces, held over used, mean, type %s" % kind, mean(at_once), mean_goal, "%.2f")
            goals.at_most("traces, held over used, worst, type %s" % kind, max(at_once), worst_goal, "%.2f")
            goals.at_most("traces, calls of the driver cold, most, type %s" % kind, max(calls), calls_goal, "%.0f")
            goals.at_most("traces, calls of the driver in a third pass, most, type %s" % kind, max(third), third_goal, "%.0f")
    for kind in GOALS:
        if kind not in types():
            goals.unknown("traces, held over used, mean and worst, type %s" % kind, "%.2f, %.2f" % GOALS[kind][:2], "no such type")
