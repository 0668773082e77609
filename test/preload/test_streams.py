"""GPUPOOL_REUSE=epoch: memory comes back by facts about single streams, never too early, and without calls of ours."""

import re
import unittest

from harness import UNSAFE_LIBRARY, PreloadCase, stats_of, trace_files

# What the program learns of its streams, and the calls of ours that reuse may then cost: none.
FACTS = ("stream", "query", "event", "copy", "device")
OURS = ("cuCtxRecordEvent", "cuEventQuery", "cuEventRecord", "cuStreamQuery", "cuCtxSynchronize", "cuEventCreate")
MIB = 1 << 20


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

    def test_each_fact_brings_memory_back(self):
        """From the third round on nothing is allocated, and the driver gets the program's calls only."""
        for way in FACTS:
            with self.subTest(way=way):
                plain = self.run_streams(way, preload=None)
                run = self.run_streams(way, REUSE="epoch")
                stats = stats_of(run.snapshot())
                # The four blocks of a round's first half, of its second, and those that were freed after its facts.
                self.assertLessEqual(stats["driver_allocs"], 12)
                self.assertEqual(stats["cache_hits"] + stats["cache_misses"], 400)
                self.assertEqual((stats["fences"], stats["host_waits"]), (0, 0))
                for call in OURS if way != "query" else OURS[:3]:  # how often the program asks varies
                    self.assertEqual(run.calls().get(call, 0), plain.calls().get(call, 0), call)
                self.assertEqual(modes(run.snapshot()), ["mono", "epoch_stream"])

    def test_context_needs_facts_about_contexts(self):
        """The same program under `context`, so that the test above does not show something else."""
        stats = stats_of(self.run_streams("stream", REUSE="context").snapshot())
        self.assertGreater(stats["driver_allocs"], 16)

    def test_destroyed_streams_are_waited_for(self):
        for reuse in ("epoch", "context", "strict"):
            run = self.run_streams("destroy", REUSE=reuse, MAX_DEFERRED="1")
            self.assertGreater(stats_of(run.snapshot())["cache_hits"], 0)

    def test_launches_of_graphs_are_work(self):
        run = self.run_streams("graph", REUSE="epoch")
        self.assertEqual(modes(run.snapshot()), ["mono", "epoch_stream"])

    def test_a_launch_that_waits_for_memory_first(self):
        """Making room for a graph ends with a synchronization of ours: the launch comes after it, and is marked after."""
        for settings in ({"LIMIT": "400MiB"}, {"SIMCUDA_CAPACITY": "400MiB", "RESERVE": "0"}, {}):
            for reuse in ("epoch", "context", "strict"):
                with self.subTest(reuse=reuse, **settings):
                    run = self.run_program("graph_pending", REUSE=reuse, **settings)
                    self.assertEqual((run.status, run.out), (0, "graph_pending: in order\n"), run.err)

    def test_a_stream_of_unknown_origin_ends_the_mode(self):
        run = self.run_streams("hidden", REUSE="epoch", VERBOSE="1")
        self.assertEqual(modes(run.snapshot()), ["mono", "epoch_stream", "context"])
        self.assertEqual(len([line for line in run.messages if "reuse mode is context" in line]), 1)

    def test_without_facts_deferred_memory_is_bounded(self):
        run = self.run_streams("none", rounds=200, REUSE="epoch", MAX_DEFERRED="16MiB")
        stats = stats_of(run.snapshot())
        self.assertLessEqual(stats["reserved_bytes"]["peak"], 8 * MIB + 16 * MIB + 2 * MIB)

    def test_reuse_at_once_is_noticed(self):
        run = self.run_program("streams", "none", "50", preload=UNSAFE_LIBRARY, REUSE="epoch")
        self.assertNotEqual((run.sim["violations"], run.sim["corrupt_stamps"], run.status), (0, 0, 0))

    def test_real_programs(self):
        for path in trace_files()[:4]:
            for args in ((), ("--streams", "4"), ("--streams", "4", "--threads", "4"), ("--sync-every", "0"),
                         ("--api", "driver", "--streams", "3")):
                with self.subTest(args=args):
                    run = self.run_program("replay", "--check", "--strict", *args, path, REUSE="epoch")
                    self.assertEqual(run.status, 0, run.err)
                    self.expect_clean(run)

    def test_every_program_behaves_as_without(self):
        for name in ("capture", "two_contexts", "per_thread", "contexts", "errors", "driver_linked", "static_route"):
            with self.subTest(program=name):
                plain = self.run_program(name, preload=None)
                run = self.run_program(name, REUSE="epoch")
                self.assertEqual((run.status, re.sub(r"0x\w+", "", run.out)), (plain.status, re.sub(r"0x\w+", "", plain.out)))
                self.expect_clean(run)


if __name__ == "__main__":
    unittest.main()
