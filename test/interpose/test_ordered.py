"""What programs with a pool of their own on top of cudaMallocAsync see is what they see without the library."""

import itertools
import re
import unittest

from harness import ASYNC_MODES, PreloadCase, QUICK, SANITIZED, UNSAFE_LIBRARY, programs, rows_of, trace_files

SCENARIOS = ("framework", "cache", "limits", "determinism", "own_pool", "unifier", "pressure", "devices", "errors")
DRIVER = {"SIMCUDA_DEVICES": "2", "SIMCUDA_CAPACITY": "512MiB"}
JUDGED = ("violations", "corrupt_stamps", "early_reuse", "strays", "early_accesses", "late_accesses")


def leaving(settings):
    """Arguments of ordered_random where its memory ends with a context."""
    is_plain = settings.get("ASYNC") == "plain" or (settings.get("ASYNC") != "driver" and settings.get("TYPE") in ("segment", "vmm"))
    return ("leaving",) if is_plain else ()


class Ordered(PreloadCase):
    def run_scenario(self, name, **settings):
        run = self.run_program("ordered", name, **dict(DRIVER, **settings))
        self.assertEqual(run.status, 0, run.out + run.err)
        self.expect_clean(run)
        return run

    def test_every_scenario(self):
        for name in SCENARIOS:
            plain = self.run_scenario(name, preload=None)
            self.assertTrue(plain.out.endswith("%s: done\n" % name), plain.out)
            for mode in ASYNC_MODES:
                with self.subTest(name, **mode):
                    self.assertEqual(self.run_scenario(name, **mode).out, plain.out)

    @unittest.skipUnless({"ASYNC": "pool"} in ASYNC_MODES, "the pool does not serve stream-ordered memory")
    def test_a_program_that_forbids_reuse_is_served_by_the_driver(self):
        """From then on each of its requests: a large one, and three times one in each stream."""
        plain = self.run_scenario("determinism", preload=None).calls()
        pooled = self.run_scenario("determinism", ASYNC="pool").calls()
        self.assertGreater(plain["cuMemAllocAsync"], 3)
        self.assertEqual(pooled["cuMemAllocAsync"], plain["cuMemAllocAsync"])

    @unittest.skipUnless({"ASYNC": "pool"} in ASYNC_MODES, "the pool does not serve stream-ordered memory")
    def test_both_forms_of_the_functions_are_of_their_stream(self):
        for form in ("async", "async_ptsz", "async_own", "async_legacy", "pool", "pool_ptsz", "pool_own"):
            with self.subTest(form=form):
                run = self.run_program("ordered_forms", form, ASYNC="pool")
                thread = 0 if form.endswith(("_ptsz", "_own")) else 20
                self.assertEqual((run.status, run.out), (0, "again=20 elsewhere=0 thread=%d behind=20\n" % thread), run.err)
                self.expect_clean(run)

    def test_all_with_other_settings(self):
        plain = self.run_scenario("all", preload=None)
        others = [{"TYPE": kind} for kind in ("naive", "segment", "vmm", "unpooled")]
        others += [{"REUSE": "strict"}, {"MAX_DEFERRED": "0"}, {"MAX_CACHED": "0"}, {"LIMIT": "400MiB"}]
        few = QUICK or SANITIZED
        for mode, settings in zip(itertools.cycle(ASYNC_MODES), others) if few else itertools.product(ASYNC_MODES, others):
            with self.subTest(**mode, **settings):
                run = self.run_scenario("all", **mode, **settings)
                self.assertEqual(run.out, plain.out)
                self.expect_history(run.snapshot())

    def test_snapshots_name_streams(self):
        """Of each block that of its owner; memory of cudaMalloc has a context."""
        for choice in ("pool", "plain"):
            run = self.run_program("replay", "--half-async", "--streams", "3", trace_files()[0], ASYNC=choice)
            snapshot = run.snapshot()
            self.expect_valid(snapshot)
            self.assertEqual({event["stream"] for event in rows_of(snapshot) if event["action"] == "alloc"}, {-1, 0, 1, 2})
            self.assertEqual({segment["context"] == 0 for segment in snapshot["segments"]}, {False, choice == "pool"})

    def test_judged_by_order(self):
        """Whatever the schedule: no use before the driver's allocation or behind its free. Of a driver whose pool
        operations in the legacy stream order nothing else, only what the library adds can be judged: not the scenario
        whose program relies on that."""
        def run_with(case):
            mode, seed, orders = case
            names = ("all",) if orders else tuple(name for name in SCENARIOS if name != "unifier")
            for name in names:
                run = self.run_scenario(name, SIMCUDA_ORACLE="1", SIMCUDA_SEED=str(seed), SIMCUDA_POOL_ORDERS=str(orders), **mode)
                self.assertEqual({key: run.sim[key] for key in JUDGED}, dict.fromkeys(JUDGED, 0), run.err[-2000:])

        self.in_parallel(run_with, itertools.product(ASYNC_MODES + [{"preload": None}], range(1, 2 if QUICK or SANITIZED else 5), (0, 1)))

    def run_random(self, first, count, *programmatic, **settings):
        run = self.run_program("ordered_random", str(first), str(count), *programmatic, SIMCUDA_ORACLE="1", **settings)
        self.assertEqual(run.status, 0, run.out + run.err[-2000:])
        return run

    def test_random_programs(self):
        """Both kinds of memory, streams of all kinds, of two contexts and two threads, that end while work is pending."""
        def run_with(case):
            mode, settings, programmatic = case
            run = self.run_random(first, count, *programmatic, *leaving({**mode, **settings}), **mode, **settings)
            self.assertEqual({key: run.sim[key] for key in JUDGED}, dict.fromkeys(JUDGED, 0), run.err[-2000:])
            if mode != {"ASYNC": "driver"} and not settings and not programmatic:
                self.assertGreater(run.sim["pending_reuses"], count / 3)  # in the order of a stream, before the device is done

        settings = [{}, {"REUSE": "strict"}, {"TYPE": "segment"}, {"TYPE": "vmm"}, {"SIMCUDA_FREE_WAITS": "0"}]
        cases = list(itertools.product(ASYNC_MODES, settings, ((), ("programmatic",))))
        seeds = programs((100 if QUICK else 300) * len(cases))
        first, count = seeds[0] + 1, len(seeds) // len(cases)
        self.in_parallel(run_with, cases)

    def test_immediate_reuse_turns_this_red(self):
        self.assertGreater(self.run_random(1, 200, preload=UNSAFE_LIBRARY).sim["early_reuse"], 0)

    def test_the_legacy_stream_orders_threads_own(self):
        """By either call, of either thread, also where a pool serves it."""
        def run_with(case):
            call, mode, settings = case
            run = self.run_program("legacy_order", call, **mode, **settings)
            self.assertEqual((run.status, run.out, run.sim["corrupt_stamps"]), (0, "40 rounds\n", 0), run.err)
            self.expect_clean(run)
            if mode and mode["ASYNC"] != "driver":
                self.assertLess(run.calls().get("cuMemAllocAsync", 0), 10)

        unordered = self.run_program("legacy_order", "free", preload=None, SIMCUDA_POOL_ORDERS="0")
        self.assertGreater(unordered.sim["corrupt_stamps"], 0)  # nothing else orders them
        settings = [{"TYPE": kind, "REUSE": reuse} for kind in ("round", "segment") for reuse in ("context", "strict")]
        cases = list(itertools.product(("alloc", "free"), ASYNC_MODES, settings))
        self.in_parallel(run_with, cases + [("alloc", {}, {"preload": None}), ("free", {}, {"preload": None})])

    def test_the_drivers_pool_keeps_memory(self):
        """With ASYNC=driver, unless the program has set a threshold; only the program sets one otherwise."""
        none, block, unbounded = 0, 8 << 20, (1 << 64) - 1
        untouched = "%d %d %d; %d %d %d; \nthreshold: done\n" % ((none,) * 6)
        self.assertEqual(self.run_scenario("threshold", preload=None).out, untouched)
        kept = self.run_scenario("threshold", ASYNC="driver").out
        first, second, _ = kept.split("; ")
        self.assertEqual(first.split()[:2], [str(none), str(unbounded)])
        self.assertGreaterEqual(int(first.split()[2]), block)
        self.assertEqual(second, "%d %d %d" % ((none,) * 3))
        self.assertEqual(self.run_scenario("threshold", ASYNC="driver", TYPE="unpooled").out, untouched)
        for mode in ASYNC_MODES:
            if mode != {"ASYNC": "driver"}:
                with self.subTest(**mode):
                    thresholds = [device.split()[:2] for device in self.run_scenario("threshold", **mode).out.split("; ")[:2]]
                    self.assertEqual(thresholds, [["0", "0"]] * 2)

    def test_the_limit_that_is_advised_is_enough(self):
        """The driver's pools grow by pieces of 32 MiB, which the limit counts."""
        for mode in ASYNC_MODES:
            limit, advised = "4MiB", []
            for _ in range(3):
                run = self.run_program("ordered", "threshold", LIMIT=limit, SIMCUDA_DEVICES="2", **mode)
                told = re.findall(r"more; set GPUPOOL_LIMIT=(\w+)", run.err)
                if not told:
                    break
                limit = told[0]
                advised.append(limit)
            with self.subTest(advised=advised, **mode):
                self.assertEqual(run.status, 0, run.err)
                self.assertEqual(advised, ["32MiB"] if mode == {"ASYNC": "driver"} else ["8MiB"])

    def test_where_no_memory_can_be_mapped_the_driver_serves(self):
        native = self.run_scenario("all", preload=None)
        run = self.run_scenario("all", SIMCUDA_FAIL=",".join("cuMemAddressReserve:801@%d" % n for n in range(1, 9)))
        self.assertEqual(run.out, native.out)
        self.assertEqual(run.calls()["cuMemAllocAsync"], native.calls()["cuMemAllocAsync"])
        self.assertEqual([line.partition("; ")[2] for line in run.messages if "cannot be mapped" in line],
                         ["the driver serves cudaMallocAsync there"] * 2)  # of two devices

    def test_points_of_streams(self):
        """Beside a stream that never rests: facts about single streams. By the virtual clock: the more time passes, the
        more fences the pool records."""
        for mode in ("context", "strict"):
            with self.subTest(mode):
                run = self.run_scenario("points", REUSE=mode, SIMCUDA_ORACLE="1", virtual_clock=True)
                self.assertEqual(run.out, "the same; the same; \npoints: done\n")
                self.assertEqual({key: run.sim[key] for key in JUDGED}, dict.fromkeys(JUDGED, 0))

    def test_an_event_that_a_graph_may_record_is_no_point(self):
        """The graph gets it before the first call for memory in a stream's order."""
        for told, again in (("record", "the same"), ("graph", "another")):
            run = self.run_program("waiting_ordered", "by_event", told, virtual_clock=True)
            self.assertIn("by_event: %s\n" % again, run.out, run.err)
            self.expect_clean(run)

    def test_a_full_device_serves_what_a_stream_has_freed(self):
        """A real driver's pool does so; the simulated one waits on the host instead."""
        for kind, mode, way in itertools.product(("round", "naive", "segment", "vmm"), ("pool", "plain"), ("used", "by_host")):
            with self.subTest(kind, mode=mode, way=way):
                run = self.run_program("waiting_ordered", "full", way, TYPE=kind, ASYNC=mode, PATIENCE="0",
                                       SIMCUDA_CAPACITY="1GiB", SIMCUDA_ORACLE="1", virtual_clock=True)
                said = "full: 0, the same\n" + ("by_host: 2\n" if way == "by_host" else "")
                self.assertIn(said, run.out, run.err)
                self.assertEqual(run.out.splitlines()[-1], "end")
                self.expect_clean(run)
                self.assertEqual({key: run.sim[key] for key in JUDGED}, dict.fromkeys(JUDGED, 0))

    def test_on_older_drivers(self):
        """There memory of cudaMalloc is not given back when the program trims the pool: no fence shows that this does not wait."""
        for mode in ASYNC_MODES:
            names = ("determinism", "pressure") if mode == {"ASYNC": "plain"} else ("all",)
            for name in names:
                with self.subTest(name, **mode):
                    plain = self.run_scenario(name, driver="12040", preload=None)
                    self.assertEqual(self.run_scenario(name, driver="12040", **mode).out, plain.out)


if __name__ == "__main__":
    unittest.main()
