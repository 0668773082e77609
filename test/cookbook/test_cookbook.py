#!/usr/bin/env python3
"""Runs the commands of doc/cookbook.md, a shell for each chapter, and compares what they print.

    test_cookbook.py SOURCE GPUPOOL LIBRARY SIMULATOR NAME=PROGRAM... -- [TEST ...]

A block of the page that begins with "$ " is commands, each with what it prints; "..." stands for any text, a line of it for any
lines. A command that ends by "&" goes on; it and what wakes it have printed what is expected of them before the next one is run.
"""

import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden"))
import histories  # noqa: E402

SOURCE = TOOL = LIBRARY = SIMULATOR = None
SANITIZED = os.environ.get("GP_SANITIZED", "none") != "none"  # such a library cannot be preloaded into Python
PROGRAMS = {}
# What the cookbook's reader has installed, as far as the chapters depend on it.
MPIRUN = """#!/bin/sh
ranks=$2; shift 2
for rank in $(seq 0 $((ranks - 1))); do OMPI_COMM_WORLD_RANK=$rank OMPI_COMM_WORLD_SIZE=$ranks "$@" & done
wait
"""


def chapters():
    with open(os.path.join(SOURCE, "doc", "cookbook.md"), encoding="utf-8") as file:
        for head, text in re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", file.read(), re.M | re.S):
            blocks = re.findall(r"^```\n(\$ .*?)^```$", text, re.M | re.S)
            steps = [(command, printed.splitlines()) for command, printed in
                     re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", "".join(blocks), re.M)]
            yield head, steps


def pattern(expected):
    parts = [r"(?:.*\n)*?" if line == "..." else re.sub(r"(\\\.){3}", ".*", re.escape(line)).replace(r"\ ", " ") + r"\n"
             for line in expected]
    return re.compile("".join(parts) + r"\Z")


class Shell:
    """One bash, whose commands print into one pipe."""

    def __init__(self, folder, environment):
        self.process = subprocess.Popen(["bash"], cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, start_new_session=True)
        self.printed = ""

    def wait_until(self, is_done):
        end = time.monotonic() + 60
        while not is_done():
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))
            data = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            if not data:
                return False
            self.printed += data.decode()
        return True

    def run(self, command, expected):
        """Status and output; a command that has an effect on one in the background has none of its own."""
        self.printed = ""
        # Without a line end: the shell writes lines one by one, and a program in the background may write between two
        self.process.stdin.write(("%s\nprintf '\\001%%d\\002' $?\n" % command).encode())
        self.process.stdin.flush()
        mark = re.compile("\x01(\\d+)\x02")
        if not self.wait_until(lambda: mark.search(self.printed)):
            return None, self.printed
        status = int(mark.search(self.printed).group(1))

        def text():
            return mark.sub("", self.printed, count=1)
        self.wait_until(lambda: pattern(expected).match(text()) or not re.search(r"&$|^kill", command))
        return status, text()

    def end(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


class Cookbook(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        commands = os.path.join(self.folder, "bin")
        os.mkdir(commands)
        os.symlink(TOOL, os.path.join(commands, "gpupool"))
        with open(os.path.join(commands, "mpirun"), "w", encoding="utf-8") as file:
            file.write(MPIRUN)
        os.chmod(file.name, 0o755)
        with open(os.path.join(self.folder, "train.pickle"), "wb") as file:
            file.write(histories.survived())
        os.symlink(sys.executable, os.path.join(commands, "python3"))
        for name, program in PROGRAMS.items():
            shutil.copy(program, os.path.join(self.folder, name))
        shutil.copy(os.path.join(SOURCE, "doc", "examples", "cookbook", "batches.py"), self.folder)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GPUPOOL_")}
        environment.update(PATH=commands + ":" + os.environ["PATH"], HOME=self.folder,
                           SIMCUDA_SHARED=os.path.join(self.folder, "devices"),
                           LD_LIBRARY_PATH=":".join((SIMULATOR, os.path.dirname(LIBRARY))))
        self.shell = Shell(self.folder, environment)
        self.addCleanup(self.shell.end)

    def follow(self, steps):
        for command, expected in steps:
            if SANITIZED and "batches" in command:
                continue
            status, printed = self.shell.run(command, expected)
            self.assertEqual(status, 0, command + "\n" + printed)
            self.assertRegex(printed, pattern(expected), command)


def add_chapter(number, head, steps):
    def test(self):
        self.follow(steps)
    test.__doc__ = head
    setattr(Cookbook, "test_%d_%s" % (number, re.sub(r"\W+", "_", head.lower())), test)


if __name__ == "__main__":
    end = sys.argv.index("--")
    SOURCE, TOOL, LIBRARY, SIMULATOR = map(os.path.abspath, sys.argv[1:5])
    PROGRAMS = dict(word.split("=", 1) for word in sys.argv[5:end])
    for place, (title, commands_of_it) in enumerate(chapters()):
        add_chapter(place, title, commands_of_it)
    unittest.main(argv=sys.argv[:1] + sys.argv[end + 1:], verbosity=2)
