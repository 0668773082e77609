#!/usr/bin/env python3
"""The commands of gpupool that read snapshots, beside summary.

    cli_reports.py GPUPOOL PRELOAD_STUB [TEST ...]
"""

import fcntl
import json
import os
import re
import struct
import subprocess
import sys
import termios
import unittest

import cli
from cli import DONE, INPUT, MIB, PARTIAL, USAGE
from report_case import FRAMES, Program, Reports, fragmented, ordinary
from terminal import open_terminal


class Options(Reports):
    """What all of these commands take."""

    commands = ("summary", "leaks", "sites", "frag", "timeline", "diff")

    def report(self, program, *arguments, command=None, **more):
        """diff compares the snapshot with itself."""
        other = (self.path("work/s.json"),) if command == "diff" else ()
        return super().report(program, *other, *arguments, command=command, **more)

    def test_options_of_the_library(self):
        self.expect_valid(json.loads(self.run_tool("config", "--json").stdout), "config")

    def test_wrong_values_are_one_line(self):
        for command in self.commands:
            for option, part in (
                ("--device=x", "--device=x is malformed; accepted: 0 to 63"), ("--device=64", "accepted: 0 to 63"),
                ("--since=1", "accepted: a time with its unit"), ("--until=1parsec", "--until=1parsec is malformed"),
                ("--since=-1s", "--since=-1s is malformed"), ("--stream=", "--stream= is malformed"),
                ("--json=1", "--json takes no value"), ("--zebra", "unknown option --zebra"), ("--output", "needs a value"),
                ("-x", "unknown option -x"),
            ):
                result = self.run_tool(command, "s.json", "s.json", option, status=USAGE)
                self.one_line(result.stderr)
                self.assertIn(part, result.stderr)
                self.assertIn("try gpupool " + command + " --help", result.stderr)
            result = self.run_tool(command, "s.json", "s.json", "--since=2s", "--until=1s", status=USAGE)
            self.assertIn("--since is after --until", result.stderr)
            self.assertIn("a file is missing", self.run_tool(command, status=USAGE).stderr)

    def test_what_is_not_in_the_snapshot_is_said(self):
        for command in self.commands:
            for option, part in (("--device=1", "there is no device 1 in it"),
                                 ("--stream=2", "there is no stream 2 in it (0x0, 0x7f00)"),
                                 ("--thread=none", "there is no thread none in it (main, worker)")):
                if command == "frag" and option != "--device=1":
                    continue
                result = self.report(ordinary(), option, status=USAGE, command=command)
                self.one_line(result.stderr)
                self.assertIn(part, result.stderr)
                self.assertEqual(result.stdout, "")

    def test_text_is_narrow_and_names_what_to_type_next(self):
        for command in self.commands:
            for program in (ordinary(), ordinary(False), Program()):
                text = self.report(program, command=command).stdout
                self.narrow(text)
                last = [line for line in text.splitlines() if not line.startswith("  or, in a browser: gpupool html ")][-1]
                self.assertRegex(last, r"^Next: gpupool \w+ ")
                self.assertEqual("in a browser" in text, command == "summary")

    def test_json_is_what_the_schema_says(self):
        oom = {"time_ns": 9, "device": 0, "requested": MIB, "largest_free": 0, "message": "out. Of memory"}
        for command in self.commands:
            for program in (ordinary(), ordinary(False), Program(), ordinary().snapshot(keep=5),
                            ordinary().snapshot(reason="oom", oom=oom), {"format": "gpupool-snapshot", "version": 1}):
                self.expect_valid(json.loads(self.report(program, "--json", command=command).stdout), command)

    def test_files_that_need_quotes_are_quoted(self):
        for command in self.commands:
            self.write("it's.json", ordinary().snapshot())
            text = self.run_tool(command, *["it's.json"] * (2 if command == "diff" else 1)).stdout
            self.assertIn(" 'it'\\''s.json'", text.splitlines()[-1])

    def test_partial_and_corrupt_inputs(self):
        for command in self.commands:
            partial = self.report(ordinary().snapshot(keep=5), "--strict", status=PARTIAL, command=command)
            self.assertIn("it is incomplete (--strict)", partial.stderr)
            self.report(ordinary(), "--strict", command=command)
            result = self.report("{", status=INPUT, command=command)
            self.one_line(result.stderr)
            self.assertEqual(result.stdout, "")

    def test_help(self):
        for command in self.commands:
            text = self.run_tool(command, "--help").stdout
            self.assertTrue(text.startswith("usage: gpupool " + command), text)
            self.narrow(text)
            self.assertRegex(text, r"\n  --device N +only this")
            self.assertRegex(text, r"\n  --json +one")
            for option in ("--stream S", "--thread T", "--since TIME", "--until TIME"):
                self.assertEqual(option in text, command != "frag", option)  # what it refuses it does not offer
        self.assertIn("\n  --suppressions FILE\n", self.run_tool("leaks", "--help").stdout)


class Progress(Reports):
    command = "summary"

    def on_terminal(self, text, piped=False):
        """What comes on a terminal that is stderr."""
        path = self.write("s.json", text)
        own, other = open_terminal()
        source = subprocess.Popen(["cat", path], stdout=subprocess.PIPE) if piped else None
        process = subprocess.Popen([self.tool, "summary", "-" if piped else path], stdout=subprocess.DEVNULL, stderr=other,
                                   stdin=source.stdout if piped else subprocess.DEVNULL,
                                   env={**self.environment, "TERM": "xterm"})
        if piped:
            source.stdout.close()
        os.close(other)
        seen = b""
        while True:
            try:
                part = os.read(own, 65536)
            except OSError:
                break
            if not part:
                break
            seen += part
        os.close(own)
        self.assertEqual(process.wait(timeout=60), DONE)
        if piped:
            source.wait(timeout=60)
        return seen.decode()

    def test_large_files_show_how_far_it_is(self):
        text = json.dumps(ordinary().snapshot())
        self.assertEqual(self.on_terminal(text), "")
        large = text[:-1] + " " * (64 << 20) + "}"
        seen = self.on_terminal(large)
        self.assertRegex(seen, r"^\rgpupool: reading .*/s\.json: +\d+%\r")
        self.assertTrue(seen.endswith("\r\x1b[K"), seen)
        self.assertEqual(self.report(large).stderr, "")

    def test_large_pipes_show_how_much_it_is(self):
        text = json.dumps(ordinary().snapshot())
        self.assertEqual(self.on_terminal(text, piped=True), "")
        seen = self.on_terminal(text[:-1] + " " * (80 << 20) + "}", piped=True)
        self.assertRegex(seen, r"^\rgpupool: reading stdin: 6\d MiB\r")
        self.assertTrue(seen.endswith("\r\x1b[K"), seen)


class Owners(Reports):
    """What summary says of stacks."""

    command = "summary"

    def finding(self, program, code):
        (found,) = [finding for finding in self.facts(program)["findings"] if finding["code"] == code]
        return found

    def test_the_three_biggest_are_named(self):
        owners = self.finding(ordinary(), "owners")
        self.assertEqual(owners["severity"], "note")
        self.assertIn("Of the 56 MiB that the program held at its peak, the biggest owners are Cache::grow() cache.cu:33 35 MiB "
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
                         "free what Cache::grow() cache.cu:33 no longer needs, or limit how much it keeps: it has freed none.")
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
                         "free what Cache::grow() cache.cu:33 no longer needs, or limit how much it keeps: it has freed none.")

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
                         "The program held 82 MiB of page-locked memory of the host in 41 blocks that it had not freed in the end: "
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
        self.assertIn("97.8% have no call stack: who asked for them is not recorded.", owners["message"])
        self.assertEqual(owners["advice"], None)

    def test_when_memory_ran_out_the_remedy_is_on_the_first_screen(self):
        oom = {"time_ns": 19000, "device": 0, "requested": 40 * MIB, "live": 20 * MIB, "owners": [],
               "message": "out of memory on device 0: asked for 40 MiB", "advice": "It is the limit that refuses",
               "remedy": {"settings": {"GPUPOOL_LIMIT": "0=1GiB,1=60MiB"}, "action": "synchronize"}}
        snapshot = ordinary().snapshot(reason="oom", oom=oom)
        found = self.finding(snapshot, "oom")
        self.assertIn("Out of memory on device 0 (19.0 us): the program asked for 40 MiB and held 20 MiB",
                      found["message"])
        self.assertEqual(found["advice"], "It is the limit that refuses.")
        self.assertEqual(found["remedy"], dict(oom["remedy"], owner=None))
        owners = self.finding(snapshot, "owners")
        self.assertEqual(owners["severity"], "error")
        self.assertIn("free or shrink what Model::load(std::string const&) model.cu:12 holds", owners["advice"])
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
        self.assertIn("20 MiB were cached, of them 20 MiB in pieces beside memory in use", found["message"])
        owners = self.finding(snapshot, "owners")
        self.assertIn("free what Model::load(std::string const&) model.cu:12 holds on device 0: in the segments without it, "
                      "there would have been enough.", owners["advice"])
        self.assertEqual(owners["remedy"]["action"], "free")
        oom["requested"] = 44 * MIB  # as much is between the cache and the block that the device uses
        self.assertIsNotNone(self.finding(snapshot, "owners")["remedy"])
        oom["requested"] = 45 * MIB
        blocks = [dict(snapshot["segments"][0]["blocks"][-1], address=1 << 50, size=64 * MIB, state="inactive")]
        elsewhere = dict(snapshot["segments"][0], device=1, address=1 << 50, blocks=blocks)  # no help
        owners = self.finding(dict(snapshot, segments=snapshot["segments"] + [elsewhere]), "owners")
        self.assertIsNone(owners["remedy"])
        owners = self.finding(snapshot, "owners")
        self.assertNotIn("there would have been enough", owners["advice"])
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
                         "Of the 81 MiB that the program held, the biggest owners are load() through get 50 MiB "
                         "(61.7%) in 1 block; cache() through get 20 MiB (24.7%) in 1 block; grow() through get 10 MiB "
                         "(12.3%) in 1 block.")
        self.assertEqual(found["advice"], "free or shrink what load() through get holds, 61.7% of it all.")

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
        self.assertIn("it was killed, crashed, or left by _exit", self.finding(snapshot, "sudden_end")["message"])
        owners = self.finding(snapshot, "owners")
        self.assertIn("held in the end, the biggest owners are Model::load(std::string const&) model.cu:12 20 MiB", owners["message"])
        text = self.report(snapshot).stdout
        self.assertNotIn("No problem found", text)
        self.assertIn("snapshot   recovered after its end", text)
        self.assertIn("Next: gpupool sites " + self.path("work/s.json") + " --sort live", text)
        self.assertEqual(self.document(snapshot)["snapshots"][0]["reason"], "recovered")
        self.assertIn("held at the end, by function", self.report(snapshot, command="sites").stdout)

    def test_out_of_memory_without_a_report_of_it(self):
        """As PyTorch's snapshots have it: an event, and blocks."""
        program = ordinary()
        program.event("oom", size=40 * MIB)
        found = self.finding(program.snapshot(reason="oom"), "oom")
        self.assertEqual(found["severity"], "error")
        self.assertIn("asked for 40 MiB and held 20 MiB and 3 MiB that is not pooled", found["message"])
        self.assertIn("33 MiB were cached, the largest hole 32 MiB, too small.", found["message"])
        self.assertIsNone(found["advice"])
        program.event("oom", size=33 * MIB)
        found = self.finding(program.snapshot(reason="oom"), "oom")
        self.assertEqual(found["advice"], "the idle memory was in pieces: gpupool frag --at oom=2 maps them.")

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
            self.assertIn("the program asked for 2 GiB%s and held 20 MiB" % asked, found["oom"]["message"])
            self.assertEqual(found["oom"]["advice"], "the request alone is more than the device has: no setting of the pool helps.")
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


class Sites(Reports):
    command = "sites"

    def site(self, facts, name):
        (found,) = [site for site in facts["sites"] if site["name"] == name]
        return found

    def test_flat_and_cumulative(self):
        facts = self.facts(ordinary())
        self.assertEqual(facts["sort"], "peak")
        self.assertEqual(facts["by"], "function")
        load = self.site(facts, "Model::load(std::string const&)")
        self.assertEqual(load["flat"]["live"], {"bytes": 20 * MIB, "count": 2, "freed": 0})
        self.assertEqual(load["cumulative"]["total"], {"bytes": 25 * MIB, "count": 3})
        grow = self.site(facts, "Cache::grow()")
        self.assertEqual(grow["flat"]["total"], {"bytes": 38 * MIB, "count": 3})
        self.assertEqual(grow["flat"]["live"], {"bytes": 3 * MIB, "count": 1, "freed": 2})
        self.assertEqual(grow["flat"]["peak"], {"bytes": 35 * MIB, "count": 2, "freed": 0})
        main = self.site(facts, "main")
        self.assertEqual(main["flat"]["total"], {"bytes": 0, "count": 0})
        self.assertEqual(main["cumulative"]["total"], facts["sum"]["total"])
        self.assertEqual(facts["peaks"], [{"device": 0, "time_ns": facts["peaks"][0]["time_ns"], "bytes": 56 * MIB}])
        long = self.site(facts, FRAMES[4]["function"])
        self.assertEqual(long["flat"]["temporary"], {"bytes": 2 * MIB, "count": 2})

    def test_sorts(self):
        for sort, first in (("peak", "Cache::grow()"), ("live", "Model::load(std::string const&)"),
                            ("total", "Cache::grow()"), ("count", "Cache::grow()"),
                            ("temporary", FRAMES[4]["function"])):
            facts = self.facts(ordinary(), "--sort", sort)
            self.assertEqual(facts["sites"][0]["name"], first, sort)
            self.report(ordinary(), "--sort", sort)
        self.assertEqual(self.facts(ordinary().snapshot(reason="oom"))["sort"], "live")

    def test_focus_and_ignore(self):
        self.assertEqual(self.facts(ordinary(), "--focus", "^Cache::")["sum"]["total"]["count"], 3)
        self.assertEqual(self.facts(ordinary(), "--focus", "model\\.cu")["sum"]["total"]["count"], 3)
        self.assertEqual(self.facts(ordinary(), "--ignore", "load|grow")["sum"]["total"]["count"], 2)
        self.assertEqual(self.facts(ordinary(), "--focus", "libcudart")["sum"]["total"]["count"], 7)
        for option in ("--focus", "--ignore"):
            result = self.report(ordinary(), option, "(", status=USAGE)
            self.one_line(result.stderr)
            self.assertIn(option + "=( is malformed", result.stderr)

    def test_by(self):
        names = lambda by: [site["name"] for site in self.facts(ordinary(), "--by", by)["sites"]]
        self.assertIn("Cache::grow() cache.cu:33", names("line"))
        self.assertEqual(set(names("module")), {"app", "libcudart.so.13"})
        self.assertEqual(names("size")[0], "30 MiB")
        self.assertEqual(self.facts(ordinary(False))["by"], "size")
        self.assertIn("No stacks were recorded", self.report(ordinary(False)).stdout)

    def test_top(self):
        self.assertEqual(len(self.facts(ordinary(), "-n", "2")["sites"]), 2)
        self.assertIn("-n 0 shows all", self.report(ordinary(), "--top=1").stdout)
        for option, part in (("-n", "-n -1 is malformed"), ("--top", "--top=-1 is malformed")):
            self.assertIn(": %s; accepted: " % part, self.report(ordinary(), option, "-1", status=USAGE).stderr)
        for option in ("-n=x", "--sort=size", "--by=colour"):
            self.one_line(self.report(ordinary(), *option.split("=", 1) if option[1] != "-" else [option], status=USAGE).stderr)

    def test_filters(self):
        count = lambda *arguments: self.facts(ordinary(), *arguments)["sum"]["total"]["count"]
        self.assertEqual(count(), 7)
        self.assertEqual(count("--stream", "1"), 1)
        self.assertEqual(count("--stream", "0x7f00"), 1)
        self.assertEqual(count("--thread", "worker"), 1)
        self.assertEqual(count("--thread", "4711"), 6)
        self.assertEqual(count("--until", "3us"), 1)
        self.assertEqual(count("--since", "3us"), 6)
        self.assertEqual(self.facts(ordinary(), "--thread=worker")["peaks"][0]["bytes"], 10 * MIB)

    def test_long_names_are_cut_in_the_middle_unless_wide(self):
        name = FRAMES[4]["function"]
        text = self.report(ordinary()).stdout
        self.assertNotIn(name, text)
        self.assertIn("a::very::lo", text)
        self.assertIn("its::middle", text)
        self.assertIn(name, self.report(ordinary(), "--wide").stdout)

    def test_host_memory_is_not_the_devices(self):
        program = ordinary()
        program.managed(1 << 40, kind="pinned_host")
        self.assertEqual(self.facts(program)["sum"], self.facts(ordinary())["sum"])

    def test_memory_without_a_stack_is_listed_last_but_before_what_is_freed(self):
        program = Program()
        program.alloc(10 * MIB, stack=0)
        program.free(program.alloc(20 * MIB, stack=1))
        program.alloc(50 * MIB)
        text = self.report(program, "--sort", "live").stdout
        self.assertRegex(text, r"\n +10 MiB [^\n]* Model::load\S*\n +0 B [^\n]* main\n +50 MiB [^\n]* \(no stack recorded\)\n\n")

    def test_calls_without_lines_are_told_apart(self):
        """Of code that was compiled without -g; once a hint."""
        frames = [{"function": "main", "file": file, "line": 7 if file else 0, "module": 0, "address": 4096 + place, "inline": False}
                  for place, file in ((16, ""), (32, ""), (48, "/src/app.cu"))]
        modules = [{"path": "/usr/bin/app", "build_id": "", "bias": 4096, "start": 4096, "end": 8192}]
        program = Program()
        for stack, size in ((0, 5), (1, 4), (2, 3)):
            program.alloc(size * MIB, stack=stack)
        snapshot = program.snapshot(frames=frames, modules=modules, stacks=[[0], [1], [2]])
        text = self.report(snapshot, "--by", "line").stdout
        self.assertEqual(re.findall(r"  (main .*)\n", text), ["main app+0x10", "main app+0x20", "main app.cu:7"])
        self.assertEqual(text.count("compiled without -g"), 1)
        self.assertNotIn("compiled without", self.report(snapshot).stdout)
        for frame in frames:
            frame.update(file="/src/app.cu", line=7)
        whole = self.report(program.snapshot(frames=frames, modules=modules, stacks=[[0], [1], [2]]), "--by", "line").stdout
        self.assertNotIn("compiled without", whole)

    def test_a_history_that_is_cut_off(self):
        """Of the end of the history the same is said as of all of it, as far as it can be known."""
        whole, end = self.facts(ordinary()), self.facts(ordinary().snapshot(keep=6))
        self.assertEqual(whole["sum"]["live"], {**end["sum"]["live"], "freed": 4})
        self.assertIsNone(end["sum"]["live"]["freed"])
        self.assertIn("Events before", self.report(ordinary().snapshot(keep=6)).stdout)


class Timeline(Reports):
    command = "timeline"

    def test_the_curve_of_known_figures(self):
        facts = self.facts(ordinary(), "--points", "1")
        (device,) = facts["devices"]
        (point,) = device["points"]
        self.assertEqual(device["held_peak"], 58 * MIB)  # rounded
        self.assertEqual(device["reserved_peak"], 61 * MIB)
        self.assertEqual((point["held_most"], point["held_end"]), (58 * MIB, 23 * MIB))
        self.assertEqual(point["reserved_end"], 61 * MIB)
        self.assertEqual(facts["to_ns"], 19000)

    def test_points_follow_the_time(self):
        device = self.facts(ordinary(), "--points", "19")["devices"][0]
        self.assertEqual([point["from_ns"] for point in device["points"]][:2], [1000, 1947])
        self.assertEqual([point["held_most"] // MIB for point in device["points"]],
                         [0, 10, 10, 20, 20, 52, 52, 57, 57, 58, 58, 57, 58, 58, 57, 57, 25, 25, 23])

    def test_a_window(self):
        facts = self.facts(ordinary(), "--since=5us", "--until=8us", "--points=2")
        self.assertEqual((facts["from_ns"], facts["to_ns"]), (5000, 8000))
        self.assertEqual(facts["devices"][0]["points"][0]["held_least"], 20 * MIB)
        self.assertEqual(facts["devices"][0]["points"][1]["held_end"], 57 * MIB)
        (device,) = self.facts(ordinary(), "--since=5200ns", "--until=5800ns", "--points=2")["devices"]
        self.assertEqual([point["held_least"] for point in device["points"]], 2 * [20 * MIB])  # nothing happened then
        self.assertEqual((device["held_peak"], device["held_peak_ns"]), (20 * MIB, 5200))
        self.assertEqual(self.facts(ordinary(), "--since=1h")["devices"], [])
        self.assertIn("no events to draw", self.report(ordinary(), "--since=1h").stdout)

    def test_a_selection(self):
        facts = self.facts(ordinary(), "--thread=worker")
        self.assertTrue(facts["selected"])
        self.assertEqual(facts["devices"][0]["held_peak"], 10 * MIB)
        self.assertNotIn("from the driver", self.report(ordinary(), "--stream=1").stdout)

    def test_a_cut_history_begins_where_it_was(self):
        whole, end = self.facts(ordinary()), self.facts(ordinary().snapshot(keep=6))
        self.assertEqual(whole["devices"][0]["points"][-1]["held_end"], end["devices"][0]["points"][-1]["held_end"])
        self.assertEqual(end["devices"][0]["points"][0]["held_most"], 58 * MIB)

    def test_marks(self):
        program = ordinary()
        program.event("mode")
        program.event("oom", size=7 * MIB)
        program.event("trim", detail="idle", size=MIB)
        program.event("mode")
        marks = self.facts(program)["devices"][0]["marks"]
        self.assertEqual([(mark["what"], mark["detail"], mark["size"]) for mark in marks],
                         [("oom", "", 7 * MIB), ("trim", "idle", MIB), ("mode", "", 0)])
        text = self.report(program).stdout
        self.assertIn("O memory ran out, T idle memory went back, M the rule of reuse changed",
                      " ".join(text.split()))
        self.assertIn("21.0 us: memory ran out for 7 MiB", text)

    def test_characters_are_those_of_the_locale(self):
        for arguments, environment, braille in (([], {"LC_ALL": "C.UTF-8"}, True), ([], {"LC_ALL": "C"}, False),
                                                (["--ascii"], {"LC_ALL": "C.UTF-8"}, False)):
            text = self.report(ordinary(), *arguments, **environment).stdout
            self.assertEqual("\u28ff" in text, braille)
            self.assertEqual(text.isascii(), not braille)
            self.narrow(text)

    def test_height(self):
        short, long = (len(self.report(ordinary(), "--height", n).stdout.splitlines()) for n in ("2", "30"))
        self.assertEqual(long - short, 28)
        for option in ("--height=1", "--height=x", "--points=0"):
            self.one_line(self.report(ordinary(), option, status=USAGE).stderr)


class Frag(Reports):
    command = "frag"

    def test_the_map_at_the_end(self):
        (device,) = self.facts(ordinary())["devices"]
        self.assertEqual((device["reserved"], device["segment_count"]), (58 * MIB, 5))
        self.assertEqual(device["live"], {"bytes": 20 * MIB, "count": 2})
        self.assertEqual(device["pending_free"], {"bytes": 5 * MIB, "count": 1})
        self.assertEqual(device["idle"], {"bytes": 33 * MIB, "count": 2})
        self.assertEqual(device["largest_idle"], 32 * MIB)
        self.assertEqual([(group["size"], group["count"]) for group in device["groups"]],
                         [(32 * MIB, 1), (10 * MIB, 2), (5 * MIB, 1), (MIB, 1)])
        self.assertIn("rounding up costs 0 B", self.report(ordinary()).stdout)

    def test_the_map_of_the_peak_and_of_a_time(self):
        facts = self.facts(ordinary(), "--at", "peak")
        (device,) = facts["devices"]
        self.assertEqual(facts["time_ns"], 10000)
        self.assertEqual(device["live"], {"bytes": 58 * MIB, "count": 5})
        self.assertEqual(device["requested"], 56 * MIB)
        self.assertIn("rounding up costs 2 MiB (3.4%)", self.report(ordinary(), "--at=peak").stdout)
        self.assertEqual(self.facts(ordinary(), "--at=4us")["devices"][0]["live"]["count"], 2)
        self.assertEqual(self.facts(ordinary(), "--at=0s")["devices"], [])
        self.assertIsNone(self.facts(ordinary(), "--at=end")["time_ns"])

    def test_a_rebuilt_map_is_the_snapshots(self):
        """The moment before the last event: managed memory, which is in no segment."""
        end, rebuilt = self.facts(ordinary()), self.facts(ordinary(), "--at=18us")
        self.assertEqual(end["devices"], rebuilt["devices"])

    def test_segments_with_parts_are_drawn_by_address(self):
        snapshot = ordinary().snapshot()
        first = snapshot["segments"][0]
        block = first["blocks"][0]
        first["blocks"] = [
            dict(block, size=5 * MIB, requested_size=5 * MIB),
            dict(block, address=block["address"] + 5 * MIB, size=5 * MIB, block=77, state="inactive")]
        (device,) = self.facts(snapshot)["devices"]
        (segment,) = device["segments"]
        self.assertEqual([(part["offset"], part["size"], part["state"]) for part in segment["parts"]],
                         [(0, 5 * MIB, "live"), (5 * MIB, 5 * MIB, "idle")])
        self.assertRegex(self.report(snapshot).stdout, r"(?m)^ +10 MiB +1 +10 MiB  #{20,21}\.{20,21}$")

    def test_a_segment_that_is_cut(self):
        (device,) = self.facts(fragmented())["devices"]
        self.assertEqual((device["reserved"], device["segment_count"], device["groups"]), (64 * MIB, 1, []))
        self.assertEqual(device["live"], {"bytes": 40 * MIB, "count": 10})
        self.assertEqual(device["pending_free"], {"bytes": 4 * MIB, "count": 1})
        self.assertEqual(device["idle"], {"bytes": 20 * MIB, "count": 5})
        self.assertEqual(device["largest_idle"], 4 * MIB)
        last = fragmented()
        last.event("snapshot")
        self.assertEqual(self.facts(last, "--at=28us")["devices"], [device])  # rebuilt from the events
        (then,) = self.facts(last, "--at=12us")["devices"]
        self.assertEqual([part["size"] // MIB for part in then["segments"][0]["parts"]], 11 * [4] + [20])

    def test_pieces_that_cannot_go_back(self):
        oom = {"time_ns": 28000, "device": 0, "requested": 8 * MIB, "live": 40 * MIB, "cached": 20 * MIB,
               "in_pieces": 20 * MIB, "largest_free": 4 * MIB}
        snapshot = fragmented().snapshot(reason="oom", oom=oom)
        self.assertIn("none of the 20 MiB that were idle could go back to the driver: their segments have blocks in use",
                      " ".join(self.report(snapshot).stdout.split()))
        oom["largest_free"] = 8 * MIB
        self.assertIn("though a block of 8 MiB was idle: it could not be handed out.",
                      " ".join(self.report(snapshot).stdout.split()))

    def test_the_request_that_failed(self):
        oom = {"time_ns": 19000, "device": 0, "requested": 40 * MIB, "live": 0, "cached": 0, "largest_free": 32 * MIB}
        snapshot = ordinary().snapshot(reason="oom", oom=oom)
        self.assertEqual(self.facts(snapshot)["devices"][0]["request"],
                         {"requested": 40 * MIB, "largest_free": 32 * MIB})
        text = " ".join(self.report(snapshot).stdout.split())
        self.assertIn("Memory ran out for 40 MiB: the largest idle block was 32 MiB, too small", text)
        oom["largest_free"] = 0
        self.assertIn("nothing was idle", " ".join(self.report(snapshot).stdout.split()))

    def test_characters_are_those_of_the_locale(self):
        self.assertIn("\u2588", self.report(ordinary(), LC_ALL="C.UTF-8").stdout)
        self.assertTrue(self.report(ordinary(), "--ascii", LC_ALL="C.UTF-8").stdout.isascii())

    def test_wrong_options(self):
        for option, part in (("--at=now", "accepted: oom, oom=N, peak, exit, a time"), ("--thread=main", "only a device"),
                             ("--since=1s", "only a device"), ("-n=-1", "unknown option")):
            result = self.report(ordinary(), option, status=USAGE)
            self.one_line(result.stderr)
        self.assertIn("-n 0 shows all", self.report(ordinary(), "-n", "2").stdout)
        self.assertEqual(len(self.facts(ordinary(), "-n", "2")["devices"][0]["groups"]), 2)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    cli.GPUPOOL, cli.STUB = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])
