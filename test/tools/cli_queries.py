#!/usr/bin/env python3
"""The queries of doc/snapshots.md, each where its tool is installed.

    cli_queries.py SOURCE [TEST ...]
"""

import importlib.util
import lzma
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = None


def query(language):
    with open(os.path.join(SOURCE, "doc", "snapshots.md"), encoding="utf-8") as file:
        (text,) = re.findall(r"^```%s\n(.*?)^```$" % language, file.read(), re.M | re.S)
    return text


class Queries(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        with lzma.open(os.path.join(SOURCE, "test", "golden", "train.json.xz"), "rt", encoding="utf-8") as packed:
            text = packed.read()
        with open(os.path.join(self.folder, "snapshot.json"), "w", encoding="utf-8") as file:
            file.write(text)
        events = json.loads(text)["events"]
        alloc = events["actions"].index("alloc")
        rows = [(size, time) for size, time, action in zip(events["size"], events["time_ns"], events["action"]) if action == alloc]
        self.expected = sorted(rows, key=lambda row: (-row[0], row[1]))[:3]

    def expect_rows(self, command, text=None):
        result = subprocess.run(command, cwd=self.folder, input=text, stdout=subprocess.PIPE, universal_newlines=True, check=True,
                                timeout=60)
        self.assertEqual([tuple(int(word) for word in line.split()) for line in result.stdout.splitlines()], self.expected)

    @unittest.skipUnless(shutil.which("jq"), "jq is not installed")
    def test_jq(self):
        self.expect_rows(["jq", "-r", query("jq"), "snapshot.json"])

    @unittest.skipUnless(importlib.util.find_spec("pandas"), "pandas is not installed")
    def test_pandas(self):
        self.expect_rows([sys.executable, "-c", query("python")])

    @unittest.skipUnless(shutil.which("duckdb"), "duckdb is not installed")
    def test_duckdb(self):
        self.expect_rows(["duckdb", "-noheader", "-list", "-separator", " "], query("sql"))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    SOURCE = os.path.abspath(sys.argv[1])
    unittest.main(argv=[sys.argv[0]] + sys.argv[2:])
