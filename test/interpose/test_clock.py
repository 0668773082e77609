"""The virtual clock, under the library: a test that waits for a minute takes a moment (test/sim/virtual_clock.c)."""

import unittest

from harness import PreloadCase, LIBRARY

SECOND_NS = 10**9


class Clock(PreloadCase):
    def test_program_ends_at_once(self):
        """Also with the library, which would ask the processor after the first tenth of a second."""
        for preload in (None, LIBRARY):
            run = self.run_program("waiting_long", "busy", "40000000000", preload=preload, virtual_clock=True,
                                   SIMCUDA_CAPACITY="80GiB", timeout=60)
            self.assertEqual((run.status, run.out.splitlines()[-1]), (0, "end"), run.err)
        times = run.snapshot()["events"]["time_ns"]
        self.assertGreaterEqual(times[-1] - times[0], 40 * SECOND_NS)
        self.assertLess(times[-1] - times[0], 45 * SECOND_NS)


if __name__ == "__main__":
    unittest.main()
