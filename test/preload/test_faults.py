"""Driver call N fails, for N = 1, 2, ...: no crash, no leak, and the program sees what it would have seen."""

import os
import re
import unittest

from harness import PreloadCase, stats_of, trace_files

ROWS = 40  # of the trace: enough for misses, hits and frees


class Faults(PreloadCase):
    def setUp(self):
        super().setUp()
        with open(trace_files()[0]) as file:
            header = file.readline()
            live, rows = [], []
            for i in range(ROWS):
                rows.append("A,%d,%d,%d\n" % (i, 1000 * (i % 7 + 1), i % 2))
                live.append(i)
                if i % 3 == 2:
                    rows.append("F,%d,0,0\n" % live.pop(0))
        self.trace = os.path.join(self.folder, "small.csv")
        with open(self.trace, "w") as file:
            file.write(header + "".join(rows))

    def test_every_driver_call(self):
        args = ("--check", "--sync-every", "8", self.trace)
        calls = sum(self.run_program("replay", *args).calls().values())
        self.assertGreater(calls, 300)
        outcomes = set()
        for code in ("2", "999"):
            for n in range(1, calls + 1, 1 if code == "2" else 5):
                run = self.run_program("replay", *args, SIMCUDA_FAIL="*:%s@%d" % (code, n))
                self.assertIn(run.status, (0, 1, 3), "call %d: %s" % (n, run.err))
                self.assertEqual(run.sim["violations"], 0, "call %d" % n)
                outcomes.add(run.status)
                snapshots = run.snapshot_paths("exit")
                if snapshots and run.status == 0 and code == "2":
                    stats = stats_of(run.snapshot())
                    self.assertEqual(stats["reserved_bytes"]["current"], run.sim["current_bytes"][0], "call %d" % n)
                    self.assertEqual(stats["allocation"]["current"], 0, "call %d" % n)
        self.assertIn(0, outcomes)

    def test_the_program_sees_the_drivers_code(self):
        """An allocation that fails with something else than out of memory is not retried or renamed."""
        for code, name in (("101", "invalidDevice"), ("214", "ECC"), ("801", "otSupported")):
            for api in ("runtime", "driver"):
                with self.subTest(code=code, api=api):
                    fault = "cuMemAlloc_v2:%s@3" % code
                    plain = self.run_program("replay", "--api", api, self.trace, preload=None, SIMCUDA_FAIL=fault)
                    run = self.run_program("replay", "--api", api, self.trace, SIMCUDA_FAIL=fault)
                    self.assertEqual(run.status, plain.status)
                    last = [line for line in plain.err.splitlines() if "gpupool" not in line][-1:]
                    self.assertEqual([line for line in run.err.splitlines() if not line.startswith("gpupool: ")][-1:],
                                     last)
                    self.assertEqual(run.calls()["cuMemAlloc_v2"], 3)

    def test_one_failed_allocation_is_tried_again(self):
        """A driver that is out of memory once: the pool gives back and tries again, the program never learns."""
        run = self.run_program("replay", "--check", trace_files()[0], SIMCUDA_FAIL="cuMemAlloc_v2:2@300")
        self.assertEqual(run.status, 0)
        self.assertEqual(run.field("failed"), 0)
        self.assertGreater(stats_of(run.snapshot())["num_alloc_retries"], 0)


if __name__ == "__main__":
    unittest.main()
