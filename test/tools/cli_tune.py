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
from cli import INPUT, USAGE
from cli_replay import MIB, Requests, rows
from report_case import Reports

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
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

    def replay(self, settings, *files):
        """What replay says of settings: the sum of what was held, and of the cost."""
        document = json.loads(self.run_tool("replay", "--json", *options_of(settings), *files).stdout)
        passes = [recording["results"][0]["cold"] for recording in document["recordings"]]
        return (sum(one["devices"][0]["held_peak"] for one in passes), sum(one["cost_ns"] for one in passes))

    def replay_calls(self, settings, trace):
        document = json.loads(self.run_tool("replay", "--json", *options_of(settings), trace).stdout)
        return document["recordings"][0]["results"][0]["cold"]["call_count"]

    def test_every_trace_against_all_settings(self):
        """At most a tenth of the evaluations, and a result within 1% of the best."""
        for goal, measure in (("memory", "ratio"), ("time", "cost_ns")):
            for trace in TRACES:
                with self.subTest(trace=os.path.basename(trace), goal=goal):
                    some, all_ = self.tune("--goal", goal, trace), self.tune("--goal", goal, "--exhaustive", trace)
                    self.assertEqual((all_["tried"], some["candidates"]), (all_["candidates"], all_["candidates"]))
                    self.assertLessEqual(some["tried"], 0.1 * some["candidates"])
                    self.assertLessEqual(some["best"][measure], 1.01 * all_["best"][measure])
                    self.assertEqual(some["best"]["refused"], 0)

    def test_the_figures_are_those_of_replay(self):
        for arguments in ([], ["--goal", "time"], ["--type", "round"], ["--type", "naive"]):
            with self.subTest(arguments=arguments):
                found = self.tune(*arguments, *TRACES[:2])
                held, cost_ns = self.replay(found["settings"], *TRACES[:2])
                self.assertEqual(held, found["best"]["held"])
                self.assertAlmostEqual(cost_ns, found["best"]["cost_ns"], delta=2)
                self.assertEqual(self.replay({"GPUPOOL_TYPE": found["settings"]["GPUPOOL_TYPE"]} if arguments[:1] == ["--type"]
                                             else {}, *TRACES[:2])[0], found["default"]["held"])

    def test_what_each_type_would_have_held(self):
        types = self.tune(*TRACES[:2])["types"]
        self.assertEqual(list(types), ["round", "naive", "segment", "vmm"])
        for name, score in types.items():
            held, cost_ns = self.replay({"GPUPOOL_TYPE": name}, *TRACES[:2])
            self.assertEqual(held, score["held"], name)
            self.assertAlmostEqual(cost_ns, score["cost_ns"], delta=2)
        self.assertRegex(self.run_tool("tune", TRACES[0]).stdout, r"(?s)by type.*\n  vmm .*\n\nGPUPOOL_")
        self.assertEqual(list(self.tune("--type", "vmm", TRACES[0])["types"]), ["vmm"])
        self.assertNotIn("by type", self.run_tool("tune", "--type", "vmm", TRACES[0]).stdout)  # the best's rows say it

    def test_a_goal_is_kept(self):
        memory, time = self.tune(*TRACES[:2]), self.tune("--goal", "time", *TRACES[:2])
        for found in (memory, time):
            self.assertLessEqual(found["best"]["ratio"], found["now"]["ratio"] * 1.001)
            self.assertLessEqual(found["best"]["cost_ns"], found["now"]["cost_ns"] * 1.001)
        self.assertLessEqual(memory["best"]["ratio"], time["best"]["ratio"])
        self.assertLessEqual(time["best"]["cost_ns"], memory["best"]["cost_ns"])

    def test_memory_ahead_of_need(self):
        """All of a program's memory at its begin, where time in the driver is the goal."""
        for trace in cli.workloads():
            with self.subTest(trace=os.path.basename(trace)):
                found = self.tune("--goal", "time", trace)
                self.assertEqual(found["best"]["held"], int(found["settings"]["GPUPOOL_PREWARM"][:-3]) << 20)
                self.assertLess(found["best"]["ratio"], 1.05)
                self.assertLess(found["best"]["cost_ns"], 0.1 * found["default"]["cost_ns"])
                self.assertIn("GPUPOOL_PREWARM is for runs of that size", self.run_tool("tune", "--goal", "time", trace).stdout)
                one = self.replay_calls({"GPUPOOL_TYPE": "segment", "GPUPOOL_PREWARM": found["settings"]["GPUPOOL_PREWARM"]}, trace)
                self.assertEqual(one, 1)

    def test_what_is_given_stays(self):
        found = self.tune("--type", "naive", "--page", "64KiB", TRACES[0])
        self.assertEqual(found["settings"]["GPUPOOL_TYPE"], "naive")
        self.assertNotIn("GPUPOOL_PAGE", found["settings"])
        self.assertEqual(self.tune("--type", "segment", TRACES[0])["settings"]["GPUPOOL_TYPE"], "segment")
        error = self.run_tool("tune", "--type", "unpooled", TRACES[0], status=USAGE)
        self.assertIn("leave nothing to choose", error.stderr)

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
            self.assertEqual((found["now"]["refused"], found["now"]["missed"]), (1, 1))
            self.assertEqual(found["best"]["refused"], 0 if served else 1)
            self.assertEqual(found["settings"]["GPUPOOL_TYPE"] != "segment", served)
            said = "Nothing fits: the best refuses 1 request, as the recorded run did" in self.run_tool("tune", path).stdout
            self.assertEqual(said, not served)

    def test_now_is_the_recording_and_default_is_not(self):
        program = Requests()
        for i in range(40):
            program.free(program.alloc((3 << 20) + i))
        snapshot = program.snapshot(settings={"type": "unpooled", "sources": {}})
        found = self.tune(self.write("s.json", snapshot))
        self.assertEqual((found["now"]["calls"], found["default"]["calls"]), (80, 1))

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
        found = self.tune(self.write("s.json", program.snapshot()))
        for name in ("now", "best"):
            self.assertEqual((found[name]["held"], found[name]["live"]), (96 << 20, 96 << 20), name)

    def test_summary_says_what_tuning_gains(self):
        program = Requests()
        for i in range(40):
            program.free(program.alloc((3 << 20) * (i + 1)))
        path = self.write("s.json", program.snapshot())
        found = self.tune(path)
        snapshot, = json.loads(self.run_tool("summary", "--json", "--tune", path).stdout)["snapshots"]
        self.assertEqual(snapshot["tuning"], {name: found[name] for name in snapshot["tuning"]})
        text = self.run_tool("summary", "--tune", path).stdout
        self.assertRegex(text, r"(?s)Other settings\n  GPUPOOL_TYPE=\w+.*\n  would have held at most .* instead of .*tune %s\n$" % path)
        self.assertIsNone(json.loads(self.run_tool("summary", "--json", path).stdout)["snapshots"][0]["tuning"])
        empty = self.write("empty.json", Requests().snapshot())
        self.assertIn("No request is recorded", self.run_tool("summary", "--tune", empty).stdout)
        self.assertIsNone(json.loads(self.run_tool("summary", "--json", "--tune", empty).stdout)["snapshots"][0]["tuning"])

    def test_several_recordings_are_one_question(self):
        both = self.tune(*TRACES[:2])
        one, other = self.tune(TRACES[0]), self.tune(TRACES[1])
        self.assertEqual(both["now"]["live"], one["now"]["live"] + other["now"]["live"])
        self.assertGreaterEqual(both["best"]["held"] * 1.01, one["best"]["held"] + other["best"]["held"])

    def test_what_does_not_fit(self):
        text = self.run_tool("tune", "--capacity", "16MiB", "-", stdin=rows("1+32")).stdout
        self.assertIn("Nothing fits: the best refuses 1 request\n", text)

    def test_a_profile(self):
        path = self.path("work", "best.profile")
        found = self.tune("--write-profile", path, TRACES[0])
        with open(path, encoding="utf-8") as file:
            comment, *lines = file.read().splitlines()
        self.assertTrue(comment.startswith("# gpupool tune: "), comment)
        self.assertEqual(dict(line.split("=", 1) for line in lines), found["settings"])
        self.assertIn("--force", self.run_tool("tune", "--write-profile", path, TRACES[0], status=USAGE).stderr)
        self.tune("--write-profile", path, "--force", "--type", "round", TRACES[0])
        with open(path, encoding="utf-8") as file:
            self.assertIn("GPUPOOL_TYPE=round", file.read())

    def test_prewarm(self):
        """The settings ask the driver at the first allocation for nearly all that the pool has in the end."""
        for trace in TRACES[:2]:
            for kind in "round", "naive", "segment", "vmm":
                with self.subTest(trace=os.path.basename(trace), type=kind):
                    plain = self.tune("--type", kind, trace)
                    found = self.tune("--type", kind, "--with-prewarm", trace)
                    has_some = "GPUPOOL_PREWARM" in plain["settings"]
                    self.assertEqual(found["prewarmed"] is None, has_some)
                    self.assertEqual(found["best"], plain["best"])
                    score = found["best" if has_some else "prewarmed"]
                    self.assertEqual(self.replay(found["settings"], trace)[0], score["held"])
                    self.assertEqual(self.replay_calls(found["settings"], trace), score["calls"])
                    # Parts of memory that was cut lie otherwise than before, and some of vmm moves later.
                    left = score["calls"] - score["early_calls"]
                    self.assertLessEqual(left, {"segment": 1, "vmm": 0.1 * plain["best"]["calls"]}.get(kind, 0), score)

    def test_nothing_to_prewarm(self):
        trace = self.write("trace.csv", rows("1+2", "1-"))
        for kind in "round", "segment", "vmm":
            arguments = ["--type", kind, "--max-cached", "0", "--with-prewarm", trace]
            self.assertIn("\nNothing to prewarm: ", self.run_tool("tune", *arguments).stdout)
            found = self.tune(*arguments)
            self.assertIsNone(found["prewarmed"])
            self.assertNotIn("GPUPOOL_PREWARM", found["settings"])

    def test_prewarm_of_small_requests_that_are_cut(self):
        for steps in [], ["%d-" % i for i in range(1, 41)]:
            trace = self.write("small.csv", rows(*["%d+0.3" % i for i in range(1, 41)], "100+8", *steps))
            found = self.tune("--type", "round", "--small", "cut", "--with-prewarm", trace)
            self.assertEqual(found["settings"]["GPUPOOL_PREWARM"], "8MiB,1MiB*14")
            self.assertEqual((found["prewarmed"]["held"], found["prewarmed"]["early_calls"]),
                             (found["best"]["held"], found["best"]["calls"]))

    def test_prewarm_of_blocks_beyond_the_option(self):
        trace = self.write("large.csv", "op,id,size,stream\nA,1,%d,0\nA,2,4194304,0\n" % (2 << 40))
        found = self.tune("--type", "round", "--with-prewarm", trace)
        self.assertEqual(found["settings"]["GPUPOOL_PREWARM"], "4MiB")

    def test_prewarm_of_many_sizes(self):
        """What the option cannot hold is left out: of the smallest sizes."""
        sizes = [4 << 20] + [512 * i for i in range(1, 400)]
        trace = self.write("sizes.csv", "op,id,size,stream\n" + "".join("A,%d,%d,0\n" % each for each in enumerate(sizes)))
        found = self.tune("--type", "round", "--with-prewarm", trace)
        text = found["settings"]["GPUPOOL_PREWARM"]
        self.assertTrue(text.startswith("4MiB,"), text)
        self.assertLess(len(text), 1024)
        self.assertLess(found["prewarmed"]["calls"] - found["prewarmed"]["early_calls"], found["best"]["calls"])
        self.assertEqual(self.replay_calls(found["settings"], trace), found["prewarmed"]["calls"])

    def test_the_text_has_the_line_to_use(self):
        found = self.tune(TRACES[0])
        text = self.run_tool("tune", TRACES[0]).stdout
        self.assertIn("\n" + " ".join("%s=%s" % item for item in found["settings"].items()) + "\n", text)
        self.assertRegex(text, r"(?m)^  now .*\n  default .*\n  best ")
        text = self.run_tool("tune", "--type", "round", "--with-prewarm", TRACES[0]).stdout
        found = self.tune("--type", "round", "--with-prewarm", TRACES[0])
        self.assertIn(" GPUPOOL_PREWARM=%s\n" % found["settings"]["GPUPOOL_PREWARM"], text)
        self.assertRegex(text, r"(?m)^  best .*\n  best, prewarmed ")
        self.assertRegex(text, r"(?m)^[0-9,]+ of [0-9,]+ calls are made at the first allocation")

    def test_wrong_arguments(self):
        trace = self.write("trace.csv", rows("1+2"))
        for arguments, what in ((["--goal", "speed"], "accepted: memory|time"), (["--ready", "soon"], "accepted: recorded"),
                                (["--capacity", "0"], "accepted: a size"), (["--type", "rond"], "accepted: round|naive"),
                                (["--exhausting"], "did you mean --exhaustive"), (["--with-prewarm", trace], "one FILE, not 2"),
                                (["--with-prewarm", "--prewarm", "1MiB"], "use one of them")):
            with self.subTest(arguments=arguments):
                error = self.run_tool("tune", *arguments, trace, status=USAGE)
                self.one_line(error.stderr)
                self.assertIn(what, error.stderr)
        self.assertIn("line 2:", self.run_tool("tune", trace, self.write("bad.csv", "op,id,size,stream\nX,1,2,0\n"),
                                               status=INPUT).stderr)
        self.assertIn("a file is missing", self.run_tool("tune", status=USAGE).stderr)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    cli.GPUPOOL, cli.STUB = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    TRACES += cli.workloads() + sorted(glob.glob(os.path.join(ROOT, "..", "shared", "traces", "*.csv")))
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])
