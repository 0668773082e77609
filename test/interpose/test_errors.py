"""Errors that stay, tools that watch, a pool that cannot start: everything goes to the driver, and one line says so."""

import os
import re
import shutil
import unittest

from harness import LIBRARY, PreloadCase, count_actions, stats_of

TOOL = os.environ["GP_TOOL_STUB"]  # a library that does nothing, under the name of compute-sanitizer's
STICKY = ("214", "700", "702", "710", "714", "715", "716", "717", "718", "719", "999")
DRIVERS = ("11040", "12040", "13000")


class Errors(PreloadCase):
    leaks_are_errors = True

    def run_scenario(self, *args, **settings):
        return self.run_program("scenario", *args, timeout=60, **settings)

    def test_errors_that_stay_end_the_pooling(self):
        """Told by a call that the program makes. From then on it sees the driver's answers and nothing else."""
        for call in ("cuCtxSynchronize:%s@1", "cuMemAlloc_v2:%s@2", "cuMemAllocManaged:%s@1",
                     "cuStreamEndCapture:%s@1"):
            for code in STICKY:
                with self.subTest(call=call % code):
                    plain = self.run_scenario(preload=None, SIMCUDA_FAIL=call % code)
                    run = self.run_scenario(SIMCUDA_FAIL=call % code)
                    self.assertEqual((run.status, run.out), (plain.status, plain.out))
                    self.expect_clean(run)
                    lines = [line for line in run.messages if "pooling stops" in line]
                    self.assertEqual(len(lines), 1, run.err)
                    self.assertIn("error %s," % code, lines[0])
                    self.assertEqual(count_actions(run.snapshot())["mode"], 2)

    def test_the_end_of_the_driver_is_no_news(self):
        """As threads see it that go on while the process exits: everything goes to the driver, and nothing is said."""
        for call in ("cuCtxSynchronize:4@1", "cuMemAlloc_v2:4@2", "cuMemAllocManaged:4@1"):
            with self.subTest(call=call):
                plain = self.run_scenario(preload=None, SIMCUDA_FAIL=call)
                run = self.run_scenario(SIMCUDA_FAIL=call)
                self.assertEqual((run.status, run.out), (plain.status, plain.out))
                self.expect_clean(run)
                self.assertEqual(run.messages, [])
                counts = count_actions(run.snapshot())
                self.assertEqual(counts["mode"], 1)
                self.assertGreater(counts["passthrough_alloc"], 20)

    def test_so_do_those_that_a_question_about_memory_tells(self):
        """The pool asks, too: which of the calls is the program's first shows in what the program sees. Its questions depend
        on how much time has passed: hence RESERVE=0 and the virtual clock, beside which a leak checker does not end."""
        self.leaks_are_errors = False
        for code in ("700",):
            plain = self.run_scenario(preload=None, SIMCUDA_FAIL="cuMemGetInfo_v2:%s@1" % code)
            timeless = {"RESERVE": "0", "virtual_clock": True}
            calls = self.run_scenario(**timeless).calls()["cuMemGetInfo_v2"]
            runs = [self.run_scenario(**timeless, SIMCUDA_FAIL="cuMemGetInfo_v2:%s@%d" % (code, n))
                    for n in range(1, calls + 1)]
            (run,) = [run for run in runs if (run.status, run.out) == (plain.status, plain.out)]
            (line,) = [line for line in run.messages if "pooling stops" in line]
            self.assertIn("error %s," % code, line)

    def test_errors_that_pass_do_not(self):
        for code in ("2", "1", "101", "201", "600", "800", "801", "900"):
            with self.subTest(code=code):
                fault = "cuCtxSynchronize:%s@1" % code
                plain = self.run_scenario(preload=None, SIMCUDA_FAIL=fault)
                run = self.run_scenario(SIMCUDA_FAIL=fault)
                self.assertEqual((run.status, run.out), (plain.status, plain.out))
                self.assertEqual(run.messages, [])
                self.assertGreater(stats_of(run.snapshot())["cache_hits"], 0)

    def test_memory_from_before_an_error_goes_back_to_the_driver(self):
        """DEINITIALIZED does not end the simulated driver, so what it gets back can be counted."""
        plain = self.run_scenario(preload=None, SIMCUDA_FAIL="cuMemAllocManaged:4@1")
        run = self.run_scenario(SIMCUDA_FAIL="cuMemAllocManaged:4@1")
        self.assertEqual(run.sim["current_bytes"], plain.sim["current_bytes"])

    def expect_aside(self, line, prefix=(), preload=LIBRARY, **settings):
        """Unpooled, the driver gets each of the program's calls; recorded and limited as ever."""
        plain = self.run_scenario(preload=None, prefix=prefix, **settings)
        run = self.run_scenario(preload=preload, prefix=prefix, **settings)
        self.assertEqual((run.status, run.out), (plain.status, plain.out))
        for name in ("cuMemAlloc_v2", "cuMemFree_v2", "cuMemAllocAsync", "cuMemFreeAsync", "cuCtxSynchronize",
                     "cuMemGetInfo_v2"):
            self.assertEqual(run.calls()[name], plain.calls()[name], name)
        self.assertNotIn("cuCtxRecordEvent", run.calls())
        self.assertEqual(len(run.messages), 1, run.err)
        self.assertRegex(run.messages[0], line + ".*nothing is pooled")
        counts = count_actions(run.snapshot())
        self.assertEqual(counts.get("segment_alloc", 0), 0)
        self.assertGreater(counts["passthrough_alloc"], 20)
        self.expect_valid(run.snapshot())

    def test_an_injected_tool_by_its_variable(self):
        for driver in DRIVERS:
            with self.subTest(driver=driver):
                self.expect_aside("CUDA_INJECTION64_PATH=/opt/tool.so", SIMCUDA_DRIVER=driver,
                                  prefix=("/usr/bin/env", "CUDA_INJECTION64_PATH=/opt/tool.so"))

    def test_an_injected_tool_by_its_library(self):
        for name in ("libsanitizer-collection.so", "libToolsInjection64.so", "libcuda-injection.so",
                     "libInterceptorInjectionTarget.so", "libTreeLauncherTargetInjection.so", "libcuinj64.so.13.0"):
            with self.subTest(name=name):
                tool = os.path.join(self.folder, name)
                shutil.copy(TOOL, tool)
                self.expect_aside(re.escape(name), preload=tool + ":" + LIBRARY)

    def test_libraries_of_the_program_are_no_tools(self):
        """CUPTI is linked by programs that measure themselves; an empty variable injects nothing."""
        tool = os.path.join(self.folder, "libcupti.so.13")
        shutil.copy(TOOL, tool)
        for settings in ({"preload": tool + ":" + LIBRARY}, {"prefix": ("/usr/bin/env", "CUDA_INJECTION64_PATH=")}):
            run = self.run_scenario(**settings)
            self.assertEqual(run.messages, [])
            self.assertGreater(stats_of(run.snapshot())["cache_hits"], 0)

    def test_a_limit_holds_beside_a_tool(self):
        run = self.run_scenario("4000000", LIMIT="6MiB", prefix=("/usr/bin/env", "CUDA_INJECTION64_PATH=/opt/tool.so"))
        self.assertLessEqual(run.sim["peak_bytes"][0], 6 << 20)
        self.assertGreater(stats_of(run.snapshot("exit"))["num_ooms"], 0)


if __name__ == "__main__":
    unittest.main()
