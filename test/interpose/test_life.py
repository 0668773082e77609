"""How processes and threads come and go under the library: as without it, and each leaves its own snapshot, complete."""

import json
import os
import re
import sys
import unittest

from harness import LIBRARY, PreloadCase, SANITIZED, programs, stats_of

BYTES = 2 << 20
USES = 2   # allocations that life's use() makes: one lives on, one is freed
SHELL = ("/bin/bash", "-c", '"$@"; exit $?', "bash")  # turns the end by a signal into a status

# case of life -> uses in the process that leaves the exit snapshot, by process: the first is the parent's
SNAPSHOTS = {
    "plain": [1],
    "fork_before": [1, 1],
    "fork_exit": [2], "fork_now": [2], "fork_twice": [1], "clone_exit": [2], "clone_quiet": [2], "vfork_now": [2],
    "fork_exec": [2, 1], "spawn": [2, 1], "vfork_exec": [2, 1],
    "signal_exits": [1], "exit_in_thread": [1], "main_leaves_first": [1], "main_leaves_last": [1], "quick_exit_frees": [1],
    "signals_untouched": [1], "smallest_stack": [0],
    # no handler of the C library runs: nothing is written
    "signal_default": [], "signal_at_exit": [], "abort_now": [],
}
if SANITIZED:
    del SNAPSHOTS["smallest_stack"]  # what a sanitizer adds to each frame does not fit
OTHERS = {"fork_beside_threads", "fork_during_start", "crowd", "parade", "small_stack", "small_stack_starts", "reset_and_go_on"}
DRIVERS = ("11040", "12040", "13000")


class Life(PreloadCase):
    def run_both(self, program, *args, **settings):
        """The program without and with the library, which must not differ in status or output."""
        plain = self.run_program(program, *args, preload=None, timeout=120, prefix=SHELL,
                                 **{k: v for k, v in settings.items() if k.startswith("SIMCUDA_")})
        run = self.run_program(program, *args, timeout=120, prefix=SHELL, **settings)
        self.assertEqual((run.status, run.out), (plain.status, plain.out), run.err[-2000:])
        if plain.sim:
            self.expect_clean(run)
        return plain, run

    def exit_snapshots(self, run):
        """By process, oldest first."""
        found = []
        for path in run.snapshot_paths("exit"):
            with open(path) as file:
                snapshot = json.load(file)
            self.expect_valid(snapshot)
            self.assertEqual(int(os.path.basename(path).split(".")[1]), snapshot["process"]["pid"])
            found.append(snapshot)
        return sorted(found, key=lambda snapshot: snapshot["process"]["start_time_us"])

    def expect_nothing_else(self, run):
        """No file beside snapshots and the simulator's, above all no half of one."""
        names = [name for name in os.listdir(run.folder)
                 if not re.fullmatch(r"snapshot\.\d+\.\d+\.(exit|oom)\.json|sim[.\d]*\.json", name)]
        self.assertEqual(names, [])

    def test_all_cases_are_here(self):
        cases = set(self.run_program("life", preload=None).out.split())
        self.assertEqual(cases - {"smallest_stack"}, (set(SNAPSHOTS) | OTHERS) - {"smallest_stack"})

    def test_each_process_leaves_its_own_snapshot(self):
        for case, uses in SNAPSHOTS.items():
            for driver in DRIVERS:
                with self.subTest(case=case, driver=driver):
                    _, run = self.run_both("life", case, SIMCUDA_DRIVER=driver)
                    snapshots = self.exit_snapshots(run)
                    self.assertEqual(len(snapshots), len(uses), run.err)
                    for snapshot, count in zip(snapshots, uses):
                        stats = stats_of(snapshot)
                        self.assertGreaterEqual(stats["allocation"]["allocated"], count * USES)
                        live = [b["requested_size"] for s in snapshot["segments"] for b in s["blocks"]
                                if b["state"] == "active_allocated"]
                        # quick_exit: a handler from before the first CUDA call runs after ours
                        self.assertEqual(live, count * [BYTES])
                    self.expect_nothing_else(run)

    def test_child_without_handlers_gets_no_memory_of_its_parent(self):
        """A child of clone(): the pool holds what the parent freed, and would hand it out without asking the driver."""
        calls = {}
        for preload in (None, LIBRARY):
            run = self.run_program("life", "clone_exit", preload=preload, prefix=SHELL, timeout=60, STATS="1",
                                   SIMCUDA_STATS="sim.%p.json")
            for name in sorted(name for name in os.listdir(run.folder) if name.startswith("sim.")):
                with open(os.path.join(run.folder, name)) as file:
                    calls.setdefault(preload, []).append(json.load(file)["calls"])
        plain, ours = ({(c["cuMemAlloc_v2"], c.get("cuMemFree_v2", 0)) for c in calls[preload]} for preload in calls)
        # Allocations and frees, the parent's before the clone included: two and one, of which the pool keeps the free.
        self.assertEqual(plain, {(2 + 1, 1 + 1), (2 + 2, 1 + 1)}, "child, parent")
        self.assertEqual(ours, {(2 + 1, 0 + 1), (2 + 1, 0 + 0)}, "child: all it does; parent: what the pool lacks")
        self.assertEqual(len([line for line in run.messages if "device 0" in line]), 4, "the child has nothing to report")

    def test_child_without_handlers_says_nothing(self):
        run = self.run_program("life", "clone_quiet", prefix=SHELL, timeout=60, STATS="1")
        self.assertEqual(len([line for line in run.messages if "device 0" in line]), 4, run.err)

    def test_fork_beside_threads_that_allocate(self):
        """The locks of the pool are whole in the child, whatever the other threads are at."""
        for round_ in range(3):
            _, run = self.run_both("life", "fork_beside_threads", SIMCUDA_SEED=str(round_ + 1))
            self.assertEqual(len(run.snapshot_paths("exit")), 1)
            self.expect_nothing_else(run)

    def test_fork_beside_stack_captures(self):
        """No child inherits the loader's lock from a thread that captures a stack: it could load nothing."""
        for stacks in ("auto", "native", "fp"):
            with self.subTest(stacks=stacks):
                run = self.run_program("fork_loads", "walks", "10", timeout=120, STACKS=stacks)
                self.assertEqual((run.status, run.out), (0, "stuck: 0\n"), run.err)
                self.assertGreater(int(re.search(r"in walks: (\d+)", run.err)[1]), 0, run.err)

    def test_children_at_any_time(self):
        children = str(len(programs(30)) // 3)
        for stacks in ("auto", "native", "fp"):
            with self.subTest(stacks=stacks):
                run = self.run_program("fork_loads", "children", children, timeout=None, STACKS=stacks)
                self.assertEqual((run.status, run.out), (0, "stuck: 0\n"), run.err)

    def test_the_report_comes_after_libraries_that_free_at_their_end(self):
        """They were loaded later than this library, but the loader ends them after it."""
        _, run = self.run_both("last", "library", os.environ["GP_LAST_PLUGIN"], STATS="1")
        stats = stats_of(run.snapshot("exit"))
        self.assertEqual((stats["allocation"]["allocated"], stats["allocation"]["current"]), (1, 0), run.err)
        self.assertIn("at exit requested 0 B", run.err)

    def test_threads_that_end_the_process_at_once(self):
        """The first that finds no exit handler left would end it while another writes the snapshot, or, without the
        library, the statistics of the simulated device. More handlers than the C library has room for would be
        in a list that it frees twice, which AddressSanitizer sees in 2 of 100 rounds."""
        for _ in range(60 if SANITIZED else 20):
            _, run = self.run_both("last", "threads", os.environ["GP_LAST_PLUGIN"], SIMCUDA_STATS="")
            self.assertEqual(stats_of(run.snapshot("exit"))["allocation"]["allocated"], 501)
            self.expect_nothing_else(run)

    def test_fork_while_the_library_starts(self):
        """The start waits with its lock held, to write a message to a pipe that is full. The child must not."""
        plain = self.run_program("life", "fork_during_start", preload=None, timeout=60)
        run = self.run_program("life", "fork_during_start", "full", timeout=60, VERBOSE="1")
        self.assertEqual((run.status, run.out), (plain.status, plain.out))
        self.assertEqual(len(run.snapshot_paths("exit")), 1)

    def test_a_thousand_threads_at_once(self):
        plain = self.run_program("life", "crowd", preload=None, prefix=SHELL, timeout=120)
        if plain.status == 77:
            self.skipTest(plain.out)
        for settings in ({}, {"TYPE": "naive"}, {"TYPE": "unpooled"}):
            with self.subTest(**settings):
                _, run = self.run_both("life", "crowd", **settings)
                snapshot, = self.exit_snapshots(run)
                self.assertEqual(stats_of(snapshot)["allocation"]["allocated"], 3 * 1000 + USES)
                self.assertEqual(stats_of(snapshot)["allocation"]["current"], 1)

    def test_threads_that_end(self):
        """Their events stay, and what their own destructors free is seen."""
        _, run = self.run_both("life", "parade", TRACE_EVENTS="4096")
        snapshot, = self.exit_snapshots(run)
        self.assertEqual(stats_of(snapshot)["allocation"]["allocated"], 4 * 100 + USES)
        self.assertEqual(stats_of(snapshot)["allocation"]["current"], 1)
        self.assertGreaterEqual(len(snapshot["threads"]), 100)

    def test_small_stacks(self):
        """The library may be called first, and run out of memory with a snapshot, where there are 16 KiB in all."""
        used = {}
        for name, settings in (("plain", {"preload": None}), ("pool", {"LOG": "log.txt", "VERBOSE": "1"}),
                               ("quiet", {}), ("unpooled", {"TYPE": "unpooled", "LIMIT": "50%"})):
            run = self.run_program("life", "small_stack", timeout=60, **settings)
            self.assertEqual(run.status, 0)
            used[name] = int(re.search(r"stack used: (\d+)", run.err).group(1))
            self.assertEqual(len(run.snapshot_paths("oom")), name != "plain")
        for name, size in used.items():
            self.expect_room(size - used["plain"], 3712, used)

    def test_the_start_needs_little_stack(self):
        used = {}
        for name, settings in (("plain", {"preload": None}), ("pool", {"LOG": "log.txt", "VERBOSE": "2"})):
            run = self.run_program("life", "small_stack_starts", timeout=60, **settings)
            self.assertEqual(run.status, 0)
            used[name] = int(re.search(r"stack used: (\d+)", run.err).group(1))
        # Most of it is the loader's, which opens the unwinder.
        self.expect_room(used["pool"] - used["plain"], 3072, used)

    def expect_room(self, size, most, used):
        """A sanitizer's frames are larger, the more so the less the library is optimized."""
        self.assertLess(size, 2 * most if SANITIZED else most, used)

    def test_signals_are_left_alone(self):
        _, run = self.run_both("life", "signals_untouched")
        self.assertIn("the mask is the same", run.out)
        self.assertEqual(len(run.snapshot_paths("oom")), 1)

    def test_after_a_reset(self):
        for settings in ({}, {"TYPE": "naive"}, {"REUSE": "strict"}, {"MAX_DEFERRED": "0"}):
            for driver in DRIVERS:
                with self.subTest(driver=driver, **settings):
                    plain, run = self.run_both("life", "reset_and_go_on", SIMCUDA_DRIVER=driver, **settings)
                    snapshot, = self.exit_snapshots(run)
                    stats = stats_of(snapshot)
                    self.assertEqual(stats["allocation"]["current"], 1)
                    self.assertEqual(stats["cache_hits"], 0, "memory from before a reset")
                    self.assertEqual(run.sim["current_bytes"][0] - stats["cached_bytes"]["current"],
                                     plain.sim["current_bytes"][0])

    def test_exits(self):
        for way, live in (("normal", 1), ("leak", 4), ("_exit", None), ("quick_exit", 4), ("thread", None),
                          ("abort", None)):
            with self.subTest(way=way):
                _, run = self.run_both("exits", way)
                snapshots = self.exit_snapshots(run)
                self.assertEqual(len(snapshots), 0 if way in ("_exit", "abort") else 1)
                if live is not None:
                    self.assertEqual(stats_of(snapshots[0])["allocation"]["current"], live)
                self.assertEqual(run.messages, [])
                self.expect_nothing_else(run)

    def test_the_librarys_threads_do_not_keep_the_process(self):
        """The C library ends a process with its last thread, and counts the library's threads."""
        for case in ("main_leaves_first", "main_leaves_last", "signal_at_exit", "exit_in_thread"):
            for settings in ({"CONTROL": "1"}, {"SNAPSHOT_AT": "signal:USR1,exit"},
                             {"CONTROL": "1", "SNAPSHOT_AT": "signal:TERM,signal:USR1,exit"}):
                if case == "signal_at_exit" and "TERM" in str(settings):
                    continue  # the signal writes a snapshot
                with self.subTest(case=case, **settings):
                    _, run = self.run_both("life", case, **settings)
                    snapshots = self.exit_snapshots(run)
                    self.assertEqual(len(snapshots), len(SNAPSHOTS[case]))
                    for snapshot in snapshots:
                        self.assertEqual(stats_of(snapshot)["allocation"]["current"], 1)
                    self.expect_nothing_else(run)

    def test_driver_is_closed(self):
        """dlclose() of the driver: our pointers into it stay good, and memory of an ended context is not handed out."""
        for driver in DRIVERS:
            with self.subTest(driver=driver):
                _, run = self.run_both("dlclose", SIMCUDA_DRIVER=driver)
                snapshot, = self.exit_snapshots(run)
                stats = stats_of(snapshot)
                self.assertEqual((stats["cache_misses"], stats["cache_hits"]), (6, 6))
                self.assertEqual(stats["reserved_bytes"]["current"], 0)

    def test_messages_to_a_pipe_without_a_reader(self):
        """A message of the library's raises no SIGPIPE that the program would not have had."""
        deaf = (sys.executable, "-c", "import os, signal, sys; signal.signal(signal.SIGPIPE, signal.SIG_DFL);"
                "r, w = os.pipe(); os.close(r); os.dup2(w, 2); os.execv(sys.argv[1], sys.argv[1:])")
        plain = self.run_program("life", "plain", preload=None, prefix=deaf)
        run = self.run_program("life", "plain", prefix=deaf, STATS="1", VERBOSE="2")
        self.assertEqual((run.status, run.out), (plain.status, plain.out))
        self.assertEqual(len(run.snapshot_paths("exit")), 1)

    def test_no_driver_call_at_exit(self):
        """The last call that the driver sees is the program's."""
        for case in ("plain", "quick_exit_frees", "signal_exits"):
            with self.subTest(case=case):
                run = self.run_program("life", case, log=True, prefix=SHELL, STATS="1")
                with open(run.log) as file:
                    calls = [line.split()[0] for line in file]
                own = ("cuCtxGetCurrent", "cuCtxGetId", "cuCtxGetDevice")
                last = [name for name in calls if name not in own][-1]
                self.assertEqual(last, "cuCtxSynchronize", calls[-5:])


if __name__ == "__main__":
    unittest.main()
