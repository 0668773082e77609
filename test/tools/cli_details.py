#!/usr/bin/env python3
"""Details of what the commands say: what is not known is left out, and no two figures contradict each other.

    cli_details.py GPUPOOL PRELOAD_STUB [TEST ...]
"""

import json
import os
import re
import shutil
import subprocess
import sys
import unittest

import cli
from cli import MIB, USAGE, device_of, gauge, snapshot_of
from cli_replay import Requests
from report_case import FRAMES, STACKS, Program, Reports, fragmented, ordinary


def torch_snapshot(segments, live, traces=()):
    """A snapshot as PyTorch writes it: segments of 2 MiB each, the first `live` of them in use; no stacks."""
    def block(address, state):
        return {"address": address, "size": 2 * MIB, "requested_size": 2 * MIB, "state": state, "frames": []}
    return {"segments": [
        {"device": 0, "address": i << 32, "total_size": 2 * MIB, "stream": 0, "segment_type": "large",
         "segment_pool_id": [0, 0], "is_expandable": False, "frames": [], "allocated_size": 0, "active_size": 0,
         "requested_size": 0, "blocks": [block(i << 32, "active_allocated" if i < live else "inactive")]}
        for i in range(1, segments + 1)], "device_traces": [list(traces)], "external_annotations": []}


class Unknown(Reports):
    """What a snapshot does not know."""

    def test_the_heading_has_what_is_known(self):
        snapshot = ordinary().snapshot()
        self.assertIn("s.json: app, pid 4711, written at exit\n", self.report(snapshot, command="sites").stdout)
        for pid in (0, None):
            snapshot["process"].update(pid=pid, program="")
            for command in ("sites", "leaks", "frag", "timeline"):
                self.assertIn("s.json: written at exit\n", self.report(snapshot, command=command).stdout)

    def test_the_summary_has_no_empty_lines_of_the_process(self):
        snapshot = snapshot_of(settings={})
        snapshot["process"] = {"program": "", "pid": 0, "host": "", "rank": 0, "command_line": []}
        text = self.report(snapshot, command="summary").stdout
        for label in ("program", "process", "settings", "command"):
            self.assertNotRegex(text, r"(?m)^  %s " % label)
        snapshot["process"].update(pid=7, rank=3)
        self.assertRegex(self.report(snapshot, command="summary").stdout, r"(?m)^  process    pid 7, rank 3$")
        snapshot["process"].update(rank=0)  # of an older library, which wrote it without a rank, too
        self.assertRegex(self.report(snapshot, command="summary").stdout, r"(?m)^  process    pid 7$")
        snapshot["process"].update(library_version="1.2.3")
        text = self.report(snapshot, command="summary").stdout
        self.assertRegex(text, r"(?m)^  process    pid 7, rank 0$")
        self.assertRegex(text, r"(?m)^  snapshot   .*, by gpupool 1\.2\.3$")
        snapshot["process"].update(rank=3)
        snapshot["process"].update(pid=0, host="node1")
        self.assertRegex(self.report(snapshot, command="summary").stdout, r"(?m)^  process    on node1, rank 3$")
        snapshot["settings"] = {"sources": {"stacks": "environment"}, "stacks": "fp"}
        self.assertRegex(self.report(snapshot, command="summary").stdout, r"(?m)^  settings   stacks=fp$")

    def test_of_many_names_the_first_are_said(self):
        """A message stays a line."""
        names = ["worker-%02d-of-the-pool" % i for i in range(40)]
        snapshot = ordinary().snapshot(threads=[{"tid": i, "name": name} for i, name in enumerate(names)])
        error = self.report(snapshot, "--thread=none", command="sites", status=USAGE).stderr
        self.one_line(error)
        self.assertRegex(error, r"there is no thread none in it \(%s, (worker-..-of-the-pool, )+\.\.\.\)" % names[0])
        self.assertEqual(re.findall("worker-..-of-the-pool", error), names[:error.count("worker")])
        self.assertLess(len(error), 400)


class Figures(Reports):
    """Figures that stand beside each other."""

    command = "sites"

    def test_driver_calls_are_those_of_the_segments(self):
        """Segments that are older than the events came from the driver like the others."""
        start = 1700000000000000
        traces = [{"action": "segment_free", "addr": 99 << 32, "size": 2 * MIB, "stream": 0, "time_us": start,
                   "frames": []},
                  {"action": "segment_alloc", "addr": 40 << 32, "size": 2 * MIB, "stream": 0, "time_us": start + 1,
                   "frames": []}]
        path = self.write("torch.json", torch_snapshot(40, 30, traces))
        stats = json.loads(self.run_tool("summary", "--json", path).stdout)["snapshots"][0]["devices"][0]["stats"]
        self.assertEqual((stats["driver_allocs"], stats["driver_frees"]), (41, 1))
        self.assertEqual((stats["segment"]["allocated"], stats["segment"]["freed"]), (41, 1))
        text = self.run_tool("summary", path).stdout
        self.assertRegex(text, r"segments +40 +40 +41\n")
        self.assertRegex(text, r"driver allocs +41 ")
        self.assertIn("Which allocations were hits and which were misses is unknown", text)
        self.assertNotIn("not known", self.report(snapshot_of(), command="summary").stdout)

    def test_what_is_held_is_counted_in_blocks(self):
        for sort, heading, count in (("peak", "blocks", 2), ("live", "blocks", 1), ("total", "calls", 3),
                                     ("count", "calls", 3), ("temporary", "calls", 2)):
            text = self.report(ordinary(), "--sort", sort).stdout
            freed = {"peak": "none", "live": "2"}.get(sort)
            self.assertRegex(text, r"(?m)cum%% +%s%s  function$" % (heading, " +freed" if freed else ""))
            name = r"a::very::.*" if sort == "temporary" else r"Cache::grow\(\)"
            self.assertRegex(text, r"(?m)^.* %d%s  %s$" % (count, " +" + freed if freed else "", name))

    def test_no_problem_beside_memory_that_was_not_freed(self):
        def findings(**stats):
            snapshot = snapshot_of()
            snapshot["devices"][0]["stats"].update(stats)
            return json.loads(self.report(snapshot, "--json", command="summary").stdout)["snapshots"][0]["findings"]
        (only,) = findings()
        self.assertEqual((only["severity"], only["message"][:16]), ("good", "No problem found"))
        for stats in ({"allocation": gauge(3, 10, 1000)}, {"passthrough_bytes": gauge(MIB)},
                      {"reserved_bytes": gauge(0, 2000 * MIB)}):
            found = findings(**stats)
            self.assertNotIn("No problem", " ".join(finding["message"] for finding in found), stats)
            self.assertEqual([finding["severity"] for finding in found], ["note", "note"])
            self.assertIn("99.0% of 1,000 allocations were served", found[1]["message"])


class HitRate(Reports):
    """Why few allocations were served from the pool, and when that is said at all."""

    command = "summary"

    def found(self, program, hits, misses, peak, segments=0, detail=None, **settings):
        snapshot = program.snapshot()
        if detail:  # of the program's last event
            snapshot["events"]["details"] = ["", detail] + snapshot["events"]["details"][2:]
        snapshot["settings"].update(settings)
        snapshot["settings"].update({"type": "naive", "page": "4KiB", "large_round": "2MiB"})
        snapshot["devices"][0]["stats"].update(allocation=gauge(0, peak, hits + misses), segment=gauge(segments), cache_hits=hits,
                                               cache_misses=misses)
        facts = self.facts(snapshot)
        self.assertNotIn("served", [finding["code"] for finding in facts["findings"]])
        (found,) = [finding for finding in facts["findings"] if finding["code"] == "hit_rate"]
        return found

    def test_what_the_program_still_held(self):
        kept = Program(with_stacks=False)
        for i in range(60):
            kept.alloc(8 * MIB)
        for i in range(120):
            kept.free(kept.alloc(4 * MIB, address=1 << 50))
        found = self.found(kept, 80, 100, 61)
        self.assertIn("44.4% of 180 allocations on device 0 were served from the pool: for most of the others it had "
                      "no idle memory, because the program had not yet", found["message"])
        self.assertEqual(found["severity"], "note")
        # Of memory that is cut it is not the blocks that take a call of the driver each.
        found = self.found(kept, 80, 100, 61, segments=5)
        self.assertNotIn("the program had not yet", found["message"])

    def test_a_reason_is_one_that_was_tried(self):
        """The requests, replayed without it, are served."""
        program = Program(with_stacks=False)
        for _ in range(12):
            blocks = [program.alloc(4 * MIB, address=(i + 1) << 40) for i in range(10)]
            for block in blocks:
                program.free(block, complete=False)
            for block in blocks:
                program.complete(block)
        program.event("trim", detail="idle")
        few = "Only 16.7% of 120 allocations on device 0 were served from the pool"
        tight = ": memory was tight, so idle blocks were released to the driver."
        for detail, max_cached, message, remedy in (
                ("max_cached", "8MiB", few + ": GPUPOOL_MAX_CACHED released memory that was requested again.",
                 {"GPUPOOL_MAX_CACHED": "none"}),
                ("max_cached", "none", few + ".", None),  # without the setting it is the same
                ("request", "none", few + ".", None), ("reserve", "none", few + tight, None), ("oom", "none", few + tight, None)):
            with self.subTest(detail=detail, max_cached=max_cached):
                found = self.found(program, 20, 100, 1, detail=detail, max_cached=max_cached)
                self.assertEqual((found["message"], (found["remedy"] or {}).get("settings")), (message, remedy))
                self.assertEqual(found["severity"], "warning")

    def test_without_a_pool_there_is_no_rate(self):
        snapshot = snapshot_of()
        snapshot["settings"]["type"] = "unpooled"
        snapshot["devices"][0]["stats"].update(cache_hits=0, cache_misses=1000)
        found = self.facts(snapshot)["findings"]
        self.assertEqual([(finding["code"], finding["severity"], finding["message"]) for finding in found],
                         [("unpooled", "note", "1,000 allocations, each of them a driver call (GPUPOOL_TYPE=unpooled).")])

    def test_a_low_rate_is_no_good_news(self):
        few = snapshot_of()
        few["devices"][0]["stats"].update(allocation=gauge(0, 10, 10), cache_hits=0, cache_misses=10)
        self.assertIn("No problem found in 10 allocations, too few to judge the pool by.", self.report(few).stdout)
        few["devices"][0]["stats"]["passthrough_bytes"] = gauge(MIB)
        self.assertEqual([finding["code"] for finding in self.facts(few)["findings"]], ["passthrough_at_exit"])

    def test_no_problem_beside_memory_that_went_with_its_context(self):
        lost = snapshot_of()
        lost["events"].update(actions=["alloc", "free_requested"], details=["", "context_lost"])
        text = self.report(lost).stdout
        self.assertIn("1 allocation that the program had not freed disappeared when a context", text)
        self.assertNotIn("No problem", text)


class Wording(Reports):
    """Nothing is said that is no news."""

    command = "summary"

    def test_what_is_nothing_is_left_out(self):
        snapshot = snapshot_of()
        others = "5 MiB were in use by contexts, code and other processes."
        pools = "3 MiB were kept by the driver's own pools and not in use"
        for in_pools, unaccounted, end in ((None, 0, "free 1.00 ms after the start."), (0, 0, "after the start."),
                                           (0, 5 * MIB, "start, and " + others), (3 * MIB, 0, "start, " + pools + "."),
                                           (3 * MIB, 5 * MIB, "start, %s, and %s" % (pools, others))):
            snapshot["devices"][0]["use"] = use = {"time_ns": 1000000, "total": 1 << 30, "free": 1 << 29,
                                                   "in_pools": in_pools, "unaccounted": unaccounted}
            if in_pools is None:  # of an older library
                del use["in_pools"]
            self.assertIn(end, " ".join(self.report(snapshot).stdout.split()))
        self.assertIn("recorded for", self.report(snapshot).stdout)
        self.assertIn("no stream but the default one", self.report(snapshot).stdout)
        del snapshot["devices"][0]["use"]
        snapshot["events"]["time_ns"] = [0, 0, 0]
        self.assertNotIn("recorded for", self.report(snapshot).stdout)

    def test_blocks_of_one_size(self):
        program = Program()
        for _ in range(3):
            program.alloc(32 * MIB)
        self.assertIn("before the exit, each of 32 MiB.", " ".join(self.report(program).stdout.split()))
        program.alloc(1 * MIB)
        self.assertIn("most of it in 3 blocks of 32 MiB.", " ".join(self.report(program).stdout.split()))


class DoubleFree(Reports):
    """Memory that was freed again: what the program did is in the test of stacks."""

    command = "summary"

    def snapshot(self, count, free_stacks, keep=None):
        program = Program()
        for _ in range(count):
            block = program.alloc(4 * MIB, stack=0)
            columns = program.columns_of(block)
            program.free(block)
            program.rows[-2]["stack"] = 1 if free_stacks else 0
            program.event("free_refused", **dict(columns, stack=2))
        snapshot = program.snapshot(keep=keep)
        snapshot["settings"]["stacks_free"] = "1" if free_stacks else "0"
        return snapshot

    def test_both_frees_are_shown(self):
        facts = self.facts(self.snapshot(1, True))
        (found,) = [finding for finding in facts["findings"] if finding["code"] == "double_free"]
        self.assertEqual(found["severity"], "warning")
        self.assertIn("4 MiB at 0x100000000 on device 0, allocated by Model::load(std::string const&) model.cu:12, was freed "
                      "at 3.00 us by Cache::grow() cache.cu:33, and again at 5.00 us by Cache::grow() cache.cu:33.",
                      found["message"])
        (double,) = facts["double_frees"]
        self.assertEqual([len(double[name]) for name in ("alloc_stack", "first_stack", "second_stack")], [3, 3, 4])
        self.assertEqual((double["first_ns"], double["second_ns"], double["size"]), (3000, 5000, 4 * MIB))
        self.assertNotIn("No problem", self.report(self.snapshot(1, True)).stdout)

    def test_what_is_not_recorded_is_said(self):
        facts = self.facts(self.snapshot(20, False))
        (found,) = [finding for finding in facts["findings"] if finding["code"] == "double_free"]
        self.assertIn("freed before, 20 times; first: 4 MiB", found["message"])
        self.assertIn("GPUPOOL_STACKS_FREE=1 records", found["advice"])
        self.assertEqual((facts["double_free_count"], len(facts["double_frees"])), (20, 16))
        self.assertIsNone(facts["double_frees"][0]["first_stack"])
        facts = self.facts(self.snapshot(1, False, keep=1))
        self.assertIsNone(facts["double_frees"][0]["first_ns"])
        self.assertIn("was freed before the first recorded event, and again", self.report(
            self.snapshot(1, False, keep=1)).stdout.replace("\n    ", " "))
        self.assertEqual(self.facts(ordinary())["double_frees"], [])

    def test_stacks_that_would_help_are_named(self):
        for with_stacks, settings in ((False, {"GPUPOOL_STACKS": "native", "GPUPOOL_STACKS_FREE": "1"}),
                                      (True, {"GPUPOOL_STACKS_FREE": "1"})):
            snapshot = self.snapshot(1, False)
            if not with_stacks:
                snapshot["events"]["stack"] = [-1] * len(snapshot["events"]["stack"])
            (found,) = [finding for finding in self.facts(snapshot)["findings"] if finding["code"] == "double_free"]
            self.assertEqual(found["remedy"]["settings"], settings)
            self.assertEqual(found["advice"], "GPUPOOL_STACKS_FREE=1 records which code freed it the first time, too." if with_stacks else
                             "GPUPOOL_STACKS=native with GPUPOOL_STACKS_FREE=1 records which code freed it each time.")

    def test_a_free_inside_joined_memory(self):
        """Such a refusal names no block: the last one that was freed there is meant, if there is one."""
        program = Program()
        base = program.segment(16 * MIB)
        for _ in range(2):
            program.free(program.alloc(4 * MIB, stack=0, address=base + 4 * MIB))
        program.event("free_refused", address=base + 4 * MIB, stack=2)
        program.event("free_refused", address=base + 512, stack=2)
        facts = self.facts(program)
        (found,) = [finding for finding in facts["findings"] if finding["code"] == "double_free"]
        self.assertIn("freed before, 2 times; first: 4 MiB at 0x100400000 on device 0, allocated by Model::load(std::string "
                      "const&) model.cu:12, was freed at 6.00 us, and again at 8.00 us by Cache::grow()", found["message"])
        self.assertEqual([double["size"] for double in facts["double_frees"]], [4 * MIB, 0])
        del program.rows[-2]
        (found,) = [finding for finding in self.facts(program)["findings"] if finding["code"] == "double_free"]
        self.assertIn("The program freed memory that it had not allocated: 0x100000200 on device 0, which is not the start of any "
                      "recorded block, at 9.00 us by Cache::grow() cache.cu:33.", found["message"])

    def test_times_that_print_alike(self):
        snapshot = self.snapshot(1, True)
        snapshot["events"]["time_ns"] = [time + 12600000 for time in snapshot["events"]["time_ns"]]
        self.assertIn("was freed at 12.6 ms by Cache::grow() cache.cu:33, and again 2.00 us later by Cache::grow()",
                      " ".join(self.report(snapshot).stdout.split()))


class Order(Reports):
    command = "frag"

    def test_the_largest_rows_come_first(self):
        """Small segments with parts do not stand before large ones without."""
        program = Program(with_stacks=False)
        for size in (1, 2, 64, 3):
            program.alloc(size * MIB)
        snapshot = program.snapshot()
        for segment in snapshot["segments"]:
            block = segment["blocks"][0]
            if block["size"] < 64 * MIB:
                half = block["size"] // 2
                segment["blocks"] = [dict(block, size=half), dict(block, size=half, address=block["address"] + half,
                                                                  block=block["block"] + 100, state="inactive")]
        for options in ((), ("-n", "2")):
            text = self.report(snapshot, "--ascii", *options).stdout
            sizes = re.findall(r"(?m)^ +(\d+) MiB +1 +\d+ MiB  ", text)
            self.assertEqual(sizes, ["64", "3", "2", "1"][:2 if options else 4])

    def test_why_idle_memory_did_not_help(self):
        oom = {"time_ns": 40000, "device": 0, "requested": 40 * MIB, "live": 0, "cached": 0, "largest_free": 16 * MIB}
        program = fragmented()
        program.free(program.alloc(16 * MIB, stack=1))
        self.assertIn("Memory ran out for 40 MiB: the largest idle block was 16 MiB, too small for it, and of the 36 MiB of "
                      "idle memory only 16 MiB could be released: the rest is in segments with blocks in use.",
                      " ".join(self.report(program.snapshot(reason="oom", oom=oom), command="frag").stdout.split()))
        program = Program()
        program.alloc(10 * MIB, stack=0)
        self.assertIn("the largest idle block was 16 MiB, too small for it; releasing all idle memory "
                      "was not enough.", " ".join(self.report(program.snapshot(reason="oom", oom=oom), command="frag").stdout.split()))
        oom["requested"] = 3 * MIB
        self.assertIn("Memory ran out for 3 MiB, though a block of 16 MiB was idle: it was too large to be reused for that.",
                      " ".join(self.report(program.snapshot(reason="oom", oom=oom), command="frag").stdout.split()))

    def test_the_first_five_times_that_memory_ran_out(self):
        program = ordinary()
        for size in range(5):
            program.event("oom", size=(size + 1) * MIB)
        text = self.report(program, command="timeline").stdout
        self.assertIn("memory ran out for 5 MiB", text)
        self.assertNotIn("more time", text)
        for size, rest in ((6, "1 more time"), (7, "2 more times")):
            program.event("oom", size=size * MIB)
            text = self.report(program, command="timeline").stdout
            self.assertIn("  and %s\n" % rest, text)
            self.assertEqual(text.count("memory ran out for"), 5)


class Statistics(Reports):
    """Every row of format/stats.def."""

    command = "summary"

    def test_each_is_in_the_texts(self):
        values = {**{name: gauge(3, 3) for name in cli.GAUGES}, **{name: 3 for name in cli.COUNTERS}}
        text = self.report(ordinary().snapshot(devices=[device_of(0, **values)])).stdout
        zeros, counts = ordinary().snapshot(devices=[device_of(0)]), ordinary().snapshot(devices=[device_of(0, **values)])
        differences = self.run_tool("diff", self.write("a.json", zeros), self.write("b.json", counts)).stdout
        labels = cli.statistics(r'(?:GAUGE|COUNTER)', r', (?:"(?:bytes|count)", )?"([^"]*)"')
        self.assertEqual(len(labels), len(values))
        self.assertRegex(text, r"(?m)^  forwarded +forwarded to the driver")
        for name, label in labels:
            self.assertRegex(text, r"(?m)^  (?:.* )?%s +3( B)? " % re.escape(label) if name in cli.GAUGES else r"\b%s +3\b" % label)
            self.assertIn("  %s%s " % (label, ", peak" if name in cli.GAUGES else ""), differences)

    def test_older_files_lack_some(self):
        """A version that did not count it wrote no number of it: the file has all that it can have."""
        for name in cli.GAUGES + cli.COUNTERS:
            snapshot = ordinary().snapshot(devices=[device_of(0)])
            del snapshot["devices"][0]["stats"][name]
            facts = self.facts(snapshot)
            self.assertEqual((facts["partial"], facts["missing"]), (False, []), name)
            value = facts["devices"][0]["stats"][name]
            self.assertIsNone(value["current"] if name in cli.GAUGES else value, name)
            with self.subTest(name):
                files = self.write("old.json", snapshot), self.write("new.json", ordinary().snapshot(devices=[device_of(0)]))
                document = json.loads(self.run_tool("diff", "--json", *files).stdout)
                self.expect_valid(document, "diff")
                figure = document["devices"][0]["figures"][name + (".current" if name in cli.GAUGES else "")]
                self.assertEqual((figure["before"], figure["after"]), (None, 0))


class Differences(Reports):
    def compare(self, before, after, *options):
        return self.run_tool("diff", self.write("a.json", before), self.write("b.json", after), *options).stdout

    def test_shares_have_their_column(self):
        """Of what it was; what is beyond the column is not printed in its neighbour's."""
        before, after = ordinary().snapshot(devices=[device_of(0, cache_hits=10, cache_misses=10, driver_allocs=4)]), ordinary().snapshot(
            devices=[device_of(0, cache_hits=1009, cache_misses=20000, driver_frees=4)])
        text = self.compare(before, after)
        self.assertRegex(text, r"(?m)^  hits +10 +1,009 +\+999 +\+9990\.0%$")
        self.assertRegex(text, r"(?m)^  misses +10 +20,000 +\+19,990 +>10000%$")
        self.assertRegex(text, r"(?m)^  driver allocs +4 +0 +-4 +gone$")
        self.assertRegex(text, r"(?m)^  driver frees +0 +4 +\+4 +new$")

    def test_only_the_largest_differences(self):
        after = ordinary()
        for stack, size in ((0, 100), (1, 50), (3, 20)):
            after.alloc(size * MIB, stack=stack)
        for options, rest in ((("-n", "1"), "2 others"), (("-n", "2"), "1 other"), (("-n", "0"), None), ((), None)):
            text = self.compare(ordinary().snapshot(), after.snapshot(), *options)
            self.assertEqual("with less difference" in text, rest is not None)
            self.assertEqual(text.count("a::very"), options != ("-n", "1"))
            if rest:
                self.assertIn("\nand %s with less difference; -n 0 shows all\n" % rest, text)
        after = ordinary()
        for i in range(16):  # without stacks each size has a row
            after.alloc((100 + i) * MIB)
        text = self.compare(ordinary(False).snapshot(), after.snapshot(), "--sort=total")
        self.assertIn("\nand 1 other with less difference; -n 0 shows all\n", text)


class Stacks(Reports):
    command = "sites"

    def test_an_empty_stack_is_named(self):
        program = Program()
        program.alloc(5 * MIB, stack=4)
        program.alloc(7 * MIB, stack=0)
        snapshot = program.snapshot(stacks=STACKS + [[]])
        self.assertEqual([site["flat"]["live"] for site in self.facts(snapshot)["sites"] if site["name"] == "(empty stack)"], [{"bytes": 5 * MIB, "count": 1, "freed": 0}])
        text = self.report(snapshot, command="leaks").stdout
        self.assertIn("5,242,880 bytes (5 MiB) leaked on device 0 by thread main (4711) in 1 block,\n", text)
        self.assertEqual(text.count("    (an empty stack)\n"), 1)
        self.assertRegex(self.report(snapshot, "--tree").stdout, r"\n +5 MiB +41\.7%  \(empty stack\)\n")

    def test_the_tree_has_the_largest_owners(self):
        text = self.report(ordinary(), "--tree", "--sort=total", "-n", "1").stdout
        self.assertIn("Cache::grow()", text)
        self.assertIn("\nand 2 others with less; -n 0 shows all\n", text)
        self.assertIn("\nand 1 other with less; -n 0 shows all\n", self.report(ordinary(), "--tree", "--sort=total", "-n", "2").stdout)
        whole = self.report(ordinary(), "--tree", "--sort=total", "-n", "0").stdout
        self.assertNotIn("with less", whole)
        self.assertNotIn(FRAMES[4]["function"], whole)
        self.assertRegex(self.report(ordinary(), "--tree", "--sort=total", "-n", "0", "--wide").stdout,
                         r"(?m)^ +2 MiB +[0-9.]+%  " + FRAMES[4]["function"] + r" long\.cu:7$")


class Types(Reports):
    """Types of pool that would have served what was refused."""

    command = "summary"

    def test_they_are_within_the_limit(self):
        """10 blocks of 9 MiB take 160 MiB in MXNet's classes; of type naive each takes 10, and cut they take no more than they are.
        One more block like the last has to fit, too."""
        for size, helps in ((9, "naive"), (64, "vmm"), (70, None)):
            program = Requests()
            for _ in range(10):
                program.alloc(9 * MIB, 16 * MIB)
            program.event("oom", size=size * MIB)
            oom = {"time_ns": program.time, "device": 0, "requested": size * MIB, "live": 160 * MIB, "deferred": 0, "cached": 0,
                   "passthrough": 0, "limit": 165 * MIB, "by_limit": True, "largest_free": 0, "device_free": 1 << 30,
                   "device_total": 1 << 30, "owners": [], "message": "", "advice": "Free something",
                   "remedy": {"settings": {}, "action": None}}
            snapshot = program.snapshot(reason="oom", oom=oom)
            snapshot["settings"].update({"type": "round", "page": "4KiB", "large_round": "2MiB", "round_cutoff": "24",
                                         "limit": "165MiB"})
            (found,) = [finding for finding in self.facts(snapshot)["findings"] if finding["code"] == "oom"]
            self.assertEqual(found["remedy"]["settings"] if found["remedy"] else None, {"GPUPOOL_TYPE": helps} if helps else None, size)
            self.assertIn("GPUPOOL_TYPE=%s would have served it" % helps if helps else "Free something.", found["advice"])


    def refused(self, requests, size, ends=False, replaces=0, **oom):
        """What the tool says of a program that holds one block of 10 MiB after the other, within 100 MiB."""
        program = Requests()
        held = [program.alloc(10 * MIB, 10 * MIB) for _ in range(requests)]
        for _ in range(replaces):
            if len(held) > requests:
                program.free(held.pop())
            held.append(program.alloc(40 * MIB, 40 * MIB))
        program.event("oom", size=size * MIB)
        requests = 10 if replaces else requests
        at = program.time
        for block in held if ends else []:
            program.free(block)
        report = {"time_ns": at, "device": 0, "requested": size * MIB, "live": requests * 10 * MIB, "deferred": 0,
                  "cached": 0, "in_pieces": 0, "passthrough": 0, "limit": 100 * MIB, "by_limit": True, "largest_free": 0,
                  "device_free": 1 << 30, "device_total": 1 << 30, "owners": [], "message": "", "advice": "It is the limit",
                  "remedy": {"settings": {"GPUPOOL_LIMIT": "110MiB"}, "action": None}, **oom}
        snapshot = program.snapshot(reason="exit" if ends else "oom", oom=report)
        snapshot["settings"].update({"type": "vmm", "limit": "100MiB"})
        (found,) = [finding for finding in self.facts(snapshot)["findings"] if finding["code"] == "oom"]
        return found

    def test_a_limit_serves_more_than_one_request(self):
        """The last tenth of ten requests is one more block of 10 MiB."""
        found = self.refused(10, 10)
        self.assertIsNone(found["remedy"])
        self.assertIn("too small for the next ones: if the last tenth of its requests came again, the program would need 120 MiB.",
                      found["advice"])
        enough = {"settings": {"GPUPOOL_LIMIT": "120MiB"}, "action": None}
        self.assertEqual(self.refused(10, 10, remedy=enough)["remedy"]["settings"], enough["settings"])
        self.assertEqual(self.refused(9, 20)["remedy"]["settings"], {"GPUPOOL_LIMIT": "110MiB"}, "a tenth of nine is none")
        freed = self.refused(10, 10, ends=True)
        self.assertIn("too small for the next ones", freed["advice"], "what is freed after the refusal does not count")

    def test_what_is_replaced_is_not_held_twice(self):
        """A buffer of 40 MiB that is freed and made anew in each round; then a request of 55 MiB."""
        self.assertEqual(self.refused(1, 55, replaces=40)["remedy"]["settings"], {"GPUPOOL_LIMIT": "110MiB"})
        self.assertIn("too small", self.refused(1, 65, replaces=40)["advice"])


class Killed(Reports):
    command = "leaks"

    def test_what_a_killed_program_held_is_found(self):
        snapshot = ordinary().snapshot(reason="recovered")
        text = self.report(snapshot, "--error-exitcode=9", status=9).stdout
        self.assertIn("LEAK SUMMARY: 24,117,248 bytes never freed in 3 allocations\n", text)
        self.assertIn("did not exit normally", " ".join(text.split()))
        self.narrow(text)
        self.assertTrue(self.document(snapshot)["is_leak"])
        self.report(snapshot)
        program = Program()
        program.free(program.alloc(MIB, stack=0))
        self.report(program.snapshot(reason="recovered"), "--error-exitcode=9")


class Relation(Reports):
    """Which two snapshots are compared."""

    def compare(self, change, command):
        before, after = ordinary().snapshot(), ordinary().snapshot()
        after["process"].update(change)
        paths = self.write("a.json", before), self.write("b.json", after)
        text = self.run_tool(command, *paths).stdout
        self.narrow(text)
        document = json.loads(self.run_tool(command, *paths, "--json").stdout)
        self.expect_valid(document, command)
        return " ".join(text.split()), document["relation"]

    def test_unrelated_programs_are_said(self):
        for command in ("diff", "leaks"):
            text, relation = self.compare({}, command)
            self.assertEqual(relation, "same_process")
            self.assertNotIn("The snapshots are of", text)
            for change in ({"pid": 4712}, {"host": "node2"}, {"start_time_us": 1}):
                text, relation = self.compare(change, command)
                self.assertEqual(relation, "same_program")
                self.assertIn("! The snapshots are of two processes of app: what differs", text)
            text, relation = self.compare({"program": "/opt/other"}, command)
            self.assertEqual(relation, "different_programs")
            self.assertIn("! The snapshots are of different programs, app and other: the differences", text)
            self.assertIsNone(self.compare({"program": ""}, command)[1])
        path = self.write("one.json", ordinary().snapshot())
        self.assertIsNone(json.loads(self.run_tool("leaks", path, "--json").stdout)["relation"])

    def test_a_script_is_known_by_its_own_name(self):
        def snapshot(script):
            snapshot = ordinary().snapshot()
            snapshot["process"].update(program="/usr/bin/python3.11", command_line=["python3", "-u", script, "--x"])
            return snapshot
        train, serve = self.write("a.json", snapshot("a/train.py")), self.write("b.json", snapshot("b/serve.py"))
        self.assertIn("programs, train.py and serve.py:", " ".join(self.run_tool("diff", train, serve).stdout.split()))
        self.assertNotIn("The snapshots are of", self.run_tool("diff", train, train).stdout)


class Rebuilt(Reports):
    """A program that was built again after the snapshot lends it no names."""

    def setUp(self):
        super().setUp()
        path = self.write("s.json", self.snapshot(self.path("nowhere")))
        result = subprocess.run([self.tool, "symbolize", path], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                encoding="utf-8", check=False)
        if "without it" in result.stderr:
            self.skipTest("built without libdw")
        self.assertNotIn("another build", self.run_tool("summary", path).stdout)  # a file that is gone is no other build

    def snapshot(self, path):
        snapshot = ordinary().snapshot()
        snapshot["modules"][0].update(path=path, build_id="00" * 20)
        for frame in snapshot["frames"]:
            if frame["module"] == 0:
                frame.update(function="", file="", line=0)
        return snapshot

    def test_every_report_names_the_module(self):
        path = self.write("s.json", self.snapshot(self.tool))
        sentence = "Functions of gpupool have no names: the program ran with another build than is here."
        for command in ("summary", "sites", "leaks", "frag", "timeline", "diff"):
            files = [path] * (2 if command == "diff" else 1)
            text = self.run_tool(command, *files).stdout
            self.narrow(text)
            self.assertIn(sentence, " ".join(text.split()), command)
            document = json.loads(self.run_tool(command, "--json", *files).stdout)
            self.expect_valid(document, command)
            (facts,) = document.get("snapshots", [document])
            self.assertEqual(facts["rebuilt_modules"], [self.tool] * len(files))
            self.assertNotIn("another build", self.run_tool(command, "--no-symbols", *files).stdout)
        result = self.run_tool("export", "--to", "folded", path)
        self.one_line(result.stderr)
        self.assertIn(sentence, result.stderr)

    def test_the_c_library_needs_no_names(self):
        """It asks for no memory of its own; every snapshot of another machine would say so."""
        path = shutil.copy(self.tool, self.path("libc.so.6"))
        text = self.run_tool("summary", self.write("s.json", self.snapshot(path))).stdout
        self.assertNotIn("have no names", " ".join(text.split()))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    cli.GPUPOOL, cli.STUB = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])
