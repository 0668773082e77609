#!/usr/bin/env python3
"""What a snapshot of PyTorch holds and `gpupool export` writes again is the same, object by object.

    test_roundtrip.py GPUPOOL PRELOAD_STUB [TEST ...]

Each fixture is written by Python's pickle in every protocol, as JSON, and by gpupool's own writer; each of these is read and
written again as a pickle and as JSON. Nothing is compared by its bytes.
"""

import copy
import json
import math
import os
import pickle
import struct
import subprocess
import sys
import unittest

import cli
import export_formats as formats
import test_export
import test_import
from cli import DONE, INPUT, MIB
from test_import import entry, frame, ten_streams, torch_snapshot

PROTOCOLS = (2, 4, 5)
START = 1700000000000000


def named(name, line, **more):
    return dict(frame(name, line, "model.py"), **more)


def newest():
    """Every key that PyTorch is known to write, as of 2026, and some that it is not."""
    stack = [named("conv", 7, fx_node_op="call_function", fx_node_name="conv2d", fx_node_target="aten.conv2d",
                   fx_node_info="", fx_original_trace="File \"model.py\", line 7\n"),
             named("conv", 7, fx_node_op="call_function", fx_node_name="conv2d_1", fx_node_target="aten.conv2d",
                   fx_node_info="", fx_original_trace=""),
             {"name": "", "filename": "", "line": 0}, {"name": "??", "filename": "??", "line": 0},
             {"name": "<unknown>", "filename": "a.py", "line": -1}, {"name": "no file"}, {}]
    other = [named("forward", 3), named("main", 99, anything=[1, 2.5, None])]

    def event(action, address, size, after, **more):
        return dict(entry(action, address, size, START + after, compile_context="N/A", user_metadata="", pool_id=(0, 0)), **more)
    trace = [
        event("segment_map", 2 * MIB, 20 * MIB, 1, frames=stack),
        event("alloc", 2 * MIB, 1000, 1, frames=stack, compile_context="[0/1]", forward_frames=["a.py:1:f", "b.py:2:g"]),
        event("annotate", 2 * MIB, 0, 2, user_metadata="weights of the \u00e9l\u00e8ve \"model\"\\\n", frames=other),
        event("alloc", 4 * MIB, 2**40, 3, stream=0x55d000000000, pool_id=(3, 0), segment_pool_id=(3, 0), frames=other),
        event("free_requested", 4 * MIB, 2**40, 2, stream=0x55d000000000),  # before the one before it
        event("free_completed", 4 * MIB, 2**40, 5, stream=-1, frames=[]),
        event("oom", 8 << 30, 2**35, 6, frames=other, category="unknown"),
        event("oom", 0, 2**35, 6, frames=None, time_us=None),
        event("snapshot", 0, 1024, 7),
        event("segment_unmap", 6 * MIB, 2 * MIB, 8, deep={"a": [{"b": (1, (2,), ())}, {}, []], "4": 4}, is_it=True, isnt=False),
        event("a new action", 5, 2**50, 9, stream="a text", nothing=None, share=0.1, whole=1.0, minus=-0.0),
    ]
    trace[7].pop("device_free")
    trace[8].pop("addr")
    trace[3].pop("compile_context")
    trace[10].pop("time_us")

    def block(address, size, requested, state, frames=()):
        return {"address": address, "size": size, "requested_size": requested, "state": state, "frames": list(frames)}
    segments = [
        {"device": 2, "address": 2 * MIB, "total_size": 2 * MIB, "stream": 0, "segment_type": "small", "segment_pool_id": (0, 1),
         "is_expandable": True, "frames": stack, "allocated_size": 1024, "active_size": 1024, "requested_size": 1000,
         "user_metadata": "a segment", "blocks": [
             dict(block(2 * MIB, 1024, 1000, "active_allocated", stack), user_metadata="weights"),
             dict(block(2 * MIB + 1024, 2 * MIB - 1024, 77, "inactive"), later=None)]},
        {"device": 0, "address": 2 * MIB, "total_size": 18 * MIB, "stream": 0x55d000000000, "segment_type": "large",
         "segment_pool_id": (3, 0), "is_expandable": False, "frames": [], "allocated_size": 0, "active_size": 7,
         "requested_size": 0, "blocks": [block(2 * MIB, 18 * MIB, 5, "active_awaiting_free", other)]},
    ]
    return {
        "segments": segments,
        "device_traces": [trace, [], [event("alloc", 2 * MIB, 1000, 4, frames=stack)], []],
        "allocator_settings": {
            "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "max_split_size": -1, "garbage_collection_threshold": 0.8,
            "expandable_segments": True, "pinned_num_register_threads": 1, "release_lock_on_cudamalloc": False,
            "far_below": -2**62, "empty": {}, "roundup_power2_divisions": {"1": 0, "2": 4, "nested": {"deep": [1.5, True]}}},
        "external_annotations": [{"stage": "START", "name": "Optimizer.step#AdamW.step", "device": 0, "time_us": START + 4},
                                 {"name": "", "stage": "END", "time_us": START + 5, "device": 0}],
        "host_segments": [{"address": 2**47, "size": 4096, "frames": stack}],
        "host_traces": [[{"action": "alloc", "addr": 2**47, "size": 4096, "frames": stack, "time_us": START}], []],
        "a key of tomorrow": {"what": "ever", "largest": 2**64 - 1, "smallest": -2**63, "hash": -2**100},
    }


def small(version):
    """The same program as the versions of PyTorch wrote it."""
    snapshot = torch_snapshot()
    if version == "2.1":  # no settings, no annotations
        return {key: snapshot[key] for key in ("segments", "device_traces")}
    for segment in snapshot["segments"]:
        del segment["frames"], segment["segment_pool_id"], segment["is_expandable"], segment["requested_size"]
        for block in segment["blocks"]:
            del block["address"], block["requested_size"]
            frames = block.pop("frames")
            if frames:
                block["history"] = [{"addr": 1, "real_size": 77, "frames": frames}, {"addr": 1, "real_size": 9, "frames": []},
                                    {"addr": 1, "real_size": 9}]
    for trace in snapshot["device_traces"]:
        for event in trace:
            del event["time_us"]
    return snapshot if version == "2.0" else snapshot["segments"]


def fixtures():
    yield "2.5", torch_snapshot()
    yield "2026", newest()
    yield "2.1", small("2.1")
    yield "2.0", small("2.0")
    yield "1.13", small("1.13")
    yield "ten streams", ten_streams()
    yield "no traces", {"segments": [], "device_traces": []}
    yield "nothing", {"segments": [], "device_traces": [[], []], "allocator_settings": {}, "external_annotations": []}


def identical(one, other, at="$"):
    """Where two objects differ, or None. 1, 1.0 and True are three things, and so are a list and a tuple."""
    if type(one) is not type(other):
        return "%s: %r is not %r" % (at, one, other)
    if isinstance(one, dict):
        if list(one) != list(other):
            return "%s: keys %s are not %s" % (at, list(one), list(other))
        pairs = [(one[key], other[key], "%s.%s" % (at, key)) for key in one]
    elif isinstance(one, (list, tuple)):
        if len(one) != len(other):
            return "%s: %d elements are not %d" % (at, len(one), len(other))
        pairs = [(a, b, "%s[%d]" % (at, i)) for i, (a, b) in enumerate(zip(one, other))]
    elif isinstance(one, float):
        return None if struct.pack("d", one) == struct.pack("d", other) else "%s: %r is not %r" % (at, one, other)
    else:
        return None if one == other else "%s: %r is not %r" % (at, one, other)
    return next(filter(None, (identical(*pair) for pair in pairs)), None)


class RoundTrip(cli.Case):
    def export(self, data, *arguments, status=DONE):
        path = self.path("work", "s.pickle")
        with open(path, "wb") as file:
            file.write(data)
        result = subprocess.run([self.tool, "export", *arguments, path], env=self.environment, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, timeout=60)
        self.errors = result.stderr.decode()
        self.assertEqual(result.returncode, status, self.errors)
        self.assertNotIn("Sanitizer", self.errors)
        return result.stdout

    def expect(self, found, wanted, name):
        self.assertIsNone(identical(found, wanted), name)

    def test_pickles_and_json_come_back(self):
        for name, wanted in fixtures():
            inputs = [("protocol %d" % protocol, pickle.dumps(wanted, protocol)) for protocol in PROTOCOLS]
            inputs += [("not shared", pickle.dumps(json_copy(wanted), 4)), ("JSON", json.dumps(wanted).encode()),
                       ("indented", json.dumps(wanted, indent=2, ensure_ascii=False).encode())]
            for way, data in inputs:
                with self.subTest(name=name, way=way):
                    again = self.export(data, "--to", "pytorch")
                    document = formats.load_pickle(again, most_bits=128)
                    self.expect(formats.plain(document), formats.plain(wanted), way)
                    if way.startswith("protocol"):
                        self.expect(document, wanted, way)
                    elif way != "not shared":
                        self.expect(without_other_tuples(document), without_other_tuples(wanted), way)
                    # What our own writer made, and JSON of it.
                    self.expect(formats.load_pickle(self.export(again, "--to", "pytorch"), most_bits=128), document, way)
                    text = self.export(again, "--to", "pytorch-json")
                    self.expect(json.loads(text), formats.plain(wanted), way)
                    if way == "JSON":
                        self.expect(json.loads(self.export(text, "--to", "pytorch-json")), formats.plain(wanted), way)

    def test_exports_of_gpupool_come_back(self):
        path = self.write("ours.json", test_export.story_snapshot())
        ours = subprocess.run([self.tool, "export", "--to", "pytorch", path], env=self.environment, stdout=subprocess.PIPE,
                              check=True).stdout
        document = formats.load_pickle(ours)
        formats.check_pytorch(document)
        again = self.export(ours, "--to", "pytorch")
        self.expect(formats.load_pickle(again), document, "pickle")
        formats.check_pytorch(formats.load_pickle(again))
        text = self.export(again, "--to", "pytorch-json")
        self.expect(json.loads(text), formats.plain(document), "json")
        self.expect(formats.load_pickle(self.export(text, "--to", "pytorch")), document, "pickle of json")

    def test_one_device(self):
        wanted = newest()
        document = formats.load_pickle(self.export(pickle.dumps(wanted), "--to", "pytorch", "--device", "2"), most_bits=128)
        wanted["segments"] = wanted["segments"][:1]
        wanted["device_traces"][0] = []
        self.expect(document, wanted, "device 2")

    def test_numbers_that_are_not_numbers(self):
        wanted = dict(torch_snapshot(), more=[math.inf, -math.inf, math.nan, 5e-324, 1e300, 2**1000, -2**2000, {1: 2, -3: "x"}])
        self.expect(formats.load_pickle(self.export(pickle.dumps(wanted), "--to", "pytorch"), most_bits=2040), wanted, "")
        text = json.loads(self.export(pickle.dumps(wanted), "--to", "pytorch-json"))
        wanted["more"][2] = None  # JSON has no word for it
        wanted["more"][-1] = {"1": 2, "-3": "x"}
        self.expect(text, formats.plain(wanted), "")

    def test_what_is_shared_stays_shared(self):
        """An export is not much larger than its input, and nothing that refers to one thing becomes many."""
        shared = {"name": "a text " * 50, "list": [{"deep": ["x" * 100]}] * 20}
        snapshot = torch_snapshot()
        snapshot["device_traces"][0] = [entry("alloc", 20 * MIB + i, 512, START + i, extra=shared, user_metadata="y" * 1000)
                                        for i in range(2000)]
        data = pickle.dumps(snapshot, 2)
        again = self.export(data, "--to", "pytorch")
        self.assertLess(len(again), 1.2 * len(data))
        self.expect(formats.load_pickle(again), snapshot, "")

    def test_json_of_what_is_shared_ends(self):
        value = []
        for _ in range(30):
            value = [value, value]
        data = pickle.dumps(dict(torch_snapshot(), more=value))
        self.assertLess(len(self.export(data, "--to", "pytorch")), 2 * len(data))
        self.export(data, "--to", "pytorch-json", status=INPUT)
        self.assertIn("as pytorch-json it would be more than", self.errors)

    def test_what_is_too_deep_is_refused(self):
        deep = circle = []
        circle.append(circle)
        for _ in range(40):
            deep = [deep]
        # Each is in the one before it, so that each is known when it is met.
        chain = {"0": [], **{str(i): None for i in range(1, 300)}}
        for i in range(1, 300):
            chain[str(i)] = [chain[str(i - 1)]]
        for value in (circle, deep, chain, {"a": chain["299"]}):
            snapshot = dict(torch_snapshot(), more=value)
            self.export(pickle.dumps(snapshot), "--to", "pytorch", status=INPUT)
            self.one_line(self.errors)
            self.assertIn("lists and dicts in each other, too many", self.errors)
        snapshot["more"] = {2.5: 1}
        self.export(pickle.dumps(snapshot), "--to", "pytorch", status=INPUT)
        self.assertIn("a dict with a name that is neither a text nor a number", self.errors)


def json_copy(value):
    """A copy in which nothing is shared, and tuples are lists."""
    return json.loads(json.dumps(value))


def without_other_tuples(snapshot):
    """JSON has no tuples; of those that PyTorch is known to write, an import of JSON makes tuples again."""
    snapshot = copy.deepcopy(snapshot)
    for trace in snapshot["device_traces"] if isinstance(snapshot, dict) else []:
        for event in trace:
            event.pop("deep", None)
    return snapshot


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    cli.GPUPOOL, cli.STUB = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])
