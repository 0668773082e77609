#!/usr/bin/env python3
"""Memory by phase: the ranges and marks of the program.

    cli_phases.py GPUPOOL PRELOAD [TEST ...]
"""

import json
import os
import re
import sys
import unittest

import cli
from cli import MIB
from report_case import Program, Reports


class Phased(Program):
    """A program whose threads say what they do."""

    def __init__(self):
        super().__init__()
        self.marks = []

    def mark(self, kind, name="", thread=0, scope=None):
        self.time += 1000
        self.marks.append({"kind": kind, "time_ns": self.time, "thread": thread, "device": None, "scope": scope, "name": name})

    def push(self, *names, thread=0):
        for name in names:
            self.mark("push", name, thread)

    def pop(self, count=1, thread=0):
        for _ in range(count):
            self.mark("pop", thread=thread)

    def snapshot(self, keep=None, **changes):
        return super().snapshot(keep, marks=self.marks, **changes)


def training():
    """A snapshot of a program that loads, makes six steps, each of which leaves a MiB, and saves."""
    program = Phased()
    program.push("load")
    program.alloc(40 * MIB, stack=0)
    program.pop()
    for _ in range(6):
        program.push("step", "forward")
        activations = [program.alloc(8 * MIB, stack=1) for _ in range(3)]
        program.pop()
        program.push("backward")
        gradients = program.alloc(16 * MIB, stack=2)
        for block in activations:
            program.free(block)
        program.pop()
        program.push("optimizer")
        program.free(gradients)
        program.alloc(MIB, stack=2)
        program.pop(2)
    program.push("save")
    program.free(program.alloc(4 * MIB))
    program.pop()
    return program.snapshot()


class Phases(Reports):
    command = "sites"

    def mib(self, program, kind="flat", measure="total"):
        facts = self.facts(program, "--by", "phase")
        self.assertEqual(facts["by"], "phase")
        return {site["name"]: site[kind][measure]["bytes"] // MIB for site in facts["sites"] if site[kind][measure]["bytes"]}

    def test_nested_ranges(self):
        program = Phased()
        program.alloc(MIB)
        program.push("step", "forward")
        program.alloc(2 * MIB)
        program.pop()
        program.alloc(4 * MIB)
        program.push("backward")
        program.alloc(8 * MIB)
        program.pop(2)
        program.alloc(16 * MIB)
        self.assertEqual(self.mib(program), {"(no phase)": 17, "forward": 2, "step": 4, "backward": 8})
        self.assertEqual(self.mib(program, "cumulative"), {"(no phase)": 17, "forward": 2, "step": 14, "backward": 8})

    def test_what_is_held_and_what_was_at_the_peak(self):
        program = Phased()
        program.push("load")
        weights = program.alloc(4 * MIB)
        program.pop()
        program.push("step")
        scratch = program.alloc(8 * MIB)
        program.free(scratch)
        program.pop()
        program.free(weights)
        program.push("save")
        program.alloc(MIB)
        program.pop()
        self.assertEqual(self.mib(program, measure="live"), {"save": 1})
        self.assertEqual(self.mib(program, measure="peak"), {"load": 4, "step": 8})

    def test_a_range_inside_another_of_its_name(self):
        program = Phased()
        program.push("call", "call", "call")
        program.alloc(MIB)
        program.pop(3)
        self.assertEqual(self.mib(program, "cumulative"), {"call": 1})

    def test_threads_have_their_own(self):
        program = Phased()
        program.push("one")
        program.push("two", thread=1)
        program.alloc(MIB)
        program.alloc(2 * MIB, thread=1)
        program.pop()
        program.alloc(4 * MIB)
        program.alloc(8 * MIB, thread=1)
        self.assertEqual(self.mib(program), {"one": 1, "two": 10, "(no phase)": 4})

    def test_ranges_of_the_process_are_for_threads_without(self):
        program = Phased()
        program.mark("begin", "epoch", scope=1)
        program.push("inner")
        program.alloc(MIB)
        program.alloc(2 * MIB, thread=1)
        program.mark("begin", "step", thread=1, scope=2)
        program.pop()
        program.alloc(4 * MIB)
        program.mark("end", "epoch", scope=1)  # they need not be nested
        program.alloc(8 * MIB)
        program.mark("end", "step", scope=2)
        program.alloc(16 * MIB)
        self.assertEqual(self.mib(program), {"inner": 1, "epoch": 2, "step": 12, "(no phase)": 16})

    def test_marks_count_inside_their_range(self):
        program = Phased()
        program.mark("mark", "warm")
        program.alloc(MIB)
        program.mark("begin", "epoch", scope=1)
        program.alloc(2 * MIB)
        program.mark("mark", "half")
        program.alloc(4 * MIB)
        program.mark("end", "epoch", scope=1)
        program.alloc(8 * MIB)
        self.assertEqual(self.mib(program), {"warm": 9, "epoch": 2, "half": 4})

    def test_marks_that_lost_their_begin(self):
        program = Phased()
        program.pop(2)
        program.mark("end", scope=7)
        program.push("step")
        program.alloc(MIB)
        program.pop(3)
        program.marks += [{}, dict(program.marks[-1], kind="other"), dict(program.marks[-1], thread=99), dict(program.marks[0], kind="push", name="earlier")]
        program.alloc(2 * MIB)
        self.assertEqual(self.mib(program), {"step": 1, "(no phase)": 2})

    def phases(self, program):
        document = json.loads(self.report(program, "--json", command="summary").stdout)
        self.expect_valid(document, "summary")
        return {phase["name"]: (phase["times"], phase["peak"] // MIB, phase["left"] // MIB) for phase in document["snapshots"][0]["phases"]}

    def test_summary_tells_what_each_held_and_left(self):
        program = Phased()
        program.push("load")
        program.alloc(4 * MIB)
        program.pop()
        for _ in range(3):
            program.push("step", "forward")
            scratch = program.alloc(8 * MIB)
            program.pop()
            program.alloc(MIB)
            program.free(scratch)
            program.pop()
        self.assertEqual(self.phases(program), {"load": (1, 4, 4), "step": (3, 15, 3), "forward": (3, 14, 0)})
        text = self.report(program, command="summary").stdout
        self.assertRegex(text, r"(?m)^Phases\n +times +peak within +left +first end +last end +most at end +phase\n"
                               r" +3 +15 MiB +3 MiB +5 MiB +7 MiB +7 MiB +step\n +3 +14 MiB +0 B +12 MiB +14 MiB +14 MiB +forward\n +1 +4 MiB +4 MiB +4 MiB +4 MiB +4 MiB +load\n\n")
        self.narrow(text)

    def ends(self, program, keep=None):
        snapshot = program.snapshot(keep) if keep else program
        document = json.loads(self.report(snapshot, "--json", command="summary").stdout)
        return {phase["name"]: (phase["ends"],) + tuple(phase[which] and phase[which] // MIB for which in ("first_end", "last_end", "most_end"))
                for phase in document["snapshots"][0]["phases"]}

    def test_what_was_held_at_the_end_of_each_step(self):
        """An inner range ends inside of an outer one; the last step is still open."""
        program = Phased()
        for size in (1, 5, 2):
            program.push("step", "forward")
            scratch = program.alloc(8 * MIB)
            program.pop()
            kept = program.alloc(size * MIB)
            program.free(scratch)
            program.pop()
            if size == 5:
                program.free(kept)
        program.push("step", "call", "call")
        program.alloc(64 * MIB)
        program.pop()
        self.assertEqual(self.ends(program), {"step": (3, 1, 3, 6), "forward": (3, 8, 9, 9), "call": (1, 67, 67, 67)})
        self.assertRegex(self.report(program, command="summary").stdout, r"(?m)^ +4 +67 MiB +67 MiB +1 MiB +3 MiB +6 MiB  step\n")

    def test_marks_end_at_the_next_mark(self):
        program = Phased()
        for name in ("warm", "step", "step", "step", "save"):
            program.mark("mark", name)
            program.alloc(MIB)
        self.assertEqual(self.ends(program), {"warm": (1, 1, 1, 1), "step": (3, 2, 4, 4), "save": (0, None, None, None)})
        self.assertRegex(self.report(program, command="summary").stdout, r"(?m)^ +1 +5 MiB +1 MiB +- +- +-  save\n")

    def test_ends_before_the_recorded_events_are_not_known(self):
        """Those of two of the steps; and of all without events."""
        program = Phased()
        for _ in range(4):
            program.push("step")
            program.alloc(MIB)
            program.pop()
        self.assertEqual(self.ends(program, 4), {"step": (2, 3, 4, 4)})
        snapshot = program.snapshot()
        for name in cli.COLUMNS:
            snapshot["events"][name] = []
        document = json.loads(self.report(snapshot, "--json", command="summary").stdout)
        self.assertEqual(document["snapshots"][0]["phases"][0]["ends"], 0)

    def test_blocks_freed_before_the_recorded_events_are_not_held(self):
        """The free had been requested before the first event that is left, and completed after it."""
        program = Phased()
        pending = program.alloc(32 * MIB)
        program.free(pending, complete=False)
        kept = program.alloc(MIB)
        program.push("step")
        program.complete(pending)
        program.free(kept)
        program.alloc(2 * MIB)
        program.pop()
        snapshot = program.snapshot(5)
        self.assertEqual(snapshot["events"]["block"][0], pending)
        self.assertEqual(self.phases(snapshot), {"step": (1, 2, 2)})
        self.assertEqual(self.ends(snapshot), {"step": (1, 2, 2, 2)})

    def test_summary_of_other_threads_and_the_process(self):
        """What a phase held is what the whole program held meanwhile, whoever had it; what it left is its own."""
        program = Phased()
        program.push("idle")
        program.mark("begin", "epoch", scope=1)
        program.alloc(2 * MIB, thread=1)
        program.pop()
        program.alloc(4 * MIB, thread=1)
        program.mark("end", scope=1)
        program.alloc(8 * MIB, thread=1)
        self.assertEqual(self.phases(program), {"idle": (1, 2, 0), "epoch": (1, 6, 6)})

    def test_summary_of_a_range_inside_another_of_its_name(self):
        program = Phased()
        program.push("call", "call")
        program.alloc(MIB)
        program.pop(2)
        self.assertEqual(self.phases(program), {"call": (2, 1, 1)})

    def test_summary_of_many(self):
        program = Phased()
        for step in range(20):
            program.push("step %d" % step)
            program.alloc(MIB)
            program.pop()
        text = self.report(program, command="summary").stdout
        self.assertIn("8 other phases (gpupool sites --by phase)", text)
        self.assertEqual(len(self.phases(program)), 20)
        self.assertNotIn("Phases", self.report(Program(), command="summary").stdout)

    def band(self, program, *arguments):
        """The letters below the curve, and {letter: phase}."""
        text = self.report(program, *arguments, command="timeline").stdout
        self.narrow(text)
        lines = text.split("Next:")[0].rstrip("\n").split("\n")
        (at,) = [i for i, line in enumerate(lines) if line.startswith(" " * 11) and line.rstrip().endswith(" us")]
        if at + 1 == len(lines):
            return None
        legend = " ".join(line.strip() for line in lines[at + 2:])
        return lines[at + 1][11:], dict(word.split(" ", 1) for word in legend.split(", "))

    def test_timeline_names_phases_by_letters(self):
        """An event each us: a quarter of the time in each phase, and in none of them."""
        program = Phased()
        program.alloc(MIB)  # two events
        for name in ("load", "step", None, "load"):
            if name:
                program.push(name)
            for _ in range(20):
                program.free(program.alloc(MIB, address=1 << 32))
            if name:
                program.pop()
        letters, names = self.band(program)
        self.assertEqual(names, {"a": "load", "b": "step"})
        self.assertRegex(letters, "^a{15,18}b{15,18} {15,18}a{15,18}$")
        letters, names = self.band(program, "--since=80us", "--until=100us")
        self.assertEqual((set(letters), names), ({"a"}, {"a": "step"}))

    def test_timeline_of_the_thread_that_is_in_one_for_longest(self):
        program = Phased()
        program.push("short", thread=1)
        program.alloc(MIB)
        program.pop(thread=1)
        program.mark("begin", "epoch", scope=1)
        program.alloc(MIB)
        program.push("long")
        program.alloc(MIB)
        program.mark("end", scope=1)
        program.alloc(MIB)
        program.free(program.alloc(MIB))
        self.assertEqual(self.band(program)[1], {"a": "long"})
        self.assertEqual(self.band(program, "--until=8us")[1], {"a": "epoch"})

    def test_timeline_of_many_phases(self):
        program = Phased()
        for step in range(30):
            program.push("step %d of %s" % (step, "x" * 60))
            program.alloc(MIB)
            program.pop()
        program.alloc(MIB)
        letters, names = self.band(program)
        self.assertEqual((len(names), names["."]), (27, "others"))
        self.assertEqual(re.sub(r"(.)\1+", r"\1", letters.replace(" ", "")), "abcdefghijklmnopqrstuvwxyz.")

    def test_timeline_without_phases(self):
        program = Phased()
        for _ in range(3):
            program.alloc(MIB)
        self.assertIsNone(self.band(program))
        program.push("at the end")
        self.assertIsNone(self.band(program))

    def test_text(self):
        program = Phased()
        program.push("step\x1b[2J")
        program.alloc(MIB)
        text = self.report(program, "--by", "phase").stdout
        self.assertRegex(text, r"by phase: 1 MiB in all")
        self.assertNotIn("\x1b", text)

    def test_without_marks(self):
        program = Phased()
        program.alloc(MIB)
        self.assertEqual(self.mib(program), {"(no phase)": 1})

    def test_difference(self):
        before, after = Phased(), Phased()
        for program, size in ((before, MIB), (after, 3 * MIB)):
            program.push("step")
            program.alloc(size)
            program.pop()
        old, new = self.write("before.json", before.snapshot()), self.write("after.json", after.snapshot())
        self.assertRegex(self.run_tool("diff", "--by", "phase", old, new).stdout, r"1 MiB +3 MiB +\+2 MiB.* step\n")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    cli.GPUPOOL, cli.STUB = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])
