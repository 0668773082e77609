"""The program's NVTX ranges and marks, in the snapshot beside its allocations."""

import os
import re
import subprocess
import unittest

from harness import LIBRARY, PROG, SIM, PreloadCase, rows_of, stats_of

TOOL = os.environ.get("GP_TOOL")
NVTX_TOOL = os.environ["GP_NVTX_TOOL"]
MIB = 1 << 20


def inside(snapshot):
    """{MiB: what its thread was in when it was allocated, from the outermost range inwards}, as the marks tell."""
    told = [(mark["time_ns"], 0, mark) for mark in snapshot["marks"]]
    told += [(row["time_ns"], 1, row) for row in rows_of(snapshot) if row["action"] == "alloc"]
    ranges, process, found = {}, {}, {}
    for _, is_allocation, item in sorted(told, key=lambda one: one[:2]):
        own = ranges.setdefault(item["thread"], [])
        if is_allocation:
            found.setdefault(item["size"] // MIB, []).append("/".join(list(process.values()) + own))
        elif item["kind"] == "push":
            own.append(item["name"])
        elif item["kind"] == "pop":
            own.pop()
        elif item["kind"] == "begin":
            process[item["scope"]] = item["name"]
        elif item["kind"] == "end":
            del process[item["scope"]]
    assert not any(ranges.values()) and not process, (ranges, process)
    return {size: places[0] if len(places) == 1 else places for size, places in found.items()}


@unittest.skipUnless(NVTX_TOOL, "no nvtx3/nvToolsExt.h")
class Nvtx(PreloadCase):
    def nvtx(self, case, loads=LIBRARY, following=None, status=0, **settings):
        prefix = ["env", "NVTX_INJECTION64_PATH=" + loads] + ["GPUPOOL_NVTX_NEXT=%s" % following] * bool(following)
        run = self.run_program("nvtx", case, prefix=prefix, **dict({"NVTX": "1"}, **settings))
        self.assertEqual(run.status, status, run.err)
        return run

    def test_ranges_of_a_thread(self):
        snapshot = self.nvtx("push").snapshot()
        self.expect_valid(snapshot)
        wide = "load/M\u00fcll \u4e2d \U0001f600"
        self.assertEqual(inside(snapshot), {1: "load", 2: wide, 3: wide + "/layer", 4: "load", 5: ""})

    def test_ranges_of_the_process(self):
        self.assertEqual(inside(self.nvtx("start").snapshot()),
                         {1: "epoch", 2: "epoch/worker", 3: "epoch", 4: "step", 5: ""})

    def test_domains_and_registered_strings(self):
        self.assertEqual(inside(self.nvtx("domain").snapshot()), {1: "Solver: iterate", 2: "Solver: check"})

    def test_moments(self):
        marks = self.nvtx("marks").snapshot()["marks"]
        self.assertEqual([(mark["kind"], mark["name"]) for mark in marks],
                         [("mark", "half"), ("mark", "nearly"), ("mark", "done")])

    def test_levels(self):
        run = self.nvtx("levels")
        self.assertEqual(run.out.splitlines(), ["push 0 1", "start two numbers", "pop 1 0, then none"])

    def test_a_child_has_no_ranges(self):
        (snapshot,) = map(os.path.basename, self.nvtx("fork").snapshot_paths("exit"))
        self.assertEqual([mark["name"] for mark in self.nvtx("fork").snapshot()["marks"]], ["parent", ""], snapshot)

    def test_only_if_asked_for(self):
        run = self.nvtx("push", NVTX="0")
        self.assertEqual(run.snapshot()["marks"], [])
        self.assertEqual(stats_of(run.snapshot())["allocation"]["current"], 5)

    def test_nvtx_has_to_load_the_library(self):
        run = self.run_program("nvtx", "push", NVTX="1")
        self.assertEqual(run.snapshot()["marks"], [])
        self.assertIn("GPUPOOL_NVTX=1 records no ranges without NVTX_INJECTION64_PATH=" + LIBRARY, run.err)

    def test_another_tool_in_its_place(self):
        run = self.nvtx("push", loads=NVTX_TOOL)
        self.assertEqual(run.snapshot()["marks"], [])
        self.assertIn("NVTX loads %s. gpupool run --nvtx loads both" % NVTX_TOOL, run.err)

    def test_the_next_tool_gets_all_calls(self):
        """Its results are the program's."""
        run = self.nvtx("levels", following=NVTX_TOOL)
        self.assertEqual(run.out.splitlines(), ["push 100 101", "start two numbers", "pop 101 100, then one", "the tool saw 2"])
        self.assertEqual([mark["name"] for mark in run.snapshot()["marks"] if mark["kind"] == "push"], ["outer", "inner"])
        run = self.nvtx("levels", following=NVTX_TOOL, NVTX="0")
        self.assertIn("the tool saw 2", run.out)
        self.assertEqual(run.snapshot()["marks"], [])

    def test_the_next_tool_is_missing(self):
        run = self.nvtx("levels", following="/nonexistent/tool.so")
        self.assertIn("GPUPOOL_NVTX_NEXT=/nonexistent/tool.so: ", run.err)
        self.assertEqual(len(run.snapshot()["marks"]), 8)

    @unittest.skipUnless(TOOL, "without the tool")
    def test_gpupool_run(self):
        output = os.path.join(self.folder, "out.json")
        for before, printed in ((None, "push 0 1"), (LIBRARY, "push 0 1"), (NVTX_TOOL, "push 100 101")):
            env = dict(os.environ, LD_LIBRARY_PATH=SIM)
            env.pop("NVTX_INJECTION64_PATH", None)
            if before:
                env["NVTX_INJECTION64_PATH"] = before
            result = subprocess.run([TOOL, "run", "--nvtx", "--output", output, "--", os.path.join(PROG, "nvtx"), "levels"], env=env,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, check=True, timeout=60)
            self.assertEqual(result.stdout.splitlines()[0], printed, result.stderr)
            self.assertNotIn("GPUPOOL_NVTX", result.stderr)

    @unittest.skipUnless(TOOL, "without the tool")
    def test_sites_by_phase(self):
        (path,) = self.nvtx("push").snapshot_paths("exit")
        result = subprocess.run([TOOL, "sites", "--by", "phase", "--sort", "live", path], stdout=subprocess.PIPE, universal_newlines=True,
                                check=True, timeout=60)
        rows = re.findall(r"^ *(\d+) MiB +\S+ +(\d+) MiB .* (load|layer|\(no phase\))$", result.stdout, re.M)
        self.assertEqual(sorted(rows), [("3", "3", "layer"), ("5", "10", "load"), ("5", "5", "(no phase)")])


if __name__ == "__main__":
    unittest.main(verbosity=2)
