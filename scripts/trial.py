"""Builds an edit in a copy of the tree and asks the tests: the trials of scripts/mutate.py."""

import json
import os
import re
import subprocess
import sys
import tempfile
import time

import mutations
from edited_tree import Problem, SKIPPED, Tree
from reach import quick_tests

NOTICED, MISSED, EQUIVALENT = "noticed", "missed", "equivalent"
SANITIZERS = {"address": "address,undefined", "thread": "thread"}
SLOWER = 5  # a test with a sanitizer, at most
UNITS = {"unit", "contract", "fault", "fuzz"}
# As .ci/run sets them for all but the units
OF_PROGRAMS = {"ASAN_OPTIONS": "halt_on_error=1:abort_on_error=1:detect_leaks=0:verify_asan_link_order=0:use_sigaltstack=0",
               "UBSAN_OPTIONS": "halt_on_error=1:abort_on_error=1"}


def is_run(test, sanitizer, tree):
    """Whether .ci/run has the test with that sanitizer."""
    if sanitizer == "thread":
        return "unit" in test.suites or test.name in ("threads", "preload-captures")
    if sanitizer == "address" and "preload" in test.suites:
        with open(os.path.join(tree, ".ci", "run"), encoding="utf-8") as file:
            lists = re.findall(r"^address\+?=\(preload-\{([^}]*)\}\)$", file.read(), re.M)
        if not lists:
            raise Problem(".ci/run has no list address=(preload-{...}) of the tests that run with ASan")
        return test.name.replace("preload-", "") in ",".join(lists).split(",")
    return True


def environment_of(test, sanitizer):
    return OF_PROGRAMS if sanitizer == "address" and not test.suites & UNITS else {}


class Suite:
    """The copy of the tree, and what its tests say of an edit."""

    def __init__(self, folder, reach, sanitizer=None):
        options = ["-Db_sanitize=" + SANITIZERS[sanitizer], "-Db_lundef=false"] if sanitizer else []
        self.tree, self.reach, self.sanitizer = Tree(folder, *options), reach, sanitizer
        self.tree.make()
        with open(os.path.join(self.tree.build, "compile_commands.json"), encoding="utf-8") as file:
            self.objects = {}
            for command in json.load(file):
                path = os.path.relpath(os.path.join(command["directory"], command["file"]), self.tree.source)
                self.objects.setdefault(path, []).append(command["output"])
        self.tests = {test.name: test for test in quick_tests(self.tree.build) if is_run(test, sanitizer, self.tree.source)}
        self.green = set()  # without an edit

    def code(self, path):
        """What the objects of a file consist of, but for debug information; None if the compiler says anything."""
        outputs = self.objects.get(path, [])
        status, out = self.tree.try_make(*outputs)
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

    def red(self, names):
        """The first test of these that is red, or None."""
        status, _ = self.tree.try_make()
        if status != 0:
            return "the build"
        # A test of which the reach knows nothing is newer than it
        for name in [name for name in self.tests if name not in self.reach.tests] + names:
            if name in self.tests:
                limit_s = min(self.tests[name].timeout_s, 60 + 20 * self.reach.tests.get(name, 10))
                if not self.is_green(name, limit_s * (SLOWER if self.sanitizer else 1)):
                    return name
        return None

    def is_green(self, name, limit_s):
        status, _ = self.tests[name].run(self.tree.build, limit_s, GP_QUICK="1", **environment_of(self.tests[name], self.sanitizer))
        return status in (0, SKIPPED)

    def try_edit(self, path, text, function, edit):
        """The result, or None: it does not compile. A test that is red without the edit, too, says nothing, now and later."""
        result = self.judge(path, text, function, edit)
        while result and result["by"] in self.tests and not self.was_green(result["by"]):
            sys.stderr.write("%s is red without an edit: left out\n" % result["by"])
            del self.tests[result["by"]]
            result = self.judge(path, text, function, edit)
        if result and result["by"] and self.sanitizer:
            result["by"] += ", sanitizer " + self.sanitizer
        return result

    def was_green(self, name):
        if name not in self.green:
            self.tree.make()
            if not self.is_green(name, self.tests[name].timeout_s):
                return False
            self.green.add(name)
        return True

    def judge(self, path, text, function, edit):
        before, after = mutations.differing(text, edit)
        result = {"file": path, "line": edit.line, "function": function.name, "kind": edit.kind, "before": before,
                  "after": after}
        good = self.code(path)
        with self.tree.edit(path, mutations.applied(text, edit)):
            code = self.code(path)
            if code is None:
                return None
            if code == good:
                return dict(result, result=EQUIVALENT, by=None, seconds=0)
            began = time.monotonic()
            names = self.reach.names(path, text, *mutations.lines_of(text, function, edit))
            red = self.red(names)
            result.update(result=NOTICED if red else MISSED, by=red, asked=len(names), seconds=round(time.monotonic() - began))
        return result
