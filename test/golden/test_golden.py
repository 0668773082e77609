#!/usr/bin/env python3
"""What the commands print of the snapshots in this folder, letter by letter.

    test_golden.py GPUPOOL [--update]

NAME.txt has the text. --json is compared with the schema, and one of each command letter by letter: NAME.report.json. --update writes what the commands print now; read the
difference before it goes in. make.py makes the snapshots.
"""

import json
import lzma
import os
import subprocess
import sys
import tempfile
import unittest

from histories import FILES

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tools"))
import cli  # noqa: E402
import cli_phases  # noqa: E402
import test_import  # noqa: E402
from report_case import DRAFT  # noqa: E402

GPUPOOL = None
UPDATE = False

# Snapshots that tests make.
MADE = {"ten-streams": test_import.ten_streams, "phases": cli_phases.training}

# output: arguments; NAME.json is a snapshot
CASES = {
    "script.summary": ["summary", "script.json"],
    "ten-streams.summary": ["summary", "ten-streams.json"],
    "ten-streams.sites": ["sites", "ten-streams.json"],
    "ten-streams.leaks": ["leaks", "ten-streams.json"],
    "ten-streams.frag-peak": ["frag", "ten-streams.json", "--at", "peak"],
    "ten-streams.timeline": ["timeline", "ten-streams.json"],
    "phases.summary": ["summary", "phases.json"],
    "phases.timeline": ["timeline", "phases.json"],
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
    "growing-cache.summary": ["summary", "growing-cache.json"],
    "oom-busy.summary": ["summary", "oom-busy.json"],
    "pieces.summary": ["summary", "pieces.json"],
    "pieces.frag": ["frag", "pieces.json"],
    "pieces.frag-peak": ["frag", "pieces.json", "--at", "peak", "-n", "6"],
    "pieces.sites": ["sites", "pieces.json"],
    "pieces.leaks": ["leaks", "pieces.json"],
    "pieces.timeline": ["timeline", "pieces.json"],
    "surplus.summary": ["summary", "surplus.json"],
    "wrappers-debug.summary": ["summary", "wrappers-debug.json"],
    "wrappers-symbols.summary": ["summary", "wrappers-symbols.json"],
    "wrappers-stripped.summary": ["summary", "wrappers-stripped.json"],
    "wrappers-debug.leaks": ["leaks", "wrappers-debug.json"],
    "ctypes.summary": ["summary", "ctypes.json"],
    "no-events.leaks": ["leaks", "no-events.json"],
    "no-events.timeline": ["timeline", "no-events.json"],
    "three-devices.summary": ["summary", "three-devices.pickle"],
    "three-devices.sites": ["sites", "three-devices.pickle", "--at", "oom"],
    "three-devices.frag": ["frag", "three-devices.pickle", "--at", "oom", "-n", "4"],
    "three-devices.timeline": ["timeline", "three-devices.pickle", "--at", "oom", "--device", "1"],
    "no-times.summary": ["summary", "no-times.pickle"],
    "no-times.sites": ["sites", "no-times.pickle", "--at", "oom"],
    "survived.summary": ["summary", "survived.pickle"],
    "survived.summary-second": ["summary", "survived.pickle", "--at", "oom=2"],
    "expandable.summary": ["summary", "expandable.pickle"],
    "expandable.timeline": ["timeline", "expandable.pickle", "--at", "oom", "--height", "6"],
    "expandable.frag": ["frag", "expandable.pickle", "--at", "oom"],
    "tight.summary": ["summary", "tight.pickle"],
    "no-history.summary": ["summary", "no-history.pickle"],
    "no-history.sites": ["sites", "no-history.pickle"],
    "no-history.leaks": ["leaks", "no-history.pickle"],
    "late.summary": ["summary", "late.pickle"],
    "in-pieces.summary": ["summary", "in-pieces.pickle"],
    "windows.summary": ["summary", "windows.pickle"],
    "first-version.summary": ["summary", "first-version.pickle"],
    "two-limits.summary": ["summary", "two-limits.json"],
    "killed.summary": ["summary", "killed.json"],
    "training.replay": ["replay", "training.pickle", "--type", "all"],
    "survived.replay": ["replay", "survived.pickle", "--type", "all"],
    "three-devices.replay": ["replay", "three-devices.pickle", "--type", "all"],
    "training.tune": ["tune", "training.pickle"],
    "survived.tune": ["tune", "survived.pickle", "--type", "round", "--with-prewarm"],
    "overview": ["summary", "oom-limit.json", "oom-cached.json", "leak.json", "surplus.json", "no-events.json"],
    "diff": ["diff", "oom-limit.json", "train.json"],
    "growth.leaks": ["leaks", "oom-limit.json", "oom-cached.json", "-n", "3"],
}


# One of each command: the texts have the same figures.
JSON = {"oom-stacks.summary", "oom-stacks.sites", "oom-stacks.leaks", "pieces.frag", "oom-limit.timeline", "training.replay",
        "training.tune", "diff"}


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
        for name, make in FILES.items():
            with open(os.path.join(cls.folder, name), "wb") as file:
                file.write(make())
        schema = cli.report_schema()
        DRAFT.check_schema(schema)
        cls.validator = DRAFT(schema)

        for name, snapshot in MADE.items():
            with open(os.path.join(cls.folder, name + ".json"), "w", encoding="utf-8") as file:
                json.dump(snapshot(), file)

    def run_tool(self, arguments):
        env = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", **cli.leaks_are_errors(arguments)}
        result = subprocess.run([GPUPOOL] + arguments, cwd=self.folder, env=env, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, encoding="utf-8", timeout=120, check=False)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout

    def expect_stored(self, name, text):
        path = os.path.join(HERE, name)
        if UPDATE:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        with open(path, encoding="utf-8") as file:
            self.assertEqual(text, file.read())

    def test_text(self):
        for name, arguments in CASES.items():
            with self.subTest(name):
                text = self.run_tool(arguments)
                self.assertLessEqual(max(map(len, text.splitlines())), 80)
                self.expect_stored(name + ".txt", text)

    def test_json(self):
        for name, arguments in CASES.items():
            if "--ascii" in arguments or name == "overview":
                continue  # how something is drawn, or put together
            with self.subTest(name):
                text = self.run_tool(arguments + ["--json"])
                self.validator.validate(json.loads(text))
                if name in JSON:
                    self.expect_stored(name + ".report.json", text)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    GPUPOOL = os.path.abspath(sys.argv[1])
    UPDATE = "--update" in sys.argv
    unittest.main(argv=[sys.argv[0]] + [argument for argument in sys.argv[2:] if argument != "--update"])
