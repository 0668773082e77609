"""gpupool replay on the recordings of programs that ran under the library, and on the traces that they performed: it gives
the figures that they had."""

import glob
import json
import os
import re
import subprocess
import unittest

from harness import EMULATOR, WORKLOADS, PreloadCase, choices_of, stats_of, trace_files, trace_shapes

TOOL = os.environ.get("GP_TOOL")
COUNTERS = ("cache_hits", "cache_misses", "driver_allocs", "driver_frees")
NEAR = 0.03
PEAKS = (("reserved_bytes", "reserved_peak"), ("requested_bytes", "live_peak"))


@unittest.skipIf(not TOOL or EMULATOR, "the tool is not built, or not for this machine")
class ReplayTool(PreloadCase):
    def figures(self, path, *arguments):
        result = subprocess.run([TOOL, "replay", "--json", path, *arguments], check=True, stdout=subprocess.PIPE,
                                universal_newlines=True)
        recording, = json.loads(result.stdout)["recordings"]
        self.assertFalse(recording["partial"])
        return {result["type"]: result["cold"]["devices"][0] for result in recording["results"]}

    def expect_same(self, path, *arguments, near=False, **settings):
        """What the program's pool did, and what the replay of its recording does. near: the pool asked fences, too, and what
        these told is in the recording only as far as an operation followed."""
        run = self.run_program("replay", path, *arguments, virtual_clock=True, TRACE_EVENTS="1000000", **settings)
        stats = stats_of(run.snapshot())
        figures, = self.figures(run.snapshot_paths("exit")[0]).values()
        recorded = {name: stats[name] for name in COUNTERS}
        recorded.update((figure, stats[name]["peak"]) for name, figure in PEAKS)
        # What the cache may not keep the program's pool looks for among the deferred blocks, too: no event tells.
        deferred, off = stats["deferred_bytes"]["peak"], 0.05 if "MAX_CACHED" in settings else 0.02 if near else 0
        self.assertLess(abs(figures["deferred_peak"] - deferred), off * deferred + 1)
        few = 0.01 * stats["allocation"]["allocated"]
        if near:
            self.assertLess(abs(figures["live_peak"] - recorded["live_peak"]),
                            0.01 * recorded["live_peak"] if stats["num_ooms"] else 1)
            self.assertLess(abs(figures["cache_hits"] - recorded["cache_hits"]), few)
            self.assertLess(abs(figures["reserved_peak"] - recorded["reserved_peak"]), 0.03 * recorded["reserved_peak"] + 1)
        else:
            self.assertEqual({name: figures[name] for name in recorded}, recorded)
        self.assertLess(figures["refused"] + figures["granted"], few if stats["num_ooms"] else 1)
        return stats

    def test_every_trace_and_type(self):
        for path in trace_files():
            for kind in choices_of("TYPE"):
                with self.subTest(trace=os.path.basename(path), type=kind):
                    # The budget gives memory back in synchronizations, too, of which a recording has only those
                    # that tell something of freed memory.
                    self.expect_same(path, "--sync-every", "1", TYPE=kind, SLACK="none")

    def test_a_device_that_is_behind(self):
        for path in trace_shapes():
            for kind in choices_of("TYPE"):
                with self.subTest(trace=os.path.basename(path), type=kind):
                    self.expect_same(path, "--sync-every", "64", near=True, TYPE=kind)

    def test_other_settings(self):
        path = trace_files()[0]
        for arguments, settings in ((["--repeat", "2"], {}), ([], {"REUSE": "strict"}), ([], {"ROUND_CUTOFF": "24"}),
                                    ([], {"TYPE": "segment", "PREWARM": "256MiB"}), ([], {"TYPE": "vmm", "PREWARM": "256MiB"}),
                                    ([], {"TYPE": "naive", "LARGE_ROUND": "16MiB", "MAX_CACHED": "64MiB"})):
            with self.subTest(arguments=arguments, **settings):
                self.expect_same(path, "--sync-every", "1", *arguments, **settings)

    def test_memory_that_ran_out(self):
        """Near only: a limit counts pages, and which small blocks share one is the driver's choice."""
        for settings in [{"TYPE": kind} for kind in choices_of("TYPE")] + [{"PREWARM": "64MiB*4,2MiB*16"}]:
            with self.subTest(**settings):
                stats = self.expect_same(trace_files()[0], "--sync-every", "1", near=True, LIMIT="10GiB", **settings)
                self.assertGreater(stats["num_ooms"], 0)

    def expect_table(self, path, kind, every, pace, ready, near=0, **settings):
        """The trace, performed on a device of that pace, and replayed on paper from the same table."""
        with self.subTest(trace=os.path.basename(path), type=kind, pace=pace):
            run = self.run_program("replay", path, "--sync-every", every, "--pause", "20", virtual_clock=True, TYPE=kind,
                                   TRACE="off", SIMCUDA_PACE=pace, **settings)
            stats = stats_of(run.snapshot())
            held = stats["reserved_bytes"]["peak"]
            arguments = ["--%s=%s" % (name.lower().replace("_", "-"), value) for name, value in settings.items()]
            figures = self.figures(path, "--type", kind, "--ready", ready, "--capacity", "80GiB", *arguments)[kind]
            self.assertLessEqual(abs(figures["reserved_peak"] / held - 1), near,
                                 "the run held %d, the replay %d" % (held, figures["reserved_peak"]))
            if not near:
                for name in ("cache_hits", "driver_allocs"):
                    self.assertEqual(figures[name], stats[name], name)

    def test_tables(self):
        """A device that is done with nothing before a synchronization, after each 16 rows. The addresses of segments decide
        which piece is cut, so the device on paper has to give them out as the simulated one does."""
        for path in sorted(glob.glob(os.path.join(WORKLOADS, "*.csv"))):
            for kind in choices_of("TYPE"):
                self.expect_table(path, kind, "16", "waits", "sync=16", 0.02, MAX_DEFERRED="none")

    def test_tables_with_waits_in_frees(self):
        """How long a free polls decides what is asked next, and what is then idle."""
        for path in trace_shapes():
            for kind in choices_of("TYPE"):
                self.expect_table(path, kind, "16", "waits", "sync=16", 0.1)

    def test_tables_without_a_synchronization(self):
        """A device that is done at once, and the pool has to ask. How often it may depends on the clock, by which a call takes
        longer in the run: of traces of sizes that hardly come twice that makes a twentieth."""
        for path in trace_shapes():
            for kind in choices_of("TYPE"):
                self.expect_table(path, kind, "0", "at-once", "lag=0", NEAR)

    def test_what_another_type_would_have_done(self):
        """The recording of one type, replayed as another, is near what that does with the program itself."""
        path = trace_files()[0]
        recording = self.run_program(
            "replay", path, "--sync-every", "64", "--pause", "20", virtual_clock=True,
            TRACE_EVENTS="1000000").snapshot_paths("exit")[0]
        figures = self.figures(recording, "--type", "all")
        for kind, figure in figures.items():
            with self.subTest(type=kind):
                stats = stats_of(self.run_program(
                    "replay", path, "--sync-every", "64", "--pause", "20", virtual_clock=True, TYPE=kind).snapshot())
                self.assertLess(abs(figure["reserved_peak"] / max(1, stats["reserved_bytes"]["peak"]) - 1), 0.05)
                # What is idle when a request misses decides how many chunks of vmm are made for it.
                near = 0.05 if kind == "vmm" else 0.02
                self.assertLess(abs(figure["driver_allocs"] - stats["driver_allocs"]), near * stats["driver_allocs"] + 3)

    def test_prewarm_that_tune_found(self):
        """A second run makes nearly all calls of the driver before its first kernel."""
        path = trace_files()[0]
        first = self.run_program("replay", path, "--sync-every", "1", virtual_clock=True, TRACE_EVENTS="1000000")
        profile = os.path.join(self.folder, "profile")
        subprocess.run([TOOL, "tune", "--type", "round", "--with-prewarm", "--write-profile", profile,
                        first.snapshot_paths("exit")[0]], check=True, stdout=subprocess.DEVNULL)
        second = self.run_program("replay", path, "--sync-every", "1", virtual_clock=True, PROFILE=profile)
        before, after = stats_of(first.snapshot()), stats_of(second.snapshot())
        self.assertLess(after["cache_misses"], 0.01 * before["cache_misses"])
        with open(profile) as file:
            sizes = re.findall(r"(\d+)(KiB|MiB|)\*", file.read())
        spare = sum(int(number) << {"": 0, "KiB": 10, "MiB": 20}[unit] for number, unit in sizes)  # a block of each size
        self.assertLess(after["reserved_bytes"]["peak"], 1.01 * before["reserved_bytes"]["peak"] + spare)


if __name__ == "__main__":
    unittest.main()
