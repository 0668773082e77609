#!/usr/bin/env python3
"""gpupool tune: what it finds, and what it says of it.

    cli_tune.py GPUPOOL PRELOAD_STUB [TEST ...]
"""

import glob
import json
import os
import sys
import unittest

import cli
from cli import INPUT, USAGE, device_of
from cli_replay import MIB, Requests, rows
from report_case import Reports

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
TYPES = ["round", "naive", "segment", "vmm"]
TRACES = []  # the project's own, and the real ones where they are


def options_of(settings):
    return [part for name, value in settings.items()
            for part in ("--" + name[len("GPUPOOL_"):].lower().replace("_", "-"), value)]


class Tune(Reports):
    command = "tune"

    def tune(self, *arguments, **options):
        document = json.loads(self.run_tool("tune", "--json", *arguments, **options).stdout)
        self.expect_valid(document, "tune")
        return document

    def replay(self, settings, trace):
        """What replay says of settings: the most that was held, the calls, and their cost."""
        recording, = json.loads(self.run_tool("replay", "--json", *options_of(settings), trace).stdout)["recordings"]
        cold = recording["results"][0]["cold"]
        return cold["devices"][0]["held_peak"], cold["call_count"], cold["cost_ns"]

    def expect_replayed(self, score, settings, trace):
        self.assertEqual((score["held"], score["calls"], score["cost_ns"]), self.replay(settings, trace))

    def test_the_figures_are_those_of_replay(self):
        for trace in TRACES[:2]:
            scores = self.tune(trace)["scores"]
            self.assertEqual(list(scores), ["now", *TYPES])
            self.expect_replayed(scores["now"], {}, trace)
            for name in TYPES:
                self.expect_replayed(scores[name], {"GPUPOOL_TYPE": name}, trace)

    def test_the_best_holds_least_and_costs_no_more_than_now(self):
        for trace in TRACES:
            with self.subTest(trace=os.path.basename(trace)):
                found = self.tune(trace)
                scores = found["scores"]
                quick = {name: scores[name]["held"] for name in TYPES
                         if all(scores[name][cost] <= 1.001 * scores["now"][cost] for cost in ("cost_ns", "busy_cost_ns"))}
                self.assertIn(found["settings"]["GPUPOOL_TYPE"], quick)
                self.assertLessEqual(quick[found["settings"]["GPUPOOL_TYPE"]], 1.001 * min(quick.values()))

    def test_what_is_given_stays(self):
        for kind in TYPES:
            found = self.tune("--type", kind, TRACES[0])
            self.assertEqual((list(found["scores"]), found["settings"]), (["now", kind], {"GPUPOOL_TYPE": kind}))
        self.assertEqual(list(self.tune("--type", "all", TRACES[0])["scores"]), ["now", *TYPES])
        found = self.tune("--type", "naive", "--page", "64KiB", TRACES[0])
        self.expect_replayed(found["scores"]["naive"], {"GPUPOOL_TYPE": "naive", "GPUPOOL_PAGE": "64KiB"}, TRACES[0])

    def test_what_the_recorded_run_refused_is_served(self):
        """Idle pieces within the limit: other types serve the request, and one of them is found. Of more than the limit none is."""
        for size, served in ((256, True), (2048, False)):
            program = Requests()
            blocks = [program.alloc(32 * MIB) for _ in range(30)]
            for block in blocks[::2]:
                program.free(block)
            program.event("oom", size=size * MIB)
            path = self.write("refused.json", program.snapshot(settings={"type": "segment", "limit": "1GiB", "sources": {}}))
            found = self.tune(path)
            kind = found["settings"]["GPUPOOL_TYPE"]
            self.assertEqual((found["scores"]["now"]["refused"], found["scores"][kind]["refused"]), (1, 0 if served else 1))
            self.assertEqual(kind != "segment", served)
            self.assertEqual("Nothing fits: the best refuses 1 request\n" in self.run_tool("tune", path).stdout, not served)

    def test_now_is_the_recording(self):
        program = Requests()
        for i in range(40):
            program.free(program.alloc((3 << 20) + i))
        scores = self.tune(self.write("s.json", program.snapshot(settings={"type": "unpooled", "sources": {}})))["scores"]
        self.assertEqual((scores["now"]["calls"], scores["round"]["calls"]), (80, 1))

    def test_memory_that_was_prewarmed_is_now_alone(self):
        """Otherwise each run would add spare blocks to those of the run before."""
        program = Requests()
        program.alloc(32 * MIB)
        path = self.write("s.json", program.snapshot(settings={"type": "round", "prewarm": "64MiB", "sources": {}}))
        found = self.tune("--type", "round", "--with-prewarm", path)
        self.assertEqual({name: score["held"] for name, score in found["scores"].items()},
                         {"now": 96 * MIB, "round": 32 * MIB, "prewarmed": 64 * MIB})
        self.assertEqual(found["settings"]["GPUPOOL_PREWARM"], "32MiB*2")

    def test_nothing_to_tune(self):
        program = Requests()
        program.managed(32 << 20)
        for text in (json.dumps(program.snapshot()), "op,id,size,stream\n"):
            error = self.run_tool("tune", "-", stdin=text, status=INPUT)
            self.one_line(error.stderr)
            self.assertIn("no request is recorded that the pool would serve", error.stderr)

    def test_memory_that_is_not_pooled(self):
        """It is held whatever the settings are, and asked for."""
        program = Requests()
        program.managed(64 << 20)
        program.alloc(32 << 20)
        for score in self.tune(self.write("s.json", program.snapshot()))["scores"].values():
            self.assertEqual((score["held"], score["live"]), (96 << 20, 96 << 20))

    def test_what_does_not_fit(self):
        text = self.run_tool("tune", "--capacity", "16MiB", "-", stdin=rows("1+32")).stdout
        self.assertIn("Nothing fits: the best refuses 1 request\n", text)

    def test_a_profile(self):
        path = self.path("work", "best.profile")
        found = self.tune("--with-prewarm", "--write-profile", path, TRACES[0])
        with open(path, encoding="utf-8") as file:
            self.assertEqual(dict(line.split("=", 1) for line in file.read().splitlines()), found["settings"])
        self.assertIn("--force", self.run_tool("tune", "--write-profile", path, TRACES[0], status=USAGE).stderr)
        self.tune("--write-profile", path, "--force", "--type", "round", TRACES[0])
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), "GPUPOOL_TYPE=round\n")

    def test_prewarm(self):
        """All calls of the driver are made at the first allocation, when no kernel runs."""
        for trace in TRACES[:2]:
            for kind in TYPES:
                with self.subTest(trace=os.path.basename(trace), type=kind):
                    found = self.tune("--type", kind, "--with-prewarm", trace)
                    score = found["scores"]["prewarmed"]
                    self.expect_replayed(score, found["settings"], trace)
                    self.assertEqual(score["cost_ns"], score["busy_cost_ns"])

    def test_prewarm_has_one_spare_block_of_each_size(self):
        """One block more than in the recording costs no call, of whatever size it is."""
        steps = ["%d+%d" % (i, size) for i, size in enumerate((2, 2, 2, 6, 6, 40, 40))]
        trace = self.write("trace.csv", rows(*steps))
        for kind in TYPES:
            found = self.tune("--type", kind, "--with-prewarm", trace)
            if kind in ("round", "naive"):
                self.assertEqual(found["settings"]["GPUPOOL_PREWARM"], "40MiB*3,6MiB*3,2MiB*4")
            for size in (2, 6, 40):
                with self.subTest(type=kind, size=size):
                    more = self.write("more.csv", rows(*steps, "9+%d" % size))
                    self.assertEqual(self.replay(found["settings"], more)[:2],
                                     (found["scores"]["prewarmed"]["held"], found["scores"]["prewarmed"]["calls"]))

    def test_prewarm_is_that_of_the_device_with_most_memory(self):
        program = Requests()
        for device, size, count in ((0, 4, 2), (1, 8, 3)):
            for _ in range(count):
                program.alloc(size * MIB, device=device)
        path = self.write("s.json", program.snapshot(devices=[device_of(i) for i in range(2)]))
        self.assertEqual(self.tune("--type", "round", "--with-prewarm", path)["settings"]["GPUPOOL_PREWARM"], "8MiB*4")

    def test_nothing_to_prewarm(self):
        trace = self.write("trace.csv", rows("1+2", "1-"))
        for kind in "round", "segment", "vmm":
            arguments = ["--type", kind, "--max-cached", "0", "--with-prewarm", trace]
            self.assertIn("\nNothing to prewarm: ", self.run_tool("tune", *arguments).stdout)
            found = self.tune(*arguments)
            self.assertNotIn("prewarmed", found["scores"])
            self.assertNotIn("GPUPOOL_PREWARM", found["settings"])

    def test_prewarm_of_blocks_beyond_the_option(self):
        trace = self.write("large.csv", "op,id,size,stream\nA,1,%d,0\nA,2,4194304,0\n" % (2 << 40))
        found = self.tune("--type", "round", "--with-prewarm", trace)
        self.assertEqual(found["settings"]["GPUPOOL_PREWARM"], "4MiB*2")

    def test_prewarm_of_many_sizes(self):
        """What the option cannot hold is left out: of the smallest sizes."""
        sizes = [4 << 20] + [512 * i for i in range(1, 400)]
        trace = self.write("sizes.csv", "op,id,size,stream\n" + "".join("A,%d,%d,0\n" % each for each in enumerate(sizes)))
        found = self.tune("--type", "naive", "--page", "512", "--with-prewarm", trace)
        text = found["settings"]["GPUPOOL_PREWARM"]
        self.assertTrue(text.startswith("4MiB*2,"), text)
        self.assertLess(len(text), 1024)
        self.assertGreater(len(text.split(",")), 90)
        self.expect_replayed(found["scores"]["prewarmed"], {"GPUPOOL_PAGE": "512", **found["settings"]}, trace)

    def test_the_text_has_the_line_to_use(self):
        found = self.tune(TRACES[0])
        text = self.run_tool("tune", TRACES[0]).stdout
        self.assertIn("\nGPUPOOL_TYPE=%s\n" % found["settings"]["GPUPOOL_TYPE"], text)
        self.assertRegex(text, r"(?m)^\*  %s  " % found["settings"]["GPUPOOL_TYPE"])
        self.assertRegex(text, r"(?m)^   now .*\n.  round .*\n.  naive .*\n.  segment .*\n.  vmm ")
        text = self.run_tool("tune", "--type", "round", "--with-prewarm", TRACES[0]).stdout
        found = self.tune("--type", "round", "--with-prewarm", TRACES[0])
        self.assertIn(" GPUPOOL_PREWARM=%s\n" % found["settings"]["GPUPOOL_PREWARM"], text)
        self.assertRegex(text, r"(?m)^\*  round .*\n   prewarmed ")

    def test_wrong_arguments(self):
        trace = self.write("trace.csv", rows("1+2"))
        for arguments, what in ((["--goal", "time"], "unknown option --goal"), (["--ready", "soon"], "accepted: recorded"),
                                (["--capacity", "0"], "accepted: a size"), (["--type", "rond"], "accepted: round|naive"),
                                (["--exhaustive"], "unknown option --exhaustive"), ([trace], "unexpected argument"),
                                (["--type", "unpooled"], "leaves nothing to choose"),
                                (["--with-prewarm", "--prewarm", "1MiB"], "use one of them")):
            with self.subTest(arguments=arguments):
                error = self.run_tool("tune", *arguments, trace, status=USAGE)
                self.one_line(error.stderr)
                self.assertIn(what, error.stderr)
        self.assertIn("line 2:", self.run_tool("tune", self.write("bad.csv", "op,id,size,stream\nX,1,2,0\n"), status=INPUT).stderr)
        self.assertIn("a file is missing", self.run_tool("tune", status=USAGE).stderr)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    cli.GPUPOOL, cli.STUB = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    TRACES += cli.workloads() + sorted(glob.glob(os.path.join(ROOT, "..", "shared", "traces", "*.csv")))
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])
