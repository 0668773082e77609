#!/usr/bin/env python3
"""The edits that scripts/mutate.py makes: on a text whose edits are known, and all that the project's own files offer.

    test_mutations.py SOURCE [BUILD]     BUILD: whether the seeds fit it
"""

import contextlib
import glob
import gzip
import io
import json
import os
import random
import sys
import tempfile
import time
import unittest
from unittest import mock

SOURCE = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else ""
BUILD = sys.argv.pop(1) if len(sys.argv) > 1 else ""
sys.path.insert(0, os.path.join(SOURCE, "scripts"))
import mutate  # noqa: E402
import mutations  # noqa: E402
import reach  # noqa: E402
import seeds  # noqa: E402
import trial  # noqa: E402
from edited_tree import Problem, run_quietly  # noqa: E402

TEXT = '''/* if (a) in a comment */
#define TWICE(x) do { if (x) f(x); } while (0)

struct pair {
  int a;
};

static bool
    first(struct pair *pair, int b) /* said */
{
  gp_assert(pair->a < b + 1);
  gp_lock_take(&pair->lock);
  if (pair->a < b)
    note("if (x) f(1);", b, 2);
  int c = second(b, pair) + 1;
  gp_lock_release(&pair->lock);
  free(pair);
  return c > 7;
}

static struct pair *second(int a, int b)
{
  return a ? NULL : NULL;
}

void third(void)
{
  if (is_so(
          1))
    first(
        NULL, 1);
}
'''


class Edits(unittest.TestCase):
    def of(self, number, kind):
        function = mutations.functions(TEXT)[number]
        return [mutations.differing(TEXT, edit) for edit in mutations.edits(TEXT, function, kind)]

    def test_functions(self):
        self.assertEqual([(f.name, f.returns) for f in mutations.functions(TEXT)],
                         [("first", "bool"), ("second", "struct pair *"), ("third", "void")])
        self.assertTrue(all(TEXT[f.start] == "{" and TEXT[f.end - 1] == "}" for f in mutations.functions(TEXT)))

    def test_each_kind(self):
        self.assertEqual(self.of(0, "condition"), [(["if (pair->a < b)"], ["if (!(pair->a < b))"])])
        self.assertEqual(self.of(0, "call"), [(['note("if (x) f(1);", b, 2);'], [";"])])
        self.assertEqual(self.of(0, "cleanup"), [(["free(pair);"], [";"])])
        self.assertEqual(self.of(0, "lock"), [(["gp_lock_take(&pair->lock);", "gp_lock_release(&pair->lock);"], [";", ";"])])
        self.assertEqual([after for _, after in self.of(0, "arguments")],
                         [['note(b, "if (x) f(1);", 2);'], ['note("if (x) f(1);", 2, b);'], ["int c = second(pair, b) + 1;"]])
        self.assertEqual([after for _, after in self.of(0, "off by one")],
                         [["if (pair->a <= b)"], ["return c >= 7;"], ["int c = second(b, pair);"]])
        self.assertEqual([after for _, after in self.of(0, "constant")],
                         [['note("if (x) f(1);", b, 3);'], ["int c = second(b, pair) + 2;"], ["return c > 8;"]])
        self.assertEqual([after for _, after in self.of(0, "early return")], [["{ return false;"], ["{ return true;"]])
        self.assertEqual([after for _, after in self.of(1, "early return")], [["{ return NULL;"]])
        self.assertEqual([after for _, after in self.of(2, "early return")], [["{ return;"]])

    def test_over_several_lines(self):
        self.assertEqual(self.of(2, "call"), [(["first(", "NULL, 1);"], [";", ""])])
        self.assertEqual(self.of(2, "condition"), [(["if (is_so(", "1))"], ["if (!(is_so(", "1)))"])])
        self.assertEqual(self.of(2, "lock"), [])

    def test_draw_repeats(self):
        drawn = [mutations.draw(random.Random("7:%d" % i), {"a.c": TEXT, "b.c": "int x;\n" * 9}) for i in range(50)]
        again = [mutations.draw(random.Random("7:%d" % i), {"a.c": TEXT, "b.c": "int x;\n" * 9}) for i in range(50)]
        self.assertEqual(drawn, again)
        self.assertEqual({path for path, _, _ in drawn}, {"a.c"})
        self.assertEqual({edit.kind for _, _, edit in drawn}, set(mutations.KINDS))

    def test_interval(self):
        self.assertEqual([round(end, 3) for end in mutations.interval(34, 55)], [0.486, 0.735])
        self.assertEqual(mutations.interval(0, 0), (0.0, 1.0))
        self.assertEqual(mutations.interval(5, 5)[1], 1.0)


class Choice(unittest.TestCase):
    """Of the tests that are asked, of the edits of a kind, and of those that were missed."""

    def setUp(self):
        lines = {"a.c": {9: [0], 12: [2], 13: [0, 1], 15: [2]}}
        with tempfile.NamedTemporaryFile(suffix=".gz") as file:
            with gzip.open(file.name, "wt", encoding="utf-8") as text:
                json.dump({"tests": {"fast": 0.1, "slow": 3, "last": 9}, "digests": {"a.c": reach.digest(TEXT)}, "lines": lines}, text)
            self.reach = reach.Reach(file.name, None, None)
        self.first = mutations.functions(TEXT)[0]

    def names(self, kind, text=TEXT):
        edit = mutations.edits(TEXT, self.first, kind)[0]
        return self.reach.names("a.c", text, *mutations.lines_of(TEXT, self.first, edit))

    def test_tests_that_pass_the_line(self):
        self.assertEqual(TEXT.split("\n")[13 - 1], "  if (pair->a < b)")
        self.assertEqual(self.names("condition"), ["fast", "slow"])
        self.assertEqual(self.names("call"), ["fast", "slow"])  # line 14, which has no count of its own: that before it
        self.assertEqual(self.names("cleanup"), ["last"])  # likewise 17
        self.assertEqual(self.names("lock"), ["last"])  # lines 12 and 16

    def test_whole_function(self):
        self.assertEqual(self.names("early return"), ["fast", "slow", "last"])

    def test_line_that_no_test_passes(self):
        self.assertEqual(self.reach.names("a.c", TEXT, {10}, set(range(10, 16))), ["fast", "slow", "last"])
        self.assertEqual(self.reach.names("a.c", TEXT, {30}, {30}), ["fast", "slow", "last"])
        self.assertEqual(self.reach.names("b.c", TEXT, {30}, {30}), ["fast", "slow", "last"])

    def test_text_that_changed_since(self):
        self.assertEqual(self.names("condition", TEXT + "\n"), ["fast", "slow", "last"])

    def test_every_edit_of_a_kind(self):
        found = list(mutate.every({"a.c": TEXT}, "constant"))
        self.assertEqual([(path, function.name) for path, function, _ in found], [("a.c", "first")] * 3 + [("a.c", "third")] * 2)

    def test_missed_before(self):
        edit = mutations.edits(TEXT, self.first, "cleanup")[0]
        before, after = mutations.differing(TEXT, edit)
        result = {"file": "a.c", "line": 1, "function": "first", "kind": "cleanup", "before": before, "after": after}
        self.assertEqual([found[2] for found in mutate.missed_before({"a.c": TEXT}, [result])], [edit])


class Redness(unittest.TestCase):
    """A test that is red without the edit has noticed nothing."""

    class Suite(trial.Suite):
        def __init__(self, red_always, red_with_edit):
            self.red_always, self.red_with_edit = red_always, red_with_edit
            self.tests = {name: mock.Mock(timeout_s=1) for name in ("a", "b", "c")}
            self.green, self.sanitizer, self.tree = set(), None, mock.Mock()

        def judge(self, *edit):
            red = next((name for name in self.tests if name in self.red_always | self.red_with_edit), None)
            return {"by": red, "result": trial.NOTICED if red else trial.MISSED}

        def is_green(self, name, limit_s):
            return name not in self.red_always

    def test_the_next_test_is_asked(self):
        with contextlib.redirect_stderr(io.StringIO()) as said:
            result = self.Suite({"a"}, {"b"}).try_edit("a.c", TEXT, None, None)
        self.assertEqual((result["by"], said.getvalue()), ("b", "a is red without an edit: left out\n"))

    def test_an_edit_that_no_other_test_notices_is_missed(self):
        suite = self.Suite({"b"}, set())
        with contextlib.redirect_stderr(io.StringIO()):
            self.assertEqual(suite.try_edit("a.c", TEXT, None, None)["result"], trial.MISSED)
        self.assertEqual(set(suite.tests), {"a", "c"})


class Runs(unittest.TestCase):
    def test_a_test_in_a_group_of_its_own_is_ended(self):
        """As those of Check are; it holds the pipe that its output is read from."""
        lone = "import os, time; os.fork() or (os.setpgid(0, 0), time.sleep(60)); print('ready', flush=True); time.sleep(60)"
        began = time.monotonic()
        status, out = run_quietly([sys.executable, "-c", lone], 2)
        self.assertIsNone(status)
        self.assertIn("ready", out)
        self.assertLess(time.monotonic() - began, 30)

    def test_counts_of_sources_by_the_way_to_them(self):
        with tempfile.TemporaryDirectory() as build:
            os.mkdir(os.path.join(build, "check.p"))
            paths = [os.path.join(build, "check.p", name) for name in (".._.._pool_x.c.gcda", "check_x.c.gcda")]
            for path in paths:
                open(path, "w").close()
            self.assertEqual(sorted(reach.counts_of(build)), paths)


@unittest.skipUnless(SOURCE, "no source tree is named")
class OwnFiles(unittest.TestCase):
    def test_every_edit_changes_lines_and_adds_none(self):
        count = dict.fromkeys(mutations.KINDS, 0)
        for path in glob.glob(os.path.join(SOURCE, "pool", "**", "*.c"), recursive=True)[::4]:
            with open(path, encoding="utf-8") as file:
                text = file.read()
            mask = mutations.masked(text)
            self.assertEqual((len(mask), mask.count("\n")), (len(text), text.count("\n")), path)
            for function in mutations.functions(text):
                for kind in mutations.KINDS:
                    for edit in mutations.edits(text, function, kind, mask)[::3]:
                        after = mutations.applied(text, edit)
                        self.assertNotEqual(after, text)
                        self.assertEqual(after.count("\n"), text.count("\n"), (path, edit))
                        count[kind] += 1
        self.assertGreater(min(count.values()), 5, count)

    @unittest.skipUnless(BUILD, "no build with all tests is named")
    def test_seeds_fit(self):
        self.assertEqual(list(seeds.problems(BUILD)), [])


class Seeds(unittest.TestCase):
    def edited(self, **seed):
        with tempfile.TemporaryDirectory() as tree:
            with open(os.path.join(tree, "a.c"), "w", encoding="utf-8") as file:
                file.write(TEXT)
            return seeds.edited(tree, dict(seed, file="a.c"))

    def test_where_lines_break_does_not_matter(self):
        after = self.edited(find="first( NULL, 1); }", replace=";}")
        self.assertEqual(after, TEXT.replace("first(\n        NULL, 1);\n}", ";}"))
        self.assertEqual(self.edited(find="if (is_so(1))", replace="if (1)"), TEXT.replace("if (is_so(\n          1))", "if (1)"))

    def test_a_text_has_to_be_there_once(self):
        for find in ("no such text", "return"):
            with self.assertRaisesRegex(Problem, "found [02-9] times"):
                self.edited(find=find, replace="")


if __name__ == "__main__":
    unittest.main()
