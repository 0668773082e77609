#!/usr/bin/env python3
"""The files that commands write: where -o and --force lead, and what is left of a command that is stopped.

    cli_files.py GPUPOOL PRELOAD_STUB STOP_AT_NAME RECORD
"""

import json
import os
import signal
import stat
import subprocess
import sys
import unittest

import cli
from cli import INPUT, USAGE

STOP_AT_NAME = RECORD = None


class Files(cli.Case):
    def setUp(self):
        super().setUp()
        path = self.write("s.json", cli.snapshot_of())
        self.commands = {
            "summary": ["summary", "--json", path], "symbolize": ["symbolize", path],
            "export": ["export", "--to", "pytorch-json", path], "recover": ["recover", RECORD],
        }
        os.mkdir(self.path("out"))

    def each(self):
        for name, command in self.commands.items():
            with self.subTest(command=name):
                yield command

    def left(self):
        names = sorted(os.listdir(self.path("out")))
        for name in names:
            os.unlink(self.path("out", name))
        return names

    def write_to(self, command, name, *options, **keywords):
        return self.run_tool(*command, "-o", self.path("out", name), *options, **keywords)

    def test_a_new_file(self):
        for command in self.each():
            self.write_to(command, "new")
            with open(self.path("out", "new"), encoding="utf-8") as file:
                json.load(file)
            self.assertEqual(self.left(), ["new"])

    def test_an_existing_file(self):
        for command in self.each():
            path = self.write("../out/kept", "before")
            os.chmod(path, 0o640)
            self.assertIn("kept exists; --force overwrites it", self.write_to(command, "kept", status=USAGE).stderr)
            with open(path, encoding="utf-8") as file:
                self.assertEqual(file.read(), "before")
            self.write_to(command, "kept", "--force")
            with open(path, encoding="utf-8") as file:
                json.load(file)
            self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o640)
            self.assertEqual(self.left(), ["kept"])

    def test_what_is_no_file_is_never_replaced(self):
        """A pipe is written to as it is; a device, where we may make one, too."""
        path = self.path("out", "pipe")
        for command in self.each():
            os.mkfifo(path)
            self.assertIn("exists", self.write_to(command, "pipe", status=USAGE).stderr)
            with subprocess.Popen(["cat", path], stdout=subprocess.PIPE) as reader:
                self.write_to(command, "pipe", "--force")
                json.loads(reader.communicate()[0])
            self.assertTrue(stat.S_ISFIFO(os.lstat(path).st_mode))
            self.assertEqual(self.left(), ["pipe"])

    def test_a_device_stays_one(self):
        try:
            os.mknod(self.path("out", "null"), 0o666 | stat.S_IFCHR, os.makedev(1, 3))
            with open(self.path("out", "null"), "w", encoding="utf-8"):
                pass
        except OSError:
            self.skipTest("no device can be made here")
        for command in self.commands.values():
            self.write_to(command, "null", "--force")
            self.assertTrue(stat.S_ISCHR(os.lstat(self.path("out", "null")).st_mode))

    def test_links(self):
        for command in self.each():
            for name in ("../work/target", "nowhere"):
                os.symlink(name, self.path("out", "link"))
                self.write("target", "before")
                self.assertIn("exists", self.write_to(command, "link", status=USAGE).stderr)
                if name == "nowhere":
                    result = self.write_to(command, "link", "--force", status=INPUT)
                    self.assertIn("a link to nothing", result.stderr)
                else:
                    self.write_to(command, "link", "--force")
                    with open(self.path("work", "target"), encoding="utf-8") as file:
                        json.load(file)
                self.assertEqual(os.readlink(self.path("out", "link")), name)
                self.assertEqual(self.left(), ["link"])

    def test_folders(self):
        for command in self.each():
            for force in ([], ["--force"]):
                self.run_tool(*command, "-o", self.path("out"), *force, status=INPUT if force else USAGE)
                for name, folder in (("missing/new", "out/missing"), ("../work/s.json/new", "work/s.json")):
                    result = self.write_to(command, name, *force, status=INPUT)
                    self.assertIn("there is no folder", result.stderr)
                    self.assertIn(folder, result.stderr)
            self.assertEqual(os.listdir(self.path("tmp")), [])
            self.assertEqual(self.left(), [])

    def test_recover_writes_nowhere_else(self):
        """Without -o into this folder, of a name that is free, and nowhere if that cannot be."""
        for suffix in ("", ".1", ".2"):
            result = self.run_tool("recover", RECORD)
            name = "gpupool.app.node1.4711.recovered.json" + suffix
            self.assertIn("recovered: %s\n" % name, result.stderr)
            self.assertEqual(stat.S_IMODE(os.stat(self.path("work", name)).st_mode), 0o600)
        if os.geteuid() != 0:
            os.chmod(self.path("work"), 0o500)
            self.run_tool("recover", RECORD, status=INPUT)
            os.chmod(self.path("work"), 0o700)
        self.assertEqual(os.listdir(self.path("tmp")), [])

    def stop(self, command, number, ignored=False):
        def dispose():
            signal.signal(number, signal.SIG_IGN if ignored else signal.SIG_DFL) # nohup(1) may have left another
        env = dict(self.environment, LD_PRELOAD=STOP_AT_NAME, STOP_SIGNAL=str(int(number)))
        return subprocess.run([self.tool, *command], cwd=self.path("work"), env=env, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=60, preexec_fn=dispose, check=False)

    def test_a_stopped_command_leaves_nothing(self):
        for command in self.each():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGQUIT, signal.SIGXFSZ):
                result = self.stop([*command, "-o", self.path("out", "new")], number)
                self.assertEqual((result.returncode, self.left()), (-number, []), result.stderr)
                path = self.write("../out/kept", "before")
                result = self.stop([*command, "-o", path, "--force"], number)
                with open(path, encoding="utf-8") as file:
                    self.assertEqual(file.read(), "before")
                self.assertEqual((result.returncode, self.left()), (-number, ["kept"]), result.stderr)

    def test_a_signal_that_is_ignored_stays_so(self):
        result = self.stop([*self.commands["summary"], "-o", self.path("out", "new")], signal.SIGHUP, ignored=True)
        self.assertEqual((result.returncode, self.left()), (INPUT, []), result.stderr)


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    cli.GPUPOOL, cli.STUB, STOP_AT_NAME, RECORD = map(os.path.abspath, sys.argv[1:5])
    unittest.main(argv=[sys.argv[0]] + sys.argv[5:])
