"""What makes a running program write a snapshot, and what that does to the program."""

import os
import signal
import unittest

from harness import SANITIZED, stats_of
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


class PoorHost(LiveCase):
    """No memory of the host is left when the device's runs out."""

    def out_of_memory(self, blocks, **settings):
        program = self.start(LIMIT="1GiB", **settings)
        self.assertEqual(program.step("alloc 4096 %d" % blocks), 0)
        self.assertEqual(program.step("address 0"), 0)
        self.assertEqual(program.step("alloc %d" % (2048 * MIB)), 2)
        snapshot = self.read(program.written(), schema=blocks < 1000)
        self.assertEqual(snapshot["reason"], "oom")
        self.assertEqual(len(snapshot["segments"]), blocks)
        self.assertEqual(program.end(), 0)
        return snapshot

    @unittest.skipIf(SANITIZED, "a sanitizer needs address space itself")
    def test_the_snapshot_is_written_all_the_same(self):
        snapshot = self.out_of_memory(100, SNAPSHOT_AT="oom")
        self.assertGreater(len(snapshot["events"]["action"]), 200)

    @unittest.skipIf(SANITIZED, "a sanitizer needs address space itself")
    def test_the_newest_events_that_fit(self):
        snapshot = self.out_of_memory(12000, SNAPSHOT_AT="oom")
        self.assertGreater(snapshot["recorded_since_ns"], 0)
        self.assertGreater(snapshot["dropped_events"], 0)
        events = snapshot["events"]
        self.assertEqual(events["actions"][events["action"][-1]], "oom")  # the newest


class Peak(LiveCase):
    def peaks(self, program):
        return sorted(name for name in os.listdir(program.folder) if name.endswith(".peak.json"))

    def test_the_newest_peak_is_kept(self):
        program = self.start(SNAPSHOT_AT="peak", OUTPUT_MAX="1")
        for size in (20, 4, 4):
            program.step("alloc %d" % (size * MIB))
        self.assertEqual(self.peaks(program), [])  # nothing while it grows
        program.step("free")
        (name,) = self.peaks(program)
        first = self.read(os.path.join(program.folder, name))
        self.assertEqual(first["reason"], "peak")
        self.assertEqual(stats_of(first)["allocation"]["current"], 3)  # before the free
        for size in (4, 8):  # 36 MiB: less than another step
            program.step("alloc %d" % (size * MIB))
        program.step("free")
        self.assertEqual(self.peaks(program), [name])
        program.step("alloc %d" % (40 * MIB))
        program.step("free")
        (newer,) = self.peaks(program)
        self.assertNotEqual(newer, name)
        newer = self.read(os.path.join(program.folder, newer))
        self.assertEqual(stats_of(newer)["allocated_bytes"]["current"], stats_of(newer)["allocated_bytes"]["peak"])
        self.assertEqual(program.end(), 0)
        self.assertEqual(len(os.listdir(program.folder)), 1)

    def test_a_file_that_was_moved_or_replaced_stays(self):
        program = self.start(SNAPSHOT_AT="peak")
        program.step("alloc %d" % (20 * MIB))
        program.step("free")
        (name,) = self.peaks(program)
        path = os.path.join(program.folder, name)
        os.rename(path, path + ".mine")
        with open(path, "w") as file:
            file.write("notes")
        program.step("alloc %d" % (60 * MIB))
        program.step("free")
        self.assertEqual(program.end(), 0)
        self.assertEqual(len(self.peaks(program)), 2)
        with open(path) as file:
            self.assertEqual(file.read(), "notes")
        self.read(path + ".mine")

    def test_at_the_end_of_a_program_that_frees_nothing(self):
        program = self.start(SNAPSHOT_AT="peak")
        program.step("alloc %d" % (20 * MIB))
        self.assertEqual(program.end(), 0)
        (name,) = self.peaks(program)
        self.assertEqual(stats_of(self.read(os.path.join(program.folder, name)))["allocation"]["current"], 1)

    def test_a_program_that_grows_by_and_by(self):
        """One file in the end, written a few times, and near to the highest use."""
        program = self.start(SNAPSHOT_AT="peak")
        for _ in range(300):
            program.step("alloc %d" % (2 * MIB))
            program.step("alloc %d" % MIB)
            program.step("free")
        self.assertEqual(program.end(), 0)
        (name,) = self.peaks(program)
        self.assertLess(int(name.split(".")[2]), 30)  # %n: how many were written
        held = stats_of(self.read(os.path.join(program.folder, name)))["allocated_bytes"]["current"]
        self.assertGreater(held, 600 * MIB * 10 // 11 - 2 * MIB)


if __name__ == "__main__":
    unittest.main()
