#!/usr/bin/env python3
"""gpupool symbolize: what it changes in a snapshot, and which files it takes names from.

    cli_symbolize.py GPUPOOL PRELOAD_STUB

The tool itself is the program whose frames get names: nm and readelf say where it has what.
"""

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

    def test_without_stacks(self):
        text = '{"format":"gpupool-snapshot","version":1,"stacks":[],"frames":[],"modules":[]}'
        result = self.run_tool("symbolize", self.write("in.json", text))
        self.assertEqual(result.stdout, text)
        self.assertIn("there are no stacks in it", result.stderr)
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


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    cli.GPUPOOL, cli.STUB = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])
