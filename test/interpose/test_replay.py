"""Real workloads, replayed by a program that knows nothing of the pool."""

import itertools
import os
import unittest

from harness import (ASYNC_MODES, PreloadCase, QUICK, Trace, UNSAFE_LIBRARY, WORKLOADS, count_actions, stats_of, trace_files,
                     trace_shapes)

QUERIES = {"cuCtxGetCurrent", "cuCtxGetId", "cuCtxGetDevice"}


class Replay(PreloadCase):
    def expect_counts(self, run, trace, passes=1):
        self.assertEqual(run.status, 0, run.err)
        self.expect_clean(run)
        snapshot = run.snapshot()
        stats = stats_of(snapshot)
        self.assertEqual(stats["allocation"]["allocated"], trace.allocations * passes)
        self.assertEqual(stats["allocation"]["freed"], (trace.frees + trace.survivors) * passes)
        self.assertEqual(stats["cache_hits"] + stats["cache_misses"], trace.allocations * passes)
        if snapshot["dropped_events"] == 0:
            counts = count_actions(snapshot)
            self.assertEqual(counts["alloc"], trace.allocations * passes)
            self.assertEqual(counts["free_requested"], trace.allocations * passes)
        return snapshot, stats

    def test_every_trace(self):
        for path in trace_files():
            with self.subTest(trace=os.path.basename(path)):
                trace = Trace(path)
                run = self.run_program("replay", "--check", path)
                snapshot, stats = self.expect_counts(run, trace)
                self.assertEqual(stats["requested_bytes"]["peak"], trace.peak)
                self.expect_valid(snapshot, schema=False)

    def test_the_budget_bounds_what_is_held(self):
        trace = Trace(os.path.join(WORKLOADS, "sizes-growing.csv"))
        held = {}
        for slack in ("15%", "30%", "none"):
            run = self.run_program("replay", "--sync-every", "1", trace.path, SLACK=slack)
            _, stats = self.expect_counts(run, trace)
            held[slack] = stats["reserved_bytes"]["peak"] / trace.peak
        self.assertLess(held["15%"], 1.4)
        self.assertGreater(held["30%"], held["15%"] + 0.1)
        self.assertGreater(held["none"], 4)

    def test_the_budget_costs_little_where_a_trace_repeats(self):
        for path in trace_shapes():
            for args in ((), ("--async",)):
                with self.subTest(trace=os.path.basename(path), args=args):
                    run = self.run_program("replay", "--repeat", "5", *args, path, virtual_clock=True)
                    _, stats = self.expect_counts(run, Trace(path), 5)
                    self.assertLessEqual(stats["driver_frees"], 0.04 * stats["allocation"]["allocated"])

    def test_every_trace_with_other_types_and_modes(self):
        for path in trace_shapes():
            trace = Trace(path)
            for settings in ({"TYPE": "naive"}, {"TYPE": "segment"}, {"TYPE": "vmm"}, {"TYPE": "unpooled"}, {"REUSE": "strict"}, {"MAX_DEFERRED": "0"}):
                with self.subTest(trace=os.path.basename(path), **settings):
                    run = self.run_program("replay", "--check", "--streams", "3", path, **settings)
                    snapshot, stats = self.expect_counts(run, trace)
                    self.assertEqual(stats["requested_bytes"]["peak"], trace.peak)
                    self.expect_history(snapshot)

    def test_apis_streams_and_threads(self):
        for path in trace_shapes():
            trace = Trace(path)
            for args in (("--api", "driver"), ("--streams", "4"), ("--threads", "4"),
                         ("--streams", "4", "--threads", "4", "--repeat", "2"), ("--sync-every", "0")):
                with self.subTest(trace=os.path.basename(path), args=args):
                    run = self.run_program("replay", "--check", *args, path)
                    snapshot, _ = self.expect_counts(run, trace, passes=2 if "--repeat" in args else 1)
                    self.expect_history(snapshot)

    def test_stream_ordered_memory_of_the_driver_is_recorded(self):
        for path in trace_shapes():  # the driver places it
            for args in ((), ("--api", "driver"), ("--threads", "4", "--streams", "4")):
                with self.subTest(trace=os.path.basename(path), args=args):
                    trace = Trace(path)
                    run = self.run_program("replay", "--check", "--async", *args, path, ASYNC="driver")
                    self.assertEqual(run.status, 0, run.err)
                    self.expect_clean(run)
                    snapshot = run.snapshot()
                    counts = count_actions(snapshot, but=("pinned_host",))  # the program's buffer for stamps
                    self.assertEqual(counts["passthrough_alloc"], trace.allocations)
                    self.assertEqual(counts["passthrough_free"], trace.allocations)
                    self.assertNotIn("alloc", counts)
                    self.assertEqual(stats_of(snapshot)["passthrough_bytes"]["current"], 0)
                    self.assertEqual(run.calls()["cuMemAllocAsync"], trace.allocations)

    def test_stream_ordered_memory_is_used_in_order(self):
        """Whoever serves it, and beside memory of cudaMalloc: the stamps are right, and, whatever the schedule, no use is
        before the driver's allocation or behind its free."""
        def run_with(case):
            path, kind, args, mode = case
            run = self.run_program("replay", "--check", "--strict", kind, *args, path, SIMCUDA_ORACLE="1", **mode)
            self.assertEqual(run.status, 0, run.out + run.err)
            self.expect_clean(run)
            self.assertEqual((run.sim["early_accesses"], run.sim["late_accesses"]), (0, 0), run.err[-2000:])
            self.expect_valid(run.snapshot(), schema=False)

        args = ((), ("--streams", "4", "--repeat", "2"), ("--api", "driver", "--threads", "4", "--streams", "4"), ("--sync-every", "0"))
        cases = itertools.product(trace_shapes(), ("--async", "--half-async"), args, ASYNC_MODES)
        self.in_parallel(run_with, itertools.islice(cases, 0, None, 5 if QUICK else 1))  # of each choice some

    @unittest.skipUnless({"ASYNC": "pool"} in ASYNC_MODES, "the pool does not serve stream-ordered memory")
    def test_stream_ordered_steady_state(self):
        """In order of the trace's streams the driver is asked for one piece at most from the third pass on, and with four streams
        in turn for at most one request in a hundred. Without the budget, which asks again for some of what it gave back."""
        own = ("cuMemAllocAsync", "cuMemFreeAsync", "cuMemFree_v2", "cuMemAlloc_v2", "cuMemCreate", "cuMemMap", "cuMemUnmap")
        for path in trace_shapes():
            allocations = Trace(path).allocations
            for args, share in ((), 0), (("--streams", "4"), 0.01):
                with self.subTest(trace=os.path.basename(path), args=args):
                    run = self.run_program("replay", "--check", "--async", "--repeat", "5", *args, path, log=True,
                                           virtual_clock=True, SLACK="none")
                    self.assertEqual(run.status, 0, run.out + run.err)
                    self.expect_clean(run)
                    calls = self.calls_from_third_pass(run)
                    for name in own:
                        self.assertLessEqual(calls.get(name, 0), max(1, share * 3 * allocations), name)

    @unittest.skipUnless({"ASYNC": "pool"} in ASYNC_MODES, "the pool does not serve stream-ordered memory")
    def test_after_one_programmatic_launch_memory_waits_for_the_device(self):
        """It is used again, but not before the facts: more has to come from the driver."""
        path = next(p for p in trace_shapes() if "llm-inference" in p)
        misses = []
        for more in ((), ("--programmatic",)):
            run = self.run_program("replay", "--check", "--async", "--api", "driver", "--streams", "4", "--sync-every", "0",
                                   *more, path, virtual_clock=True, SIMCUDA_ORACLE="1")
            self.assertEqual(run.status, 0, run.out + run.err)
            self.expect_clean(run)
            misses.append(run.calls()["cuMemMap"])
        self.assertGreater(misses[1], misses[0])
        self.assertLess(misses[1], Trace(path).allocations / 2)

    def test_steady_state_makes_no_driver_call_of_ours(self):
        """From the second pass on hits, from the third on nothing but what the program asks the driver itself, and
        fences (fewer than one request in a hundred, each asked once or twice). Since blocks are used again as soon as
        the device is done with them, few are there beyond those that were in use at once so far, and where the device
        is further behind than it ever was, one more is needed: less than one in a thousand. The virtual clock makes
        every run the same: how long the driver's word on free memory holds, and how often a miss polls, depend on the
        time, and with them which block serves whom. Without the budget, which asks again for some of what it gave back, and
        without waits in cudaFree, which ask fences again and again."""
        for path in [p for p in trace_files() if "train" in p or "fullstep" in p]:
            with self.subTest(trace=os.path.basename(path)):
                trace = Trace(path)
                alone = {"SLACK": "none", "MAX_DEFERRED": "none"}
                args = ("--check", "--repeat", "5", path)
                _, first = self.expect_counts(
                    self.run_program("replay", "--check", path, virtual_clock=True, **alone), trace)
                pooled = self.run_program("replay", *args, log=True, virtual_clock=True, **alone)
                _, fifth = self.expect_counts(pooled, trace, 5)
                self.assertGreaterEqual(fifth["cache_hits"] - first["cache_hits"], 0.99 * 4 * trace.allocations)
                theirs = self.calls_from_third_pass(
                    self.run_program("replay", *args, log=True, virtual_clock=True, DISABLE="1"))
                for name in ("cuMemAlloc_v2", "cuMemFree_v2"):
                    self.assertGreaterEqual(theirs.pop(name), 3 * trace.allocations)
                ours = self.calls_from_third_pass(pooled)
                fences = ours.pop("cuCtxRecordEvent", 0)
                self.assertLessEqual(fences, 3 * trace.allocations / 100)
                self.assertLessEqual(ours.pop("cuEventQuery", 0), 2 * fences)
                self.assertLess(ours.pop("cuEventCreate", 0), 8)  # a context has eight fences, and the first is made at once
                self.assertLessEqual(ours.pop("cuMemAlloc_v2", 0), 3 * trace.allocations / 1000)
                self.assertEqual(ours, theirs)

    @staticmethod
    def calls_from_third_pass(run):
        """Counts the driver calls after the last stamp of the second of five passes, context queries aside."""
        with open(run.log) as file:
            names = [line.split("(")[0].split(" ")[0] for line in file]
        stamps = [i for i, name in enumerate(names) if name in ("cuMemcpy2DAsync_v2", "cuMemcpyHtoDAsync_v2")]
        counts = {}
        for name in names[stamps[len(stamps) // 5 * 2 - 1] + 1:]:
            if name not in QUERIES:
                counts[name] = counts.get(name, 0) + 1
        return counts

    def test_disabled_library_changes_no_driver_call(self):
        for path in trace_files()[:2]:
            for api in ("runtime", "driver"):
                plain = self.run_program("replay", "--check", "--api", api, path, preload=None, log=True)
                disabled = self.run_program("replay", "--check", "--api", api, path, log=True, DISABLE="1")
                with open(plain.log) as a, open(disabled.log) as b:
                    self.assertTrue(a.read() == b.read(), "the simulator's call logs differ")
                self.assertEqual(disabled.snapshot_paths(), [])
                self.assertEqual(disabled.err, plain.err)

    def test_immediate_reuse_turns_this_red(self):
        """The test of the tests above: a pool without the rules must be noticed."""
        caught = 0
        for path in trace_files():
            run = self.run_program("replay", "--check", "--streams", "4", path, preload=UNSAFE_LIBRARY)
            caught += run.status != 0 and run.sim["corrupt_stamps"] > 0 and run.field("wrong_stamps") > 0
        self.assertEqual(caught, len(trace_files()))

    def test_recording_modes(self):
        path = trace_files()[0]
        off = self.run_program("replay", path, TRACE="off")
        self.assertEqual(off.snapshot()["events"]["action"], [])
        state = self.run_program("replay", path, TRACE="state").snapshot()
        self.assertEqual(state["events"]["action"], [])
        self.assertGreater(stats_of(state)["allocation"]["allocated"], 0)
        few = self.run_program("replay", path, TRACE_EVENTS="2048").snapshot()
        self.assertLessEqual(len(few["events"]["action"]), 2048)
        self.assertGreater(few["dropped_events"], 0)
        self.assertEqual(stats_of(few), dict(stats_of(few), **{"num_ooms": 0}))
        self.expect_valid(few)


if __name__ == "__main__":
    unittest.main()
