"""Running out of memory: by the limit, by the device, and what the messages say."""

import os
import re
import unittest

from harness import GIB, PreloadCase, QUICK, SANITIZED, Trace, count_actions, stats_of, trace_files, unless_short

MIB = 1 << 20


class Limit(PreloadCase):
    @unless_short
    def test_limit_holds_on_every_trace(self):
        for path in trace_files():
            trace = Trace(path)
            limit = min(20 * GIB, trace.peak * 3 // 4)
            for args in ((), ("--threads", "4"), ("--async",), ("--api", "driver", "--streams", "4")):
                with self.subTest(trace=os.path.basename(path), args=args):
                    # Without other threads the virtual clock knows that waiting is of no use.
                    run = self.run_program("replay", "--check", *args, path, LIMIT=str(limit),
                                           virtual_clock="--threads" not in args)
                    self.assertEqual(run.status, 0, run.err)
                    self.expect_clean(run)
                    if "--threads" not in args:  # threads hold less at a time
                        self.assertGreater(run.field("failed"), 0)
                    self.assertEqual(run.field("error_mismatches"), 0)  # cudaGetLastError agrees
                    self.assertLessEqual(run.sim["peak_bytes"][0], limit)

    def test_limit_leaves_a_report(self):
        path = next((p for p in trace_files() if "train-medium-1024" in p), trace_files()[0])
        limit = 20 if "1024" in path else 8
        run = self.run_program("replay", "--check", path, LIMIT="%dGiB" % limit)
        self.assertEqual(run.status, 0)
        oom = run.snapshot("oom")
        self.expect_valid(oom)
        self.assertEqual(oom["reason"], "oom")
        self.assertEqual(oom["oom"]["limit"], limit * GIB)
        lines = [line for line in run.messages if "out of memory" in line]
        self.assertEqual(len(lines), 2, run.err)
        self.assertIn("memory ran out %d more times, the last time out of memory" % (run.field("failed") - 1), lines[1])
        for text in ("requested", "the program uses", "limit", "GPUPOOL_LIMIT", "%d GiB" % limit):
            self.assertIn(text, lines[0])
        last = run.snapshot("exit")
        self.expect_valid(last)
        self.assertEqual(last["unreported_ooms"], run.field("failed") - 1)
        self.assertGreater(last["oom"]["time_ns"], oom["oom"]["time_ns"])
        self.assertEqual(stats_of(last)["num_ooms"], run.field("failed"))
        self.assertEqual(count_actions(last)["oom"], run.field("failed"))

    def test_full_device(self):
        for path in trace_files()[:2]:
            trace = Trace(path)
            capacity = trace.peak // 2 // (2 << 20) * (2 << 20)
            plain = self.run_program("replay", path, preload=None, SIMCUDA_CAPACITY=str(capacity))
            run = self.run_program("replay", "--check", path, SIMCUDA_CAPACITY=str(capacity))
            self.assertEqual(run.status, 0, run.err)
            self.expect_clean(run)
            self.assertGreater(run.field("failed"), 0)
            # A pool must not fail much more than the driver would: rounding is given up before the program gets an error.
            self.assertLessEqual(run.field("failed"), plain.field("failed") * 1.1 + 5)
            self.assertIn("of %.1f GiB" % (capacity / GIB), [m for m in run.messages if "out of memory" in m][0])

    def test_equal_buffers_that_fill_a_device(self):
        """As many as a driver can give that hands out 2 MiB at a time, of 1,279 that would fit without any rounding."""
        size = 80 * GIB // 1279
        run = self.run_program("memory_kinds", "plain:%d:1279" % size, SIMCUDA_CAPACITY="80GiB")
        self.assertIn("plain: %d of 1279" % (80 * GIB // (66 << 20)), run.out)

    def test_malformed_limit_refuses_every_allocation(self):
        path = trace_files()[0]
        for value in ("20 lemons", "", "-1", "101%", "0=1GiB,", "64=1GiB", "1GiB,0=1GiB"):
            with self.subTest(value=value):
                run = self.run_program("replay", path, LIMIT=value)
                self.assertEqual(run.status, 0)
                self.assertEqual(run.field("failed"), Trace(path).allocations)
                self.assertEqual(run.field("error_mismatches"), 0)
                lines = [line for line in run.messages if "GPUPOOL_LIMIT=" + value in line and "malformed" in line]
                self.assertEqual(len(lines), 1, run.err)
                self.assertEqual(run.sim["peak_bytes"][0], 0)

    def test_limit_of_one_device(self):
        run = self.run_program("replay", trace_files()[0], LIMIT="1=1MiB", SIMCUDA_DEVICES="2")
        self.assertEqual(run.field("failed"), 0)
        run = self.run_program("replay", trace_files()[0], LIMIT="0=1MiB,1=50%", SIMCUDA_DEVICES="2")
        self.assertGreater(run.field("failed"), 0)

    def test_max_cached_and_reserve(self):
        path = trace_files()[0]
        run = self.run_program("replay", "--check", path, MAX_CACHED="1GiB")
        self.expect_clean(run)
        snapshot = run.snapshot()
        self.assertLessEqual(stats_of(snapshot)["cached_bytes"]["current"], GIB)
        self.assertGreater(count_actions(snapshot)["trim"], 0)
        run = self.run_program("replay", "--check", path, RESERVE="70GiB")
        self.expect_clean(run)
        self.assertEqual(run.field("failed"), 0)  # never a reason to refuse
        self.assertGreater(count_actions(run.snapshot())["trim"], 0)

    def test_page_cache_of_an_integrated_device_is_no_reason_to_trim(self):
        """Its driver calls nothing free; the machine that runs this has more than 1 MiB available all the same."""
        run = self.run_program("replay", "--check", trace_files()[0], SIMCUDA_INTEGRATED="80GiB", RESERVE="1MiB")
        self.expect_clean(run)
        self.assertNotIn("trim", count_actions(run.snapshot()))

    def reported(self, **settings):
        """What cuMemGetInfo says."""
        run = self.run_program("memory_kinds", "info", **{"SIMCUDA_CAPACITY": "1024GiB", "RESERVE": "0", **settings})
        return tuple(map(int, re.search(r"info: (\d+) of (\d+)", run.out).groups()))

    def test_free_memory_of_an_integrated_device(self):
        """As the driver has it, or as the host has it available, which changes while the test runs."""
        def available():
            with open("/proc/meminfo") as file:
                return int(re.search(r"^MemAvailable: +(\d+) kB$", file.read(), re.M).group(1)) << 10
        total = 1024 * GIB
        self.assertEqual(self.reported(SIMCUDA_INTEGRATED="1024GiB"), (0, total))
        before = available()
        free, seen = self.reported(SIMCUDA_INTEGRATED="1024GiB", INTEGRATED="available")
        after = available()
        self.assertTrue(min(before, after) // 2 < free < max(before, after) * 2, (before, free, after))
        self.assertEqual(seen, total)
        self.assertEqual(self.reported(SIMCUDA_INTEGRATED="1024GiB", INTEGRATED="available", RESERVE="1024GiB"), (0, total))
        self.assertEqual(self.reported(SIMCUDA_INTEGRATED="1024GiB", INTEGRATED="available", LIMIT="3MiB"), (2 * MIB, 3 * MIB))
        self.assertEqual(self.reported(INTEGRATED="available"), self.reported())  # its memory is its own

    #
    # The device's own account
    #

    TYPES = ("round", "naive", "segment", "vmm", "unpooled")
    KINDS = ("plain", "pitch", "managed", "array", "array3d", "mipmap", "mipmaps", "external", "vmm", "async", "mempool",
             "graph", "captured")

    def run_random(self, kinds, seed, limit, **settings):
        run = self.run_program("memory_kinds", "random:%s:%d:250:%d" % (",".join(kinds), seed, limit), "free-all",
                               LIMIT=str(limit), PATIENCE="0", **settings)
        self.assertEqual(run.status, 0, run.out + run.err)
        self.expect_clean(run)
        self.assertLessEqual(run.sim["peak_bytes"][0], limit)  # not for a moment
        return int(re.search(r"random: (\d+) refused", run.out).group(1))

    def test_the_device_gives_no_more_than_the_limit(self):
        """After each call the program asks the simulated device what it has given."""
        refused = 0
        for number, type in enumerate(self.TYPES):
            for asynchronous in ("pool", "plain", "driver"):
                with self.subTest(type=type, ASYNC=asynchronous):
                    refused += self.run_random(self.KINDS, number, 96 << 20, TYPE=type, ASYNC=asynchronous)
        self.assertGreater(refused, 0)

    def test_no_kind_takes_more_than_the_limit(self):
        for kind in self.KINDS:
            with self.subTest(kind=kind):
                self.assertGreater(self.run_random([kind], 1, 65 << 20, TYPE="unpooled", ASYNC="driver"), 0)

    #
    # Memory freed in the order of a stream, which the driver has until the stream gets there
    #

    IN_ORDER = ("plain", "exported", "pitch", "captured", "async", "pool", "orphan")

    def in_order(self, *words, **settings):
        limit = 96 << 20
        run = self.run_program("limit_in_order", *words, str(limit), LIMIT=str(limit), **settings)
        self.assertEqual(run.status, 0, run.out + run.err)
        self.expect_clean(run)
        self.assertLessEqual(run.sim["peak_bytes"][0], limit)
        return run

    def test_what_is_freed_behind_work_counts_until_the_work_is_complete(self):
        for type, asynchronous in [(type, "pool") for type in self.TYPES] + [("round", "driver"), ("segment", "driver")]:
            for kind in self.IN_ORDER:
                with self.subTest(kind=kind, type=type, ASYNC=asynchronous):
                    run = self.in_order("while-busy", kind, TYPE=type, ASYNC=asynchronous, PATIENCE="0")
                    self.assertIn("while the kernel runs: 2", run.out)
                    self.assertIn("in the end: 0", run.out)

    def test_a_request_waits_for_what_is_freed_behind_work(self):
        for type in self.TYPES:
            for kind in self.IN_ORDER:
                with self.subTest(kind=kind, type=type):
                    self.assertIn("in the end: 0", self.in_order("awaited", kind, TYPE=type, virtual_clock=True).out)

    def test_threads_that_free_in_streams_keep_the_limit(self):
        for number, type in enumerate(self.TYPES):
            for asynchronous in ("pool", "plain", "driver"):
                with self.subTest(type=type, ASYNC=asynchronous):
                    self.in_order("random", str(number), "300", "1", TYPE=type, ASYNC=asynchronous, PATIENCE="0")
                    self.in_order("random", str(number), "100", "4", TYPE=type, ASYNC=asynchronous, PATIENCE="0")

    def test_pools_that_grow_in_pieces_keep_the_limit(self):
        """Several threads, pools of the program's that end, graphs, captures."""
        def run_with(seed):
            self.in_order("random", str(seed % 4), "100", "4", TYPE="unpooled", ASYNC="driver", PATIENCE="0",
                          SIMCUDA_POOL_PIECE="32MiB", SIMCUDA_SEED=str(seed))

        self.in_parallel(run_with, range(1, 11 if QUICK or SANITIZED else 41))

    def test_what_is_called_free_is_not_refused(self):
        """The driver's pools grow by 32 MiB, for which a limit needs room; mapped memory grows by what is missing."""
        for limit in (8, 28, 60, 100):
            for type in self.TYPES:
                for asynchronous in ("pool", "plain", "driver"):
                    with self.subTest(limit=limit, type=type, ASYNC=asynchronous):
                        run = self.run_program("memory_kinds", "async:%d:99" % (4 * MIB), "info", "free", "info",
                                               "async:%d:99" % (4 * MIB), "free", "plain:%d:99" % (4 * MIB),
                                               TYPE=type, ASYNC=asynchronous, LIMIT="%dMiB" % limit)
                        self.expect_clean(run)
                        is_ours = asynchronous != "driver" and type != "unpooled"
                        pieces = limit // 4 if is_ours else max(0, (limit - 32) // 4 + 1)
                        self.assertEqual(re.findall(r"(?:async|plain): (\d+) of", run.out), [str(pieces)] * 2 + [str(limit // 4)], run.out)
                        infos = re.findall(r"info: (\d+) of", run.out)
                        self.assertEqual(infos[0], str(limit * MIB - pieces * 4 * MIB))
                        if asynchronous != "driver":  # whose pool keeps what is freed
                            self.assertEqual(infos[1], str(limit * MIB))
                        self.assertLessEqual(run.sim["peak_bytes"][0], limit * MIB)

    def test_memory_that_other_devices_reach_keeps_the_limit(self):
        for settings, results in (({}, ["0", "0"]), ({"TYPE": "unpooled"}, ["2", "2"]), ({"ASYNC": "driver"}, ["2", "2"])):
            run = self.run_program("limit_in_order", "shared", str(8 << 20), LIMIT="8MiB", SIMCUDA_DEVICES="2", **settings)
            self.assertEqual(re.findall(r"cuMemAllocAsync.*: (\d+)", run.out), results, run.out + run.err)

    def test_memory_in_stream_order_outlives_the_context_of_its_stream(self):
        for kind in ("round", "naive", "segment", "vmm"):
            run = self.run_program("limit_in_order", "second", str(64 << 20), LIMIT="8MiB", TYPE=kind)
            self.assertEqual(re.findall(r"cuMem(?:AllocAsync|Free_v2).*: (\d+)", run.out), ["0", "0"], run.out + run.err)

    def test_exported_memory_counts_although_it_is_released(self):
        """Its descriptors keep it in existence, and nobody sees the last one close."""
        kind = "vmm_exported:%d:100" % (8 * MIB)
        for type in self.TYPES:
            with self.subTest(type=type):
                run = self.run_program("memory_kinds", kind, "free", kind, "plain:%d:100" % (2 * MIB), "info", TYPE=type,
                                       LIMIT="96MiB")
                self.expect_clean(run)
                self.assertEqual(re.findall(r"(\w+): (\d+) of 100,", run.out),
                                 [("vmm_exported", "12"), ("vmm_exported", "0"), ("plain", "0")])
                self.assertIn("info: 0 of %d" % (96 * MIB), run.out)
                self.assertEqual(run.sim["peak_bytes"][0], 96 * MIB)
                self.assertEqual(stats_of(run.snapshot())["passthrough_bytes"]["current"], 0)  # it is freed

    def test_what_fits_natively_fits_the_limit(self):
        """Of more than 1 MiB as much as without the library; small blocks share pages, and need room for one more."""
        pages = 20
        for sizes, spare in (((MIB + 1, 2 * MIB, 3 * MIB - 1), 0), ((1, 512, 4096, MIB), 1)):
            for size in sizes:
                command = "plain:%d:4000" % size
                plain = self.run_program("memory_kinds", command, preload=None, SIMCUDA_CAPACITY="%dMiB" % (2 * pages))
                for type in self.TYPES:
                    with self.subTest(size=size, type=type):
                        run = self.run_program("memory_kinds", command, TYPE=type, LIMIT="%dMiB" % (2 * (pages + spare)))
                        got, native = (int(re.search(r"plain: (\d+) of", text).group(1)) for text in (run.out, plain.out))
                        self.assertGreaterEqual(got, native, run.out + run.err)
                        self.assertLessEqual(run.sim["peak_bytes"][0], 2 * (pages + spare) << 20)


if __name__ == "__main__":
    unittest.main()
