"""GPUPOOL_PREWARM and GPUPOOL_PROFILE under whole programs."""

import os
import unittest

from harness import PreloadCase, stats_of, trace_files

KINDS = ("round", "naive", "segment", "vmm")
MIB = 1 << 20


class Prewarm(PreloadCase):
    def test_memory_is_there_before_the_program_needs_it(self):
        path = trace_files()[0]
        for kind in KINDS:
            with self.subTest(type=kind):
                cold = stats_of(self.run_program("replay", "--sync-every", "1", path, TYPE=kind).snapshot())
                # Of whole blocks just two, which the trace is far from being served by.
                blocks = "64MiB*2" if kind in ("round", "naive") else str(cold["reserved_bytes"]["peak"])
                run = self.run_program("replay", "--check", "--sync-every", "1", path, TYPE=kind, PREWARM=blocks)
                self.assertEqual(run.status, 0, run.err)
                self.assertEqual(run.messages[:-1], [])
                self.expect_clean(run)
                snapshot = run.snapshot()
                self.expect_valid(snapshot)
                self.assertEqual(snapshot["settings"]["prewarm"], blocks)
                stats = stats_of(snapshot)
                if kind == "segment":
                    self.assertLessEqual(stats["driver_allocs"], 2)  # one segment is in other pieces than many
                    self.assertEqual(stats["driver_frees"], 0)
                elif kind == "vmm":
                    self.assertEqual((stats["cache_misses"], stats["driver_frees"]), (0, 0))
                    self.assertLess(stats["driver_allocs"], 64)
                else:
                    self.assertGreaterEqual(stats["cache_hits"], cold["cache_hits"])
                    self.assertEqual(stats["driver_allocs"], stats["cache_misses"] + 2)

    def test_programs_behave_as_without_the_library(self):
        for name in ("driver_linked", "per_thread", "errors", "capture", "contexts", "fork", "two_contexts", "freed"):
            for kind in KINDS if name != "freed" else KINDS[:2]:  # it asks for the bounds of the driver's allocation
                with self.subTest(program=name, type=kind):
                    plain = self.run_program(name, preload=None)
                    run = self.run_program(name, TYPE=kind, PREWARM="2MiB*3,4MiB,16MiB", RESERVE="0")
                    self.assertEqual((run.status, run.out), (plain.status, plain.out))
                    self.expect_clean(run)
                    self.expect_valid(run.snapshot("exit"))

    def test_what_does_not_fit_is_said_once(self):
        run = self.run_program("driver_linked", PREWARM="64MiB*4", LIMIT="200MiB")
        lines = [line for line in run.messages if "PREWARM" in line]
        self.assertEqual(len(lines), 1, run.err)
        self.assertIn("192 MiB of 256 MiB prewarmed: GPUPOOL_LIMIT allows no more", lines[0])
        self.expect_clean(run)

    def test_a_profile(self):
        """Settings of a file, which the snapshot names as its own."""
        path = os.path.join(self.folder, "tuned.profile")
        with open(path, "w") as file:
            file.write("# comment\nGPUPOOL_TYPE=segment\nGPUPOOL_PREWARM=96MiB\n")
        run = self.run_program("driver_linked", PROFILE=path)
        settings = run.snapshot()["settings"]
        self.assertEqual((settings["type"], settings["prewarm"]), ("segment", "96MiB"))
        self.assertEqual({name: settings["sources"][name] for name in ("type", "prewarm", "profile")},
                         {"type": "profile", "prewarm": "profile", "profile": "environment"})
        self.assertEqual(run.messages[:-1], [])
        run = self.run_program("driver_linked", PROFILE=path, TYPE="naive")
        self.assertEqual(run.snapshot()["settings"]["type"], "naive")
        self.assertEqual(sum("another type than GPUPOOL_TYPE=naive" in line for line in run.messages), 1, run.err)
        run = self.run_program("driver_linked", PROFILE=path + "x")
        self.assertEqual(sum("No such file or directory" in line for line in run.messages), 1, run.err)
        self.expect_valid(run.snapshot())


if __name__ == "__main__":
    unittest.main()
