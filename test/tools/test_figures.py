#!/usr/bin/env python3
"""Random histories of PyTorch's on up to three devices: every figure of summary, recomputed from the file by pytorch_reader.

    test_figures.py GPUPOOL PRELOAD_STUB [TEST ...]
"""

import json
import os
import pickle
import random
import sys
import unittest

import cli
from cli import MIB
from pytorch_reader import NO_STACK, Reader
from test_expandable import START, SUPPLIES, Allocator
from test_import import entry, frame

CASES = 10 if os.environ.get("GP_QUICK") else 60
MAIN = frame("main", 99)
OWN, PYTORCH, CUBLAS = "the program's own", "PyTorch", "cuBLAS"
AUTOGRAD = "torch::autograd::Engine::thread_init"  # it has no line of the program's
LINEAR = "/usr/lib/python3/dist-packages/torch/nn/functional.py"
# frames, component, and what asked where memory ran out
STACKS = [
    ([frame("load", 12, "model.py"), MAIN], OWN, "load model.py:12"),
    ([frame("extend", 40, "cache.py"), frame("generate", 7), MAIN], OWN, "extend cache.py:40"),
    ([frame("extend", 44, "cache.py"), frame("generate", 8), MAIN], OWN, "extend cache.py:44"),
    ([frame("linear", 5, LINEAR), frame("step", 3, "layer.py"), MAIN], OWN, "step layer.py:3 (linear)"),
    ([frame("at::cuda::getNewWorkspace()", 0, "??"), frame("step", 4, "layer.py"), MAIN], CUBLAS, "step layer.py:4"),
    ([frame(AUTOGRAD + "(int)", 0, "??")], PYTORCH, None),
    ([], NO_STACK, None),
]
COMPONENTS = {str(frames): component for frames, component, _ in STACKS}
FUNCTIONS = {"load", "extend", "step", AUTOGRAD}  # those that own memory, of all functions in STACKS
STREAMS = (0, 0x5000)
# An expandable segment for each stream, of small and of large blocks
PLACES = {1 << 40 | i << 38: (stream, is_small) for i, (stream, is_small) in enumerate(
    (stream, is_small) for stream in STREAMS for is_small in (True, False))}


def component(frames):
    return COMPONENTS[str(frames)]


def owner(frames):
    for one in frames:
        name = one["name"].split("(")[0]
        if name in FUNCTIONS:
            return name, *((one["filename"], one["line"]) if one["line"] else (None, None))
    return None


class Part(Allocator):
    """What one device does in a program that has several; now: a clock of them all."""

    bases = list(PLACES)

    def __init__(self, seed, device, now, shares):
        super().__init__(seed, shares)
        self.device, self.now = device, now
        self.stacks = {}  # of blocks, by address

    def bases_for(self, size):
        return [base for base, (_, is_small) in PLACES.items() if is_small == (size <= MIB)]

    def stream_of(self, address):
        return PLACES.get(address >> 38 << 38, (0, None))[0]

    def event(self, action, address, size):
        self.now[0] += self.random.choice((1, 2, 1500))
        frames = None if action.startswith("free") or not self.stack else self.stack
        self.trace.append(entry(action, address, size, self.now[0], frames, stream=self.stream_of(address)))
        if action == "alloc":
            self.stacks[address] = self.stack

    def run_out(self):
        self.stack = self.random.choice(STACKS[:5])[0]
        self.event("oom", self.random.randrange(50 * MIB), self.random.choice((1, 30, 90)) * MIB - 512)
        self.trace[-1]["stream"] = self.random.choice(STREAMS)

    def step(self):
        self.stack = self.random.choice(STACKS)[0]
        self.random.choices((self.alloc, self.free, self.complete, self.empty_cache, self.map_in_vain, self.run_out),
                            (50, 37, 9, 3, 1, 1))[0]()

    def parts(self):
        made = self.snapshot()["segments"]
        for one in made:
            one.update(device=self.device, stream=self.stream_of(one["address"]))
            for block in one["blocks"]:
                block["frames"] = self.stacks[block["address"]] if block["state"].startswith("active") else []
        return made


def program(seed):
    """What PyTorch would have written, all of it or only the last events. What a block took that was there before them is
    known if it was alone in its segment."""
    chance, now = random.Random(seed), [START]
    is_whole = seed % 2 == 1
    parts = [Part(chance.random(), device, now, shares=is_whole) for device in range(chance.randrange(1, 4))]
    for _ in range(200):
        chance.choice(parts).step()
    traces = [part.trace for part in parts]
    if not is_whole:
        for i, trace in enumerate(traces):
            first = chance.randrange(1 + len(trace) // 2)
            while first and trace[first - 1]["action"] in SUPPLIES:
                first -= 1
            traces[i] = trace[first:]
    return {"segments": [one for part in parts for one in part.parts()], "device_traces": traces,
            "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "expandable_segments": True}}


class Figures(cli.Case):
    maxDiff = None

    def facts(self, path, *arguments):
        (facts,) = json.loads(self.run_tool("summary", "--json", path, *arguments).stdout)["snapshots"]
        return facts

    def expect_sizes(self, found, expected, size):
        """The largest sums, of which two may be equal."""
        largest = sorted((total for total, _ in expected.values()), reverse=True)
        self.assertEqual([size(one) for one in found], largest[:len(found)])

    def expect_device(self, device, reader):
        ordinal = device["device"]
        for name, figure in reader.stats(ordinal).items():
            if isinstance(figure, float):
                self.assertAlmostEqual(device["stats"].pop(name), figure, msg=name)
            else:
                self.assertEqual(device["stats"].pop(name), figure, name)
        self.assertEqual(device["stats"], {})
        self.assertEqual({name: device[name] for name in reader.ends(ordinal)}, reader.ends(ordinal))
        sizes = reader.sizes(ordinal)
        self.assertEqual(device["live_sizes"], len(sizes))
        self.assertEqual(len(device["biggest_live"]), min(10, len(sizes)))
        for one in device["biggest_live"]:
            self.assertEqual([one["bytes"], one["count"]], sizes[one["requested_size"]])
        self.expect_sizes(device["biggest_live"], sizes, lambda one: one["bytes"])
        for name, at in (("end", len(reader.events)), ("peak", reader.peak(ordinal))):
            self.assertEqual({one["name"]: one[name] for one in device["components"] if one[name]["count"]},
                             reader.components(ordinal, at), name)
            figures = reader.then(ordinal, at)
            self.assertEqual(device["beside"]["pool"][name], figures["reserved"] - figures["requested"], name)
        self.assertEqual((device["limit"], device["use"], device["beside"]["contexts"]), (None, None, None))

    def expect_owners(self, found, owners):
        """The first three; of equal ones any."""
        self.assertEqual([one["bytes"] for one in found], [size for size, *_ in owners[:3]])
        for one in found:
            (lines,) = [lines for size, function, lines in owners
                        if (size, *function) == (one["bytes"], one["function"], one["file"])]
            self.assertIn(one["line"], lines)

    def expect_ooms(self, facts, reader):
        ooms = reader.ooms()
        self.assertEqual(len(facts["ooms"]), len(ooms))
        for i, (found, expected) in enumerate(zip(facts["ooms"], ooms)):
            frames = reader.events[expected["event"]][2]["frames"]
            by = [name for one, _, name in STACKS if one == frames]
            self.assertEqual(found.pop("asked_from").split()[0], "generate" if "extend" in by[0] else "main")
            self.assertEqual([found.pop("asked_by")], by)
            self.assertEqual(found, {"oom": i + 1, "reported": False, **expected})
        if not ooms:
            self.assertIsNone(facts["described_oom"])
            return
        number = max([i for i, one in enumerate(ooms) if not one["allocated_later"]] or [len(ooms) - 1]) + 1
        expected, sizes = reader.described(number)
        found = facts["described_oom"]
        self.expect_sizes(found.pop("sizes"), sizes, lambda one: one["requested_size"] * one["count"])
        self.assertEqual(found, expected)

    def expect_moment(self, path, reader, moment):
        """moment events have happened."""
        facts = self.facts(path, "--at", str(moment - 1))
        self.assertEqual(facts["at"]["time_ns"], reader.time_ns(moment))
        self.expect_owners(facts["owners"], reader.owners(reader.devices, moment))
        for device in facts["devices"]:
            self.assertEqual(device["then"], reader.then(device["device"], moment))

    def expect_summary(self, path, snapshot):
        reader, facts = Reader(snapshot, component, owner), self.facts(path)
        ooms, oom = reader.ooms(), facts["described_oom"]
        oom = ooms[oom["oom"] - 1] if oom else None
        is_at_oom = bool(oom) and not oom["got_as_much"]
        self.expect_ooms(facts, reader)
        moment = oom["event"] + 1 if is_at_oom else None
        self.assertEqual(facts["at"]["what"], "oom" if is_at_oom else "exit")
        for device in facts["devices"]:
            has_then = is_at_oom and device["device"] == oom["device"] and moment < len(reader.events)
            self.assertEqual(device["then"], reader.then(device["device"], moment) if has_then else None)
            self.expect_device(device, reader)
        self.assertEqual([device["device"] for device in facts["devices"]], reader.devices)
        if is_at_oom:
            self.expect_owners(facts["owners"], reader.owners([oom["device"]], moment))
        else:
            self.expect_owners(facts["owners"], reader.owners(reader.devices, reader.peak(*reader.devices)))
        events, actions, last = facts["events"], reader.actions(), reader.time_ns(len(reader.events))
        self.assertEqual({name: one["count"] for name, one in events["actions"].items() if one["count"]}, actions)
        self.assertEqual([events[name] for name in ("count", "first_ns", "last_ns", "driver_calls", "driver_ns", "details")],
                         [len(reader.events), 0, last, 0, 0, []])
        self.assertEqual((facts["until_ns"], facts["dropped_events"], facts["double_free_count"]), (last, 0, 0))
        self.assertEqual(facts["process"]["start_time_us"], reader.start_us)
        streams = {event["stream"] for _, _, event in reader.events} | {one["stream"] for one in snapshot["segments"]}
        self.assertEqual({int(one["handle"], 16) for one in facts["streams"]}, streams)
        return reader

    def test_every_figure(self):
        for seed in range(CASES):
            with self.subTest(seed=seed):
                snapshot = program(seed)
                path = self.path("work", "s.pickle")
                with open(path, "wb") as file:
                    pickle.dump(snapshot, file, 2)
                reader = self.expect_summary(path, snapshot)
                for moment in random.Random(seed).sample(range(1, len(reader.events)), 2):
                    self.expect_moment(path, reader, moment)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    cli.GPUPOOL, cli.STUB = (os.path.abspath(path) for path in sys.argv[1:3])
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
