"""`gpupool live`: what it prints, and what it leaves of a terminal."""

import fcntl
import json
import os
import re
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import termios
import time
import unittest

from harness import PROG, careful_tool, stats_of
from live_program import PATIENCE, LiveCase
from terminal import open_terminal

TOOL = os.environ.get("GP_TOOL")
MIB = 1 << 20
OWN = "live%d-" % os.getpid()  # begins the names of our programs
ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"


class Screen:
    """A terminal with gpupool live in it."""

    def __init__(self, env, args, columns=100, rows=30):
        self.master, self.slave = open_terminal()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.before = termios.tcgetattr(self.slave)
        self.process = subprocess.Popen([TOOL, "live"] + args, env=env, stdin=self.slave, stdout=self.slave,
                                        stderr=subprocess.PIPE, start_new_session=True)
        self.seen = b""

    def wait(self, text):
        """Until the text has been written since the last wait. The screen is written anew all the time."""
        end = time.monotonic() + PATIENCE
        with selectors.DefaultSelector() as selector:
            selector.register(self.master, selectors.EVENT_READ)
            while text not in self.seen:
                if not selector.select(end - time.monotonic()):
                    raise AssertionError("%r did not come: %r" % (text, self.seen[-2000:]))
                self.seen += os.read(self.master, 65536)
        shown, self.seen = self.seen.split(text, 1)
        return shown

    def press(self, key):
        os.write(self.master, key)

    def end(self):
        """Status, stderr, and whether the terminal is what it was."""
        _, err = self.process.communicate(timeout=PATIENCE)
        after = termios.tcgetattr(self.slave)
        os.close(self.master)
        os.close(self.slave)
        return self.process.returncode, err.decode(), after == self.before


@unittest.skipUnless(TOOL, "the tool is not built")
class Live(LiveCase):
    def setUp(self):
        super().setUp()
        self.program = self.start(CONTROL="1", LIMIT="64MiB")
        self.program.step("alloc %d" % (16 * MIB))
        self.program.step("alloc %d" % (8 * MIB))
        self.program.step("free")
        self.env = {key: value for key, value in self.program.env.items()
                    if not key.startswith("GPUPOOL_") and key != "LD_PRELOAD"}
        self.env.update(TERM="xterm", LC_ALL="C.UTF-8", NO_COLOR="1")

    def live(self, *args, status=0, **env):
        result = subprocess.run([TOOL, "live"] + list(args), env={**self.env, **careful_tool(), **env}, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, universal_newlines=True, timeout=PATIENCE)
        self.assertEqual(result.returncode, status, result.stderr)
        return result.stdout if status == 0 else result.stderr

    def screen(self, *args, **size):
        screen = Screen(self.env, list(args) + ["--interval", "50", str(self.program.pid)], **size)
        screen.wait(ENTER)
        return screen

    def test_one_look(self):
        """Without a terminal, too; a screen's width is kept, and what is there is in the bar."""
        for args in ((), ("--once",)):
            out = self.live(*args, str(self.program.pid))
            self.assertIn("Device 0: 24 MiB of 64 MiB (GPUPOOL_LIMIT)\n", out)
            self.assertIn("in use 16 MiB", out)
            self.assertIn("deferred 8 MiB", out)
            (bar,) = [line for line in out.splitlines() if line.startswith("  [")]
            self.assertEqual(len(bar), 79)
            self.assertEqual((bar.count("\u2588"), bar.count("\u2592")), (19, 9))  # a quarter, and an eighth
            self.assertLessEqual(max(map(len, out.splitlines())), 79)
        self.assertTrue(self.live("--once", str(self.program.pid), LC_ALL="C").isascii())

    def test_json(self):
        stats = json.loads(self.live("--json", "--once", str(self.program.pid)))
        self.assertEqual(stats_of(stats)["requested_bytes"]["current"], 16 * MIB)

    def test_json_until_the_program_ends(self):
        process = subprocess.Popen([TOOL, "live", "--json", "--interval", "50", str(self.program.pid)], env=self.env,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(3):
            self.assertTrue(json.loads(process.stdout.readline())["ok"])
        self.assertEqual(self.program.end(), 0)
        _, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 0, err)
        self.assertIn("has ended", err.decode())

    def test_the_screen_and_its_keys(self):
        screen = self.screen()
        screen.wait(b"in use 16 MiB")
        self.program.step("alloc %d" % (20 * MIB))
        screen.wait(b"in use 36 MiB")
        screen.press(b"s")
        screen.wait(b"snapshot written: " + self.program.folder.encode()[:20])
        self.read(self.program.written())
        self.program.step("synchronize")
        screen.wait(b"cached 8 MiB")
        screen.press(b"e")
        screen.wait(b"idle memory was released")
        screen.wait(b"cached 0 B")
        self.program.step("free")
        screen.wait(b"peak: in use 36 MiB")
        screen.press(b"r")
        screen.wait(b"peak: in use 16 MiB")
        screen.press(b"q")
        screen.wait(LEAVE)
        self.assertEqual(screen.end(), (0, "", True))

    def test_a_small_screen_and_a_new_size(self):
        screen = self.screen(columns=50, rows=6)
        shown = screen.wait(b"q quit")
        lines = re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", shown).decode().split("\r\n")
        self.assertLessEqual(len(lines), 6)
        self.assertLessEqual(max(map(len, lines)), 50, lines)
        fcntl.ioctl(screen.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        screen.process.send_signal(signal.SIGWINCH)
        screen.wait(b"r reset peaks")  # all of the line fits now
        screen.press(b"q")
        self.assertEqual(screen.end()[::2], (0, True))

    def test_signals_restore_the_terminal(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            screen = self.screen()
            screen.wait(b"Device 0")
            screen.process.send_signal(number)
            screen.wait(LEAVE)
            self.assertEqual(screen.end(), (-number, "", True))

    def test_left_while_the_program_is_stopped(self):
        """By a key and by each signal, before the first answer and after it, also where the socket's queue is full."""
        program = self.program
        for stopped_first in (False, True):
            for number in (None, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
                if stopped_first:
                    program.signal(signal.SIGSTOP)
                    screen = self.screen()
                else:
                    screen = self.screen()
                    screen.wait(b"Device 0")
                    program.signal(signal.SIGSTOP)
                screen.wait(b"process %d does not answer: it is stopped" % program.pid)
                if number:
                    screen.process.send_signal(number)
                else:
                    screen.press(b"r")  # would need an answer
                    screen.press(b"q")
                screen.wait(LEAVE)
                self.assertEqual(screen.end(), (-number if number else 0, "", True))
                program.signal(signal.SIGCONT)
        self.assertEqual(program.end(), 0)

    def test_left_while_too_many_wait(self):
        (name,) = os.listdir(os.path.join(self.program.folder, "gpupool"))
        path = os.path.join(self.program.folder, "gpupool", name)
        self.program.signal(signal.SIGSTOP)
        waiting = []
        while True:  # until the kernel takes no more
            client = socket.socket(socket.AF_UNIX)
            self.addCleanup(client.close)
            client.setblocking(False)
            try:
                client.connect(path)
            except BlockingIOError:
                break
            waiting.append(client)
        self.assertTrue(waiting)
        screen = self.screen()
        screen.wait(b"does not answer: it is stopped")
        screen.press(b"q")
        screen.wait(LEAVE)
        self.assertEqual(screen.end(), (0, "", True))

    def test_the_program_goes_on(self):
        screen = self.screen()
        screen.wait(b"Device 0")
        self.program.signal(signal.SIGSTOP)
        screen.wait(b"it is stopped")
        self.program.signal(signal.SIGCONT)
        screen.wait(b"s snapshot")  # the line of keys is back
        self.program.step("alloc %d" % (20 * MIB))
        screen.wait(b"in use 36 MiB")
        screen.press(b"q")
        screen.wait(LEAVE)
        self.assertEqual(screen.end(), (0, "", True))

    def test_the_program_ends(self):
        screen = self.screen()
        screen.wait(b"Device 0")
        self.assertEqual(self.program.end(), 0)
        screen.wait(LEAVE)
        status, err, restored = screen.end()
        self.assertEqual((status, restored), (0, True))
        (name,) = [name for name in os.listdir(self.program.folder) if name.endswith(".exit.json")]
        self.assertEqual(err, "gpupool: steps, process %d, has ended\ngpupool: next: gpupool summary %s\n" % (
            self.program.pid, os.path.join(self.program.folder, name)))

    def test_usage(self):
        for args, text, status in ((("--interval", "1", "1"), "50 to 3600000", 2),
                                   (("--interval",), "--interval needs a value", 2), (("1", "2"), "unexpected argument 2", 2),
                                   (("--onc", "1"), "did you mean --once?", 2), (("x",), "is not a process id", 2)):
            self.assertIn(text, self.live(*args, status=status))
        self.assertIn("usage: gpupool live", self.live("--help"))


@unittest.skipUnless(TOOL, "the tool is not built")
class All(LiveCase):
    """Without a process: the table of `gpupool ps`."""

    def setUp(self):
        super().setUp()
        self.records = os.path.join(self.folder, "records")
        os.mkdir(self.records, 0o700)
        self.programs = []
        for name, size in ("small", 2), ("large", 8), ("middle", 4):
            path = os.path.join(self.folder, OWN + name)
            shutil.copy(os.path.join(PROG, "steps"), path)
            self.programs.append(self.start(name=path, RECORD=self.records, STACKS="native"))
            self.assertEqual(self.programs[-1].step("alloc %d" % (size * MIB)), 0)
        self.env = dict(os.environ, GPUPOOL_RECORD=self.records, TERM="xterm", LC_ALL="C.UTF-8", NO_COLOR="1")

    def row(self, program, mark=b" "):
        return b"\n%s %d " % (mark, program.pid)

    def screen(self, filter=OWN, **size):
        """Root sees containers, too, so other programs may come and go on this machine: the list is of our own."""
        screen = Screen(self.env, ["--interval", "50"], **size)
        screen.wait(ENTER)
        screen.press(b"/%s\r" % filter.encode())
        return screen

    def leave(self, screen):
        screen.press(b"q")
        screen.wait(LEAVE)
        self.assertEqual(screen.end(), (0, "", True))

    def test_not_a_terminal(self):
        result = subprocess.run([TOOL, "live"], env={**self.env, **careful_tool()}, capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        for program in self.programs:
            self.assertRegex(result.stdout, r"(?m)^ *%d " % program.pid)

    def test_json_needs_a_process(self):
        result = subprocess.run([TOOL, "live", "--json"], env=self.env, capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(result.returncode, 2)
        self.assertIn("gpupool ps --json", result.stderr)

    def test_keys(self):
        small, large, middle = self.programs
        screen = self.screen()
        screen.wait(b"> %d " % large.pid)
        screen.press(b"/")
        screen.wait(b"filter: %s_" % OWN.encode())
        screen.press(b"small\r")
        screen.wait(b"1 program has 2 MiB of device memory; by total")
        screen.wait(b"> %d " % small.pid)
        screen.press(b"\r")
        screen.wait(b"OWNER")
        screen.wait(b"2 MiB    100%")
        self.assertIn(b"main", screen.wait(b"Escape back"))
        screen.press(b"\x1b")
        screen.wait(b"/ filter")
        screen.press(b"/")
        screen.wait(b"Escape: no filter")
        screen.press(b"\x1b")
        screen.wait(b"programs have")
        for name in (b"peak", b"cached"):
            screen.press(b"o")
            screen.wait(b"; by " + name)
        screen.press(b"oooo")
        screen.wait(b"; by age")
        self.leave(screen)

    def test_the_chosen_program_ends(self):
        small, large, middle = self.programs
        screen = self.screen()
        screen.wait(b"> %d " % large.pid)
        screen.press(b"\x1b[B")
        screen.wait(b"> %d " % middle.pid)
        screen.press(b"\r")
        screen.wait(b"OWNER")
        middle.end()
        screen.wait(b"Process %d has ended." % middle.pid)
        screen.press(b"\x1b")
        screen.wait(b"> %d " % small.pid)  # which has its place now
        self.leave(screen)

    @unittest.skipIf(os.geteuid() != 0, "for root")
    def test_a_record_that_another_user_named_alike(self):
        small, large, _ = self.programs
        own = os.path.join(self.records, "gpupool.0")
        names = {int(name.split("-")[0]): name for name in os.listdir(own)}
        for user in range(60001, 60031):  # folders are read in no order
            other = os.path.join(self.records, "gpupool.%d" % user)
            os.mkdir(other, 0o700)
            forged = os.path.join(other, "9-" + names[small.pid].split("-")[1])
            with open(os.path.join(own, names[large.pid]), "rb") as record, open(forged, "wb") as file:
                file.write(record.read(1 << 20))
            for path in (other, forged):
                os.chown(path, user, user)
        screen = self.screen(str(small.pid))
        screen.wait(b"> %d " % small.pid)
        screen.press(b"\r")
        screen.wait(b"OWNER")
        screen.wait(b"2 MiB    100%")
        self.leave(screen)

    def test_no_line_is_wider_than_the_screen(self):
        for columns in (80, 200):
            screen = self.screen(columns=columns, rows=6)
            screen.wait(b"q quit")
            text = screen.wait(b"q quit").decode().replace("\x1b[H", "\n")
            for line in re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text).splitlines():
                self.assertLessEqual(len(line), columns, line)
            self.leave(screen)


if __name__ == "__main__":
    unittest.main()
