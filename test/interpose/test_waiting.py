"""Kernels that wait for the thread that allocates, and long ones: see waiting_case.py."""

import itertools
import unittest

from harness import QUICK, stats_of
from test_control import ControlCase
from waiting_case import LEFT, MIB, MODES, SHORT, Case, WaitingCase


def refused_once(name, number=1):
    return {"SIMCUDA_FAIL": "%s:CUDA_ERROR_OUT_OF_MEMORY@%d" % (name, number)}


MEMORY = [Case("memory", kind, left, refused=True, **SHORT)
          for kind in ("pooled", "pieces", "managed", "pitched", "stream_ordered", "physical", "array", "graph")
          for left in LEFT]
MEMORY += [Case("memory", "stream_ordered", left, refused=True, ASYNC=choice, **SHORT) for choice in ("plain", "driver")
           for left in LEFT]
STREAMS = [Case("memory", "in_%s_stream" % stream, left, refused=True, **SHORT)
           for stream in ("default", "thread", "destroyed") for left in LEFT]
LIMITED = [Case("memory", kind, left, refused=True, LIMIT="1GiB", RESERVE="0", PATIENCE="1", plain={})
           for kind in ("pooled", "managed", "pitched", "stream_ordered", "physical", "array", "graph") for left in LEFT]
MEMORY += [Case("memory", "same_size", "idle", **SHORT),  # a fence is recorded at the free, where the driver has one
           Case("memory", "same_size", "deferred", drivers=("13000",), **SHORT),
           Case("memory", "same_size", "deferred", drivers=("12040",), refused=True, **SHORT)]
# The library cannot know that the kernel will not use the memory: it counts as earlier work, which is waited for longer.
MEMORY += [Case("memory", "freed_beside", str(bytes), refused=True, free_waits=("0",), patience=60, **SHORT)
           for bytes in (600 * MIB, 700 * MIB)]
HIDDEN = [Case("memory", kind, left, refused=True, PATIENCE="1", plain={}, **refused_once(*fail))
          for kind, fail in (("host", ("cuMemAllocHost_v2",)), ("module", ("cuModuleLoadData", 2)),
                             ("stack_limit", ("cuCtxSetLimit",)), ("context", ("cuCtxCreate_v2",)))
          for left in LEFT]
SURPLUS = [Case("surplus", "reserve", SIMCUDA_CAPACITY="1GiB")]
SURPLUS += [Case("surplus", "other_context", MAX_CACHED="8MiB", SIMCUDA_ORACLE="1")]  # cuMemFree waits for all contexts
SURPLUS += [Case("surplus", "query", MAX_CACHED="8MiB")]
KEPT = (("much", dict(MAX_CACHED="8MiB")), ("old", dict(IDLE_RELEASE="1")))
SURPLUS += [Case("surplus", scenario, why, **settings) for scenario in ("hit", "miss", "stream", "capture")
            for why, settings in KEPT]
SURPLUS += [Case("surplus", "free", why, ASYNC=choice, **settings) for why, settings in KEPT for choice in ("pool", "plain")]
# Freed in the order of a stream that is done, beside a kernel in another one: natively no request is refused.
ORDERED = [Case("ordered", scenario, streams, told, **SHORT)
           for scenario in ("same_size", "many_sizes", "of_malloc") for streams in ("blocking", "free", "own")
           for told in ("stream", "query", "event")]
ORDERED += [Case("ordered", "same_size", streams, "event", ASYNC="plain", **SHORT) for streams in ("blocking", "free", "own")]
ORDERED += [Case("ordered", scenario, streams, "stream", **SHORT)
            for scenario in ("by_host", "then_malloc") for streams in ("blocking", "free", "own")]
ORDERED += [Case("ordered", "by_host", "free", "event", ASYNC="plain", **SHORT)]
ORDERED += [Case("ordered", "of_malloc", "free", "stream", TYPE=kind, **SHORT) for kind in ("naive", "segment", "vmm")]
ORDERED += [Case("ordered", "other_context", streams, drivers=("13000",), **SHORT) for streams in ("blocking", "free", "own")]
ORDERED += [Case("ordered", "legacy_later", streams) for streams in ("blocking", "free", "own")]
NOTHING = ("cached_bytes", "deferred_bytes")
ASIDE = [Case("aside", "green", left, drivers=("12040",), none_left=NOTHING) for left in LEFT]
ASIDE += [Case("aside", "unknown", left, drivers=("14000",), none_left=NOTHING) for left in LEFT]
ASIDE += [Case("aside", scenario, left, drivers=("14000",), refused=True, none_left=NOTHING, **SHORT)
          for scenario in ("unknown_short", "unknown_before") for left in LEFT]
LONG = [Case("long", "misses", "1000", MAX_DEFERRED="0"),  # what is waited for at each, however short, adds up
        Case("long", "busy", "5000000000"),
        # A fence that is recorded at the free tells that the block can be used again. Giving it back is another matter.
        Case("long", "busy_behind", "5000000000", "60", drivers=("13000",)),
        Case("long", "busy_behind", "5000000000", "60", drivers=("12040",), refused=True, PATIENCE="1"),
        Case("long", "busy_behind", "5000000000", "70", refused=True, PATIENCE="1"),
        Case("long", "free_beside", free_waits=("0",)),
        Case("long", "free_behind", "5000000000", free_waits=("1",), modes=("strict",))]
# Frees beyond a bound: what may wait, and does not where the program's own call would not (pool/reuse/wait_in_free.h).
BOUNDS = ("0", "4MiB")
FREES = [Case("free", "returns", str(8 * MIB), free_waits=("0",), MAX_DEFERRED=bound) for bound in BOUNDS]
FREES += [Case("free", "returns", str(48 * MIB), free_waits=("0",)),
          Case("free", "returns", str(MIB // 2), free_waits=("0",), MAX_DEFERRED="0")]
FREES += [Case("free", "returns", str(8 * MIB), free_waits=("0",), drivers=("13000",), MAX_DEFERRED="0", TYPE=kind)
          for kind in ("naive", "segment", "vmm")]
FREES += [Case("free", "never", how, MAX_DEFERRED="0", ASYNC=choice) for how in ("by_free", "in_stream", "malloc_in_stream")
          for choice in ("pool", "plain")]
FREES += [Case("free", "never", "release", modes=("context",), MAX_DEFERRED="0"),  # in mode strict it waits as a free does
          Case("free", "never", "release", free_waits=("0",), modes=("strict",), MAX_DEFERRED="0")]
FREES += [Case("free", "captured", who, mode, free_waits=("0",), MAX_DEFERRED="0") for who in ("this", "other")
          for mode in ("relaxed", "thread_local")]
FREES += [Case("free", "elsewhere", where, SIMCUDA_DEVICES="2", MAX_DEFERRED="0") for where in ("context", "device")]


class Waiting(WaitingCase):
    def test_frees_beyond_the_bound(self):
        self.check(FREES)

    def test_memory_is_short(self):
        self.check(MEMORY)

    def test_memory_in_the_order_of_streams(self):
        self.check(ORDERED)

    def test_random_programs_in_the_order_of_streams(self):
        """No request is refused that natively is not. Parts in use keep segments, which the program's own free cannot give back:
        with the types that cut refusals are no news."""
        def run_with(case):
            kind, mode, free_waits = case
            run = self.run_program("waiting_random", "async", "1", str(4 if QUICK else 12), TYPE=kind, REUSE=mode,
                                   SIMCUDA_FREE_WAITS=free_waits, virtual_clock=True, **SHORT)
            self.assertIn("async: 0 of ", run.out, run.err[-2000:])
            self.expect_clean(run)

        self.in_parallel(run_with, itertools.product(("round", "naive"), MODES, ("0", "1")))

    def test_streams(self):
        self.check(STREAMS)

    def test_limit(self):
        self.check(LIMITED)

    def test_memory_that_the_driver_takes_unseen(self):
        self.check(HIDDEN)

    def test_surplus(self):
        self.check(SURPLUS)

    def test_stopped(self):
        self.check(ASIDE)

    def test_long_kernels(self):
        self.check(LONG)


class Requests(ControlCase):
    """Of gpupool ctl, beside the kernel: what the device may use stays, and goes back with a synchronization."""

    def cached(self, program):
        stats = stats_of(self.ask(program, b"stats\n"))
        return stats["cached_bytes"]["current"] + stats["deferred_bytes"]["current"]

    def check(self, request, left, mode, driver, free_waits):
        program = self.start(name="waiting_steps", driver_folder=self.driver_folder(driver), CONTROL="1", REUSE=mode,
                             PATIENCE="0", SIMCUDA_FREE_WAITS=free_waits)
        for step in ("leave " + left, "alloc %d" % MIB, "start"):
            self.assertEqual(program.step(step), 0)
        kept = self.cached(program)
        self.assertTrue(self.ask(program, request)["ok"])
        self.assertEqual(self.cached(program), kept)
        self.assertIn(program.step("alloc %d" % MIB), (0, 2) if b"limit" in request else (0,))
        for step in ("stop", "synchronize"):
            self.assertEqual(program.step(step), 0)
        self.assertEqual((self.cached(program), program.end()), (0, 0))

    def test_requests(self):
        requests = ((b"empty-cache\n", "idle"), (b"limit 2MiB\n", "idle"), (b"limit 2MiB\n", "deferred"))
        for (request, left), driver, free_waits in itertools.product(requests, ("12040", "13000"), ("0", "1")):
            for mode in MODES:
                with self.subTest(request=request, left=left, mode=mode, driver=driver, free_waits=free_waits):
                    self.check(request, left, mode, driver, free_waits)


if __name__ == "__main__":
    unittest.main()
