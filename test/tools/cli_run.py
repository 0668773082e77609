#!/usr/bin/env python3
"""gpupool run: statuses, signals, what the program inherits, and what is said before and after it.

    cli_run.py GPUPOOL PRELOAD_STUB [TEST ...]
"""

import os
import pty
import re
import resource
import select
import shutil
import signal
import subprocess
import sys
import time
import unittest

import cli
from cli import CANNOT_RUN, FAILED, NOT_FOUND
from terminal import open_terminal


class Run(cli.Case):
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
                                       "--disable", "0", "--check", "edges,stale", GPUPOOL_LIMIT="1GiB", GPUPOOL_VERBOSE="1")
        self.assertEqual(child["GPUPOOL_LIMIT"], "8GiB")
        self.assertEqual(child["GPUPOOL_MAX_CACHED"], "1GiB")
        self.assertEqual(child["GPUPOOL_TYPE"], "naive")
        self.assertEqual(child["GPUPOOL_STATS"], "1")
        self.assertEqual(child["GPUPOOL_CHECK"], "edges,stale")
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
        other = shutil.copy(cli.STUB, self.path("other.so"))
        self.assertEqual(self.child_environment(LD_PRELOAD=other)["LD_PRELOAD"], self.pool_library + ":" + other)

    def test_other_preloads_keep_their_order(self):
        first, second = (shutil.copy(cli.STUB, self.path(name)) for name in ("first.so", "second.so"))
        before = " %s:%s libgpupool.so:%s %s:" % (first, self.pool_library, second, first)
        self.assertEqual(self.child_environment(LD_PRELOAD=before)["LD_PRELOAD"], ":".join([self.pool_library, first, second]))

    def test_another_copy_of_the_library_gives_way(self):
        copy = shutil.copy(cli.STUB, self.path("libgpupool.so"))
        result = self.run_tool("run", "--snapshot-at", "none", "env", LD_PRELOAD=copy)
        self.assertIn("LD_PRELOAD=%s\n" % self.pool_library, result.stdout)
        self.assertIn(copy, self.one_line(result.stderr))

    def test_a_sanitizers_runtime_stays_in_front(self):
        """It ends every program in which it is not the first library."""
        runtime, other = (shutil.copy(cli.STUB, self.path(name)) for name in ("libasan.so.8", "other.so"))
        child = self.child_environment(LD_PRELOAD=other + ":" + runtime)
        self.assertEqual(child["LD_PRELOAD"], ":".join([runtime, self.pool_library, other]))

    def test_the_library_is_found_wherever_it_was_installed(self):
        os.remove(self.pool_library)
        for place in ("lib", "lib/%s-linux-gnu" % os.uname().machine, "lib64", "tools"):
            library = self.path("tree", place, "libgpupool.so")
            os.makedirs(os.path.dirname(library), exist_ok=True)
            shutil.copy(cli.STUB, library)
            self.assertEqual(self.child_environment()["LD_PRELOAD"], library)
            os.remove(library)

    def test_a_library_of_another_kind_is_passed_over(self):
        foreign = self.path("tree/lib/libgpupool.so")
        os.makedirs(os.path.dirname(foreign))
        self.write_foreign(cli.STUB, foreign)
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
        known = shutil.copy(cli.STUB, self.path("libvgpu.so"))
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
        shutil.copy(cli.STUB, inside)
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
        shutil.copy(cli.STUB, self.path("work/libcuda.so.1"))  # is found, and not called
        result = self.run_tool("run", "--", "true", LD_LIBRARY_PATH=self.path("work"))
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

    def test_no_driver_is_named(self):
        result = self.run_tool("run", "--", "true", LD_LIBRARY_PATH="")
        self.assertIn("libcuda.so.1 was not found", self.one_line(result.stderr))
        self.assertIn("--gpus all", result.stderr)

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
        for descriptor in open_terminal():
            os.close(descriptor)
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
            shell, "-c", "for i in 1 2; do \"$0\" run -- sh -c \"echo ready; exec sleep 20\"; echo next; done", self.tool)
        self.assertNotIn("next", text)
        self.assertEqual(code, -signal.SIGINT)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    cli.GPUPOOL, cli.STUB = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])
