"""Driver call N fails, host call N fails, for N = 1, 2, ...: no crash, no leak, the program sees what it would have."""

import itertools
import glob
import json
import os
import re
import subprocess
import unittest

from harness import LIBRARY, PreloadCase, QUICK, programs, stats_of, trace_files

FAIL_HOST = os.environ["GP_FAIL_HOST"]
TOO_MUCH = "100000000"  # for a device of ...
CAPACITY = "64MiB"
# Under a sanitizer a run takes many times as long, and the C library's functions are the sanitizer's.
SANITIZED = re.search(r"lib[at]san", subprocess.run(["readelf", "-d", LIBRARY], stdout=subprocess.PIPE,
                                                    universal_newlines=True, check=True).stdout)
STEP = 15 if QUICK else 7 if SANITIZED else 1
HOST_STEP = 9 if QUICK else 1
PAGE = 2 << 20  # of a device
ROWS = 40  # of the trace: enough for misses, hits and frees


class Scenario(PreloadCase):
    """The program test/prog/scenario.c, which touches everything."""

    leaks_are_errors = True

    def run_scenario(self, preload=LIBRARY, **settings):
        return self.run_program("scenario", TOO_MUCH, preload=preload, timeout=60, SIMCUDA_CAPACITY=CAPACITY, **settings)

    def outputs_of_one_failure(self, code):
        """Every output that the program has without the library when one of its calls fails."""
        calls = sum(self.run_scenario(preload=None).calls().values())
        outputs = set()

        def fail_call(n):
            outputs.add(self.run_scenario(preload=None, SIMCUDA_FAIL="*:%s@%d" % (code, n)).out)
        self.in_parallel(fail_call, range(calls + 1, 0, -1))
        return outputs

    def expect_no_leak(self, run, which):
        """The program has freed everything or destroyed its context: nothing of the pool's is left either. After an error
        that stays the library makes no call of its own, and stream-ordered memory outlives the context."""
        if "cuCtxDestroy_v2(context): 0" in run.out and "pooling stops" not in run.err:
            self.assertEqual(run.sim["current_bytes"][0], 0, which)

    def expect_snapshots_valid(self, run):
        for path in run.snapshot_paths():
            with open(path) as file:
                self.expect_valid(json.load(file), schema=False)

    def test_settings(self):
        """The scenario itself, under each setting: as without the library, and it does touch what it should."""
        plain = self.run_scenario(preload=None)
        for settings in ({}, {"TYPE": "naive"}, {"TYPE": "unpooled"}, {"REUSE": "strict"}, {"MAX_DEFERRED": "0"},
                         {"ASYNC": "plain"}, {"LIMIT": "60MiB"}, {"TRACE": "off"}, {"DISABLE": "1"}):
            for driver in ("11040", "12040", "13000"):
                with self.subTest(driver=driver, **settings):
                    run = self.run_scenario(SIMCUDA_DRIVER=driver, **settings)
                    self.assertEqual((run.status, run.out), (plain.status, plain.out))
                    self.expect_clean(run)
                    self.expect_no_leak(run, settings)
        # The device is smaller than the usual reserve, for which idle memory goes back.
        stats = stats_of(self.run_scenario(RESERVE="0").snapshot())
        self.assertGreater(stats["cache_hits"], 20)
        for name in ("passthrough_bytes", "deferred_bytes"):
            self.assertGreater(stats[name]["allocated"], 0)
        self.assertGreater(stats["num_ooms"], 0)

    def test_every_driver_call(self):
        """A failure of the library's own call does not show; one of the program's shows as it would without the library."""
        strict = {"REUSE": "strict", "SIMCUDA_DRIVER": "12040", "LIMIT": "60MiB"}
        codes = ("2", ({}, strict, {"ASYNC": "plain"})), ("999", ({}, {"REUSE": "strict"}))
        for code, variants in codes[:1] if QUICK else codes:
            legal = self.outputs_of_one_failure(code)
            for start, settings in enumerate(variants, 1):
                calls = sum(self.run_scenario(**settings).calls().values())
                self.assertGreater(calls, 200)

                def fail_call(n):
                    which = "call %d of %d, code %s, %s" % (n, calls, code, settings)
                    run = self.run_scenario(SIMCUDA_FAIL="*:%s@%d" % (code, n), **settings)
                    self.assertIn(run.status, (0, 1), which + run.err)
                    self.assertEqual((run.sim["violations"], run.sim["corrupt_stamps"]), (0, 0), which)
                    self.expect_no_leak(run, which)
                    self.expect_snapshots_valid(run)
                    if run.out not in legal:
                        self.fail("%s:\n%s" % (which, run.out))
                # Every call under the usual settings; of the others every third.
                step = 3 * STEP if settings and STEP == 1 else STEP
                self.in_parallel(fail_call, range(min(start, step), calls + 1, step))

    def test_every_driver_call_may_end_the_context(self):
        """Error 700 sticks to the context: whatever comes then, nothing may crash, hang, or be used too early."""
        calls = sum(self.run_scenario().calls().values())

        def end_context(n):
            run = self.run_scenario(SIMCUDA_FAIL="*:700@%d" % n)
            self.assertIn(run.status, (0, 1), "call %d" % n)
            self.assertEqual((run.sim["violations"], run.sim["corrupt_stamps"]), (0, 0), "call %d" % n)
            self.expect_snapshots_valid(run)
        self.in_parallel(end_context, range(1, calls + 1, STEP))

    def run_on_poor_host(self, n, **settings):
        number = next(self.numbers)
        notes = os.path.join(self.folder, "notes%d" % number)
        runtime = os.path.join(self.folder, "runtime%d" % number)
        os.mkdir(runtime, 0o700)
        os.environ.update(FAIL_HOST=str(n), FAIL_HOST_FILE=notes, XDG_RUNTIME_DIR=runtime)
        try:
            run = self.run_scenario(preload=FAIL_HOST + ":" + LIBRARY, LOG="log.txt", STATS="1", **settings)
        finally:
            del os.environ["FAIL_HOST"], os.environ["FAIL_HOST_FILE"], os.environ["XDG_RUNTIME_DIR"]
        with open(notes) as file:
            asked, refused = file.read().split()
        return run, int(asked), refused

    @unittest.skipIf(SANITIZED, "built with a sanitizer")
    def test_every_request_to_the_host(self):
        """Memory, files, handlers: the program notices nothing, the device is empty at the end, files are whole."""
        plain = self.run_scenario(preload=None)
        refusals = set()
        for settings in ({}, {"TYPE": "naive", "LIMIT": "0=60MiB", "TRACE_EVENTS": "1024"}, {"VERBOSE": "2", "REUSE": "strict"},
                         {"SNAPSHOT_AT": "exit,oom,signal:USR1", "CONTROL": "1"}):
            _, requests, _ = self.run_on_poor_host(0, **settings)
            self.assertGreater(requests, 15)
            step = HOST_STEP if HOST_STEP > 1 or len(settings) != 1 else 3  # few lines differ for one setting
            for n in range(1, requests + 1, step):
                run, _, refused = self.run_on_poor_host(n, **settings)
                which = "request %d of %d, a %s; %s" % (n, requests, refused, settings)
                self.assertNotEqual(refused, "nothing", which)
                refusals.add(refused)
                self.assertEqual((run.status, run.out), (plain.status, plain.out), which)
                self.assertEqual((run.sim["violations"], run.sim["corrupt_stamps"]), (0, 0), which)
                self.expect_no_leak(run, which)
                self.expect_snapshots_valid(run)
                self.assertEqual(glob.glob(os.path.join(run.folder, ".*")), [], which)
                self.assertEqual(glob.glob(os.path.join(self.folder, "runtime*", "gpupool", "[!.]*")), [], which)
        if HOST_STEP > 1:
            return
        self.assertGreaterEqual(refusals, {"malloc", "calloc", "mmap64", "open", "write", "pthread_key_create",
                                           "__register_atfork", "madvise", "pthread_create", "socket", "bind", "listen", "mkdir", "opendir", "syscall", "__cxa_at_quick_exit"})


class PageLocked(PreloadCase):
    """Page-locked memory beside its limit: what the driver refused, or the program freed, counts no more."""

    CALLS = {"host": ("cuMemHostAlloc", "cuMemFreeHost"), "registered": ("cuMemHostRegister", "cuMemHostUnregister"),
             "vmm_host": ("cuMemCreate", "cuMemRelease")}
    MIB = 1 << 20

    def test_the_limit_after_each_failure(self):
        for kind, (allocate, free) in self.CALLS.items():
            commands = ("%s:%d:5" % (kind, 8 * self.MIB), "%s:%d:3" % (kind, 8 * self.MIB), "%s:%d:20" % (kind, 8 * self.MIB))
            name = next(call for call in self.run_program("memory_kinds", *commands).calls() if call.startswith(allocate))
            for n, code in itertools.product(range(1, 10), ("2", "304", "700")):
                which = "%s:%s@%d" % (name, code, n)
                run = self.run_program("memory_kinds", *commands, HOST_LIMIT="64MiB", SIMCUDA_FAIL=which)
                got = [int(count) for count in re.findall(r"^\w+: (\d+) of", run.out, re.M)]
                if code != "700":  # which may stay
                    self.assertEqual(sum(got), 8, which + run.out)
                if sum(got):
                    self.assertEqual(stats_of(run.snapshot())["pinned_host_bytes"]["current"], sum(got) * 8 * self.MIB, which)


class FalseAnswers(PreloadCase):
    """The driver says once that a context has ended which has not. test/prog/held.c calls none of these functions."""

    OWN = ("cuEventQuery", "cuEventRecord", "cuEventCreate", "cuCtxRecordEvent", "cuStreamQuery", "cuStreamWaitEvent",
           "cuCtxSynchronize", "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "cuMemGetInfo_v2",
           "cuDevicePrimaryCtxGetState")
    ENDED = ("201", "709")  # CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_CONTEXT_IS_DESTROYED
    MOST = 2 if QUICK else 5  # of the calls of one function

    def test_a_context_stays_that_has_not_ended(self):
        """The blocks that the program holds are freed, each once, and those that the pool has stay the pool's."""
        plain = self.run_program("held", preload=None)
        rows = (("13000", {}), ("13000", {"TYPE": "segment", "MAX_DEFERRED": "0"}), ("13000", {"TYPE": "vmm"}),
                ("12040", {"TYPE": "segment"}), ("11080", {}))
        asked = set()
        for driver, settings in rows:
            usual = self.run_program("held", driver=driver, **settings)
            self.assertEqual(usual.out, plain.out)
            calls = [(name, n) for name in self.OWN for n in range(1, min(usual.calls().get(name, 0), self.MOST) + 1)]
            asked |= {name for name, _ in calls}

            def fail_call(fault):
                for code in self.ENDED:
                    name, n = fault
                    which = "%s:%s@%d, driver %s, %s" % (name, code, n, driver, settings)
                    run = self.run_program("held", driver=driver, log=True, SIMCUDA_FAIL="%s:%s@%d" % (name, code, n),
                                           **settings)
                    self.assertEqual((run.status, run.out), (0, plain.out), which)
                    self.assertEqual((run.sim["violations"], run.sim["corrupt_stamps"]), (0, 0), which)
                    with open(run.log) as file:
                        self.assertEqual(re.findall(r"^.*cuMemFree_v2 .*=[1-9]\d*$", file.read(), re.M), [], which)
                    stats = stats_of(run.snapshot())
                    self.assertEqual(stats["reserved_bytes"]["current"], run.sim["current_bytes"][0], which)
            self.in_parallel(fail_call, calls)
        self.assertGreaterEqual(asked, {"cuEventQuery", "cuCtxRecordEvent", "cuEventCreate",
                                        "cuDevicePrimaryCtxGetState"})


    def test_the_programs_context_stays_current(self):
        plain = self.run_program("two_contexts", preload=None)
        for settings in {"MAX_DEFERRED": "0"}, {"ASYNC": "plain"}:
            whole = self.run_program("two_contexts", log=True, **settings)
            pops = whole.calls()["cuCtxPopCurrent_v2"]
            with open(whole.log) as file:  # a pop that fails later would take the program's own entry
                steps = re.findall(r"^cuCtx(Get|Set|Push)Current\S* (c\d+)=0$", file.read(), re.M)
            self.assertEqual([step for before, step in zip(steps, steps[1:]) if step == ("Push", before[1])], [])
            for n, code in itertools.product(range(1, pops + 1), self.ENDED):
                run = self.run_program("two_contexts", SIMCUDA_FAIL="cuCtxPopCurrent_v2:%s@%d" % (code, n), **settings)
                self.assertEqual((run.status, run.out), (0, plain.out), "pop %d, code %s, %s" % (n, code, settings))


class RandomFaults(PreloadCase):
    """test/prog/random_faults.c: any call fails at random, with any code; graphs and a second context included."""

    PROGRAMS = 6 if QUICK else 60
    SETTINGS = ({}, {"TYPE": "segment"}, {"TYPE": "vmm"}, {"TYPE": "naive"}, {"REUSE": "strict"},
                {"ASYNC": "plain", "MAX_DEFERRED": "0"})

    def test_each_block_stays_its_owner_s(self):
        freed, failed = [], []

        def run_one(seed):
            settings = self.SETTINGS[seed % len(self.SETTINGS)]
            driver = ("13000", "12040", "11080")[seed // len(self.SETTINGS) % 3]
            which = "seed %d, driver %s, %s" % (seed, driver, settings)
            try:
                run = self.run_program("random_faults", str(seed), driver=driver, check_books=False, SIMCUDA_SEED=str(seed),
                                       SIMCUDA_FAIL="*:*@1/%d" % (60, 150, 400)[seed // 7 % 3], SIMCUDA_ORACLE="1",
                                       **settings)
            except AssertionError as error:  # it died
                failed.append("%s: %s" % (which, error))
                return
            if run.status != 0 or run.sim["violations"] or run.sim["corrupt_stamps"]:
                failed.append("%s: status %d, %s%s" % (which, run.status, run.sim, run.out))
            else:
                freed.append(run.field("frees") - run.field("dead"))
        seeds = programs(self.PROGRAMS)
        self.in_parallel(run_one, seeds)
        self.assertEqual(failed, [])
        self.assertGreater(sum(freed), 30 * len(seeds))


class Replay(PreloadCase):
    def setUp(self):
        super().setUp()
        with open(trace_files()[0]) as file:
            header = file.readline()
            live, rows = [], []
            for i in range(ROWS):
                rows.append("A,%d,%d,%d\n" % (i, 1000 * (i % 7 + 1), i % 2))
                live.append(i)
                if i % 3 == 2:
                    rows.append("F,%d,0,0\n" % live.pop(0))
        self.trace = os.path.join(self.folder, "small.csv")
        with open(self.trace, "w") as file:
            file.write(header + "".join(rows))

    def test_every_driver_call(self):
        args = ("--check", "--sync-every", "8", self.trace)
        calls = sum(self.run_program("replay", *args).calls().values())
        self.assertGreater(calls, 300)
        outcomes = set()
        for code in ("2", "999"):
            def fail_call(n):
                run = self.run_program("replay", *args, SIMCUDA_FAIL="*:%s@%d" % (code, n))
                self.assertIn(run.status, (0, 1, 3), "call %d: %s" % (n, run.err))
                self.assertEqual(run.sim["violations"], 0, "call %d" % n)
                outcomes.add(run.status)
                snapshots = run.snapshot_paths("exit")
                if snapshots and run.status == 0 and code == "2":
                    snapshot = run.snapshot()
                    # Small blocks share pages of the driver.
                    pages = {segment["address"] // PAGE for segment in snapshot["segments"]}
                    self.assertEqual(len(pages) * PAGE, run.sim["current_bytes"][0], "call %d" % n)
                    self.assertEqual(stats_of(snapshot)["allocation"]["current"], 0, "call %d" % n)
            self.in_parallel(fail_call, range(1, calls + 1, STEP if code == "2" else 5 * STEP))
        self.assertIn(0, outcomes)

    def test_the_program_sees_the_drivers_code(self):
        """An allocation that fails with something else than out of memory is not retried or renamed."""
        for code, name in (("101", "invalidDevice"), ("214", "ECC"), ("801", "otSupported")):
            for api in ("runtime", "driver"):
                with self.subTest(code=code, api=api):
                    fault = "cuMemAlloc_v2:%s@3" % code
                    plain = self.run_program("replay", "--api", api, self.trace, preload=None, SIMCUDA_FAIL=fault)
                    run = self.run_program("replay", "--api", api, self.trace, SIMCUDA_FAIL=fault)
                    self.assertEqual(run.status, plain.status)
                    last = [line for line in plain.err.splitlines() if "gpupool" not in line][-1:]
                    self.assertEqual([line for line in run.err.splitlines() if not line.startswith("gpupool: ")][-1:],
                                     last)
                    self.assertEqual(run.calls()["cuMemAlloc_v2"], 3)

    def test_one_failed_allocation_is_tried_again(self):
        """A driver that is out of memory once: the pool gives back and tries again, the program never learns."""
        run = self.run_program("replay", "--check", trace_files()[0], SIMCUDA_FAIL="cuMemAlloc_v2:2@300")
        self.assertEqual(run.status, 0)
        self.assertEqual(run.field("failed"), 0)
        self.assertGreater(stats_of(run.snapshot())["num_alloc_retries"], 0)


if __name__ == "__main__":
    unittest.main()
