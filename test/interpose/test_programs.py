"""Programs that exercise the corners of the API behave under the library as without it."""

import itertools
import json
import unittest

from harness import PreloadCase, stats_of, trace_files, unless_short

CORNERS = ("static_route", "driver_linked", "per_thread", "errors", "capture", "contexts", "fork", "exits",
           "two_contexts", "freed")


class Programs(PreloadCase):
    def test_programs_behave_as_without_the_library(self):
        for name in CORNERS:
            plain = self.run_program(name, preload=None)
            for settings in ({}, {"TYPE": "naive"}, {"TYPE": "segment"}, {"TYPE": "vmm"}, {"TYPE": "unpooled"}, {"REUSE": "strict"}):
                with self.subTest(program=name, **settings):
                    run = self.run_program(name, **settings)
                    self.assertEqual(run.status, plain.status)
                    self.assertEqual(run.out, plain.out)
                    self.expect_clean(run)
                    snapshot = run.snapshot("exit")
                    self.expect_valid(snapshot)
                    self.assertGreater(stats_of(snapshot)["allocation"]["allocated"], 0)

    @unless_short
    def test_driver_versions(self):
        for version in ("11040", "12000", "12040", "12050", "13000"):
            for name in ("static_route", "driver_linked", "per_thread", "contexts"):
                with self.subTest(driver=version, program=name):
                    plain = self.run_program(name, preload=None, SIMCUDA_DRIVER=version)
                    run = self.run_program(name, SIMCUDA_DRIVER=version)
                    self.assertEqual((run.status, run.out), (plain.status, plain.out))
                    if plain.status == 0:
                        self.expect_clean(run)
                        self.assertEqual(run.snapshot()["process"]["driver_version"], int(version))
                        self.assertGreater(stats_of(run.snapshot())["allocation"]["allocated"], 0)

    def test_pool_works_without_context_wide_fences(self):
        path = trace_files()[0]
        run = self.run_program("replay", "--check", "--streams", "4", path, SIMCUDA_DRIVER="12040")
        self.assertEqual(run.status, 0, run.err)
        self.expect_clean(run)
        self.assertNotIn("cuCtxRecordEvent", run.calls())
        self.assertEqual(stats_of(run.snapshot())["fences"], 0)

    @unless_short
    def test_waits_happen_in_the_right_context(self):
        """A context that cannot be made current must not pass for one whose work is complete."""
        for settings in ({}, {"MAX_DEFERRED": "0"}, {"REUSE": "strict"}):
            for push in ("", "1", "2"):
                faults = {"SIMCUDA_FAIL": "cuCtxPushCurrent_v2:2@" + push} if push else {}
                for seed in (1, 2, 3):
                    with self.subTest(push=push, seed=seed, **settings):
                        run = self.run_program("two_contexts", SIMCUDA_DRIVER="12040", SIMCUDA_SEED=str(seed),
                                               **settings, **faults)
                        self.expect_clean(run)
                        if run.status == 0:
                            self.assertIn("the copy holds 1", run.out)

    def test_exported_memory_goes_to_the_driver(self):
        ways = ("ipc", 1), ("tokens", 1), ("token-list", 1), ("sync", 1), ("none", 0)
        for settings, (way, frees) in itertools.product(({}, {"TYPE": "segment"}), ways):
            with self.subTest(way=way, **settings):
                plain = self.run_program("exports", way, preload=None)
                run = self.run_program("exports", way, **settings)
                self.assertEqual((run.status, run.out), (plain.status, plain.out))
                self.assertEqual(run.out, way + ": 0\n")
                self.assertEqual(run.calls().get("cuMemFree_v2", 0), frees)
                self.assertEqual(stats_of(run.snapshot())["cache_hits"], 1 - frees)

    def test_memory_that_another_process_opens(self):
        """There it is not the pool's: its free is refused as natively. Here it goes to the driver when it is freed."""
        plain = self.run_program("two_processes", preload=None)
        self.assertIn("the other process reads 1", plain.out)
        self.assertIn("the exporter reads 2", plain.out)
        for settings in {}, {"TYPE": "naive"}, {"TYPE": "segment"}:
            with self.subTest(**settings):
                run = self.run_program("two_processes", **settings)
                self.assertEqual((run.status, run.out), (plain.status, plain.out))
                self.expect_clean(run)
                self.assertEqual(run.calls().get("cuMemFree_v2", 0), 1)
                found = []
                for path in run.snapshot_paths():
                    with open(path) as file:
                        stats = stats_of(json.load(file))
                    found.append((stats["allocation"]["allocated"], stats["allocation"]["current"], stats["cache_hits"]))
                self.assertEqual(sorted(found), [(1, 0, 0), (2, 0, 0)])

    def test_memory_that_another_process_imports(self):
        """It is the program's, as is the memory of an imported pool; that of cudaMalloc beside it is pooled."""
        for way in ("handle", "pool"):
            plain = self.run_program("descriptors", way, preload=None)
            self.assertIn("the other process reads 1", plain.out)
            self.assertIn("the exporter reads 2", plain.out)
            for settings in {}, {"TYPE": "segment"}, {"TYPE": "vmm"}, {"TYPE": "unpooled"}, {"ASYNC": "plain"}:
                with self.subTest(way=way, **settings):
                    run = self.run_program("descriptors", way, **settings)
                    self.assertEqual((run.status, run.out), (plain.status, plain.out))
                    self.expect_clean(run)

    def test_a_part_of_a_segment_has_no_handle_for_other_processes(self):
        """It would lead to the segment's beginning. One line names what helps, and so does asking once."""
        natively = "small: 0\nagain: 0\nnew: 0\nlarge: 0\n"
        self.assertEqual(self.run_program("exports", "behind", preload=None).out, natively)
        self.assertEqual(self.run_program("exports", "behind", TYPE="round").out, natively)
        for kind in ("segment", "vmm"):
            with self.subTest(type=kind):
                run = self.run_program("exports", "behind", TYPE=kind)
                self.assertEqual((run.status, run.out), (0, "small: 1\nagain: 1\nnew: 0\nlarge: 0\n"))
                self.assertEqual([line for line in run.messages if "set GPUPOOL_TYPE=round" in line], run.messages)
                self.assertEqual(len(run.messages), 1)

    def test_a_part_that_cannot_be_shared_says_so(self):
        """UCX does without then, where a refused export is its error. NCCL only takes it for memory of cudaMalloc."""
        natively = "".join("%s: 1, by itself 1\n" % name for name in ("first", "second", "third"))
        natively += "export of the third: 0\n"
        self.assertEqual(self.run_program("exports", "sharing", preload=None).out, natively)
        self.assertEqual(self.run_program("exports", "sharing").out, natively)
        for settings in {"TYPE": "segment"}, {"TYPE": "vmm"}:
            with self.subTest(**settings):
                run = self.run_program("exports", "sharing", **settings)
                said = natively.replace("second: 1", "second: 0")
                if settings.get("TYPE") == "vmm":
                    said = said.replace("first: 1", "first: 0")
                self.assertEqual((run.status, run.out), (0, said))
                self.assertEqual(len(run.messages), 1, run.messages)

    def test_each_block_is_a_range_by_itself(self):
        """Programs free what the driver calls a beginning (GCC's OpenMP and OpenACC), and register what it calls a range."""
        plain = self.run_program("exports", "ranges", preload=None)
        self.assertEqual(plain.out.count("begins at 0, fits, listed alike\n"), 6, plain.out)
        for settings in {}, {"TYPE": "naive"}, {"TYPE": "segment"}, {"TYPE": "vmm"}:
            with self.subTest(**settings):
                run = self.run_program("exports", "ranges", **settings)
                # naive has whole pages
                self.assertEqual((run.status, run.out.replace("too large", "fits") if settings.get("TYPE") == "naive"
                                  else run.out), (0, plain.out))

    def test_mapped_memory_is_not_exported(self):
        """As the driver refuses it for such memory; what is asked for after the first attempt can be exported."""
        self.assertEqual(self.run_program("exports", "retain", preload=None).out, "retain: 1\n")
        for way in ("ipc", "tokens", "sync", "retain"):
            with self.subTest(way=way):
                run = self.run_program("exports", way, TYPE="vmm")
                self.assertEqual(run.out, way + ": 1\n")
                self.assertEqual(len([line for line in run.messages if "set GPUPOOL_TYPE=round" in line]), 1)

    def test_mapped_memory_is_exported_by_ranges_within_a_piece(self):
        """A range over a border would reach only the first piece on some drivers. No other owner gets what was exported,
        and its memory goes back to the driver: the device has no room for both."""
        capacity = {"SIMCUDA_CAPACITY": str(100 << 20)}
        plain = self.run_program("exports", "pieces", preload=None, **capacity)
        self.assertEqual(plain.out, "4096 bytes at 0: 0\n4096 bytes at 62910464: 0\n")
        run = self.run_program("exports", "pieces", TYPE="vmm", **capacity)
        self.assertEqual((run.status, run.out, run.messages), (0, plain.out, []))
        self.assertIn("the next one is another one", run.err)

        plain = self.run_program("exports", "pieces", "whole", preload=None)
        self.assertEqual(plain.out.splitlines()[2:], ["62914560 bytes at 0: 0"])
        self.assertEqual(self.run_program("exports", "pieces", "whole", TYPE="segment").out, plain.out)
        run = self.run_program("exports", "pieces", "whole", TYPE="vmm")
        self.assertEqual((run.status, run.out), (0, plain.out.replace("62914560 bytes at 0: 0", "62914560 bytes at 0: 1")))
        self.assertEqual(len([line for line in run.messages if "set GPUPOOL_TYPE=round" in line]), 1, run.messages)

    def test_a_driver_that_is_not_ready_to_map(self):
        """Nothing is refused for it, and the type stays: what follows is mapped."""
        natively = self.run_program("exports", "ranges", preload=None).out
        for first in 1, 2, 3:  # of the trial, and of the growth after it; three tries each
            faults = ",".join("cuMemSetAccess:600@%d" % call for call in range(first, first + 3))
            with self.subTest(faults=faults):
                run = self.run_program("exports", "ranges", TYPE="vmm", SIMCUDA_FAIL=faults)
                self.assertEqual((run.status, run.out, run.messages), (0, natively, []))
                self.assertGreater(run.calls()["cuMemSetAccess"], first + 2)

    def test_addresses_to_map_at_are_fewer(self):
        run = self.run_program("exports", "ranges", TYPE="vmm", SIMCUDA_FAIL="cuMemAddressReserve:2@1")
        self.assertEqual((run.status, run.messages), (0, []))
        self.assertEqual(run.calls()["cuMemAddressReserve"], 2)
        self.assertNotIn("cuMemAlloc_v2", run.calls())

    def test_second_free_of_cut_memory_is_refused(self):
        for settings in {}, {"TYPE": "segment"}, {"TYPE": "vmm"}:
            run = self.run_program("freed_twice", **settings)
            self.assertEqual((run.status, run.out), (0, "first: 0, second: 1\n"))
            self.assertNotIn("cuMemFree_v2", run.calls())

    def test_parts_are_exported_by_their_range(self):
        """The part has an idle neighbour. Only another process cannot have it: it would get the neighbour."""
        for way, frees in (("begin", 0), ("tokens", 1), ("token-list", 1), ("sync", 1), ("file", 1), ("none", 0)):
            with self.subTest(way=way):
                plain = self.run_program("exports", way, "range", preload=None)
                if way != "file":  # its page begins before the part; the simulated GPU wants one allocation
                    self.assertEqual((plain.status, plain.out), (0, way + ": 0\n"))
                run = self.run_program("exports", way, "range", TYPE="segment")
                self.assertEqual((run.status, run.out), (0, way + (": 1\n" if way == "begin" else ": 0\n")))
                self.assertEqual(run.calls().get("cuMemFree_v2", 0), frees)

    def test_forked_child_writes_nothing(self):
        run = self.run_program("fork")
        self.assertEqual(len(run.snapshot_paths()), 1)

    def test_exit_paths(self):
        for way in ("normal", "leak", "_exit", "quick_exit", "thread"):
            with self.subTest(way=way):
                plain = self.run_program("exits", way, preload=None)
                run = self.run_program("exits", way)
                self.assertEqual((run.status, run.out), (plain.status, plain.out))
        leak = self.run_program("exits", "leak").snapshot()
        self.assertGreater(stats_of(leak)["allocation"]["current"], 0)
        self.assertEqual({b["state"] for s in leak["segments"] for b in s["blocks"]} & {"active_allocated"},
                         {"active_allocated"})


if __name__ == "__main__":
    unittest.main()
