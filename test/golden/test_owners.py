#!/usr/bin/env python3
"""Owners of programs that run: one that asks through layers, built in three ways, and a script that asks through ctypes.

    test_owners.py GPUPOOL LIBRARY RUNTIME DEBUG SYMBOLS STRIPPED
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
MIB = 1 << 20
GPUPOOL = LIBRARY = RUNTIME = DEBUG = SYMBOLS = STRIPPED = None


def planted():
    """The lines of wrappers.cc that are marked, by what they hold."""
    with open(os.path.join(HERE, "wrappers.cc"), encoding="utf-8") as file:
        lines = [number for number, line in enumerate(file, 1) if "/* planted:" in line]
    return dict(zip((160 * MIB, 48 * MIB, 2 * MIB), lines))


class Owners(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def run_tool(self, *arguments):
        result = subprocess.run([GPUPOOL, *arguments], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                encoding="utf-8", timeout=120, check=False)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout

    def record(self, *command):
        """Runs a program under the library; its snapshot at exit."""
        env = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": os.path.dirname(RUNTIME), "LD_PRELOAD": LIBRARY,
               "GPUPOOL_OUTPUT": os.path.join(self.folder, "%e.json"), "GPUPOOL_STACKS": "native"}
        before = set(os.listdir(self.folder))
        subprocess.run(command, env=env, cwd=self.folder, timeout=120, check=True)
        (made,) = set(os.listdir(self.folder)) - before
        return made

    def owners(self, file):
        snapshot = json.loads(self.run_tool("summary", "--json", file))["snapshots"][0]
        return {owner["bytes"]: owner for owner in snapshot["owners"]}

    def test_with_debug_information_it_is_the_line(self):
        owners = self.owners(self.record(DEBUG))
        self.assertEqual({size: owner["line"] for size, owner in owners.items()}, planted())
        self.assertEqual([os.path.basename(owner["file"]) for owner in owners.values()], ["wrappers.cc"] * 3)
        self.assertEqual({size: owner["function"] for size, owner in owners.items()},
                         {160 * MIB: "load_weights", 48 * MIB: "grow_cache", 2 * MIB: "main"})

    def test_without_it_is_the_function(self):
        owners = self.owners(self.record(SYMBOLS))
        names = {size: owner["function"].split("(")[0] for size, owner in owners.items()}
        self.assertEqual(names, {160 * MIB: "load_weights", 48 * MIB: "grow_cache", 2 * MIB: "main"})

    def test_of_a_stripped_program_it_is_the_place(self):
        """The stripped program has the code of the other one, whose symbols say where its functions are."""
        symbols = subprocess.run(["nm", "-S", SYMBOLS], stdout=subprocess.PIPE, encoding="utf-8", check=True).stdout
        ranges = {name: (int(start, 16), int(start, 16) + int(size, 16))
                  for start, size, _, name in (line.split() for line in symbols.splitlines() if len(line.split()) == 4)}
        owners = self.owners(self.record(STRIPPED))
        for size, name in ((160 * MIB, "_ZL12load_weightsi"), (48 * MIB, "_ZL10grow_cachei")):
            match = re.fullmatch(r"wrappers_stripped\+0x([0-9a-f]+)", owners[size]["function"])
            self.assertTrue(match, owners)
            start, end = ranges[name]
            self.assertTrue(start < int(match[1], 16) <= end, (name, owners[size]))

    def test_of_ctypes_it_is_the_script(self):
        file = self.record(os.path.realpath(sys.executable), os.path.join(HERE, "ctypes_script.py"))
        owners = self.owners(file)
        program = os.path.basename(os.path.realpath(sys.executable))
        self.assertEqual([owner["function"] for owner in owners.values()], [program + " ctypes_script.py"])
        text = " ".join(self.run_tool("summary", file).split())
        self.assertIn("%s ctypes_script.py 32 MiB" % program, text)
        self.assertIn("Python frames are not recorded, so reports name the script instead of its lines.", text)
        self.assertNotRegex(self.run_tool("leaks", file), r"#\d+ .*(ffi|_ctypes\.)")


if __name__ == "__main__":
    if len(sys.argv) != 7:
        sys.exit(__doc__)
    GPUPOOL, LIBRARY, RUNTIME, DEBUG, SYMBOLS, STRIPPED = (os.path.abspath(path) for path in sys.argv[1:])
    unittest.main(argv=sys.argv[:1])
