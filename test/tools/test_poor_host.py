#!/usr/bin/env python3
"""Each request of the tool for memory is refused in turn.

    test_poor_host.py GPUPOOL PRELOAD_STUB RECORD

RECORD: that of a program that was killed. With GP_QUICK=1 some requests, else the first and the last of each place in the code.
"""

import lzma
import os
import sys
import unittest

import cli
from cli import DONE, INPUT

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "..", "golden")
QUICK = os.environ.get("GP_QUICK") in ("1", "2")
QUICK_STEP = 7
RECORD = None
sys.path.insert(0, GOLDEN)
from histories import FILES  # noqa: E402

LEFT_OPEN = 24  # poor_host.c
ENDED = "gpupool: JSON: out of memory\n"  # in the middle of the work, which leaves files open (main.c)
# The pool goes on without the memory, as it would in a program, and comes to other figures.
SIMULATE = (["replay", "leak.json"], ["tune", "leak.json"], ["summary", "oom-stacks.json", "--json"])
SNAPSHOTS = ("leak", "oom-stacks", "pieces", "wrappers-debug")
# Arguments; OUT is a file that the command writes.
CASES = (
    ["summary", "wrappers-debug.json"],
    ["summary", "oom-stacks.json", "--json"],
    ["summary", "three-devices.pickle"],
    ["sites", "leak.json"],
    ["sites", "oom-stacks.json", "--by", "line", "--json"],
    ["leaks", "leak.json", "-o", "OUT"],
    ["leaks", "oom-stacks.json", "leak.json"],
    ["frag", "pieces.json"],
    ["timeline", "pieces.json"],
    ["diff", "oom-stacks.json", "leak.json"],
    ["html", "wrappers-debug.json", "-o", "OUT"],
    ["symbolize", "leak.json", "-o", "OUT"],
    ["replay", "leak.json"],
    ["tune", "leak.json"],
    ["recover", "RECORD", "-o", "OUT"],
    ["config"],
) + tuple(["export", "leak.json", "--device", "0", "--to", name, "-o", "OUT"] for name in ("csv", "folded", "perfetto", "pytorch", "pytorch-json", "speedscope"))


@unittest.skipUnless(cli.LEAK_CHECKER, "no leak checker in this build")
class PoorHost(cli.Case):
    def setUp(self):
        super().setUp()
        for name in SNAPSHOTS:
            with lzma.open(os.path.join(GOLDEN, name + ".json.xz"), "rt", encoding="utf-8") as packed:
                self.write(name + ".json", packed.read())
        with open(self.path("work", "three-devices.pickle"), "wb") as file:
            file.write(FILES["three-devices.pickle"]())
        os.mkdir(self.path("out"))

    def refuse(self, arguments, number):
        """Status, standard output, standard error and the files of a run in which that request fails."""
        out = self.path("out")
        places = {"OUT": os.path.join(out, "new"), "RECORD": RECORD}
        result = self.run_tool(*[places.get(argument, argument) for argument in arguments], status=None,
                               POOR_HOST=str(number), POOR_HOST_FILE=self.path("places"))
        files = {}
        for name in os.listdir(out):
            with open(os.path.join(out, name), "rb") as file:
                files[name] = file.read()
            os.unlink(os.path.join(out, name))
        return result.returncode, result.stdout, result.stderr, files

    def test_each_request_for_memory(self):
        """A command that goes on without has the same to say; else it says what is missing, and leaves no file."""
        for arguments in CASES:
            status, out, err, files = whole = self.refuse(arguments, 0)
            self.assertEqual(status, DONE, err)
            with open(self.path("places"), encoding="utf-8") as file:
                numbers = sorted({int(number) for number in file.read().split()})
            for number in numbers[::QUICK_STEP if QUICK else 1]:
                with self.subTest(" ".join(arguments), number=number):
                    got = self.refuse(arguments, number)
                    if got[0] == DONE and got[2] == err:
                        if arguments not in SIMULATE:
                            self.assertEqual(got, whole)
                    elif got[0] == DONE:
                        self.assertIn("gpupool: ", got[2])
                    else:
                        allowed = (INPUT, LEFT_OPEN) if ENDED in got[2] else (INPUT,)
                        self.assertIn(got[0], allowed, got[2])
                        self.assertIn("gpupool: ", got[2])
                        self.assertEqual(got[3], {})
                        self.assertTrue(out.startswith(got[1]))


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    cli.GPUPOOL, cli.STUB, RECORD = map(os.path.abspath, sys.argv[1:4])
    unittest.main(argv=[sys.argv[0]] + sys.argv[4:])
