"""Every way in which a program reaches the driver, and programs that exercise the corners of the API."""

import os
import re
import unittest

from harness import PROG, PreloadCase, SIM, SOURCE, stats_of, trace_files

CORNERS = ("static_route", "driver_linked", "per_thread", "errors", "capture", "contexts", "fork", "exits",
           "two_contexts")


class Routes(PreloadCase):
    def test_programs_behave_as_without_the_library(self):
        for name in CORNERS:
            for settings in ({}, {"TYPE": "naive"}, {"TYPE": "unpooled"}, {"REUSE": "strict"}):
                with self.subTest(program=name, **settings):
                    plain = self.run_program(name, preload=None)
                    run = self.run_program(name, **settings)
                    self.assertEqual(run.status, plain.status)
                    self.assertEqual(run.out, plain.out)
                    self.expect_clean(run)
                    snapshot = run.snapshot("exit")
                    self.expect_valid(snapshot)
                    self.assertGreater(stats_of(snapshot)["allocation"]["allocated"], 0)

    def test_driver_versions(self):
        for version in ("11040", "12000", "12040", "12050", "13000"):
            for name in ("static_route", "driver_linked", "per_thread", "contexts"):
                with self.subTest(driver=version, program=name):
                    plain = self.run_program(name, preload=None, SIMCUDA_DRIVER=version)
                    run = self.run_program(name, SIMCUDA_DRIVER=version)
                    self.assertEqual((run.status, run.out), (plain.status, plain.out))
                    if plain.status == 0:
                        self.expect_clean(run)
                        self.assertEqual(run.snapshot()["process"]["driver_version"], int(version))
                        self.assertGreater(stats_of(run.snapshot())["allocation"]["allocated"], 0)

    def test_pool_works_without_context_wide_fences(self):
        path = trace_files()[0]
        run = self.run_program("replay", "--check", "--streams", "4", path, SIMCUDA_DRIVER="12040")
        self.assertEqual(run.status, 0, run.err)
        self.expect_clean(run)
        self.assertNotIn("cuCtxRecordEvent", run.calls())
        self.assertEqual(stats_of(run.snapshot())["fences"], 0)

    def test_driver_whose_pointers_are_not_its_exports(self):
        for name in ("static_route", "per_thread", "replay"):
            args = ("--check", trace_files()[0]) if name == "replay" else ()
            run = self.run_program(name, *args, SIMCUDA_PROC_ADDRESS="distinct")
            self.assertEqual(run.status, 0, run.err)
            self.assertGreater(stats_of(run.snapshot())["allocation"]["allocated"], 0)

    def test_waits_happen_in_the_right_context(self):
        """A context that cannot be made current must not pass for one whose work is complete."""
        for settings in ({}, {"MAX_DEFERRED": "0"}, {"REUSE": "strict"}):
            for push in ("", "1", "2"):
                faults = {"SIMCUDA_FAIL": "cuCtxPushCurrent_v2:2@" + push} if push else {}
                for seed in (1, 2, 3):
                    with self.subTest(push=push, seed=seed, **settings):
                        run = self.run_program("two_contexts", SIMCUDA_DRIVER="12040", SIMCUDA_SEED=str(seed),
                                               **settings, **faults)
                        self.expect_clean(run)
                        if run.status == 0:
                            self.assertIn("the copy holds 1", run.out)

    def test_every_lookup_of_a_real_runtime_is_answered(self):
        lookups = os.path.join(SOURCE, "..", "shared", "reference", "cudart-13.0-lookups.txt")
        if not os.path.exists(lookups):
            self.skipTest("the list of lookups is not beside the source tree")
        plain = self.run_program("lookups", lookups, preload=None).out.splitlines()
        pooled = self.run_program("lookups", lookups).out.splitlines()
        self.assertEqual(len(plain), len(pooled))
        hooked = set()
        for a, b in zip(plain, pooled):
            if a != b:
                self.assertEqual(a.replace("libcuda.so.1", "libgpupool.so"), b)
                hooked.add(b.split()[0] if not b.startswith("GPA") else b.split()[1])
        for name in ("cuMemAlloc", "cuMemFree", "cuMemGetInfo", "cuMemAllocAsync", "cuMemFreeAsync", "cuCtxSynchronize",
                     "cuGetProcAddress", "cuStreamBeginCapture", "cuDevicePrimaryCtxReset"):
            self.assertIn(name, hooked)

    def test_driver_without_most_functions(self):
        """Our own failing lookups must not show in dlerror(), and what cannot be pooled is forwarded."""
        arguments = (os.environ["GP_OLD_DRIVER_PROG"], os.environ["GP_OLD_DRIVER"])
        plain = self.run_program(*arguments, preload=None)
        run = self.run_program(*arguments)
        self.assertEqual((run.status, run.out), (plain.status, plain.out))
        self.assertIn("cuMemAlloc_v2: found, no error", run.out)
        self.assertIn("alloc: 0, 0x10040", run.out)
        self.assertEqual(run.err, "")

    def test_two_preloads_in_either_order(self):
        other = os.path.join(SIM, "libcudart.so.13")  # any library will do: it must still be found by the loader
        for order in (other + ":" + os.environ["GP_LIBRARY"], os.environ["GP_LIBRARY"] + ":" + other):
            run = self.run_program("replay", "--check", trace_files()[0], preload=order)
            self.assertEqual(run.status, 0, run.err)
            self.expect_clean(run)

    def test_forked_child_writes_nothing(self):
        run = self.run_program("fork")
        self.assertEqual(len(run.snapshot_paths()), 1)

    def test_exit_paths(self):
        for way in ("normal", "leak", "_exit", "quick_exit", "thread"):
            with self.subTest(way=way):
                plain = self.run_program("exits", way, preload=None)
                run = self.run_program("exits", way)
                self.assertEqual((run.status, run.out), (plain.status, plain.out))
        leak = self.run_program("exits", "leak").snapshot()
        self.assertGreater(stats_of(leak)["allocation"]["current"], 0)
        self.assertEqual({b["state"] for s in leak["segments"] for b in s["blocks"]} & {"active_allocated"},
                         {"active_allocated"})


if __name__ == "__main__":
    unittest.main()
