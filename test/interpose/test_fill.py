"""GPUPOOL_FILL under a whole program: what its memory holds when it gets it."""

import re
import unittest

from harness import ASYNC_MODES, PreloadCase

KINDS = ("round", "naive", "segment", "vmm", "unpooled")
DRIVERS = ("11020", "12040", "13000")
FILLS = {"zero": "zeros", "poison": "ones"}


class Fill(PreloadCase):
    def run_filled(self, scenario, **settings):
        run = self.run_program("filled", scenario, timeout=60, virtual_clock=True, SIMCUDA_DEVICES="2", RESERVE="0", **settings)
        self.assertEqual((run.status, run.out.splitlines()[-1]), (0, "end"), run.out + run.err)
        self.expect_clean(run)
        return run

    @staticmethod
    def counts(run):
        """{what: {"zeros": n, ...}}, without those that are 0"""
        return {what: {name: int(count) for name, count in re.findall(r"(\w+)=(\d+)", rest) if count != "0"}
                for what, rest in re.findall(r"^(.*): (zeros=.*)$", run.out, re.M)}

    def expect_all(self, run, fill, expected):
        self.assertEqual(self.counts(run), {what: {FILLS[fill]: count} for what, count in expected.items()}, run.err)

    def settings(self):
        """Each fill with each type and driver."""
        for i, kind in enumerate(KINDS):
            for j, driver in enumerate(DRIVERS):
                if kind not in ("segment", "vmm") or int(driver) >= 12050:
                    yield ("zero", "poison")[(i + j) % 2], kind, driver

    def test_without_a_fill_memory_is_as_it_was_left(self):
        for fill in ({}, {"FILL": "off"}):
            run = self.run_filled("memory", **fill)
            self.assertGreater(self.counts(run)["cuMemAlloc"]["others"], 0)
            self.assertEqual(run.messages, [])

    def test_memory_of_malloc(self):
        for fill, kind, driver in self.settings():
            with self.subTest(fill=fill, type=kind, driver=driver):
                run = self.run_filled("memory", driver=driver, TYPE=kind, FILL=fill)
                self.expect_all(run, fill, {"cuMemAlloc": 15})
                self.assertEqual(run.messages, [])
                snapshot = run.snapshot()
                self.expect_valid(snapshot)
                self.assertEqual(snapshot["settings"]["fill"], fill)

    def test_rows(self):
        for kind in KINDS[:4]:
            with self.subTest(type=kind):
                self.expect_all(self.run_filled("rows", TYPE=kind, FILL="poison"), "poison", {"cuMemAllocPitch": 2})

    def test_every_mode(self):
        for mode in ("context", "strict"):
            for driver in DRIVERS:
                with self.subTest(mode=mode, driver=driver):
                    self.expect_all(self.run_filled("memory", driver=driver, REUSE=mode, FILL="zero"), "zero", {"cuMemAlloc": 15})

    def test_memory_in_the_order_of_streams(self):
        for mode in ASYNC_MODES:
            if mode.get("ASYNC") == "driver":
                continue  # it is not the pool's
            for driver in DRIVERS:
                for fill, reuse in zip(FILLS, ("context", "strict")):
                    with self.subTest(fill=fill, driver=driver, reuse=reuse, **mode):
                        run = self.run_filled("streams", driver=driver, FILL=fill, REUSE=reuse, **mode)
                        self.expect_all(run, fill, {name: 15 for name in ("non-blocking", "blocking", "legacy", "per-thread")})
                        self.assertEqual(run.messages, [])

    def test_other_devices_and_contexts(self):
        for fill in FILLS:
            for driver in DRIVERS:
                with self.subTest(fill=fill, driver=driver):
                    self.expect_all(self.run_filled("devices", driver=driver, FILL=fill), fill, {"elsewhere": 9})

    def test_many_threads(self):
        for kind in KINDS:
            with self.subTest(type=kind):
                self.expect_all(self.run_filled("threads", TYPE=kind, FILL="poison"), "poison", {"threads": 200})

    def test_the_driver_refuses(self):
        """The program has its memory all the same; a question that fails is asked again."""
        for call, filled in (("cuMemsetD8Async:1@1", 14), ("cuStreamCreate:2@4", 14), ("cuStreamQuery:1@1", 15)):
            with self.subTest(call=call):
                run = self.run_filled("memory", FILL="poison", SIMCUDA_FAIL=call)
                self.assertEqual(self.counts(run)["cuMemAlloc"]["ones"], filled)
                self.assertEqual(["the driver refused to fill it" in line for line in run.messages], [True] * (15 - filled), run.err)

    def test_beside_a_capture_nothing_is_filled_and_that_is_said(self):
        for driver in DRIVERS:
            with self.subTest(driver=driver):
                run = self.run_filled("capture", driver=driver, FILL="poison")
                self.expect_all(run, "poison", {"behind a capture": 1})
                self.assertEqual(len(run.messages), 1, run.err)
                self.assertIn("not filled: the library makes no driver calls", run.messages[0])

    def test_a_kernel_that_occupies_the_device_holds_nothing_up_for_ever(self):
        for fill, kind, driver in self.settings():
            with self.subTest(fill=fill, type=kind, driver=driver):
                run = self.run_filled("occupied", driver=driver, TYPE=kind, FILL=fill, SIMCUDA_OCCUPIED="1")
                self.assertEqual(self.counts(run), {"what was written": {"others": 2}, "afterwards": {FILLS[fill]: 3}})
                self.assertEqual(len(run.messages), 1, run.err)
                self.assertIn("not filled: the fill was not complete after 10 s", run.messages[0])
                self.assertIn("seconds: 10\n", run.out)

    def test_beside_a_kernel_that_leaves_room_memory_is_filled(self):
        for driver in DRIVERS:
            with self.subTest(driver=driver):
                run = self.run_filled("beside", driver=driver, FILL="poison")
                self.expect_all(run, "poison", {"beside": 5})
                self.assertEqual(run.messages, [])
                self.assertIn("seconds: 0\n", run.out)

    def test_programs_behave_as_without_the_library(self):
        for name in ("driver_linked", "per_thread", "errors", "capture", "contexts", "fork", "two_contexts", "freed"):
            plain = self.run_program(name, preload=None)
            # The first takes much memory; freed asks for the bounds of the driver's allocation
            for kind in {"driver_linked": KINDS[:1], "freed": KINDS[:2]}.get(name, KINDS[::2]):
                with self.subTest(program=name, type=kind):
                    run = self.run_program(name, TYPE=kind, FILL="poison")
                    self.assertEqual((run.status, run.out), (plain.status, plain.out))
                    self.expect_clean(run)
                    self.expect_valid(run.snapshot("exit"))


if __name__ == "__main__":
    unittest.main()
