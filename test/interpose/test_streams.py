"""Work in several streams, and the removed reuse mode single."""

import unittest

from harness import UNSAFE_LIBRARY, PreloadCase, stats_of


def modes(snapshot):
    events = snapshot["events"]
    return [events["details"][detail] for index, detail in zip(events["action"], events["detail"])
            if events["actions"][index] == "mode"]


class Streams(PreloadCase):
    def run_streams(self, way, rounds=50, **settings):
        run = self.run_program("streams", way, str(rounds), **settings)
        self.assertEqual(run.status, 0, run.out + run.err)
        self.expect_clean(run)
        return run

    def test_destroyed_streams_are_waited_for(self):
        for reuse in ("context", "strict"):
            run = self.run_streams("destroy", REUSE=reuse, MAX_DEFERRED="1")
            self.assertGreater(stats_of(run.snapshot())["cache_hits"], 0)

    def test_a_launch_that_waits_for_memory_first(self):
        """Making room for a graph ends with a synchronization of the library's: the launch comes after it."""
        for settings in ({"LIMIT": "400MiB"}, {"SIMCUDA_CAPACITY": "400MiB", "RESERVE": "0"}, {}):
            for reuse in ("context", "strict"):
                with self.subTest(reuse=reuse, **settings):
                    run = self.run_program("graph_pending", REUSE=reuse, **settings)
                    self.assertEqual((run.status, run.out), (0, "graph_pending: in order\n"), run.err)

    def test_reuse_at_once_is_noticed(self):
        run = self.run_program("streams", "none", "50", preload=UNSAFE_LIBRARY)
        self.assertNotEqual((run.sim["violations"], run.sim["corrupt_stamps"], run.status), (0, 0, 0))

    def test_the_removed_mode_single_is_context(self):
        """The program runs as with GPUPOOL_REUSE=context, and one line names what is used."""
        runs = {reuse: self.run_streams("none", REUSE=reuse, virtual_clock=True) for reuse in ("context", "single")}
        self.assertEqual(runs["single"].out, runs["context"].out)
        self.assertEqual(runs["single"].calls(), runs["context"].calls())
        self.assertEqual(modes(runs["single"].snapshot()), ["context"])
        self.assertEqual(runs["context"].messages, [])
        self.assertEqual(len(runs["single"].messages), 1)
        self.assertRegex(runs["single"].messages[0], r"GPUPOOL_REUSE=single was removed; context is used, ")


if __name__ == "__main__":
    unittest.main()
