#!/usr/bin/env python3
"""What `gpupool export` makes of snapshots of PyTorch: the viewer can open it, and a second export is the same.

    test_roundtrip.py GPUPOOL PRELOAD_STUB [TEST ...]

Each fixture is written by Python's pickle in every protocol and as JSON; each of these is exported as a pickle and as JSON, and
that is exported again.
"""

import json
import os
import pickle
import subprocess
import sys
import unittest

import cli
import export_formats as formats
import test_export
import test_import
from cli import MIB
from test_import import entry, ten_streams, torch_snapshot

PROTOCOLS = (2, 4, 5)
START = 1700000000000000


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
    yield "2.1", small("2.1")
    yield "2.0", small("2.0")
    yield "1.13", small("1.13")
    yield "ten streams", ten_streams()
    yield "no traces", {"segments": [], "device_traces": []}
    yield "nothing", {"segments": [], "device_traces": [[], []], "allocator_settings": {}, "external_annotations": []}


class RoundTrip(cli.Case):
    def export(self, data, to):
        path = self.path("work", "s.pickle")
        with open(path, "wb") as file:
            file.write(data)
        result = subprocess.run([self.tool, "export", "--to", to, path], env=self.environment, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, timeout=60)
        errors = result.stderr.decode()
        self.assertEqual(result.returncode, 0, errors)
        self.assertNotIn("Sanitizer", errors)
        return result.stdout

    def check_again(self, data):
        """The export of the data, which is the same when it is exported again, in either form."""
        ours = self.export(data, "pytorch")
        document = formats.load_pickle(ours)
        formats.check_pytorch(document)
        text = self.export(ours, "pytorch-json")
        self.assertEqual(json.loads(text), formats.plain(document))
        self.assertEqual(formats.load_pickle(self.export(ours, "pytorch")), document)
        self.assertEqual(formats.load_pickle(self.export(text, "pytorch")), document)
        return document

    def test_pickles_and_json_become_one(self):
        for name, wanted in fixtures():
            inputs = [("protocol %d" % protocol, pickle.dumps(wanted, protocol)) for protocol in PROTOCOLS]
            inputs += [("JSON", json.dumps(wanted).encode())]
            documents = []
            for way, data in inputs:
                with self.subTest(name=name, way=way):
                    documents.append(self.check_again(data))
                    self.assertEqual(documents[-1], documents[0])
            segments = wanted if isinstance(wanted, list) else wanted["segments"]
            blocks = [(block["size"], block["state"]) for document in (segments, documents[0]["segments"])
                      for segment in sorted(document, key=lambda s: (s["device"], s["address"])) for block in segment["blocks"]]
            self.assertEqual(blocks[:len(blocks) // 2], blocks[len(blocks) // 2:], name)

    def test_what_a_report_does_not_need_is_left_out(self):
        """Members and actions that gpupool does not know, numbers of any size, lists in themselves."""
        plain, more = torch_snapshot(), torch_snapshot()
        circle = []
        circle.append(circle)
        for what in (more, more["segments"][0], more["segments"][1]["blocks"][0], more["device_traces"][0][0],
                     more["segments"][1]["frames"][0]):
            what["a key of tomorrow"] = {"largest": 2**64 - 1, "hash": -2**2000, "none": None, 1: (2.5, circle)}
        more["device_traces"][0].append(entry("a new action", 5, 2**50, 1700000000000099))
        self.assertEqual(self.check_again(pickle.dumps(more)), self.check_again(pickle.dumps(plain)))

    def test_exports_of_gpupool_come_back(self):
        path = self.write("ours.json", test_export.story_snapshot())
        ours = subprocess.run([self.tool, "export", "--to", "pytorch", path], env=self.environment, stdout=subprocess.PIPE,
                              check=True).stdout
        found = self.check_again(ours)
        wanted = formats.load_pickle(ours)
        self.assertEqual(found["segments"], wanted["segments"])
        self.assertEqual(found["allocator_settings"], wanted["allocator_settings"])


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    cli.GPUPOOL, cli.STUB = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])
