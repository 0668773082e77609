"""Pitched memory is pooled where the driver's own answers give the pitch, and is what it is without the library."""

import unittest

from harness import PreloadCase, count_actions, stats_of

SHAPES = ("1000x100", "1x1", "512x64/8", "513x64/16", "2d:1000x100", "3d:300x20x5", "70000x40")
REFUSED = ("0x5", "5x0", "100x100/3", "18446744073709551615x2", "4096x18446744073709551615", "1000000000x1000")
CALL = "cuMemAllocPitch_v2"


class Pitched(PreloadCase):
    def run_pitched(self, *commands, **settings):
        """With the library; the program must print what it prints without it."""
        sim = {key: value for key, value in settings.items() if key.startswith("SIMCUDA_")}
        plain = self.run_program("pitched", *commands, preload=None, **sim)
        run = self.run_program("pitched", *commands, **settings)
        self.assertEqual((plain.status, plain.err), (0, ""), plain.out)
        self.assertEqual((run.status, run.out), (plain.status, plain.out), run.err)
        self.expect_clean(run)
        run.plain_calls = plain.calls()
        return run

    def expect_driver_calls(self, count, *commands, **settings):
        run = self.run_pitched(*commands, **settings)
        self.assertEqual(run.calls()[CALL], count, commands[:9])
        return run

    def test_all_shapes_are_as_without_the_library(self):
        commands = (SHAPES + REFUSED) * 2 + ("free",) + (SHAPES + REFUSED) * 2 + ("reset",) + SHAPES * 2
        run = self.run_pitched(*commands)
        self.assertLess(run.calls()[CALL], run.plain_calls[CALL])
        self.expect_valid(run.snapshot())

    def test_the_second_of_a_shape_is_pooled(self):
        run = self.expect_driver_calls(1, "1000x100", "1000x100", "free", "1000x100", "plain:102400", "free")
        snapshot = run.snapshot()
        self.expect_valid(snapshot)
        self.assertEqual(count_actions(snapshot)["alloc"], 3)
        self.assertEqual(count_actions(snapshot)["passthrough_alloc"], 1)
        self.assertEqual(stats_of(snapshot)["cache_hits"], 1)
        self.assertEqual(stats_of(snapshot)["passthrough_bytes"]["peak"], 100 * 1024)
        self.assertEqual(stats_of(snapshot)["requested_bytes"]["peak"], 2 * 100 * 1024)

    def test_rows_between_two_that_are_known(self):
        self.expect_driver_calls(2, "1000x100", "1000x300", "1000x100", "1000x200", "1000x299", "1000x300")
        self.expect_driver_calls(3, "1000x100", "1000x300", "1000x99", "1000x99")
        self.expect_driver_calls(3, "1000x100", "1000x300", "1000x301", "1000x301")

    def test_each_width_and_element_is_learnt(self):
        self.expect_driver_calls(4, "1000x9", "1001x9", "1000x9/8", "1000x9/16", "1000x9", "1001x9", "1000x9/8",
                                 "1000x9/16")

    def test_a_pitch_that_depends_on_the_rows(self):
        """The driver is asked every time from then on, until the context ends."""
        tall = {"SIMCUDA_PITCH_ROWS": "200"}
        self.expect_driver_calls(6, "1000x100", "1000x300", "1000x100", "1000x150", "1000x300", "1000x400", **tall)
        self.expect_driver_calls(3, "1000x100", "1000x300", "2000x100", "2000x100", **tall)
        self.expect_driver_calls(3, "1000x100", "1000x300", "reset", "1000x100", "1000x100", **tall)

    def test_each_device_is_asked(self):
        self.expect_driver_calls(2, "1000x100", "device:1", "1000x100", "1000x100", "device:0", "1000x100",
                                 SIMCUDA_DEVICES="2")

    def test_what_was_learnt_ends_with_the_context(self):
        self.expect_driver_calls(2, "1000x100", "1000x100", "reset", "1000x100", "1000x100")

    def test_a_width_is_learnt_again_when_there_were_many(self):
        widths = tuple("%dx2" % width for width in range(1, 2000))
        self.expect_driver_calls(2001, "5000x2", *widths, "5000x2", "free", SIMCUDA_PITCH_ROWS="1000")

    def test_one_that_varies_is_never_forgotten(self):
        widths = tuple("%dx2" % width for width in range(1, 2000))
        varies = ("5000x1", "5000x2")
        run = self.run_pitched(*varies, *widths, "free", "5000x1", "5000x1", SIMCUDA_PITCH_ROWS="1")
        self.assertEqual(run.calls()[CALL], len(varies) + len(widths) + 2)

    def test_those_that_vary_make_room_when_their_context_ends(self):
        varying = [shape for width in range(1, 2000) for shape in ("%dx1" % width, "%dx2" % width)]
        run = self.run_pitched(*varying[:2000], "free", *varying[2000:], "free", "5000x1", "5000x1", "reset", "5000x1",
                               "5000x1", SIMCUDA_PITCH_ROWS="1")
        self.assertEqual(run.calls()[CALL], len(varying) + 3)

    def test_a_capture_and_what_pools_nothing_ask_the_driver(self):
        self.expect_driver_calls(4, "1000x100", "1000x100", "capture", "1000x100", "1000x100", "end", "1000x100",
                                 "1000x100/8")
        self.expect_driver_calls(3, "1000x100", "1000x100", "1000x100", TYPE="unpooled")

    def test_the_limit_and_the_device_end_it_alike(self):
        shape = "1000000x10"  # rows take 1000448
        run = self.run_pitched(shape, "free", *[shape] * 5, SIMCUDA_CAPACITY="32MiB", RESERVE="0")
        self.assertEqual(run.out.count(": 2,"), 2, run.out)
        limited = self.run_program("pitched", shape, "free", *[shape] * 5, LIMIT="32MiB")
        self.assertEqual(limited.out, run.out)

    def test_the_cache_serves_plain_and_pitched_alike(self):
        run = self.run_pitched("1000x1024", "1000x1024", "free", "plain:1048576", "free", "1000x1024", "free")
        self.assertEqual(run.calls()["cuMemAlloc_v2"], 1)
        self.assertEqual(stats_of(run.snapshot())["cache_hits"], 2)


if __name__ == "__main__":
    unittest.main()
