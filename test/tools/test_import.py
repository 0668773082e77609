#!/usr/bin/env python3
"""Snapshots of PyTorch as input of every command.

    test_import.py GPUPOOL PRELOAD_STUB [TEST ...]
"""

import argparse
import collections
import datetime
import fractions
import gzip
import json
import os
import pickle
import shutil
import struct
import subprocess
import sys
import unittest

import cli
import export_formats as formats
from cli import DONE, INPUT, MIB


def frame(name, line=1, filename="train.py"):
    return {"filename": filename, "line": line, "name": name}


def entry(action, addr, size, time_us, frames=None, **more):
    made = {"action": action, "size": size, "stream": 0, "time_us": time_us, **more}
    made.update({"device_free": addr} if action == "oom" else {"addr": addr})
    if frames is not None:
        made["frames"] = frames
    return made


def torch_snapshot():
    """A segment of which two parts are in use, as PyTorch splits them; another device with one block."""
    forward = [frame("conv", 7), frame("forward", 3), frame("main", 99)]
    backward = [frame("??", 0, "??"), frame("main", 99)]
    start = 1700000000000000
    trace = [
        entry("segment_alloc", 20 * MIB, 20 * MIB, start + 10, forward),
        entry("alloc", 20 * MIB, 3 * MIB - 100, start + 10, forward),
        entry("alloc", 24 * MIB, 1000, start + 20, backward),
        entry("free_requested", 24 * MIB, 1000, start + 30),
        entry("free_completed", 24 * MIB, 1000, start + 35),
        entry("alloc", 24 * MIB, 5 * MIB, start + 40, backward),
        entry("oom", 12345, 1 << 40, start + 50, forward),
        entry("alloc", 30 * MIB, MIB, start + 60, forward),
        entry("free_requested", 30 * MIB, MIB, start + 70, forward),
        entry("snapshot", 0, 8 * MIB, start + 80),
        entry("annotate", 20 * MIB, 0, start + 90, user_metadata="weights"),
    ]
    other = [entry("free_requested", 512, 700, start + 15), entry("free_completed", 512, 700, start + 15)]

    def block(address, size, requested, state, frames=()):
        return {"address": address, "size": size, "requested_size": requested, "state": state, "frames": list(frames)}
    return {
        "segments": [
            {"device": 1, "address": 0, "total_size": 2 * MIB, "stream": 0, "segment_type": "small",
             "segment_pool_id": (0, 0), "is_expandable": False, "frames": [], "allocated_size": 0, "active_size": 0,
             "requested_size": 0, "blocks": [block(0, 2 * MIB, 700, "inactive")]},
            {"device": 0, "address": 20 * MIB, "total_size": 20 * MIB, "stream": 0x55d000000000, "segment_type": "large",
             "segment_pool_id": (0, 0), "is_expandable": False, "frames": forward, "allocated_size": 9 * MIB,
             "active_size": 10 * MIB, "requested_size": 9 * MIB, "blocks": [
                 block(20 * MIB, 4 * MIB, 3 * MIB - 100, "active_allocated", forward),
                 block(24 * MIB, 5 * MIB, 5 * MIB, "active_allocated", backward),
                 block(29 * MIB, MIB, 17, "inactive"),
                 block(30 * MIB, MIB, MIB, "active_pending_free", forward),
                 block(31 * MIB, 9 * MIB, 0, "inactive")]}],
        "device_traces": [trace, other],
        "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1, "far_below": -2**40, "expandable_segments": False,
                               "garbage_collection_threshold": 0.0, "roundup_power2_divisions": {"1": 0}},
        "external_annotations": [
            {"name": name, "stage": stage, "device": 0, "time_us": start + after} for name, stage, after in (
                ("before", "END", 5), ("step", "START", 15), ("inner", "START", 40), ("inner", "END", 55), ("step", "END", 65),
                ("step", "START", 75))],
    }


def ten_streams():
    """200 events of ten streams, none with a time, as PyTorch 2.0 writes them. 50 weights stay; steps come and go, of which
    the one at event 102 is the largest; event 150 is an out-of-memory."""
    held, passing = [frame("weights", 5), frame("main", 99)], [frame("step", 8), frame("main", 99)]
    streams = [0x55d000000000 + i if i else 0 for i in range(10)]
    trace = [entry("segment_alloc", (i + 1) * 64 * MIB, 64 * MIB, 0, held, stream=streams[i]) for i in range(10)]

    def block(stream, place, size, state, frames=()):
        return {"address": (stream + 1) * 64 * MIB + place * MIB, "size": size, "requested_size": size, "state": state,
                "frames": list(frames)}
    for i in range(50):
        trace.append(entry("alloc", (i % 10 + 1) * 64 * MIB + i // 10 * MIB, MIB, 0, held, stream=streams[i % 10]))
    for i in range(46):
        if i == 30:
            trace.append(entry("oom", 12345, 1 << 40, 0, passing))
        size = 8 * MIB if i == 14 else 2 * MIB
        trace += [entry(action, (i % 10 + 1) * 64 * MIB + 5 * MIB, size, 0, passing, stream=streams[i % 10])
                  for action in ("alloc", "free_requested", "free_completed")]
    trace.append(entry("snapshot", 0, 50 * MIB, 0))
    for event in trace:
        del event["time_us"]
    return {"segments": [
        {"device": 0, "address": (i + 1) * 64 * MIB, "total_size": 64 * MIB, "stream": streams[i], "segment_type": "large",
         "allocated_size": 5 * MIB, "active_size": 5 * MIB,
         "blocks": [block(i, k, MIB, "active_allocated", held) for k in range(5)] + [block(i, 5, 59 * MIB, "inactive")]}
        for i in range(10)], "device_traces": [trace]}


class Import(cli.Case):
    def write_bytes(self, name, data):
        path = self.path("work", name)
        with open(path, "wb") as file:
            file.write(data)
        return path

    def run_on(self, data, *arguments, status=DONE):
        path = self.write_bytes("s.pickle", data)
        result = subprocess.run([self.tool, *arguments, path], cwd=self.path("work"), env=self.environment,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        self.errors = result.stderr.decode()
        self.assertEqual(result.returncode, status, self.errors)
        self.assertNotIn("Sanitizer", self.errors)
        return result.stdout.decode()

    def facts(self, data):
        return json.loads(self.run_on(data, "summary", "--json"))["snapshots"][0]

    def refused(self, data, part):
        self.run_on(data, "summary", status=INPUT)
        self.one_line(self.errors)
        self.assertIn("s.pickle: offset ", self.errors)
        self.assertIn(part, self.errors)

    def allocations_by_phase(self, data):
        sites = json.loads(self.run_on(data, "sites", "--json", "--by", "phase"))["snapshots"][0]["sites"]
        return {site["name"]: site["flat"]["total"]["count"] for site in sites}

    def test_events_are_read_as_they_come(self):
        """A wrong event is noticed before what comes after it, so no more than its trace has to be in memory."""
        made = torch_snapshot()
        del made["device_traces"][1][0]["addr"]
        for protocol in (2, 4):
            data = pickle.dumps(made, protocol)
            end = data.index(b"allocator_settings")
            self.refused(data[:end] + b"\0" * 100, "device_traces[1][0]: addr is missing")

    def test_traces_of_every_form(self):
        """Python's pickle adds one element in another way than several, and a thousand at once."""
        def trace(device, events):
            made = [entry("segment_alloc", 512, 512, 1700000000000000 + device)]
            for i in range(events - 1):
                action = ("alloc", "free_requested", "free_completed")[i % 3]
                made.append(entry(action, 512, 512, 1700000000000001 + 2 * i + device))
            return made

        for events in (1, 2, 1000, 1001, 1002, 2002), (1001,), (5, 0, 3), (0, 4):
            plain = dict(torch_snapshot(), segments=[], device_traces=[trace(*pair) for pair in enumerate(events)])
            facts = self.facts(json.dumps(plain).encode())
            self.assertGreaterEqual(facts["events"]["count"], sum(events))
            ways = dict(plain), dict(plain, device_traces=tuple(plain["device_traces"])), dict(
                plain, device_traces=[tuple(plain["device_traces"][0]), *plain["device_traces"][1:]]), dict(
                reversed(plain.items()))
            for way, made in enumerate(ways):
                for dump in pickle.dumps, pickle._dumps:
                    with self.subTest(events=events, way=way, dump=dump.__name__):
                        self.assertEqual(self.facts(dump(made, 2)), facts)

    def test_annotations_are_phases(self):
        """Ranges of PyTorch's profiler: an end whose begin was not recorded is none, and an open range goes on."""
        made = torch_snapshot()
        made["external_annotations"] += [None, {"name": 5, "stage": "START", "time_us": 1700000000000090},
                                         {"name": "x", "stage": "MIDDLE", "time_us": 1700000000000090}]
        wanted = {"(no phase)": 2, "step": 2, "inner": 1}
        for data in pickle.dumps(made, 2), json.dumps(made).encode():
            self.assertEqual([(phase["name"], phase["times"]) for phase in self.facts(data)["phases"]], [("step", 2), ("inner", 1)])
            self.assertEqual(self.allocations_by_phase(data), wanted)
        made["external_annotations"].insert(0, {"name": "early", "stage": "START", "time_us": 1699999999000000})
        del made["device_traces"][0][:2]
        self.assertEqual(self.allocations_by_phase(pickle.dumps(made)), wanted,
                         "what was there before the events is in none")

    def test_figures(self):
        facts = self.facts(pickle.dumps(torch_snapshot(), 2))
        self.assertEqual(facts["process"]["start_time_us"], 1700000000000010)
        self.assertEqual([d["device"] for d in facts["devices"]], [0, 1])
        stats = facts["devices"][0]["stats"]
        gauge = cli.gauge
        self.assertEqual(stats["allocation"], {"current": 2, "peak": 3, "allocated": 4, "freed": 2})
        self.assertEqual(stats["allocated_bytes"], gauge(9 * MIB, 10 * MIB, 10 * MIB + 1024))
        self.assertEqual(stats["requested_bytes"]["current"], 8 * MIB - 100)
        self.assertEqual(stats["active_bytes"], gauge(10 * MIB, 10 * MIB, 10 * MIB + 1024))
        self.assertEqual(stats["deferred_bytes"], gauge(MIB, MIB, MIB + 1024))
        self.assertEqual(stats["reserved_bytes"], gauge(20 * MIB))
        self.assertEqual(stats["cached_bytes"]["current"], 10 * MIB)
        self.assertEqual(stats["cached_bytes"]["peak"], 16 * MIB)  # after the first block was split off
        self.assertEqual(stats["inactive_split_bytes"]["current"], 10 * MIB)
        self.assertEqual((stats["cache_hits"], stats["cache_misses"], stats["num_ooms"]), (3, 1, 1))
        self.assertAlmostEqual(stats["fragmentation"], 0.1)
        # Device 1: a block that was there before the first event.
        self.assertEqual(facts["devices"][1]["stats"]["allocation"], gauge(0, 1, 1))
        self.assertTrue(facts["partial"])
        self.assertIn("device 1: 1 block was allocated before the first event", facts["missing"][0])
        self.assertEqual(facts["events"]["actions"]["annotate"]["count"], 1)
        self.assertEqual(facts["streams"], [{"handle": "0x55d000000000"}, {"handle": "0x0"}])
        self.assertEqual(facts["settings"]["max_split_size"], "-1")
        self.assertEqual(facts["settings"]["far_below"], "-1099511627776")
        self.assertEqual(facts["settings"]["garbage_collection_threshold"], "0")

    def test_settings_are_said(self):
        snapshot = torch_snapshot()
        text = self.run_on(pickle.dumps(snapshot), "summary")
        self.assertIn("  snapshot   written by PyTorch\n", text)
        self.assertNotIn("1 thread", text)
        self.assertNotIn("settings", self.run_on(pickle.dumps(snapshot), "summary"))
        snapshot["allocator_settings"].update(PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True", garbage_collection_threshold=0.8)
        data = pickle.dumps(snapshot)
        self.assertIn("  settings   PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n", self.run_on(data, "summary"))
        self.assertEqual(self.facts(data)["settings"]["garbage_collection_threshold"], "0.8")

    def test_nobody_knows_when_older_blocks_came(self):
        snapshot = torch_snapshot()
        snapshot["device_traces"][0][0:2] = []
        data = pickle.dumps(snapshot)
        self.assertIn("device 0 in 1 block, 1 freed, the oldest allocated before the first event:", self.run_on(data, "leaks").replace("\n  ", " "))
        leaks = json.loads(self.run_on(data, "leaks", "--json"))["leaks"]
        self.assertEqual([leak["first_ns"] for leak in leaks], [25000, None])

    def test_every_protocol_and_json_are_one(self):
        facts = None
        for data in [pickle.dumps(torch_snapshot(), protocol) for protocol in (2, 3, 4, 5)] + [
                json.dumps(torch_snapshot()).encode(), json.dumps(torch_snapshot(), indent=1).encode()]:
            other = self.facts(data)
            facts = facts or other
            self.assertEqual(facts, other)

    def test_events_of_several_devices_are_in_order(self):
        timeline = json.loads(self.run_on(pickle.dumps(torch_snapshot()), "export", "--to", "perfetto"))
        formats.check_perfetto(timeline)
        self.assertEqual(next(e["ts"] for e in timeline["traceEvents"] if e["ph"] == "e"), 5)

    def test_stacks_are_shared_whether_or_not_the_input_shares_them(self):
        for data in (pickle.dumps(torch_snapshot()), json.dumps(torch_snapshot()).encode()):
            graph = json.loads(self.run_on(data, "export", "--to", "speedscope"))
            formats.check_speedscope(graph)
            self.assertEqual([f["name"] for f in graph["shared"]["frames"][2:]], ["conv", "forward", "main", "??"])
            live = graph["profiles"][0]
            self.assertEqual(sorted(live["weights"]), [4 * MIB, 5 * MIB])

    def test_an_import_can_be_exported(self):
        document = formats.load_pickle(subprocess.run(
            [self.tool, "export", "--to", "pytorch", self.write_bytes("a", pickle.dumps(torch_snapshot()))],
            stdout=subprocess.PIPE, env=self.environment, check=True).stdout)
        formats.check_pytorch(document)  # test_roundtrip.py has more
        original = torch_snapshot()
        self.assertEqual([[b["size"] for b in s["blocks"]] for s in document["segments"]],
                         [[b["size"] for b in s["blocks"]] for s in original["segments"][::-1]])
        self.assertEqual([(e["action"], e["time_us"]) for e in document["device_traces"][0]],
                         [(e["action"], e["time_us"]) for e in original["device_traces"][0] if e["action"] != "annotate"])
        self.assertEqual(document["allocator_settings"]["max_split_size"], "-1")
        self.assertEqual({e["user_metadata"] for e in document["device_traces"][0]}, {""})
        self.assertEqual([e["device_free"] for e in document["device_traces"][0] if e["action"] == "oom"], [12345])

    def test_older_snapshots(self):
        """PyTorch 2.0: blocks without address and frames, events without times; 1.13: nothing but segments."""
        snapshot = torch_snapshot()
        for segment in snapshot["segments"]:
            del segment["frames"], segment["segment_pool_id"], segment["is_expandable"]
            for block in segment["blocks"]:
                del block["address"], block["requested_size"]
                block["history"] = [{"addr": 1, "real_size": 77, "frames": block.pop("frames")}]
        for trace in snapshot["device_traces"]:
            for event in trace:
                del event["time_us"]
        facts = self.facts(pickle.dumps(snapshot, 2))
        self.assertIn("the events have no times", facts["missing"])
        self.assertEqual({(finding["severity"], finding["message"]) for finding in facts["findings"]
                          if finding["code"] == "incomplete"},
                         {("note", "The events have no times."),
                          ("note", "Device 1: 1 block was allocated before the first event: recording began later, or "
                           "older events were overwritten.")})
        self.assertEqual(facts["devices"][0]["stats"]["requested_bytes"]["current"], 2 * 77)
        self.assertEqual(facts["devices"][0]["stats"]["allocation"]["allocated"], 4)
        facts = self.facts(pickle.dumps(snapshot["segments"], 4))
        self.assertEqual(facts["devices"][0]["stats"]["allocated_bytes"]["current"], 9 * MIB)
        self.assertEqual(facts["events"]["count"], 0)
        self.assertEqual([finding["code"] for finding in facts["findings"] if finding["code"] in ("nothing", "served")], [])

    def test_events_without_times_are_in_no_range_of_times(self):
        path = self.write_bytes("a", pickle.dumps(ten_streams(), 4))
        for command, *options in (("sites", "--since", "1s"), ("summary", "--until", "1s"), ("leaks", "--since=1ns")):
            result = subprocess.run([self.tool, command, path, *options], env=self.environment, text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
            self.assertEqual((result.returncode, result.stdout), (2, ""))
            self.assertIn("its events have no times, so --since and --until select none of them", result.stderr)

    def test_events_without_times_are_counted(self):
        snapshot = ten_streams()
        for data in (pickle.dumps(snapshot, 4), json.dumps(snapshot).encode()):
            for command, part in (("timeline", "event 0 "), ("timeline", "event 199"), ("sites", "at event 102."),
                                  ("summary", "Events: 200, without times"), ("leaks", "allocated at event 10:"),
                                  ("frag --at peak", "the peak (event 102)"), ("timeline", "event 150: memory ran out")):
                text = self.run_on(data, *command.split())
                self.assertIn(part, text)
                self.assertNotRegex(text, r"\b\d+ [nu]s\b")
            for command in ("summary", "timeline", "sites", "frag"):
                facts = json.loads(self.run_on(data, command, "--json"))["snapshots"][0]
                self.assertIs(facts["has_times"], False)
            self.assertIs(json.loads(self.run_on(data, "leaks", "--json"))["has_times"], False)
        self.assertEqual(json.loads(self.run_on(data, "timeline", "--json"))["snapshots"][0]["to_ns"], 199)
        graph = json.loads(self.run_on(data, "export", "--to", "perfetto"))
        self.assertEqual(max(e["ts"] for e in graph["traceEvents"] if "ts" in e), 199)
        self.assertIs(self.facts(pickle.dumps(torch_snapshot()))["has_times"], True)

    def test_some_events_have_no_time(self):
        snapshot = torch_snapshot()
        trace = snapshot["device_traces"][0]
        for event in trace[:2] + trace[4:6]:
            del event["time_us"]
        facts = self.facts(pickle.dumps(snapshot, 4))
        self.assertTrue(facts["has_times"])
        self.assertEqual(facts["process"]["start_time_us"], 1700000000000015)  # of device 1
        self.assertEqual((facts["events"]["first_ns"], facts["events"]["last_ns"]), (0, 75000))
        events = json.loads(self.run_on(pickle.dumps(snapshot), "export", "--to", "perfetto"))["traceEvents"]
        self.assertEqual(sorted(e["ts"] for e in events if e["ph"] == "b" and e["cat"] == "block"), [0, 5, 5, 15, 45])

    def test_numbers_of_every_size(self):
        for number in (0, 255, 256, 65535, 65536, 2**31 - 1, 2**31, 2**32, 2**40, 2**47 - 1, 2**62):
            for protocol in (2, 4):
                snapshot = {"segments": [], "device_traces": [[entry("alloc", number, 512, 1)]]}
                document = json.loads(self.run_on(pickle.dumps(snapshot, protocol), "export", "--to=pytorch-json"))
                self.assertEqual(document["device_traces"][0][0]["addr"], min(number, 2**53 - 1))

    def test_nothing_is_executed(self):
        class Evil:
            def __reduce__(self):
                return os.system, ("touch evil",)
        for protocol in (2, 4, 5):
            self.refused(pickle.dumps(Evil(), protocol), "segments are missing")
            self.refused(pickle.dumps({"segments": [Evil()], "device_traces": []}, protocol), "segments[0]")
            self.run_on(pickle.dumps({**torch_snapshot(), "evil": Evil()}, protocol), "summary")
        self.assertNotIn("evil", os.listdir(self.path("work")))
        data = pickle.dumps(torch_snapshot(), 4)[:-1] + b"\x82\x01."  # an extension
        self.refused(data, "opcode 0x82 of the pickle is none that a snapshot has")
        self.assertIn("offset %d:" % (len(data) - 3), self.errors)

    def test_objects_that_no_snapshot_needs_are_skipped(self):
        """What is in an OrderedDict counts; classes, sets and bytes do not."""
        plain = torch_snapshot()
        strange = dict(plain, config=argparse.Namespace(a=[1, {2}], b=b"x" * 300), when=datetime.date(2026, 1, 2),
                       names=frozenset({"a"}), pair=fractions.Fraction(1, 3))
        for protocol in (2, 3, 4, 5):
            expected = self.facts(pickle.dumps(plain, protocol))
            self.assertEqual(self.facts(pickle.dumps(strange, protocol)), expected)
            self.assertEqual(self.facts(pickle.dumps(collections.OrderedDict(plain), protocol)), expected)

    def test_pickles_that_end_too_early(self):
        """What is whole is read: a file is half copied, or its writer was killed. Of each length, one or two devices."""
        for snapshot in (torch_snapshot(), dict(torch_snapshot(), device_traces=torch_snapshot()["device_traces"][:1])):
            for protocol in (2, 4):
                good = pickle.dumps(snapshot, protocol)
                whole, before, read = self.facts(good), 0, set()
                for cut in list(range(2, len(good), 17)) + [len(good) - 1]:
                    path = self.write_bytes("s.pickle", good[:cut])
                    result = self.run_tool("summary", "--json", path, status=None)
                    if result.returncode == INPUT:
                        self.one_line(result.stderr)
                        self.assertRegex(result.stderr, "ends here, before anything of use|segments are missing")
                        self.assertEqual(before, 0, "what is longer is not refused")
                        continue
                    self.assertEqual(result.returncode, DONE, result.stderr)
                    (facts,) = json.loads(result.stdout)["snapshots"]
                    self.assertTrue(any("it ends too early: what follows byte %d is missing" % cut in finding["message"]
                                        for finding in facts["findings"]), cut)
                    events = facts["events"]["count"]
                    self.assertGreaterEqual(events, before)
                    before = events
                    read.add(events)
                self.assertEqual(before, whole["events"]["count"])
                self.assertGreater(len(read), 3)

    def test_damaged_pickles(self):
        good = pickle.dumps(torch_snapshot(), 4)
        self.refused(good + b"x", "something after the end")
        event = b"}(X\x06\0\0\0actionX\x08\0\0\0snapshotX\x04\0\0\0sizeK\0u"
        for data, part in (
            (b"\x80\x01.", "a pickle of protocol 1; 2 to 5 are understood"), (b"\x80\x06.", "protocol 6"),
            (b"\x80\x02.", "values left over"), (b"\x80\x02NN.", "values left over"), (b"\x80\x02(.", "values left over"),
            (b"\x80\x02N.", "neither a dict nor a list"), (b"\x80\x02}.", "segments are missing"),
            (b"\x80\x02h\x05.", "a reference to what was not there"), (b"\x80\x02e.", "a mark is missing"),
            (b"\x80\x02a.", "a value is missing"), (b"\x80\x02NNa.", "no list to add to"),
            (b"\x80\x02N(NNu.", "no dict to add to"), (b"\x80\x02}(Nu.", "a name without a value"),
            (b"\x80\x02(Nd.", "a name that has no value"), (b"\x80\x02](\x86.", "a value is missing"),
            (b"\x80\x02Nr\xff\xff\xff\x7f.", "a memo that is larger than the file"),
            (b"\x80\x02X\xff\xff\xff\xff.", "before anything of use"),
            (b"\x80\x02\x8b\xff\xff\xff\xff.", "before anything of use"),
            (b"\x80\x02" + b"]q\x00h\x00a.", "segments[0] is not a dict"),  # a list that holds itself
            (b"\x80\x02}(X\x08\0\0\0segments]X\x0d\0\0\0device_traces](" + b"]q\x01(" + event + b"e](" + event + b"eh\x01" +
             event + b"a0eu.", "those of device 0 are not together"),  # the first trace gets one more after the second
        ):
            self.refused(data, part)

    def test_what_cannot_be(self):
        def broken(change):
            snapshot = torch_snapshot()
            change(snapshot)
            return pickle.dumps(snapshot, 4)
        for change, part in (
            (lambda s: s["segments"][1].pop("address"), "segments[0]: address is missing"),
            (lambda s: s["segments"][1].update(total_size=-1), "total_size is not a number in its range"),
            (lambda s: s["segments"][0].update(device=64), "device is not a number in its range"),
            (lambda s: s["segments"][0].update(blocks=None), "blocks are missing"),
            (lambda s: s["segments"].append(7), "is not a dict"),
            (lambda s: s["segments"].append(s["segments"][0]), "is the same dict as another"),
            (lambda s: s["segments"].append(dict(s["segments"][0])), "blocks are the same list as others"),
            (lambda s: s["segments"][1]["blocks"][2].pop("state"), "segments[0].blocks[2]: state is missing"),
            (lambda s: s["segments"][1]["blocks"][2].update(size="x"), "blocks[2]: size is not a number"),
            (lambda s: s["device_traces"][0][3].pop("addr"), "device_traces[0][3]: addr is missing"),
            (lambda s: s["device_traces"][1][0].update(size=1 << 60), "device_traces[1][0]: size is not a number"),
            (lambda s: s["device_traces"][0][3].update(frames=5), "frames are not a list"),
            (lambda s: s["device_traces"][0][0]["frames"].append(5), "frames: one is not a dict"),
            (lambda s: s["device_traces"].append(s["device_traces"][0]), "the same list as another"),
            (lambda s: s["device_traces"][0].append(s["device_traces"][0][3]), "[11] is the same dict as another"),
            (lambda s: s["device_traces"][0].append(s["segments"][1]["blocks"][0]["frames"][0]), "[11] is the same dict"),
            (lambda s: s["device_traces"][0][2].update(frames=[s["device_traces"][0][0]]), "frames: one is not a dict, or is"),
            (lambda s: s["device_traces"][0][0].update(frames=s["segments"][0]["blocks"]), "frames are not a list, or are"),
            (lambda s: s["device_traces"][0][0].update(frames=s["device_traces"][0]), "frames are not a list, or are"),
            (lambda s: s.update(device_traces=[[]] * 65), "more devices than there can be"),
            (lambda s: s["device_traces"][0].extend(entry("a%d" % i, 0, 0, 1) for i in range(99)), "more actions"),
        ):
            self.refused(broken(change), part)

    def test_a_small_file_takes_little_memory(self):
        """Made to grow: references to one long text, and values a byte each."""
        text = b"X" + struct.pack("<I", 1 << 20) + b"x" * (1 << 20) + b"q\x05"
        frames = b"".join(b"}(X\x04\0\0\0nameh\x05X\x04\0\0\0lineJ" + struct.pack("<i", i) + b"u" for i in range(1, 3000))
        data = (b"\x80\x02}(X\x01\0\0\0x" + text +
                b"X\x08\0\0\0segments](}(X\x06\0\0\0deviceK\0X\x07\0\0\0addressK\0X\x0a\0\0\0total_sizeK\1X\x06\0\0\0blocks](}("
                b"X\x04\0\0\0sizeK\1X\x05\0\0\0stateX\x08\0\0\0inactiveX\x06\0\0\0frames](" + frames + b"eueueu.")
        self.refused(data, "more text than a snapshot of its size can")
        self.refused(b"\x80\x02" + b"]" * (4 << 20), "more memory than a snapshot of its size can need")

    def test_names_are_made_presentable(self):
        snapshot = torch_snapshot()
        data = pickle.dumps(snapshot, 2).replace(b"conv", b"c\xff\0v")
        graph = json.loads(self.run_on(data, "export", "--to", "speedscope"))
        self.assertIn("c??v", [f["name"] for f in graph["shared"]["frames"]])

    def test_compressed_inputs(self):
        plain = pickle.dumps(torch_snapshot(), 4)
        facts = self.facts(plain)
        ways = {"gzip": gzip.compress}
        if shutil.which("zstd"):
            ways["zstd"] = lambda data: subprocess.run(["zstd", "-q"], input=data, stdout=subprocess.PIPE, check=True).stdout
        for name, compress in ways.items():
            packed = compress(plain)
            if name not in os.environ["GP_COMPRESSION"].split():
                self.refused(packed, "it is compressed with %s: decompress it first" % name)
                continue
            self.assertEqual(self.facts(packed), facts)
            self.assertEqual(self.facts(compress(plain[:1000]) + compress(plain[1000:])), facts)  # as cat makes them
            self.assertEqual(self.facts(compress(json.dumps(torch_snapshot()).encode())), facts)
            for data, part in ((packed[:-5], "ends too early"), (packed[:4], "ends too early"),
                               (packed[:20] + b"\xff" * 9 + packed[29:], "it is damaged"), (packed + b"more", "it is damaged"),
                               (compress(b" " * (200 << 20)), "larger than a snapshot of that size can be")):
                self.run_on(data, "summary", status=INPUT)
                self.one_line(self.errors)
                self.assertIn(part, self.errors)

    def test_json_of_another_kind_stays_so(self):
        self.refused(b'{"segments": [], "traceEvents": []}', "Chrome trace")
        self.refused(b'{"device_traces": []}', "it is a snapshot of PyTorch")
        self.refused(json.dumps(torch_snapshot()).encode()[:-40], "the input ends here")
        self.refused(b'{"segments": [{"device": 0, "x": "\\ud800"}], "device_traces": []}', "")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    cli.GPUPOOL, cli.STUB = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])
