#!/usr/bin/env python3
"""gpupool symbolize: what it changes in a snapshot, and which files it takes names from.

    cli_symbolize.py GPUPOOL PRELOAD_STUB

The tool itself is the program whose frames get names: nm and readelf say where it has what.
"""

import contextlib
import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
import unittest

import cli
from cli import DONE, INPUT, USAGE

BIAS = 1 << 40


def output_of(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout


@contextlib.contextmanager
def watch(folder):
    """The names in folder that were opened meanwhile, inotify(7). To look at a file without opening it (O_PATH) is none."""
    opened, libc = set(), ctypes.CDLL(None, use_errno=True)
    fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if fd < 0 or libc.inotify_add_watch(fd, os.fsencode(folder), 0x20) < 0: # IN_OPEN
            raise OSError(ctypes.get_errno(), "inotify")
        yield opened
        with contextlib.suppress(BlockingIOError):
            events = os.read(fd, 1 << 16)
            while events:
                length = int.from_bytes(events[12:16], sys.byteorder)
                opened.add(events[16:16 + length].rstrip(b"\0").decode())
                events = events[16 + length:]
    finally:
        os.close(fd)
    opened.discard("")


class Symbolize(cli.Case):
    def setUp(self):
        super().setUp()
        notes = output_of("readelf", "-n", cli.GPUPOOL)
        found = re.search(r"Build ID: ([0-9a-f]+)", notes)
        self.build_id = found.group(1) if found else ""
        symbol, = re.findall(r"^([0-9a-f]+) t gp_message_unknown_option$|^([0-9a-f]+) T gp_message_unknown_option$",
                             output_of("nm", cli.GPUPOOL), re.MULTILINE)
        # Of a position-independent program, as loaded at BIAS.
        self.function = "gp_message_unknown_option"
        self.address = BIAS + int(symbol[0] or symbol[1], 16)

    def snapshot(self, path=None, build_id=None, address=None):
        """Written by hand, so that what must stay as it is has blanks, another order and unknown keys."""
        module = {"path": path or cli.GPUPOOL, "build_id": self.build_id if build_id is None else build_id,
                  "bias": BIAS, "start": BIAS, "end": BIAS + (1 << 20)}
        return ('{ "format":"gpupool-snapshot", "version":1,\n "process" : {"start_time_us":%d},\n'
                '"modules":[%s],"frames": [{"address":%d,"module":0}, {"address":77,"module":-1}],\n'
                '  "novelty":{"deep":[1,2,{"x":"\\u00e9 é"}]},"stacks":[ [0,1],[ ],[1] ],"events":{"actions":[]} }\n\n'
                % (2**52, json.dumps(module), self.address if address is None else address))

    def symbolize(self, text, *arguments, **environment):
        result = self.run_tool("symbolize", self.write("in.json", text), *arguments, **environment)
        return json.loads(result.stdout), result.stderr

    def expect_named(self, document):
        frame = document["frames"][document["stacks"][0][0]]
        self.assertEqual(frame["function"], self.function)
        return frame

    def expect_unnamed(self, document, stderr, why):
        self.assertNotIn("function", document["frames"][0])
        self.assertIn("gpupool: no names for ", stderr)
        self.assertIn(why, stderr)

    def test_names_and_nothing_else(self):
        text = self.snapshot()
        path = self.write("in.json", text)
        out = self.path("work", "out.json")
        result = self.run_tool("symbolize", path, "-o", out)
        self.assertEqual(result.stdout, "")
        self.assertIn("1 of 2 frames have names", result.stderr)
        with open(out, encoding="utf-8") as file:
            written = file.read()
        self.expect_named(json.loads(written))
        lists = r'("(frames|stacks)": ?)\[.*?\](?=,\n  "novelty|,"events)'
        self.assertEqual(re.sub(lists, r"\1", written, flags=re.DOTALL), re.sub(lists, r"\1", text, flags=re.DOTALL))
        self.assertEqual([len(stack) for stack in json.loads(written)["stacks"]][1:], [0, 1])
        # Again: nothing is left to do.
        again = self.run_tool("symbolize", out)
        self.assertEqual(json.loads(again.stdout), json.loads(written))
        # An existing file is kept.
        result = self.run_tool("symbolize", path, "-o", out, status=USAGE)
        self.assertIn("--force", result.stderr)
        self.run_tool("symbolize", path, "-o", out, "--force")

    def test_stdin(self):
        result = self.run_tool("symbolize", "-", stdin=self.snapshot())
        self.expect_named(json.loads(result.stdout))

    def test_another_build_lends_no_names(self):
        document, stderr = self.symbolize(self.snapshot(build_id="00" * 20))
        self.expect_unnamed(document, stderr, "is another build")
        document, stderr = self.symbolize(self.snapshot(build_id=""))
        self.expect_unnamed(document, stderr, "is another build")

    def test_file_that_is_gone(self):
        document, stderr = self.symbolize(self.snapshot(path="/nowhere/app"))
        self.expect_unnamed(document, stderr, "/nowhere/app is not there")

    def test_sysroot(self):
        os.makedirs(self.path("root/opt"))
        shutil.copy(cli.GPUPOOL, self.path("root/opt/app"))
        text = self.snapshot(path="/opt/app")
        document, stderr = self.symbolize(text)
        self.expect_unnamed(document, stderr, "/opt/app is not there")
        document, _ = self.symbolize(text, "--sysroot", self.path("root"))
        self.expect_named(document)

    def test_without_a_table_of_addresses(self):
        """clang writes none (.debug_aranges); lines must be found all the same."""
        program = self.path("work", "app")
        subprocess.run(["objcopy", "--remove-section=.debug_aranges", cli.GPUPOOL, program], check=True)
        whole = self.expect_named(self.symbolize(self.snapshot())[0])
        without = self.expect_named(self.symbolize(self.snapshot(path=program))[0])
        self.assertEqual(without, whole)

    def test_without_build_id_the_file_has_to_be_older(self):
        stripped = self.path("work", "app")
        subprocess.run(["objcopy", "--remove-section=.note.gnu.build-id", cli.GPUPOOL, stripped], check=True)
        text = self.snapshot(path=stripped, build_id="")
        document, _ = self.symbolize(text) # the process began in the far future
        self.expect_named(document)
        document, stderr = self.symbolize(text.replace(str(2**52), "1000000"))
        self.expect_unnamed(document, stderr, "changed after the program began")

    def test_debug_files(self):
        if not self.build_id:
            self.skipTest("this compiler makes no build-ids")
        program, debug = self.path("work", "app"), self.path("debug")
        folder = os.path.join(debug, ".build-id", self.build_id[:2])
        os.makedirs(folder)
        name = os.path.join(folder, self.build_id[2:] + ".debug")
        subprocess.run(["objcopy", "--only-keep-debug", cli.GPUPOOL, name], check=True)
        subprocess.run(["strip", "-o", program, cli.GPUPOOL], check=True)
        text = self.snapshot(path=program)
        document, _ = self.symbolize(text) # neither a symbol nor a wrong name
        self.assertNotIn("function", document["frames"][0])
        for path in (program, "/nowhere/app"):
            document, _ = self.symbolize(self.snapshot(path=path), "--debug-dir", debug)
            self.expect_named(document)

    def test_nothing_is_fetched(self):
        """A server that would be asked is not even looked for."""
        program = self.path("work", "app")
        subprocess.run(["strip", "-o", program, cli.GPUPOOL], check=True)
        for path in (program, "/nowhere/app"):
            document, _ = self.symbolize(self.snapshot(path=path), DEBUGINFOD_URLS="http://127.0.0.1:1",
                                         DEBUGINFOD_CACHE_PATH=self.path("work", "cache"))
            self.assertNotIn("function", document["frames"][0])
        self.assertFalse(os.path.exists(self.path("work", "cache")))

    def expect_never_opened(self, folder, name, text, *arguments):
        with watch(folder) as opened:
            result = self.run_tool("symbolize", self.write("in.json", text), *arguments)
        self.assertNotIn(name, opened)
        return json.loads(result.stdout), result.stderr

    def test_what_is_no_file_is_never_opened(self):
        folder = self.path("work")
        os.mkfifo(os.path.join(folder, "pipe"))
        text = self.snapshot(path=os.path.join(folder, "pipe"))
        self.expect_unnamed(*self.expect_never_opened(folder, "pipe", text), "is not a regular file")
        for path, why in (("/dev/tty", "is not a regular file"), (folder, "is not a regular file"),
                          ("/proc/version", "is not an ELF file"), (self.write("text", "x" * 100), "is not an ELF file")):
            with self.subTest(path=path):
                document, stderr = self.symbolize(self.snapshot(path=path))
                self.expect_unnamed(document, stderr, why)

    def test_the_build_id_names_no_path(self):
        """DIR/.build-id/..//../pipe.debug would be DIR/../pipe.debug."""
        os.makedirs(self.path("debug/.build-id"))
        os.mkfifo(self.path("pipe.debug"))
        text = self.snapshot(path="/nowhere/app", build_id="../../pipe")
        found = self.expect_never_opened(self.folder, "pipe.debug", text, "--debug-dir", self.path("debug"))
        self.expect_unnamed(*found, "has an invalid build-id in the snapshot")
        for build_id in ("0", "00", "0" * 7, "AB" * 20, "0" * 200, "a/" * 20):
            self.expect_unnamed(*self.symbolize(self.snapshot(build_id=build_id)), "has an invalid build-id")

    def linked(self, link):
        """The program, with a name of its debug file and without symbols."""
        program, name = self.path("work", "app"), self.write(link, "debug information")
        subprocess.run(["objcopy", "--strip-all", "--remove-section=.note.gnu.build-id", "--add-gnu-debuglink=" + name,
                        cli.GPUPOOL, program], check=True)
        os.unlink(name)
        return self.snapshot(path=program, build_id="")

    def test_a_debug_link_leads_to_files_only(self):
        text = self.linked("pipe")
        os.mkfifo(self.path("work", "pipe"))
        document, _ = self.expect_never_opened(self.path("work"), "pipe", text)
        self.assertNotIn("function", document["frames"][0])

    def test_a_debug_link_has_to_fit(self):
        text = self.linked("app.debug")
        debug = self.path("work", "app.debug")
        shutil.copy(cli.GPUPOOL, debug) # of another checksum
        document, _ = self.symbolize(text)
        self.assertNotIn("function", document["frames"][0])
        program = self.path("work", "app")
        subprocess.run(["objcopy", "--only-keep-debug", "--remove-section=.note.gnu.build-id", cli.GPUPOOL, debug],
                       check=True)
        subprocess.run(["objcopy", "--remove-section=.gnu_debuglink", program], check=True)
        subprocess.run(["objcopy", "--add-gnu-debuglink=" + debug, program], check=True)
        self.expect_named(self.symbolize(text)[0])

    def test_a_shared_debug_file_is_a_file(self):
        """What dwz(1) leaves in a file, with the name of a pipe: then names come from the symbols."""
        program, pipe, link = self.path("work", "app"), self.path("work", "pipe"), self.path("work", "link")
        os.mkfifo(pipe)
        with open(link, "wb") as file:
            file.write(os.fsencode(pipe) + b"\0" + bytes(range(20)))
        subprocess.run(["objcopy", "--add-section=.gnu_debugaltlink=" + link, cli.GPUPOOL, program], check=True)
        document, _ = self.expect_never_opened(self.path("work"), "pipe", self.snapshot(path=program))
        self.assertEqual(self.expect_named(document)["line"], 0)

    def test_a_sysroot_is_not_left(self):
        os.makedirs(self.path("root"))
        shutil.copy(cli.GPUPOOL, self.path("app"))
        found = self.symbolize(self.snapshot(path="/usr/../../app"), "--sysroot", self.path("root"))
        self.expect_unnamed(*found, "is not below the sysroot")

    def test_no_symbols(self):
        """No command opens what a snapshot names if it is not to."""
        program = shutil.copy(cli.GPUPOOL, self.path("tmp", "app"))
        snapshot = cli.snapshot_of(**{key: json.loads(self.snapshot(path=program))[key]
                                      for key in ("modules", "frames", "stacks")})
        path = self.write("s.json", snapshot)
        for command in (["summary"], ["leaks"], ["sites"], ["frag"], ["timeline"], ["diff", path],
                        ["export", "--to", "folded"]):
            with self.subTest(command=command):
                with watch(self.path("tmp")) as opened:
                    self.run_tool(*command, path)
                self.assertIn("app", opened)
                with watch(self.path("tmp")) as opened:
                    self.run_tool(*command, path, "--no-symbols")
                self.assertEqual(opened, set())

    def test_without_stacks(self):
        text = '{"format":"gpupool-snapshot","version":1,"stacks":[],"frames":[],"modules":[]}'
        result = self.run_tool("symbolize", self.write("in.json", text))
        self.assertEqual(result.stdout, text)
        self.assertIn("it has no stacks", result.stderr)
        text = '{"format":"gpupool-snapshot","version":1}'
        self.assertEqual(self.run_tool("symbolize", self.write("in.json", text)).stdout, text)

    def test_input_that_is_wrong(self):
        result = self.run_tool("symbolize", self.path("nothing.json"), status=INPUT)
        self.assertIn("nothing.json", result.stderr)
        text = self.snapshot()
        result = self.run_tool("symbolize", self.write("in.json", text[:len(text) // 2]), "-o", "out.json", status=INPUT)
        self.assertIn("offset", result.stderr)
        self.assertFalse(os.path.exists(self.path("work", "out.json")))
        self.run_tool("symbolize", self.write("in.json", text.replace("[0,1]", "[0,9]")), status=INPUT)

    def test_usage(self):
        for arguments, what in (([], "a file is missing"), (["a", "b"], "one file at a time"),
                                (["--sysrot", "x"], "did you mean --sysroot"), (["a", "--debug-dir"], "needs a value")):
            result = self.run_tool("symbolize", *arguments, status=USAGE)
            self.one_line(result.stderr)
            self.assertIn(what, result.stderr)
        text = self.run_tool("help", "symbolize", status=DONE).stdout
        self.assertTrue(text.startswith("usage: gpupool symbolize "), text)
        self.assertLessEqual(max(map(len, text.splitlines())), 80)
        for arguments in (("--help",), ("-h",), ("a", "--help")):
            self.assertEqual(self.run_tool("symbolize", *arguments).stdout, text)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    cli.GPUPOOL, cli.STUB = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])
