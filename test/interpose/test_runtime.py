"""cudaMalloc and cudaFree of a shared runtime, served without it: a program can tell by nothing but the time that it takes."""

import collections
import os
import re
import shutil
import unittest

from harness import LIBRARY, PreloadCase, SANITIZED, count_actions, stats_of

from test_routes import ROUTES_FOLDER

SAME = ("adopted", "devices", "contexts", "errors", "threads", "reset", "capture", "ends", "child", "lookups", "pairs")
CALLS = 32  # of the pairs that the program counts


def entries(run):
    """Calls that came to the runtime, each time the program counted them."""
    return [int(count) for count in re.findall(r"entries=(\d+) of %d" % CALLS, run.err)]


class RuntimeCase(PreloadCase):
    def run_path(self, what, major=13, **settings):
        settings.setdefault("SIMCUDA_DEVICES", "2")
        settings.setdefault("SIMCUDA_UNLOADS", "1")
        return self.run_program(os.path.join(ROUTES_FOLDER, "runtime_path_%d" % major), what, **settings)

    def stand_in(self, name):
        """A library of which only the name counts, and what it looks up."""
        path = os.path.join(self.folder, name)
        if not os.path.exists(path):
            shutil.copy(os.path.join(ROUTES_FOLDER, "runtime_tool.so"), path)
        return path

    def with_environment(self, **variables):
        os.environ.update(variables)
        for name in variables:
            self.addCleanup(os.environ.pop, name, None)


class Same(RuntimeCase):
    def test_programs_print_the_same(self):
        for major in (11, 12, 13):
            for what in SAME:
                with self.subTest(major=major, what=what):
                    plain = self.run_path(what, major, preload=None)
                    runs = [self.run_path(what, major, RUNTIME_HOOKS=hooks) for hooks in "01"]
                    for run in runs:
                        self.assertEqual((run.status, run.out), (plain.status, plain.out))
                        if what == "ends":
                            self.assertIn("at the end: free 4, allocate 4", run.out)
                        self.assertEqual(len(run.messages), 2 if what == "errors" else 0, run.err)  # out of memory
                        self.expect_clean(run)
                    if what not in ("child", "ends", "devices", "threads", "contexts", "adopted"):
                        stats = [stats_of(run.snapshot()) for run in runs]
                        self.assertEqual(*[(s["allocation"], s["cache_hits"], s["requested_bytes"]) for s in stats])


class Served(RuntimeCase):
    def test_a_warm_pair_does_not_come_to_the_runtime(self):
        for major in (12, 13):
            run = self.run_path("pairs", major)
            self.assertEqual(entries(run), [0])
            run = self.run_path("pairs", major, RUNTIME_HOOKS="0")
            self.assertEqual(entries(run), [CALLS])

    def test_a_free_in_no_context_comes_to_the_runtime(self):
        self.assertEqual(entries(self.run_path("nowhere")), [1])

    def test_types(self):
        for kind in ("naive", "segment", "vmm"):
            self.assertEqual(entries(self.run_path("pairs", TYPE=kind)), [0], kind)
        self.assertEqual(entries(self.run_path("pairs", TYPE="unpooled")), [CALLS])

    def test_a_runtime_whose_set_device_does_not_bind(self):
        self.assertEqual(entries(self.run_path("pairs", 11)), [CALLS])

    def test_what_is_recorded_is_the_same(self):
        for settings in ({}, {"STACKS": "native"}, {"STACKS": "native", "STACKS_FREE": "1"}, {"STACKS": "off"}):
            for what in ("pairs", "large_pairs"):
                with self.subTest(settings=settings, what=what):
                    runs = [self.run_path(what, RUNTIME_HOOKS=hooks, **settings) for hooks in "01"]
                    snapshots = [run.snapshot() for run in runs]
                    for snapshot in snapshots:
                        self.expect_valid(snapshot)
                    self.assertEqual(*[count_actions(snapshot) for snapshot in snapshots])
                    self.assertEqual(*[self.stacks(snapshot) for snapshot in snapshots])

    def stacks(self, snapshot):
        """How often each action has a stack of which depth. The order of events of one time says nothing."""
        events = snapshot["events"]
        depths = {index: len(stack) for index, stack in enumerate(snapshot["stacks"])}
        return collections.Counter((events["actions"][action] if isinstance(action, int) else action, depths.get(stack))
                                   for action, stack in zip(events["action"], events["stack"]))

    def test_calls_whose_stack_is_recorded_come_to_the_runtime(self):
        self.assertEqual(entries(self.run_path("large_pairs")), [CALLS // 2])  # the allocations
        self.assertEqual(entries(self.run_path("large_pairs", STACKS="off")), [0])
        self.assertEqual(entries(self.run_path("pairs", STACKS="native")), [CALLS // 2])
        self.assertEqual(entries(self.run_path("pairs", STACKS_FREE="1")), [CALLS // 2])

    def test_where_everything_is_forwarded(self):
        self.assertEqual(entries(self.run_path("pairs", DISABLE="1")), [CALLS])
        self.assertEqual(entries(self.run_path("pairs", REUSE="strict")), [CALLS // 2])  # the frees


class Tools(RuntimeCase):
    """What watches the calls of the runtime sees all of them."""

    def test_injections(self):
        self.with_environment(NVTX_INJECTION64_PATH="/nowhere/libnvtx.so")
        self.assertEqual(entries(self.run_path("pairs")), [CALLS])

    def test_a_tool_that_is_injected_into_the_driver(self):
        self.with_environment(CUDA_INJECTION64_PATH="/nowhere/libtool.so")
        self.assertEqual(entries(self.run_path("pairs")), [CALLS])

    def test_cupti(self):
        preload = LIBRARY + ":" + self.stand_in("libcupti.so.13")
        self.assertEqual(entries(self.run_path("pairs", preload=preload)), [CALLS])

    def test_cupti_that_is_loaded_later(self):
        self.with_environment(RUNTIME_PATH_TOOL=self.stand_in("libcupti.so.13"))
        self.assertEqual(entries(self.run_path("tool_comes")), [0, CALLS])
        self.with_environment(RUNTIME_PATH_TOOL=self.stand_in("libharmless.so"))
        self.assertEqual(entries(self.run_path("tool_comes")), [0, 0])

    def test_cupti_that_is_used_later(self):
        for name, left in (("libcupti.so.13", CALLS), ("libharmless.so", 0)):
            self.with_environment(RUNTIME_PATH_TOOL=self.stand_in(name))
            self.assertEqual(entries(self.run_path("tool_asks")), [0, left])

    def test_the_toolkits_cupti_is_noticed(self):
        cupti = os.path.join(os.path.dirname(os.environ["GP_CUDA_INCLUDE"]), "lib64", "libcupti.so.13")
        if not os.path.exists(cupti) or SANITIZED:
            self.skipTest("the toolkit's CUPTI is not there")
        self.with_environment(RUNTIME_PATH_TOOL=cupti)
        self.assertEqual(entries(self.run_path("tool_asks")), [0, CALLS])


class Plugins(RuntimeCase):
    """Each caller gets the runtime that it was linked to."""

    def run_plugins(self, *arguments, **settings):
        words = [os.path.join(ROUTES_FOLDER, "plugin_path_%d.so" % word) if isinstance(word, int) else word for word in arguments]
        return self.run_program(os.path.join(ROUTES_FOLDER, "runtime_plugins"), *words, **settings)

    def test_each_has_its_own(self):
        for words in ((13,), (12, 13), (11, 13), ("keep", 12, 13), ("keep", 13, 11, 12, 13, 11)):
            with self.subTest(words=words):
                plain = self.run_plugins(*words, preload=None)
                run = self.run_plugins(*words)
                self.assertEqual((run.status, run.out, run.messages), (0, plain.out, []))
                served = [0 if word > 11 else CALLS for word in words if word != "keep" for _ in range(2)]
                self.assertEqual(entries(run), served)

    def test_one_that_the_program_does_not_have(self):
        for name, served in (("11", CALLS), ("12", 0), ("renamed", CALLS)):
            with self.subTest(name=name):
                self.with_environment(RUNTIME_PATH_TOOL=os.path.join(ROUTES_FOLDER, "plugin_path_%s.so" % name))
                plain = self.run_path("plugin", preload=None)
                self.assertIn("runtime 1", plain.out)
                run = self.run_path("plugin")
                self.assertEqual((run.status, run.out, run.messages), (0, plain.out, []))
                self.assertEqual(entries(run), [0, served, 0])

    def test_wrappers_see_every_call(self):
        wrapper = os.path.join(ROUTES_FOLDER, "runtime_wrapper.so")
        counts = []
        for preload in (wrapper + ":" + LIBRARY, LIBRARY + ":" + wrapper):
            run = self.run_path("pairs", preload=preload)
            self.assertEqual((run.status, entries(run)), (0, [CALLS]))
            counts += re.findall(r"wrapper: (\d+) calls", run.err)
        self.assertEqual(counts, [str(CALLS + 5)] * 2)

    def test_a_program_without_a_runtime_finds_none(self):
        plain = self.run_plugins("weak", preload=None)
        run = self.run_plugins("weak")
        self.assertEqual((run.status, run.out), (0, plain.out))
        plain = self.run_plugins("keep", 13, "weak", preload=None)
        run = self.run_plugins("keep", 13, "weak")
        self.assertEqual((run.status, run.out), (0, plain.out))

    def test_calls_without_a_runtime_fail(self):
        self.assertEqual(self.run_plugins("call", preload=None).out, "no runtime\n")
        run = self.run_plugins("call")
        self.assertEqual((run.status, run.out), (0, "cudaMalloc: 3, 0x8; cudaFree: 3\n"))  # cudaErrorInitializationError


if __name__ == "__main__":
    unittest.main()
