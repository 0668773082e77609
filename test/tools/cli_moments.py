#!/usr/bin/env python3
"""--at: what was held at a moment, in the commands that take it.

    cli_moments.py GPUPOOL PRELOAD_STUB [TEST ...]
"""

import json
import os
import sys
import unittest

import cli
from cli import MIB, USAGE
from report_case import ACTIONS, Program, Reports, ordinary

NO_TIMES = "its events have no times"
LOAD, GROW = "Model::load(std::string const&)", "Cache::grow()"


def two_devices():
    """Device 0 holds most early, device 1 late; memory runs out on 1, then the program frees nearly everything."""
    program = Program()
    early = program.alloc(60 * MIB, stack=0)  # events 0, 1
    program.free(early)  # 2, 3
    kept = program.alloc(10 * MIB, stack=0)  # 4, 5
    cache = program.alloc(50 * MIB, 64 * MIB, stack=1, device=1)  # 6, 7
    program.event("oom", device=1, size=40 * MIB, stack=1)  # 8
    program.free(cache)  # 9, 10
    program.event("oom", device=0, size=500 * MIB, stack=0)  # 11
    program.alloc(2 * MIB, stack=0)  # 12, 13
    program.free(kept)  # 14, 15
    return program


def without_times():
    """As older versions of PyTorch write it, of two devices: 0 holds 60 MiB and then 10, 1 holds 50 and runs out of memory."""
    def entry(action, address, size):
        return {"action": action, "addr": address << 32, "size": size * MIB, "stream": 0, "frames": []}
    traces = [[entry("segment_alloc", 1, 60), entry("alloc", 1, 60), entry("free_requested", 1, 60), entry("free_completed", 1, 60),
               entry("alloc", 1, 10)], [entry("segment_alloc", 2, 50), entry("alloc", 2, 50), entry("oom", 0, 40)]]
    def segment(device, size, *blocks):
        address = device + 1 << 32
        return {"device": device, "address": address, "total_size": size * MIB, "stream": 0, "segment_type": "large",
                "allocated_size": 0, "active_size": 0, "blocks": [
                    {"size": part * MIB, "requested_size": part * MIB, "state": state, "frames": []} for part, state in blocks]}
    return {"segments": [segment(0, 60, (10, "active_allocated"), (50, "inactive")), segment(1, 50, (50, "active_allocated"))],
            "device_traces": traces}


class Moments(Reports):
    command = "sites"
    commands = ("sites", "frag", "timeline")

    def live(self, *arguments, program=None):
        """What sites says is live, in MiB by name."""
        facts = self.facts(program or two_devices(), *arguments)
        live = {site["name"]: site["flat"]["live"]["bytes"] // MIB for site in facts["sites"]}
        return {name: size for name, size in live.items() if size}

    def test_a_peak_before_the_events_has_no_time(self):
        program = Program()
        program.alloc(20 * MIB, stack=0)
        held = program.snapshot()
        program.alloc(MIB, stack=1, device=1)
        program.free(2)
        text = self.report(program.snapshot(keep=2)).stdout
        self.assertIn("Device 0 used most, 20 MiB, before the first event.", text)
        held["events"] = {name: [] for name in held["events"] if name not in ("actions", "details")}
        self.assertIn("Device 0 used most, 20 MiB, at the end, as far as is known without events.",
                      self.report(dict(held, events=dict(held["events"], actions=[], details=[]))).stdout)
        self.assertNotIn("Device 1", self.report(program.snapshot(), "--thread=worker").stdout)

    def test_out_of_memory_is_of_its_moment_and_device(self):
        self.assertEqual(self.live("--at", "oom"), {GROW: 50})  # the last one after which device 1 got nothing
        self.assertEqual(self.live("--at", "oom=1"), {GROW: 50})
        self.assertEqual(self.live("--at", "oom=2"), {LOAD: 10})
        self.assertEqual(self.live("--at=oom=1", "--device=0"), {LOAD: 10})
        facts = self.facts(two_devices(), "--at", "oom")
        self.assertEqual(facts["at"], {"what": "oom", "oom": 1, "event": 8, "time_ns": 9000, "device": 1})
        self.assertEqual(facts["sort"], "live")
        text = self.report(two_devices(), "--at=oom").stdout
        self.assertIn("allocated when memory ran out on device 1 (9.00 us, event 8), by function: 50 MiB", " ".join(text.split()))
        self.narrow(text)

    def test_every_way_to_say_when(self):
        for when, held in (("exit", {LOAD: 2}), ("end", {LOAD: 2}), ("peak", {LOAD: 60}), ("0", {}), ("1", {LOAD: 60}),
                           ("5", {LOAD: 10}), ("7", {LOAD: 10, GROW: 50}), ("8us", {LOAD: 10, GROW: 50}),
                           ("8.9us", {LOAD: 10, GROW: 50}), ("0s", {}), ("15", {LOAD: 2})):
            self.assertEqual(self.live("--at", when), held, when)

    def test_sums_are_of_one_moment(self):
        """60 MiB on device 0 and 50 MiB on device 1 are never held together."""
        facts = self.facts(two_devices())
        self.assertEqual(facts["sum"]["peak"]["bytes"], 60 * MIB)
        self.assertEqual(facts["peak"], {"what": "peak", "oom": None, "event": 1, "time_ns": 2000, "device": None})
        self.assertEqual([(peak["device"], peak["bytes"]) for peak in facts["peaks"]], [(0, 60 * MIB), (1, 50 * MIB)])
        self.assertIn("Sums over devices are of one moment", self.report(two_devices()).stdout)
        self.assertEqual(self.facts(two_devices(), "--device=1")["sum"]["peak"]["bytes"], 50 * MIB)
        snapshot = two_devices().snapshot()
        events = snapshot["events"]
        events["action"] = [ACTIONS.index("mode") if action == ACTIONS.index("oom") else action for action in events["action"]]
        summary = self.report(snapshot, command="summary").stdout
        self.assertIn("Of the 60 MiB in use at its peak", " ".join(summary.split()))

    def test_all_commands_understand_the_same(self):
        for command in self.commands:
            for when in ("oom", "oom=2", "peak", "exit", "8us", "8"):
                self.narrow(self.report(two_devices(), "--at", when, command=command).stdout)
            for when in ("now", "oom=0", "oom=", "oom=x", "1.5", "1e3", "", "-1", "1parsec", "4294967296"):
                result = self.report(two_devices(), "--at=" + when, command=command, status=USAGE)
                self.one_line(result.stderr)
                self.assertIn("--at=%s is malformed; accepted: oom, oom=N, peak, exit" % when, result.stderr)
            for when, part in (
                    ("oom=3", "there are 2 out-of-memory events; --at oom=3 names none of them"),
                    ("1s", "--at=1s is after the last event, at 16.0 us"),
                    ("16", "it has 16 events, numbered from 0; --at 16 names none of them")):
                result = self.report(two_devices(), "--at", when, command=command, status=USAGE)
                self.one_line(result.stderr)
                self.assertIn(part, result.stderr)
            single = Program()
            single.event("trim")
            self.assertIn("it has 1 event, numbered", self.report(single, "--at", "9", command=command, status=USAGE).stderr)
        result = self.report(ordinary(), "--at=oom", status=USAGE)
        self.assertIn("it has no out-of-memory event", result.stderr)
        result = self.report(ordinary(), "--at=oom=1", status=USAGE)
        self.assertIn("there are none; --at oom=1 names none", result.stderr)
        other = self.write("other.json", ordinary().snapshot())
        self.assertIn("unknown option --at",
                      self.report(ordinary(), other, "--at=peak", command="diff", status=USAGE).stderr)

    def test_a_history_that_is_cut_off(self):
        snapshot = two_devices().snapshot(keep=9)
        result = self.report(snapshot, "--at=3us", status=USAGE)
        self.assertIn("--at=3us is before the recorded events, which begin at 8.00 us", " ".join(result.stderr.split()))
        self.assertEqual(self.live("--at=oom=1", program=snapshot), {GROW: 50})
        oom = {"time_ns": 2000, "device": 0, "requested": 7, "live": 0, "cached": 0, "largest_free": 0}
        snapshot = two_devices().snapshot(keep=9, oom=oom, reason="recovered")
        result = self.report(snapshot, "--at=oom=1", status=USAGE)
        self.assertIn("memory ran out before the first recorded event: what was allocated then is unknown", result.stderr)
        self.assertEqual(self.live("--at=oom=2", program=snapshot), {GROW: 50})

    def test_the_report_of_the_snapshot_is_one_of_them(self):
        """Written when memory ran out, and events were not recorded."""
        oom = {"time_ns": 2000, "device": 0, "requested": 7, "live": 0, "cached": 0, "largest_free": 0}
        snapshot = ordinary().snapshot(reason="oom", oom=oom)
        self.assertEqual(self.live("--at=oom", program=snapshot), {LOAD: 20, GROW: 3})
        oom.update(device=0, requested=500 * MIB, time_ns=12000)
        facts = self.facts(two_devices().snapshot(reason="oom", oom=oom), "--at=oom")
        self.assertEqual((facts["at"]["oom"], facts["at"]["event"]), (2, 11))

    def sizes(self, *arguments):
        """What is live then, in MiB: without stacks its sizes are its names."""
        facts = self.facts(without_times(), *arguments)
        return facts, [site["flat"]["live"]["bytes"] // MIB for site in facts["sites"] if site["flat"]["live"]["bytes"]]

    def test_without_times_a_moment_is_of_one_device(self):
        facts, sizes = self.sizes("--at=peak")
        self.assertEqual((facts["at"]["device"], facts["at"]["event"], sizes), (0, 1, [60]))
        facts, sizes = self.sizes("--at=4")
        self.assertEqual((facts["at"]["device"], sizes), (0, [10]))
        facts, sizes = self.sizes("--at=6")
        self.assertEqual((facts["at"]["device"], sizes), (1, [50]))
        facts, sizes = self.sizes("--at=oom")
        self.assertEqual((facts["at"]["device"], facts["at"]["oom"], sizes), (1, 1, [50]))
        self.assertEqual(self.sizes("--at=oom", "--device=1")[1], [50])
        self.assertEqual(self.sizes("--at=2", "--device=1")[1], [])
        self.assertIn("The events have no times, so what one device used at the peak of another is unknown.",
                      " ".join(self.report(without_times()).stdout.split()))
        self.assertIn("allocated after event 4 on device 0, by size", " ".join(self.report(without_times(), "--at=4").stdout.split()))

    def test_without_times_what_another_device_held_is_not_known(self):
        for command in self.commands:
            for options, part in ((("--at=oom=1", "--device=0"), "what was allocated on device 0 when memory ran out on device 1 is unknown"),
                                  (("--at=1s",), "--at takes the number of an event, as in --at 7")):
                result = self.report(without_times(), *options, command=command, status=USAGE)
                self.one_line(result.stderr)
                self.assertIn("%s" % NO_TIMES + (": " if "1s" not in options[0] else "; ") + part, result.stderr)
        result = self.report(without_times(), "--at=oom", "--device=0", status=USAGE)
        self.assertIn("it has no out-of-memory event on device 0", result.stderr)

    def test_the_map_of_that_moment(self):
        facts = self.facts_of("frag", "--at=oom")
        (device,) = facts["devices"]
        self.assertEqual((device["device"], facts["at"]["event"], facts["time_ns"]), (1, 8, 9000))
        self.assertEqual(device["live"], {"bytes": 64 * MIB, "count": 1})
        self.assertEqual(device["request"], {"requested": 40 * MIB, "largest_free": 0})
        both = self.facts_of("frag", "--at=8")
        self.assertEqual([device["device"] for device in both["devices"]], [0, 1])
        self.assertIsNone(both["devices"][1]["request"])
        (other,) = self.facts_of("frag", "--at=oom", "--device=0")["devices"]
        self.assertEqual((other["device"], other["live"]["bytes"], other["idle"]["bytes"]), (0, 10 * MIB, 60 * MIB))
        text = " ".join(self.report(two_devices(), "--at=oom", command="frag").stdout.split())
        self.assertIn("This is the map when memory ran out on device 1 (9.00 us, event 8).", text)
        self.assertIn("Memory ran out for 40 MiB: no idle memory", text)

    def facts_of(self, command, *arguments):
        self.command, before = command, self.command
        try:
            return self.facts(two_devices(), *arguments)
        finally:
            self.command = before

    def test_the_timeline_marks_it(self):
        facts = self.facts_of("timeline", "--at=oom=1")
        self.assertEqual(facts["at"]["event"], 8)
        self.assertEqual([device["at"] for device in facts["devices"]], [None, {"held": 64 * MIB, "reserved": 64 * MIB}])
        facts = self.facts_of("timeline", "--at=7")
        self.assertEqual([device["at"] for device in facts["devices"]],
                         [{"held": 10 * MIB, "reserved": 70 * MIB}, {"held": 64 * MIB, "reserved": 64 * MIB}])
        self.assertIsNone(self.facts_of("timeline")["at"])
        text = self.report(two_devices(), "--at=8us", command="timeline").stdout
        self.assertIn("10 MiB allocated at 8.00 us (event 7); 70 MiB reserved", text)
        self.assertRegex(text, r"(?m)^ +A +O")
        self.assertIn("A the moment of --at, O memory ran out", text)
        self.assertNotIn("A the moment", self.report(two_devices(), command="timeline").stdout)

    def test_the_timeline_of_a_selection_has_no_memory_of_the_driver(self):
        """Which segments are a thread's is not known."""
        program = ordinary()
        self.command = "timeline"
        (device,) = self.facts(program, "--at=12us", "--thread=worker")["devices"]
        self.assertEqual(device["at"], {"held": 10 * MIB, "reserved": 0})
        text = self.report(program, "--at=12us", "--thread=worker").stdout
        self.assertIn("10 MiB allocated at 12.0 us (event 11)\n", text)
        self.assertNotIn(" reserved", text)


class OutOfMemory(Reports):
    """The summary describes it as of its moment and its device."""

    command = "summary"

    def finding(self, program, code, *arguments):
        return {found["code"]: found for found in self.facts(program, *arguments)["findings"]}[code]

    def test_what_was_held_then_and_not_in_the_end(self):
        facts = self.facts(two_devices())
        self.assertEqual((facts["at"]["what"], facts["at"]["event"], facts["at"]["device"]), ("oom", 8, 1))
        self.assertEqual(
            facts["described_oom"],
            {"oom": 1, "live": 64 * MIB, "pending_free": 0, "cached": 0, "usable": 0, "passthrough": 0, "largest_hole": 0,
             "limit": None, "by_limit": False, "device_free": None, "device_total": None,
             "sizes": [{"requested_size": 50 * MIB, "count": 1}]})
        self.assertEqual([(oom["device"], oom["event"], oom["allocated_later"], oom["got_as_much"]) for oom in facts["ooms"]],
                         [(1, 8, False, False), (0, 11, True, False)])
        self.assertIsNone(facts["devices"][0]["then"])
        self.assertEqual(facts["devices"][1]["then"], {
            "requested": 50 * MIB, "allocated": 64 * MIB, "deferred": 0, "reserved": 64 * MIB, "passthrough": 0,
            "count": 1, "segment_count": 1, "largest_hole": 0})
        text = self.report(two_devices()).stdout
        self.narrow(text)
        self.assertRegex(text, r"(?m)^ +then +current +peak +total$")
        self.assertRegex(text, r"(?m)^  allocated \(rounded up\) +64 MiB +0 B ")
        self.assertIn("Next: gpupool sites %s --at oom=1" % self.path("work/s.json"), text)

    def test_another_one_can_be_asked_for(self):
        found = self.finding(two_devices(), "oom", "--at=oom=2")
        self.assertIn("Out of memory on device 0 (12.0 us, event 11): the program requested 500 MiB in %s, from main app.cu:90, "
                      "and had 10 MiB allocated; 60 MiB were cached, the largest idle block 60 MiB, too small." % (LOAD + " model.cu:12"), found["message"])
        self.assertIn("The program went on: it later got smaller blocks on that device.", found["message"])
        self.assertIn("Memory ran out 2 times in all; this is --at oom=2.", found["message"])
        self.assertIn("10 MiB in use on device 0 then, the biggest owner is " + LOAD,
                      self.finding(two_devices(), "owners", "--at=oom=2")["message"])
        self.assertIn("60 MiB in use at the peak (2.00 us, event 1)",
                      self.finding(two_devices(), "owners", "--at=peak")["message"])
        result = self.report(two_devices(), "--at=oom=3", status=USAGE)
        self.one_line(result.stderr)
        codes = [found["code"] for found in self.facts(two_devices(), "--device=0")["findings"]]
        self.assertEqual(codes.count("oom"), 1)
        self.assertEqual(self.finding(two_devices(), "oom", "--device=0")["device"], 0)

    def test_what_freeing_does_not_help(self):
        """A device that did not run out needs nothing freed; nor does freeing make a request fit that is larger than all."""
        program = Program()
        program.alloc(20 * MIB, stack=0)
        program.alloc(40 * MIB, stack=1, device=1)
        program.event("oom", device=1, size=90 * MIB, stack=1)
        oom = {"time_ns": 5000, "device": 1, "requested": 90 * MIB, "largest_free": 0, "live": 40 * MIB, "cached": 0,
               "deferred": 0, "passthrough": 0, "limit": None, "by_limit": False, "device_free": 40 * MIB, "message": "out"}
        for total, advised in ((100 * MIB, True), (80 * MIB, False)):
            snapshot = program.snapshot(reason="oom", oom=dict(oom, device_total=total))
            self.assertEqual(bool(self.finding(snapshot, "owners")["advice"]), advised)
            other = self.finding(snapshot, "owners", "--device=0")
            self.assertEqual((other["severity"], other["advice"]), ("note", None))

    def test_a_program_that_survives(self):
        program = two_devices()
        program.alloc(600 * MIB, stack=0)
        program.alloc(50 * MIB, stack=0, device=1)
        facts = self.facts(program)
        self.assertEqual(facts["at"]["what"], "exit")
        found = self.finding(program, "oom")
        self.assertEqual((found["severity"], found["device"]), ("warning", 0))
        self.assertIn("The program survived: it later got as much on that device.", found["message"])
        self.assertNotIn("then, the biggest owner", self.finding(program, "owners")["message"])

    def test_what_is_not_recorded_is_said(self):
        oom = {"time_ns": 2000, "device": 1, "requested": 7 * MIB, "live": 80 * MIB, "deferred": 3 * MIB, "cached": 5 * MIB,
               "passthrough": MIB, "limit": 90 * MIB, "by_limit": True, "largest_free": 2 * MIB, "device_free": 4 * MIB,
               "device_total": 100 * MIB, "owners": [{"size": 40 * MIB, "count": 2}]}
        snapshot = ordinary().snapshot(keep=4, oom=oom, reason="recovered")
        found = self.finding(snapshot, "oom")
        self.assertEqual((found["device"], found["severity"]), (1, "error"))
        self.assertEqual(
            found["message"],
            "Out of memory on device 1 (2.00 us): the program requested 7 MiB and had 80 MiB allocated and 1 MiB "
            "forwarded; 3 MiB were freed but may still be in use; 5 MiB were cached, the largest idle block 2 MiB, too small; the "
            "limit is 90 MiB; 4 MiB of the device's 100 MiB were free. Most of the allocated memory: 2 x 40 MiB. That was before "
            "the first recorded event, so the owners of the memory are unknown.")
        self.assertIn("in use at the end", self.finding(snapshot, "owners")["message"])
        self.assertEqual(self.facts(snapshot)["at"]["what"], "exit")

    def test_segments_that_grow_are_followed(self):
        """PyTorch's expandable ones; test_expandable.py has more of them."""
        def entry(action, addr, size, time_us):
            return {"action": action, "addr": addr, "size": size, "stream": 0, "time_us": time_us, "frames": []}
        snapshot = {"segments": [], "device_traces": [[
            entry("segment_map", 1 << 40, 20 * MIB, 10), entry("alloc", 1 << 40, 16 * MIB, 11),
            {"action": "oom", "device_free": 5, "size": 1 << 40, "stream": 0, "time_us": 12},
            entry("free_requested", 1 << 40, 16 * MIB, 13), entry("free_completed", 1 << 40, 16 * MIB, 14),
            entry("segment_unmap", 1 << 40, 20 * MIB, 15)]]}
        (facts,) = json.loads(self.run_tool("summary", "--json", self.write("s.json", snapshot)).stdout)["snapshots"]
        (message,) = [found["message"] for found in facts["findings"] if found["code"] == "oom"]
        self.assertIn("and had 16 MiB allocated; 4 MiB were cached, the largest idle block 4 MiB, too small; 5 B", message)
        self.assertEqual((facts["described_oom"]["cached"], facts["described_oom"]["largest_hole"]), (4 * MIB, 4 * MIB))
        self.assertEqual(facts["devices"][0]["then"]["reserved"], 20 * MIB)
        del snapshot["device_traces"][0][0]  # the map: its unmap says that it was there from the beginning
        del snapshot["device_traces"][0][-1]
        (facts,) = json.loads(self.run_tool("summary", "--json", self.write("s.json", snapshot)).stdout)["snapshots"]
        (message,) = [found["message"] for found in facts["findings"] if found["code"] == "oom"]
        self.assertIn("the amount cached is unknown; 5 B", message)
        self.assertEqual((facts["described_oom"]["cached"], facts["described_oom"]["largest_hole"]), (None, None))
        self.assertIsNone(facts["devices"][0]["then"]["reserved"])

    def test_how_often_is_said_once(self):
        snapshot = two_devices().snapshot()
        for device, count in ((0, 3), (1, 1)):
            snapshot["devices"][device]["stats"]["num_ooms"] = count
        codes = [(found["code"], found["device"]) for found in self.facts(snapshot)["findings"]]
        self.assertIn(("ooms", 0), codes)
        self.assertNotIn(("ooms", 1), codes)
        self.assertEqual(self.finding(snapshot, "ooms")["message"],
                         "CUDA reported out of memory to the program 3 times on device 0; the recorded events have 1 of "
                         "these.")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    cli.GPUPOOL, cli.STUB = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])
