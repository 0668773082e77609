#!/usr/bin/env python3
"""Logs of allocations without segments as input of every command: traces and memory timelines of PyTorch's profiler, and
logs of RMM.

    test_logs.py GPUPOOL PRELOAD_STUB [TEST ...]
"""

import gzip
import json
import os
import sys
import unittest

import cli
from cli import DONE, INPUT, MIB

RMM = "Thread,Time,Action,Pointer,Size,Stream\n"
BEFORE = "(in use before the log began)"


def memory(ts, addr, size, total=None, device=0, tid=7, name="[memory]"):
    args = {"Device Type": 1, "Device Id": device, "Addr": addr, "Bytes": size, "Ev Idx": 1}
    if total is not None:
        args.update({"Total Allocated": total, "Total Reserved": 1 << 30})
    return {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": name, "pid": 1, "tid": tid, "ts": ts, "args": args}


def part(name, ts, dur, cat="python_function", tid=7):
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur, "args": {}}


def profile():
    """Two steps of a training. The events are in no order, as the profiler writes them."""
    start = 1700000000000000.5
    return {"schemaVersion": 1, "deviceProperties": [{"id": 0}], "traceEvents": [
        memory(start + 30, 4 * MIB, -2 * MIB, 102 * MIB),
        memory(start + 10, 2 * MIB, 2 * MIB, 102 * MIB),
        memory(start + 20, 4 * MIB, 2 * MIB, 104 * MIB),
        memory(start + 25, 99 * MIB, -5 * MIB, 99 * MIB, tid=8),
        memory(start + 40, 4 * MIB, 8 * MIB, 110 * MIB, tid=8),
        memory(start + 50, 8 * MIB, MIB, 1 * MIB, device=1),
        dict(memory(start + 11, 1, 4), args={"Device Type": 0, "Device Id": -1, "Addr": 1, "Bytes": 4}),
        part("train.py(12): train", start, 100), part("model.py(40): forward(x)", start + 15, 10),
        part("<built-in method conv>", start + 16, 8), part("aten::conv2d", start + 17, 6, "cpu_op"),
        part("aten::empty", start + 18, 4, "cpu_op"), part("AddBackward0", start + 39, 5, "cpu_op", tid=8),
        part("aten::add", start + 39.5, 2, "cpu_op", tid=8), part("gemm", start, 100, "kernel"),
        part("ProfilerStep#1", start, 35, "user_annotation"), part("ProfilerStep#2", start + 36, 40, "user_annotation"),
        {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "ts": 0, "args": {"name": "python"}}, 5]}


def timeline():
    return [[-1, 1, 4 * MIB, 0], [1700000000000000000, 2, MIB, 3], [1700000000000001000, 3, -MIB, 3],
            [1700000000000001000, 3, MIB, 4], [1700000000000002000, 3, -4 * MIB, 0], [1700000000000002000, 3, 4 * MIB, 0],
            [1700000000000003000, 2, 2 * MIB, 5], [1700000000000004000, 2, 2 * MIB, 5], [1700000000000005000, 4, -2 * MIB, 5],
            [1700000000000005000, 4, -7 * MIB, 5]]


def small_logs():
    """For the fuzzer."""
    yield "kineto", json.dumps(profile(), separators=(",", ":"))
    yield "memory-timeline", json.dumps(timeline(), separators=(",", ":"))
    yield "rmm", RMM + "1,10:00:00.000001,allocate,0x200,9,0\n1,10:00:00.000003,free,0x200,9,0\n1,10:00:00.000005,allocate failure,(nil),5,0\n"


class Logs(cli.Case):
    def run_on(self, name, data, *arguments, status=DONE):
        path = self.path("work", name)
        with open(path, "wb") as file:
            file.write(data if isinstance(data, bytes) else data.encode())
        result = self.run_tool(*arguments, path, status=status)
        self.errors = result.stderr
        return result.stdout

    def facts(self, data, name="log"):
        return json.loads(self.run_on(name, data, "summary", "--json"))["snapshots"][0]

    def sites(self, data, *arguments):
        made = json.loads(self.run_on("log", data, "sites", "--json", *arguments))["snapshots"][0]["sites"]
        return {site["name"]: (site["flat"]["total"]["count"], site["flat"]["live"]["bytes"]) for site in made}

    def stats(self, facts, device=0):
        return facts["devices"][device]["stats"]

    def refused(self, data, text):
        self.run_on("log", data, "summary", status=INPUT)
        self.one_line(self.errors)
        self.assertIn(text, self.errors)

    def test_a_profile(self):
        facts = self.facts(json.dumps(profile()))
        stats = self.stats(facts)
        self.assertEqual([stats["requested_bytes"][key] for key in ("current", "peak")], [105 * MIB, 105 * MIB])
        self.assertEqual(stats["allocation"]["current"], 3)
        for unknown in "reserved_bytes", "cached_bytes", "segment", "cache_hits", "driver_allocs", "inactive_split_bytes":
            found = stats[unknown]
            self.assertTrue(found is None or found["current"] is None, unknown)
        self.assertEqual(facts["process"]["start_time_us"], 1700000000000010)
        self.assertEqual(self.stats(facts, 1)["requested_bytes"]["current"], MIB)
        self.assertEqual([(phase["name"], phase["times"]) for phase in facts["phases"]], [("ProfilerStep#1", 1), ("ProfilerStep#2", 1)])

    def test_figures_that_no_log_has(self):
        """Of the segments nothing is known, so no report has figures of them."""
        path = self.write("log", profile())
        self.assertNotIn("recorded", [row["type"] for row in json.loads(self.run_tool("replay", "--json", path).stdout)["recordings"][0]["results"]])
        self.assertNotRegex(self.run_tool("diff", path, path).stdout, "reserved|hits|driver")
        text = self.run_tool("summary", path).stdout
        self.assertRegex(text, r"efficiency +- ")
        self.assertNotIn("reserved from the driver", text)

    def test_owners_of_a_profile(self):
        """Those of the functions and operators that enclose an allocation on its thread."""
        self.assertEqual(self.sites(json.dumps(profile()), "--by", "line", "-n", "0"), {
            BEFORE: (1, 95 * MIB), "train train.py:12": (2, 3 * MIB), "forward(x) model.py:40": (1, 0),
            "<built-in method conv>": (0, 0), "AddBackward0": (1, 8 * MIB), "aten::add": (0, 0), "aten::conv2d": (0, 0),
            "(no stack recorded)": (1, 0)})

    def test_an_out_of_memory_of_a_profile(self):
        made = profile()
        made["traceEvents"].append(memory(1700000000000060, 0, 1 << 40, name="[OutOfMemory]"))
        self.assertIn("requested 1 TiB\n    in train train.py:12, and had 105 MiB allocated; the amount cached is\n    unknown.", self.run_on("log", json.dumps(made), "summary"))

    def test_memory_that_is_allocated_twice(self):
        """Its free is missing, and did take place."""
        made = {"traceEvents": [memory(1, 512, MIB), memory(2, 512, 2 * MIB), memory(3, 512, 3 * MIB)]}
        facts = self.facts(json.dumps(made))
        self.assertEqual(self.stats(facts)["requested_bytes"]["current"], 3 * MIB)
        self.assertIn("2 frees are missing from the log", " ".join(facts["missing"]))

    def test_parts_that_overlap(self):
        """An outer one may end first; one that is as long as can be is no longer."""
        made = {"traceEvents": [memory(15, 512, MIB), part("ended", 0, 10), part("open", 5, 20), part("long", 4, 8.9e15)]}
        self.assertEqual(json.loads(self.run_on("log", json.dumps(made), "leaks", "--json"))["leaks"][0]["stack"], ["open", "long"])

    def test_events_of_one_time_are_in_the_order_of_their_totals(self):
        """Of two threads they are in any order in the file."""
        made = {"traceEvents": [memory(50, 512, MIB, MIB), memory(100, 512, 3 * MIB, 3 * MIB, tid=1),
                                memory(100, 512, -MIB, 0, tid=2), memory(200, 8192, MIB, 4 * MIB)]}
        facts = self.facts(json.dumps(made))
        self.assertEqual(self.stats(facts)["requested_bytes"]["current"], 4 * MIB)
        self.assertNotIn("missing from the log", " ".join(facts["missing"]))

    def test_one_event_is_a_history(self):
        for log in (json.dumps({"traceEvents": [memory(1, 512, MIB)]}), json.dumps(timeline()[:1]), RMM):
            self.assertNotIn("no_history", [finding["code"] for finding in self.facts(log)["findings"]])

    def test_memory_from_before_is_nobody_to_free_it(self):
        made = {"traceEvents": [memory(1, 512, MIB, 100 * MIB), memory(2, 0, 1 << 40, name="[OutOfMemory]")]}
        owners, = [finding for finding in self.facts(json.dumps(made))["findings"] if finding["code"] == "owners"]
        self.assertIsNone(owners["advice"])

    def test_an_exported_log_stays_one(self):
        self.run_on("log", json.dumps(profile()), "export", "--to", "pytorch-json", "-o", self.path("work", "exported.json"))
        self.assertNotIn("reserved from the driver", self.run_tool("summary", self.path("work", "exported.json")).stdout)
        differences = self.run_tool("diff", self.write("own.json", cli.snapshot_of()), self.path("work", "log"))
        self.assertNotRegex(differences.stdout, "reserved|hits|hit rate|driver")

    def test_a_deep_stack_is_cut(self):
        made = {"traceEvents": [memory(500, 512, MIB)] + [part("f%d" % i, i, 1000 - 2 * i) for i in range(300)]}
        stacks = json.loads(self.run_on("log", json.dumps(made), "leaks", "--json"))["leaks"]
        self.assertEqual(stacks[0]["stack"], ["f%d" % i for i in range(299, 171, -1)])

    def test_profiles_that_are_wrong(self):
        for size in (-1 << 63, (1 << 63) - 1):
            self.refused(json.dumps({"traceEvents": [memory(1, 512, size)]}), "Bytes is not a valid size")
        for event, text in ((memory(1, 512, MIB, device=1000), "traceEvents[0]: Device Id is too large"),
                            (memory(1, -512, MIB), "Addr is not a valid address"), (memory(1, 512, 1 << 60), "Bytes is not a valid size"),
                            (memory("soon", 512, MIB), "ts is not a valid time"), (part("f", 1, 1), "profile_memory=True")):
            self.refused(json.dumps({"traceEvents": [event]}), text)
        self.refused(json.dumps({"traceEvents": [dict(memory(1, 512, MIB), args=None)]}), "profile_memory=True")
        self.refused(json.dumps(profile())[:-100], "the input ends here")
        self.refused('{"traceEvents": 5}', "")

    def test_a_memory_timeline(self):
        """The bytes of each category: what a new version moves to another one is there, and nowhere else."""
        rows = timeline()
        text = json.dumps(rows)
        self.assertEqual(self.sites(text, "-n", "0"), {
            "parameters": (1, 4 * MIB), "temporaries": (1, 0), "activations": (1, MIB), "gradients": (2, 2 * MIB)})
        facts = self.facts(text)
        self.assertEqual([self.stats(facts)["requested_bytes"][key] for key in ("current", "peak")], [7 * MIB, 9 * MIB])
        self.assertEqual(facts["until_ns"], 5000)
        for row in ([1, 2, 3], [1, 5, MIB, 0], [1, 2, MIB, 8], [1, 2, "x", 0], [1, 2, 1 << 60, 0], 5):
            self.refused("[[1, 2], [3, 4]]", "named *.raw.json.gz")
            self.refused(json.dumps(rows[:2] + [row]), "row 2 of this memory timeline is not [time, action, bytes, category]")

    def test_a_log_of_rmm(self):
        log = RMM + ("1,10:00:00.000001,allocate,0x200,%d,0\n1,10:00:00.000002,allocate,0x300000,%d,0\n"
                     "1,10:00:00.000003,free,0x200,%d,0\n1,10:00:00.000004,free,0x900000,5,0\n" % (MIB, 2 * MIB, MIB))
        facts = self.facts(log)
        self.assertEqual([self.stats(facts)["requested_bytes"][key] for key in ("current", "peak")], [2 * MIB, 3 * MIB + 5])
        self.assertIsNone(facts["process"]["start_time_us"], "the log has the time of the day only")
        self.assertIn("requested 1 TiB\n    and had 2 MiB allocated; the amount cached is unknown.", self.run_on(
            "log", log + "1,10:00:00.000005,allocate failure,(nil),%d,0\n" % (1 << 40), "summary"))
        self.assertEqual(self.facts(log + "1,10:0")["devices"], facts["devices"], "it was killed while it wrote")
        self.refused(log + "1,10:0\n", "line 6: a row has the six fields")
        nothing = RMM + "1,10:00:00.000001,allocate,0x0,0,0\n" * 3 + "1,10:00:00.000003,free,0x0,0,0\n" * 3
        self.assertEqual(self.facts(nothing)["missing"][1:], [], "nothing is allocated any number of times")

    def test_a_long_log(self):
        """Its memory is bounded by its size, not by less."""
        row = "1,10:00:00.000001,allocate,0x%x,512,0\n"
        facts = self.facts(RMM + "".join(row % (512 * (i + 1)) for i in range(530000)))
        self.assertEqual(self.stats(facts)["allocation"]["current"], 530000)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    cli.GPUPOOL, cli.STUB = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])
