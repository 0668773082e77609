#!/usr/bin/env python3
"""The command line of gpupool.

    cli.py GPUPOOL PRELOAD_STUB [TEST ...]

Runs the tool as a user does: exit statuses, messages, files. The preload library is replaced by a stub, so that
nothing here depends on what a program does with CUDA.
"""

import glob
import importlib.util
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from terminal import open_terminal

for ignored in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(ignored) == signal.SIG_IGN:  # as in a job that a shell runs in the background: children inherit it
        signal.signal(ignored, signal.SIG_DFL)


def statistics(macro, more=""):
    """The names in format/stats.def, and what else the expression finds in the row."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "format", "stats.def"), encoding="utf-8") as file:
        return re.findall(r"^%s\((\w+)%s" % (macro, more), file.read(), re.MULTILINE)


GPUPOOL = STUB = None
LEAK_CHECKER = os.environ.get("GP_LEAK_CHECKER")  # a library; unset or empty where there is none
DONE, USAGE, INPUT, PARTIAL = 0, 2, 3, 4
FAILED, CANNOT_RUN, NOT_FOUND = 125, 126, 127  # of run
GAUGES, COUNTERS = statistics("GAUGE"), statistics("COUNTER")
COLUMNS = [
    "action", "time_ns", "device", "stream", "thread", "address", "size", "rounded_size", "block", "hit",
    "duration_ns", "lifetime_ns", "stack", "detail",
]
MIB = 1 << 20


def report_schema():
    """The JSON schema of the reports, as the build makes it."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts", "make-reports.py")
    spec = importlib.util.spec_from_file_location("make_reports", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Shapes().schema()


def workloads():
    """The traces that the build has made, without those that are for figures only."""
    made = glob.glob(os.path.join(os.path.dirname(GPUPOOL), "..", "test", "workloads", "*.csv"))
    return sorted(path for path in made if not os.path.basename(path).startswith("sizes-"))


def gauge(current=0, peak=None, allocated=None):
    peak = current if peak is None else peak
    allocated = peak if allocated is None else allocated
    return {"current": current, "peak": peak, "allocated": allocated, "freed": allocated - current}


def device_of(ordinal, **stats):
    values = {name: gauge() for name in GAUGES}
    values.update({name: 0 for name in COUNTERS})
    values.update({"cache_hit_rate": 0, "efficiency": 0, "fragmentation": 0})
    values.update(stats)
    return {"device": ordinal, "limit": None, "stats": values}


def snapshot_of(**changes):
    """A snapshot of a program that went well: 990 of 1,000 allocations were hits."""
    stats = {
        "allocation": gauge(0, 10, 1000), "allocated_bytes": gauge(0, 20 * MIB, 2000 * MIB),
        "requested_bytes": gauge(0, 19 * MIB, 1900 * MIB), "reserved_bytes": gauge(20 * MIB),
        "active_bytes": gauge(0, 20 * MIB, 2000 * MIB), "cached_bytes": gauge(20 * MIB), "segment": gauge(10),
        "cache_hits": 990, "cache_misses": 10, "driver_allocs": 10, "cache_hit_rate": 0.99,
    }
    events = {name: [0, 0, 0] for name in COLUMNS}
    events.update({
        "actions": ["alloc", "trim"], "details": ["", "idle"], "time_ns": [1000, 2000, 3000], "action": [0, 0, 1],
        "duration_ns": [90000, 0, 0], "detail": [0, 0, 1], "stream": [-1, -1, -1], "stack": [-1, -1, -1],
    })
    snapshot = {
        "format": "gpupool-snapshot", "version": 1, "reason": "exit",
        "process": {
            "start_time_us": 1760000000000000, "program": "/usr/bin/app", "command_line": ["app", "-n", "4"],
            "pid": 4711, "host": "node1", "rank": 0, "driver_version": 13000, "runtime_version": None,
        },
        "settings": {"type": "round", "limit": "none", "trace": "all", "trace_events": "131072", "sources": {}},
        "devices": [device_of(0, **stats)], "segments": [], "passthrough": [], "streams": [],
        "threads": [{"tid": 4711, "name": "app"}], "events": events, "stacks": [], "frames": [], "modules": [],
        "marks": [], "recorded_since_ns": 0, "dropped_events": 0,
    }
    snapshot.update(changes)
    return snapshot


def leaks_are_errors(arguments):
    """The environment in which the tool ends with another status if it has lost memory, or not closed a file (poor_host.c).
    `run` hands its environment on to a program, which may do that."""
    if not LEAK_CHECKER or arguments[:1] == ("run",):
        return {}
    beside = [os.path.join(os.path.dirname(STUB), "libpoor_host.so")] if STUB else []
    return {"LD_PRELOAD": ":".join(beside + [LEAK_CHECKER])}


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = os.path.realpath(tempfile.mkdtemp(prefix="gpupool-cli-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.environment = {
            "PATH": os.environ["PATH"], "HOME": self.folder, "TMPDIR": self.path("tmp"),
            # For builds with a sanitizer: the tool is run with a library preloaded.
            "ASAN_OPTIONS": "verify_asan_link_order=0",
            "LSAN_OPTIONS": "print_suppressions=0",  # it knows some of the loader's
        }
        for name in ("tree/tools", "tree/interpose", "work", "tmp"):
            os.makedirs(self.path(name))
        self.tool = shutil.copy(GPUPOOL, self.path("tree/tools/gpupool"))
        self.pool_library = shutil.copy(STUB, self.path("tree/interpose/libgpupool.so"))

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def run_tool(self, *arguments, status=DONE, stdin="", preexec_fn=None, **environment):
        environment = {**leaks_are_errors(arguments), **self.environment, **environment}
        result = subprocess.run(
            [self.tool, *arguments], input=stdin, cwd=self.path("work"), env=environment,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", timeout=60, preexec_fn=preexec_fn)
        if status is not None:
            self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        return result

    def write(self, name, content):
        path = self.path("work", name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(content if isinstance(content, str) else json.dumps(content))
        return path

    def write_program(self, name, text, mode=0o755):
        path = self.write(name, text)
        os.chmod(path, mode)
        return path

    def one_line(self, text):
        self.assertEqual(text.count("\n"), 1, text)
        self.assertTrue(text.startswith("gpupool: "), text)
        return text


class Tool(Case):
    def test_help_goes_to_stdout(self):
        for arguments in (["--help"], ["help"], ["-h"]):
            result = self.run_tool(*arguments)
            self.assertIn("gpupool run", result.stdout)
            self.assertEqual(result.stderr, "")
        for command in ("run", "summary", "config"):
            text = self.run_tool("help", command).stdout
            self.assertTrue(text.startswith("usage: gpupool " + command), text)
            self.assertEqual(text, self.run_tool(command, "--help").stdout)
            self.assertLessEqual(max(map(len, text.splitlines())), 80)

    def test_every_option_is_in_the_help(self):
        options = [o["name"] for o in json.loads(self.run_tool("config", "--json").stdout)["options"]]
        text = self.run_tool("help", "run").stdout
        for name in options:
            self.assertIn("--" + name + " ", text)

    def test_version(self):
        self.assertRegex(self.run_tool("--version").stdout, r"^gpupool \d+\.\d+\.\d+\n$")

    def test_usage_errors_are_one_line(self):
        for arguments, part in (
            ([], "a command is missing; try gpupool --help"),
            (["sumary"], "did you mean summary?"),
            (["zebra"], "unknown command zebra; try"),
            (["--zebra"], "unknown option --zebra"),
            (["help", "zebra"], "unknown command zebra"),
            (["summary"], "a file is missing; try gpupool summary --help"),
            (["summary", "--jsn", "x"], "unknown option --jsn (did you mean --json?)"),
            (["summary", "--device", "x", "y"], "--device=x is malformed"),
            (["summary", "x", "-o"], "-o needs a value"),
            (["run"], "a program is missing; try gpupool run --help"),
            (["run", "--limt", "8G", "--", "true"], "unknown option --limt (did you mean --limit?)"),
            (["run", "-x", "--", "true"], "unknown option -x"),
            (["run", "--limit", "--", "true"], "--limit needs a value"),
            (["run", "--limit"], "--limit needs a value"),
            (["config", "true"], "unexpected argument true"),
        ):
            result = self.run_tool(*arguments, status=FAILED if arguments[:1] == ["run"] else USAGE)
            self.one_line(result.stderr)
            self.assertIn(part, result.stderr)
            self.assertEqual(result.stdout, "")

    def test_a_full_disk_is_no_success(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("there is no /dev/full")
        with open("/dev/full", "w", encoding="utf-8") as full:
            for arguments in (["--help"], ["config"], ["config", "--json"]):
                result = subprocess.run([self.tool, *arguments], env=self.environment, stdout=full,
                                        stderr=subprocess.PIPE, check=False)
                self.assertEqual(result.returncode, INPUT)


    def test_what_cannot_be_written_whole_leaves_nothing(self):
        """A full disk, for which a limit on the size of files stands here."""
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))

        path = self.write("s.json", snapshot_of())
        self.write("kept.json", "before")
        for command in ("summary", "symbolize"):
            for options in (("-o", "new.json"), ("-o", "kept.json", "--force")):
                result = subprocess.run([self.tool, command, path, *options], cwd=self.path("work"), env=self.environment,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
                                        preexec_fn=limit, timeout=60, check=False)
                if "symbolize needs " in result.stderr:
                    continue
                self.assertEqual(result.returncode, INPUT, result.stderr)
                self.assertIn(options[1] + ": File too large", result.stderr)
                self.assertEqual(sorted(os.listdir(self.path("work"))), ["kept.json", "s.json"])
        with open(self.path("work", "kept.json"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "before")

    def test_a_process_number_is_one(self):
        for text in ("abc", "0", "-1", "1x", "99999999999"):
            for arguments in (("live", "--", text), ("ctl", "--", text, "stats")):
                if arguments[0] == "live":
                    arguments = ("live", text)
                result = self.run_tool(*arguments, status=USAGE)
                self.one_line(result.stderr)
        self.assertIn("abc is not a process id", self.run_tool("live", "abc", status=USAGE).stderr)


class Config(Case):
    def options(self, *arguments, status=DONE, **environment):
        text = self.run_tool("config", "--json", *arguments, status=status, **environment).stdout
        return {option["name"]: option for option in json.loads(text)["options"]}

    def test_sources(self):
        options = self.options("--max-cached=1GiB", GPUPOOL_LIMIT="8GiB", MXNET_GPU_MEM_POOL_TYPE="Naive")
        self.assertEqual(options["max-cached"]["value"], "1GiB")
        self.assertEqual(options["max-cached"]["source"], "option")
        self.assertEqual(options["limit"]["source"], "environment")
        self.assertEqual(options["type"]["value"], "naive")
        self.assertEqual(options["type"]["source"], "mxnet")
        self.assertEqual(options["page"]["source"], "default")
        self.assertEqual(options["page"]["value"], options["page"]["default"])

    def write_settings(self, text):
        os.makedirs(self.path(".config"), exist_ok=True)
        with open(self.path(".config/gpupool.conf"), "w", encoding="utf-8") as file:
            file.write(text)
        return file.name

    def test_settings_of_a_file(self):
        path = self.write_settings("# mine\nGPUPOOL_TYPE=naive\nlimit = 4GiB\n")
        options = self.options(GPUPOOL_LIMIT="8GiB")
        self.assertEqual((options["type"]["value"], options["type"]["source"]), ("naive", "user_file"))
        self.assertEqual((options["limit"]["value"], options["limit"]["source"]), ("8GiB", "environment"))
        self.assertRegex(self.run_tool("config").stdout, "(?m)^type +naive +round +%s$" % re.escape(path))
        os.rename(self.path(".config"), self.path("other"))
        self.assertEqual(self.options(XDG_CONFIG_HOME=self.path("other"))["type"]["value"], "naive")
        self.assertEqual(self.options()["type"]["value"], "round")

    def test_what_is_wrong_in_a_file(self):
        path = self.write_settings("\nLIMIT=8Q\n")
        result = self.run_tool("config", status=USAGE)
        self.assertIn(path + ", line 2: GPUPOOL_LIMIT=8Q is malformed", self.one_line(result.stderr))
        self.assertRegex(result.stdout, r"(?m)^limit +nothing can be allocated +none +malformed$")
        self.run_tool("run", "--", "touch", "ran", status=FAILED)
        self.assertFalse(os.path.exists(self.path("work/ran")))
        for text, said in (("limit: 8GiB\n", "line 1: \"limit: 8GiB\" is malformed"),
                           ("LIMIT=1GiB\nLIMIT=2GiB\n", "line 2: GPUPOOL_LIMIT=2GiB: a line above sets another limit")):
            self.write_settings(text)
            result = self.run_tool("config", status=USAGE)
            self.assertIn("%s, %s" % (path, said), self.one_line(result.stderr))
            self.assertRegex(result.stdout, r"(?m)^limit +nothing can be allocated +none +malformed$")
            self.assertIn(said, " ".join(self.run_tool("doctor", status=1).stdout.split()))
            self.assertNotIn("Until", self.run_tool("run", "--", "touch", "ran", status=FAILED).stderr)
            self.assertFalse(os.path.exists(self.path("work/ran")))
        os.chmod(path, 0o664)
        self.assertIn("others may write to it", self.one_line(self.run_tool("config").stderr))

    @unittest.skipUnless(os.geteuid() == 0, "needs a second user")
    def test_a_setuid_program_reads_no_file(self):
        self.write_settings("TYPE=naive\n")
        os.chmod(self.folder, 0o755)
        os.chown(self.tool, 65534, 65534)
        os.chmod(self.tool, 0o4755)
        self.assertEqual(self.options()["type"]["value"], "round")
        os.chmod(self.tool, 0o755)
        self.assertEqual(self.options()["type"]["value"], "naive")

    def test_an_option_goes_before_the_environment(self):
        options = self.options("--type", "naive", GPUPOOL_TYPE="round")
        self.assertEqual((options["type"]["value"], options["type"]["source"]), ("naive", "option"))

    def test_malformed_values(self):
        options = self.options(status=USAGE, GPUPOOL_TYPE="fast")
        self.assertTrue(options["type"]["malformed"])
        self.assertEqual(options["type"]["value"], "round")
        result = self.run_tool("config", status=USAGE, GPUPOOL_LIMIT="much")
        self.assertIn("GPUPOOL_LIMIT=much is malformed", result.stderr)
        self.assertIn("every allocation fails", result.stderr)
        self.assertRegex(result.stdout, r"(?m)^limit +nothing can be allocated +none +malformed$")
        result = self.run_tool("config", "--page=1", status=USAGE)
        self.assertIn("--page=1 is malformed", result.stderr)

    def test_unknown_names_are_a_warning(self):
        result = self.run_tool("config", GPUPOOL_LIMT="8GiB")
        self.one_line(result.stderr)
        self.assertIn("nearest is GPUPOOL_LIMIT", result.stderr)

    def test_table_is_narrow(self):
        text = self.run_tool("config").stdout
        self.assertLessEqual(max(map(len, text.splitlines())), 80)


class Summary(Case):
    def summary(self, snapshot, *arguments, status=DONE, **environment):
        return self.run_tool("summary", self.write("s.json", snapshot), *arguments, status=status, **environment)

    def facts(self, snapshot, *arguments):
        document = json.loads(self.summary(snapshot, "--json", *arguments).stdout)
        self.assertEqual((document["format"], document["version"]), ("gpupool-summary", 1))
        return document["snapshots"][0]

    def codes(self, snapshot):
        return [finding["code"] for finding in self.facts(snapshot)["findings"]]

    def test_a_good_run(self):
        text = self.summary(snapshot_of()).stdout
        self.assertIn("No problem found: 99.0% of 1,000 allocations were served from the pool.", text)
        self.assertIn("pid 4711 on node1", text)
        self.assertIn("2025-10-09 08:53:20 UTC", text)
        self.assertLessEqual(max(map(len, text.splitlines())), 80)
        facts = self.facts(snapshot_of())
        self.assertEqual([f["code"] for f in facts["findings"]], ["served"])
        self.assertEqual(facts["process"]["start_time_us"], 1760000000000000)
        self.assertEqual(facts["events"]["actions"]["alloc"],
                         {"count": 2, "driver_calls": 1, "driver_ns": 90000, "longest_ns": 90000})
        self.assertEqual(facts["events"]["details"], [{"action": "trim", "detail": "idle", "count": 1}])
        self.assertEqual(facts["devices"][0]["stats"]["cache_hits"], 990)
        self.assertFalse(facts["partial"])

    def test_out_of_memory_comes_first(self):
        oom = {
            "time_ns": 5000, "device": 0, "requested": 1 << 30, "live": 18 << 30, "deferred": 0, "cached": 0,
            "passthrough": 0, "limit": 20 << 30, "by_limit": True, "largest_free": 0, "device_free": None,
            "device_total": None, "waited_ns": 0, "busy_context": None, "busy_ns": None, "owners": [{"size": 160 * MIB, "count": 24}],
            "message": "out of memory on device 0: asked for 1 GiB; the limit refuses",
        }
        snapshot = snapshot_of(reason="oom", oom=oom)
        snapshot["devices"][0]["stats"]["num_ooms"] = 1
        text = self.summary(snapshot).stdout
        self.assertIn("! Out of memory on device 0 (5.00 us): the program requested 1 GiB and had 18", " ".join(text.split()))
        self.assertNotIn("No problem found", text)
        self.assertEqual(self.codes(snapshot)[0], "oom")
        self.assertNotIn("ooms", self.codes(snapshot))
        del oom["message"]
        self.assertIn("requested 1 GiB and had 18 GiB", " ".join(self.summary(snapshot_of(reason="oom", oom=oom)).stdout.split()))

    def test_findings(self):
        def with_stats(**stats):
            snapshot = snapshot_of()
            snapshot["devices"][0]["stats"].update(stats)
            return snapshot
        self.assertIn("live_at_exit", self.codes(with_stats(allocation=gauge(3, 10, 1000))))
        self.assertIn("hit_rate", self.codes(with_stats(cache_hits=100, cache_misses=900, cache_hit_rate=0.1)))
        self.assertIn("retries", self.codes(with_stats(num_alloc_retries=2)))
        self.assertIn("ooms", self.codes(with_stats(num_ooms=2)))
        self.assertIn("waits", self.codes(with_stats(host_waits=500)))
        deferred = gauge(0, 300 * MIB + 1)
        self.assertIn("Remedy: With GPUPOOL_MAX_DEFERRED=none",
                      self.summary(with_stats(host_waits=500, deferred_bytes=deferred)).stdout)
        self.assertNotIn("GPUPOOL_MAX_DEFERRED", self.summary(with_stats(host_waits=500)).stdout)
        self.assertNotIn("GPUPOOL_MAX_DEFERRED", self.summary(with_stats(host_waits=500, deferred_bytes=deferred,
                                                                         num_alloc_retries=500)).stdout)
        # The difference of two peaks, which may be of different moments, says nothing of rounding.
        self.assertNotIn("rounding", self.codes(with_stats(allocated_bytes=gauge(0, 1000 * MIB),
                                                           requested_bytes=gauge(0, 800 * MIB))))
        self.assertIn("cached", self.codes(with_stats(reserved_bytes=gauge(0, 2000 * MIB))))
        self.assertIn("Remedy: GPUPOOL_MAX_CACHED=990MiB",
                      self.summary(with_stats(reserved_bytes=gauge(0, 2000 * MIB), inactive_split_bytes=gauge(0, 900 * MIB))).stdout)
        pieces = self.summary(with_stats(reserved_bytes=gauge(0, 2000 * MIB), inactive_split_bytes=gauge(0, 1000 * MIB))).stdout
        self.assertIn("most of that was in segments partly in use", " ".join(pieces.split()))
        self.assertNotIn("MAX_CACHED", pieces)
        self.assertIn("passthrough", self.codes(with_stats(passthrough_bytes=gauge(0, 2000 * MIB))))
        self.assertEqual(self.codes(snapshot_of(devices=[device_of(0)])), ["nothing"])

    def test_surplus_names_the_setting_that_asked(self):
        def surplus(now, settings, trims=0, until_s=1, limit=None, held=None, trim="reserve"):
            snapshot = snapshot_of()
            if held:
                snapshot["devices"][0]["stats"].update(reserved_bytes=gauge(0, held))
            snapshot["devices"][0]["stats"].update(surplus_bytes=gauge(now, 12 * MIB), cached_bytes=gauge(20 * MIB))
            snapshot["devices"][0]["limit"] = limit
            snapshot["settings"].update({"max_cached": "none", "idle_release": "60", "reserve": "512MiB", **settings})
            snapshot["events"]["details"][1] = trim if trims else "idle"
            snapshot["events"]["time_ns"][2] = until_s * 10**9
            found, = [one for one in self.facts(snapshot)["findings"] if one["code"] == "surplus"]
            text = " ".join(self.summary(snapshot).stdout.split())
            self.assertIn(found["message"], text)
            self.assertEqual("Remedy: calling cudaDeviceSynchronize now and then" in text, now > 0)
            self.assertIn("surplus (device busy)", text)
            self.assertIn("was kept, 12 MiB at most and %s now: the device was busy" % ("3 MiB" if now else "0 B"), text)
            self.assertEqual(found["severity"], "warning" if now else "note")
            return re.search(r"should have been released \((.*?)\) was kept", found["message"]).group(1)
        self.assertEqual(surplus(3 * MIB, {"max_cached": "16MiB"}), "GPUPOOL_MAX_CACHED=16MiB")
        self.assertEqual(surplus(0, {"max_cached": "32MiB"}), "GPUPOOL_RESERVE=512MiB")
        self.assertEqual(surplus(0, {}, until_s=60), "GPUPOOL_IDLE_RELEASE=60")
        self.assertEqual(surplus(0, {"idle_release": "0"}, until_s=60), "GPUPOOL_RESERVE=512MiB")
        self.assertEqual(surplus(0, {}, limit=16 * MIB), "the limit of 16 MiB")
        self.assertEqual(surplus(0, {"max_cached": "1MiB"}, trims=1, until_s=61, limit=16 * MIB),
                         "GPUPOOL_MAX_CACHED=1MiB or the limit of 16 MiB or GPUPOOL_IDLE_RELEASE=60 or "
                         "GPUPOOL_RESERVE=512MiB")
        self.assertEqual(surplus(0, {"slack": "15%"}), "GPUPOOL_RESERVE=512MiB")
        self.assertEqual(surplus(0, {"slack": "15%"}, held=200 * MIB), "GPUPOOL_SLACK=15%")
        self.assertEqual(surplus(0, {"slack": "none"}, held=200 * MIB), "GPUPOOL_RESERVE=512MiB")
        self.assertEqual(surplus(0, {"slack": "15%", "type": "segment"}, held=200 * MIB), "GPUPOOL_RESERVE=512MiB")
        # The budget was exceeded earlier, when less had been in use at most.
        self.assertEqual(surplus(0, {"slack": "15%"}, trims=1, trim="spare"), "GPUPOOL_SLACK=15%")
        self.assertEqual(surplus(0, {"control": "1"}), "GPUPOOL_RESERVE=512MiB or a request of gpupool ctl")
        self.assertNotIn("surplus", self.codes(snapshot_of()))

    def test_the_driver_call_of_a_miss_counts_once(self):
        snapshot = snapshot_of()
        snapshot["events"]["actions"] = ["alloc", "segment_alloc"]
        snapshot["events"]["duration_ns"] = [90000, 0, 90000]
        events = self.facts(snapshot)["events"]
        self.assertEqual((events["driver_calls"], events["driver_ns"]), (1, 90000))
        self.assertEqual(events["actions"]["segment_alloc"]["driver_ns"], 90000)

    def test_groups_are_the_biggest_live_blocks(self):
        def segment(requested, size):
            block = {"address": MIB, "size": size, "requested_size": requested, "block": 1,
                     "state": "active_allocated", "refs": 1, "stack": -1, "stream": -1, "time_ns": 1}
            return {"device": 0, "address": MIB, "total_size": size, "blocks": [block]}
        segments = [segment(100, 512)] * 5 + [segment(MIB, MIB)] * 3 + [segment(i, 512) for i in range(1, 13)]
        device = self.facts(snapshot_of(segments=segments))["devices"][0]
        self.assertEqual(device["live"], {"count": 20, "bytes": 3 * MIB + 17 * 512})
        self.assertEqual(device["live_sizes"], 14)
        self.assertEqual(len(device["biggest_live"]), 10)
        self.assertEqual(device["biggest_live"][0], {"requested_size": MIB, "count": 3, "bytes": 3 * MIB})
        self.assertEqual(device["biggest_live"][1], {"requested_size": 100, "count": 5, "bytes": 5 * 512})
        self.assertEqual([group["requested_size"] for group in device["biggest_live"]], [MIB, 100] + list(range(1, 9)))
        self.assertIn("4 other sizes", self.summary(snapshot_of(segments=segments)).stdout)

    def test_one_device(self):
        snapshot = snapshot_of(devices=[device_of(0), device_of(1, num_ooms=3)])
        snapshot["events"]["device"] = [0, 1, 1]
        facts = self.facts(snapshot, "--device", "1")
        self.assertEqual([d["device"] for d in facts["devices"]], [1])
        self.assertEqual(facts["events"]["count"], 2)
        result = self.summary(snapshot, "--device=5", status=USAGE)
        self.assertIn("no device 5", result.stderr)

    def test_dropped_events_are_partial(self):
        snapshot = snapshot_of(dropped_events=5, recorded_since_ns=500)
        self.assertIn("5 older ones were dropped", self.summary(snapshot).stdout)
        self.one_line(self.summary(snapshot, "--strict", status=PARTIAL).stderr)
        self.summary(snapshot_of(), "--strict")

    def test_columns_of_unequal_length_are_partial(self):
        snapshot = snapshot_of()
        snapshot["events"]["size"].pop()
        result = self.summary(snapshot, "--strict", status=PARTIAL)
        self.assertIn("2 of 3 events are complete", " ".join(result.stdout.split()))

    def test_inputs_that_are_none(self):
        text = json.dumps(snapshot_of())
        for content, part in (
            ("", "offset 0: the input is empty"), ("hello", "it is not JSON"),
            ("timestamp, name, memory.used [MiB]\n", "a table of nvidia-smi"), ("SQLite format 3\0", "nsys stats reads it"),
            ('{"traceEvents": []}', "view it in ui.perfetto.dev"), ("[]", "JSON array"),
            (text[:-20], "offset %d: the input ends here" % (len(text) - 20)), (text + "x", "offset %d:" % len(text)),
            (snapshot_of(version=2), "newer than this tool"), ({"traceEvents": []}, "Chrome trace"),
            (snapshot_of(devices={}), "devices is not an array"),
        ):
            result = self.summary(content, status=INPUT)
            self.one_line(result.stderr)
            self.assertIn(part, result.stderr)
            self.assertEqual(result.stdout, "")
        self.assertIn("No such file", self.run_tool("summary", "no-such", status=INPUT).stderr)

    def test_names_cannot_steer_the_terminal(self):
        snapshot = snapshot_of()
        snapshot["process"]["program"] = "/\u001b[31m\u009bevil\n"
        self.assertNotIn("\x1b", self.summary(snapshot).stdout)
        self.assertNotIn("\x9b", self.summary(snapshot).stdout)
        self.assertEqual(self.facts(snapshot)["process"]["program"], snapshot["process"]["program"])

    def test_stdin_and_several_files(self):
        text = json.dumps(snapshot_of())
        self.assertIn("No problem", self.run_tool("summary", "-", stdin=text).stdout)
        first, bad, last = self.write("a.json", text), self.write("b.json", "{"), self.write("c.json", text)
        result = self.run_tool("summary", first, bad, last, status=INPUT)
        self.assertEqual(result.stdout.count("No problem"), 2)
        self.one_line(result.stderr)
        document = json.loads(self.run_tool("summary", "--json", first, last).stdout)
        self.assertEqual([s["file"] for s in document["snapshots"]], [first, last])

    def test_output_is_not_overwritten(self):
        self.summary(snapshot_of(), "-o", "out.txt")
        path = self.path("work/out.txt")
        with open(path, encoding="utf-8") as file:
            self.assertIn("No problem", file.read())
        with open(path, "w", encoding="utf-8") as file:
            file.write("mine")
        result = self.summary(snapshot_of(), "--output", "out.txt", status=USAGE)
        self.assertIn("--force", result.stderr)
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), "mine")
        self.summary(snapshot_of(), "--json", "--output=out.txt", "--force")
        with open(path, encoding="utf-8") as file:
            json.load(file)
        self.assertIn("No problem", self.summary(snapshot_of(), "-o", "-").stdout)
        self.summary("{", "-o", "new.txt", status=INPUT)
        self.assertFalse(os.path.exists(self.path("work/new.txt")))
        self.summary(snapshot_of(), "-o", "no/such.txt", status=INPUT)

    def on_terminal(self, *arguments, **environment):
        path = self.write("s.json", snapshot_of())
        own, other = open_terminal()
        process = subprocess.Popen([self.tool, "summary", path, *arguments], stdout=other,
                                   env={**self.environment, "TERM": "xterm", **environment})
        os.close(other)
        seen = b""
        while True:
            try:
                part = os.read(own, 65536)
            except OSError:
                break
            if not part:
                break
            seen += part
        os.close(own)
        self.assertEqual(process.wait(timeout=20), DONE)
        return seen

    def test_colour(self):
        self.assertIn(b"\x1b[", self.on_terminal())
        self.assertIn(b"\x1b[", self.on_terminal(NO_COLOR=""))
        self.assertNotIn(b"\x1b[", self.on_terminal("--no-color"))
        self.assertNotIn(b"\x1b[", self.on_terminal(NO_COLOR="1"))
        self.assertNotIn(b"\x1b[", self.on_terminal(TERM="dumb"))
        self.assertNotIn("\x1b[", self.summary(snapshot_of(), TERM="xterm").stdout)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    GPUPOOL, STUB = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])
