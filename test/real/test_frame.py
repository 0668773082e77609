#!/usr/bin/env python3
"""The frame of scripts/real-programs.sh, with a program of the project in the place of a real one: right is `same`, wrong is red."""

import os
import subprocess
import sys
import tempfile
import unittest

SOURCE, BUILD = os.environ["GP_SOURCE"], os.environ["GP_BUILD"]
sys.path.insert(0, os.path.join(SOURCE, "test", "real"))
from judge import Run, Verdict  # noqa: E402
from place import Place  # noqa: E402
from program import Case  # noqa: E402
from variants import PLAIN, PRELOADED, environment  # noqa: E402

TRACE = os.path.join(BUILD, "test/workloads/llm-inference-growing-cache.csv")


def replay(**more):
    return Case("replay", [os.path.join(BUILD, "test/prog/replay"), TRACE, "--check"], normalize=[(r" seconds=\S+", "")], **more)


class FrameTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.place = Place(folder.name, BUILD, {})
        self.place.copy_files()

    def verdict(self, case, variant="round", **planted):
        plain = Run(self.place, case, self.place.home + "/plain", environment(PLAIN, "", "", {}))
        settings = environment(variant, "16GiB", self.place.library, planted)
        verdict = Verdict(case, variant, plain, Run(self.place, case, self.place.home + "/" + variant, settings))
        return verdict.word, "\n".join(verdict.differences)

    def test_a_right_library_is_the_same(self):
        for variant in PRELOADED:
            with self.subTest(variant):
                self.assertEqual(self.verdict(replay(), variant), ("same", ""))

    def test_memory_of_another_process(self):
        for way in ("handle", "pool"):
            case = Case("descriptors", [os.path.join(BUILD, "test/prog/descriptors"), way])
            self.assertEqual(self.verdict(case), ("same", ""))

    def test_a_library_without_rules_of_reuse(self):
        word, why = self.verdict(replay(), LD_PRELOAD=os.environ["GP_UNSAFE_LIBRARY"])
        self.assertEqual(word, "DIFFERENT")
        self.assertRegex(why, "corrupt stamps, were 0")

    def test_another_error(self):
        word, why = self.verdict(replay(), SIMCUDA_FAIL="cuMemAlloc_v2:999@2")
        self.assertEqual(word, "DIFFERENT")
        self.assertRegex(why, "exit status 3, was exit status 0")

    def test_a_snapshot_without_its_allocations(self):
        word, why = self.verdict(replay(), GPUPOOL_TRACE="state")
        self.assertEqual(word, "DIFFERENT")
        self.assertRegex(why, r"asked of the driver: snapshot 0 allocations of 0 bytes.*\n?.*asked for by the program: snapshot 0 ")

    def test_declared_differences(self):
        reason = {"preloaded": "planted"}
        self.assertEqual(self.verdict(replay(unlike=reason), SIMCUDA_FAIL="cuMemAlloc_v2:999@2")[0], "explained")
        self.assertEqual(self.verdict(replay(unlike=reason))[0], "DIFFERENT")

    def test_files(self):
        case = Case("files", ["sh", "-c", 'echo "$GPUPOOL_TYPE" >made; echo same >other'], files=["*"])
        word, why = self.verdict(case)
        self.assertEqual((word, why), ("DIFFERENT", "made: another content"))


class OptionsTest(unittest.TestCase):
    def refused(self, *arguments):
        done = subprocess.run([os.path.join(SOURCE, "scripts/real-programs.sh"), *arguments], stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 2)
        return done.stderr

    def test_mistakes_are_answered_with_what_would_be_right(self):
        for arguments, answer in (([], "--folder FOLDER"), (["--here", "nosuch"], "there are: .*pytorch"),
                                  (["--here", "--checkout", "x"], "NAME=PATH would be right"),
                                  (["--here", "--variants", "rnd"], "there are: round"),
                                  (["--here", "--build", "/nonexistent"], "scripts/test.sh makes build")):
            self.assertRegex(self.refused(*arguments), answer)


if __name__ == "__main__":
    unittest.main()
