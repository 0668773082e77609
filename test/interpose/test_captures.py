"""Stream captures end in many ways. The pool is suspended while one runs, and no longer, for the threads that it reaches."""

import json
import unittest

from harness import PreloadCase, count_actions, stats_of

PROBES = {  # case of capture_ends -> allocations that it makes while a capture runs and that succeed
    "ended": 1, "destroyed": 1, "destroyed_v1": 0, "destroyed_and_made_again": 1, "destroy_refused": 1,
    "context_destroyed": 1, "context_destroyed_elsewhere": 1, "primary_reset": 1, "primary_released": 1,
    "primary_released_once": 2, "unjoined": 0, "unmatched": 1, "member_destroyed": 1, "invalidated": 0,
    "two_captures": 1, "begun_twice": 1, "never_begun": 0, "without_graph": 1, "wrong_thread": 1,
    "ended_by_another_thread": 1, "thread_ended": 1, "per_thread": 2, "per_context": 2, "legacy": 2,
}


class Captures(PreloadCase):
    leaks_are_errors = True

    def expect_same(self, case, probes, **settings):
        """As without the library; what was asked for during the capture is the driver's, what came after is pooled."""
        plain = self.run_program("capture_ends", case, preload=None, timeout=60, **settings)
        run = self.run_program("capture_ends", case, timeout=60, **settings)
        self.assertEqual((run.status, run.out), (plain.status, plain.out))
        self.expect_clean(run)
        snapshot = run.snapshot()
        self.expect_valid(snapshot)
        self.assertEqual(count_actions(snapshot).get("passthrough_alloc", 0), probes, run.out)
        stats = stats_of(snapshot)
        self.assertEqual((stats["cache_misses"], stats["cache_hits"]), (1, 2), "pooled again when it had ended")
        return run

    def test_every_end(self):
        self.assertEqual(set(self.run_program("capture_ends", preload=None).out.split()), set(PROBES))
        for case, probes in PROBES.items():
            for driver in ("11040", "12040", "13000"):
                with self.subTest(case=case, driver=driver):
                    self.expect_same(case, probes, SIMCUDA_DRIVER=driver)

    def test_end_that_fails(self):
        """The driver is asked whether the capture still runs: it does in all of these, until it is ended otherwise."""
        for code in ("2", "1", "800"):
            with self.subTest(code=code):
                self.expect_same("unmatched", 1, SIMCUDA_FAIL="cuStreamEndCapture:%s@1" % code)
                self.expect_same("without_graph", 1, SIMCUDA_FAIL="cuStreamEndCapture:%s@1" % code)

    def test_destroy_that_fails(self):
        plain = self.run_program("capture_ends", "destroyed", preload=None, SIMCUDA_FAIL="cuStreamDestroy_v2:2@1")
        run = self.run_program("capture_ends", "destroyed", SIMCUDA_FAIL="cuStreamDestroy_v2:2@1")
        self.assertEqual((run.status, run.out), (plain.status, plain.out))
        self.assertEqual(count_actions(run.snapshot()).get("passthrough_alloc", 0), 4, "the capture runs on: none is pooled")

    def test_begin_that_fails(self):
        for code in ("2", "900"):
            plain = self.run_program("capture_ends", "destroyed_v1", preload=None,
                                     SIMCUDA_FAIL="cuStreamBeginCapture_v2:%s@1" % code)
            run = self.run_program("capture_ends", "destroyed_v1", SIMCUDA_FAIL="cuStreamBeginCapture_v2:%s@1" % code)
            self.assertEqual((run.status, run.out), (plain.status, plain.out))
            self.assertEqual(stats_of(run.snapshot())["cache_hits"], 2)

    def test_nothing_of_ours_while_one_runs(self):
        """Between begin and end the driver gets the program's calls, and questions that no capture prohibits."""
        allowed = {"cuStreamBeginCapture_v2", "cuMemAlloc_v2", "cuMemFree_v2", "cuStreamEndCapture", "cuCtxGetCurrent",
                   "cuCtxGetId", "cuCtxGetDevice"}
        run = self.run_program("capture_ends", "ended", log=True, MAX_DEFERRED="0")
        with open(run.log) as file:
            names = [line.split()[0] for line in file]
        during = names[names.index("cuStreamBeginCapture_v2"):names.index("cuStreamEndCapture")]
        self.assertIn("cuMemAlloc_v2", during)
        self.assertEqual(set(during) - allowed, set())


ALLOWED = {"cuStreamBeginCapture_v2", "cuMemAlloc_v2", "cuMemFree_v2", "cuStreamEndCapture", "cuCtxGetCurrent",
           "cuCtxGetId", "cuCtxGetDevice", "cuCtxSetCurrent", "cuThreadExchangeStreamCaptureMode",
           "cuStreamIsCapturing", "cuMemAllocAsync", "cuMemFreeAsync", "cuDeviceGetDefaultMemPool", "cuDeviceGetMemPool"}
# of the program "joined"
ALLOWED_JOINED = ALLOWED | {"cuEventCreate", "cuEventRecord", "cuStreamWaitEvent"}
# case of during_capture -> allocations during the capture: hits, and forwarded ones that are counted; the others fail, or
# are nodes of the graph
BESIDE = {"relaxed": (4, 2), "relaxed_own": (4, 2), "thread": (4, 2), "thread_own": (0, 0), "thread_own_exempt": (0, 6),
          "global": (0, 0), "global_exempt": (0, 6), "global_own": (0, 0), "other_relaxed": (4, 2),
          "other_thread": (4, 2), "other_global": (4, 2), "joined": (0, 0), "legacy": (0, 6)}


class Beside(PreloadCase):
    leaks_are_errors = True

    def check(self, case, hits, forwarded, **settings):
        plain = self.run_program("during_capture", case, preload=None, timeout=60, **settings)
        run = self.run_program("during_capture", case, timeout=60, log=True, **settings)
        self.assertEqual((run.status, run.out), (plain.status, plain.out))
        self.expect_clean(run)
        snapshot = run.snapshot()
        self.expect_valid(snapshot)
        stats = stats_of(snapshot)
        self.assertEqual(count_actions(snapshot).get("passthrough_alloc", 0), forwarded)
        self.assertEqual((stats["cache_misses"], stats["cache_hits"]), (5, hits + 4), "pooled again afterwards")
        with open(run.log) as file:
            names = [line.split()[0] for line in file]
        during = names[names.index("cuStreamBeginCapture_v2"):names.index("cuStreamEndCapture")]
        self.assertEqual(set(during) - (ALLOWED_JOINED if case == "joined" else ALLOWED), set())
        self.assertEqual(during.count("cuMemAlloc_v2") + during.count("cuMemAllocAsync"), 6 - hits)

    def test_who_is_served(self):
        self.assertEqual(set(self.run_program("during_capture", preload=None).out.split()), set(BESIDE))
        for case, (hits, forwarded) in BESIDE.items():
            for driver in ("11040", "12040", "13000"):
                with self.subTest(case=case, driver=driver):
                    self.check(case, hits, forwarded, SIMCUDA_DRIVER=driver)

    def test_memory_of_cuda_malloc_in_stream_order(self):
        for case in ("other_relaxed", "other_thread", "other_global", "joined"):
            with self.subTest(case=case):
                self.check(case, *BESIDE[case], ASYNC="plain")

    def test_a_question_that_fails(self):
        """The request is the driver's, and not counted: it may be a node of the graph."""
        faults = ",".join("cuStreamIsCapturing:1@%d" % n for n in range(1, 41))
        self.check("other_global", 0, 0, SIMCUDA_FAIL=faults)
        self.check("joined", 0, 0, SIMCUDA_FAIL=faults)


class GraphMemory(PreloadCase):
    leaks_are_errors = True

    def test_as_without_the_library(self):
        """What graphs hold, what is in it and who may free it, beside memory that the pool keeps."""
        for case in self.run_program("graph_memory", preload=None).out.split():
            plain = self.run_program("graph_memory", case, preload=None)
            for settings in ({}, {"ASYNC": "plain"}, {"ASYNC": "driver"}, {"TYPE": "segment"},
                             {"SIMCUDA_DRIVER": "11040"}):
                with self.subTest(case=case, **settings):
                    if "SIMCUDA_DRIVER" in settings:
                        plain = self.run_program("graph_memory", case, preload=None, **settings)
                    run = self.run_program("graph_memory", case, **settings)
                    self.assertEqual((run.status, run.out), (plain.status, plain.out))
                    self.expect_clean(run)
                    snapshot = run.snapshot()
                    self.expect_valid(snapshot)
                    self.assertEqual(stats_of(snapshot)["passthrough_bytes"]["current"], 0)
                    if "holds 17" in plain.out:
                        self.assertIn('"graph"', json.dumps(snapshot), "counted from the launch on")
                    if settings.get("ASYNC") != "driver":
                        self.assertGreater(stats_of(snapshot)["cache_hits"], 0)


if __name__ == "__main__":
    unittest.main()
