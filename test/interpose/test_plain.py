"""GPUPOOL_ASYNC=plain: memory of cudaMallocAsync is memory of cudaMalloc, for those who can do nothing with that of pools."""

import itertools
import unittest

from harness import PreloadCase

TYPES = ("round", "naive")
CUTTING = ("segment", "vmm")  # they cut it from the same memory, whatever GPUPOOL_ASYNC says
NATIVE = "the pool, no context, for this process, device 0"
PLAIN = "no pool, the current context, for other processes, device 0"


class Plain(PreloadCase):
    def run_shares(self, way, **settings):
        run = self.run_program("stream_shares", way, SIMCUDA_DEVICES="2", **settings)
        self.assertEqual(run.status, 0, run.out + run.err)
        return run

    def test_what_the_driver_says_of_it(self):
        for kind in TYPES:
            with self.subTest(kind):
                self.assertEqual(self.run_shares("attributes", ASYNC="pool", TYPE=kind).out, "memory: %s\n" % NATIVE)
                self.assertEqual(self.run_shares("attributes", ASYNC="plain", TYPE=kind).out, "memory: %s\n" % PLAIN)
        for kind, mode in itertools.product(CUTTING, ("pool", "plain")):
            with self.subTest(kind, mode=mode):
                found = self.run_shares("attributes", ASYNC=mode, TYPE=kind).out
                self.assertEqual(found, "memory: %s\n" % PLAIN)

    def test_other_processes_get_it(self):
        """What was exported is not handed out again: the program's free is the driver's."""
        self.assertEqual(self.run_shares("ipc", preload=None).out, "ipc: 1\n")
        for kind, way in itertools.product(TYPES, ("ipc", "tokens", "sync", "file")):
            with self.subTest(kind=kind, way=way):
                run = self.run_shares(way, ASYNC="plain", TYPE=kind)
                self.assertEqual(run.out, way + ": 0\n")
                self.assertEqual([run.calls().get(name, 0) for name in ("cuMemAlloc_v2", "cuMemAllocAsync", "cuMemFreeAsync")],
                                 [2, 0, 1])
                self.assertEqual(run.messages, [])

    def test_a_pool_that_is_opened_for_other_devices_has_mapped_memory(self):
        run = self.run_shares("access", ASYNC="plain")
        self.assertEqual(run.out, "before: %s\nno such device: 1\nstill: %s\nafter: %s\n" % (PLAIN, PLAIN, NATIVE))
        self.assertEqual(run.messages, [])
        for settings in ({"preload": None}, {"ASYNC": "pool"}):
            run = self.run_shares("access", **settings)
            self.assertEqual(run.out, "before: %s\nno such device: 1\nstill: %s\nafter: %s\n" % (NATIVE, NATIVE, NATIVE))
            self.assertNotIn("GPUPOOL_ASYNC", run.err)

    def test_it_is_of_the_streams_context_and_ends_with_it(self):
        self.assertEqual(self.run_shares("context", ASYNC="pool").out, "memory: %s\nfreed: 0\n" % NATIVE)
        run = self.run_shares("context", ASYNC="plain")
        self.assertEqual(run.out, "memory: %s\nfreed: 1\n" % PLAIN.replace("the current context", "another context"))
        self.assertEqual(run.sim["current_bytes"][0], 0)
        self.expect_history(run.snapshot())

    def test_the_pools_attributes_count_what_is_kept(self):
        """Used, reserved, and the most of each. Natively memory of cudaMalloc is none of the pool's; here a block of it is lent."""
        for kind in TYPES:
            with self.subTest(kind):
                lent = kind in ("round", "naive")
                self.assertEqual(self.run_shares("pool", ASYNC="plain", TYPE=kind).out, (
                    "taken: 8 8 8 8\none is free: 4 8 8 8\nboth are: 0 8 8 8\nbeside memory of cudaMalloc: 0 8 %d 8\n"
                    "trimmed to more: 0 8 %d 8\ntrimmed: 0 8 0 8\nset back: 0 0 0 0\n") % ((4, 4) if lent else (8, 8)))
        for settings in ({"preload": None}, {"ASYNC": "pool"}, {"ASYNC": "driver"}):
            for line in self.run_shares("pool", **settings).out.splitlines():
                used, most_used, reserved, most_reserved = map(int, line.rpartition(":")[2].split())
                self.assertTrue(used <= reserved <= most_reserved and used <= most_used <= most_reserved, line)
                if line.startswith(("trimmed:", "set back:")):
                    self.assertEqual((used, reserved), (0, 0), line)

    def test_devices_without_pools_refuse_as_ever(self):
        plain = self.run_shares("refused", preload=None, SIMCUDA_POOLS="0")
        self.assertEqual(plain.out, "memory: 801\n")
        self.assertEqual(self.run_shares("refused", ASYNC="plain", SIMCUDA_POOLS="0").out, plain.out)

    def test_frees_in_streams(self):
        """All but the memory is as without the library: order between streams, answers for streams that cannot take it."""
        for arguments in ((), ("ordered",)):
            plain = self.run_program("free_in_stream", *arguments, preload=None)
            self.assertEqual(plain.out.splitlines()[-1], "end", plain.err)
            for choice, kind, reuse in itertools.product(("pool", "plain"), ("round", "segment"), ("context", "strict")):
                with self.subTest(arguments, choice=choice, kind=kind, reuse=reuse):
                    run = self.run_program("free_in_stream", *arguments, ASYNC=choice, TYPE=kind, REUSE=reuse)
                    self.assertEqual(run.out, plain.out)
                    self.expect_clean(run)
                    self.expect_history(run.snapshot())


if __name__ == "__main__":
    unittest.main()
