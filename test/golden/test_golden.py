#!/usr/bin/env python3
"""What the commands print of the snapshots in this folder, letter by letter.

    test_golden.py GPUPOOL [--update]

--update writes what the commands print now; read the difference before it goes in. make.py makes the snapshots.
"""

import json
import lzma
import os
import subprocess
import sys
import tempfile
import unittest

import jsonschema

HERE = os.path.dirname(os.path.abspath(__file__))
SCHEMA = os.path.join(HERE, "..", "..", "tools", "reports.schema.json")
GPUPOOL = None
UPDATE = False

# output: arguments; NAME.json is a snapshot
CASES = {
    "train.summary": ["summary", "train.json"],
    "train.sites": ["sites", "train.json"],
    "train.sites-temporary": ["sites", "train.json", "--sort", "temporary", "-n", "5"],
    "train.frag-peak": ["frag", "train.json", "--at", "peak"],
    "train.timeline": ["timeline", "train.json"],
    "train.timeline-ascii": ["timeline", "train.json", "--ascii", "--since=30ms", "--height=6"],
    "oom-limit.summary": ["summary", "oom-limit.json"],
    "oom-limit.leaks": ["leaks", "oom-limit.json", "-n", "3"],
    "oom-limit.timeline": ["timeline", "oom-limit.json"],
    "oom-cached.summary": ["summary", "oom-cached.json"],
    "oom-cached.frag": ["frag", "oom-cached.json"],
    "oom-cached.timeline": ["timeline", "oom-cached.json"],
    "leak.summary": ["summary", "leak.json"],
    "leak.leaks": ["leaks", "leak.json"],
    "leak.sites": ["sites", "leak.json", "--sort", "live"],
    "leak.frag": ["frag", "leak.json", "--device", "3"],
    "leak.timeline": ["timeline", "leak.json", "--height", "4"],
    "leak.sites-lines": ["sites", "leak.json", "--by", "line", "--sort", "total", "-n", "4"],
    "oom-stacks.summary": ["summary", "oom-stacks.json"],
    "oom-stacks.sites": ["sites", "oom-stacks.json"],
    "oom-stacks.leaks": ["leaks", "oom-stacks.json"],
    "no-events.leaks": ["leaks", "no-events.json"],
    "no-events.timeline": ["timeline", "no-events.json"],
    "diff": ["diff", "oom-limit.json", "train.json"],
    "growth.leaks": ["leaks", "oom-limit.json", "oom-cached.json", "-n", "3"],
}


class Golden(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        for name in os.listdir(HERE):
            if name.endswith(".json.xz"):
                with lzma.open(os.path.join(HERE, name)) as packed, open(os.path.join(cls.folder, name[:-3]), "wb") as file:
                    file.write(packed.read())
        with open(SCHEMA, encoding="utf-8") as file:
            cls.validator = jsonschema.Draft202012Validator(json.load(file))

    def run_tool(self, arguments):
        env = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
        result = subprocess.run([GPUPOOL] + arguments, cwd=self.folder, env=env, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, encoding="utf-8", timeout=120, check=False)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout

    def test_text(self):
        for name, arguments in CASES.items():
            with self.subTest(name):
                text = self.run_tool(arguments)
                self.assertLessEqual(max(map(len, text.splitlines())), 80)
                path = os.path.join(HERE, name + ".txt")
                if UPDATE:
                    with open(path, "w", encoding="utf-8") as file:
                        file.write(text)
                with open(path, encoding="utf-8") as file:
                    self.assertEqual(text, file.read())

    def test_json(self):
        for name, arguments in CASES.items():
            with self.subTest(name):
                self.validator.validate(json.loads(self.run_tool(arguments + ["--json"])))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    GPUPOOL = os.path.abspath(sys.argv[1])
    UPDATE = "--update" in sys.argv
    unittest.main(argv=[sys.argv[0]] + [argument for argument in sys.argv[2:] if argument != "--update"])
