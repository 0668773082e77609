#!/usr/bin/env python3
"""The command line of gpupool.

    cli.py GPUPOOL PRELOAD_STUB [TEST ...]

Runs the tool as a user does: exit statuses, messages, files. The preload library is replaced by a stub, so that
nothing here depends on what a program does with CUDA.
"""

import glob
import json
import os
import pty
import re
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

for ignored in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(ignored) == signal.SIG_IGN:  # as in a job that a shell runs in the background: children inherit it
        signal.signal(ignored, signal.SIG_DFL)

GPUPOOL = STUB = None
LEAK_CHECKER = os.environ.get("GP_LEAK_CHECKER")  # a library; unset or empty where there is none
DONE, USAGE, INPUT, PARTIAL = 0, 2, 3, 4
FAILED, CANNOT_RUN, NOT_FOUND = 125, 126, 127  # of run
GAUGES = [
    "allocation", "segment", "allocated_bytes", "requested_bytes", "reserved_bytes", "active_bytes", "cached_bytes",
    "inactive_split_bytes", "surplus_bytes", "deferred_bytes", "passthrough_bytes", "pinned_host_bytes",
]
COUNTERS = [
    "cache_hits", "cache_misses", "driver_allocs", "driver_frees", "fences", "host_waits", "num_ooms",
    "num_alloc_retries",
]
COLUMNS = [
    "action", "time_ns", "device", "stream", "thread", "address", "size", "rounded_size", "block", "hit",
    "duration_ns", "lifetime_ns", "stack", "detail",
]
MIB = 1 << 20


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
        self.assertIn("abc is no process number", self.run_tool("live", "abc", status=USAGE).stderr)


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


class Run(Case):
    def child_environment(self, *arguments, **environment):
        text = self.run_tool("run", *arguments, "--", "env", **environment).stdout
        return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)

    def test_status_is_that_of_the_program(self):
        for status, program in (
            (0, ["true"]), (1, ["false"]), (7, ["sh", "-c", "exit 7"]), (255, ["sh", "-c", "exit 255"]),
            (-signal.SIGKILL, ["sh", "-c", "kill -9 $$"]), (-signal.SIGTERM, ["sh", "-c", "kill -TERM $$"]),
            (-signal.SIGALRM, ["sh", "-c", "kill -ALRM $$"]), (-signal.SIGRTMIN, ["sh", "-c", "kill -%d $$" % signal.SIGRTMIN]),
        ):
            self.run_tool("run", "--", *program, status=status)
            self.run_tool("run", *program, status=status)

    def test_programs_that_cannot_be_run(self):
        self.one_line(self.run_tool("run", "--", "no-such-program", status=NOT_FOUND).stderr)
        self.one_line(self.run_tool("run", "--", "./no/such", status=NOT_FOUND).stderr)
        self.one_line(self.run_tool("run", "--", self.path("work"), status=CANNOT_RUN).stderr)
        plain = self.write("plain", "text")
        os.chmod(plain, 0o644)
        self.one_line(self.run_tool("run", "--", plain, status=CANNOT_RUN).stderr)
        script = self.write_program("broken", "#!/no/such/interpreter\n")
        self.one_line(self.run_tool("run", "--", script, status=NOT_FOUND).stderr)

    def test_a_script_without_interpreter_line_is_for_the_shell(self):
        self.write_program("plain", "exit 5\n")
        self.run_tool("run", "./plain", status=5)

    def test_arguments_and_streams_are_the_programs(self):
        result = self.run_tool("run", "--type", "naive", "cat", "-", stdin="in\n")
        self.assertEqual(result.stdout, "in\n")
        result = self.run_tool("run", "--", "printf", "%s|", "--limit", "a b", "")
        self.assertEqual(result.stdout, "--limit|a b||")

    def test_options_become_variables(self):
        child = self.child_environment("--limit", "8GiB", "--max-cached=1GiB", "--type", "naive", "--stats",
                                       "--disable", "0", GPUPOOL_LIMIT="1GiB", GPUPOOL_VERBOSE="1")
        self.assertEqual(child["GPUPOOL_LIMIT"], "8GiB")
        self.assertEqual(child["GPUPOOL_MAX_CACHED"], "1GiB")
        self.assertEqual(child["GPUPOOL_TYPE"], "naive")
        self.assertEqual(child["GPUPOOL_STATS"], "1")
        self.assertEqual(child["GPUPOOL_DISABLE"], "0")
        self.assertEqual(child["GPUPOOL_VERBOSE"], "1")
        self.assertNotIn("GPUPOOL_RESERVE", child)

    def test_history_is_longer_unless_set(self):
        self.assertEqual(self.child_environment()["GPUPOOL_TRACE_EVENTS"], "4194304")
        self.assertEqual(self.child_environment(GPUPOOL_TRACE_EVENTS="2048")["GPUPOOL_TRACE_EVENTS"], "2048")
        self.assertEqual(self.child_environment("--trace-events", "4096")["GPUPOOL_TRACE_EVENTS"], "4096")
        os.mkdir(self.path(".config"))
        with open(self.path(".config/gpupool.conf"), "w", encoding="utf-8") as file:
            file.write("TRACE_EVENTS=8192\n")
        self.assertNotIn("GPUPOOL_TRACE_EVENTS", self.child_environment())  # the program reads the file itself

    def test_the_library_comes_first(self):
        self.assertEqual(self.child_environment()["LD_PRELOAD"], self.pool_library)
        other = shutil.copy(STUB, self.path("other.so"))
        self.assertEqual(self.child_environment(LD_PRELOAD=other)["LD_PRELOAD"], self.pool_library + ":" + other)

    def test_other_preloads_keep_their_order(self):
        first, second = (shutil.copy(STUB, self.path(name)) for name in ("first.so", "second.so"))
        before = " %s:%s libgpupool.so:%s %s:" % (first, self.pool_library, second, first)
        self.assertEqual(self.child_environment(LD_PRELOAD=before)["LD_PRELOAD"], ":".join([self.pool_library, first, second]))

    def test_another_copy_of_the_library_gives_way(self):
        copy = shutil.copy(STUB, self.path("libgpupool.so"))
        result = self.run_tool("run", "--snapshot-at", "none", "env", LD_PRELOAD=copy)
        self.assertIn("LD_PRELOAD=%s\n" % self.pool_library, result.stdout)
        self.assertIn(copy, self.one_line(result.stderr))

    def test_a_sanitizers_runtime_stays_in_front(self):
        """It ends every program in which it is not the first library."""
        runtime, other = (shutil.copy(STUB, self.path(name)) for name in ("libasan.so.8", "other.so"))
        child = self.child_environment(LD_PRELOAD=other + ":" + runtime)
        self.assertEqual(child["LD_PRELOAD"], ":".join([runtime, self.pool_library, other]))

    def test_the_library_is_found_wherever_it_was_installed(self):
        os.remove(self.pool_library)
        for place in ("lib", "lib/%s-linux-gnu" % os.uname().machine, "lib64", "tools"):
            library = self.path("tree", place, "libgpupool.so")
            os.makedirs(os.path.dirname(library), exist_ok=True)
            shutil.copy(STUB, library)
            self.assertEqual(self.child_environment()["LD_PRELOAD"], library)
            os.remove(library)

    def test_a_library_of_another_kind_is_passed_over(self):
        foreign = self.path("tree/lib/libgpupool.so")
        os.makedirs(os.path.dirname(foreign))
        self.write_foreign(STUB, foreign)
        self.assertEqual(self.child_environment()["LD_PRELOAD"], self.pool_library)

    def write_foreign(self, source, path):
        """A copy for another kind of processor (s390)."""
        with open(os.path.realpath(source), "rb") as file:
            image = bytearray(file.read())
        image[18:20] = (22).to_bytes(2, sys.byteorder)
        with open(path, "wb") as file:
            file.write(image)
        os.chmod(path, 0o755)

    def test_foreign_programs_run_without_it(self):
        """They are started, with a line, and no loader complains of the library. What the kernel says of this one depends on it."""
        path = self.path("work/foreign")
        self.write_foreign(shutil.which("true"), path)
        result = self.run_tool("run", path, status=None)
        self.assertIn("foreign runs without the library: it is built for another kind of processor", result.stderr)
        script = self.write_program("script", "#!%s\n" % path)
        self.assertIn("its interpreter %s is built for another kind" % path, self.run_tool("run", script, status=None).stderr)

    def test_conflicts_are_said(self):
        known = shutil.copy(STUB, self.path("libvgpu.so"))
        text = self.one_line(self.run_tool("run", "--snapshot-at", "none", "true", LD_PRELOAD=known).stderr)
        self.assertIn("HAMi-core", text)
        text = self.one_line(self.run_tool("run", "--snapshot-at", "none", "true", CUDA_INJECTION64_PATH="/opt/tool.so").stderr)
        self.assertIn("CUDA_INJECTION64_PATH=/opt/tool.so", text)
        # Any other library between the program and the driver is known by what it defines.
        for name, hooks in (("libjemalloc.so.2", False), ("libother.so", True)):
            library = self.path(name)
            source = self.write("hooks.c", "int %s(void) { return 0; }\n" % ("cuMemAlloc_v2" if hooks else "malloc_stats"))
            subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
            text = self.run_tool("run", "--snapshot-at", "none", "true", LD_PRELOAD=library).stderr
            if hooks:
                self.assertIn("LD_PRELOAD has %s, which defines cuMemAlloc_v2" % library, self.one_line(text))
            else:
                self.assertEqual(text, "")

    def test_a_launcher_that_loses_the_library_is_said(self):
        for name, wanted in (("docker", "docker run -v %s:%s:ro -e LD_PRELOAD=%s" % ((self.pool_library,) * 3)),
                             ("sudo", "sudo gpupool run -- PROGRAM")):
            self.write_program(name, "#!/bin/sh\n")
            self.assertIn(wanted, self.one_line(self.run_tool("run", "--snapshot-at", "none", "./" + name).stderr))
        self.write_program("chroot", "#!/bin/sh\n")
        arguments = ("run", "--snapshot-at", "none", "./chroot", "--userspec=0", self.path("root"), "true")
        inside = self.path("root") + self.pool_library
        self.assertIn(inside + " does not exist", self.one_line(self.run_tool(*arguments).stderr))
        os.makedirs(os.path.dirname(inside))
        shutil.copy(STUB, inside)
        self.assertEqual(self.run_tool(*arguments).stderr, "")

    def test_malformed_settings_stop_it(self):
        result = self.run_tool("run", "--limit", "8Q", "--", "touch", "ran", status=FAILED)
        self.one_line(result.stderr)
        self.assertIn("--limit=8Q is malformed; accepted:", result.stderr)
        self.assertNotIn("default", result.stderr)
        result = self.run_tool("run", "--", "touch", "ran", status=FAILED, GPUPOOL_TYPE="fast", GPUPOOL_LIMIT="x")
        self.assertEqual(result.stderr.count("is malformed"), 2)
        self.run_tool("run", "--output", "%q.json", "--", "touch", "ran", status=FAILED)
        result = self.run_tool("run", "--output", "no/%p.json", "--", "touch", "ran", status=FAILED)
        self.assertIn("nothing can be written in no: No such file", result.stderr)
        result = self.run_tool("run", "--", "touch", "ran", status=FAILED, GPUPOOL_LOG="/no/such/log")
        self.assertIn("/no/such", result.stderr)
        self.assertFalse(os.path.exists(self.path("work/ran")))

    def test_unknown_variables_are_a_warning(self):
        result = self.run_tool("run", "--snapshot-at", "none", "--", "true", GPUPOOL_LIMT="8GiB")
        self.one_line(result.stderr)
        self.assertIn("nearest is GPUPOOL_LIMIT", result.stderr)

    def test_no_cuda_is_said_with_a_reason(self):
        result = self.run_tool("run", "--", "true")
        self.one_line(result.stderr)
        self.assertIn("no CUDA allocation was seen", result.stderr)
        self.assertIn("likely it does not use CUDA", result.stderr)
        script = self.write_program("script", "#!/bin/sh\nexit 0\n")
        self.assertIn("it is a script for /bin/sh", self.run_tool("run", "--", script).stderr)
        result = self.run_tool("run", "--disable", "--", "true")
        self.assertIn("GPUPOOL_DISABLE=1", result.stderr)
        result = self.run_tool("run", "--", "sh", "-c", "kill -9 $$", status=-signal.SIGKILL)
        self.assertIn("signal 9", result.stderr)
        self.assertEqual(self.run_tool("run", "--snapshot-at", "none", "--", "true").stderr, "")
        self.assertEqual(self.run_tool("run", "--snapshot-at", "oom", "--", "true").stderr, "")

    def test_setuid_programs_are_named(self):
        program = shutil.copy(shutil.which("true"), self.path("work/suid"))
        os.chmod(program, 0o4755)
        self.assertIn("it is a setuid program", self.run_tool("run", "--", program).stderr)

    def test_static_programs_are_named(self):
        with open(os.path.realpath(shutil.which("true")), "rb") as file:
            image = bytearray(file.read())
        if image[4] != 2 or image[5] != 1:
            self.skipTest("no 64-bit little-endian machine")
        offset, size, count = int.from_bytes(image[32:40], "little"), image[54], image[56]
        for i in range(count):
            at = offset + i * size
            if image[at] == 3:  # PT_INTERP becomes PT_NULL
                image[at] = 0
        path = self.path("work/static")
        with open(path, "wb") as file:
            file.write(image)
        os.chmod(path, 0o755)
        # It has no loader any more and crashes: that it was started is enough.
        result = subprocess.run([self.tool, "run", "--", path], env=self.environment, cwd=self.path("work"),
                                stderr=subprocess.PIPE, encoding="utf-8", check=False)
        self.assertIn("statically linked", result.stderr)

    # "snapshot NAME [REASON]" writes as much of a snapshot as is looked at.
    SNAPSHOT = ("snapshot() { printf '{\"format\":\"gpupool-snapshot\",\"version\":1,\"reason\":\"%s\","
                "\"process\":{\"run\":\"%s\",\"start_time_us\":1' \"${2:-exit}\" \"$GPUPOOL_RUN\" >\"$1\"; }; ")
    WRITE = SNAPSHOT + "snapshot \"$(echo \"$GPUPOOL_OUTPUT\" | sed \"s/%e/sh/;s/%h/host/;s/%p/$$/;s/%n/1/;s/%r/exit/\")\""

    def named(self, result):
        return sorted(re.findall("^gpupool: snapshot: (.*)$", result.stderr, re.M))

    def test_snapshots_are_named(self):
        result = self.run_tool("run", "--", "sh", "-c", self.WRITE)
        self.assertRegex(result.stderr, r"^gpupool: snapshot: gpupool\.sh\.host\.\d+\.exit\.json\n"
                                        r"gpupool: next: gpupool summary gpupool\.sh\.host\.\d+\.exit\.json\n$")

    def test_names_of_snapshots_can_be_typed(self):
        for name, typed in (("-x.json", "./'-x.json'"), ("a b.json", "'a b.json'"), ("it's.json", "'it'\\''s.json'"),
                            ("a-b.json", "a-b.json")):
            result = self.run_tool("run", "--output=" + name, "--", "sh", "-c", self.SNAPSHOT + "snapshot \"$GPUPOOL_OUTPUT\"")
            self.assertEqual(result.stderr, "gpupool: snapshot: %s\ngpupool: next: gpupool summary %s\n" % (typed, typed))
            os.remove(self.path("work", name))

    def test_snapshots_of_earlier_runs_are_not(self):
        self.write("gpupool.old.host.1.exit.json", "")
        self.write("out.json", "")
        self.assertNotIn("snapshot:", self.run_tool("run", "--", "true").stderr)
        result = self.run_tool("run", "--output", "out.json", "--", "sh", "-c", self.SNAPSHOT + "snapshot out.json.1")
        self.assertIn("next: gpupool summary out.json.1\n", result.stderr)
        self.assertNotIn("snapshot:", self.run_tool("run", "--output", "out.json", "--", "true").stderr)

    def test_snapshots_of_other_programs_are_not(self):
        """That appear meanwhile where the run's own do: of no run, of another one, with an id that is none. Nor is a FIFO waited for."""
        script = self.SNAPSHOT + "snapshot 1.own.json; id=$GPUPOOL_RUN; mkfifo 9.fifo.json; "
        for i, other in enumerate(("", "0123456789abcdef", "$id-", "-$id", "$id-x", "x$id", "${id}0", "$id $id", "$(printf %s-%s $id ABCDEF0123456789)",
                                   "$(yes $id | head -17 | paste -sd -)")):
            script += "GPUPOOL_RUN=\"%s\"; snapshot 1.other%d.json; " % (other, i)
        result = self.run_tool("run", "--output", "%p.%e.json", "--", "sh", "-c", script)
        self.assertEqual(self.named(result), ["1.own.json"])
        result = self.run_tool("run", "--output", "%p.%e.json", "--", "sh", "-c", script.replace("1.own", "2.own"))
        self.assertEqual(self.named(result), ["2.own.json"])

    def test_ranks_name_their_own_snapshots(self):
        """Eight runs at once in one folder, below no run, each of which ends when all snapshots are there; and below one run."""
        self.write_program("rank", "#!/bin/sh\n" + self.SNAPSHOT +
                           "snapshot $1.rank.json\nuntil [ $(ls ?.rank.json | wc -l) = 8 ]; do sleep 0.02; done\n")
        script = ("for i in 1 2 3 4 5 6 7 8; do \"$0\" run --output %p.%e.json -- ./rank $i 2>$i.err & done; wait\n"
                  "cat ?.err >&2; rm ?.err")
        result = subprocess.run(["sh", "-c", script, self.tool], env=self.environment, cwd=self.path("work"), stderr=subprocess.PIPE,
                                encoding="utf-8", timeout=60, check=True)
        names = ["%d.rank.json" % i for i in range(1, 9)]
        self.assertEqual(self.named(result), names)
        for name in names:
            os.remove(self.path("work", name))
        script = script.replace("cat ?.err >&2; ", "")
        result = self.run_tool("run", "--output", "%p.%e.json", "--", "sh", "-c", script, self.tool)
        self.assertEqual(self.named(result), names)

    def test_what_nests_too_deep_begins_anew(self):
        script = "echo \"$GPUPOOL_RUN\"; [ $# = 0 ] || { tool=$1; shift; exec \"$tool\" run --snapshot-at none -- sh -c \"$script\" sh \"$@\"; }"
        result = self.run_tool("run", "--snapshot-at", "none", "--", "sh", "-c", script, "sh", *[self.tool] * 17, script=script)
        lengths = [len(line.split("-")) for line in result.stdout.splitlines()]
        self.assertEqual(lengths, list(range(1, 17)) + [1, 2])
        self.assertRegex(result.stdout, r"\A([0-9a-f]{16}(-[0-9a-f]{16})*\n)+\Z")
        result = self.run_tool("run", "--snapshot-at", "none", "--", "sh", "-c", "echo \"$GPUPOOL_RUN\"", GPUPOOL_RUN="\x1b[2J")
        self.assertRegex(result.stdout, r"\A[0-9a-f]{16}\n\Z")
        self.assertEqual(result.stderr, "")

    def test_snapshots_are_found_after_a_change_of_folder(self):
        result = self.run_tool("run", "--", "sh", "-c", "cd /; " + self.WRITE)
        self.assertIn("gpupool: next:", result.stderr)

    def test_snapshots_of_children_come_after_the_programs(self):
        result = self.run_tool("run", "--output", "%p.json", "--", "sh", "-c",
                               self.WRITE + "; snapshot 000.json")
        lines = result.stderr.splitlines()
        self.assertEqual(len(lines), 3)
        self.assertEqual(lines[1], "gpupool: snapshot: 000.json")
        self.assertNotIn("000.json", lines[2])

    def test_out_of_memory_is_what_to_read_next(self):
        """What a file says counts, not its name: programs are called bloom."""
        for reasons, wanted in ((("exit", "oom"), 1), (("oom", "exit"), 0), (("exit", "exit"), 0)):
            script = self.SNAPSHOT + "".join("snapshot $$.bloom.%d.json %s; " % (i, reason) for i, reason in enumerate(reasons))
            result = self.run_tool("run", "--output", "%p.bloom.%n.json", "--", "sh", "-c", script)
            self.assertRegex(result.stderr, r"next: gpupool summary \d+\.bloom\.%d\.json\n$" % wanted)

    def test_output_may_be_a_folder_or_need_quotes(self):
        os.mkdir(self.path("work/it's"))
        result = self.run_tool("run", "--output", "it's", "--", "sh", "-c", self.SNAPSHOT + "snapshot \"it's/gpupool.a.b.1.exit.json\"")
        self.assertIn("gpupool summary 'it'\\''s/gpupool.a.b.1.exit.json'\n", result.stderr)

    def test_the_fallback_folder_is_searched(self):
        os.mkdir(self.path("work/gone"))
        result = self.run_tool("run", "--output", "gone/%p.json", "--", "sh", "-c", self.SNAPSHOT + "snapshot \"$TMPDIR/$$.json\"")
        self.assertIn(self.path("tmp"), result.stderr)

    def start(self, *arguments, **options):
        process = subprocess.Popen([self.tool, "run", "--", *arguments], env=self.environment, cwd=self.path("work"),
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **options)
        self.addCleanup(process.stdout.close)
        return process

    def test_signals_are_passed_on(self):
        """All that would end the launcher by themselves, those of realtime included."""
        not_ending = {"SIGKILL", "SIGSTOP", "SIGCHLD", "SIGCLD", "SIGCONT", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGURG", "SIGWINCH"}
        numbers = {int(number) for number in signal.Signals if number.name not in not_ending} | {signal.SIGRTMIN + 1}
        self.assertGreater(len(numbers), 20)
        trap = "trap 'exit 42' %s; echo ready; while :; do sleep 0.05; done" % " ".join(map(str, sorted(numbers)))
        processes = {}
        for number in numbers:
            processes[number] = process = self.start("sh", "-c", trap, start_new_session=True)
            self.assertEqual(process.stdout.readline(), b"ready\n")
            process.send_signal(number)
        statuses = {number: process.wait(timeout=60) for number, process in processes.items()}
        self.assertEqual(statuses, dict.fromkeys(numbers, 42))

    def test_an_alarm_that_was_set_before_is_passed_on(self):
        """perl -e 'alarm 5; exec @ARGV' gpupool run ...: the timer stays with the launcher, and is meant for the program."""
        def set_alarm():
            signal.setitimer(signal.ITIMER_REAL, 0.5)
        process = self.start("sh", "-c", "echo ready; while :; do sleep 0.05; done", preexec_fn=set_alarm, start_new_session=True)
        self.addCleanup(self.end_group, process.pid)
        self.assertEqual(process.wait(timeout=60), -signal.SIGALRM)
        self.assertIn(self.read_to_end(process.stdout), (b"", b"ready\n"))  # None: the program runs on

    @staticmethod
    def end_group(pid):
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    @staticmethod
    def read_to_end(stream):
        """None: others hold it open."""
        text = b""
        while select.select([stream], [], [], 20)[0]:
            more = os.read(stream.fileno(), 4096)
            if not more:
                return text
            text += more
        return None

    def test_a_fatal_signal_ends_the_launcher_without_a_core(self):
        def want_core():
            hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
            resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
        for name in ("SEGV", "ABRT", "QUIT", "KILL"):
            pid = os.fork()
            if pid == 0:
                os.chdir(self.path("work"))
                want_core()
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
                # ASan takes this signal of the shell for a fault of its own program, and exits.
                environment = {**self.environment, "ASAN_OPTIONS": self.environment["ASAN_OPTIONS"] + ":handle_segv=0"}
                os.execve(self.tool, [self.tool, "run", "--", "sh", "-c", "ulimit -c 0; kill -%s $$" % name], environment)
            _, status = os.waitpid(pid, 0)
            self.assertTrue(os.WIFSIGNALED(status), name)
            self.assertEqual((os.WTERMSIG(status), os.WCOREDUMP(status)), (getattr(signal, "SIG" + name), False))
        # Blocked and ignored ones, too: a shell of the program's has set its own way of taking them.
        def block():
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
            signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        program = ("import os, signal; signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM]); "
                   "signal.signal(signal.SIGUSR1, signal.SIG_DFL); os.kill(os.getpid(), signal.%s)")
        for name in ("SIGTERM", "SIGUSR1"):
            process = self.start(sys.executable, "-c", program % name, preexec_fn=block)
            self.assertEqual(process.wait(timeout=60), -getattr(signal, name))

    def test_ignored_signals_stay_ignored(self):
        process = subprocess.Popen(
            ["sh", "-c", "trap '' HUP; exec \"$0\" run -- sh -c 'echo ready; kill -HUP $PPID; kill -HUP $$; exit 3'",
             self.tool], env=self.environment, cwd=self.path("work"), stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        self.assertEqual(process.wait(timeout=20), 3)

    def on_a_terminal(self, *command):
        """Types Ctrl-C when the first "ready" was printed; returns what is printed, and the exit code."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.path("work"))
            os.execve(command[0], command, self.environment)
        seen, typed = b"", False
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                seen += os.read(terminal, 1024)
            except OSError:  # all have closed it
                break
            if b"ready" in seen and not typed:
                typed = True
                os.write(terminal, b"\x03")
        os.close(terminal)
        return seen.decode(), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def test_the_terminal_interrupts_the_program_once(self):
        _, code = self.on_a_terminal(
            self.tool, "run", "--", "sh", "-c",
            "n=0; trap 'n=$((n+1))' INT; echo ready; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.1; done; exit $n")
        self.assertEqual(code, 1)

    def test_an_interrupt_ends_a_loop_of_the_shell(self):
        shell = shutil.which("bash")
        if not shell:
            self.skipTest("there is no bash, which asks how its child ended")
        text, code = self.on_a_terminal(
            shell, "-c", "for i in 1 2; do \"$0\" run -- sh -c \"echo ready; sleep 20\"; echo next; done", self.tool)
        self.assertNotIn("next", text)
        self.assertEqual(code, -signal.SIGINT)


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
        self.assertIn("! Out of memory on device 0 (5.00 us): the program asked for 1 GiB and held 18", " ".join(text.split()))
        self.assertNotIn("No problem found", text)
        self.assertEqual(self.codes(snapshot)[0], "oom")
        self.assertNotIn("ooms", self.codes(snapshot))
        del oom["message"]
        self.assertIn("asked for 1 GiB and held 18 GiB", " ".join(self.summary(snapshot_of(reason="oom", oom=oom)).stdout.split()))

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
        self.assertIn("Remedy: GPUPOOL_MAX_DEFERRED=601MiB",
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
        self.assertIn("most of that was in pieces beside memory in use", " ".join(pieces.split()))
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
            self.assertEqual("Remedy: cudaDeviceSynchronize now and then" in text, now > 0)
            self.assertIn("surplus (device busy)", text)
            self.assertIn("stayed, 12 MiB at most and %s now: the device was busy" % ("3 MiB" if now else "0 B"), text)
            self.assertEqual(found["severity"], "warning" if now else "note")
            return re.search(r"back to the driver \((.*?)\) stayed", found["message"]).group(1)
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
            ("", "offset 0: the input is empty"), ("hello", "it is not JSON"), ("[]", "JSON array"),
            (text[:-20], "offset %d: the input ends here" % (len(text) - 20)), (text + "x", "offset %d:" % len(text)),
            (snapshot_of(version=2), "newer than this tool"), ({"traceEvents": []}, "Perfetto"),
            (snapshot_of(devices={}), "devices is not an array"),
        ):
            result = self.summary(content, status=INPUT)
            self.one_line(result.stderr)
            self.assertIn(part, result.stderr)
            self.assertEqual(result.stdout, "")
        self.assertIn("No such file", self.run_tool("summary", "no-such", status=INPUT).stderr)
        self.assertIn("directory", self.run_tool("summary", ".", status=INPUT).stderr)

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
        own, other = pty.openpty()
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
