#!/usr/bin/env python3
"""The commands of gpupool that read snapshots, beside summary.

    cli_reports.py GPUPOOL PRELOAD_STUB [TEST ...]
"""

import json
import os
import re
import subprocess
import sys
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
        self.assertRegex(text, r"\n *10 MiB [^\n]* Model::load[^\n]*\n +0 B [^\n]* main\n *50 MiB [^\n]* \(no stack recorded\)\n\n")

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
        self.assertNotIn(" reserved", self.report(ordinary(), "--stream=1").stdout)

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
        self.assertIn("O memory ran out, T idle memory was released, M the reuse rule changed",
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
        self.assertIn("none of the 20 MiB of idle memory could be released: its segments have blocks in use",
                      " ".join(self.report(snapshot).stdout.split()))
        oom["largest_free"] = 8 * MIB
        self.assertIn("though a block of 8 MiB was idle: it could not be reused.",
                      " ".join(self.report(snapshot).stdout.split()))

    def test_the_request_that_failed(self):
        oom = {"time_ns": 19000, "device": 0, "requested": 40 * MIB, "live": 0, "cached": 0, "largest_free": 32 * MIB}
        snapshot = ordinary().snapshot(reason="oom", oom=oom)
        self.assertEqual(self.facts(snapshot)["devices"][0]["request"],
                         {"requested": 40 * MIB, "largest_free": 32 * MIB})
        text = " ".join(self.report(snapshot).stdout.split())
        self.assertIn("Memory ran out for 40 MiB: the largest idle block was 32 MiB, too small", text)
        oom["largest_free"] = 0
        self.assertIn("no idle memory could", " ".join(self.report(snapshot).stdout.split()))

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
