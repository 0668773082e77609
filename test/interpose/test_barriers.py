"""Drivers before 12.5 in `context`: the program's operations in the default stream tell what a context has completed, with
the oracle of the simulated driver, which notices memory that is used again too early."""

import unittest

from harness import PreloadCase, stats_of

ROUNDS = 40
STREAMS = ("own", "blocking", "free", "gone")
NONE = ("copy_own", "copy_later_own", "copy_pinned", "event_own", "event_handle", "refused", "none")


class Barriers(PreloadCase):
    def again(self, operation, stream, driver="12040", **settings):
        """In how many rounds memory was used again at once. The pool asks streams for a hundredth of the time that
        passes: where the system's clock counts, a thread that the system stops within such a question has spent it all."""
        run = self.run_program("barriers", operation, stream, str(ROUNDS), driver=driver, virtual_clock=True,
                               SIMCUDA_ORACLE="1", **settings)
        self.assertEqual(run.status, 0, run.out + run.err)
        self.expect_clean(run)
        self.assertRegex(run.out, r"^barriers: %s %s: \d+ of %d again at once, 0 too early\n$" % (operation, stream, ROUNDS))
        return int(run.out.split()[3]), run

    def test_a_copy_to_the_host_tells_of_all_blocking_streams(self):
        for stream in ("own", "blocking"):
            with self.subTest(stream=stream):
                self.assertEqual(self.again("copy", stream)[0], ROUNDS)

    def test_other_streams_are_asked(self):
        """Too early is what would be wrong; whether it is in time is the device's affair."""
        for operation in ("copy", "copy_later", "event"):
            for stream in STREAMS:
                with self.subTest(operation=operation, stream=stream):
                    self.again(operation, stream)

    def test_what_is_no_operation_of_the_default_stream_tells_nothing(self):
        for operation in NONE:
            for stream in STREAMS:
                with self.subTest(operation=operation, stream=stream):
                    again, run = self.again(operation, stream)
                    self.assertEqual(again, 0)
                    self.assertEqual(stats_of(run.snapshot())["fences"], 0)

    def test_newer_drivers_are_asked_about_the_context(self):
        _, run = self.again("copy", "own", driver="13000")
        self.assertGreater(run.calls()["cuCtxRecordEvent"], 0)
        self.assertEqual(run.calls().get("cuStreamQuery", 0), 0)


if __name__ == "__main__":
    unittest.main()
