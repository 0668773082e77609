"""The functions for torch.cuda.memory.CUDAPluggableAllocator, called as PyTorch calls them (test/prog/torch_calls.c)."""

import unittest

from harness import LIBRARY, PreloadCase, stats_of

OPENED = "was loaded but not preloaded"


class Torch(PreloadCase):
    def run_case(self, name, *lines, clean=True, preload=LIBRARY, **settings):
        run = self.run_program("torch_calls", name, *([] if preload else [LIBRARY]), preload=preload, **settings)
        self.assertEqual((run.status, run.out.splitlines()), (0, list(lines)), run.err)
        if clean:
            self.expect_clean(run)
        return run

    def test_streams_that_are_named_are_waited_for(self):
        for settings in ({}, {"TYPE": "segment"}, {"ASYNC": "driver"}, {"DISABLE": "1"}):
            with self.subTest(settings):
                self.run_case("order", "again 1, copy 1 1", **settings)

    def test_it_is_noticed_if_they_are_not(self):
        self.run_case("unnamed", "again 1, copy 2 2", clean=False)

    def test_beside_captures(self):
        run = self.run_case("capture", "again 1")
        self.assertEqual(stats_of(run.snapshot())["allocation"], {"current": 0, "peak": 1, "allocated": 2, "freed": 2})
        run = self.run_case("capture", "again 1", ASYNC="driver")
        self.assertEqual(run.calls()["cuMemFreeAsync"], 2)

    def test_a_free_beside_a_capture_is_made_good_by_reset(self):
        run = self.run_case("reset")
        stats = stats_of(run.snapshot())
        self.assertEqual(stats["allocation"], {"current": 0, "peak": 1, "allocated": 1, "freed": 1})
        self.assertEqual(stats["reserved_bytes"]["current"], 0)  # the cache is empty

    def test_devices(self):
        run = self.run_case("device", "memory of 0, current 1", SIMCUDA_DEVICES="2")
        self.assertEqual(stats_of(run.snapshot(), 0)["allocation"], {"current": 0, "peak": 1, "allocated": 1, "freed": 1})

    def test_a_device_that_is_hard_to_leave(self):
        pops = self.run_case("device", "memory of 0, current 1", SIMCUDA_DEVICES="2").calls()["cuCtxPopCurrent_v2"]
        for n in range(1, pops + 1):
            self.run_case("device", "memory of 0, current 1", SIMCUDA_DEVICES="2", SIMCUDA_FAIL="cuCtxPopCurrent_v2:999@%d" % n)

    def test_a_device_that_cannot_be_entered(self):
        """No reference to its context stays behind."""
        plain = self.run_program("torch_calls", "device", SIMCUDA_DEVICES="2")
        run = self.run_program("torch_calls", "device", SIMCUDA_DEVICES="2", SIMCUDA_FAIL="cuCtxPushCurrent_v2:999@1")
        calls = [{name: run.calls()["cuDevicePrimaryCtx" + name] for name in ("Retain", "Release_v2")}
                 for run in (plain, run)]
        self.assertEqual(calls[0]["Retain"] - calls[0]["Release_v2"], calls[1]["Retain"] - calls[1]["Release_v2"], calls)

    def test_rest(self):
        self.run_case("rest", "base 1, of the size 1", "unknown 1", "nothing 1", "total 512 MiB", "too much 1", "total 1024 MiB", SIMCUDA_CAPACITY="1GiB")

    def test_without_a_preload(self):
        """The driver's own pool serves, in the same order, and the library's does not begin."""
        run = self.run_case("order", "again 1, copy 1 1", preload=None)
        self.assertEqual([OPENED in line for line in run.messages], [True], run.err)
        self.assertEqual((run.calls()["cuMemAllocAsync"], run.calls()["cuMemFreeAsync"]), (2, 2))
        self.run_case("capture", "again 1", preload=None)


if __name__ == "__main__":
    unittest.main()
