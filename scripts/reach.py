"""Which quick tests pass a line of the library and the tool: measured once, with a build that counts (gcov). Used by
scripts/mutate.py, which asks of an edit only the tests that pass it.

What a process counted is lost if it is killed, or leaves by _exit: a line of which no test is known to pass it is answered
with the tests that enter its function, or else its file, or else all.
"""

import gzip
import hashlib
import json
import os
import subprocess
import sys
import time

from edited_tree import SKIPPED, configure, must, tests_of

# They look at texts, not at what the code does.
NOT_RUN = ("workloads", "arrows", "size", "waits-are-listed", "findings-are-listed", "mutations")
# The simulated GPU and the programs without the library (sim, prog) cannot notice.
SUITES = {"unit", "contract", "fault", "golden", "fuzz", "html", "preload", "oracle"}


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def quick_tests(build):
    return [test for test in tests_of(build).values()
            if test.suites & SUITES and "long" not in test.suites and test.name not in NOT_RUN]


def counts_of(build):
    """Of sources that a test compiles itself, too: Meson names those by the way to them, as in ".._.._pool_x.c.gcda"."""
    return [os.path.join(folder, name) for folder, _, names in os.walk(build) for name in names if name.endswith(".gcda")]


def lines_passed(build, tree):
    """{file: lines} of the counts that a test has left in its build."""
    counts, passed = counts_of(build), {}
    for start in range(0, len(counts), 100):
        out = subprocess.run(["gcov", "--json-format", "--stdout"] + counts[start:start + 100], cwd=build,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout
        for document in out.decode().splitlines():
            for file in json.loads(document)["files"]:
                name = os.path.relpath(os.path.join(build, file["file"]), tree)
                if name.endswith(".c") and name.split(os.sep)[0] in ("base", "format", "pool", "trace", "interpose", "tools"):
                    passed.setdefault(name, set()).update(line["line_number"] for line in file["lines"] if line["count"])
    return passed


class Reach:
    """tests: {name: seconds}, in growing cost. lines: {file: {line: names}}. digests: of the files as they were."""

    def __init__(self, path, tree, build):
        self.path = path
        if not os.path.exists(path):
            self.measure(tree, build)
        with gzip.open(path, "rt", encoding="utf-8") as file:
            data = json.load(file)
        self.tests, self.digests = data["tests"], data["digests"]
        names = list(self.tests)
        self.lines = {file: {int(line): [names[i] for i in numbers] for line, numbers in lines.items()}
                      for file, lines in data["lines"].items()}

    def measure(self, tree, build):
        configure(tree, build, "-Db_coverage=true")
        must("ninja", "-C", build)
        tests = quick_tests(build)
        # One at a time: tests start programs with an environment of their own, so all count in the same place
        results = [self.passed_by(test, build, tree) for test in tests]
        lines, seconds = {}, {}
        order = sorted(range(len(tests)), key=lambda i: results[i][0])
        for place, i in enumerate(order):
            seconds[tests[i].name] = results[i][0]
            for file, passed in results[i][1].items():
                for line in passed:
                    lines.setdefault(file, {}).setdefault(line, []).append(place)
        digests = {}
        for file in lines:
            with open(os.path.join(tree, file), encoding="utf-8") as source:
                digests[file] = digest(source.read())
        with gzip.open(self.path + ".new", "wt", encoding="utf-8") as file:
            json.dump({"tests": seconds, "digests": digests, "lines": lines}, file)
        os.rename(self.path + ".new", self.path)

    @staticmethod
    def passed_by(test, build, tree):
        for path in counts_of(build):
            os.remove(path)
        began = time.monotonic()
        status, out = test.run(build, GP_QUICK="1")
        seconds = round(time.monotonic() - began, 2)
        if status not in (0, SKIPPED):
            sys.stderr.write("%s is red with a build that counts: %s\n" % (test.name, out[-300:]))
        return seconds, lines_passed(build, tree)

    def names(self, path, text, wanted, function_lines):
        """Of the tests to ask, in growing cost: those that pass one of the wanted lines, which are a set, of a file."""
        of_file = self.lines.get(path, {})
        passing = set()
        if self.digests.get(path) == digest(text):
            # A statement of several lines counts on its first, or on some of them
            for line in wanted:
                near = max((known for known in of_file if known <= line and known in function_lines), default=line)
                passing.update(of_file.get(line, ()), of_file.get(near, ()))
            if not passing:
                passing.update(name for line in function_lines for name in of_file.get(line, ()))
        if not passing:
            passing.update(name for names in of_file.values() for name in names)
        if not passing:
            passing.update(self.tests)
        return [name for name in self.tests if name in passing]
