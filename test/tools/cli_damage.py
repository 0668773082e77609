#!/usr/bin/env python3
"""What the reports say of damage that heap checks found. Programs whose damage they find are in test_check.py.

    cli_damage.py GPUPOOL PRELOAD_STUB [TEST ...]
"""

import json
import os
import re
import sys
import unittest

import cli
from cli import MIB, USAGE
from cli_phases import Phased
from report_case import FRAMES, Reports, ordinary


class Damaged(Phased):
    """A program that writes where it must not: the heap checks find it when a block was freed."""

    def __init__(self):
        super().__init__()
        self.checks = {}

    def damage(self, block, kind="edge", offset=None, size=12, free=True):
        if free:
            self.free(block, complete=False)
            self.rows[-1]["stack"] = 2
        row = self.live[block]
        self.event("damage", kind, block=block, address=row["address"] + (row["size"] if offset is None else offset),
                   size=size, stack=row["stack"], device=row["device"], thread=row["thread"])
        self.checks[row["device"]] = self.checks.get(row["device"], 0) + 1
        if free:
            self.complete(block)

    def snapshot(self, keep=None, **changes):
        snapshot = super().snapshot(keep, **changes)
        snapshot["settings"].update(check="edges,stale", stacks="native", stacks_free="1")
        for device in snapshot["devices"]:
            device["stats"]["num_damages"] = self.checks.get(device["device"], 0)
        return snapshot


class Damage(Reports):
    command = "summary"

    def found(self, program, *options, code="damage"):
        return [finding for finding in self.facts(program, *options)["findings"] if finding["code"] == code]

    def one(self, program, *options):
        (found,) = self.found(program, *options)
        return found["message"]

    def test_past_the_end(self):
        program = Damaged()
        program.damage(program.alloc(3420, 3584, stack=0))
        first = self.facts(program)["findings"][0]
        self.assertEqual((first["code"], first["severity"], first["device"], first["remedy"]), ("damage", "error", 0, None))
        self.assertEqual(first["message"], "Heap check on device 0: 12 bytes written past the end of 1 block of "
                         "Model::load(std::string const&) model.cu:12: 3,420 bytes requested, damaged from offset 3,420 on; "
                         "freed at 3.00 us by Cache::grow() cache.cu:33; found at 4.00 us.")
        self.assertIn("run --check edges,abort -- PROGRAM", first["advice"])
        text = self.report(program).stdout
        self.assertIn("  ! Heap check on device 0: 12 bytes written past the end of 1 block of", text)
        self.assertNotIn("No problem", text)
        text = self.report(program.snapshot(reason="damage")).stdout
        self.assertIn("snapshot   written when a heap check found damage", text)

    def test_after_the_free(self):
        program = Damaged()
        program.damage(program.alloc(3420, 3584, stack=1), "stale", 8, 1)
        self.assertIn("1 byte written after the free of 1 block of Cache::grow() cache.cu:33: 3,420 bytes requested, damaged "
                      "from offset 8 on; freed at 3.00 us by", self.one(program))
        self.assertIn("--check stale=full,abort", self.found(program)[0]["advice"])

    def test_a_block_that_was_not_freed(self):
        program = Damaged()
        program.damage(program.alloc(3420, 3584, stack=0), free=False)
        self.assertIn("damaged from offset 3,420 on; found at 3.00 us.", self.one(program))

    def test_the_stack_of_a_free_is_not_taken_from_the_allocation(self):
        program = Damaged()
        program.damage(program.alloc(3420, 3584, stack=0))
        snapshot = program.snapshot()
        snapshot["settings"]["stacks_free"] = "0"
        self.assertIn("on; freed at 3.00 us; found", self.one(snapshot))

    def test_owners_with_the_most_damage_come_first(self):
        program = Damaged()
        for count, size, stack in ((1, 5, 0), (3, 12, 1), (1, 50, 3)):
            for _ in range(count):
                program.damage(program.alloc(4096, stack=stack), size=size)
        program.damage(program.alloc(4096, stack=0), "stale", 0, 4)
        program.damage(program.alloc(4096, stack=1), "stale", 0, 3)
        found = self.found(program)
        self.assertEqual([re.search("(Heap.*(end|free|damage)) of|other blocks", one["message"])[0][:60] for one in found], [
            "Heap check on device 0: 50 bytes written past the end of",
            "Heap check on device 0: 36 bytes written past the end of",
            "Heap check on device 0: 5 bytes written past the end of",
            "other blocks"])
        self.assertIn("end of 3 blocks of Cache::grow() cache.cu:33; the first: 4,096 bytes requested", found[1]["message"])
        self.assertIn("damage in 2 other blocks, too", found[3]["message"])
        self.assertEqual([bool(one["advice"]) for one in found], [True, False, False, False])

    def test_pieces_of_one_block_are_one_block(self):
        program = Damaged()
        block = program.alloc(64 * MIB, stack=0)
        program.free(block, complete=False)
        for piece in range(3):
            program.damage(block, "stale", piece << 20, MIB, free=False)
        self.assertIn("3,145,728 bytes written after the free of 1 block of", self.one(program))

    def test_more_owners_than_are_listed(self):
        program = Damaged()
        for i in range(70):
            program.damage(program.alloc(4096, stack=i), size=100)
        snapshot = program.snapshot()
        snapshot["frames"] = [dict(FRAMES[0], function="f%d()" % i, address=4096 + i, inline=False) for i in range(70)]
        snapshot["stacks"] = [[i] for i in range(70)]
        self.assertIn("in 67 other blocks, too", self.found(snapshot)[3]["message"])
        self.assertEqual(self.found(snapshot, code="damage_lost"), [])

    def test_neighbours(self):
        program = Damaged()
        base = program.segment(64 * MIB)
        program.alloc(MIB, stack=1, address=base)
        program.alloc(100, 512, stack=1, address=base + 8 * MIB)
        program.alloc(300, 512, stack=1, address=base + 8 * MIB - 512)
        block = program.alloc(1000, 1024, stack=0, address=base + 8 * MIB + 512)
        gone = program.alloc(100, 512, stack=1, address=base + 8 * MIB + 1536)
        program.free(gone)
        program.alloc(200, 512, stack=3, address=base + 8 * MIB + 2048)
        program.alloc(300, 512, stack=1, address=base + 8 * MIB + 2560)
        program.alloc(MIB, stack=1, address=base + 16 * MIB)
        program.damage(block)
        message = self.one(program)
        self.assertIn(" Before it, 100 bytes of Cache::grow() cache.cu:33 end 1,412 bytes before the damage. After it, 200 bytes of "
                      "a::very::long", message)
        self.assertIn(" begin 536 bytes after the first damaged byte.", message)
        program = Damaged()
        base = program.segment(64 * MIB)
        program.alloc(MIB, stack=1, address=base)
        block = program.alloc(1000, 1024, stack=0, address=base + 8 * MIB)
        program.alloc(MIB, stack=1, address=base + 16 * MIB)
        program.damage(block)
        self.assertNotIn("it,", self.one(program))

    def test_neighbours_between_the_free_and_the_check(self):
        """They may have damaged the freed block; those of another time cannot."""
        for is_late in (False, True):
            program = Damaged()
            base = program.segment(64 * MIB)
            block = program.alloc(1000, 1024, stack=0, address=base + 1024)
            after = None if is_late else program.alloc(1024, stack=3, address=base + 2048)
            program.free(block, complete=False)
            program.alloc(1024, stack=1, address=base)
            if after:
                program.free(after)
            program.damage(block, "stale", 0, free=False)
            if is_late:
                program.alloc(1024, stack=3, address=base + 2048)
            message = self.one(program)
            self.assertIn(" Before it, 1,024 bytes of Cache::grow() cache.cu:33 end 0 bytes before the damage.", message)
            self.assertEqual("After it, 1,024 bytes of a::very::long" in message, not is_late)

    def test_the_phase(self):
        program = Damaged()
        program.push("step", "backward")
        program.damage(program.alloc(4096, stack=0))
        program.pop(2)
        self.assertIn("; found at 6.00 us in phase backward.", self.one(program))

    def test_what_the_history_lacks(self):
        program = Damaged()
        program.damage(program.alloc(4096, stack=0))
        block = program.alloc(4096, stack=0)
        program.damage(block, free=False)
        self.assertIn("past the end of 1 block of Model::load(std::string const&) model.cu:12; found at 8.00 us.",
                      self.one(program.snapshot(keep=1, segments=[])))
        (lost,) = self.found(program.snapshot(keep=1), code="damage_lost")
        self.assertEqual((lost["severity"], lost["message"]), (
            "error", "Heap checks found damage in 2 blocks, but for 1 no event was recorded: stderr names their owners."))
        self.assertIn("GPUPOOL_TRACE_EVENTS", lost["advice"])
        self.assertEqual(self.found(program, code="damage_lost"), [])

    def test_of_the_device_only(self):
        program = Damaged()
        program.alloc(4096, stack=0)
        program.damage(program.alloc(4096, stack=0, device=1))
        self.assertEqual(self.found(program, "--device=0"), [])
        program.damage(program.alloc(4096, stack=0))
        self.assertEqual(len(self.found(program)), 2)
        self.assertIn("on device 1", self.one(program, "--device=1"))
        self.assertEqual(self.found(ordinary()), [])

    def test_leaks_counts_it(self):
        program = Damaged()
        program.damage(program.alloc(4096, stack=0))
        text = self.report(program, "--error-exitcode=7", command="leaks", status=7).stdout
        self.assertIn("Heap checks found damage in 1 block: gpupool summary names the code.\n", text)
        self.assertIn("Next: gpupool summary ", text)
        self.report(program, command="leaks")
        self.report(program.snapshot(reason="request"), "--error-exitcode=7", command="leaks", status=7)
        self.report(program, "--error-exitcode=7", "--device=1", command="leaks", status=USAGE)
        facts = json.loads(self.report(program, "--json", command="leaks").stdout)
        self.assertEqual((facts["damages"], facts["leak_count"]), (1, 0))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    cli.GPUPOOL, cli.STUB = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])
