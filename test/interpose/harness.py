"""What the preload tests share: whole programs run on the simulated GPU, with and without libgpupool.so.

Paths come from the environment that Meson sets: GP_LIBRARY, GP_UNSAFE_LIBRARY, GP_SYSTEM_CLOCK_LIBRARY and
GP_VIRTUAL_CLOCK (both may be unset), GP_SIM (folder of the simulated libraries), GP_PROG (folder of the programs),
GP_SOURCE (the source tree), GP_TOOL (the gpupool tool, may be unset), GP_EMULATOR (the command that runs programs of
another architecture, may be unset).
"""

import bisect
import concurrent.futures
import csv
import functools
import glob
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

import jsonschema

LIBRARY = os.environ["GP_LIBRARY"]
UNSAFE_LIBRARY = os.environ["GP_UNSAFE_LIBRARY"]
SYSTEM_CLOCK_LIBRARY = os.environ.get("GP_SYSTEM_CLOCK_LIBRARY")
VIRTUAL_CLOCK = os.environ.get("GP_VIRTUAL_CLOCK")
SIM = os.environ["GP_SIM"]
PROG = os.environ["GP_PROG"]
SOURCE = os.environ["GP_SOURCE"]
LEAK_CHECKER = os.environ.get("GP_LEAK_CHECKER")  # a library; unset or empty where there is none
POOR_HOST = os.environ.get("GP_POOR_HOST")  # test/tools/poor_host.c, likewise
SANITIZED = os.environ.get("GP_SANITIZED", "none") != "none"  # built with a sanitizer
def may_unshare(what):
    """For root, outside of a chroot and of containers that forbid it."""
    return os.geteuid() == 0 and shutil.which("unshare") is not None and subprocess.run(
        ["unshare", *what, "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0


MAY_MOUNT = may_unshare(["--mount"])
QUICK = os.environ.get("GP_QUICK") in ("1", "2")  # some places where all could be tried: `meson test --setup quick`
unless_short = unittest.skipIf(os.environ.get("GP_QUICK") == "2", "takes long: --setup short leaves it out")
EMULATOR = os.environ.get("GP_EMULATOR", "").split()  # for programs of another architecture

sys.path.insert(0, os.path.join(SOURCE, "test", "tools"))
from schema_judge import Judge  # noqa: E402

GIB = 1 << 30
MAKING_FOLDERS = threading.Lock()
RECORDS = "/dev/shm"  # where the library has them by default
COLUMNS = ("action", "detail", "time_ns", "device", "stream", "thread", "address", "size", "rounded_size", "block",
           "hit", "duration_ns", "lifetime_ns", "stack")


# Of the real traces, what the project's own are not: a step forwards only, and memory that comes and goes with layers.
OTHER_SHAPES = ("forward-small.csv", "offload-infer.csv")


def programs(count):
    """Numbers of random programs: so many from 0 on, or those that scripts/soak.sh asks for."""
    first, count = map(int, os.environ.get("GP_SOAK", "0 %d" % count).split())
    return range(first, first + count)


def careful_tool():
    """The environment in which the tool ends with another status if it has lost memory, or not closed a file."""
    return {"LD_PRELOAD": POOR_HOST + ":" + LEAK_CHECKER} if POOR_HOST and LEAK_CHECKER else {}


def choices_of(option):
    """Of an option of the library; none where it has no such option."""
    with open(os.path.join(SOURCE, "base", "options.def")) as file:
        found = re.search(r'^OPTION\(\w+, "%s", CHOICE, "\w+", 0, 0, "([^"]*)"' % option, file.read(), re.M)
    return found.group(1).split("|") if found else []


WORKLOADS = os.path.join(os.path.dirname(PROG), "workloads")
ASYNC_MODES = [{"ASYNC": choice} for choice in choices_of("ASYNC")] or [{}]


def real_traces():
    return sorted(glob.glob(os.path.join(SOURCE, "..", "shared", "traces", "*.csv")))


def trace_shapes():
    """The project's own traces, and a real one of each other shape: for what depends on neither sizes nor places in memory.

    If it is to be quick, the project's own. Those named sizes- are for figures.
    """
    own = sorted(path for path in glob.glob(os.path.join(WORKLOADS, "*.csv")) if not os.path.basename(path).startswith("sizes-"))
    return own if QUICK else own + [path for path in real_traces() if os.path.basename(path) in OTHER_SHAPES]


def trace_files():
    """The project's own traces, and all real ones where their folder exists beside the source tree.

    With a sanitizer, and if it is to be quick, those of trace_shapes(): a second training step leads to no other code. The
    figures of each are in whole runs of a build without one.
    """
    shapes = trace_shapes()
    return shapes if SANITIZED or QUICK else [path for path in shapes if path not in real_traces()] + real_traces()


def record_parent():
    """RECORDS if it has room for those of many programs, as a container's seldom has: on a disk each page costs a read."""
    try:
        room = os.statvfs(RECORDS)
    except OSError:
        return None
    return RECORDS if os.access(RECORDS, os.W_OK) and room.f_bavail * room.f_frsize >= GIB else None


@functools.lru_cache
def snapshot_judge():
    with open(os.path.join(SOURCE, "trace", "snapshot.schema.json")) as file:
        schema = json.load(file)
    return Judge(schema, jsonschema.validators.validator_for(schema))


class Trace:
    """What a trace must add up to, computed from the CSV alone."""

    def __init__(self, path):
        self.path = path
        self.allocations = self.frees = self.peak = 0
        live = {}
        held = 0
        with open(path, newline="") as file:
            for row in csv.DictReader(file):
                if row["op"] == "A":
                    self.allocations += 1
                    live[row["id"]] = int(row["size"])
                    held += int(row["size"])
                    self.peak = max(self.peak, held)
                else:
                    self.frees += 1
                    held -= live.pop(row["id"])
        self.survivors = len(live)


class Run:
    """One finished program: status, what it printed, what the simulator counted, the snapshots it left."""

    def __init__(self, result, folder, log):
        self.status = result.returncode
        self.out = result.stdout
        self.err = result.stderr
        self.messages = [line for line in self.err.splitlines() if line.startswith("gpupool: ")]
        self.folder = folder
        self.log = log
        self.sim = None
        stats = os.path.join(folder, "sim.json")
        if os.path.exists(stats):
            with open(stats) as file:
                self.sim = json.load(file)

    def snapshot_paths(self, reason="*"):
        return sorted(glob.glob(os.path.join(self.folder, "snapshot.*." + reason + ".json")))

    def snapshot(self, reason="exit"):
        paths = self.snapshot_paths(reason)
        assert len(paths) == 1, "%d snapshots of reason %s: %s\n%s" % (len(paths), reason, paths, self.err)
        with open(paths[0]) as file:
            return json.load(file)

    def field(self, name):
        """A key=value of the program's last line."""
        return int(re.search(r"\b%s=(\d+)" % name, self.out.splitlines()[-1]).group(1))

    def calls(self):
        return self.sim["calls"]


class Places:
    """Pieces of memory by (device, address), with their sizes."""

    def __init__(self):
        self.sizes = {}
        self.order = []

    def add(self, key, size):
        bisect.insort(self.order, key)
        self.sizes[key] = size

    def remove(self, key):
        del self.order[bisect.bisect_left(self.order, key)]
        return self.sizes.pop(key)

    def before(self, key):
        """The last one that begins at key or before, or None."""
        i = bisect.bisect_right(self.order, key)
        return self.order[i - 1] if i > 0 and self.order[i - 1][0] == key[0] else None

    def holds(self, key, size):
        place = self.before(key)
        return place is not None and key[1] + size <= place[1] + self.sizes[place]

    def cover(self, key, size):
        """The same for pieces that follow each other."""
        end = key[1] + size
        while key[1] < end:
            place = self.before(key)
            if place is None or place[1] + self.sizes[place] <= key[1]:
                return False
            key = (key[0], place[1] + self.sizes[place])
        return True

    def joined(self):
        """Sizes of what is there without a gap."""
        result, last = {}, None
        for key in self.order:
            if last and last[0] == key[0] and last[1] + result[last] == key[1]:
                result[last] += self.sizes[key]
            else:
                result[key] = self.sizes[key]
                last = key
        return result

    def overlaps(self, key, size):
        place = self.before((key[0], key[1] + max(size, 1) - 1))
        return place is not None and place[1] + self.sizes[place] > key[1]


class PreloadCase(unittest.TestCase):
    maxDiff = None
    leaks_are_errors = False  # programs that lose host memory under the library, it or they, end with status 23

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="gpupool-test-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.record_folder = tempfile.mkdtemp(prefix="gpupool-test-", dir=record_parent())
        self.addCleanup(shutil.rmtree, self.record_folder)
        self.numbers = itertools.count(1)  # one for all threads of in_parallel
        self.runs = 0  # number of the last run

    @staticmethod
    def in_parallel(function, items):
        """Calls function with each item, as many at a time as there are processors; the first exception is raised here."""
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for _ in pool.map(function, items):
                pass

    def driver_folder(self, version):
        """A folder whose libcuda.so.1 is the driver of that version, with the exports that it had."""
        folder = os.path.join(self.folder, "driver-" + version)
        with MAKING_FOLDERS:  # threads of in_parallel ask at once
            if not os.path.exists(folder):
                os.mkdir(folder)
                name = "libcuda.so.1" if version == "13000" else "libcuda-%s.so" % version
                self.assertTrue(os.path.exists(os.path.join(SIM, name)), "the simulator has no driver " + version)
                os.symlink(os.path.join(SIM, name), os.path.join(folder, "libcuda.so.1"))
        return folder

    def run_program(self, name, *args, preload=LIBRARY, log=False, timeout=300, prefix=(), driver=None,
                    virtual_clock=False, check_books=True, **settings):
        """Runs a program of test/prog (or an absolute path). preload=None: without the library.

        driver: the version of the driver that is found, with its exports ("12040"); by default that of SIM.
        virtual_clock: sleeping takes no time but moves the clock on (test/sim/virtual_clock.c), for the program, the
        library and the driver alike.
        check_books: what the snapshots say adds up.
        settings are environment variables: LIMIT="1GiB" is GPUPOOL_LIMIT, names with SIMCUDA_ and GP_ stay as they are.
        """
        self.runs = number = next(self.numbers)
        folder = os.path.join(self.folder, "run%d" % number)
        os.mkdir(folder)
        env = {key: value for key, value in os.environ.items() if not key.startswith(("GPUPOOL_", "SIMCUDA_"))}
        env["LD_LIBRARY_PATH"] = (self.driver_folder(driver) + ":" if driver else "") + SIM
        env["XDG_CONFIG_HOME"] = folder  # without gpupool.conf
        env["SIMCUDA_STATS"] = os.path.join(folder, "sim.json")
        log_path = os.path.join(folder, "sim.log")
        if log:
            env["SIMCUDA_LOG"] = log_path
        if virtual_clock and preload == LIBRARY:
            preload = SYSTEM_CLOCK_LIBRARY
        libraries = [preload] * bool(preload) + [VIRTUAL_CLOCK] * virtual_clock
        if preload and self.leaks_are_errors and LEAK_CHECKER:
            libraries.append(LEAK_CHECKER)
        if libraries:
            env["LD_PRELOAD"] = ":".join([env.get("LD_PRELOAD", "")] + libraries).lstrip(":")
        if preload:
            env["GPUPOOL_RECORD"] = self.record_folder
            env["GPUPOOL_OUTPUT"] = os.path.join(folder, "snapshot.%p.%n.%r.json")
        for key, value in settings.items():
            env[key if key.startswith(("SIMCUDA_", "GP_")) else "GPUPOOL_" + key] = value
        path = name if os.path.isabs(name) else os.path.join(PROG, name)
        command = list(prefix) + [path] + list(args)
        if EMULATOR:  # it pays for address space, and must not take the loader's variables for its own
            env.setdefault("SIMCUDA_CAPACITY", "64MiB")
            loader = [["-E", key + "=" + env.pop(key)] for key in ("LD_PRELOAD", "LD_LIBRARY_PATH") if key in env]
            command = EMULATOR + sum(loader, []) + command
        result = subprocess.run(command, env=env, cwd=folder, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, universal_newlines=True, timeout=timeout, errors="replace")
        if result.returncode < 0:
            self.fail("%s %s died of %s\n%s" % (name, " ".join(args), signal.Signals(-result.returncode).name,
                                               result.stderr[-4000:]))
        run = Run(result, folder, log_path)
        for path in run.snapshot_paths() if check_books else ():
            with open(path) as file:
                self.expect_books(json.load(file))
        return run

    def expect_clean(self, run):
        """No access by work of an earlier owner, and what was read is what was written."""
        self.assertEqual(run.sim["violations"], 0, run.err[-2000:])
        self.assertEqual(run.sim["corrupt_stamps"], 0)

    def expect_valid(self, snapshot, schema=True):
        """The promises of trace/FORMAT.md."""
        if schema:
            snapshot_judge().check(snapshot)
        events = snapshot["events"]
        lengths = {name: len(events[name]) for name in COLUMNS}
        self.assertEqual(len(set(lengths.values())), 1, lengths)
        self.assertEqual(events["time_ns"], sorted(events["time_ns"]))
        for device in snapshot["devices"]:
            for name, gauge in device["stats"].items():
                if isinstance(gauge, dict):
                    self.assertEqual(gauge["current"], gauge["allocated"] - gauge["freed"], name)
                    self.assertLessEqual(gauge["current"], gauge["peak"], name)
        self.expect_history(snapshot)

    def expect_books(self, snapshot):
        """What statistics say is what segments and passthrough add up to, and events, if none is missing."""
        for device in snapshot["devices"]:
            stats, number = device["stats"], device["device"]
            gauges = {name: gauge["current"] for name, gauge in stats.items() if isinstance(gauge, dict)}
            segments = [segment for segment in snapshot["segments"] if segment["device"] == number]
            blocks = [block for segment in segments for block in segment["blocks"]]
            held = [block for block in blocks if block["state"] == "active_allocated"]
            of_states = {state: sum(block["size"] for block in blocks if block["state"] == state)
                         for state in ("active_pending_free", "inactive")}
            in_pieces = sum(block["size"] for segment in segments if segment["active_size"]
                            for block in segment["blocks"] if block["state"] == "inactive")
            beside = [item for item in snapshot["passthrough"] if item["device"] == number]
            found = {
                "allocation": len(held),
                "allocated_bytes": sum(block["size"] for block in held),
                "requested_bytes": sum(block["requested_size"] for block in held),
                "reserved_bytes": sum(segment["total_size"] for segment in segments),
                "deferred_bytes": of_states["active_pending_free"],
                "cached_bytes": of_states["inactive"],
                "active_bytes": sum(segment["active_size"] for segment in segments),
                "passthrough_bytes": sum(item["size"] for item in beside if item["kind"] != "pinned_host"),
                "pinned_host_bytes": sum(item["size"] for item in beside if item["kind"] == "pinned_host"),
            }
            if not maps_memory(snapshot):
                found.update(segment=len(segments), inactive_split_bytes=in_pieces)
            if snapshot["reason"] != "exit" or len(snapshot["threads"]) > 1:  # other threads may be in the middle of a call
                del found["passthrough_bytes"], found["pinned_host_bytes"]
                # What one of them gives back to the driver is listed as what it was, and no longer counted so
                for name in ("allocation", "allocated_bytes", "requested_bytes", "deferred_bytes", "cached_bytes", "active_bytes"):
                    self.assertLessEqual(gauges[name], found.pop(name), name)
                found.pop("inactive_split_bytes", None)
            self.assertEqual({name: gauges[name] for name in found}, found, "device %d" % number)
            if snapshot["settings"].get("trace") == "all" and not snapshot["recorded_since_ns"]:
                self.expect_counted(stats, [event for event in rows_of(snapshot) if event["device"] == number],
                                     maps_memory(snapshot))

    def expect_counted(self, stats, events, is_mapped):
        """Sums of a device's events are those of its statistics. Mapped memory that moves goes and comes."""
        by = {}
        for event in events:
            by.setdefault(event["action"], []).append(event)
        allocs, frees = by.get("alloc", []), by.get("free_requested", [])
        came, went = by.get("segment_alloc", []), by.get("segment_free", [])
        found = {
            "allocation": (len(allocs), len(frees)),
            "allocated_bytes": (sum(e["rounded_size"] for e in allocs), sum(e["rounded_size"] for e in frees)),
            "requested_bytes": (sum(e["size"] for e in allocs), sum(e["size"] for e in frees)),
            "reserved_bytes": (sum(e["size"] for e in came), sum(e["size"] for e in went)),
            "segment": (len(came), len(went)),
        }
        told = {name: (stats[name]["allocated"], stats[name]["freed"]) for name in found}
        for sums in (found, told) if is_mapped else ():
            for name in ("reserved_bytes", "segment"):
                sums[name] = sums[name][0] - sums[name][1]
        self.assertEqual(told, found)
        hits = sum(e["hit"] for e in allocs)
        self.assertEqual((stats["cache_hits"], stats["cache_misses"], stats["num_ooms"]),
                         (hits, len(allocs) - hits, len(by.get("oom", []))))

    def expect_covered(self, snapshot):
        """The blocks of a segment lie side by side, and are all of it; idle ones are no neighbours."""
        for segment in snapshot["segments"]:
            end = segment["address"]
            for block in segment["blocks"]:
                self.assertEqual(block["address"], end)
                end += block["size"]
            self.assertEqual(end, segment["address"] + segment["total_size"])
            if len(segment["blocks"]) > 1:
                idle = [block for block in segment["blocks"] if block["state"] == "inactive"]
                self.assertEqual({(b["block"], b["requested_size"], b["time_ns"], b["stack"]) for b in idle} - {(0, 0, 0, -1)}, set())
                states = [block["state"] for block in segment["blocks"]]
                if not maps_memory(snapshot):  # what a stream has freed is apart until the device is done with it
                    self.assertNotIn(("inactive", "inactive"), list(zip(states, states[1:])))

    def expect_history(self, snapshot):
        """Replays the events: every block lies in a segment, no byte has two owners, and what is live at the end is
        what the segments say. Mapped segments that follow each other are one."""
        self.expect_covered(snapshot)
        if snapshot["recorded_since_ns"]:
            return
        events = snapshot["events"]
        actions = events["actions"]
        live = {}
        live_sizes = Places()
        segments = Places()
        is_mapped = maps_memory(snapshot)
        for i, index in enumerate(events["action"]):
            action = actions[index] if isinstance(index, int) else index
            key = (events["device"][i], events["address"][i])
            if action == "segment_alloc":
                self.assertFalse(segments.overlaps(key, events["size"][i]), "segment twice at event %d" % i)
                segments.add(key, events["size"][i])
            elif action == "segment_free":
                self.assertIn(key, segments.sizes, "unknown segment freed at event %d" % i)
                size = segments.remove(key)
                self.assertFalse(live_sizes.overlaps(key, size), "segment freed with a block at event %d" % i)
            elif action == "alloc":
                size = events["rounded_size"][i]
                self.assertTrue(segments.cover(key, size) if is_mapped else segments.holds(key, size), "block outside a segment at event %d" % i)
                self.assertFalse(live_sizes.overlaps(key, size), "block with two owners at event %d" % i)
                live[key] = events["block"][i]
                live_sizes.add(key, size)
            elif action == "free_completed":
                self.assertEqual(live.pop(key, None), events["block"][i], "event %d" % i)
                live_sizes.remove(key)
        at_end = Places()
        for segment in snapshot["segments"]:
            at_end.add((segment["device"], segment["address"]), segment["total_size"])
        self.assertEqual(at_end.joined() if is_mapped else at_end.sizes, segments.joined() if is_mapped else segments.sizes)
        held = {(s["device"], b["address"]): b["block"] for s in snapshot["segments"] for b in s["blocks"]
                if b["state"] != "inactive"}
        self.assertEqual(held, live)


def maps_memory(snapshot):
    """Segments may be mapped memory: with type vmm, and where the program asked for memory in streams."""
    is_served = snapshot["settings"].get("async", "pool") == "pool" and any(stream >= 0 for stream in snapshot["events"]["stream"])
    return snapshot["settings"].get("type") == "vmm" or is_served or any(segment["context"] == 0 for segment in snapshot["segments"])


def rows_of(snapshot):
    """The events, each as a dictionary, with the names of actions and details."""
    events = snapshot["events"]
    names = {"action": events["actions"], "detail": events["details"]}
    for row in zip(*(events[name] for name in COLUMNS)):
        event = dict(zip(COLUMNS, row))
        for name, table in names.items():
            if isinstance(event[name], int):
                event[name] = table[event[name]]
        yield event


def stats_of(snapshot, device=0):
    return next(d["stats"] for d in snapshot["devices"] if d["device"] == device)


def count_actions(snapshot, but=()):
    """Events by action, without those of the details in but."""
    events = snapshot["events"]
    counts = {}
    for index, detail in zip(events["action"], events["detail"]):
        name = events["actions"][index] if isinstance(index, int) else index
        if (events["details"][detail] if isinstance(detail, int) else detail) not in but:
            counts[name] = counts.get(name, 0) + 1
    return counts
