#!/usr/bin/env python3
"""gpupool replay: what it makes of recordings, and of tables of requests.

    cli_replay.py GPUPOOL PRELOAD_STUB [TEST ...]
"""

import json
import os
import sys
import unittest

import cli
from cli import INPUT, MIB, USAGE, device_of, gauge
from cli_moments import without_times
from report_case import Program, Reports
from test_expandable import Allocator
from test_import import entry

TRACE = "op,id,size,stream\n"
RMM = "Thread,Time,Action,Pointer,Size,Stream\n"
KINDS = ("round", "naive", "unpooled", "segment", "vmm")


def rows(*steps):
    """'1+32' allocates block 1 of 32 MiB, '1-' frees it."""
    text = TRACE
    for step in steps:
        name, sign, size = step.partition("+")
        text += "A,%s,%d,0\n" % (name, float(size) * MIB) if sign else "F,%s,0,0\n" % step[:-1]
    return text


class Requests(Program):
    """Memory of cudaMalloc, which is asked for in no stream."""

    def event(self, action, detail="", **columns):
        return super().event(action, detail, **{**columns, "stream": -1})


class Torch:
    """A program under PyTorch. Sizes are MiB; each address is a segment of its own."""

    def __init__(self):
        self.trace, self.sizes, self.idle, self.states = [], {}, [], {}

    def event(self, action, address):
        self.trace.append(entry(action, address, self.sizes[address] * MIB, 1700000000000000 + 10 * len(self.trace)))
        if action == "free_completed":
            self.idle.append(address)
        self.states[address] = {"free_requested": "active_pending_free", "free_completed": "inactive"}.get(action, "active_allocated")

    def alloc(self, size):
        address = next((one for one in self.idle if self.sizes[one] == size), None)
        if address:
            self.idle.remove(address)
        else:
            address = len(self.sizes) + 1 << 32
            self.sizes[address] = size
            self.event("segment_alloc", address)
        self.event("alloc", address)
        return address

    def free(self, address):
        self.event("free_requested", address)
        self.event("free_completed", address)

    def snapshot(self):
        return {"device_traces": [self.trace], "segments": [
            {"device": 0, "address": at, "total_size": size * MIB, "stream": 0, "segment_type": "large", "frames": [], "blocks": [
                {"address": at, "size": size * MIB, "requested_size": size * MIB, "state": self.states[at], "frames": []}]}
            for at, size in self.sizes.items()]}


class Replay(Reports):
    command = "replay"

    def replay(self, text, *arguments):
        """The one recording of the document."""
        document = json.loads(self.run_tool("replay", "--json", "-", *arguments,
                                            stdin=text if isinstance(text, str) else json.dumps(text)).stdout)
        self.expect_valid(document, "replay")
        self.assertEqual(len(document["recordings"]), 1)
        return document["recordings"][0]

    def cold(self, text, *arguments, device=0):
        result, = self.replay(text, *arguments)["results"]
        return next(one for one in result["cold"]["devices"] if one["device"] == device)

    def test_hits_and_misses(self):
        figures = self.cold(rows("1+32", "1-", "2+32", "3+32"))
        self.assertEqual((figures["cache_hits"], figures["cache_misses"], figures["driver_allocs"]), (1, 2, 2))
        self.assertEqual((figures["live_peak"], figures["held_peak"]), (64 * MIB, 64 * MIB))

    def test_a_second_pass_finds_what_the_first_left(self):
        result, = self.replay(rows("1+32", "2+16", "1-"))["results"]
        self.assertEqual((result["cold"]["call_count"], result["warm"]["call_count"]), (2, 0))
        self.assertEqual(result["warm"]["devices"][0]["cache_hits"], 2)
        self.assertGreater(result["cold"]["cost_ns"], 80000)

    def test_a_free_that_makes_all_idle_behind_an_allocation(self):
        """It takes nothing from what the allocation knew."""
        program = Requests()
        blocks = [program.alloc(4 * MIB) for _ in range(12)]
        last = [program.alloc(8 * MIB) for _ in range(2)]
        first = program.live[blocks[0]]["address"]
        for block in blocks:
            program.free(block, complete=False)
        program.complete(blocks[0])
        program.alloc(4 * MIB, address=first)
        program.free(last[0], complete=False)
        for block in blocks[1:]:
            program.complete(block)
        program.free(last[1], complete=False)
        figures = self.cold(program.snapshot())
        self.assertEqual((figures["cache_hits"], figures["cache_misses"]), (1, 14))

    def test_every_type(self):
        results = self.replay(rows("1+32", "1-", "2+16"), "--type", "all")["results"]
        self.assertEqual([result["type"] for result in results], list(KINDS))
        self.assertEqual([result["settings"]["type"] for result in results], list(KINDS))
        calls = {result["type"]: result["cold"]["calls"] for result in results}
        self.assertEqual((calls["unpooled"]["cuMemAlloc"], calls["unpooled"]["cuMemFree"]), (2, 1))
        self.assertEqual((calls["segment"]["cuMemAlloc"], calls["segment"]["cuMemFree"]), (1, 0))
        self.assertGreater(calls["vmm"]["cuMemMap"], 0)

    def test_when_memory_is_ready(self):
        text = rows("1+32", "1-", "2+32", "2-", "3+32", "3-", "4+32")
        self.assertEqual(self.cold(text)["cache_hits"], 3)
        self.assertEqual(self.cold(text, "--ready", "at-once")["cache_hits"], 3)
        self.assertEqual(self.cold(text, "--ready", "sync=4")["cache_hits"], 2)
        alone = ("--max-deferred", "none")  # no free waits
        self.assertEqual(self.cold(text, "--ready", "sync=100", *alone)["cache_hits"], 0)
        self.assertEqual(self.cold(text, "--ready", "lag=100", *alone)["cache_hits"], 0)
        self.assertEqual(self.cold(text, "--ready", "sync=100")["cache_hits"], 2)
        self.assertEqual(self.cold(text, "--ready", "lag=0")["cache_hits"], 3)
        many = rows(*(step for block in range(200) for step in ("%d+32" % block, "%d-" % block)))
        self.assertGreater(self.cold(many, "--ready", "lag=20", *alone)["cache_hits"], 150)
        self.assertGreater(self.cold(many, "--ready", "lag=20", *alone)["held_peak"], 5 * 32 * MIB)

    def test_small_requests_share_a_page(self):
        self.assertEqual(self.cold(rows(*("%d+0.25" % i for i in range(8))), "--type", "unpooled")["held_peak"], 2 * MIB)
        self.assertEqual(self.cold(rows(*("%d+0.25" % i for i in range(9))), "--type", "unpooled")["held_peak"], 4 * MIB)
        self.assertEqual(self.cold(rows("1+1.25"), "--type", "unpooled")["held_peak"], 2 * MIB)
        emptied = rows(*("%d+0.25" % i for i in range(9)), *("%d-" % i for i in range(9)), "10+2")
        self.assertEqual(self.cold(emptied, "--type", "unpooled")["held_peak"], 4 * MIB)

    def test_what_does_not_fit_is_said(self):
        figures = self.cold(rows("1+32", "2+32", "3+8"), "--capacity", "48MiB")
        self.assertEqual((figures["refused"], figures["first_refused"], figures["first_refused_size"]), (1, 1, 32 * MIB))
        text = self.run_tool("replay", "--capacity", "48MiB", "-", stdin=rows("1+32", "2+32", "3+8")).stdout
        self.assertIn("round does not fit: it refuses 1 request, the first (number 1, counted from 0) for 32 MiB", text)
        figures = self.cold(rows("1+32", "2+32", "3+8"), "--limit", "48MiB")
        self.assertEqual((figures["refused"], figures["refused"] and figures["first_refused"]), (1, 1))

    def test_a_device_that_none_is(self):
        """Twice its memory has no addresses, and a request of 1 PiB would be millions of chunks."""
        for kind in ("vmm", "segment"):
            for size, refused in ((8, 0), (1 << 30, 1)):
                figures = self.cold(rows("1+%d" % size), "--capacity", "8388607TiB", "--type", kind)
                self.assertEqual(figures["refused"], refused)

    def test_idle_memory_makes_room(self):
        self.assertEqual(self.cold(rows("1+32", "1-", "2+40"), "--capacity", "48MiB")["refused"], 0)

    def test_zero_bytes_are_no_request_of_memory(self):
        self.assertEqual(self.cold(TRACE + "A,1,0,0\nF,1,0,0\n")["driver_allocs"], 0)

    def test_a_log_of_rmm(self):
        log = RMM + ("7,23:59:59.999000,allocate,0x7f0000000000,1048577,0x0\n"
                     "7,23:59:59.999500,free,0x7f0000000000,1048577,0x0\n"
                     "8,00:00:00.000001,allocate,0x7f0000000000,1048577,0x2\n"
                     "8,00:00:00.000002,allocate failure,(nil),4096000000,0x2\n"
                     "8,00:00:00:000003,free,0x7f0000100000,5,0x2\n")
        recording = self.replay(log, "--capacity", "1GiB")
        figures, = recording["results"][0]["cold"]["devices"]
        self.assertEqual((figures["cache_hits"], figures["cache_misses"], figures["granted"]), (1, 1, 0))
        self.assertEqual((recording["requests"], recording["left_out_frees"], recording["pool"]), (4, 1, ""))
        self.assertEqual(self.cold(log)["granted"], 1)

    def test_other_logs_of_rmm(self):
        """Times as seconds since 1970, other words; and the log of a program that was killed."""
        log = RMM + ("140573312345856,1634567890.123456,allocate,0x7f8a40000000,2097152,0x7f8a38001020\n"
                     "140573312345856,1634567890.345678,deallocate,0x7f8a40000000,2097152,0x7f8a38001020\n"
                     "2342727,1634567891.841961,allocate,0x10012400000,2097152,0\n")
        self.assertEqual(self.cold(log)["cache_hits"], 1)
        self.assertEqual(self.cold(log + "2342727,163456789")["cache_hits"], 1)
        self.assertIn("line 5: a row has", self.run_tool("replay", "-", stdin=log + "2342727,163456789\n", status=INPUT).stderr)

    def test_rows_that_are_wrong(self):
        for text, line, what in (
                (TRACE + "A,1,5,0\nA,1,5,0\n", 3, "the block is allocated already"),
                (TRACE + "A,1,x,0\n", 2, "the size is not a number"),
                (TRACE + "A,,5,0\n", 2, "the id is not a number"),
                (TRACE + "A,1,5\n", 2, "a row has the four fields"),
                (TRACE + "A,1,5,0,0\n", 2, "a row has the four fields"),
                (TRACE + "A,1,5,0,0,0,0,0\n", 2, "a row has the four fields"),
                (TRACE + "\nB,1,5,0\n", 3, "the op is neither A nor F"),
                (TRACE + "A,1,9007199254740992,0\n", 2, "the size is no"),
                (TRACE + "A,1,5,s\n", 2, "the stream is not a number"),
                (RMM + "1,10:00,allocate,0x1,5,0\n", 2, "the time is not like 12:34:56.789012"),
                (RMM + "1,10:00:00.000000,allocate,ptr,5,0\n", 2, "the pointer is not a number"),
                (RMM + "1,10:00:00.000000,allocated,0x1,5,0\n", 2, "the action is not allocate"),
                (RMM + "1,10:00:00.000000,free,0x1,5\n", 2, "a row has the six fields")):
            with self.subTest(text=text):
                error = self.run_tool("replay", "-", stdin=text, status=INPUT)
                self.one_line(error.stderr)
                self.assertIn("stdin: line %d: %s" % (line, what), error.stderr)
                self.assertEqual(error.stdout, "")

    def test_ends_of_lines_and_an_empty_table(self):
        self.assertEqual(self.cold((rows("1+2", "1-")[:-1]).replace("\n", "\r\n"))["driver_allocs"], 1)
        recording = self.replay(TRACE)
        self.assertEqual((recording["requests"], recording["results"][0]["cold"]["call_count"]), (0, 0))

    def test_a_snapshot_tells_when_memory_was_ready(self):
        program = Requests()
        for complete in (False, True):
            block = program.alloc(32 * MIB)
            program.free(block, complete=complete)
        program.alloc(32 * MIB)
        recording = self.replay(program.snapshot())
        figures, = recording["results"][0]["cold"]["devices"]
        # The second block was known to be complete before the third was asked for, and with it the first.
        self.assertEqual((recording["ready"], figures["cache_hits"], figures["cache_misses"]), ("recorded", 1, 2))
        self.assertEqual(self.cold(program.snapshot(), "--ready", "at-once")["cache_hits"], 2)

    def test_what_was_held_before_the_events_is_there(self):
        program = Requests()
        for _ in range(3):
            program.alloc(32 * MIB)
        program.rows.clear()
        program.free(1)
        recording = self.replay(program.snapshot(recorded_since_ns=5))
        figures, = recording["results"][0]["cold"]["devices"]
        self.assertEqual((figures["live_peak"], recording["requests"]), (96 * MIB, 4))
        self.assertTrue(recording["partial"])

    def test_devices(self):
        program = Requests()
        program.alloc(32 * MIB)
        program.alloc(8 * MIB, device=3)
        self.assertEqual([one["device"] for one in self.replay(program.snapshot())["results"][0]["cold"]["devices"]], [0, 3])
        only, = self.replay(program.snapshot(), "--device", "3")["results"][0]["cold"]["devices"]
        self.assertEqual((only["device"], only["live_peak"]), (3, 8 * MIB))

    def test_settings_are_those_of_the_recording(self):
        program = Requests()
        program.alloc(32 * MIB)
        snapshot = program.snapshot(settings={"type": "segment", "reserve": "0", "round_cutoff": "24", "sources": {}})
        settings = self.replay(snapshot)["results"][0]["settings"]
        self.assertEqual((settings["type"], settings["reserve"], settings["round_cutoff"]), ("segment", "0", "24"))
        settings = self.replay(snapshot, "--type", "naive", "--reserve=1GiB")["results"][0]["settings"]
        self.assertEqual((settings["type"], settings["reserve"], settings["round_cutoff"]), ("naive", "1GiB", "24"))
        self.environment["GPUPOOL_TYPE"] = "vmm"
        self.assertEqual(self.replay(rows("1+2"))["results"][0]["settings"]["type"], "round")

    def test_an_allocation_that_failed(self):
        program = Requests()
        program.alloc(32 * MIB)
        program.event("oom", size=64 * MIB)
        snapshot = program.snapshot()
        self.assertEqual(self.cold(snapshot)["granted"], 1)
        self.assertEqual(self.cold(snapshot, "--limit", "80MiB")["granted"], 0)
        self.assertIn("round serves 1 request that the program did not get",
                      self.run_tool("replay", self.write("oom.json", snapshot)).stdout)
        snapshot["reason"] = "oom"
        snapshot["oom"] = {"time_ns": program.time, "device": 0, "requested": 64 * MIB, "largest_free": 0, "busy_context": 1}
        self.assertEqual(self.cold(snapshot)["granted"], 0)

    def test_wrong_arguments(self):
        trace = self.write("trace.csv", rows("1+2"))
        for arguments, what in ((["--ready", "soon"], "accepted: recorded, at-once, sync=N or lag=N"),
                                (["--ready", "sync=0"], "accepted: recorded"), (["--ready", "sync="], "accepted: recorded"),
                                (["--capacity", "much"], "accepted: a size such as 80GiB"), (["--capacity", "0"], "accepted: a size"),
                                (["--type", "rond"], "accepted: round|naive"), (["--limit", "x"], "--limit=x is malformed"),
                                (["--max-cached=-1"], "--max-cached=-1 is malformed"), (["--stream", "1"], "unknown option --stream"),
                                (["--typ", "round"], "did you mean --type")):
            with self.subTest(arguments=arguments):
                error = self.run_tool("replay", *arguments, trace, status=USAGE)
                self.one_line(error.stderr)
                self.assertIn(what, error.stderr)
        error = self.run_tool("replay", "--ready", "recorded", trace, status=INPUT)
        self.assertIn("does not record when memory was ready", error.stderr)
        self.assertIn("a file is missing", self.run_tool("replay", status=USAGE).stderr)
        self.assertIn("No such file", self.run_tool("replay", "none.csv", status=INPUT).stderr)

    def test_several_files(self):
        paths = [self.write("%d.csv" % i, rows("1+32")) for i in range(2)]
        text = self.run_tool("replay", "--type", "all", *paths).stdout
        self.assertEqual(text.count("gpupool replay: "), 2)
        self.assertEqual(text.count("Next: "), 1)
        self.assertIn("\n\ngpupool replay: %s\n" % paths[1], text)
        self.assertTrue(text.endswith("Next: gpupool tune %s\n" % paths[1]), text)

    def test_the_row_of_the_recording(self):
        """By the pool's own statistics: of the devices with requests, added up."""
        program = Requests()
        for device in (0, 1):
            program.free(program.alloc(32 * MIB, device=device))
        stats = dict(reserved_bytes=gauge(0, 40 * MIB), driver_allocs=3, driver_frees=1, deferred_bytes=gauge(0, 8 * MIB), cache_hits=1,
                     cache_misses=3)
        snapshot = program.snapshot(devices=[device_of(i, **stats) for i in range(3)], settings={"type": "naive"})
        path = self.write("s.json", snapshot)
        text = self.run_tool("replay", path, "--type=round").stdout
        self.assertRegex(text, r"(?m)^  recorded +80 MiB +1\.25 +25\.0% +8 +- +- +- +16 MiB$")
        self.assertIn("\nrecorded: gpupool, type naive, by its own statistics\n", text)
        # Without hits and misses there is no rate, and without memory of the driver's no row.
        for device in snapshot["devices"]:
            device["stats"].update(cache_hits=0, cache_misses=0)
        self.assertRegex(self.run_tool("replay", self.write("s.json", snapshot)).stdout, r"(?m)^  recorded +80 MiB +1\.25 +- +8 +- ")
        self.assertNotIn("\n  recorded", self.run_tool("replay", self.write("s.json", program.snapshot())).stdout)

    def test_snapshots_of_pytorch(self):
        """Their events may have no times; then each is a step after the one before."""
        path = self.write("torch.json", without_times())
        text = self.run_tool("replay", path).stdout
        self.assertIn("\nrecorded: PyTorch, by its own statistics\n", text)
        self.assertRegex(text, r"(?m)^requests +\d; the program used at most 110 MiB$")
        self.assertRegex(text, r"(?m)^  recorded +110 MiB +1\.00 ")

    def test_pytorch_reuses_one_block(self):
        """As in a loop that allocates one tensor: PyTorch had 64 MiB, and so has the replay."""
        program = Torch()
        for _ in range(100):
            program.free(program.alloc(64))
        for kind, calls in (("round", 1), ("naive", 1), ("segment", 1), ("unpooled", 200)):
            result, = self.replay(program.snapshot(), "--type", kind)["results"]
            figures, = result["cold"]["devices"]
            self.assertEqual((figures["held_peak"], figures["live_peak"], result["cold"]["call_count"]),
                             (64 * MIB, 64 * MIB, calls), kind)
        self.assertEqual((figures["refused"], figures["driver_allocs"]), (0, 100))
        found = json.loads(self.run_tool("tune", "--json", "-", stdin=json.dumps(program.snapshot())).stdout)
        self.assertEqual((found["scores"]["round"]["held"], found["scores"]["round"]["calls"]), (64 * MIB, 1))

    def test_a_pending_block_of_pytorch_delays_no_other(self):
        """It is in use on a second stream, too: it is not ready before its free_completed, but what was freed later is."""
        program = Torch()
        pending = program.alloc(32)
        program.event("free_requested", pending)
        for _ in range(10):
            program.free(program.alloc(64))
        program.alloc(32)  # the pending block cannot serve it
        program.event("free_completed", pending)
        program.alloc(32)
        figures = self.cold(program.snapshot())
        self.assertEqual((figures["cache_hits"], figures["cache_misses"]), (10, 3))
        self.assertEqual((figures["held_peak"], figures["live_peak"]), (128 * MIB, 96 * MIB))
        self.assertEqual(self.cold(program.snapshot(), "--ready", "at-once")["live_peak"], 64 * MIB)

    def test_pending_blocks_of_pytorch_at_both_ends(self):
        """The first was freed before the events, the last completes after them: both are held meanwhile."""
        program = Torch()
        first, last = program.alloc(32), program.alloc(64)
        program.event("free_requested", first)
        program.trace.clear()
        program.event("free_completed", first)
        again = program.alloc(32)
        program.event("free_requested", last)
        program.free(again)
        program.alloc(64)
        figures = self.cold(program.snapshot())
        self.assertEqual((figures["cache_hits"], figures["held_peak"]), (1, 160 * MIB))

    def test_random_histories_of_pytorch(self):
        """Where no block is pending, memory is ready at once."""
        for seed in range(3):
            program = Allocator(seed)
            program.delays = False
            snapshot = program.run(300).snapshot()
            for kind in KINDS:
                with self.subTest(seed=seed, kind=kind):
                    recorded, at_once = (self.cold(snapshot, "--type", kind, "--ready", ready) for ready in ("recorded", "at-once"))
                    del recorded["fences"], at_once["fences"]  # by the clock, on which free_completed is later
                    self.assertEqual(recorded, at_once)

    def test_snapshots_that_are_damaged(self):
        text = json.dumps(without_times())[:-20]
        error = self.run_tool("replay", "-", stdin=text, status=INPUT)
        self.one_line(error.stderr)
        self.assertIn("gpupool: stdin: offset %d: " % len(text), error.stderr)

    def test_when_memory_is_ready_is_said(self):
        path = self.write("trace.csv", rows("1+32", "1-"))
        for options, words in (((), "before the next request"), (("--ready=at-once",), "before the next request"),
                               (("--ready=sync=7",), "at a synchronization after each 7 requests"),
                               (("--ready=lag=0",), "as soon as the pool asks; the program never synchronizes"),
                               (("--ready=lag=9",), "9 requests later; the program never synchronizes")):
            self.assertIn("\nready      %s\n" % words, self.run_tool("replay", path, *options).stdout)

    def test_what_was_not_recorded_is_said(self):
        row = "8,00:00:00.000003,free,0x%d,5,0x2\n"
        path = self.write("rmm.csv", RMM + row % 1)
        self.assertIn("\nmissing    the memory of 1 free: allocated before, and left out\n", self.run_tool("replay", path).stdout)
        path = self.write("rmm.csv", RMM + row % 1 + row % 2)
        self.assertIn("\nmissing    the memory of 2 frees: allocated before, and left out\n", self.run_tool("replay", path).stdout)

    def test_the_text(self):
        text = self.run_tool("replay", self.write("trace.csv", rows("1+32", "1-", "2+32"))).stdout
        self.assertRegex(text, r"(?m)^  round +32 MiB +1\.00 +50\.0% +1 +0 ")
        self.assertTrue(text.endswith("Next: gpupool replay %s --type all\n" % self.path("work", "trace.csv")), text)
        self.assertLessEqual(max(map(len, text.splitlines())), 93)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    cli.GPUPOOL, cli.STUB = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])
