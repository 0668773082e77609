"""Programs that natively have enough memory, on a device that they fill: the library refuses none of their requests."""

import unittest

from harness import PreloadCase, programs

KINDS = ("plain", "ordered", "managed", "physical", "array", "pitched", "pool")
TYPES = ("round", "naive", "segment", "vmm")
# Small blocks that are in use keep segments from going back, so type `segment` needs more room than its program.
RACES = [("16MiB", ("race", "4", "1024")), ("16MiB", ("race", "8", "512")), ("16MiB", ("race", "16", "256"))]
WORK = [("64MiB", ("work",)), ("96MiB", ("work",))]


class ShortMemory(PreloadCase):
    def expect_none_refused(self, capacity, arguments, **settings):
        run = self.run_program("short_memory", *arguments, SIMCUDA_CAPACITY=capacity, SNAPSHOT_AT="none", **settings)
        self.assertEqual(run.status, 0, run.err)
        self.assertEqual(run.field("failed"), 0, "%s %s %s\n%s" % (capacity, arguments, settings, run.err))
        self.expect_clean(run)

    def test_small_idle_blocks_in_most_pages(self):
        cases = [(kind, pool) for kind in KINDS for pool in TYPES]
        self.in_parallel(lambda case: self.expect_none_refused("64MiB", ("pinned", case[0]), TYPE=case[1]), cases)

    def test_under_a_limit(self):
        self.in_parallel(lambda pool: self.expect_none_refused("1GiB", ("pinned", "plain"), TYPE=pool, LIMIT="64MiB"), TYPES)

    def test_idle_memory_of_threads_that_sleep(self):
        self.in_parallel(lambda pool: self.expect_none_refused("64MiB", ("parked",), TYPE=pool), TYPES)

    def test_threads_that_take_turns_at_the_last_memory(self):
        """Each run is another race; scripts/soak.sh has many."""
        for number in programs(3):
            for capacity, arguments in RACES:
                self.expect_none_refused(capacity, arguments, TYPE=TYPES[number % 4])
            for capacity, arguments in WORK:
                self.expect_none_refused(capacity, arguments, TYPE=("round", "naive", "vmm")[number % 3])

    def test_requests_that_cannot_all_be_served_end(self):
        for pool in TYPES:
            run = self.run_program("short_memory", "halves", SIMCUDA_CAPACITY="64MiB", TYPE=pool, SNAPSHOT_AT="none")
            self.assertEqual(run.status, 0, run.err)
            self.assertEqual(run.field("failed"), 40)


if __name__ == "__main__":
    unittest.main()
