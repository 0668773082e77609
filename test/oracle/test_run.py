#!/usr/bin/env python3
"""run.py: what it makes of programs that do not end.

    test_run.py [TEST ...]
"""

import os
import stat
import tempfile
import unittest

import run

# In place of the programs: each call adds a line to the file "calls", and hangs where HANGS says so.
FAKE = """#!/bin/sh
echo >>%(folder)s/calls
calls=$(wc -l <%(folder)s/calls)
hung=0
if %(hangs)s; then hung=7; fi
echo "%(figures)s hung=$hung"
[ $hung = 0 ] || exit 3
"""
WITH_LIBRARY = '[ -n "$LD_PRELOAD" ]'


class Hangs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def row_after(self, hangs, freely=False, memory="ample"):
        """One program, of seed 7, under a library that is none."""
        build = os.path.join(self.folder, "build")
        path = os.path.join(build, "test", "oracle", "reuse_programs")
        os.makedirs(os.path.dirname(path))
        figures = " ".join(name + "=0" for name in run.FIELDS if name != "hung")
        with open(path, "w") as file:
            file.write(FAKE % {"folder": self.folder, "hangs": hangs, "figures": figures})
        os.chmod(path, stat.S_IRWXU)
        drivers = os.path.join(self.folder, "drivers")
        os.mkdir(drivers)
        row = run.Row("13000", "/dev/null", "round", "context", memory=memory)
        run.Runner(build, drivers, False).run(row, freely, 7, 1)
        return row

    def calls(self):
        with open(os.path.join(self.folder, "calls")) as file:
            return len(file.readlines())

    def test_a_hang_under_the_library_alone_counts(self):
        row = self.row_after(WITH_LIBRARY)
        self.assertEqual((row.figures["hung"], row.hung, self.calls()), (1, [7], 2))
        self.assertIn("seed 7 does not end\n", row.problems[0])

    def test_a_program_that_never_ends_is_not_the_librarys(self):
        row = self.row_after("true")
        self.assertEqual((row.figures["hung"], row.hung), (0, []))
        self.assertIn("seed 7 does not end without the library, either: the program is not legal", row.problems[0])

    def test_threads_that_run_freely_hang_in_some_orders(self):
        row = self.row_after('[ -n "$LD_PRELOAD" ] || [ $calls = 5 ]', freely=True)
        self.assertEqual((row.figures["hung"], self.calls()), (0, 5))
        self.assertIn("the program is not legal", row.problems[0])

    def test_where_memory_is_short_a_native_hang_is_no_problem(self):
        row = self.row_after("true", memory="tight")
        self.assertEqual((row.figures["hung"], row.problems), (0, []))


if __name__ == "__main__":
    unittest.main()
