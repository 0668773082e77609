"""GPUPOOL_REUSE=single: memory comes back at once while there is one stream. And streams in the other modes."""

import os
import re
import shutil
import unittest

from harness import LIBRARY, UNSAFE_LIBRARY, PreloadCase, stats_of, trace_files

MIB = 1 << 20

# What each ends the order of one stream by, and the library's own calls for what is owed then, which stand in front of the
# program's (behind it for a new context, which has no work yet).
# The fence is not there yet when it is asked first (NOT_THERE).
LOOK = ["cuEventCreate", "cuEventRecord", "cuEventQuery"]
ORDER = LOOK + ["cuStreamWaitEvent"]
WAIT = LOOK + ["cuEventQuery"]
NOT_THERE = "cuEventQuery:600@1"
ENDS = {
    ("stream", "1"): ["cuStreamCreate"] + ORDER + ["cuMemsetD8Async", "cuStreamCreateWithPriority", "cuCtxSynchronize",
                                                   "cuStreamCreate"],
    ("stream", "0"): ["cuStreamCreate"] + LOOK + ["cuMemsetD8Async", "cuStreamCreateWithPriority", "cuCtxSynchronize",
                                                  "cuStreamCreate"],
    ("per_thread", "handle"): LOOK + ["cuMemsetD8Async"],
    ("per_thread", "ptsz"): LOOK + ["cuMemsetD8Async_ptsz"],
    ("ordered",): ["cuStreamCreate"] + ORDER + ["cuMemAllocAsync"],
    ("context",): ["cuCtxCreate_v2"] + WAIT,
    ("peer",): WAIT + ["cuCtxEnablePeerAccess"],
    ("ipc",): WAIT + ["cuIpcGetMemHandle"],
    ("attribute",): WAIT + ["cuPointerSetAttribute"],
    ("capture",): WAIT + ["cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphDestroy"],
    ("programmatic",): WAIT + ["cuLaunchKernelEx", "cuLaunchKernelEx"],
}
ASIDE = {"cuCtxGetCurrent", "cuCtxGetId", "cuCtxGetDevice", "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "cuMemGetInfo_v2",
         "cuMemGetAddressRange_v2", "cuCtxSetCurrent", "cuStreamGetFlags", "cuDeviceGetAttribute"}


def modes(snapshot):
    events = snapshot["events"]
    return [events["details"][detail] for index, detail in zip(events["action"], events["detail"])
            if events["actions"][index] == "mode"]


class Streams(PreloadCase):
    def run_streams(self, way, rounds=50, **settings):
        run = self.run_program("streams", way, str(rounds), **settings)
        self.assertEqual(run.status, 0, run.out + run.err)
        self.expect_clean(run)
        return run

    def test_destroyed_streams_are_waited_for(self):
        for reuse in ("context", "strict"):
            run = self.run_streams("destroy", REUSE=reuse, MAX_DEFERRED="1")
            self.assertGreater(stats_of(run.snapshot())["cache_hits"], 0)

    def test_a_launch_that_waits_for_memory_first(self):
        """Making room for a graph ends with a synchronization of the library's: the launch comes after it."""
        for settings in ({"LIMIT": "400MiB"}, {"SIMCUDA_CAPACITY": "400MiB", "RESERVE": "0"}, {}):
            for reuse in ("single", "context", "strict"):
                with self.subTest(reuse=reuse, **settings):
                    run = self.run_program("graph_pending", REUSE=reuse, **settings)
                    self.assertEqual((run.status, run.out), (0, "graph_pending: in order\n"), run.err)

    def test_reuse_at_once_is_noticed(self):
        run = self.run_program("streams", "none", "50", preload=UNSAFE_LIBRARY)
        self.assertNotEqual((run.sim["violations"], run.sim["corrupt_stamps"], run.status), (0, 0, 0))

    def test_real_programs(self):
        for path in trace_files()[:4]:
            for args in ((), ("--streams", "4"), ("--streams", "4", "--threads", "4"), ("--sync-every", "0"),
                         ("--api", "driver", "--streams", "3")):
                with self.subTest(args=args):
                    run = self.run_program("replay", "--check", "--strict", *args, path, REUSE="single")
                    self.assertEqual(run.status, 0, run.err)
                    self.expect_clean(run)

    def test_a_launch_that_names_no_stream_is_work_of_the_right_one(self):
        for form in self.run_program("launch_forms", preload=None).out.split():
            with self.subTest(form=form):
                run = self.run_program("launch_forms", form, REUSE="single")
                self.assertEqual((run.status, run.out), (0, "early=0\n"))
                self.expect_clean(run)
                self.assertGreater(stats_of(run.snapshot())["cache_hits"], 0)

    def test_every_program_behaves_as_without(self):
        for name in ("capture", "two_contexts", "per_thread", "contexts", "errors", "driver_linked", "static_route"):
            with self.subTest(program=name):
                plain = self.run_program(name, preload=None)
                run = self.run_program(name, REUSE="single")
                self.assertEqual((run.status, re.sub(r"0x\w+", "", run.out)), (plain.status, re.sub(r"0x\w+", "", plain.out)))
                self.expect_clean(run)


class OneStream(PreloadCase):
    """Programs whose work is all in the default stream, for a while."""

    def run_single(self, *args, **settings):
        run = self.run_program("single_stream", *args, log=True, **dict({"REUSE": "single", "VERBOSE": "1"}, **settings))
        self.assertEqual(run.status, 0, run.out + run.err)
        self.expect_clean(run)
        with open(run.log) as file:
            run.log_calls = [line.split()[0] for line in file]
        run.moves = [int(moves) for moves in re.findall(r"^moves=(\d+)$", run.out, re.M)]
        return run

    def calls_between(self, *args, **settings):
        """The same where work runs as soon as it can: what is waited for is over at the next question."""
        return self.between(self.run_single(*args, SIMCUDA_PACE="at-once", **settings))

    def between(self, run):
        """The driver's calls between the first rounds and the second ones, but for questions about the context."""
        begin = run.log_calls.index("cuMemFreeHost") + 1
        end = run.log_calls.index("cuMemHostAlloc", begin)
        return [call for call in run.log_calls[begin:end] if call not in ASIDE]

    def test_memory_is_used_again_at_once_without_a_call(self):
        run = self.run_single("none")
        self.assertEqual(run.moves, [1, 1])  # one block, at one address
        self.assertEqual(stats_of(run.snapshot())["reserved_bytes"]["peak"], 2 * MIB)
        rounds = run.log_calls[run.log_calls.index("cuMemHostAlloc") + 1:run.log_calls.index("cuMemFreeHost")]
        rounds = [call for call in rounds if call not in ASIDE]
        self.assertEqual(rounds, ["cuMemAlloc_v2"] + 20 * ["cuMemsetD8Async"])
        self.assertEqual(modes(run.snapshot()), ["single"])

    def test_what_ends_it_is_paid_for_before_it_can_do_harm(self):
        for args, calls in ENDS.items():
            with self.subTest(args=args):
                self.assertEqual(self.calls_between(*args, SIMCUDA_FAIL=NOT_THERE), calls)
                run = self.run_single(*args, SIMCUDA_FAIL=NOT_THERE)
                self.assertEqual(modes(run.snapshot()), ["single", "context"])
                self.assertGreater(run.moves[1], 1)
                self.assertEqual(len([line for line in run.messages if "reuse mode is context from now on" in line]), 1)

    def test_streams_without_work_end_nothing(self):
        run = self.run_single("idle_streams")
        self.assertEqual(run.moves, [1, 1])
        self.assertEqual(modes(run.snapshot()), ["single"])

    def test_a_driver_that_refuses_to_order_is_waited_for(self):
        tail = ENDS["stream", "1"][1 + len(ORDER):]
        for i, call in enumerate(ORDER):
            failing = call + ":1@1" + ("," + NOT_THERE if call == "cuStreamWaitEvent" else "")
            calls = self.calls_between("stream", "1", SIMCUDA_FAIL=failing)
            waits = ["cuEventQuery"] if call == "cuStreamWaitEvent" else ["cuCtxSynchronize"]
            self.assertEqual(calls, ["cuStreamCreate"] + ORDER[:i + 1] + waits + tail)

    def test_a_context_is_waited_for_while_another_one_is_current(self):
        """The driver's wait is for the current one."""
        run = self.run_single("context", SIMCUDA_FAIL="cuEventRecord:1@1")
        wait = run.log_calls.index("cuCtxSynchronize")
        self.assertEqual(run.log_calls[wait - 1:wait + 2],
                         ["cuCtxPushCurrent_v2", "cuCtxSynchronize", "cuCtxPopCurrent_v2"])

    def test_a_default_stream_without_work_costs_other_streams_nothing(self):
        self.assertEqual(self.calls_between("stream", "1"), ["cuStreamCreate"] + LOOK + ENDS["stream", "1"][1 + len(ORDER):])

    def test_work_past_the_stubs_waits_for_what_is_owed(self):
        """A program that looks behind the library may work in streams that the library does not follow."""
        for what, before, work in (("launch", [], "cuMemsetD8Async"),
                                   ("graph", ["cuGraphCreate", "cuGraphInstantiate_v2"], "cuGraphLaunch")):
            with self.subTest(what=what):
                calls = self.calls_between("behind", what, SIMCUDA_FAIL=NOT_THERE)
                calls = [call for call in calls if not call.startswith("cuGraphGet")]
                self.assertEqual(calls, before + WAIT + 2 * [work])

    def test_other_modes_wait(self):
        for reuse, mode in (("auto", "context"), ("context", "context")):
            run = self.run_single("none", REUSE=reuse)
            self.assertGreater(run.moves[0], 1)
            self.assertEqual(modes(run.snapshot()), [mode])

    def test_libraries_for_rdma(self):
        """One that is loaded later is seen when memory comes from the driver, or when the program asks about memory."""
        name = os.path.join(self.folder, "libibverbs.so.1")
        shutil.copy(os.environ["GP_TOOL_STUB"], name)
        self.assertEqual(self.calls_between("library", name, SIMCUDA_FAIL=NOT_THERE), WAIT + ["cuMemAlloc_v2"])
        run = self.run_single("library", name, SIMCUDA_FAIL=NOT_THERE)
        self.assertEqual(modes(run.snapshot()), ["single", "context"])
        run = self.run_single("library", name, TYPE="vmm")
        self.assertEqual(modes(run.snapshot()), ["single", "context"])
        run = self.run_single("library", os.environ["GP_DRIVER_WAYS"])  # some other
        self.assertEqual(modes(run.snapshot()), ["single"])
        run = self.run_single("none", preload=LIBRARY + ":" + name)
        self.assertEqual(modes(run.snapshot()), ["context"])
        self.assertGreater(run.moves[0], 1)


if __name__ == "__main__":
    unittest.main()
