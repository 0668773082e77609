"""GPUPOOL_CHECK under a whole program: which writes it finds, whom it names, and that it says nothing of legal programs."""

import json
import os
import re
import signal
import subprocess
import unittest

from harness import PreloadCase, stats_of

TOOL = os.environ.get("GP_TOOL")
KINDS = ("round", "naive", "segment", "vmm")
MEMORY = ("malloc", "async")
WRITES = ("memset", "copy", "kernel", "stream", "graph", "thread")
LINE = re.compile(r"heap check: (\d+) bytes? written (past the end|after the free) of (\d+) bytes(?: of (\S+) \(\S+\))? "
                  r"\(device 0, offset (\d+)\)")
EDGE, STALE = "past the end", "after the free"

# memory, when, offset, bytes, size -> what is found: (bytes, kind, offset), or None where doc/heap-checks.md says so
FAULTS = {
    ("live", 0, 1): (1, EDGE, 3420),
    ("live", 0, 4): (4, EDGE, 3420),
    ("live", 0, 100): (100, EDGE, 3420),
    ("live", 20, 4): (4, EDGE, 3440),
    ("ending", 0, 4): (4, EDGE, 3420),
    ("later", 0, 12): (12, STALE, 0),
    ("later", 3400, 20): (20, STALE, 3400),
}


class Check(PreloadCase):
    def run_damaged(self, *args, check="edges,stale", **settings):
        run = self.run_program("damaged", *map(str, args), timeout=60, CHECK=check, RESERVE="0", **settings)
        self.assertEqual((run.status, run.out), (0, "end\n"), run.out + run.err)
        self.expect_clean(run)
        return run

    def found(self, run):
        """[(bytes, kind, offset)], one for each message about damage"""
        return [(int(count), kind, int(offset)) for count, kind, _, _, offset in LINE.findall(run.err)]

    def expect(self, run, fault):
        self.assertEqual(self.found(run), [fault] if fault else [], run.err)
        snapshot = run.snapshot()
        self.expect_valid(snapshot)
        self.assertEqual(stats_of(snapshot)["num_damages"], 1 if fault else 0)
        self.assertEqual([line for line in run.messages if "heap check" not in line and "snapshot written" not in line], [])

    def test_each_fault_with_each_type(self):
        for kind in KINDS:
            for memory in MEMORY:
                for (when, offset, count), fault in FAULTS.items():
                    with self.subTest(type=kind, memory=memory, when=when, offset=offset, bytes=count):
                        self.expect(self.run_damaged(memory, when, "memset", offset, count, TYPE=kind), fault)

    def test_each_way_of_writing(self):
        for how in WRITES:
            for memory in MEMORY:
                for when, fault in (("live", (8, EDGE, 3420)), ("later", (8, STALE, 0))):
                    with self.subTest(how=how, memory=memory, when=when):
                        self.expect(self.run_damaged(memory, when, how, 0, 8), fault)

    def test_legal_programs_are_not_reported(self):
        for kind in KINDS:
            for memory in MEMORY:
                for when in ("live", "later", "ending"):
                    for check in ("edges", "stale", "edges,stale=full"):
                        with self.subTest(type=kind, memory=memory, when=when, check=check):
                            self.expect(self.run_damaged(memory, when, "none", 0, 0, check=check, TYPE=kind), None)

    def test_a_write_right_after_the_free_is_found_where_the_free_waits(self):
        self.expect(self.run_damaged("malloc", "freed", "memset", 0, 12), (12, STALE, 0))
        self.expect(self.run_damaged("async", "freed", "stream", 0, 12), None)

    def test_large_blocks(self):
        size = 5 << 20
        for offset, full, places in ((0, True, True), (size - 8, True, True), (size // 2 + 4000, True, False)):
            with self.subTest(offset=offset):
                for check, is_found in (("stale=full", full), ("stale", places)):
                    run = self.run_damaged("malloc", "later", "memset", offset, 8, size, check=check)
                    self.expect(run, (8, STALE, offset) if is_found else None)

    def test_only_what_was_asked_for_is_found(self):
        self.expect(self.run_damaged("malloc", "live", "memset", 0, 8, check="stale"), None)
        self.expect(self.run_damaged("malloc", "later", "memset", 0, 8, check="edges"), None)

    def test_a_query_does_not_wait_for_a_search(self):
        for when, is_searched in (("queried", False), ("later", True)):
            run = self.run_damaged("async", when, "none", 0, 0)
            self.assertEqual("cuMemcpy2DAsync_v2" in run.calls(), is_searched, when)

    def test_the_owner_is_named(self):
        run = self.run_damaged("malloc", "live", "memset", 0, 1)
        self.assertEqual(LINE.search(run.err).group(3, 4), ("3420", "allocate"))

    def test_the_event_has_the_damaged_bytes_and_the_owner(self):
        snapshot = self.run_damaged("malloc", "live", "memset", 4, 12).snapshot()
        events = snapshot["events"]
        row = {name: events[name][events["action"].index(events["actions"].index("damage"))]
               for name in ("address", "size", "block", "detail")}
        alloc = events["block"].index(row["block"])
        self.assertEqual(events["actions"][events["action"][alloc]], "alloc")
        self.assertEqual(row["address"] - events["address"][alloc], 3424)
        self.assertEqual((row["size"], events["details"][row["detail"]]), (12, "edge"))

    @unittest.skipUnless(TOOL and os.environ["GP_SYMBOLS"] == "1", "names need the tool with symbols")
    def test_summary_names_the_lines_of_the_allocation_and_the_free(self):
        for memory in MEMORY:
            for when, what in (("live", "past the end"), ("later", "after the free")):
                with self.subTest(memory=memory, when=when):
                    (path,) = self.run_damaged(memory, when, "memset", 0, 12).snapshot_paths("exit")
                    result = subprocess.run([TOOL, "summary", "--json", path], check=True, stdout=subprocess.PIPE)
                    found = json.loads(result.stdout)["snapshots"][0]["findings"][0]
                    self.assertEqual((found["code"], found["severity"]), ("damage", "error"))
                    self.assertRegex(found["message"], r"12 bytes written %s of 1 block of main damaged\.c:\d+ through allocate: "
                                     r"3,420 bytes requested, damaged from offset [\d,]+ on; freed at \S+ \S+ by release "
                                     r"damaged\.c:\d+; found at " % what)
                    command = [TOOL, "leaks", "--error-exitcode=9", path]
                    self.assertEqual(subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode, 9)

    def test_abort(self):
        run = self.run_program("damaged", "malloc", "live", "memset", "0", "1", timeout=60, CHECK="edges,abort", RESERVE="0",
                               prefix=("sh", "-c", '"$@"; echo "status $?"', "sh"))
        self.assertEqual(run.out, "status %d\n" % (128 + signal.SIGABRT), run.err)
        self.assertIn("heap check: 1 byte written", run.err)
        self.assertEqual(run.snapshot("damage")["reason"], "damage")

    def test_without_the_pool_it_says_so(self):
        run = self.run_program("damaged", "malloc", "live", "none", "0", "0", timeout=60, CHECK="edges", TYPE="unpooled")
        self.assertIn("GPUPOOL_CHECK is ignored", run.err)


if __name__ == "__main__":
    unittest.main()
