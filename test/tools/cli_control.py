#!/usr/bin/env python3
"""gpupool ctl and gpupool live: what they make of answers, also of those that no program of today gives.

    cli_control.py GPUPOOL PRELOAD_STUB [TEST ...]

This process is the one that is asked: it serves a control socket whose answers are those of the test.
"""

import fcntl
import json
import mmap
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
import unittest

import cli
from cli import INPUT, MIB, USAGE
from terminal import open_terminal

PID = os.getpid()
NO_PROCESS = 2147483647
LEAVE = b"\x1b[?25h\x1b[?1049l"  # the screen is what it was before


def stats(**changes):
    """The answer to `stats`, of a device with 3 MiB."""
    device = {"device": 0, "limit": None, "use": None, "stats": {
        "allocated_bytes": cli.gauge(MIB, 2 * MIB), "reserved_bytes": cli.gauge(3 * MIB), "cached_bytes": cli.gauge(2 * MIB),
        "cache_hits": 1000, "cache_misses": 2, "driver_allocs": 2, "driver_frees": 0, "num_ooms": 0, "cache_hit_rate": 0.9984}}
    device["stats"].update(changes.pop("stats", {}))
    device.update(changes)
    return {"ok": True, "pid": PID, "program": "app", "trace": "all", "time_ns": 5000000000, "devices": [device]}


class Control(cli.Case):
    def setUp(self):
        super().setUp()
        with open(self.pool_library, "rb") as file:  # a process that has it not in its maps would not be asked
            library = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.addCleanup(library.close)
        os.makedirs(self.path("run/gpupool"), 0o700)
        self.environment.update(XDG_RUNTIME_DIR=self.path("run"), LC_ALL="C", TERM="xterm", NO_COLOR="1")
        self.answers, self.requests = {}, []
        with open("/proc/self/stat", encoding="utf-8") as file:
            start = file.read().rpartition(")")[2].split()[19]
        self.socket = self.path("run/gpupool", "%d-%s-0" % (PID, start))

    def listen(self, backlog=8):
        server = socket.socket(socket.AF_UNIX)
        server.bind(self.socket)
        server.listen(backlog)
        return server

    def serve(self, **answers):
        """Answers by request; one is a document, bytes, or a list of those, of which the last stays."""
        self.answers.update(answers)
        server = self.listen()
        thread = threading.Thread(target=self.answer_all, args=(server,))
        thread.start()

        def end():
            server.shutdown(socket.SHUT_RDWR)
            thread.join()
            server.close()
        self.addCleanup(end)

    def answer_all(self, server):
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            with client:
                request = b""
                while not request.endswith(b"\n"):
                    more = client.recv(65536)
                    if not more:
                        break
                    request += more
                self.requests.append(request.decode())
                answer = self.answers.get(request.decode().split()[0].replace("-", "_") if request else "", b"")
                if isinstance(answer, list):
                    answer = answer.pop(0) if len(answer) > 1 else answer[0]
                try:
                    client.sendall(answer if isinstance(answer, bytes) else json.dumps(answer).encode())
                except OSError:
                    pass  # the tool has read enough

    def ctl(self, *arguments, **options):
        return self.run_tool("ctl", str(PID), *arguments, **options)


class Ctl(Control):
    def test_each_value_has_its_form(self):
        self.serve(stats=stats(limit=8 * MIB))
        lines = self.ctl("stats").stdout.splitlines()
        self.assertEqual(lines[0], "device 0, limit 8 MiB")
        self.assertEqual(lines[1].split(), ["current", "peak", "total"])
        rows = {line.split()[0]: line[24:] for line in lines[2:]}
        self.assertEqual(rows["allocated_bytes"].split(), ["1", "MiB", "2", "MiB", "2", "MiB"])
        self.assertEqual(rows["cache_hits"], "%16s" % "1,000")
        self.assertEqual(rows["cache_hit_rate"], "%16s" % "0.998")
        self.answers["stats"] = stats()
        self.assertIn("device 0, limit none\n", self.ctl("stats").stdout)

    def test_what_went_back(self):
        self.serve()
        for answer, text in (({"suspended": True}, "nothing released: a stream is being captured; try again\n"),
                             ({"given_back": 3 * MIB, "kept": 0}, "released to the driver: 3 MiB\n"),
                             ({"given_back": 0, "kept": 2 * MIB},
                              "released to the driver: 0 B\nthe device is busy: 2 MiB more are released when the program frees "
                              "memory or\nsynchronizes while the device is quiet\n")):
            self.answers["empty_cache"] = dict(answer, ok=True)
            self.assertEqual(self.ctl("empty-cache").stdout, text)

    def test_what_cannot_be_sent(self):
        self.serve()
        for arguments, part in ((("snapshot", "a\nb"), "ctl: a path with a line break cannot be sent"), (("snapshot", "x" * 5000), "ctl: PATH is too long"),
                                (("limit", "8" * 5000), "ctl: SIZE is too long")):
            result = self.ctl(*arguments, status=USAGE)
            self.one_line(result.stderr)
            self.assertIn(part, result.stderr)
        os.mkdir(self.path("gone"))
        result = subprocess.run(["sh", "-c", "cd '%s' && rmdir '%s' && exec '%s' ctl %d snapshot x" % (
            self.path("gone"), self.path("gone"), self.tool, PID)], env=self.environment, stderr=subprocess.PIPE, encoding="utf-8", check=False)
        self.assertEqual(result.returncode, USAGE)
        self.assertIn("ctl: the path of the current folder is unknown; give the full path\n", result.stderr)
        self.assertEqual(self.requests, [])
        self.answers["snapshot"] = {"ok": True, "path": "/x"}
        self.ctl("snapshot", "a b")
        self.assertEqual(self.requests, ["snapshot %s\n" % self.path("work/a b")])

    def test_answers_that_are_none(self):
        self.serve()
        for answer, part in ((b"", "sent an answer that is not JSON"), (b"{", "sent an answer that is not JSON"), (b"x" * (2 << 20), "does not answer: the answer is too long"),
                             ({"ok": False}, "refuses: it gave no reason"), ({"ok": False, "error": "no"}, "refuses: no")):
            self.answers["stats"] = answer
            result = self.ctl("stats", status=INPUT)
            self.assertEqual((result.stdout, result.stderr), ("", "gpupool: ctl: process %d %s\n" % (PID, part)))

    def test_why_nothing_is_reached(self):
        none = "process %d has no control socket: it has not requested GPU memory yet" % PID
        self.assertIn(none, self.ctl("stats", status=INPUT).stderr)
        self.listen().close()
        self.assertIn("process %d no longer serves its control socket\n" % PID, self.ctl("stats", status=INPUT).stderr)
        os.unlink(self.socket)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
            other.bind(self.socket)
            self.assertIn("the control socket of process %d cannot be reached: Protocol wrong type for socket\n" % PID,
                          self.ctl("stats", status=INPUT).stderr)
        os.unlink(self.socket)
        os.rmdir(self.path("run/gpupool"))
        self.write("../run/gpupool", "")
        self.assertIn(none, self.ctl("stats", status=INPUT).stderr)
        for command in (("ctl", str(NO_PROCESS), "stats"), ("live", str(NO_PROCESS))):
            self.assertEqual(self.run_tool(*command, status=INPUT).stderr,
                             "gpupool: %s: there is no process %d\n" % (command[0], NO_PROCESS))

    def test_another_user_may_not(self):
        if os.geteuid() != 0:
            self.skipTest("only root can become another user")
        os.chmod(self.folder, 0o755)
        result = subprocess.run([self.tool, "ctl", str(PID), "stats"], env=self.environment, cwd="/", stderr=subprocess.PIPE,
                                preexec_fn=lambda: os.setuid(65534), encoding="utf-8", timeout=60, check=False)
        self.assertEqual(result.returncode, INPUT)
        self.assertIn("process %d belongs to user 0: only that user and root may control it\n" % PID, result.stderr)


class Live(Control):
    def start(self, interval=3600000, rows=24, columns=80):
        """On a terminal of that size. Between two looks there is an hour, so that only what is tested leads to one."""
        self.terminal, other = open_terminal()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.seen = b""
        self.process = subprocess.Popen([self.tool, "live", "--interval=%d" % interval, str(PID)], stdin=other, stdout=other, stderr=other,
                                        env=self.environment)
        os.close(other)
        self.addCleanup(self.end)

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self.terminal is not None:
            os.close(self.terminal)
            self.terminal = None

    def until(self, text):
        """Reads up to it; returns what came before it."""
        deadline = time.monotonic() + 20
        while text not in self.seen:
            left = deadline - time.monotonic()
            self.assertTrue(left > 0 and select.select([self.terminal], [], [], left)[0], (text, self.seen[-4000:]))
            self.seen += os.read(self.terminal, 65536)
        before, _, self.seen = self.seen.partition(text)
        return before.decode()

    def key(self, key):
        os.write(self.terminal, key)

    def quit(self):
        self.key(b"q")
        self.until(LEAVE)
        self.assertEqual(self.process.wait(timeout=20), 0)

    def test_a_look_at_what_is_known(self):
        self.serve()
        for times, words in ((0, None), (1, "  out of memory: 1 time\n"), (1234, "  out of memory: 1,234 times\n")):
            self.answers["stats"] = stats(stats={"num_ooms": times})
            text = self.run_tool("live", "--once", str(PID)).stdout
            self.assertEqual("out of memory" in text, words is not None)
            self.assertIn(words or "", text)
        for changes, heading in (({}, "Device 0: 3 MiB of 3 MiB (the highest so far)"), ({"limit": 8 * MIB}, "of 8 MiB (GPUPOOL_LIMIT)"),
                                 ({"use": {"total": 16 * MIB, "free": 5 * MIB}}, "Device 0: 3 MiB of 16 MiB\n")):
            self.answers["stats"] = stats(**changes)
            text = self.run_tool("live", "--once", str(PID)).stdout
            self.assertIn(heading, text)
            self.assertEqual("; free on the device: 5 MiB" in text, "use" in changes)

    def test_what_is_there_is_seen(self):
        """A part of a thousandth has its cell in the bar, and so has the next."""
        self.serve(stats=stats(limit=8000 * MIB, stats={"deferred_bytes": cli.gauge(MIB)}))
        self.assertIn("\n  [#+=%s]\n" % (72 * " "), self.run_tool("live", "--once", str(PID)).stdout)
        self.answers["stats"] = stats(limit=3 * MIB)
        self.assertIn("\n  [%s%s]\n" % (25 * "#", 50 * "="), self.run_tool("live", "--once", str(PID)).stdout)

    def test_the_history_of_ascii(self):
        """The newest is at the right; nothing is blank, and what there is at all is seen."""
        self.serve(stats=[dict(stats(limit=700 * MIB, stats={"reserved_bytes": cli.gauge(size * MIB)}), time_ns=time) for time, size in
                          enumerate((0, 1, 350, 700))])
        self.start(interval=50)
        self.until((72 * " " + " .+@|").encode())
        self.quit()

    def test_rates(self):
        """Between two answers, by their times, rounded; after the first there is none, nor where a count went back."""
        counts = ((1000, 2, 5), (1000, 2, 15), (1006, 5, 35), (1040, 11, 35), (1000, 3, 4))
        self.serve(stats=[dict(stats(stats={"cache_hits": hits, "cache_misses": misses, "driver_allocs": calls}), time_ns=20000000000 * i)
                          for i, (hits, misses, calls) in enumerate(counts)])
        self.start(interval=50)
        for allocations, each, calls, of_calls in (
                ("1,002", "-", 5, "-"), ("1,002", "0", 15, "1"), ("1,011", "0", 35, "1"), ("1,051", "2", 35, "0"), ("1,003", "-", 4, "-")):
            self.until(("allocations %s (%s/s)" % (allocations, each)).encode())
            self.until(("driver calls %d (%s/s)" % (calls, of_calls)).encode())
        self.quit()

    def test_small_screens(self):
        """What has no room is left out from below; the keys stay."""
        self.serve(stats=stats())
        order = ["app, process %d" % PID, "Device 0: 3 MiB", "  [", " in use 1 MiB", "peak: in use", "allocations 1,002"]
        for rows, shown in ((2, 1), (3, 1), (4, 2), (5, 3), (6, 4), (7, 5), (8, 6), (24, 6)):
            self.start(rows=rows)
            text = self.until(b"q quit")
            self.assertEqual([words in text for words in order], [True] * shown + [False] * (6 - shown), (rows, text))
            self.assertLessEqual(text.count("\n") + 1, rows)
            self.quit()
            self.end()

    def test_what_keys_ask_for(self):
        self.serve(stats=stats(), snapshot={"ok": True, "path": "/tmp/x\x1b.json"}, empty_cache={"ok": True, "kept": 7},
                   reset_peaks={"ok": False, "error": "it is not the time"})
        self.start()
        self.until(b"q quit")
        for key, words in ((b"s", b"snapshot written: /tmp/x"), (b"r", b"process %d refuses: it is not the time" % PID), (
                b"e", b"the device is busy: idle memory is released when the program frees")):
            self.key(key)
            self.until(words)
            self.until(b"q quit")
        self.answers["empty_cache"] = {"ok": True, "kept": 0}
        self.key(b"x")  # is no key: nothing is asked and nothing drawn
        self.key(b"e")
        self.assertEqual(self.until(b"idle memory was released").count("Device 0"), 1)
        self.assertEqual([request for request in self.requests if request != "stats\n"],
                         ["snapshot\n", "reset-peaks\n", "empty-cache\n", "empty-cache\n"])
        self.assertEqual(self.requests.count("stats\n"), 5)
        self.quit()

    def test_stopped_and_resumed(self):
        self.serve(stats=stats())
        self.start()
        self.until(b"q quit")
        self.assertFalse(termios.tcgetattr(self.terminal)[3] & termios.ICANON)
        self.process.send_signal(signal.SIGTSTP)
        self.assertTrue(os.WIFSTOPPED(os.waitpid(self.process.pid, os.WUNTRACED)[1]))
        self.until(LEAVE)
        self.assertTrue(termios.tcgetattr(self.terminal)[3] & termios.ICANON)
        self.process.send_signal(signal.SIGCONT)
        self.until(b"\x1b[?1049h")
        self.until(b"q quit")
        self.assertFalse(termios.tcgetattr(self.terminal)[3] & termios.ICANON)
        self.quit()
        self.assertTrue(termios.tcgetattr(self.terminal)[3] & termios.ICANON)

    def test_the_terminal_goes(self):
        self.serve(stats=stats())
        self.start()
        self.until(b"q quit")
        os.close(self.terminal)
        self.terminal = None
        self.assertEqual(self.process.wait(timeout=20), -signal.SIGHUP)

    def test_others_wait_first(self):
        """As many as may: the tool waits until one has gone, or the user does not want to."""
        with self.listen(0) as server:
            server.settimeout(20)
            for wanted in (b"q quit", None):
                waiting = []
                while True:
                    other = socket.socket(socket.AF_UNIX)
                    other.setblocking(False)
                    waiting.append(other)
                    try:
                        other.connect(self.socket)
                    except BlockingIOError:
                        break
                self.start()
                self.until(b"process %d does not answer yet; q quit" % PID)
                if not wanted:
                    self.quit()
                for _ in waiting[1:]:
                    server.accept()[0].close()
                if wanted:
                    client = server.accept()[0]
                    client.recv(100)
                    client.sendall(json.dumps(stats()).encode())
                    client.close()
                    self.until(b"Device 0")
                    self.end()
                for other in waiting:
                    other.close()


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    if os.environ.get("GPUPOOL_CONTROL") != "1":  # as the tool reads it of a process that is asked
        os.execve(sys.executable, [sys.executable] + sys.argv, {**os.environ, "GPUPOOL_CONTROL": "1"})
    cli.GPUPOOL, cli.STUB = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])
