#!/usr/bin/env python3
"""Breaks one line of the library or the tool at a time and sees whether a test notices.

    scripts/mutate.py --seed S --count N [--folder FOLDER] [--kind KIND]
    scripts/mutate.py --table          the results of this commit by folder and kind, and what was missed

Each edit is drawn by the seed and its number: a file of pool, trace, interpose and tools weighted by its lines, a function
of it, one of the kinds in mutations.py. It is built in a copy of the tree (test/guards/run.py has that) with every assert;
then suites run in growing cost until a test is red. One that does not compile is drawn again; one that compiles to the
same code is set aside as equivalent, others only by a reason in mutate-aside.json, which the next run takes in.

Results are lines of JSON in --results, one an edit: what is there for the commit, the seed and the number is not run
again, so that a run may be interrupted. The last line is "N of M noticed". doc/mutations.md has the results.
"""

import argparse
import glob
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(HERE)
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(SOURCE, "test", "guards"))
import mutations  # noqa: E402
from run import Problem, Tree, run_quietly  # noqa: E402

FOLDERS = ("pool", "trace", "interpose", "tools")
# Growing in cost. The simulated GPU and the programs without the library (sim, prog) cannot notice.
STAGES = (("unit",), ("contract", "fault"), ("golden", "fuzz"), ("preload",), ("oracle",))
# They look at texts, not at what the code does.
NOT_RUN = ("guards-apply", "traces-are-current", "arrows", "waits-are-listed", "findings-are-listed", "mutations")
LIMIT_S = 900  # of a stage; a test that hangs is ended sooner, by its own limit
NOTICED, MISSED, ASIDE, EQUIVALENT = "noticed", "missed", "set aside", "equivalent"
DRAWS = 100


def name_of(revision):
    return subprocess.check_output(["git", "rev-parse", "--short=10", revision], cwd=SOURCE, text=True).strip()


def commit():
    """Of the tree as it is in these folders, which must be that of a commit."""
    changed = subprocess.check_output(["git", "status", "--porcelain", "-uno", "--", *FOLDERS], cwd=SOURCE, text=True)
    if changed:
        raise Problem("edits on top of a commit do not count for it:\n" + changed)
    return name_of("HEAD")


def sources(tree, folder):
    paths = {}
    for name in [folder] if folder else FOLDERS:
        for path in glob.glob(os.path.join(tree, name, "**", "*.c"), recursive=True):
            with open(path, encoding="utf-8") as file:
                paths[os.path.relpath(path, tree)] = file.read()
    return paths


def read_lines(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def read_aside():
    with open(os.path.join(HERE, "mutate-aside.json"), encoding="utf-8") as file:
        return json.load(file)


def judged(result, aside):
    """The result with a reason that somebody has found since."""
    for entry in aside:
        if result["result"] == MISSED and all(result[key] == entry[key] for key in ("file", "function", "before", "after")):
            return dict(result, result=ASIDE, reason=entry["reason"])
    return result


class Suite:
    """The copy of the tree, and what its tests say of an edit."""

    def __init__(self, folder, jobs):
        os.environ.setdefault("MESON_TESTTHREADS", str(jobs))
        self.tree = Tree(folder)
        with open(os.path.join(self.tree.build, "compile_commands.json"), encoding="utf-8") as file:
            self.objects = {}
            for command in json.load(file):
                path = os.path.relpath(os.path.join(command["directory"], command["file"]), self.tree.source)
                self.objects.setdefault(path, []).append(command["output"])
        with open(os.path.join(self.tree.build, "meson-info", "intro-tests.json"), encoding="utf-8") as file:
            self.tests = [(test["name"], {suite.split(":")[-1] for suite in test["suite"]}) for test in json.load(file)]

    def code(self, path):
        """What the objects of a file consist of, but for debug information; None if the compiler says anything."""
        outputs = self.objects.get(path, [])
        status, out = run_quietly(["ninja", "-C", self.tree.build] + outputs)
        if status != 0 or not outputs or "warning:" in out:
            return None
        content = b""
        with tempfile.TemporaryDirectory() as folder:
            for output in outputs:
                bare = os.path.join(folder, "o")
                subprocess.run(["objcopy", "--strip-debug", "--remove-section=.comment",
                                os.path.join(self.tree.build, output), bare], check=True)
                with open(bare, "rb") as file:
                    content += file.read()
        return content

    def red(self):
        """The first test that is red and its stage, or None."""
        status, out = run_quietly(["ninja", "-C", self.tree.build])
        if status != 0:
            return "the build", "build"
        log = os.path.join(self.tree.build, "meson-logs", "testlog-quick.json")
        for stage in STAGES:
            names = [name for name, suites in self.tests
                     if suites & set(stage) and "long" not in suites and name not in NOT_RUN]
            if os.path.exists(log):
                os.remove(log)
            status, out = run_quietly(["env", "--default-signal=HUP,INT,QUIT", "meson", "test", "-C", self.tree.build,
                                       "--no-rebuild", "--setup", "quick", "--maxfail", "1"] + names, LIMIT_S)
            if status is None:
                return "%s: no end" % " ".join(stage), stage[0]
            if status != 0:
                failed = [line for line in read_lines(log) if line["result"] not in ("OK", "SKIP", "EXPECTEDFAIL")]
                if not failed:
                    raise Problem("the tests did not run:\n%s" % out[-2000:])
                return failed[0]["name"].split(" / ")[-1], stage[0]
        return None

    def try_edit(self, generator, folder, kind):
        """The result of the first draw that compiles."""
        files = sources(self.tree.source, folder)
        for _ in range(DRAWS):
            path, function, edit = mutations.draw(generator, files)
            if kind and edit.kind != kind:
                continue
            whole = os.path.join(self.tree.source, path)
            before, after = mutations.differing(files[path], edit)
            result = {"file": path, "line": edit.line, "function": function.name, "kind": edit.kind, "before": before,
                      "after": after}
            good = self.code(path)
            try:
                with open(whole, "w", encoding="utf-8") as file:
                    file.write(mutations.applied(files[path], edit))
                code = self.code(path)
                if code is None:
                    continue
                began = time.monotonic()
                red = None if code == good else self.red()
                seconds = round(time.monotonic() - began)
                result["result"] = EQUIVALENT if code == good else NOTICED if red else MISSED
                return dict(result, by=red[0] if red else None, stage=red[1] if red else None, seconds=seconds)
            finally:
                with open(whole, "w", encoding="utf-8") as file:
                    file.write(files[path])
        raise Problem("none of %d edits compiles" % DRAWS)


def share(results):
    counted = [result for result in results if result["result"] in (NOTICED, MISSED)]
    return sum(result["result"] == NOTICED for result in counted), len(counted)


def row(name, results):
    noticed, whole = share(results)
    least, most = mutations.interval(noticed, whole)
    aside = sum(result["result"] == ASIDE for result in results)
    equivalent = sum(result["result"] == EQUIVALENT for result in results)
    return "| %s | %d of %d | %s | %s | %d | %d |" % (
        name, noticed, whole, "%.0f%%" % (100 * noticed / whole) if whole else "",
        "%.0f to %.0f%%" % (100 * least, 100 * most) if whole else "", equivalent, aside)


def table(results):
    lines = ["| edits | noticed | share | 95% interval | same code | set aside |", "|---|---|---|---|---|---|"]
    lines += [row("`%s`" % folder, [r for r in results if r["file"].startswith(folder + "/")]) for folder in FOLDERS]
    lines += [row(kind, [r for r in results if r["kind"] == kind]) for kind in mutations.KINDS]
    lines.append(row("all", results))
    return "\n".join(lines)


def describe(result):
    by = "%s, %d s" % (result["by"], result["seconds"]) if result["by"] else ""
    return "%-10s %s:%d %s, %s: %s -> %s  %s" % (
        result["result"], result["file"], result["line"], result["function"], result["kind"], " ".join(result["before"])[:100],
        " ".join(result["after"])[:100], by)


def run(options, path):
    at = commit()
    done = {(r["seed"], r["number"], r["wanted"]): r for r in read_lines(path) if r["commit"] == at}
    wanted = "%s/%s" % (options.folder or "", options.kind or "")
    suite, results = None, []
    for number in range(options.count):
        result = done.get((options.seed, number, wanted))
        if not result:
            suite = suite or Suite(os.path.abspath(options.build), options.jobs)
            generator = random.Random("%d:%d:%s" % (options.seed, number, wanted))
            result = dict(suite.try_edit(generator, options.folder, options.kind), commit=at, seed=options.seed,
                          number=number, wanted=wanted)
            with open(path, "a", encoding="utf-8") as file:
                file.write(json.dumps(result) + "\n")
        results.append(judged(result, read_aside()))
        print(describe(results[-1]), flush=True)
    if suite:
        suite.tree.must("ninja", "-C", suite.tree.build)
    print("%d of %d noticed" % share(results))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--folder", choices=FOLDERS)
    parser.add_argument("--kind", choices=sorted(mutations.KINDS))
    parser.add_argument("--build", metavar="DIR", default=os.path.join(tempfile.gettempdir(), "gpupool-mutate"),
                        help="the copy of the tree and its build, kept for the next run (%(default)s)")
    parser.add_argument("--results", metavar="FILE", help="mutations.jsonl in the folder of --build")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="tests at a time (%(default)s)")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--commit", metavar="REV", default="HEAD", help="whose table (%(default)s)")
    options = parser.parse_args()
    path = options.results or os.path.join(options.build, "mutations.jsonl")
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # and take the edit back
    try:
        if options.table:
            at = name_of(options.commit)
            results = [judged(r, read_aside()) for r in read_lines(path) if r["commit"] == at]
            print(table(results))
            print("\n".join(describe(r) for r in results if r["result"] in (MISSED, ASIDE)))
            return 0
        os.makedirs(options.build, exist_ok=True)
        run(options, path)
        return 0
    except Problem as problem:
        sys.stderr.write("mutate.py: %s\n" % problem)
        return 2


if __name__ == "__main__":
    sys.exit(main())
