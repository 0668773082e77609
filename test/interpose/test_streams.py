"""GPUPOOL_REUSE=epoch: memory comes back by facts about single streams, never too early, and without driver calls of the library's.
GPUPOOL_REUSE=single: at once while there is one stream."""

import os
import re
import shutil
import unittest

from harness import EPOCH, LIBRARY, UNSAFE_LIBRARY, PreloadCase, stats_of, trace_files

# What the program learns of its streams, and the library's own driver calls that reuse may then cost: none.
# Cases of the program copies, and whether cuMemcpyDtoH then says something of the default stream.
COPIES = {"pageable": True, "pinned": True, "registered": True, "managed": False, "device": False, "io": False, "pool": False,
          "from_pinned": False, "from_registered": False, "from_managed": False, "own_pageable": True, "own_managed": False,
          "own_pool": False}
FACTS = ("stream", "query", "event", "copy", "device")
OURS = ("cuCtxRecordEvent", "cuEventQuery", "cuEventRecord", "cuStreamQuery", "cuCtxSynchronize", "cuEventCreate")
MIB = 1 << 20

# What each ends the order of one stream by: the reason, and the library's own calls for what is owed then, which stand in front
# of the program's (behind it for a new context, and for a new stream, which has no work yet).
ORDER = ["cuEventCreate", "cuEventRecord", "cuStreamWaitEvent", "cuEventDestroy_v2"]
WAIT = ["cuCtxSynchronize"]
ENDS = {
    ("stream", "1"): ("epoch_stream", ["cuStreamCreate"] + ORDER + ["cuMemsetD8Async", "cuStreamCreateWithPriority"] +
                      ORDER + ["cuCtxSynchronize", "cuStreamCreate"]),
    ("stream", "0"): ("epoch_stream", ["cuStreamCreate", "cuMemsetD8Async", "cuStreamCreateWithPriority",
                                       "cuCtxSynchronize", "cuStreamCreate"]),
    ("per_thread",): ("epoch_per_thread", ["cuMemsetD8Async"]),
    ("context",): ("epoch_context", ["cuCtxCreate_v2"] + WAIT),
    ("peer",): ("epoch_peer", WAIT + ["cuCtxEnablePeerAccess"]),
    ("ipc",): ("epoch_export", WAIT + ["cuIpcGetMemHandle"]),
    ("attribute",): ("epoch_export", WAIT + ["cuPointerSetAttribute"]),
    ("capture",): ("epoch_capture", WAIT + ["cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphDestroy"]),
    ("programmatic",): ("epoch_programmatic", WAIT + ["cuLaunchKernelEx", "cuLaunchKernelEx"]),
}
ASIDE = {"cuCtxGetCurrent", "cuCtxGetId", "cuCtxGetDevice", "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "cuMemGetInfo_v2",
         "cuMemGetAddressRange_v2", "cuCtxSetCurrent"}


def modes(snapshot):
    events = snapshot["events"]
    return [events["details"][detail] for index, detail in zip(events["action"], events["detail"])
            if events["actions"][index] == "mode"]


def after(mode):
    """What follows `single`: `epoch`, for the reason in its name, or `context` in a build without it."""
    return mode if EPOCH else "context"


@unittest.skipUnless(EPOCH, "built without mode epoch")
class Streams(PreloadCase):
    def run_streams(self, way, rounds=50, **settings):
        run = self.run_program("streams", way, str(rounds), **settings)
        self.assertEqual(run.status, 0, run.out + run.err)
        self.expect_clean(run)
        return run

    def test_each_fact_brings_memory_back(self):
        """From the third round on nothing is allocated, and the driver gets the program's calls only."""
        for way in FACTS:
            with self.subTest(way=way):
                plain = self.run_streams(way, preload=None)
                run = self.run_streams(way, REUSE="epoch")
                stats = stats_of(run.snapshot())
                # The four blocks of a round's first half, of its second, and those that were freed after its facts.
                self.assertLessEqual(stats["driver_allocs"], 12)
                self.assertEqual(stats["cache_hits"] + stats["cache_misses"], 400)
                self.assertEqual((stats["fences"], stats["host_waits"]), (0, 0))
                for call in OURS if way != "query" else OURS[:3]:  # how often the program asks varies
                    self.assertEqual(run.calls().get(call, 0), plain.calls().get(call, 0), call)
                self.assertEqual(modes(run.snapshot()), ["epoch"])

    def test_copies_tell_of_the_default_stream_only_from_the_device_to_the_host(self):
        """A copy to managed memory or to a device may be pending when it returns, one between host and host is not ordered.
        Before 12.5 the streams are asked as well, and some tell in time."""
        rounds = 40
        for case, synchronous in COPIES.items():
            for driver in ("12040", "13000"):
                with self.subTest(case=case, driver=driver):
                    run = self.run_program("copies", case, str(rounds), driver=driver, REUSE="epoch", SIMCUDA_ORACLE="1")
                    again = r"\d+" if driver == "12040" and not synchronous else str(rounds if synchronous else 0)
                    self.assertEqual(run.status, 0, run.err)
                    self.assertRegex(run.out, r"^copies: %s: %s of %d again at once, 0 too early\n$" % (case, again, rounds))
                    self.expect_clean(run)

    def test_context_needs_facts_about_contexts(self):
        """The same program under `context`, so that the test above does not show something else."""
        stats = stats_of(self.run_streams("stream", REUSE="context").snapshot())
        self.assertGreater(stats["fences"], 0)

    def test_destroyed_streams_are_waited_for(self):
        for reuse in ("epoch", "context", "strict"):
            run = self.run_streams("destroy", REUSE=reuse, MAX_DEFERRED="1")
            self.assertGreater(stats_of(run.snapshot())["cache_hits"], 0)

    def test_launches_of_graphs_are_work(self):
        run = self.run_streams("graph", REUSE="epoch")
        self.assertEqual(modes(run.snapshot()), ["epoch"])

    def test_a_launch_that_waits_for_memory_first(self):
        """Making room for a graph ends with a synchronization of the library's: the launch comes after it, and is marked after."""
        for settings in ({"LIMIT": "400MiB"}, {"SIMCUDA_CAPACITY": "400MiB", "RESERVE": "0"}, {}):
            for reuse in ("epoch", "context", "strict"):
                with self.subTest(reuse=reuse, **settings):
                    run = self.run_program("graph_pending", REUSE=reuse, **settings)
                    self.assertEqual((run.status, run.out), (0, "graph_pending: in order\n"), run.err)

    def test_a_stream_of_unknown_origin_ends_the_mode(self):
        run = self.run_streams("hidden", REUSE="epoch", VERBOSE="1")
        self.assertEqual(modes(run.snapshot()), ["epoch", "context"])
        self.assertEqual(len([line for line in run.messages if "reuse mode is context" in line]), 1)

    def test_without_facts_deferred_memory_is_bounded(self):
        run = self.run_streams("none", rounds=200, virtual_clock=True, REUSE="epoch", MAX_DEFERRED="16MiB")
        stats = stats_of(run.snapshot())
        self.assertLessEqual(stats["reserved_bytes"]["peak"], 8 * MIB + 16 * MIB + 2 * MIB)

    def test_drivers_without_a_fence_are_asked_about_streams(self):
        """Before 12.5: the same without a wait of the host, by an event in each stream that has work."""
        plain = self.run_streams("none", rounds=200, preload=None, driver="12040")
        run = self.run_streams("none", rounds=200, virtual_clock=True, driver="12040", REUSE="epoch", MAX_DEFERRED="16MiB")
        stats = stats_of(run.snapshot())
        self.assertLessEqual(stats["reserved_bytes"]["peak"], 8 * MIB + 16 * MIB + 2 * MIB)
        self.assertEqual(run.calls().get("cuCtxSynchronize"), plain.calls().get("cuCtxSynchronize"))
        self.assertGreater(run.calls()["cuEventRecord"], 0)
        self.assertLessEqual(run.calls()["cuEventCreate"], plain.calls()["cuEventCreate"] + 4)  # one for each such stream
        self.assertGreater(stats["cache_hits"], stats["cache_misses"])

    def test_reuse_at_once_is_noticed(self):
        run = self.run_program("streams", "none", "50", preload=UNSAFE_LIBRARY, REUSE="epoch")
        self.assertNotEqual((run.sim["violations"], run.sim["corrupt_stamps"], run.status), (0, 0, 0))

    def test_real_programs(self):
        for path in trace_files()[:4]:
            for args in ((), ("--streams", "4"), ("--streams", "4", "--threads", "4"), ("--sync-every", "0"),
                         ("--api", "driver", "--streams", "3")):
                with self.subTest(args=args):
                    run = self.run_program("replay", "--check", "--strict", *args, path, REUSE="epoch")
                    self.assertEqual(run.status, 0, run.err)
                    self.expect_clean(run)

    def test_both_forms_of_a_fact_are_of_their_stream(self):
        for form in self.run_program("facts", preload=None).out.split():
            with self.subTest(form=form):
                run = self.run_program("facts", form, REUSE="epoch")
                self.assertEqual((run.status, run.out), (0, "again=%d\n" % (0 if "external" in form else 20)), run.err)
                self.expect_clean(run)

    def test_an_event_that_a_graph_may_record_tells_nothing(self):
        for way in self.run_program("graph_events", preload=None).out.split():
            with self.subTest(way=way):
                run = self.run_program("graph_events", way, REUSE="epoch")
                self.assertEqual((run.status, run.out), (0, "again=%d\n" % (20 if way in ("none", "wait_for") else 0)), run.err)
                self.expect_clean(run)

    def test_a_launch_that_names_no_stream_is_work_of_the_right_one(self):
        for form in self.run_program("launch_forms", preload=None).out.split():
            with self.subTest(form=form):
                run = self.run_program("launch_forms", form, REUSE="epoch")
                self.assertEqual((run.status, run.out), (0, "early=0\n"))
                self.expect_clean(run)
                self.assertGreater(stats_of(run.snapshot())["cache_hits"], 0)

    def test_every_program_behaves_as_without(self):
        for name in ("capture", "two_contexts", "per_thread", "contexts", "errors", "driver_linked", "static_route"):
            with self.subTest(program=name):
                plain = self.run_program(name, preload=None)
                run = self.run_program(name, REUSE="epoch")
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
        self.assertEqual(len([line for line in run.messages if "reuse mode is single" in line]), 1)

    def test_what_ends_it_is_paid_for_before_it_can_do_harm(self):
        for args, (reason, calls) in ENDS.items():
            with self.subTest(args=args):
                run = self.run_single(*args)
                self.assertEqual(self.between(run), calls)
                self.assertEqual(modes(run.snapshot())[:2], ["single", after(reason)])
                # Nothing is used again at once any more, unless the program went back to one stream, as after a capture.
                self.assertEqual(modes(run.snapshot())[2:], ["single"] if args == ("capture",) else [])
                if args != ("capture",):
                    self.assertGreater(run.moves[1], 1)
                self.assertEqual(len([line for line in run.messages if "reuse mode is %s from now on" % after("epoch") in line]), 1)

    def test_a_driver_that_refuses_to_order_is_waited_for(self):
        tail = ["cuMemsetD8Async", "cuStreamCreateWithPriority", "cuCtxSynchronize", "cuStreamCreate"]
        for i, call in enumerate(ORDER[:3]):
            run = self.run_single("stream", "1", SIMCUDA_FAIL=call + ":1@1")
            asked = ORDER[:i + 1] + (ORDER[3:] if i > 0 else [])
            self.assertEqual(self.between(run), ["cuStreamCreate"] + asked + WAIT + tail)

    def test_a_stream_that_cannot_be_put_in_order_is_not_given(self):
        run = self.run_program("single_stream", "stream", "1", log=True, REUSE="single",
                               SIMCUDA_FAIL="cuEventCreate:1@1,cuCtxSynchronize:709@1")
        self.assertEqual((run.status, run.out.splitlines()[-1]), (1, "cuStreamCreate(&stream, flags): 709"))
        self.assertEqual(run.calls()["cuStreamDestroy_v2"], 1)

    def test_work_past_the_marks_waits_for_what_is_owed(self):
        """A program that looks behind the library may work in streams that the library does not follow."""
        for what, before, work in (("launch", [], "cuMemsetD8Async"),
                                   ("graph", ["cuGraphCreate", "cuGraphInstantiate_v2"], "cuGraphLaunch")):
            with self.subTest(what=what):
                run = self.run_single("behind", what)
                calls = [call for call in self.between(run) if not call.startswith("cuGraphGet")]
                self.assertEqual(calls, before + WAIT + 2 * [work])

    def test_other_modes_wait(self):
        for reuse, mode in (("auto", "context"), ("context", "context"), ("epoch", after("epoch"))):
            run = self.run_single("none", REUSE=reuse)
            self.assertGreater(run.moves[0], 1)
            self.assertEqual(modes(run.snapshot()), [mode])

    def test_libraries_for_rdma(self):
        """One that is loaded later is seen when memory comes from the driver, or when the program asks about memory."""
        name = os.path.join(self.folder, "libibverbs.so.1")
        shutil.copy(os.environ["GP_TOOL_STUB"], name)
        run = self.run_single("library", name)
        self.assertEqual(self.between(run), WAIT + ["cuMemAlloc_v2"])
        self.assertEqual(modes(run.snapshot()), ["single", after("epoch_rdma")])
        run = self.run_single("library", name, TYPE="vmm")
        self.assertEqual(modes(run.snapshot()), ["single", after("epoch_rdma")])
        run = self.run_single("library", os.environ["GP_DRIVER_WAYS"])  # some other
        self.assertEqual(modes(run.snapshot()), ["single"])
        run = self.run_single("none", preload=LIBRARY + ":" + name)
        self.assertEqual(modes(run.snapshot()), [after("epoch")])
        self.assertGreater(run.moves[0], 1)


if __name__ == "__main__":
    unittest.main()
