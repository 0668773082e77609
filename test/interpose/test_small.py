"""Programs with little memory, which never synchronize the device, use again what it has finished. On the virtual clock,
because what goes into fences depends on the time: there time passes with the readings of it only, so that hardly any is
left for fences ahead of need."""

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

    def test_before_12_5_copies_to_the_host_tell(self):
        """There is no fence of a context, but the copies are operations in the default stream."""
        run, stats = self.run_small("buffer", driver="12040")
        self.assertLessEqual(stats["reserved_bytes"]["peak"], 4 * MIB)
        self.assertGreaterEqual(stats["cache_hits"], 0.95 * ROUNDS)
        self.assertEqual(run.calls().get("cuCtxSynchronize", 0), 0)
        self.assertEqual(stats["host_waits"], 0)
        _, stats = self.run_small("temporaries", driver="12040")
        self.assertLessEqual(stats["reserved_bytes"]["peak"], 16 * 4096)


if __name__ == "__main__":
    unittest.main()
