"""Edits that were chosen, not drawn: `scripts/mutate.py --seeds`. Each entry of mutate-seeds.json takes away what protects
the data of users, or what keeps a program from hanging, and names the test that must fail then.
"""

import json
import os
import pathlib
import re

from edited_tree import Problem, SKIPPED, SOURCE, Tree, tests_of

LIMIT_S = 240
FIELDS = {"guard", "what", "test", "file", "find", "replace"}  # and "case", of a Python test


def read(pattern=""):
    with open(os.path.join(SOURCE, "scripts", "mutate-seeds.json"), encoding="utf-8") as file:
        return [seed for seed in json.load(file)
                if re.search(pattern, " ".join(seed[field] for field in ("guard", "test", "file", "what")))]


def edited(tree, seed):
    """The text of the file without the guard. White space matches white space: the formatter chooses where lines break."""
    with open(os.path.join(tree, seed["file"]), encoding="utf-8") as file:
        text = file.read()
    words = r"\s+".join(re.escape(word) for word in seed["find"].split())
    found = re.findall(words.replace(r"\(", r"\(\s*"), text)
    if len(found) != 1 or seed["find"] == seed["replace"]:
        raise Problem("its text is found %d times in %s" % (len(found), seed["file"]))
    return text.replace(found[0], seed["replace"])


def has_case(test, case):
    """Of a Python test, case is Class.method."""
    texts = [pathlib.Path(word).read_text(encoding="utf-8") for word in test.command if word.endswith(".py")]
    return not case or any("def %s(" % case.split(".")[-1] in text for text in texts)


def guarded(page):
    """{guard: tests} of the tables of doc/interception.md: hazards with tests, and other guards."""
    rows = re.findall(r"^\| (?:`([a-z-]+)`|(H\d+)) \|(?:.*\|)? ([^|]*) \|$", page, re.M)
    return {name or hazard: shown for name, hazard, shown in rows if name or shown.startswith("guarded")}


def problems(build):
    """What shows without building an edit: texts, tests and cases that are not there, and what the page says of guards."""
    tests, chosen = tests_of(build), read()
    rows = guarded(pathlib.Path(SOURCE, "doc", "interception.md").read_text(encoding="utf-8"))
    for seed in chosen:
        guard, name, case = seed["guard"], seed["test"], seed.get("case", "")
        try:
            if set(seed) - {"case"} != FIELDS:
                raise Problem("its fields are %s" % sorted(seed))
            edited(SOURCE, seed)
            if name not in tests or not has_case(tests[name], case):
                raise Problem("there is no test %s %s" % (name, case))
            if guard not in rows or (re.match(r"H\d", guard) and "`%s`" % name not in rows[guard]):
                raise Problem("doc/interception.md does not say that it is guarded by %s" % name)
        except (Problem, OSError) as problem:
            yield "%s (%s): %s" % (guard, seed["what"], problem)
    for guard in sorted(set(rows) - {seed["guard"] for seed in chosen}):
        yield "%s: guarded by doc/interception.md, but there is no such seed" % guard


class Seeds:
    def __init__(self, folder):
        self.tree, self.green = Tree(folder), {}

    def is_green(self, seed):
        """False for a test that failed, or ran past the limit."""
        test = self.tree.tests[seed["test"]]
        if test.targets:
            self.tree.make(*test.targets)
        status, out = test.run(self.tree.build, LIMIT_S, [seed["case"]] if "case" in seed else [])
        if status == SKIPPED:
            raise Problem("test %s was skipped:\n%s" % (test.name, out[-2000:]))
        return status == 0

    def try_seed(self, seed):
        """Raises Problem if the test does not notice it."""
        test = seed["test"], seed.get("case")
        if test not in self.green:
            self.green[test] = self.is_green(seed)
        if not self.green[test]:
            raise Problem("red without the edit")
        with self.tree.edit(seed["file"], edited(self.tree.source, seed)):
            if self.is_green(seed):
                raise Problem("stays green")


def run(folder, pattern):
    """How many were not noticed."""
    chosen, tried, missed = read(pattern), Seeds(folder), 0
    for seed in chosen:
        result = "noticed"
        try:
            tried.try_seed(seed)
        except Problem as problem:
            result, missed = "MISSED: %s" % problem, missed + 1
        print("%-12s %-32s %s %s: %s" % (seed["guard"], seed["file"], seed["test"], seed.get("case", ""), result), flush=True)
    print("%d of %d noticed" % (len(chosen) - missed, len(chosen)))
    return 1 if missed or not chosen else 0
