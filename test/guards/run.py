#!/usr/bin/env python3
"""Removes each guard against a hazard from a copy of the tree and shows that its test notices.

    test/guards/run.py [--only PATTERN] [--build DIR]    every guard, or those whose name, file, sentence or
                                                         table matches
    test/guards/run.py --find-seeds [--only PATTERN]     looks for a program for each guard that has a seed, and
                                                         writes it into the table: after changes of the generator
    test/guards/run.py --list                            what there is
    test/guards/run.py --check BUILD                     only that the edits apply, that build has the tests, and
                                                         that doc/interception.md names them

The tables are the JSON files beside this one, each a list of

    {"guard": "H3", "what": "a sentence", "file": "path", "find": "text that occurs once in it", "replace": "text",
     "test": "Meson test, or a list", "case": "Class.test_name (optional: only this case of a Python test)",
     "seed": 4711 (optional: only this program of test/oracle/run.py, which the test runs)}

The named tests have to be green before. For each entry the edit is applied, the tree built, the tests run, and the edit
taken back. Red is a test that ran and failed, or ran past the limit; an edit that does not apply or does not compile, and
a test that stays green or was skipped, make the run fail.
"""

import argparse
import glob
import json
import os
import re
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(SOURCE, "scripts"))
from edited_tree import Problem, SKIPPED, Tree, run_quietly, tests_of  # noqa: E402

LIMIT_S = 240
FIELDS = {"guard": str, "what": str, "file": str, "find": str, "replace": str, "test": (str, list)}


def read_tables(folder=HERE):
    entries = []
    for path in sorted(glob.glob(os.path.join(folder, "*.json"))):
        with open(path) as file:
            table = json.load(file)
        for entry in table:
            for field, kind in FIELDS.items():
                if not isinstance(entry.get(field), kind):
                    raise Problem("%s: an entry has no valid \"%s\": %s" % (path, field, entry.get("guard")))
            unknown = set(entry) - set(FIELDS) - {"case", "seed"}
            if unknown:
                raise Problem("%s: %s: unknown field %s" % (path, entry["guard"], sorted(unknown)[0]))
            entry["arguments"] = entry.get("case") or ("--only-seed=%d" % entry["seed"] if "seed" in entry else "")
            entry["table"] = path
            entry["tests"] = [entry["test"]] if isinstance(entry["test"], str) else entry["test"]
        entries += table
    return entries


def edited(tree, entry):
    """The file's text without the guard."""
    with open(os.path.join(tree, entry["file"])) as file:
        text = file.read()
    # Where the text is broken into lines is the formatter's choice, so white space matches white space.
    words = r"\s+".join(re.escape(word) for word in entry["find"].split())
    found = re.findall(words.replace(r"\(", r"\(\s*"), text)
    if len(found) != 1:
        raise Problem("its text is found %d times in %s" % (len(found), entry["file"]))
    if entry["find"] == entry["replace"]:
        raise Problem("it changes nothing")
    return text.replace(found[0], entry["replace"].strip())


def check(entries, build):
    """Problems of the tables that show without a build of each: texts, names of tests and cases."""
    tests = tests_of(build)
    problems = []
    for entry in entries:
        try:
            edited(SOURCE, entry)
        except (Problem, OSError) as problem:
            problems.append("%s: %s" % (entry["guard"], problem))
        for name in entry["tests"]:
            if name not in tests:
                problems.append("%s: there is no test %s" % (entry["guard"], name))
            elif "case" in entry:
                scripts = [word for word in tests[name].command if word.endswith(".py")]
                method = entry["case"].split(".")[-1]
                if not any("def %s(" % method in open(script).read() for script in scripts):
                    problems.append("%s: test %s has no case %s" % (entry["guard"], name, entry["case"]))
    return problems


def check_page(entries):
    """Rows of doc/interception.md that claim a guard which no entry removes, or leave out a test of one that does."""
    problems = []
    tests = {}
    for entry in entries:
        tests.setdefault(entry["guard"], set()).update(entry["tests"])
    with open(os.path.join(SOURCE, "doc", "interception.md")) as file:
        rows = re.findall(r"^\| (H\d+) \|.*\| (.*) \|$", file.read(), re.M)
    for hazard, shown in rows:
        if shown.startswith("guarded") != (hazard in tests):
            problems.append("%s: guarded by doc/interception.md, or by an entry here, but not both" % hazard)
        for name in sorted(tests.get(hazard, ())):
            if "`%s`" % name not in shown:
                problems.append("%s: doc/interception.md does not name %s" % (hazard, name))
    return problems if rows else ["doc/interception.md has no table of hazards"]


ORACLE_OPTIONS = {"reuse-programs": [], "reuse-ordered": ["--ordered"], "reuse-late": ["--late", "--ordered"]}  # of the tests that take a seed


def is_green(tree, name, arguments):
    """False for a test that failed, or ran past the limit."""
    status, out = tree.tests[name].run(tree.build, LIMIT_S, [arguments] if arguments else [])
    if status == SKIPPED:
        raise Problem("test %s was skipped:\n%s" % (name, out[-2000:]))
    return status == 0


def seconds_until_red(tree, entry):
    with tree.edit(entry["file"], edited(tree.source, entry)):
        tree.make()
        began = time.monotonic()
        if any([is_green(tree, name, entry["arguments"]) for name in entry["tests"]]):
            raise Problem("stays green without the guard")
        return time.monotonic() - began


def first_seed(tree, entry):
    """The entry's own if its program still goes wrong without the guard, else that of one that does."""
    script = os.path.join(tree.source, "test", "oracle", "run.py")
    with tree.edit(entry["file"], edited(tree.source, entry)):
        tree.make()
        test = entry["tests"][0]
        if not is_green(tree, test, entry["arguments"]):
            return entry["seed"]
        _, out = run_quietly([script, tree.build, "--programs", "60000", "--no-shrink"] + ORACLE_OPTIONS[test], 4 * LIMIT_S)
        seeds = re.findall(r"^To see it again: .* (\d+)$", out, re.M) + re.findall(r", by seed (\d+)$", out, re.M)
        for seed in sorted({int(seed) for seed in seeds}):
            if not is_green(tree, test, "--only-seed=%d" % seed):
                return seed
        raise Problem("60,000 programs do not notice")


def find_seeds(entries, folder):
    """A JSON table is edited as text, so that the rest of it stays as it was written."""
    tree = Tree(folder)
    failed = 0
    for entry in entries:
        if "seed" not in entry:
            continue
        try:
            seed = first_seed(tree, entry)
            with open(entry["table"]) as file:
                text = file.read()
            start = text.index(json.dumps(entry["what"]))
            field = text.index('"seed": ', start)
            with open(entry["table"], "w") as file:
                file.write(text[:field] + re.sub(r'^"seed": \d+', '"seed": %d' % seed, text[field:]))
            print("%-8s %-8d %s" % (entry["guard"], seed, entry["what"]), flush=True)
        except Problem as problem:
            print("%-8s NOT FOUND %s: %s" % (entry["guard"], entry["what"], problem), flush=True)
            failed += 1
    return failed


def run(entries, folder):
    tree = Tree(folder)
    failed = 0
    red = set()
    for name, arguments in sorted({(name, e["arguments"]) for e in entries for name in e["tests"]}):
        if not is_green(tree, name, arguments):
            print("%s %s: not green with all guards in place" % (name, arguments), flush=True)
            red.add((name, arguments))
    form = "%-8s %-28s %-60s %s"
    print(form % ("guard", "file", "test", "red in s"))
    for entry in entries:
        test = ", ".join(entry["tests"]) + " " + entry["arguments"]
        if any((name, entry["arguments"]) in red for name in entry["tests"]):
            failed += 1
            continue
        try:
            print(form % (entry["guard"], entry["file"], test, "%.1f" % seconds_until_red(tree, entry)), flush=True)
        except Problem as problem:
            print(form % (entry["guard"], entry["file"], test, "NOT RED: %s" % problem), flush=True)
            failed += 1
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="PATTERN", default="", help="regular expression")
    parser.add_argument("--find-seeds", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--check", metavar="BUILD")
    parser.add_argument("--build", metavar="DIR", help="keep the copy and its build there, for the next run")
    options = parser.parse_args()
    try:
        entries = read_tables()
        if options.check:
            problems = check(entries, options.check) + check_page(entries)
            print("\n".join(problems) or "%d guards apply" % len(entries))
            return 1 if problems or not entries else 0
        entries = [e for e in entries
                   if re.search(options.only, " ".join([e["guard"], e["file"], e["what"], os.path.basename(e["table"])] + e["tests"]))]
        if options.list:
            for entry in entries:
                print("%-8s %-28s %-20s %s" % (entry["guard"], entry["file"], ",".join(entry["tests"]), entry["what"]))
            return 0
        if not entries:
            raise Problem("no guard matches %s" % options.only)
        do = find_seeds if options.find_seeds else run
        if options.build:
            os.makedirs(options.build, exist_ok=True)
            failed = do(entries, os.path.abspath(options.build))
        else:
            with tempfile.TemporaryDirectory(prefix="gpupool-guards-") as folder:
                failed = do(entries, folder)
        print("%d guards, %d not shown" % (len(entries), failed))
        return 1 if failed else 0
    except Problem as problem:
        sys.stderr.write("run.py: %s\n" % problem)
        return 2


if __name__ == "__main__":
    sys.exit(main())
