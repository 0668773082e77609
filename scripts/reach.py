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

from run import Problem, run_quietly  # test/guards

# They look at texts, not at what the code does.
NOT_RUN = ("guards-apply", "workloads", "arrows", "waits-are-listed", "findings-are-listed", "mutations")
# The simulated GPU and the programs without the library (sim, prog) cannot notice.
SUITES = {"unit", "contract", "fault", "golden", "fuzz", "html", "preload", "oracle"}
SKIPPED = 77


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Test:
    """One of a build folder, as Meson would run it with --setup quick."""

    def __init__(self, found):
        self.name, self.command, self.folder = found["name"], found["cmd"], found["workdir"]
        self.timeout_s, self.environment = found["timeout"], found["env"]
        self.suites = {suite.split(":")[-1] for suite in found["suite"]}

    def run(self, build, limit_s=None, **more):
        """(status, output); None as status: no end."""
        with open(os.path.join(build, "test", "leak_checker"), encoding="utf-8") as file:
            leak_checker = file.read().strip()
        environment = dict(os.environ, CK_DEFAULT_TIMEOUT="0", GP_QUICK="1", GP_LEAK_CHECKER=leak_checker, MALLOC_PERTURB_="165",
                           **self.environment, **more)
        return run_quietly(["env", "--default-signal=HUP,INT,QUIT"] + self.command, limit_s or self.timeout_s,
                           env=environment, cwd=self.folder or build)


def tests_of(build):
    with open(os.path.join(build, "meson-info", "intro-tests.json"), encoding="utf-8") as file:
        found = json.load(file)
    return [test for test in map(Test, found) if test.suites & SUITES and "long" not in test.suites and test.name not in NOT_RUN]


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
        if not os.path.exists(os.path.join(build, "build.ninja")):
            self.must("meson", "setup", build, tree, "-Ddebug_level=3", "-Db_coverage=true")
        self.must("ninja", "-C", build)
        tests = tests_of(build)
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
    def must(*command):
        status, out = run_quietly(list(command))
        if status != 0:
            raise Problem("%s failed:\n%s" % (command[0], out[-4000:]))

    @staticmethod
    def passed_by(test, build, tree):
        for path in counts_of(build):
            os.remove(path)
        began = time.monotonic()
        status, out = test.run(build)
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
