"""Threads that make the same calls at the same time, with gaps between holds of locks (test/prog/hook_threads.c)."""

import unittest

from harness import PreloadCase, rows_of, stats_of


class HookThreads(PreloadCase):
    def run_case(self, name, **settings):
        run = self.run_program("hook_threads", name, GP_LOCK_GAPS="3", **settings)
        self.assertEqual((run.status, run.out, run.messages), (0, "wrong=0\n", []), run.err)
        self.expect_clean(run)
        return run

    def expect_pooled(self, run):
        """The plain memory at the end came from the pool: nothing that the threads did is still going on."""
        hits = [row["hit"] for row in rows_of(run.snapshot()) if row["action"] == "alloc"]
        self.assertEqual(hits[-19:], [1] * 19)  # of 20, the first of which may be the first of all

    def test_pools(self):
        """The memory of each is counted where the pool is, which a pool that is not known does not tell."""
        snapshot = self.run_case("pools", ASYNC="driver", SIMCUDA_DEVICES="2").snapshot()
        devices = [event["device"] for event in rows_of(snapshot) if event["action"] == "passthrough_alloc"]
        self.assertEqual(devices, [1] * (3 * 60 * 4))
        self.assertEqual(stats_of(snapshot, 1)["passthrough_bytes"]["current"], 0)

    def test_captures(self):
        self.expect_pooled(self.run_case("captures"))

    def test_pitched(self):
        self.run_case("pitched")

    def test_green(self):
        self.expect_pooled(self.run_case("green"))

    def test_torch(self):
        for settings in ({}, {"ASYNC": "driver"}):
            snapshot = self.run_case("torch", **settings).snapshot()
            self.assertEqual(stats_of(snapshot)["allocated_bytes"]["current"], 0)


if __name__ == "__main__":
    unittest.main()
