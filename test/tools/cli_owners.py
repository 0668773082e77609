#!/usr/bin/env python3
"""Which owners `gpupool summary` names, and what it advises about them.

    cli_owners.py GPUPOOL PRELOAD_STUB [TEST ...]
"""

import fcntl
import os
import struct
import subprocess
import sys
import termios
import unittest

import cli
from cli import MIB
from report_case import Program, Reports, fragmented, ordinary
from terminal import open_terminal


class Owners(Reports):
    """What summary says of stacks."""

    command = "summary"

    def finding(self, program, code):
        (found,) = [finding for finding in self.facts(program)["findings"] if finding["code"] == code]
        return found

    def test_the_three_biggest_are_named(self):
        owners = self.finding(ordinary(), "owners")
        self.assertEqual(owners["severity"], "note")
        self.assertIn("Of the 56 MiB in use at its peak, the biggest owners are Cache::grow() cache.cu:33 35 MiB "
                      "(62.5%) in 2 blocks of 5 MiB to 30 MiB; Model::load(std::string const&) model.cu:12 20 MiB (35.7%) in 2 "
                      "blocks of 10 MiB, none freed; a::very::long::name", owners["message"])
        self.assertNotIn("owners", [finding["code"] for finding in self.facts(ordinary(False))["findings"]])

    def refused(self, blocks, asker, free=0, requested=10 * MIB, unaccounted=None, **changes):
        """The device is full of blocks of 10 MiB of Cache::grow()."""
        program = Program()
        held = [program.alloc(10 * MIB, stack=1) for _ in range(blocks)]
        for row in held[:free]:
            program.free(row)
        program.event("oom", size=requested, stack=asker)
        oom = {"time_ns": program.time, "device": 0, "requested": requested, "unaccounted": unaccounted, "live": (blocks - free) * 10 * MIB, "deferred": 0,
               "cached": 3 * MIB, "in_pieces": 0, "passthrough": 0, "limit": None, "by_limit": False, "largest_free": 3 * MIB,
               "device_free": 2 * MIB, "device_total": 1 << 30, "owners": [], "message": "out of memory on device 0",
               "advice": "5 MiB short, even after releasing all cached memory", "remedy": {"settings": {}, "action": None}}
        snapshot = program.snapshot(reason="oom", oom=oom, **changes)
        found = {finding["code"]: finding for finding in self.facts(snapshot)["findings"]}
        return found["oom"]["advice"], found["owners"]

    def test_no_setting_serves_who_frees_nothing(self):
        advice, owners = self.refused(10, asker=1)
        self.assertEqual(advice, "5 MiB more would satisfy this request but not the next one: the code that allocates here never frees.")
        self.assertEqual(owners["advice"],
                         "free what Cache::grow() cache.cu:33 no longer needs, or limit how much it keeps: it has freed nothing.")
        self.assertEqual(owners["remedy"]["action"], "free")
        first_line, other_line = ({"function": "main", "file": "/src/app.cu", "line": line, "module": -1, "address": 4096 + line,
                                   "inline": False} for line in (12, 50))
        longer = dict(other_line, function="main_loop")
        for frames in ([first_line, other_line], [first_line, longer]):
            advice, _ = self.refused(10, asker=0, stacks=[[1], [0], [0], [0]], frames=frames, modules=[])
            self.assertEqual(advice, "5 MiB short, even after releasing all cached memory.", "another asked")
        self.assertEqual(self.refused(10, asker=1, requested=2 << 30)[0], "5 MiB short, even after releasing all cached memory.")
        self.assertEqual(self.refused(10, asker=1, unaccounted=900 * MIB)[0], "5 MiB short, even after releasing all cached memory.")
        advice, owners = self.refused(10, asker=1, unaccounted=900 * MIB)
        self.assertIsNone(owners["advice"], "others have the memory")
        for others in (self.refused(7, asker=1), self.refused(10, asker=0), self.refused(10, asker=1, free=1)):
            self.assertEqual(others[0], "5 MiB short, even after releasing all cached memory.")
            self.assertIn("5 MiB less on device 0 would have been enough", others[1]["advice"])

    def test_who_asks_and_never_frees_need_not_be_the_biggest(self):
        program = Program()
        program.alloc(900 * MIB, stack=0)
        for _ in range(10):
            program.alloc(10 * MIB, stack=1)
        program.event("oom", size=10 * MIB, stack=1)
        oom = {"time_ns": program.time, "device": 0, "requested": 10 * MIB, "live": 1000 * MIB, "deferred": 0, "cached": 0, "in_pieces": 0,
               "passthrough": 0, "limit": None, "by_limit": False, "device_free": 5 * MIB, "device_total": 1 << 30, "unaccounted": 0,
               "owners": [], "message": "", "advice": "5 MiB short", "remedy": {"settings": {}, "action": None}}
        found = {finding["code"]: finding for finding in self.facts(program.snapshot(reason="oom", oom=oom))["findings"]}
        self.assertEqual(found["owners"]["advice"],
                         "free what Cache::grow() cache.cu:33 no longer needs, or limit how much it keeps: it has freed nothing.")

    def test_frees_of_lines_that_hold_nothing_do_not_count(self):
        """A temporary of the same function is freed each time; what the other line keeps is not."""
        lines = [{"function": "serve()", "file": "/src/serve.cu", "line": line, "module": -1, "address": 4096 + line, "inline": False}
                 for line in (16, 17)]
        program = Program()
        for _ in range(10):
            program.alloc(10 * MIB, stack=0)
            program.free(program.alloc(5 * MIB, stack=1))
        program.event("oom", size=1 << 40)
        owners = self.finding(program.snapshot(reason="oom", frames=lines, stacks=[[0], [1], [0], [0]], modules=[]), "owners")
        self.assertIn("is serve() serve.cu:16 100 MiB (100%) in 10 blocks of 10 MiB, none freed.", owners["message"])

    def test_what_is_freed_after_the_peak_is_not_called_never_freed(self):
        program = Program()
        for row in [program.alloc(10 * MIB, stack=1) for _ in range(10)]:
            program.free(row)
        self.assertIn("in 10 blocks of 10 MiB.", self.finding(program, "owners")["message"])

    def test_long_names_keep_their_line(self):
        """The name becomes shorter, not the file; its end is not lost."""
        name = "ns::Model<std::vector<" + "std::pair<int, float>, " * 30 + "int> >::run_one_session(int, std::string const&)"
        frames = [{"function": name, "file": "/src/a_name_of_25_letters.cu", "line": 16, "module": -1, "address": 4096, "inline": False}]
        program = Program()
        program.alloc(10 * MIB, stack=0)
        message = self.finding(program.snapshot(frames=frames, stacks=[[0]] * 4, modules=[]), "owners")["message"]
        self.assertIn(" a_name_of_25_letters.cu:16 10 MiB (100%) in 1 block.", message)
        self.assertIn("run_one_session", message)

    def test_owners_of_page_locked_memory(self):
        program = Program()
        for _ in range(40):
            program.managed(2 * MIB, stack=1, kind="pinned_host")
        program.managed(2 * MIB, stack=0, kind="pinned_host")
        found = self.finding(program, "pinned_held")
        self.assertEqual(found["severity"], "note")
        self.assertEqual(found["message"],
                         "The program had 82 MiB of page-locked host memory allocated in 41 blocks that it had not freed at the end: "
                         "Cache::grow() cache.cu:33 80 MiB (97.6%) in 40 blocks of 2 MiB, none freed; Model::load(std::string const&) "
                         "model.cu:12 2 MiB (2.4%) in 1 block.")
        refused = self.finding(program.snapshot(reason="host_oom"), "pinned_held")
        self.assertEqual(refused["severity"], "error")
        self.assertIn("in 41 blocks then: Cache::grow()", refused["message"])
        report = {"time_ns": 5, "device": 0, "requested": 3 * MIB, "live": 82 * MIB, "limit": 84 * MIB, "owners": [], "message": "",
                  "advice": "", "remedy": {"settings": {}, "action": None}}
        for reason, severity in (("host_oom", "error"), ("exit", "warning")):
            self.assertEqual(self.finding(program.snapshot(reason=reason, host_oom=report), "host_oom")["severity"], severity)
        few = Program()
        few.managed(2 * MIB, stack=1, kind="pinned_host")
        self.assertNotIn("pinned_held", [finding["code"] for finding in self.facts(few)["findings"]])

    def test_what_has_no_stack_is_no_owner(self):
        program = ordinary()
        most = program.alloc(100 * MIB)
        owners = self.finding(program, "owners")
        self.assertIn("100 MiB (81.3%) have no call stack, and of the rest the biggest owners are Model::load(std::string "
                      "const&) model.cu:12 20 MiB (16.3%)", owners["message"])
        program.free(most)
        program.alloc(1 << 30)
        owners = self.finding(program, "owners")
        self.assertIn("97.8% have no call stack: the code that requested them is not recorded.", owners["message"])
        self.assertEqual(owners["advice"], None)

    def test_when_memory_ran_out_the_remedy_is_on_the_first_screen(self):
        oom = {"time_ns": 19000, "device": 0, "requested": 40 * MIB, "live": 20 * MIB, "owners": [],
               "message": "out of memory on device 0: asked for 40 MiB", "advice": "It is the limit that refuses",
               "remedy": {"settings": {"GPUPOOL_LIMIT": "0=1GiB,1=60MiB"}, "action": "synchronize"}}
        snapshot = ordinary().snapshot(reason="oom", oom=oom)
        found = self.finding(snapshot, "oom")
        self.assertIn("Out of memory on device 0 (19.0 us): the program requested 40 MiB and had 20 MiB",
                      found["message"])
        self.assertEqual(found["advice"], "It is the limit that refuses.")
        self.assertEqual(found["remedy"], dict(oom["remedy"], owner=None))
        owners = self.finding(snapshot, "owners")
        self.assertEqual(owners["severity"], "error")
        self.assertIn("free or shrink what Model::load(std::string const&) model.cu:12 allocates", owners["advice"])
        first = self.report(snapshot).stdout.splitlines()[:12]
        self.assertIn("    Remedy: It is the limit that refuses.", first)
        self.assertIn("Model::load", "\n".join(first))

    def test_where_memory_is_cut_an_owner_frees_what_lies_together(self):
        """The model holds more than was missing. Without it the pieces between are whole; without the cache they are not."""
        oom = {"time_ns": 28000, "device": 0, "requested": 8 * MIB, "live": 40 * MIB, "cached": 20 * MIB, "device_free": 0,
               "device_total": 64 * MIB, "in_pieces": 20 * MIB, "largest_free": 4 * MIB, "owners": [], "message": "",
               "advice": "20 MiB are idle, but in pieces", "remedy": {"settings": {}, "action": None}}
        snapshot = fragmented().snapshot(reason="oom", oom=oom)
        found = self.finding(snapshot, "oom")
        self.assertIn("20 MiB were cached, 20 MiB of that in segments partly in use", found["message"])
        owners = self.finding(snapshot, "owners")
        self.assertIn("free what Model::load(std::string const&) model.cu:12 allocates on device 0: without it, its "
                      "segments would have had enough room.", owners["advice"])
        self.assertEqual(owners["remedy"]["action"], "free")
        oom["requested"] = 44 * MIB  # as much is between the cache and the block that the device uses
        self.assertIsNotNone(self.finding(snapshot, "owners")["remedy"])
        oom["requested"] = 45 * MIB
        blocks = [dict(snapshot["segments"][0]["blocks"][-1], address=1 << 50, size=64 * MIB, state="inactive")]
        elsewhere = dict(snapshot["segments"][0], device=1, address=1 << 50, blocks=blocks)  # no help
        owners = self.finding(dict(snapshot, segments=snapshot["segments"] + [elsewhere]), "owners")
        self.assertIsNone(owners["remedy"])
        owners = self.finding(snapshot, "owners")
        self.assertNotIn("would have had enough room", owners["advice"])
        self.assertIsNone(owners["remedy"])

    def test_the_advice_is_never_taken_out_of_a_sentence(self):
        """Before it was a member of its own it was the end of the message: nothing is read there."""
        oom = {"time_ns": 19000, "device": 0, "requested": 40 * MIB, "live": 20 * MIB, "owners": [],
               "message": "out of memory on device 0. Asked for 40 MiB. It is the limit that refuses"}
        found = self.finding(ordinary().snapshot(reason="oom", oom=oom), "oom")
        self.assertNotIn("refuses", found["message"])
        self.assertEqual((found["advice"], found["remedy"]), (None, None))

    def test_a_function_that_asks_for_everybody_gives_way(self):
        """All goes through get(), which is called by others; the runtime has insides that only names tell."""
        names = ["main", "load()", "cache()", "get(unsigned long)", "cudaMalloc", "malloc_device", "grow()", "tiny()"]
        frames = [{"function": name, "file": "", "line": 0, "module": -1, "address": 4096 + i, "inline": False}
                  for i, name in enumerate(names)]
        stacks = [[5, 4, 3, 1, 0], [5, 4, 3, 2, 0], [5, 4, 3, 6, 2, 0], [5, 4, 3, 7, 0]]
        program = Program()
        for stack, size in ((0, 50), (1, 20), (2, 10), (3, 1)):
            program.alloc(size * MIB, stack=stack)
        found = self.finding(program.snapshot(reason="oom", frames=frames, stacks=stacks, modules=[]), "owners")
        self.assertEqual(found["message"],
                         "Of the 81 MiB in use, the biggest owners are load() through get 50 MiB "
                         "(61.7%) in 1 block; cache() through get 20 MiB (24.7%) in 1 block; grow() through get 10 MiB "
                         "(12.3%) in 1 block.")
        self.assertEqual(found["advice"], "free or shrink what load() through get allocates: it is 61.7% of the total.")

    def test_a_function_whose_callers_say_nothing_stays(self):
        """Forty callers of a fortieth each, or a single one."""
        names = ["main", "cudaMalloc", "forward()"] + ["layer%d()" % i for i in range(40)]
        frames = [{"function": name, "file": "", "line": 0, "module": -1, "address": 4096 + i, "inline": False}
                  for i, name in enumerate(names)]
        for stacks in ([[1, 2, 3 + i, 0] for i in range(40)], [[1, 2, 0]] * 40):
            program = Program()
            for i in range(40):
                program.alloc(MIB, stack=i)
            found = self.finding(program.snapshot(reason="oom", frames=frames, stacks=stacks, modules=[]), "owners")
            self.assertIn("the biggest owner is forward() 40 MiB (100%) in 40 blocks of 1 MiB, none freed.", found["message"])

    def test_a_sudden_end_is_said_and_what_was_held_then(self):
        snapshot = ordinary().snapshot(reason="recovered")
        self.assertIn("it was killed, crashed, or called _exit", self.finding(snapshot, "sudden_end")["message"])
        owners = self.finding(snapshot, "owners")
        self.assertIn("in use at the end, the biggest owners are Model::load(std::string const&) model.cu:12 20 MiB", owners["message"])
        text = self.report(snapshot).stdout
        self.assertNotIn("No problem found", text)
        self.assertIn("snapshot   recovered after its end", text)
        self.assertIn("Next: gpupool sites " + self.path("work/s.json") + " --sort live", text)
        self.assertEqual(self.document(snapshot)["snapshots"][0]["reason"], "recovered")
        self.assertIn("allocated at the end, by function", self.report(snapshot, command="sites").stdout)

    def test_out_of_memory_without_a_report_of_it(self):
        """As PyTorch's snapshots have it: an event, and blocks."""
        program = ordinary()
        program.event("oom", size=40 * MIB)
        found = self.finding(program.snapshot(reason="oom"), "oom")
        self.assertEqual(found["severity"], "error")
        self.assertIn("requested 40 MiB and had 20 MiB allocated and 3 MiB forwarded", found["message"])
        self.assertIn("33 MiB were cached, the largest idle block 32 MiB, too small.", found["message"])
        self.assertIsNone(found["advice"])
        program.event("oom", size=33 * MIB)
        found = self.finding(program.snapshot(reason="oom"), "oom")
        self.assertEqual(found["advice"], "the idle memory was fragmented: gpupool frag --at oom=2 maps it.")

    def test_the_line_that_asked(self):
        """And who called it; each time that memory ran out. What is too large for the device is no reason to free anything."""
        for stack, by, source in ((1, "Cache::grow() cache.cu:33", "main app.cu:90"), (-1, None, None)):
            program = ordinary()
            program.event("oom", size=2 << 30, stack=stack)
            snapshot = program.snapshot(reason="oom")
            snapshot["devices"][0]["use"] = {"time_ns": 5, "total": 1 << 30, "free": 1 << 29, "in_pools": 0, "unaccounted": 0}
            document = self.document(snapshot)["snapshots"][0]
            self.assertEqual([(oom["asked_by"], oom["asked_from"]) for oom in document["ooms"]], [(by, source)])
            found = {finding["code"]: finding for finding in document["findings"]}
            asked = " in %s, from %s," % (by, source) if by else ""
            self.assertIn("the program requested 2 GiB%s and had 20 MiB" % asked, found["oom"]["message"])
            self.assertEqual(found["oom"]["advice"], "the request alone exceeds the device's memory: no pool setting helps.")
            self.assertIsNone(found["owners"]["advice"])

    def test_sizes_that_print_alike_are_told_apart(self):
        program = Program()
        for size in (20 * MIB + 1000, 20 * MIB + 2000, 7 * MIB):
            program.alloc(size, 22 * MIB)
        text = self.report(program).stdout
        self.assertIn(" 20,972,520 B ", text)
        self.assertIn(" 20,973,520 B ", text)
        self.assertIn("                      7 MiB ", text)

    def test_narrow_terminals(self):
        path = self.write("s.json", ordinary().snapshot(reason="recovered"))
        own, other = open_terminal()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
        with subprocess.Popen([self.tool, "summary", path, "--no-color"], stdout=other, env=self.environment) as process:
            os.close(other)
            text = b""
            try:
                while part := os.read(own, 65536):
                    text += part
            except OSError:
                pass
            self.assertEqual(process.wait(timeout=60), 0)
        os.close(own)
        what = text.decode().replace("\r", "").split("What happened\n")[1].split("\nProcess\n")[0]
        self.assertLess(max(map(len, what.splitlines())), 40, what)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    cli.GPUPOOL, cli.STUB = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])
