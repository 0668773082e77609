#!/usr/bin/env python3
"""gpupool summary of many files, and of many devices: one line for each.

    cli_overview.py GPUPOOL PRELOAD_STUB [TEST ...]
"""

import json
import os
import re
import signal
import subprocess
import sys
import unittest

import cli
from cli import MIB, device_of, gauge, snapshot_of
from report_case import Reports


class Overview(Reports):
    command = "summary"

    def used(self, *sizes, **stats):
        """A snapshot whose devices had so many MiB in use, and held."""
        return snapshot_of(devices=[device_of(device, requested_bytes=gauge(mib * MIB), reserved_bytes=gauge(mib * MIB), **stats)
                                    for device, mib in enumerate(sizes)])

    def rank(self, number, mib, **stats):
        return self.write("train.rank%d.json" % number, self.used(mib, **stats))

    def ranks(self, *sizes):
        return [self.rank(number, mib) for number, mib in enumerate(sizes)]

    def rows(self, text):
        return re.findall(r"(?m)^  (train\.rank\d+\.json) +(\S+ \S+) +(\S+ \S+) +\S+ +(\d+)(?:  (.*))?$", text)

    def test_what_stands_out_comes_first(self):
        """First what went wrong, then what is far from the others, and those that are alike by their names."""
        files = self.ranks(*[400] * 30)
        files[7] = self.rank(7, 1200)
        files[9] = self.rank(9, 360)
        self.rank(20, 400, num_ooms=1)
        text = self.report(*files)
        rows = self.rows(text)
        self.assertEqual([name for name, *_ in rows[:5]],
                         ["train.rank%d.json" % number for number in (20, 7, 9, 0, 1)])
        self.assertEqual([(used, ooms, codes) for _, used, _, ooms, codes in rows[:2]],
                         [("400 MiB", "1", "ooms"), ("1.2 GiB", "0", "")])
        self.assertEqual(len(rows), 20)
        self.assertRegex(text, r"^30 snapshots: 1 with errors, 0 with warnings\. At most 400 MiB were used, and\s400\sMiB in total \(medians\)")
        self.assertIn("10 others: used 400 MiB, total 400 MiB (-n 0 lists them)", text)
        self.assertIn("Next: gpupool summary %s\n" % os.path.join(os.path.dirname(files[0]), "train.rank20.json"), text)
        self.assertEqual(len(self.rows(self.report(*files, "-n", "0"))), 30)
        self.assertEqual(len(self.rows(self.report(*files, "-n", "3"))), 3)

    def report(self, *arguments):
        return self.run_tool("summary", *arguments).stdout

    def test_a_folder_is_its_snapshots(self):
        files = self.ranks(*[400] * 12)
        folder = os.path.dirname(files[0])
        self.write("notes.txt", {})
        self.assertEqual(self.report(folder), self.report(*files))
        self.assertEqual(self.report(folder + "/", "-n", "0").count(" train.rank"), 12)
        self.assertRegex(self.report(files[0], folder), "^13 snapshots")
        self.assertIn("A folder stands for", self.run_tool("sites", "--help").stdout)
        empty = os.path.join(folder, "empty")
        os.mkdir(empty)
        for command, why in (("summary", "the folder has no .json, .json.gz or .pickle file"), ("html", "the folder has no .json"), ("leaks", "Is a directory")):
            result = self.run_tool(command, empty, status=cli.INPUT)
            self.assertIn("gpupool: %s: %s" % (empty, why), result.stderr)

    def test_few_files_and_all_on_request(self):
        files = self.ranks(1, 2, 3, 4)
        self.assertEqual(self.report(*files[:3]).count("What happened"), 3)
        self.assertEqual(self.report(*files).count("What happened"), 0)
        self.assertEqual(self.report(*files, "--full").count("What happened"), 4)
        documents = [json.loads(self.run_tool("summary", "--json", *arguments).stdout) for arguments in (files, (*files, "--full"))]
        self.assertEqual(*documents)
        self.assertEqual(len(documents[0]["snapshots"]), 4)

    def test_a_file_that_cannot_be_read(self):
        """The others are shown."""
        bad = self.write("bad.json", "{")
        result = self.run_tool("summary", *self.ranks(1, 2, 3, 4), bad, status=cli.INPUT)
        self.one_line(result.stderr)
        self.assertIn("4 snapshots:", result.stdout)

    @unittest.skipUnless((os.sysconf("SC_NPROCESSORS_ONLN") or 1) > 1, "one processor: there is one process")
    def test_a_process_that_is_killed(self):
        """Two pipes, which two processes read; one of these is killed before there is anything to read."""
        pipes = [self.path("work", name) for name in ("first.json", "second.json")]
        for pipe in pipes:
            os.mkfifo(pipe)
        tool = subprocess.Popen([self.tool, "summary", *self.ranks(1, 2, 3), *pipes], env=self.environment, encoding="utf-8",
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        ends = [os.open(pipe, os.O_WRONLY) for pipe in pipes]  # until both are open at the other end
        readers = {}
        while len(readers) < 2:
            readers = {pipe: pid for pid in self.processes(tool.pid) for pipe in pipes if pipe in self.opened(pid)}
        lost = next(pipe for pipe in pipes if readers[pipe] != tool.pid)
        os.kill(readers[lost], signal.SIGKILL)
        for pipe, end in zip(pipes, ends):
            if pipe != lost:
                os.write(end, json.dumps(self.used(7)).encode())
            os.close(end)
        output, errors = tool.communicate(timeout=60)
        self.assertEqual((tool.returncode, errors), (cli.INPUT, "gpupool: %s: the process that read it was killed\n" % lost))
        self.assertIn("4 snapshots:", output)

    def processes(self, pid):
        """Of the tool."""
        with open("/proc/%d/task/%d/children" % (pid, pid), encoding="ascii") as file:
            return [pid] + [int(word) for word in file.read().split()]

    def opened(self, pid):
        folder = "/proc/%d/fd" % pid
        try:
            return [os.readlink(os.path.join(folder, name)) for name in os.listdir(folder)]
        except OSError:
            return []  # it has closed one, or ended

    def devices(self, *sizes):
        return self.write("devices.json", self.used(*sizes))

    def test_one_of_many_devices_is_shown_in_full(self):
        text = self.report(self.devices(100, 200, 120))
        self.assertEqual(re.findall(r"(?m)^Device (\d+)", text), ["1"])
        self.assertEqual(re.findall(r"(?m)^  device (\d+) +(\S+) MiB +(\S+) MiB", text),
                         [("0", "100", "100"), ("1", "200", "200"), ("2", "120", "120")])
        self.assertIn("Device 1 in full; the others with --full, or --device N.", text)
        path = self.devices(100, 200, 120)
        self.assertEqual(re.findall(r"(?m)^Device (\d+)", self.report(path, "--full")), ["0", "1", "2"])
        self.assertEqual(re.findall(r"(?m)^Device (\d+)", self.report(path, "--device", "2")), ["2"])
        self.assertEqual(re.findall(r"(?m)^Device (\d+)", self.report(self.devices(100, 200))), ["0", "1"])

    def test_devices_that_are_used_unequally(self):
        for sizes, said in (((100, 400), True), ((300, 400), False), ((10, 100), False), ((400,), False)):
            text = self.report(self.devices(*sizes))
            self.assertEqual("used its devices unequally: 400 MiB on device 1 at its peak, and 100 MiB on device 0." in text.replace("\n   ", ""),
                             said, text)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    cli.GPUPOOL, cli.STUB = map(os.path.abspath, sys.argv[1:3])
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])
