"""What makes a running program write a snapshot, and what that does to the program."""

import os
import signal
import unittest

from harness import stats_of
from live_program import LiveCase

MIB = 1 << 20


class Signal(LiveCase):
    def test_a_signal_writes_a_snapshot(self):
        program = self.start(SNAPSHOT_AT="signal:USR1")
        self.assertEqual(program.step("alloc %d" % MIB), 0)
        program.signal()
        first = self.read(program.written())
        self.assertEqual(first["reason"], "signal")
        self.assertEqual(stats_of(first)["allocation"]["current"], 1)
        self.assertEqual(program.step("alloc %d" % MIB), 0)
        program.signal()
        second = self.read(program.written())
        self.assertEqual(stats_of(second)["allocation"]["current"], 2)
        self.assertEqual(program.end(), 0)  # it does not end the program
        self.assertEqual(len(os.listdir(program.folder)), 2)

    def test_signals_of_the_real_time_range_and_several(self):
        program = self.start(SNAPSHOT_AT="signal:TERM,signal:SIGRTMIN+3")
        program.step("alloc 1")
        for number in (signal.SIGTERM, signal.SIGRTMIN + 3):
            program.signal(number)
            self.assertIn(".signal.json", program.written())
        self.assertEqual(program.end(), 0)

    def test_nothing_before_the_first_memory(self):
        """No handler, no thread: the signal does what it does without the library."""
        program = self.start(SNAPSHOT_AT="signal:USR1")
        self.assertEqual(program.step("synchronize"), 0)
        self.assertEqual(len(os.listdir("/proc/%d/task" % program.pid)), 1)
        program.signal()
        self.assertEqual(program.end(), -signal.SIGUSR1)
        self.assertEqual(os.listdir(program.folder), [])

    def test_no_thread_without_a_signal(self):
        program = self.start(SNAPSHOT_AT="exit")
        program.step("alloc 1")
        self.assertEqual(len(os.listdir("/proc/%d/task" % program.pid)), 1)
        self.assertEqual(program.end(), 0)

    def test_the_programs_handler_is_called_too(self):
        for name, times in (("plain", 2), ("siginfo", 2), ("once", 1)):
            with self.subTest(handler=name):
                program = self.start(SNAPSHOT_AT="signal:USR1")
                program.step("handle " + name)
                program.step("alloc 1")
                for _ in range(2):
                    program.signal()
                    program.written()
                self.assertEqual(program.step("handled"), times)
                self.assertEqual(program.end(), 0)
                self.assertIn("SIGUSR1 writes a snapshot, and calls the program's handler", program.err)

    def test_a_handler_that_comes_later_has_the_signal(self):
        program = self.start(SNAPSHOT_AT="signal:USR1,exit")
        program.step("alloc 1")
        program.step("handle plain")
        program.signal()
        self.assertEqual(program.step("handled"), 1)
        self.assertEqual(program.end(), 0)
        self.assertEqual([name.split(".")[3] for name in os.listdir(program.folder)], ["exit"])

    def test_an_ignored_signal_writes_a_snapshot(self):
        program = self.start(SNAPSHOT_AT="signal:USR1")
        program.step("handle ignore")
        program.step("alloc 1")
        program.signal()
        self.read(program.written())
        self.assertEqual(program.end(), 0)

    def test_a_child_writes_nothing(self):
        program = self.start(SNAPSHOT_AT="signal:USR1,exit")
        program.step("alloc 1")
        self.assertEqual(program.step("fork"), 0)
        self.assertEqual(program.step("vfork"), 0)
        self.assertEqual(program.end(), 0)
        self.assertEqual([name.split(".")[3] for name in os.listdir(program.folder)], ["exit"])

    def test_a_program_that_closes_files_it_does_not_know(self):
        program = self.start(SNAPSHOT_AT="signal:USR1")
        program.step("alloc 1")
        self.assertGreater(program.step("close"), 50)
        program.signal()
        self.read(program.written())
        self.assertEqual(program.end(), 0)

    def test_the_end_waits_for_the_snapshot(self):
        """However the two meet, there is no half of a file."""
        for _ in range(20):
            program = self.start(SNAPSHOT_AT="signal:USR1,exit")
            program.step("alloc 1")
            program.signal()
            self.assertEqual(program.end(), 0)
            for name in os.listdir(program.folder):
                self.read(os.path.join(program.folder, name))

    def test_not_more_files_than_are_wanted(self):
        program = self.start(SNAPSHOT_AT="signal:USR1", OUTPUT_MAX="2")
        program.step("alloc 1")
        for _ in range(2):
            program.signal()
            program.written()
        program.signal()
        program.message("GPUPOOL_OUTPUT_MAX")
        self.assertEqual(program.end(), 0)
        self.assertEqual(len(os.listdir(program.folder)), 2)

    def test_signals_that_cannot_be_had(self):
        program = self.start(SNAPSHOT_AT="exit,signal:KILL")
        program.step("alloc 1")
        self.assertEqual(program.end(), 0)
        self.assertIn("GPUPOOL_SNAPSHOT_AT=exit,signal:KILL is malformed", program.err)
        self.assertIn("KILL and STOP cannot be caught", program.err)


if __name__ == "__main__":
    unittest.main()
