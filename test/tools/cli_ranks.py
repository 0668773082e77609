#!/usr/bin/env python3
"""The ranks of a job: which stand out in `summary`, and the sites of all in one table of `sites`.

    cli_ranks.py GPUPOOL PRELOAD_STUB [TEST ...]
"""

import json
import os
import re
import sys
import unittest

import cli
from cli import MIB, device_of, gauge, snapshot_of
from report_case import Program, Reports

START_US = 1760000000000000


def mark(name, time_ns, kind="mark"):
    return {"kind": kind, "time_ns": time_ns, "thread": 0, "device": None, "scope": None, "name": name}


class Ranks(Reports):
    command = "summary"

    def process(self, rank, host="node1", late_us=0):
        return dict(snapshot_of()["process"], rank=rank, host=host, start_time_us=START_US + late_us)

    def write_rank(self, name, mib, rank, keeps=0, out_ns=None, marks=(), host="node1", late_us=0, **changes):
        """A snapshot that used so many MiB, kept some, and ran out of memory at a time."""
        program = Program()
        if keeps:
            program.alloc(keeps * MIB)
        if out_ns:
            program.time = out_ns - 1000
            program.event("oom", size=MIB)
        devices = [device_of(0, allocation=gauge(3), requested_bytes=gauge(mib * MIB), reserved_bytes=gauge(mib * MIB))]
        return self.write(name, program.snapshot(devices=devices, process=self.process(rank, host, late_us), marks=list(marks), **changes))

    def ranks(self, count=6, **changes):
        """changes: by a rank's number, "of3" for rank 3."""
        return [self.write_rank("r.%d.json" % (9 - rank), **dict({"mib": 400, "rank": rank}, **changes.get("of%d" % rank, {})))
                for rank in range(count)]

    def said(self, files):
        """What is said of each rank that stands out: {"used most": "rank 3, ..."}."""
        text = self.run_tool("summary", *files).stdout
        self.narrow(text)
        head = re.sub(r"\n {10,}", " ", text.split("\n\n")[0])
        return dict(re.findall(r"(?m)^  (\S.*?)  +(.*)$", head))

    def test_who_used_most_and_least(self):
        self.assertEqual(self.said(self.ranks(of2={"mib": 1200}, of4={"mib": 300})),
                         {"used most": "rank 2, 1.2 GiB (median 400 MiB)", "used least": "rank 4, 300 MiB (median 400 MiB)"})
        self.assertEqual(self.said(self.ranks(of2={"mib": 430}, of4={"mib": 370})), {})

    def test_who_leaked_most(self):
        self.assertEqual(self.said(self.ranks(of1={"keeps": 3}, of5={"keeps": 7})), {"leaked most": "rank 5, 7 MiB (median 0 B)"})
        alike = {"of%d" % rank: {"keeps": 7} for rank in range(6)}
        self.assertEqual(self.said(self.ranks(**alike)), {})
        alike["of3"] = {"keeps": 90, "reason": "request"}  # it may still free it
        self.assertEqual(self.said(self.ranks(**alike)), {})

    def test_who_ran_out_first_on_one_host(self):
        """Rank 4 by its own time, but rank 1 began a second earlier."""
        files = self.ranks(of1={"out_ns": 2500000000, "late_us": -1000000}, of4={"out_ns": 2000000000})
        self.assertEqual(self.said(files), {"ran out first": "rank 1, 2.50 s after the first rank began"})

    def on_hosts(self, names, **changes):
        """Each rank on a host of its own, whose clock is some seconds off, with marks of these names."""
        hosts = {}
        for rank in range(6):
            hosts["of%d" % rank] = {"host": "node%d" % rank, "late_us": -7000000 * rank,
                                    "marks": [mark(name, 1000000000 * (rank + 1 + i)) for i, name in enumerate(names)]}
            hosts["of%d" % rank].update(changes.get("of%d" % rank, {}))
        return self.ranks(**hosts)

    def test_who_ran_out_first_by_a_common_mark(self):
        """By the clocks rank 5 was first; after the mark, which it passed at 6 s, it went on for longer."""
        out = {"of2": {"out_ns": 4000000000}, "of5": {"out_ns": 7500000000}}
        self.assertEqual(self.said(self.on_hosts(["begin", "solve"], **out)),
                         {"ran out first": "rank 2, 1.00 s after mark \"begin\", by which the hosts\' clocks are aligned"})
        out["of0"] = {"marks": [mark("else", 500), mark("solve", 3000000000, "push")]}
        self.assertEqual(self.said(self.on_hosts(["begin", "solve"], **out)),
                         {"ran out first": "rank 2, 0 ns after mark \"solve\", by which the hosts\' clocks are aligned"})
        out["of2"]["out_ns"] = 1000000000
        self.assertIn("rank 2, 3.00 s before mark \"solve\"", self.said(self.on_hosts(["begin", "solve"], **out))["ran out first"])

    def test_clocks_that_nothing_aligns(self):
        out = {"of2": {"out_ns": 4000000000}, "of5": {"out_ns": 7500000000}}
        lost = [mark("begin", time) for time in range(1, 32768)]  # as many as are kept: the first may be gone
        for rank_0 in ({"marks": []}, {"marks": [mark("other", 500)]}, {"marks": lost}):
            self.assertEqual(self.said(self.on_hosts(["begin"], of0=rank_0, **out)),
                             {"ran out first": "rank 5, 7.50 s after the first rank began (the hosts' clocks are not aligned: no mark of one name is in all snapshots)"})

    def test_ranks_without_a_number_of_their_own(self):
        """Two snapshots of one rank, and none known: their files name them."""
        for number in (1, None):
            self.assertEqual(self.said(self.ranks(of2={"mib": 1200, "rank": number})), {"used most": "r.7.json, 1.2 GiB (median 400 MiB)"})

    def sites(self, *arguments):
        """{site: (sum in MiB, ranks, least, its rank, most, its rank)}."""
        text = self.run_tool("sites", *arguments).stdout
        self.narrow(text)
        found = re.findall(r"(?m)^ *(\S+) MiB +\S+% +(\d+) +(\S+) MiB +(\S+) +(\S+) MiB +(\S+)  (.*)$", text)
        return {name: tuple(word if word == "-" else int(word) for word in numbers) for *numbers, name in found}

    def write_sites(self, of_rank, **changes):
        """of_rank: for each, {stack: MiB}; what stack 0 asked for is freed in the end."""
        files = []
        for rank, asked in enumerate(of_rank):
            program = Program()
            for stack, mib in asked.items():
                block = program.alloc(mib * MIB, stack=stack)
                if stack == 0:
                    program.free(block)
            files.append(self.write("s.%d.json" % rank, program.snapshot(process=self.process(rank + 10), **changes)))
        return files

    def test_sites_of_all_ranks_are_one_row_each(self):
        files = self.write_sites([{1: 5, 0: 4}, {1: 3, 0: 4}, {1: 9, 0: 4}, {3: 1, 0: 4}])
        load, grow = "Model::load(std::string...)", "Cache::grow()"
        named = self.sites(*files, "--sort", "live")
        self.assertEqual(named[grow], (17, 3, 3, 11, 9, 12))
        self.assertNotIn(load, str(named))
        text = self.run_tool("sites", *files).stdout
        self.assertRegex(text, r"^allocated at each one's peak, by function: 34 MiB in all 4 snapshots\n\n +flat +flat% +ranks +least +rank +most +rank  function\n")
        self.assertRegex(text, r"(?m)^ *16 MiB +47\.1% +4 +4 MiB +- +4 MiB +-  Model::load")
        self.assertRegex(text, r"(?m)^ *1 MiB +2\.9% +1 +1 MiB +13 +1 MiB +13  a::very")
        self.assertIn("Next: gpupool sites %s\n  or, of each file: --full\n" % files[2], text)

    def test_measures_of_sites(self):
        files = self.write_sites([{1: 5, 0: 4}] * 4)
        self.assertRegex(self.run_tool("sites", *files, "--sort", "count", "-n", "1").stdout,
                         r"(?m)^allocations, by function: 8 in all 4 snapshots\n\n.*\n +4 +50\.0% +4 +1 +- +1 +-  Cache::grow\(\)\nand 1 other with less; -n 0 shows all\n")
        self.assertRegex(self.run_tool("sites", *files, "--at", "exit", "--by", "line").stdout,
                         r"^allocated at exit, by line: 20 MiB in all 4 snapshots\n")
        self.assertIn("Nothing of what was selected", self.run_tool("sites", *files, "--focus", "nothing").stdout)

    def test_files_without_ranks_are_numbered(self):
        files = self.write_sites([{1: 5}, {1: 3}, {1: 9}, {1: 5}])
        files.insert(0, files[1])
        text = self.run_tool("sites", *files).stdout
        self.assertIn("Files are numbered in their order, from 1, because not every one has a rank of", text)
        self.assertRegex(text, r"(?m)^25 MiB +100% +5 +3 MiB +1 +9 MiB +4  Cache::grow\(\)")

    def test_each_file_by_itself(self):
        files = self.write_sites([{1: 5}] * 4)
        for count, arguments in ((4, (*files, "--full")), (3, files[:3]), (4, (*files, "--tree"))):
            self.assertEqual(self.run_tool("sites", *arguments).stdout.count(": app, pid"), count)
        self.assertEqual(len(json.loads(self.run_tool("sites", *files, "--json").stdout)["snapshots"]), 4)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    cli.GPUPOOL, cli.STUB = map(os.path.abspath, sys.argv[1:3])
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])
