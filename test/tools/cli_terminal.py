#!/usr/bin/env python3
"""What a stranger's file says never steers the terminal of the reader: every command, as text and as JSON, its messages too.

    cli_terminal.py GPUPOOL PRELOAD_STUB RECORD
"""

import json
import os
import pickle
import re
import subprocess
import sys
import unicodedata
import unittest

import cli
from report_case import ordinary
from terminal import open_terminal

RECORD = None
# What each of these does: clear, title, C1 CSI, C1 OSC, override, isolate, mark, zero width, line separator, tag, DEL
BAD = ["\x1b[2J", "\x1b]0;x\x07", "\x9b2J", "\x9d0;x\x9c", "\u202e", "\u2066", "\u200f", "\u061c", "\u200b", "\u2028", "\U000e0041",
       "\x7f", "\x08", "\r", "\n"]
POISON = "x" + "".join(BAD) + "y\u00e9"
STYLES = re.compile(r"\x1b\[[0-9;]*m")


def poisoned():
    snapshot = json.loads(json.dumps(ordinary().snapshot()))
    process = snapshot["process"]
    process.update(program="/bin/" + POISON, host=POISON, command_line=[POISON])
    snapshot["reason"] = POISON
    snapshot["settings"].update({"type": POISON, "limit": POISON, POISON: POISON})
    for thread in snapshot["threads"]:
        thread["name"] = POISON
    for frame in snapshot["frames"]:
        frame.update(function=frame["function"] + POISON, file="/src/" + POISON)
    for module in snapshot["modules"]:
        module["path"] = "/lib/" + POISON
    snapshot["frames"][0].update(function="", file="") # shown by its module
    for memory in snapshot["passthrough"]:
        memory["kind"] = POISON
    # Names with escapes are kept as they stand, so these have them in UTF-8.
    for key in ("actions", "details"):
        snapshot["events"][key] = [name + ("\x9b2J\u202e\x7f" if name in ("oom", "managed", "idle") else "")
                                   for name in snapshot["events"][key]]
    snapshot["notes"] = [POISON]
    snapshot["oom"] = {"time_ns": 18000, "device": 0, "requested": 1 << 40, "live": 1, "deferred": 0, "cached": 0,
                       "passthrough": 0, "limit": None, "by_limit": False, "largest_free": 0, "device_free": None,
                       "device_total": None, "unaccounted": None, "owners": [], "message": POISON}
    return snapshot


class Terminal(cli.Case):
    def expect_harmless(self, data, what):
        text = data.decode("utf-8") # strictly: no lone byte
        bad = sorted({"U+%04X" % ord(c) for c in text
                      if c not in "\n\t" and (unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp", "Cs"))})
        self.assertEqual(bad, [], what)
        return text

    def run_bytes(self, *arguments, **environment):
        """Arguments are bytes where they are no UTF-8."""
        result = subprocess.run([self.tool, *arguments], cwd=self.path("work"), stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, timeout=60, env={**self.environment, **environment}, check=False)
        self.expect_harmless(result.stderr, arguments)
        return self.expect_harmless(result.stdout, arguments), result.returncode

    def test_every_command(self):
        path = self.write("s.json", json.dumps(poisoned(), ensure_ascii=False).replace("\\u007f", "\x7f"))
        commands = [["summary"], ["leaks"], ["leaks", path], ["sites"], ["sites", "--by", "line"], ["sites", "--by", "module"],
                    ["sites", "--by", "size"], ["frag"], ["frag", "--at", "peak"], ["timeline"], ["diff", path]]
        for command in commands:
            for options in ([], ["--wide"], ["--json"], ["--ascii"]):
                for locale in ("C", "C.UTF-8"):
                    out, status = self.run_bytes(*command, path, *options, LC_ALL=locale)
                    self.assertEqual(status, 0)
                    if options == ["--json"]:
                        report = json.loads(out)
                    if options == ["--json"] and command == ["summary"]:
                        self.assertEqual(report["snapshots"][0]["reason"], POISON, "escaped, not lost")
        for name in ("pytorch-json", "perfetto", "speedscope", "folded", "csv"):
            out, status = self.run_bytes("export", "--to", name, path)
            self.assertEqual(status, 0)
            if name not in ("folded", "csv"):
                self.assertIn(POISON, "\n".join(strings(json.loads(out))), "escaped, not lost")
        out, status = self.run_bytes("symbolize", path)
        written, expected = json.loads(out), poisoned()
        self.assertEqual(status, 0)
        self.assertEqual([frame["function"] for frame in written["frames"][1:]],
                         [frame["function"] for frame in expected["frames"][1:]])
        self.assertEqual({**written, "frames": []}, {**expected, "frames": []}, "escaped, not changed")

    def test_on_a_terminal(self):
        """With colour: the tool's own sequences, and no others."""
        path = self.write("s.json", json.dumps(poisoned(), ensure_ascii=False))
        own, other = open_terminal()
        env = dict(self.environment, TERM="xterm", LC_ALL="C.UTF-8")
        with subprocess.Popen([self.tool, "summary", path], stdout=other, stderr=other, env=env) as process:
            os.close(other)
            seen = b""
            try:
                while part := os.read(own, 65536):
                    seen += part
            except OSError:
                pass # the other end is closed
        os.close(own)
        self.assertEqual(process.returncode, 0)
        text = seen.decode("utf-8").replace("\r\n", "\n")
        self.assertRegex(text, STYLES)
        self.expect_harmless(STYLES.sub("", text).encode(), "summary")

    def test_names_of_files(self):
        """Messages and headings name what was typed, which may be no UTF-8."""
        name = os.fsencode(self.path("work", "s\x1b[2J\n")) + b"\x9b\xff\xc3"
        with open(name, "w", encoding="utf-8") as file:
            json.dump(cli.snapshot_of(), file)
        for arguments in (["summary", name], ["summary", name, "--json"], ["leaks", name, "--json"], ["sites", name]):
            self.assertEqual(self.run_bytes(*arguments)[1], 0)
        for arguments in (["summary", name + b"none"], ["recover", name], ["export", "--to", name, name], [name], ["leaks", "--" + "\x9b"],
                          ["symbolize", name, "-o", name], ["run", "--type", name, "x"], ["config", b"\x9b"]):
            self.assertIn(self.run_bytes(*arguments)[1], (2, 3, 125))
        self.run_bytes("config", GPUPOOL_OUTPUT=POISON)
        self.assertEqual(json.loads(self.run_bytes("config", "--json", GPUPOOL_OUTPUT=POISON)[0])["options"][0]["name"][:1] != "", True)
        self.run_bytes("recover", "--list", GPUPOOL_RECORD=POISON)

    def test_suppressions(self):
        with open(self.path("work", "known"), "wb") as file:
            file.write(b"leak:\x1b[2J\x9b\xff*\xe2\x80\xae\nleak:x\n")
        path = self.write("s.json", poisoned())
        for options in ([], ["--json"]):
            self.assertEqual(self.run_bytes("leaks", path, "--suppressions", "known", *options)[1], 0)

    def test_pickles(self):
        frames = [{"filename": POISON, "line": 1, "name": POISON}]
        path = self.path("work", "s.pickle")
        with open(path, "wb") as file:
            pickle.dump({"segments": [], "allocator_settings": {POISON: POISON}, "device_traces": [[
                {"action": "alloc", "addr": 512, "size": 512, "stream": 0, "time_us": 1, "frames": frames}]]}, file)
        for arguments in (["summary", path], ["sites", path], ["sites", path, "--json"], ["export", "--to", "folded", path]):
            self.assertEqual(self.run_bytes(*arguments)[1], 0)

    def test_records(self):
        """A program of a wild name: in the file's name, on stdout, in messages."""
        with open(RECORD, "rb") as file:
            content = file.read()
        for wild in (b"/usr/bin/\x1b\x9b;", b"/usr/\xe2\x80\xae$`"):
            self.write("r", "")
            with open(self.path("work", "r"), "wb") as file:
                file.write(content.replace(b"/usr/bin/app\0host", wild.ljust(12, b"\xff") + b"\0host"))
            out, status = self.run_bytes("recover", "r", "-o", "-")
            self.assertEqual(status, 0)
            json.loads(out)
            self.assertEqual(self.run_bytes("recover", "r")[1], 0)
        names = [name for name in os.listdir(os.fsencode(self.path("work"))) if name != b"r"]
        self.assertEqual(len(names), 2)
        for name in names:
            self.assertRegex(name, rb"^[A-Za-z0-9_.-]+$")


def strings(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for item in value if isinstance(value, list) else [*value, *value.values()]:
            yield from strings(item)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    cli.GPUPOOL, cli.STUB, RECORD = map(os.path.abspath, sys.argv[1:4])
    unittest.main(argv=[sys.argv[0]] + sys.argv[4:])
