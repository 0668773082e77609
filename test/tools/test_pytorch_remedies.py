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
from unittest import mock

import cli
from cli import MIB
from test_import import entry, frame

START = 1700000000000000


def in_pieces(requested=30 * MIB, conf="", expandable=False, recorded=True, kinds=({}, {}), of_request=None,
              file="train.py"):
    """Two segments of 40 MiB, each with 20 MiB idle in its middle or at its end, when `requested` are asked for.

    kinds: what else each segment has, its stream or pool, say; of_request: what else the request has."""
    stack = [frame("forward", 3, file), frame("main", 99, file)]
    trace, segments = [], []
    for i in range(2):
        base = (i + 1) * 1024 * MIB
        trace += [entry("segment_alloc", base, 40 * MIB, START + i, stack), entry("alloc", base, 20 * MIB, START + i, stack)]
        blocks = [{"address": base, "size": 20 * MIB, "requested_size": 20 * MIB, "state": "active_allocated",
                   "frames": stack},
                  {"address": base + 20 * MIB, "size": 20 * MIB, "requested_size": 0, "state": "inactive", "frames": []}]
        trace[-2].update({name: value for name, value in kinds[i].items() if name == "stream"})
        segments.append({"device": 0, "address": base, "total_size": 40 * MIB, "stream": 0, "segment_type": "large",
                         "allocated_size": 20 * MIB, "active_size": 20 * MIB, "requested_size": 20 * MIB, "blocks": blocks,
                         **kinds[i]})
    trace.append(entry("oom", 12345, requested, START + 10, stack, **of_request or {}))
    top = {"segments": segments, "device_traces": [trace]}
    if recorded:
        top["allocator_settings"] = {"PYTORCH_CUDA_ALLOC_CONF": conf, "expandable_segments": expandable, "max_split_size": -1}
    return pickle.dumps(top)


OF_REQUEST = [frame("forward", 7), frame("main", 99)]
OF_EMPTY_CACHE = [frame("empty_cache", 162, "/site-packages/torch/cuda/memory.py"), frame("step", 31), frame("main", 99)]


class Returning:
    """60 MiB that stay; then caches of some pieces that go back before the next request."""

    def __init__(self, with_times=True):
        self.trace, self.at, self.with_times = [], 1 << 40, with_times
        self.kept = self.supply(60, [frame("load", 1)])

    def event(self, action, address, mib, stack):
        made = entry(action, address, mib * MIB, START + 1000 * len(self.trace), stack)
        if not self.with_times:
            del made["time_us"]
        self.trace.append(made)

    def supply(self, mib, stack):
        self.at += 1 << 32
        self.event("segment_alloc", self.at, mib, stack)
        self.event("alloc", self.at, mib, stack)
        return self.at

    def cache(self, *pieces):
        """The program has these and frees them."""
        made = [(self.supply(mib, [frame("warm", 5)]), mib) for mib in pieces]
        for address, mib in made:
            self.event("free_requested", address, mib, None)
            self.event("free_completed", address, mib, None)
        return made

    def go_back(self, pieces, stack):
        for address, mib in pieces:
            self.event("segment_free", address, mib, stack)

    def snapshot(self, **settings):
        blocks = [{"address": self.kept, "size": 60 * MIB, "requested_size": 60 * MIB, "state": "active_allocated"}]
        segments = [{"device": 0, "address": self.kept, "total_size": 60 * MIB, "stream": 0, "blocks": blocks}]
        return pickle.dumps({"segments": segments, "device_traces": [self.trace], "allocator_settings": {
            "PYTORCH_CUDA_ALLOC_CONF": "", "expandable_segments": False, **settings}})


def retried(times, stack=OF_REQUEST, then=40, pieces=(20, 20), **how):
    """The pieces go back for a request of another size, which the program frees again."""
    program = Returning(**how)
    for _ in range(times):
        cached = program.cache(*pieces)
        program.go_back(cached, stack)
        address = program.supply(then, stack and OF_REQUEST)
        for action in ("free_requested", "free_completed", "segment_free"):
            program.event(action, address, then, None)
    return program


class Pytorch(cli.Case):
    def found(self, data, code):
        return next((one for one in self.facts(data)["findings"] if one["code"] == code), None)

    def test_retries(self):
        """One call gives back and asks again: one stack. The last segment of each goes back by itself."""
        for expandable in (False, True):
            found = self.found(retried(3).snapshot(expandable_segments=expandable), "retries")
            self.assertEqual((found["severity"], found["device"]), ("warning", 0))
            self.assertIn("for 3 requests the driver had too little, so PyTorch released cached memory, 120 MiB in all",
                          found["message"])
            self.assertIn("That took at least 6.00 ms. The first was at 10.0 ms, for forward train.py:7.", found["message"])
            settings = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
            self.assertEqual(found["remedy"], None if expandable else {"settings": settings, "action": None, "owner": None})
            self.assertEqual("gpupool sites --at 10 " in found["advice"], expandable)
        found = self.found(retried(1, with_times=False).snapshot(garbage_collection_threshold=0.8), "retries")
        self.assertIn("for 1 request the driver had too little (or garbage_collection_threshold=0.8 was exceeded)", found["message"])
        self.assertIn("and retried. The first was at event 10,", found["message"])

    def test_retries_without_stacks_of_them(self):
        """Until PyTorch 2.1 what went back had the stack of whoever got it."""
        for stack in ([frame("warm", 5)], None):
            self.assertIn("for 2 requests", self.found(retried(2, stack).snapshot(), "retries")["message"])
            # A piece that is large enough would have served the request, and one that fits on top needs no room.
            self.assertIsNone(self.found(retried(2, stack, pieces=(20, 40)).snapshot(), "retries"))
            program = Returning()
            program.go_back(program.cache(90, 90), [frame("warm", 5)])
            program.go_back(program.cache(20, 20), stack)
            program.supply(40, stack and OF_REQUEST)
            self.assertIsNone(self.found(program.snapshot(), "retries"))
        program.go_back(program.cache(20, 20), OF_REQUEST)
        program.supply(40, OF_REQUEST)  # others may have the rest: it is one call
        self.assertIn("for 1 request", self.found(program.snapshot(), "retries")["message"])

    def test_retries_in_vain(self):
        """The finding about memory that ran out says it."""
        program = retried(1)
        program.go_back(program.cache(20, 20), OF_REQUEST)
        program.trace.append(entry("oom", 5, 400 * MIB, START + 1000 * len(program.trace), OF_REQUEST))
        self.assertIn("for 2 requests", self.found(program.snapshot(), "retries")["message"])
        self.assertIn("retried, for 1 without success.", self.found(program.snapshot(), "retries")["message"])
        program = Returning()
        program.go_back(program.cache(20, 20), None)
        program.trace.append(entry("oom", 5, 400 * MIB, START + 1000 * len(program.trace), OF_REQUEST))
        self.assertEqual([self.found(program.snapshot(), code) is None for code in ("oom", "retries", "emptied")],
                         [False, True, True])

    def emptied(self, times, stack, then):
        program = Returning()
        program.cache(100)
        for _ in range(times):
            program.go_back(program.cache(20, 20), stack)
        program.cache(then)
        return self.found(program.snapshot(), "emptied")

    def test_empty_cache(self):
        for times, severity in ((2, "note"), (3, "warning")):
            found = self.emptied(times, OF_EMPTY_CACHE, 40)
            self.assertEqual((found["severity"], found["remedy"]), (severity, None))
            self.assertIn("In %d calls of empty_cache, in step train.py:31, %d MiB of device 0 went back to the driver. "
                          "That took at least %d.00 ms. Then %d MiB of it were requested again, in %d driver allocations."
                          % (times, 40 * times, times, 40 * times, 2 * times - 1), found["message"])
            self.assertIn("without these calls the cache serves", found["advice"])
        program = Returning()
        for mib, line in ((50, 31), (60, 32)):
            program.go_back(program.cache(mib), [OF_EMPTY_CACHE[0], frame("step", line), frame("main", 99)])
        program.cache(60)
        self.assertIn("In 2 calls of empty_cache, in step train.py:32 and elsewhere, 110 MiB",
                      self.found(program.snapshot(), "emptied")["message"])
        found = self.emptied(2, None, 40)
        self.assertIn("PyTorch released memory 2 times: 80 MiB of device 0 went back", found["message"])
        self.assertIn("The file does not say why", found["message"])
        self.assertIn("Then 40 MiB of it", self.emptied(1, OF_EMPTY_CACHE, 50)["message"])
        self.assertIsNone(self.emptied(1, OF_EMPTY_CACHE, 19))  # less than half
        self.assertIsNone(self.emptied(1, OF_EMPTY_CACHE, 31))  # little

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

    def test_only_where_the_request_is_served(self):
        """Not from other streams, private pools and blocks of the small pool."""
        expandable = "expandable_segments:True"
        for kind, of_request in (({"stream": 7}, {"stream": 7}), ({"segment_pool_id": (0, 3)}, {"pool_id": (0, 3)})):
            self.assertEqual(self.conf(kinds=(kind, kind), of_request=of_request), expandable)
            for kinds, how in (((kind, {}), {}), ((kind, kind), {}), ((kind, {}), {"of_request": of_request})):
                found = self.oom(kinds=kinds, **how)
                self.assertIsNone(found["remedy"])
                idle = "0 B" if kinds == (kind, kind) else "20 MiB"
                self.assertIn("40 MiB were cached, %s of that where PyTorch looks for such a request" % idle, found["message"])
                self.assertEqual("the largest idle block" in found["message"], idle != "0 B")

    def test_small_blocks_and_large_ones_are_apart(self):
        def oom(requested, block, size):
            top = pickle.loads(in_pieces(requested))
            for i, segment in enumerate(top["segments"]):
                base = segment["address"]
                segment.update(total_size=size, blocks=[
                    {"address": base, "size": block, "requested_size": block, "state": "active_allocated", "frames": []},
                    {"address": base + block, "size": size - block, "requested_size": 0, "state": "inactive", "frames": []}])
                top["device_traces"][0][2 * i]["size"], top["device_traces"][0][2 * i + 1]["size"] = size, block
            (found,) = [one for one in self.facts(pickle.dumps(top))["findings"] if one["code"] == "oom"]
            return found["remedy"]
        for requested, block, is_served in ((MIB, MIB, True), (MIB + 512, MIB, False), (MIB, MIB + 512, False)):
            self.assertEqual(oom(requested, block, block + MIB - 512) is not None, is_served)

    def test_the_pool_of_a_segment_that_is_gone(self):
        """Events tell it since 2026."""
        for pool_id in ((0, 0), (0, 3), None):
            top = pickle.loads(in_pieces())
            first, last = top["segments"][0], len(top["device_traces"][0])
            for event in top["device_traces"][0] if pool_id else ():
                event["pool_id"] = pool_id if event.get("addr") == first["address"] else (0, 0)
            for action, size in (("free_requested", 20), ("free_completed", 20), ("segment_free", 40)):
                top["device_traces"][0].append(entry(action, first["address"], size * MIB, START + 20 + last, []))
            del top["segments"][0]
            (found,) = [one for one in self.facts(pickle.dumps(top))["findings"] if one["code"] == "oom"]
            self.assertEqual(found["remedy"] is None, pool_id == (0, 3))

    def test_one_setting_is_advised_once(self):
        """By what is worst: a request for which memory was given back before, and one that failed in the end."""
        settings = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
        program = retried(1)
        cached = program.cache(30, 30)
        program.trace.append(entry("oom", 5, 40 * MIB, START + 1000 * len(program.trace), OF_REQUEST))
        program.go_back(cached, OF_EMPTY_CACHE)
        findings = {one["code"]: one for one in self.facts(program.snapshot())["findings"]}
        self.assertEqual(findings["oom"]["remedy"], {"settings": settings, "action": None, "owner": None})
        self.assertEqual((findings["retries"]["remedy"], findings["retries"]["advice"]), (None, None))
        self.assertEqual(self.found(retried(1).snapshot(), "retries")["remedy"]["settings"], settings)

    def test_not_on_windows(self):
        """PyTorch has no expandable segments there."""
        found = self.oom(file="C:\\Users\\me\\train.py")
        self.assertEqual((found["remedy"], found["advice"]), (None, "the idle memory was fragmented: gpupool frag --at oom=1 maps it."))
        self.assertEqual(self.conf(file="/home/C:/train.py"), "expandable_segments:True")
        with mock.patch.dict(OF_REQUEST[0], filename="d:\\train.py"):
            found = self.found(retried(1).snapshot(), "retries")
        self.assertIsNone(found["remedy"])
        self.assertIn("using less memory", found["advice"])

    def rounding(self, conf):
        blocks = [{"device": 0, "address": (i + 1) << 32, "total_size": 256 * MIB, "stream": 0, "segment_type": "large",
                   "allocated_size": 256 * MIB, "active_size": 256 * MIB, "requested_size": 130 * MIB, "blocks": [
                       {"address": (i + 1) << 32, "size": 256 * MIB, "requested_size": 130 * MIB, "state": "active_allocated"}]}
                  for i in range(2)]
        top = {"segments": blocks, "device_traces": [[]], "allocator_settings": {
            "PYTORCH_CUDA_ALLOC_CONF": conf, "expandable_segments": False}}
        (found,) = [one for one in self.facts(pickle.dumps(top))["findings"] if one["code"] == "rounding"]
        self.assertIn("512 MiB when the file was written for 260 MiB", found["message"])
        return found["remedy"] and found["remedy"]["settings"]["PYTORCH_CUDA_ALLOC_CONF"]

    def test_less_rounding(self):
        self.assertEqual(self.rounding("roundup_power2_divisions:[256:1,>:1],max_split_size_mb:64"), "max_split_size_mb:64")
        self.assertEqual(self.rounding("max_split_size_mb:64,roundup_power2_divisions:1"), "max_split_size_mb:64")
        self.assertEqual(self.rounding("roundup_power2_divisions:1"), "")
        self.assertIsNone(self.rounding("max_split_size_mb:64"))

    def reserve(self, used, **settings):
        """Ten segments of 100 MiB, each with a block of that many MiB."""
        trace, segments = [], []
        for i in range(10):
            base = (i + 1) << 32
            trace.append(entry("segment_alloc", base, 100 * MIB, START + 10 * i, []))
            trace.append(entry("alloc", base, used * MIB, START + 10 * i + 1, []))
            blocks = [{"address": base, "size": used * MIB, "requested_size": used * MIB, "state": "active_allocated"},
                      {"address": base + used * MIB, "size": (100 - used) * MIB, "requested_size": 0, "state": "inactive"}]
            segments.append({"device": 0, "address": base, "total_size": 100 * MIB, "stream": 0, "segment_type": "large",
                             "allocated_size": used * MIB, "active_size": used * MIB, "requested_size": used * MIB, "blocks": blocks})
        return self.found(pickle.dumps({"segments": segments, "device_traces": [trace], "allocator_settings": {
            "PYTORCH_CUDA_ALLOC_CONF": "", "expandable_segments": False, **settings}}), "cached")

    def test_a_reserve_that_is_not_needed(self):
        """Of 1,000 MiB 200 are in use. Without parts that nobody uses the same requests take as much."""
        found = self.reserve(20)
        self.assertEqual(found["remedy"]["settings"], {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"})
        self.assertIn("the same requests need 200 MiB.", found["advice"])
        self.assertIsNone(self.reserve(20, expandable_segments=True)["remedy"])
        self.assertIsNone(self.reserve(80))

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
