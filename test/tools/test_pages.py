#!/usr/bin/env python3
"""The manual pages and the completion, which are made of what the tool says of itself.

    test_pages.py GPUPOOL MAKE_PAGES COMPLETION [TEST ...]
"""

import json
import os
import re
import shutil
import subprocess
import sys
import unittest

GPUPOOL = MAKE_PAGES = COMPLETION = None


def run(*command, **more):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", timeout=60,
                          check=False, **more)


def commands():
    return re.findall(r"(?m)^  (\w+) +\S", run(GPUPOOL, "--help").stdout)


def options_of(command):
    return re.findall(r"(?m)^  (?:-\w, )?(--[a-z-]+)", run(GPUPOOL, "help", command).stdout)


class Pages(unittest.TestCase):
    def page(self, name):
        result = run(sys.executable, MAKE_PAGES, GPUPOOL, name)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout

    def test_every_command_and_option_is_there(self):
        page = self.page("gpupool.1")
        for command in set(commands()) - {"help"}:
            section = page[page.index(".SH " + command.upper() + "\n"):].split("\n.SH ", 2)[0]
            self.assertTrue(options_of(command) or command == "path", command)
            for option in options_of(command):
                self.assertRegex(section, r"(?m)^\.B .*%s\b" % re.escape(option.replace("-", "\\-")))

    def test_every_variable_is_there(self):
        page = self.page("libgpupool.7")
        for option in json.loads(run(GPUPOOL, "config", "--json").stdout)["options"]:
            self.assertIn(".B " + option["variable"] + "\n", page)

    def test_what_is_set_here_changes_nothing(self):
        os.environ["GPUPOOL_LIMIT"] = "much"
        self.addCleanup(os.environ.pop, "GPUPOOL_LIMIT")
        self.assertIn("Default: none.", self.page("libgpupool.7"))

    def test_they_are_correct_roff(self):
        if not shutil.which("groff"):
            self.skipTest("there is no groff")
        for name in ("gpupool.1", "libgpupool.7"):
            result = run("groff", "-man", "-ww", "-z", "-Tutf8", input=self.page(name))
            self.assertEqual((result.returncode, result.stderr), (0, ""))


class Completion(unittest.TestCase):
    def complete(self, *words):
        """What bash would offer for the last of words."""
        script = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _gpupool; '
                  'printf "%s\\n" "${COMPREPLY[@]}"')
        result = run("bash", "--norc", "-c", script, "bash", COMPLETION, GPUPOOL, *words)
        self.assertEqual((result.returncode, result.stderr), (0, ""), words)
        return result.stdout.split()

    def setUp(self):
        if not shutil.which("bash"):
            self.skipTest("there is no bash")

    def test_commands(self):
        self.assertEqual(set(self.complete("")), set(commands()) | {"--help", "--version"})
        self.assertEqual(self.complete("si"), ["sites"])
        self.assertEqual(self.complete("help", "fr"), ["frag"])

    def test_options(self):
        for command in set(commands()) - {"help"}:
            self.assertLessEqual(set(options_of(command)), set(self.complete(command, "--")), command)
        self.assertEqual(self.complete("leaks", "f.json", "--supp"), ["--suppressions"])

    def test_choices(self):
        self.assertEqual(set(self.complete("sites", "--sort", "")), {"live", "peak", "total", "count", "temporary"})
        self.assertEqual(self.complete("sites", "--sort", "=", "pe"), ["peak"])
        self.assertEqual(self.complete("run", "--reuse", "str"), ["strict"])

    def test_files_and_programs(self):
        self.assertIn("test_pages.py", self.complete("summary", "test_pages.p"))
        self.assertIn("bash", self.complete("run", "--", "bas"))
        self.assertIn("test_pages.py", self.complete("run", "--", "cat", "test_pages.p"))


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    GPUPOOL, MAKE_PAGES, COMPLETION = (os.path.abspath(path) for path in sys.argv[1:4])
    os.chdir(os.path.dirname(os.path.abspath(__file__)))
    unittest.main(argv=[sys.argv[0]] + sys.argv[4:])
