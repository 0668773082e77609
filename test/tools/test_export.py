#!/usr/bin/env python3
"""gpupool export on small snapshots with stacks, several devices, damage.

    test_export.py GPUPOOL PRELOAD_STUB [TEST ...]
"""

import json
import os
import pickle
import resource
import signal
import subprocess
import sys
import unittest

import cli
import export_formats as formats
from cli import DONE, INPUT, MIB, USAGE
from terminal import open_terminal

FORMATS = ("pytorch", "pytorch-json", "perfetto", "speedscope", "folded", "csv")
ACTIONS = ["alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "oom", "snapshot", "trim",
           "mode", "passthrough_alloc", "passthrough_free"]
DETAILS = ["", "idle", "managed", "array", "pinned_host", "external"]


class Story:
    """Makes the events of a snapshot, a line each."""

    def __init__(self):
        self.columns = {name: [] for name in cli.COLUMNS}
        self.now = 0

    def add(self, action, address=0, size=0, block=0, detail="", stack=-1, stream=-1, device=0, rounded=None):
        self.now += 1500
        row = {"action": ACTIONS.index(action), "time_ns": self.now, "device": device, "stream": stream, "thread": 0,
               "address": address, "size": size, "rounded_size": size if rounded is None else rounded, "block": block,
               "hit": 0, "duration_ns": 0, "lifetime_ns": 0, "stack": stack, "detail": DETAILS.index(detail)}
        for name, value in row.items():
            self.columns[name].append(value)

    def events(self):
        return dict(self.columns, actions=ACTIONS, details=DETAILS)


def block_of(address, size, requested, number, state="active_allocated", stack=-1):
    return {"address": address, "size": size, "requested_size": requested, "block": number, "state": state, "refs": 1,
            "stack": stack, "stream": -1, "time_ns": 1, "tainted": False}


def segment_of(address, *blocks, device=0, size=None):
    return {"device": device, "address": address, "total_size": size or sum(b["size"] for b in blocks), "stream": 0,
            "context": 1, "blocks": list(blocks)}


def story_snapshot(**changes):
    """Three blocks in two segments, one of them live with a stack; an array and managed memory, which is live."""
    s = Story()
    s.add("mode")
    s.add("segment_alloc", 2 * MIB, 2 * MIB)
    s.add("alloc", 2 * MIB, 1000, 1, stack=0, rounded=MIB)
    s.add("alloc", 3 * MIB, MIB, 2, stack=1, stream=1)
    s.add("free_requested", 2 * MIB, 1000, 1, stack=2, rounded=MIB)  # not the stack of its allocation
    s.add("passthrough_alloc", 0x77, 4096, 3, "array", stack=1)
    s.add("free_completed", 2 * MIB, 1000, 1, stack=2, rounded=MIB)
    s.add("passthrough_alloc", 64 * MIB, 8192, 4, "managed")
    s.add("passthrough_alloc", 5, 1 << 30, 5, "pinned_host")
    s.add("passthrough_free", 0x77, 4096, 3, "array")
    s.add("trim", size=MIB, detail="idle")
    s.add("oom", size=1 << 40)
    s.add("segment_alloc", 8 * MIB, 4 * MIB)
    s.add("alloc", 8 * MIB, 4 * MIB - 7, 6, stack=0, rounded=4 * MIB)
    s.add("free_requested", 8 * MIB, 4 * MIB - 7, 6, stack=0, rounded=4 * MIB)
    s.add("snapshot", size=MIB)
    stats = {
        "allocated_bytes": cli.gauge(MIB, 5 * MIB, 6 * MIB), "active_bytes": cli.gauge(5 * MIB, 5 * MIB, 6 * MIB),
        "reserved_bytes": cli.gauge(6 * MIB), "passthrough_bytes": cli.gauge(8192, 12288, 12288),
    }
    snapshot = cli.snapshot_of(
        devices=[cli.device_of(0, **stats)], events=s.events(),
        segments=[segment_of(2 * MIB, block_of(2 * MIB, MIB, 1000, 1, "inactive"), block_of(3 * MIB, MIB, MIB, 2, stack=1)),
                  segment_of(8 * MIB, block_of(8 * MIB, 4 * MIB, 4 * MIB - 7, 6, "active_pending_free", stack=0))],
        passthrough=[{"device": 0, "address": 64 * MIB, "size": 8192, "kind": "managed", "stream": -1, "block": 4,
                      "time_ns": 9, "stack": -1}],
        streams=[{"handle": "0x0"}, {"handle": "0x55d0c0ffee00"}], threads=[{"tid": 4711, "name": "main; \"x\" é"}],
        stacks=[[0, 1, 2], [3, 2], [4]],
        frames=[
            {"address": 4096, "module": -1, "function": "make<int, 4>(x)", "file": "a b.cc", "line": 7, "inline": False},
            {"address": 4097, "module": -1, "function": "layer;1", "file": "a b.cc", "line": 9, "inline": False},
            {"address": 0x401000, "module": 0}, {"address": 0xabc, "module": -1}, {"address": 0, "module": -1},
        ],
        modules=[{"path": "/opt/my app/bin", "build_id": "00ff", "bias": 0x400000, "start": 0x400000, "end": 0x500000}])
    snapshot.update(changes)
    return snapshot


class Export(cli.Case):
    def export(self, snapshot, *arguments, status=DONE, binary=False):
        path = self.write("s.json", snapshot)
        result = subprocess.run([self.tool, "export", path, *arguments], cwd=self.path("work"), env=self.environment,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        self.errors = result.stderr.decode()
        self.assertEqual(result.returncode, status, self.errors)
        return result.stdout if binary else result.stdout.decode()

    def test_pytorch(self):
        data = self.export(story_snapshot(), "--to", "pytorch", binary=True)
        document = formats.load_pickle(data)
        formats.check_pytorch(document)
        text = self.export(story_snapshot(), "--to=pytorch-json")
        self.assertEqual(json.loads(text), formats.plain(document))
        pooled, second, managed = document["segments"]
        self.assertEqual(pooled["blocks"][0]["frames"], [])
        self.assertEqual(pooled["blocks"][1]["frames"], [
            {"filename": "??", "line": 0, "name": "0xabc"}, {"filename": "/opt/my app/bin", "line": 0, "name": "bin+0x1000"}])
        self.assertEqual((second["active_size"], second["allocated_size"]), (4 * MIB, 0))
        self.assertEqual((managed["address"], managed["total_size"]), (64 * MIB, 8192))
        (trace,) = document["device_traces"]
        self.assertEqual([entry["action"] for entry in trace], [
            "segment_alloc", "alloc", "alloc", "free_requested", "segment_alloc", "alloc", "free_completed",
            "segment_alloc", "alloc", "free_requested", "free_completed", "segment_free", "oom", "segment_alloc",
            "alloc", "free_requested", "snapshot"])
        self.assertEqual(trace[1]["size"], 1000)
        self.assertEqual(trace[1]["time_us"], 1760000000000004)
        self.assertEqual([f["name"] for f in trace[1]["frames"]], ["make<int, 4>(x)", "layer;1", "bin+0x1000"])
        self.assertNotIn("frames", trace[0])
        self.assertEqual(trace[2]["stream"], 0x55d0c0ffee00)
        self.assertEqual(trace[0]["user_metadata"], "main; \"x\" é")
        self.assertEqual(trace[12]["device_free"], 0)
        self.assertGreater(trace[5]["addr"], 1 << 50)  # the array has a handle, not an address
        self.assertEqual(trace[5]["addr"], trace[9]["addr"])
        # Written once, then referred to: frames, stacks, texts.
        self.assertIs(trace[1]["frames"], trace[14]["frames"])
        self.assertIs(trace[1]["frames"][2], trace[2]["frames"][1])
        self.assertEqual(data.count(b"compile_context"), 1)
        self.assertEqual(data.count(b"a b.cc"), 1)

    def test_pytorch_batches_and_large_memos(self):
        story = Story()
        for i in range(1, 2500):
            story.add("segment_alloc", i * MIB, MIB)
            story.add("alloc", i * MIB, 5, i, stack=i - 1)
        frames = [{"address": 0, "module": -1, "function": "f%d" % i, "file": "x", "line": i} for i in range(2500)]
        snapshot = story_snapshot(
            events=story.events(), frames=frames, stacks=[[i] for i in range(2500)], passthrough=[],
            segments=[segment_of(i * MIB, block_of(i * MIB, MIB, 5, i, stack=i - 1)) for i in range(1, 2500)])
        document = formats.load_pickle(self.export(snapshot, "--to", "pytorch", binary=True))
        formats.check_pytorch(document)
        self.assertEqual(document["device_traces"][0][-1]["frames"], [{"filename": "x", "line": 2498, "name": "f2498"}])

    def test_pytorch_has_a_trace_for_every_device(self):
        snapshot = story_snapshot(devices=[cli.device_of(0), cli.device_of(3)])
        document = formats.load_pickle(self.export(snapshot, "--to", "pytorch", binary=True))
        self.assertEqual([len(trace) > 0 for trace in document["device_traces"]], [True, False, False, False])

    def test_segments_that_do_not_tile_are_mended(self):
        snapshot = story_snapshot(segments=[
            segment_of(2 * MIB, block_of(3 * MIB, MIB, MIB, 2), block_of(3 * MIB, MIB, MIB, 9), size=4 * MIB)])
        document = json.loads(self.export(snapshot, "--to", "pytorch-json"))
        self.assertIn("1 of its blocks lie outside it", self.errors)
        self.assertEqual([(b["address"], b["size"], b["state"]) for b in document["segments"][0]["blocks"]], [
            (2 * MIB, MIB, "inactive"), (3 * MIB, MIB, "active_allocated"), (4 * MIB, 2 * MIB, "inactive")])

    def test_a_segment_of_a_stream_that_is_not_there(self):
        snapshot = story_snapshot()
        snapshot["segments"][1]["stream"] = 2
        self.export(snapshot, "--to", "pytorch", status=INPUT)
        self.assertIn("segment 1 refers to a missing stream", self.errors)

    def test_passthrough_list_and_events_may_differ(self):
        """The list of the snapshot is not of quite the same moment: its events decide."""
        story = Story()
        story.add("passthrough_alloc", MIB, 512, 1, "managed")
        story.add("passthrough_alloc", 2 * MIB, 512, 2, "managed")
        story.add("passthrough_free", MIB, 512, 1, "managed")
        listed = {"device": 0, "address": MIB, "size": 512, "kind": "managed", "stream": -1, "block": 1, "time_ns": 1}
        document = json.loads(self.export(
            story_snapshot(events=story.events(), segments=[], passthrough=[listed]), "--to", "pytorch-json"))
        formats.check_pytorch(document)
        self.assertEqual([s["address"] for s in document["segments"]], [2 * MIB])

    def test_stacks(self):
        graph = json.loads(self.export(story_snapshot(), "--to", "speedscope"))
        formats.check_speedscope(graph)
        weights = {}
        for profile in graph["profiles"]:
            names = [tuple(graph["shared"]["frames"][i]["name"] for i in sample) for sample in profile["samples"]]
            weights[profile["name"].split(":")[0]] = dict(zip(names, profile["weights"]))
        first, second, none = ("bin+0x1000", "layer;1", "make<int, 4>(x)"), ("bin+0x1000", "0xabc"), ("(no stack)",)
        self.assertEqual(weights, {
            "live": {second: MIB, none: 8192},
            "peak": {first: 4 * MIB, second: MIB, none: 8192},
            "total": {first: 5 * MIB, second: MIB + 4096, none: 8192}})
        self.assertEqual(formats.read_folded(self.export(story_snapshot(), "--to", "folded")), {
            "bin+0x1000;layer:1;make<int,_4>(x)": 4 * MIB, "bin+0x1000;0xabc": MIB, "(no_stack)": 8192})

    def test_a_block_counts_for_the_stack_of_its_allocation(self):
        """Live at the peak, freed later by another function."""
        story = Story()
        story.add("alloc", MIB, 100, 1, stack=0)
        story.add("free_requested", MIB, 100, 1, stack=2)
        snapshot = story_snapshot(events=story.events(), segments=[], passthrough=[])
        self.assertEqual(formats.read_folded(self.export(snapshot, "--to", "folded")),
                         {"bin+0x1000;layer:1;make<int,_4>(x)": 100})
        # What was there before the first event is known by its free only.
        story = Story()
        story.add("free_requested", MIB, 100, 1, stack=2)
        snapshot = story_snapshot(events=story.events(), segments=[], passthrough=[])
        for metric in ("peak", "total"):
            self.assertEqual(formats.read_folded(self.export(snapshot, "--to", "folded", "--metric", metric)), {"??": 100})
        self.assertEqual(self.export(snapshot, "--to", "folded", "--metric", "live"), "")

    def test_deep_stacks_are_cut_at_the_far_end(self):
        snapshot = story_snapshot(stacks=[[0] + [1] * 3000, [1], [2]])
        graph = json.loads(self.export(snapshot, "--to", "speedscope"))
        formats.check_speedscope(graph)
        sample = max(graph["profiles"][2]["samples"], key=len)
        self.assertEqual((len(sample), sample[0], sample[-1]), (501, 1, 2))

    def test_no_stacks_are_said(self):
        self.export(cli.snapshot_of(events=story_snapshot()["events"], stacks=[[]] * 3, streams=[{}, {}]), "--to", "folded")
        self.assertEqual(self.errors, "")
        events = story_snapshot()["events"]
        events["stack"] = [-1] * len(events["stack"])
        self.export(cli.snapshot_of(events=events, streams=[{}, {}]), "--to", "folded")
        self.assertIn("no call stacks", self.errors)

    def test_perfetto(self):
        timeline = json.loads(self.export(story_snapshot(), "--to", "perfetto"))
        left = formats.check_perfetto(timeline)
        self.assertEqual(sorted(key[2] for key in left), ["0x2", "0x4", "0x5"])
        events = timeline["traceEvents"]
        self.assertEqual([e["name"] for e in events if e["ph"] == "i"], ["mode", "trim", "out of memory", "snapshot"])
        counters = {}
        for event in events:
            if event["ph"] == "C":
                counters.setdefault(event["name"], []).append(event["args"]["bytes"])
        self.assertEqual({name: (figures[-1], max(figures)) for name, figures in counters.items()}, {
            "device 0 allocated": (MIB, 5 * MIB), "device 0 active": (5 * MIB, 5 * MIB),
            "device 0 reserved": (6 * MIB, 6 * MIB), "device 0 passthrough": (8192, 12288)})
        begun = next(e for e in events if e["ph"] == "b")
        self.assertEqual((begun["ts"], begun["tid"], begun["name"]), (4.5, 4711, "layer;1"))
        self.assertEqual(begun["args"], {"device": 0, "address": "0x200000", "size": 1000, "rounded_size": MIB})

    def test_perfetto_marks_and_scopes(self):
        """In their places among the events; of a scope both ends or the begin only, and nothing that is not as it should be."""
        def mark(kind, time_ns, name, scope=None, device=None, thread=0):
            return {"kind": kind, "time_ns": time_ns, "thread": thread, "device": device, "scope": scope, "name": name}
        marks = [mark("end", 0, "lost begin", 9, 0), mark("mark", 1, "warm \u00e9"), mark("begin", 4800, "step", 1, 0), mark("begin", 4900, "inner", 2, 0),
                 mark("begin", 4950, "again", 2, 0), mark("end", 5600, "step", 1, 0), mark("mark", 5000, "late"), mark("mark", 5700, "no thread", thread=7),
                 mark("other", 5800, "no kind"), mark("end", 10 ** 12, "other name", 2, 0), mark("begin", 10 ** 12, "open", 3, 0), {}, 7]
        timeline = json.loads(self.export(story_snapshot(marks=marks), "--to", "perfetto"))
        left = formats.check_perfetto(timeline)
        self.assertEqual([key[2] for key in left if key[1] == "scope"], ["0x3"])
        named = [(event["ph"], event["name"]) for event in timeline["traceEvents"] if event.get("cat") == "scope" or event["name"].startswith("warm")]
        self.assertEqual(named, [("i", "warm \u00e9"), ("b", "step"), ("b", "inner"), ("e", "step"), ("e", "inner"), ("b", "open")])
        self.assertNotIn("no thread", json.dumps(timeline))

    def test_perfetto_ranges_of_threads(self):
        def mark(kind, time_ns, name="", thread=0):
            return {"kind": kind, "time_ns": time_ns, "thread": thread, "device": None, "scope": None, "name": name}
        threads = [{"tid": 5, "name": "one"}, {"tid": 6, "name": "two"}]
        marks = [mark("pop", 1), mark("push", 2, "step"), mark("push", 3, "other", thread=1), mark("push", 4, "inner"), mark("pop", 5), mark("pop", 6),
                 mark("pop", 7), mark("pop", 8, thread=1), mark("push", 9, "open")]
        timeline = json.loads(self.export(dict(story_snapshot(marks=marks), threads=threads), "--to", "perfetto"))
        formats.check_perfetto(timeline)
        self.assertEqual([(event["ph"], event["tid"], event["name"]) for event in timeline["traceEvents"] if event["ph"] in "BE"],
                         [("B", 5, "step"), ("B", 6, "other"), ("B", 5, "inner"), ("E", 5, "inner"), ("E", 5, "step"), ("E", 6, "other"), ("B", 5, "open")])

    def test_perfetto_has_as_many_marks_as_there_can_be(self):
        marks = [{"kind": "mark", "time_ns": i, "thread": 0, "device": None, "scope": None, "name": "warm %d" % i} for i in range(33000)]
        timeline = json.loads(self.export(story_snapshot(marks=marks), "--to", "perfetto"))
        self.assertEqual([event["name"] for event in timeline["traceEvents"] if event["name"].startswith("warm")],
                         ["warm %d" % i for i in range(32768)])

    def test_perfetto_of_one_device_counts_its_memory(self):
        """Counters begin at what was held at the end, with the events undone."""
        snapshot = story_snapshot()
        snapshot["devices"].append(dict(cli.device_of(1, allocated_bytes=cli.gauge(7 * MIB))))
        snapshot["events"]["device"][3] = 1
        for device, held in ((0, [MIB]), (1, [6 * MIB, 7 * MIB])):
            events = json.loads(self.export(snapshot, "--to", "perfetto", "--device=%d" % device))["traceEvents"]
            counters = [event for event in events if event["ph"] == "C"]
            self.assertEqual({event["name"].rpartition(" ")[0] for event in counters} - {"device %d" % device}, set())
            figures = [event["args"]["bytes"] for event in counters if event["name"].endswith(" allocated")]
            self.assertEqual(figures[-len(held):], held)

    def test_stacks_of_all_frames_begin_with_the_innermost(self):
        snapshot = story_snapshot()
        snapshot["frames"][0]["function"] = "cudaMalloc"
        snapshot["frames"][3]["function"] = "f()"
        names = [event["name"] for options in ((), ("--all-frames",)) for event in
                 json.loads(self.export(snapshot, "--to", "perfetto", *options))["traceEvents"] if event["ph"] == "b"]
        self.assertIn("cudaMalloc", names[len(names) // 2:])
        self.assertNotIn("cudaMalloc", names[:len(names) // 2])

    def test_perfetto_names_blocks_by_owner(self):
        snapshot = story_snapshot()
        snapshot["frames"][0]["function"] = "cudaMalloc"
        snapshot["frames"][3]["function"] = "f<%s>()" % ("long, " * 100)
        text = self.export(snapshot, "--to", "perfetto")
        formats.check_perfetto(json.loads(text))
        events = json.loads(text)["traceEvents"]
        names = [e["name"] for e in events if e["ph"] == "b"]
        self.assertEqual(names[0], "layer;1")
        self.assertRegex(names[1], r"^f<long, .*\.\.\..*long, >\(\)$")
        self.assertEqual(len(names[1]), 60)
        self.assertIn("8 KiB", [e["name"] for e in events if e["ph"] == "b"])  # no stack
        snapshot["frames"][0]["function"] = "pool_of_mine"
        self.export(snapshot, "--to", "perfetto")

    def test_perfetto_says_nothing_twice(self):
        """Decimals, sizes and counters that say nothing are left out."""
        story = Story()
        for block in range(1, 101):
            story.add("alloc", block * MIB, MIB, block)
            story.add("free_requested", block * MIB, MIB, block)
            story.add("free_completed", block * MIB, MIB, block)
        text = self.export(story_snapshot(events=story.events(), segments=[], passthrough=[],
                                          devices=[cli.device_of(0)]), "--to", "perfetto")
        formats.check_perfetto(json.loads(text))
        for part in ("000,", "rounded_size", "passthrough", '"stream"', "e,"):
            self.assertNotIn(part, text, part)
        self.assertNotIn("tid", [event for event in json.loads(text)["traceEvents"] if event["ph"] == "e"][0])
        self.assertLess(len(text), 100 * 640)

    def test_csv(self):
        rows = formats.read_csv(self.export(story_snapshot(), "--to", "csv"))
        self.assertEqual(rows, [
            ("A", 1, 1000, 0), ("A", 2, MIB, 2), ("F", 1, 0, 0), ("A", 3, 4096, 0), ("A", 4, 8192, 0), ("F", 3, 0, 0),
            ("A", 6, 4 * MIB - 7, 0), ("F", 6, 0, 0)])

    def test_csv_of_a_history_without_its_beginning(self):
        snapshot = story_snapshot()
        for name in cli.COLUMNS:
            del snapshot["events"][name][:4]  # up to the second alloc
        rows = formats.read_csv(self.export(snapshot, "--to", "csv"))
        self.assertEqual(rows[:3], [("A", 1, 1000, 0), ("A", 2, MIB, 0), ("F", 1, 0, 0)])

    def test_csv_of_events_that_contradict_each_other(self):
        story = Story()
        story.add("alloc", MIB, 5, 1)
        story.add("alloc", MIB, 5, 1)
        story.add("free_requested", MIB, 5, 1)
        story.add("free_requested", MIB, 5, 1)
        self.assertEqual(formats.read_csv(self.export(
            story_snapshot(events=story.events(), segments=[], passthrough=[]), "--to", "csv")),
            [("A", 1, 5, 0), ("F", 1, 0, 0)])
        self.assertIn("2 events", self.errors)

    def test_several_devices(self):
        snapshot = story_snapshot(devices=[cli.device_of(0), cli.device_of(1)])
        snapshot["events"]["device"][3] = 1
        self.export(snapshot, "--to", "csv", status=USAGE)
        self.assertIn("choose it with --device", self.errors)
        self.assertEqual(formats.read_csv(self.export(snapshot, "--to", "csv", "--device=1")), [("A", 2, MIB, 2)])
        document = json.loads(self.export(snapshot, "--to", "pytorch-json", "--device", "1"))
        self.assertEqual([len(trace) for trace in document["device_traces"]], [0, 1])
        self.assertEqual(document["segments"], [])
        self.export(snapshot, "--to", "csv", "--device=2", status=USAGE)
        self.assertIn("there is no device 2", self.errors)

    def test_nothing_recorded(self):
        for name in FORMATS:
            self.export(cli.snapshot_of(events={}, segments=[]), "--to", name, binary=True)
        self.assertIn("nothing to replay", self.errors)
        formats.check_pytorch(json.loads(self.export(cli.snapshot_of(events={}), "--to", "pytorch-json")))

    def test_usage(self):
        for arguments, part in (
            (["x"], "--to FORMAT is missing"), (["--to"], "--to needs a value"), (["--to", "csv"], "a file is missing"),
            (["--to", "csw", "x"], "did you mean csv?"),
            (["--to", "zebra", "x"], "unknown format zebra; accepted: pytorch, pytorch-json, perfetto, speedscope, folded, csv"),
            (["--tu", "csv", "x"], "did you mean --to?"), (["--to", "csv", "x", "y"], "one file at a time, not also y"),
            (["--to", "csv", "x", "--device=-1"], "accepted: 0 to 63"),
            (["--to", "folded", "x", "--metric=max"], "accepted: live|peak|total"),
            (["--to", "csv", "x", "--metric=peak"], "--metric applies to --to folded only"),
        ):
            result = self.run_tool("export", *arguments, status=USAGE)
            self.one_line(result.stderr)
            self.assertIn(part, result.stderr)
        text = self.run_tool("export", "--help").stdout
        self.assertEqual(text, self.run_tool("help", "export").stdout)
        self.assertLessEqual(max(map(len, text.splitlines())), 80)
        for name in FORMATS:
            self.assertIn("  " + name + " ", text)
        self.assertIn("No such file", self.run_tool("export", "--to", "csv", "no-such", status=INPUT).stderr)

    def test_a_file_has_its_name_when_it_is_complete(self):
        self.export(story_snapshot(), "--to", "csv", "-o", "out.csv")
        with open(self.path("work/out.csv"), encoding="utf-8") as file:
            content = file.read()
        self.assertEqual(content, self.export(story_snapshot(), "--to", "csv", "-o", "-"))
        with open(self.path("work/out.csv"), "w", encoding="utf-8") as file:
            file.write("mine")
        self.export(story_snapshot(), "--to", "csv", "--output=out.csv", status=USAGE)
        self.assertIn("out.csv exists; --force overwrites it", self.errors)
        with open(self.path("work/out.csv"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "mine")
        os.symlink("out.csv", self.path("work/link.csv"))
        self.export(story_snapshot(), "--to", "csv", "-o", "link.csv", "--force")
        self.assertTrue(os.path.islink(self.path("work/link.csv")))
        with open(self.path("work/out.csv"), encoding="utf-8") as file:
            self.assertEqual(file.read(), content)
        self.export(story_snapshot(), "--to", "csv", "-o", "no/such/folder", status=INPUT)
        self.assertIn("no/such/folder: there is no folder no/such", self.errors)
        self.export(story_snapshot(), "--to", "csv", "-o", ".", "--force", status=INPUT)
        self.assertEqual(sorted(os.listdir(self.path("work"))), ["link.csv", "out.csv", "s.json"])

    def test_a_full_disk_is_no_success(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("there is no /dev/full")
        for name in FORMATS:
            self.export(story_snapshot(), "--to", name, "-o", "/dev/full", "--force", status=INPUT)
            self.assertIn("/dev/full: No space left on device", self.errors)
            with open("/dev/full", "w", encoding="utf-8") as full:
                result = subprocess.run([self.tool, "export", self.path("work/s.json"), "--to", name], stdout=full,
                                        stderr=subprocess.PIPE, env=self.environment, check=False)
            self.assertEqual(result.returncode, INPUT, name)

    def test_a_file_that_cannot_be_completed_leaves_nothing(self):
        def no_space():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
        path = self.write("s.json", story_snapshot())
        for name in FORMATS:
            result = subprocess.run([self.tool, "export", path, "--to", name, "-o", "out"], cwd=self.path("work"),
                                    env=self.environment, preexec_fn=no_space, stderr=subprocess.PIPE, check=False)
            self.assertEqual((result.returncode, os.listdir(self.path("work"))), (INPUT, ["s.json"]), result.stderr)
            self.assertIn(b"out: File too large", result.stderr)

    def expect_refused(self, snapshot, arguments, reason, alternative):
        """A file of a few MB would become hundreds: no part of them is left."""
        self.export(snapshot, *arguments, "-o", "out", status=INPUT)
        self.one_line(self.errors)
        self.assertIn("it would be more than ", self.errors)
        self.assertIn(reason, self.errors)
        self.assertEqual(os.listdir(self.path("work")), ["s.json"])
        self.export(snapshot, *alternative, "-o", "out", binary=True)
        size, bound = os.path.getsize(self.path("work", "out")), 16 * os.path.getsize(self.path("work", "s.json"))
        self.assertLess(size, 16 * MIB + bound)
        os.unlink(self.path("work", "out"))

    def test_what_is_shared_stays_within_a_bound(self):
        frames = [{"address": i, "module": -1, "function": "f%d" % i + "x" * 1000, "file": "y" * 100, "line": 1}
                  for i in range(100)]
        many = Story()
        for block in range(1, 1001):
            many.add("alloc", block * MIB, MIB, block, stack=0)
        snapshot = story_snapshot(events=many.events(), frames=frames, stacks=[list(range(100))], segments=[])
        self.expect_refused(snapshot, ("--to", "pytorch-json"), "the whole call stack with every event; --to pytorch ",
                            ("--to", "pytorch"))
        # A stack can name a frame, and an event a stack, in three bytes.
        name = [{"address": 0, "module": -1, "function": "z" * MIB, "file": "", "line": 0}]
        text = self.export(story_snapshot(events=many.events(), frames=name, stacks=[[0]], segments=[]), "--to", "perfetto")
        self.assertLess(len(text), MIB)
        self.expect_refused(story_snapshot(events=many.events(), frames=name, stacks=[[0] * 250], segments=[]),
                            ("--to", "folded"), "the names of functions with every stack; --to speedscope ",
                            ("--to", "speedscope"))

    def test_shared_stacks_of_pytorch_stay_within_a_bound(self):
        """As torch writes them: what is the same list is in a pickle once."""
        frames = [{"filename": "y" * 100, "line": i, "name": "f" + "x" * 1000} for i in range(500)]
        trace = [{"action": "alloc", "addr": i * MIB, "size": 512, "stream": 0, "time_us": i, "frames": frames}
                 for i in range(1000)]
        path = self.path("work", "s.pickle")
        with open(path, "wb") as file:
            pickle.dump({"segments": [], "device_traces": [trace]}, file)
        self.assertLess(os.path.getsize(path), MIB)
        result = self.run_tool("export", path, "--to", "pytorch-json", "-o", "out", status=INPUT)
        self.assertIn("--to pytorch writes each stack once", result.stderr)
        for name in ("pytorch", "perfetto", "speedscope", "folded", "csv"):
            self.run_tool("export", path, "--to", name, "-o", name)
            self.assertLess(os.path.getsize(self.path("work", name)), 2 * MIB)

    def test_names_that_events_share_are_short(self):
        snapshot = story_snapshot()
        snapshot["threads"][0]["name"] = "t" * 300
        self.assertIn("(a long name)", self.export(snapshot, "--to", "pytorch-json"))
        for key in ("actions", "details"):
            snapshot = story_snapshot()
            snapshot["events"][key] = snapshot["events"][key] + ["a" * 300]
            self.export(snapshot, "--to", "csv", status=INPUT)
            self.assertIn("longer than any", self.errors)

    def test_progress_is_for_a_terminal(self):
        story = Story()
        for name, column in story.columns.items():
            column.extend([ACTIONS.index("trim") if name == "action" else 0] * 300000)
        path = self.write("s.json", story_snapshot(events=story.events()))
        for arguments, is_shown in ((["-o", "out"], True), ([], False)):
            own, other = open_terminal()
            subprocess.run([self.tool, "export", path, "--to", "csv", *arguments], cwd=self.path("work"), check=True,
                           env=self.environment, stdout=subprocess.DEVNULL, stderr=other)
            os.close(other)
            seen = b""
            try:
                while part := os.read(own, 65536):
                    seen += part
            except OSError:
                pass  # the other end is closed
            os.close(own)
            self.assertEqual(b"exporting: 43%" in seen, is_shown, seen)
            self.assertEqual(seen.endswith(b"\r\x1b[K"), is_shown, seen)

    def test_a_pickle_is_not_for_a_terminal(self):
        path = self.write("s.json", story_snapshot())
        own, other = open_terminal()
        result = subprocess.run([self.tool, "export", path, "--to", "pytorch"], stdout=other, stderr=subprocess.PIPE,
                                env=self.environment, check=False)
        os.close(other)
        os.close(own)
        self.assertEqual(result.returncode, USAGE)
        self.assertIn(b"cannot go to a terminal", result.stderr)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    cli.GPUPOOL, cli.STUB = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])
