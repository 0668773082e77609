#!/usr/bin/env python3
"""Random histories of PyTorch's segments, expandable and ordinary: every figure of then, against an allocator that knows
the truth.

    test_expandable.py GPUPOOL PRELOAD_STUB [TEST ...]

The allocator keeps which chunks are mapped and which blocks are there, and notes the figures after each event. The tool has
only what PyTorch would have written: the events, or the last of them, and the segments of the end.
"""

import json
import os
import pickle
import random
import sys
import unittest

import cli
from cli import MIB
from test_import import entry, frame

START = 1700000000000000
CHUNK, CHUNKS = 2 * MIB, 40
BASES = [1 << 40, 1 << 41]  # two expandable segments: one for each stream, say
ALONE = 1 << 42  # where segments of their own are
SUPPLIES, RETURNS = ("segment_map", "segment_alloc"), ("segment_unmap", "segment_free")
LEAD_TO_BLOCK = ["alloc"], *[[action] for action in SUPPLIES]
CASES = 8 if os.environ.get("GP_QUICK") else 40


def rounded(size):
    return -(-size // 512) * 512


def runs(numbers):
    """[first, end) of each run of consecutive ones."""
    found = []
    for number in sorted(numbers):
        if found and found[-1][1] == number:
            found[-1][1] += 1
        else:
            found.append([number, number + 1])
    return found


class Allocator:
    """shares: ordinary segments have several blocks."""

    bases = BASES

    def __init__(self, seed, shares=True):
        self.random, self.shares = random.Random(seed), shares
        self.delays = True  # else what is freed is not in use any more
        self.mapped = {base: set() for base in self.bases}
        self.alone = {}  # address: size
        self.blocks = {}  # address: (asked, is pending)
        self.sizes = {}  # address: what a block takes
        self.trace = []
        self.stack = [frame("step", 3), frame("main", 9)]
        self.truth = [self.figures()]

    def ranges(self):
        """Every segment: address and size."""
        whole = [(base + first * CHUNK, (end - first) * CHUNK) for base in self.bases for first, end in runs(self.mapped[base])]
        return sorted(whole + list(self.alone.items()))

    def holes(self, address, size):
        inside = sorted((at, self.sizes[at]) for at in self.blocks if address <= at < address + size)
        for at, length in inside + [(address + size, 0)]:
            if at > address:
                yield address, at - address
            address = at + length

    def figures(self):
        ranges = self.ranges()
        held = [asked for asked, is_pending in self.blocks.values() if not is_pending]
        return {"requested": sum(held), "count": len(held),
                "allocated": sum(self.sizes[at] for at, (_, is_pending) in self.blocks.items() if not is_pending),
                "deferred": sum(self.sizes[at] for at, (_, is_pending) in self.blocks.items() if is_pending),
                "reserved": sum(size for _, size in ranges), "segment_count": len(ranges),
                "largest_hole": max((length for one in ranges for _, length in self.holes(*one)), default=0)}

    def event(self, action, address, size):
        self.trace.append(entry(action, address, size, START + len(self.trace), self.stack))
        self.truth.append(self.figures())

    def alloc(self):
        size = self.random.choice((1000, 300000, MIB, MIB + 512, 1300000, 3 * MIB, 5 * MIB + 512, 11 * MIB))
        if self.random.random() < 0.3:
            self.put_in_ordinary(size)
            return
        base = self.random.choice(self.bases_for(size))
        room = [at for at, length in self.holes(base, CHUNKS * CHUNK) if length >= rounded(size)]
        if room:
            self.put(base, self.random.choice(room), size)

    def bases_for(self, size):
        """Of PyTorch's, those of small and of large blocks are apart; for most figures that is one."""
        return self.bases

    def put_in_ordinary(self, size):
        """At the beginning of a free piece, of which a rest that is too small to be of use stays with the block."""
        is_small = size <= MIB
        pieces = [piece for one in self.alone.items() if (one[1] == CHUNK) == is_small
                  for piece in self.holes(*one) if piece[1] >= rounded(size) and (self.shares or piece == one)]
        if pieces and self.random.random() < 0.8:
            address, length = self.random.choice(pieces)
        else:
            address = ALONE + self.random.randrange(64) * 64 * MIB
            length = CHUNK if is_small else 20 * MIB if size < 10 * MIB and self.shares else -(-size // CHUNK) * CHUNK
            length += CHUNK if length == CHUNK and not is_small else 0
            if address in self.alone:
                return
            self.alone[address] = length
            self.event("segment_alloc", address, length)
        rest = length - rounded(size)
        self.hold(address, size, rounded(size) if rest >= (512 if is_small else MIB + 1) else length)

    def put(self, base, address, size):
        """A block in an expandable segment: maps what is not mapped there."""
        needed = set(range((address - base) // CHUNK, (address + rounded(size) - base - 1) // CHUNK + 1))
        for first, end in runs(needed - self.mapped[base]):
            self.mapped[base].update(range(first, end))
            self.event("segment_map", base + first * CHUNK, (end - first) * CHUNK)
        self.hold(address, size)

    def hold(self, address, size, takes=None):
        self.blocks[address] = size, False
        self.sizes[address] = takes or rounded(size)
        self.event("alloc", address, size)

    def map_in_vain(self):
        """A request for which not all could be mapped."""
        base = self.random.choice(self.bases)
        unmapped = sorted(set(range(CHUNKS)) - self.mapped[base])
        if unmapped:
            self.mapped[base].add(unmapped[0])
            self.event("segment_map", base + unmapped[0] * CHUNK, CHUNK)

    def free(self):
        held = [address for address, (_, is_pending) in self.blocks.items() if not is_pending]
        if held:
            address = self.random.choice(held)
            size, _ = self.blocks[address]
            self.blocks[address] = size, True
            self.event("free_requested", address, size)
            if self.random.random() < 0.7 or not self.delays:
                self.complete(address)

    def complete(self, address=None):
        pending = [at for at, (_, is_pending) in self.blocks.items() if is_pending]
        if pending:
            address = address or self.random.choice(pending)
            size, _ = self.blocks.pop(address)
            self.event("free_completed", address, size)

    def empty_cache(self):
        for address, size in list(self.alone.items()):
            if not any(address <= at < address + size for at in self.blocks):
                del self.alone[address]
                self.event("segment_free", address, size)
        for base in self.bases:
            idle = set(self.mapped[base])
            for address, (asked, _) in self.blocks.items():
                idle -= set(range((address - base) // CHUNK, (address + rounded(asked) - base - 1) // CHUNK + 1))
            for first, end in runs(idle):
                self.mapped[base] -= set(range(first, end))
                self.event("segment_unmap", base + first * CHUNK, (end - first) * CHUNK)

    def run(self, steps):
        for _ in range(steps):
            self.random.choices((self.alloc, self.free, self.complete, self.empty_cache, self.map_in_vain),
                                (50, 37, 9, 3, 1))[0]()
        return self

    def snapshot(self, dropped=0):
        segments = []
        for address, size in self.ranges():
            inside = [{"address": at, "size": self.sizes[at], "requested_size": asked, "frames": [],
                       "state": "active_pending_free" if is_pending else "active_allocated"}
                      for at, (asked, is_pending) in self.blocks.items() if address <= at < address + size]
            idle = [{"address": at, "size": length, "requested_size": 0, "state": "inactive", "frames": []}
                    for at, length in self.holes(address, size)]
            segments.append({"device": 0, "address": address, "total_size": size, "stream": 0, "segment_type": "large",
                             "is_expandable": address < ALONE, "frames": [],
                             "blocks": sorted(inside + idle, key=lambda block: block["address"])})
        return {"segments": segments, "device_traces": [self.trace[dropped:]],
                "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "expandable_segments": True}}


def gauge(values):
    """What the tool says of a figure that had these values, one after the other."""
    ups = sum(max(0, b - a) for a, b in zip(values, values[1:]))
    return cli.gauge(values[-1], max(values), values[0] + ups)


class Expandable(cli.Case):
    def facts(self, path, *arguments):
        (facts,) = json.loads(self.run_tool("summary", "--json", path, *arguments).stdout)["snapshots"]
        return facts["devices"][0]

    def write_snapshot(self, snapshot):
        path = self.path("work", "s.pickle")
        with open(path, "wb") as file:
            pickle.dump(snapshot, file, 2)
        return path

    def expect_statistics(self, stats, trace, truth):
        actions = [event["action"] for event in trace]
        for name, figure in (("requested_bytes", "requested"), ("allocated_bytes", "allocated"), ("allocation", "count"),
                             ("reserved_bytes", "reserved"), ("deferred_bytes", "deferred"), ("segment", "segment_count")):
            self.assertEqual(stats[name], gauge([at[figure] for at in truth]), name)
        active = [at["allocated"] + at["deferred"] for at in truth]
        self.assertEqual(stats["active_bytes"], gauge(active))
        # What comes from the driver for a block was never idle.
        self.assertEqual(stats["cached_bytes"], gauge([
            at["reserved"] - active[i] for i, at in enumerate(truth)
            if i == 0 or actions[i - 1] not in SUPPLIES or actions[i:i + 1] not in LEAD_TO_BLOCK]))
        supplied = sum(action in SUPPLIES for action in actions)
        misses = sum(one in SUPPLIES and next_one == "alloc" for one, next_one in zip(actions, actions[1:]))
        self.assertEqual((stats["cache_hits"], stats["cache_misses"]), (actions.count("alloc") - misses, misses))
        self.assertEqual((stats["driver_allocs"], stats["driver_frees"]),
                         (truth[0]["segment_count"] + supplied, sum(action in RETURNS for action in actions)))
        for name in ("num_damages", "num_alloc_retries", "fences", "host_waits"):
            self.assertIsNone(stats[name])

    def expect_moment(self, path, moment, truth):
        then = self.facts(path, "--at", str(moment))["then"]
        self.assertEqual({name: then[name] for name in truth}, truth)
        at, = json.loads(self.run_tool("timeline", "--json", path, "--at", str(moment)).stdout)["snapshots"][0]["devices"]
        self.assertEqual(at["at"], {"held": truth["allocated"], "reserved": truth["reserved"]})
        devices = json.loads(self.run_tool("frag", "--json", path, "--at", str(moment)).stdout)["snapshots"][0]["devices"]
        names = [("reserved", "reserved"), ("segment_count", "segment_count"), ("largest_idle", "largest_hole")]
        self.assertEqual([[device[name] for name, _ in names] for device in devices],
                         [[truth[name] for _, name in names]] if truth["reserved"] else [])

    def test_every_figure_is_the_truth(self):
        for seed in range(CASES):
            with self.subTest(seed=seed):
                is_whole = seed % 2 == 1  # else nothing may tell whether a free piece behind an old block is its rest
                program = Allocator(seed, shares=is_whole).run(150)
                dropped = 0 if is_whole else program.random.randrange(len(program.trace) - 20)
                while dropped and program.trace[dropped - 1]["action"] in SUPPLIES:
                    dropped -= 1  # else the block that this was for counts as a hit
                truth = program.truth[dropped:]
                path = self.write_snapshot(program.snapshot(dropped))
                device = self.facts(path)
                self.expect_statistics(device["stats"], program.trace[dropped:], truth)
                self.assertEqual(device["largest_idle"], truth[-1]["largest_hole"])
                for moment in program.random.sample(range(len(truth) - 2), 2):
                    self.expect_moment(path, moment, truth[moment + 1])

    def expect_same_without(self, skipped, program, gauges, note):
        snapshot = program.snapshot()
        path = self.write_snapshot(snapshot)
        whole, then = self.facts(path)["stats"], self.facts(path, "--at", "60")["then"]
        snapshot["device_traces"] = [[event for event in program.trace if event["action"] != skipped]]
        path = self.write_snapshot(snapshot)
        stats = self.facts(path)["stats"]
        self.assertEqual({name: stats[name] for name in gauges}, {name: whole[name] for name in gauges})
        self.assertIn(note, " ".join(self.run_tool("summary", path).stdout.split()))
        self.assertEqual(self.facts(path, "--at", "60")["then"], then)
        out = self.path("work", "out.pickle")
        self.run_tool("export", path, "--to", "pytorch", "-o", out, "--force")
        with open(out, "rb") as file:
            (trace,) = pickle.load(file)["device_traces"]
        self.assertEqual([(event["action"], event["addr"]) for event in trace],
                         [(event["action"], event["addr"]) for event in program.trace])

    def test_one_of_both_events_of_a_free_is_enough(self):
        """_record_memory_history(skip_actions=[...]) leaves events out. What is pending at the end stays so."""
        for seed in range(CASES // 4):
            program = Allocator(seed)
            program.delays = False
            program.run(120)
            for address in sorted(program.blocks)[:2]:
                size, _ = program.blocks[address]
                program.blocks[address] = size, True
                program.event("free_requested", address, size)
            gauges = ("requested_bytes", "allocated_bytes", "allocation", "active_bytes", "cached_bytes", "deferred_bytes")
            self.expect_same_without("free_completed", program, gauges, "The events lack free_completed: blocks count as idle")
            self.expect_same_without("free_requested", program, gauges, "The events lack free_requested: blocks count as allocated")

    def test_without_any_event_of_a_free_only_the_end_is_known(self):
        program = Allocator(3).run(120)
        for kept, is_known in ((lambda event: True, True), (lambda event: not event["action"].startswith("free"), False)):
            snapshot = program.snapshot()
            snapshot["device_traces"] = [[event for event in program.trace if kept(event)]]
            stats = self.facts(self.write_snapshot(snapshot))["stats"]
            self.assertEqual(stats["allocated_bytes"]["peak"] is not None, is_known)
            self.assertGreater(stats["allocated_bytes"]["current"], 0)

    def test_max_split_size(self):
        """A block of at least that size takes the whole free piece."""
        for most, taken in ((-1, 25 * MIB), (25 * MIB, 40 * MIB), (25 * MIB + 1, 25 * MIB)):
            program = Allocator(0)
            program.alone[ALONE] = 40 * MIB
            program.event("segment_alloc", ALONE, 40 * MIB)
            program.hold(ALONE, 25 * MIB)
            program.free()
            snapshot = program.snapshot()
            snapshot["allocator_settings"]["max_split_size"] = most
            self.assertEqual(self.facts(self.write_snapshot(snapshot))["stats"]["allocated_bytes"]["peak"], taken)

    def test_a_neighbour_tells_of_an_older_block(self):
        program = Allocator(0)
        program.alone[ALONE] = 20 * MIB
        program.hold(ALONE, 5 * MIB, 5 * MIB + 512)
        program.hold(ALONE + 5 * MIB + 512, 3 * MIB)
        del program.trace[:]
        for address, size in ((ALONE + 5 * MIB + 512, 3 * MIB), (ALONE, 5 * MIB)):
            for action in ("free_requested", "free_completed"):
                program.event(action, address, size)
        program.blocks.clear()
        stats = self.facts(self.write_snapshot(program.snapshot()))["stats"]
        self.assertEqual(stats["allocated_bytes"]["peak"], 8 * MIB + 512)

    def test_an_export_has_it_all(self):
        program = Allocator(4711).run(150)
        path, out = self.write_snapshot(program.snapshot()), self.path("work", "out.pickle")
        self.run_tool("export", path, "--to", "pytorch", "-o", out)
        self.assertEqual({**self.facts(path), "use": None}, {**self.facts(out), "use": None})

    def test_what_events_contradict_is_not_known(self):
        """The events of the middle are missing: no curve, no figure, and a sentence."""
        program = Allocator(0)
        stack = [frame("step", 3)]
        for action in ("segment_map", "segment_unmap", "segment_map"):
            program.mapped[BASES[0]] = {0} if action == "segment_map" else set()
            program.event(action, BASES[0], CHUNK)
        program.hold(BASES[0], MIB)
        for missing, is_known in ((None, True), (1, False), (2, False)):
            snapshot = program.snapshot()
            snapshot["device_traces"] = [[event for i, event in enumerate(program.trace) if i != missing]]
            path = self.write_snapshot(snapshot)
            stats = self.facts(path)["stats"]
            self.assertEqual(stats["reserved_bytes"]["current"], CHUNK)
            self.assertEqual(stats["reserved_bytes"]["peak"], CHUNK if is_known else None)
            self.assertEqual(stats["cache_misses"], 1 if is_known else None)
            self.assertEqual(self.facts(path, "--at", "0")["then"]["reserved"], CHUNK if is_known else None)
            text = self.run_tool("summary", path).stdout
            self.assertEqual("was reserved and cached before is not known" in " ".join(text.split()), not is_known)
            self.assertEqual("is unknown" in self.run_tool("timeline", path, "--at", "0").stdout, not is_known)
            self.assertEqual("its map then is not known" in self.run_tool("frag", path, "--at", "0").stdout, not is_known)
        snapshot = program.snapshot()
        snapshot["device_traces"][0].append(entry("alloc", BASES[1], MIB, START + 9, stack))  # outside of what is mapped
        snapshot["device_traces"][0].append(entry("free_completed", BASES[1], MIB, START + 9, stack))
        self.assertIsNone(self.facts(self.write_snapshot(snapshot))["stats"]["reserved_bytes"]["peak"])

    def test_only_the_end_is_known_without_a_history(self):
        for events in (0, 1):  # PyTorch keeps the last event even where it records none
            snapshot = Allocator(1).run(100).snapshot()
            whole = snapshot["device_traces"][0]
            snapshot["device_traces"] = [whole[:events]]
            path = self.write_snapshot(snapshot)
            stats = self.facts(path)["stats"]
            for name in cli.GAUGES:
                self.assertEqual([stats[name][part] for part in ("peak", "allocated", "freed")], [None] * 3, name)
            self.assertGreater(stats["reserved_bytes"]["current"], 0)
            self.assertEqual([stats[name] for name in cli.COUNTERS], [None] * len(cli.COUNTERS))
            self.assertIn("There are no events to draw", self.run_tool("timeline", path).stdout)
            text = " ".join(self.run_tool("summary", path).stdout.split())
            self.assertIn("The file has no history", text)
            self.assertNotIn("at its peak", text)
            # A device without events beside one that has some did nothing.
            snapshot["device_traces"] = [whole[:events], [dict(event) for event in whole[:9]]]
            stats = self.facts(self.write_snapshot(snapshot), "--device", "0")["stats"]
            self.assertIsNotNone(stats["allocation"]["peak"])

    def test_what_never_went_back_was_not_idle(self):
        program = Allocator(0)
        for i in range(100):
            program.put(BASES[0], BASES[0] + i * CHUNK, CHUNK)
        (facts,) = json.loads(self.run_tool("summary", "--json", self.write_snapshot(program.snapshot())).stdout)["snapshots"]
        (found,) = [one for one in facts["findings"] if one["code"] == "hit_rate"]
        self.assertEqual(found["severity"], "note")
        self.assertIn("because the program had not yet freed earlier allocations", found["message"])


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    cli.GPUPOOL, cli.STUB = (os.path.abspath(path) for path in sys.argv[1:3])
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
