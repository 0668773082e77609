"""Programs with little memory, which never synchronize the device, use again what it has finished. On the virtual clock,
because what goes into fences depends on the time: there time passes with the readings of it only, so that hardly any is
left for early fences."""

import unittest

from harness import PreloadCase, stats_of

MIB = 1 << 20
ROUNDS = 200


class Small(PreloadCase):
    def run_small(self, kind, **settings):
        run = self.run_program("small", kind, str(ROUNDS), virtual_clock=True, **settings)
        self.assertEqual(run.status, 0, run.err)
        self.expect_clean(run)
        self.assertEqual(run.field("wrong"), 0)
        return run, stats_of(run.snapshot())

    def test_a_buffer_that_is_copied_to_and_freed(self):
        """Held 37 MiB for 2."""
        run, stats = self.run_small("buffer")
        self.assertLessEqual(stats["reserved_bytes"]["peak"], 4 * MIB)
        self.assertGreaterEqual(stats["cache_hits"], 0.95 * ROUNDS)
        self.assertEqual(run.calls().get("cuCtxSynchronize", 0), 0)
        self.assertEqual(stats["host_waits"], 0)

    def test_temporaries_of_array_languages(self):
        _, stats = self.run_small("temporaries")
        self.assertLessEqual(stats["reserved_bytes"]["peak"], 16 * 4096)
        self.assertGreaterEqual(stats["cache_hits"], 0.95 * 3 * ROUNDS)

    def test_scratch_memory_of_a_stream_that_is_waited_for(self):
        _, stats = self.run_small("scratch")
        self.assertLessEqual(stats["reserved_bytes"]["peak"], 6 * MIB)
        self.assertGreaterEqual(stats["cache_hits"], 0.95 * ROUNDS)

    def test_scratch_memory_that_nothing_waits_for(self):
        """The simulated device works now and then only, so that it lags."""
        _, stats = self.run_small("queued")
        self.assertLess(stats["reserved_bytes"]["peak"], 32 * MIB)
        self.assertGreaterEqual(stats["cache_hits"], 0.8 * ROUNDS)

    def test_before_12_5_what_is_freed_is_bounded(self):
        """Nothing proves that it is complete, so beyond GPUPOOL_MAX_DEFERRED the driver gets the program's frees."""
        for bound in (64, 128):
            run, stats = self.run_small("buffer", driver="12040", MAX_DEFERRED="%dMiB" % bound)
            self.assertLessEqual(stats["reserved_bytes"]["peak"], (bound + 4) * MIB)
            self.assertGreater(run.calls()["cuMemFree_v2"], 1)
            self.assertEqual(run.calls().get("cuCtxSynchronize", 0), 0)
            self.assertEqual(stats["host_waits"], 0)

    def test_before_12_5_types_that_cut_become_round(self):
        for kind in ("segment", "vmm"):
            run, _ = self.run_small("buffer", driver="12040", TYPE=kind)
            self.assertIn("GPUPOOL_TYPE=%s needs driver 12.5 or newer; round is used" % kind, run.messages[0])
            self.assertEqual(len(run.messages), 1)
            self.assertEqual(run.snapshot()["settings"]["type"], "round")


if __name__ == "__main__":
    unittest.main()
