#!/usr/bin/env python3
"""What summary advises for a snapshot of PyTorch's: its own settings, by those that it recorded, and nothing of gpupool's.

They cannot be tried here. Its allocator would have to run; doc/findings.md says so of each.

    test_pytorch_remedies.py GPUPOOL PRELOAD_STUB [TEST ...]
"""

import json
import os
import pickle
import sys
import unittest

import cli
from cli import MIB
from test_import import entry, frame

START = 1700000000000000


def in_pieces(requested=30 * MIB, conf="", expandable=False, recorded=True):
    """Two segments of 40 MiB, each with 20 MiB idle in its middle or at its end, when `requested` are asked for."""
    stack = [frame("forward", 3), frame("main", 99)]
    trace, segments = [], []
    for i in range(2):
        base = (i + 1) * 1024 * MIB
        trace += [entry("segment_alloc", base, 40 * MIB, START + i, stack), entry("alloc", base, 20 * MIB, START + i, stack)]
        blocks = [{"address": base, "size": 20 * MIB, "requested_size": 20 * MIB, "state": "active_allocated",
                   "frames": stack},
                  {"address": base + 20 * MIB, "size": 20 * MIB, "requested_size": 0, "state": "inactive", "frames": []}]
        segments.append({"device": 0, "address": base, "total_size": 40 * MIB, "stream": 0, "segment_type": "large",
                         "allocated_size": 20 * MIB, "active_size": 20 * MIB, "requested_size": 20 * MIB, "blocks": blocks})
    trace.append(entry("oom", 12345, requested, START + 10, stack))
    top = {"segments": segments, "device_traces": [trace]}
    if recorded:
        top["allocator_settings"] = {"PYTORCH_CUDA_ALLOC_CONF": conf, "expandable_segments": expandable, "max_split_size": -1}
    return pickle.dumps(top)


class Pytorch(cli.Case):
    def facts(self, data):
        path = self.path("work", "s.pickle")
        with open(path, "wb") as file:
            file.write(data)
        return json.loads(self.run_tool("summary", "--json", path).stdout)["snapshots"][0]

    def oom(self, **how):
        facts = self.facts(in_pieces(**how))
        self.assertNotIn("GPUPOOL_", json.dumps(facts["findings"]))
        (found,) = [one for one in facts["findings"] if one["code"] == "oom"]
        return found

    def conf(self, **how):
        remedy = self.oom(**how)["remedy"]
        if remedy is None:
            return None
        self.assertEqual((list(remedy["settings"]), remedy["action"]), (["PYTORCH_CUDA_ALLOC_CONF"], None))
        return remedy["settings"]["PYTORCH_CUDA_ALLOC_CONF"]

    def test_pieces_are_joined(self):
        self.assertEqual(self.conf(), "expandable_segments:True")
        for conf in ("max_split_size_mb:128", "roundup_power2_divisions:[256:1,512:2,>:8],max_split_size_mb:128"):
            self.assertEqual(self.conf(conf=conf), conf + ",expandable_segments:True")
            self.assertEqual(self.conf(conf="expandable_segments:False," + conf), conf + ",expandable_segments:True")
        found = self.oom(conf="max_split_size_mb:128")
        self.assertIn("PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128,expandable_segments:True", found["advice"])
        self.assertIn("gpupool frag", found["advice"])

    def test_not_what_is_in_use_or_does_not_follow(self):
        self.assertIsNone(self.conf(conf="expandable_segments:True", expandable=True))
        self.assertIsNone(self.conf(recorded=False))
        self.assertIsNone(self.conf(requested=50 * MIB))  # more than all that is idle
        self.assertIsNone(self.conf(requested=10 * MIB))  # less than a piece

    def rounding(self, conf):
        blocks = [{"device": 0, "address": (i + 1) << 32, "total_size": 256 * MIB, "stream": 0, "segment_type": "large",
                   "allocated_size": 256 * MIB, "active_size": 256 * MIB, "requested_size": 130 * MIB, "blocks": [
                       {"address": (i + 1) << 32, "size": 256 * MIB, "requested_size": 130 * MIB, "state": "active_allocated"}]}
                  for i in range(2)]
        top = {"segments": blocks, "device_traces": [[]], "allocator_settings": {
            "PYTORCH_CUDA_ALLOC_CONF": conf, "expandable_segments": False}}
        (found,) = [one for one in self.facts(pickle.dumps(top))["findings"] if one["code"] == "rounding"]
        self.assertIn("512 MiB at the peak for 260 MiB", found["message"])
        return found["remedy"] and found["remedy"]["settings"]["PYTORCH_CUDA_ALLOC_CONF"]

    def test_less_rounding(self):
        self.assertEqual(self.rounding("roundup_power2_divisions:[256:1,>:1],max_split_size_mb:64"), "max_split_size_mb:64")
        self.assertEqual(self.rounding("max_split_size_mb:64,roundup_power2_divisions:1"), "max_split_size_mb:64")
        self.assertEqual(self.rounding("roundup_power2_divisions:1"), "")
        self.assertIsNone(self.rounding("max_split_size_mb:64"))

    def test_nothing_of_gpupools(self):
        """Whatever else there is to say of such a file."""
        program = [entry("segment_alloc", 4096 * MIB, 4096 * MIB, START, [])]
        program += [entry(action, 4096 * MIB + i * MIB, MIB, START + i, [])
                    for i in range(300) for action in ("alloc", "free_requested", "free_completed")]
        top = {"segments": [{"device": 0, "address": 4096 * MIB, "total_size": 4096 * MIB, "stream": 0, "segment_type": "large",
                             "allocated_size": 0, "active_size": 0, "requested_size": 0, "blocks": [
                                 {"address": 4096 * MIB, "size": 4096 * MIB, "requested_size": 0, "state": "inactive"}]}],
               "device_traces": [program]}
        findings = self.facts(pickle.dumps(top))["findings"]
        self.assertIn("cached", [one["code"] for one in findings])
        self.assertNotIn("GPUPOOL_", json.dumps(findings))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    cli.GPUPOOL, cli.STUB = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])
