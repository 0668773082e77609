"""Memory that cudaFreeAsync has freed may be used until its stream reaches the free; until then it is no other stream's."""

import itertools
import unittest

from harness import PreloadCase

GATES = ("kernel", "event", "process")
JUDGED = ("violations", "corrupt_stamps", "early_reuse", "strays", "early_accesses", "late_accesses")


class LateUse(PreloadCase):
    def run_late(self, memory, gate, **settings):
        run = self.run_program("late_use", memory, gate, SIMCUDA_ORACLE="1", **settings)
        self.assertEqual(run.status, 0, run.out + run.err)
        self.assertEqual({key: run.sim[key] for key in JUDGED}, dict.fromkeys(JUDGED, 0), run.err[-2000:])
        return run.out

    def test_only_its_stream_gets_the_memory(self):
        """In order only memory of cudaMallocAsync comes back."""
        def run_with(case):
            memory, gate, mode, choice, driver = case
            out = self.run_late(memory, gate, REUSE=mode, ASYNC=choice, driver=driver)
            again = "the same" if memory == "ordered" else "another"
            self.assertEqual(out, "in order: %s; elsewhere: another\n" % again, case)

        self.in_parallel(run_with, itertools.product(("plain", "ordered"), GATES, ("context", "strict"),
                                                     ("pool", "plain"), ("12040", "13000")))

    def test_without_the_library(self):
        for memory, gate in itertools.product(("plain", "ordered"), GATES):
            self.assertIn("elsewhere: another", self.run_late(memory, gate, preload=None))


if __name__ == "__main__":
    unittest.main()
