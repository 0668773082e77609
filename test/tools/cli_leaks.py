#!/usr/bin/env python3
"""What is held at the end, and what two snapshots tell apart: leaks and diff.

    cli_leaks.py GPUPOOL PRELOAD_STUB [TEST ...]
"""

import json
import os
import sys
import unittest

import cli
from cli import DONE, INPUT, MIB, USAGE, device_of, gauge
from report_case import Program, Reports, ordinary


class Diff(Reports):
    command = "diff"

    def compare(self, before, after, *arguments, status=DONE):
        return self.run_tool("diff", self.write("a.json", before), self.write("b.json", after), *arguments, status=status)

    def test_figures_and_sites(self):
        after = ordinary()
        after.alloc(100 * MIB, stack=0)
        second = after.snapshot(devices=[device_of(0, allocation=gauge(4), cache_hits=3), device_of(1)])
        text = self.compare(ordinary().snapshot(), second).stdout
        self.narrow(text)
        self.assertRegex(text, r"(?m)^  blocks, now +3 +4 +\+1 +\+33\.3%$")
        self.assertRegex(text, r"(?m)^  hits +0 +3 +\+3 +new$")
        self.assertRegex(text, r"(?m)^ *20 MiB +120 MiB +\+100 MiB  Model::load")
        self.assertIn("Device 1", text)
        facts = json.loads(self.compare(ordinary().snapshot(), second, "--json", "--sort=count").stdout)
        self.expect_valid(facts, "diff")
        self.assertEqual(facts["format"], "gpupool-diff")
        self.assertEqual(facts["sites"], [{"name": "Model::load(std::string const&)", "before": 2, "after": 3}])
        self.assertEqual(facts["devices"][0]["figures"]["cache_hits"], {"before": 0, "after": 3})

    def test_what_is_the_same_is_left_out(self):
        text = self.compare(ordinary().snapshot(), ordinary().snapshot()).stdout
        self.assertEqual(text.count("no difference"), 2)

    def test_without_stacks_in_one_of_them(self):
        facts = json.loads(self.compare(ordinary().snapshot(), ordinary(False).snapshot(), "--json").stdout)
        self.assertEqual((facts["by"], facts["sites"]), ("size", []))

    def test_two_files_are_needed(self):
        result = self.run_tool("diff", "a.json", status=USAGE)
        self.assertIn("a second file is missing", result.stderr)
        self.assertIn("unexpected argument c", self.run_tool("diff", "a", "b", "c", status=USAGE).stderr)
        self.assertIn("can be read only once", self.run_tool("diff", "-", "-", status=USAGE).stderr)
        self.one_line(self.compare(ordinary().snapshot(), "{", status=INPUT).stderr)


class Leaks(Reports):
    command = "leaks"

    def test_stacks_that_share_frames_stay_within_a_bound(self):
        """A frame takes two bytes of a stack, and a thousand of a report."""
        snapshot = json.loads(json.dumps(ordinary().snapshot()))
        snapshot["frames"][0]["function"] = "x" * 1000
        snapshot["stacks"][0] = [0] * 100000
        for options in (["--json"], ["--wide"]):
            result = self.report(snapshot, *options, status=INPUT)
            self.one_line(result.stderr)
            self.assertIn("-n N reports the largest ones only", result.stderr)

    def test_blocks_without_a_stack(self):
        for choice, advice in (("auto", "; with GPUPOOL_STACKS=native each block has one"), ("off", "")):
            text = " ".join(self.report(ordinary(False).snapshot(settings={"stacks": choice})).stdout.split())
            self.assertIn("(no stack was recorded%s)" % advice, text)

    def test_what_is_held_at_exit(self):
        text = self.report(ordinary()).stdout
        self.assertIn("20,971,520 bytes (20 MiB) leaked on device 0 by several threads in 2 blocks of\n  10 MiB, none freed, the oldest", text)
        self.assertIn("    #1  Model::load(std::string const&) model.cu:12\n", text)
        self.assertIn("3,145,728 bytes (3 MiB) leaked on device 0 (managed) by thread main (4711) in 1\n  block, the oldest", text)
        self.assertIn("LEAK SUMMARY: 24,117,248 bytes leaked in 3 allocations\n", text)
        facts = self.document(ordinary())
        self.assertEqual(facts["sum"], {"bytes": 23 * MIB, "count": 3})
        self.assertEqual([(leak["bytes"], leak["thread"]) for leak in facts["leaks"]], [(20 * MIB, None), (3 * MIB, 0)])
        self.assertEqual(facts["leaks"][0]["stack"][1], "Model::load(std::string const&) model.cu:12")

    def test_without_stacks_by_size(self):
        facts = self.document(ordinary(False))
        self.assertEqual([(leak["requested_size"], leak["count"]) for leak in facts["leaks"]],
                         [(10 * MIB, 2), (3 * MIB, 1)])
        self.assertIn("2 blocks of\n  10 MiB,", self.report(ordinary(False)).stdout)

    def test_nothing_held_is_no_leak(self):
        program = Program()
        program.free(program.alloc(MIB, stack=0), complete=False)
        program.free(program.alloc(MIB, stack=0))
        self.assertIn("LEAK SUMMARY: 0 bytes leaked in 0 allocations", self.report(program, "--error-exitcode").stdout)

    def test_live_blocks_are_no_leaks(self):
        snapshot = ordinary().snapshot(reason="oom")
        text = self.report(snapshot, "--error-exitcode=9").stdout
        self.assertIn("these are live blocks, not leaks", " ".join(text.split()))
        self.assertNotIn("LEAK", text)
        self.assertFalse(self.document(snapshot)["is_leak"])

    def test_exit_status(self):
        self.report(ordinary(), "--error-exitcode", status=1)
        for status in (1, 2, 3, 4, 99, 255):
            result = self.report(ordinary(), "--error-exitcode=%d" % status, status=status)
            self.assertIn("LEAK SUMMARY", result.stdout)
        for text in ("0", "256", "x", ""):
            self.one_line(self.report(ordinary(), "--error-exitcode=" + text, status=USAGE).stderr)

    def test_suppressions(self):
        path = self.write("known", "# the model stays\nleak:Model::load\n\nleak:never_there\n")
        text = self.report(ordinary(), "--suppressions", path).stdout
        self.assertIn("LEAK SUMMARY: 3,145,728 bytes leaked in 1 allocation\n", text)
        self.assertRegex(text, r"(?m)^ +2 +20,971,520  Model::load$")
        self.assertNotIn("never_there", text)
        facts = self.document(ordinary(), "--suppressions", path)
        self.assertEqual(facts["suppressed"], {"bytes": 20 * MIB, "count": 2})
        all_of_it = self.write("all", "leak:^/usr/bin/app$\n")
        self.report(ordinary(), "--suppressions=" + all_of_it, "--error-exitcode")
        self.assertIn("SUMMARY: 24,117,248 bytes", self.report(ordinary(False), "--suppressions=" + all_of_it).stdout)

    def test_bad_suppressions(self):
        for content, part in (("race:x\n", "line 1: a suppression is a line leak:PATTERN"),
                              ("leak:a\nleak:*\n", "line 2: a pattern that matches everything")):
            result = self.report(ordinary(), "--suppressions", self.write("bad", content), status=INPUT)
            self.one_line(result.stderr)
            self.assertIn(part, result.stderr)
        self.assertIn("No such file", self.report(ordinary(), "--suppressions=none", status=INPUT).stderr)
        self.assertIn("directory", self.report(ordinary(), "--suppressions=.", status=INPUT).stderr)
        self.report(ordinary(), "--suppressions", self.write("empty", ""))

    def test_growth(self):
        before, after = ordinary(), ordinary()
        after.alloc(4 * MIB, stack=1)
        after.alloc(10 * MIB, stack=0)
        first, second = self.write("a.json", before.snapshot()), self.write("b.json", after.snapshot())
        text = self.run_tool("leaks", first, second).stdout
        self.assertIn("GROWTH SUMMARY: 14,680,064 bytes more than before in 2 allocations", text)
        self.run_tool("leaks", first, second, "--error-exitcode", status=1)
        facts = json.loads(self.run_tool("leaks", first, second, "--json").stdout)
        self.expect_valid(facts, "leaks")
        self.assertEqual([(leak["bytes"], leak["count"], leak["held_count"]) for leak in facts["leaks"]],
                         [(10 * MIB, 1, 3), (4 * MIB, 1, 1)])
        self.assertEqual(facts["files"], [first, second])
        self.assertIn("GROWTH SUMMARY: 0 bytes", self.run_tool("leaks", second, first, "--error-exitcode").stdout)
        self.one_line(self.run_tool("leaks", first, second, first, status=USAGE).stderr)
        self.one_line(self.run_tool("leaks", "-", "-", status=USAGE).stderr)

    def test_host_memory_is_apart(self):
        program = ordinary()
        program.managed(MIB, kind="pinned_host")
        facts = self.document(program)
        self.assertEqual(facts["host"], {"bytes": MIB, "count": 1})
        self.assertEqual(facts["sum"], {"bytes": 23 * MIB, "count": 3})
        self.assertIn("page-locked host memory: 1,048,576 bytes in 1 allocation", self.report(program).stdout)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    cli.GPUPOOL, cli.STUB = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])
