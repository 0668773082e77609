"""Contexts come into use, end, and come back under the same handle: whose work is waited for, and whose memory it is."""

import os
import itertools
import unittest

from harness import LIBRARY, PreloadCase, UNSAFE_LIBRARY, stats_of

WAYS = os.environ["GP_DRIVER_WAYS"]

SEEDS = ("1", "2", "3", "4")
COME_INTO_USE = ("push", "push_v1", "set", "create", "create_v3", "create_v4", "unseen")


class Waits(PreloadCase):
    leaks_are_errors = True

    def expect_copy(self, *args, **settings):
        run = self.run_program("waits", *args, timeout=60, **settings)
        self.assertEqual((run.status, run.out), (0, "the copy holds 1\n"), run.err)
        self.expect_clean(run)

    def test_a_wait_happens_in_the_context_it_is_for(self):
        """Freed while another context is current. Before 12.5 there is no fence: the host waits."""
        for settings in ({"REUSE": "strict"}, {"MAX_DEFERRED": "0"}):
            for driver in ("12040", "13000"):
                for seed in SEEDS:
                    with self.subTest(driver=driver, seed=seed, **settings):
                        self.expect_copy("free", SIMCUDA_DRIVER=driver, SIMCUDA_SEED=seed, **settings)

    def test_a_context_is_waited_for_while_another_one_is_current(self):
        """Before 12.5, where memory is out. The driver's wait is for the current context."""
        run = self.run_program("two_contexts", log=True, SIMCUDA_DRIVER="12040", SIMCUDA_CAPACITY="40MiB", RESERVE="0")
        self.assertEqual((run.status, run.out), (0, "the copy holds 1\n"), run.err)
        with open(run.log) as file:
            calls = [line.split()[0] for line in file]
        wait = calls.index("cuCtxSynchronize")
        self.assertEqual(calls[wait - 1:wait + 2], ["cuCtxPushCurrent_v2", "cuCtxSynchronize", "cuCtxPopCurrent_v2"])

    def test_every_context_in_use_is_waited_for(self):
        for how in COME_INTO_USE:
            for driver in ("11040", "12040", "13000"):
                for seed in SEEDS:
                    with self.subTest(how=how, driver=driver, seed=seed):
                        self.expect_copy(how, SIMCUDA_DRIVER=driver, SIMCUDA_SEED=seed)

    def test_the_programs_notice(self):
        """Without the rules of reuse the copy is of the next owner's memory."""
        for how in ("free",) + COME_INTO_USE:
            with self.subTest(how=how):
                runs = [self.run_program("waits", how, preload=UNSAFE_LIBRARY, SIMCUDA_SEED=seed) for seed in SEEDS]
                self.assertTrue(any(run.status != 0 or run.sim["corrupt_stamps"] for run in runs))


class Questions(PreloadCase):
    """What each call asks the driver about the current context."""

    leaks_are_errors = True

    def calls_a_visit(self, contexts, **settings):
        """Driver calls in a visit of a context that is known: those of later rounds, over the visits."""
        counts = []
        for rounds in (4, 12):
            run = self.run_program("in_turn", str(contexts), str(rounds), **settings)
            self.assertEqual((run.status, run.out), (0, ""), run.err)
            self.expect_clean(run)
            counts.append(run.calls())
        names = ("cuCtxGetId", "cuCtxGetCurrent", "cuCtxGetDevice")
        return [(counts[1].get(name, 0) - counts[0].get(name, 0)) / (8 * contexts) for name in names]

    def test_one_question_a_call(self):
        """cuCtxSetCurrent, cuMemAlloc and cuCtxSynchronize ask for the id. cuMemFree trusts the handle, and so does the
        driver's free, in the block's context."""
        for contexts in (1, 4):
            with self.subTest(contexts=contexts):
                self.assertEqual(self.calls_a_visit(contexts, TYPE="unpooled"), [3, 2, 0])

    def test_a_driver_without_ids(self):
        self.assertEqual(self.calls_a_visit(1, TYPE="unpooled", driver="11020"), [0, 5, 0])

    def test_more_contexts_than_are_remembered(self):
        """Ids that differ by what the table of records holds share a place there: no memory of another context."""
        for contexts in (17, 24):
            with self.subTest(contexts=contexts):
                run = self.run_program("in_turn", str(contexts), "4")
                self.assertEqual((run.status, run.out), (0, ""), run.err)
                self.expect_clean(run)
                self.expect_valid(run.snapshot())


class Contextless(PreloadCase):
    """Calls that need no context may have the library ask the driver what is complete."""

    leaks_are_errors = True

    def test_a_fence_asked_without_a_context_loses_none(self):
        for case, call in (("record", "cuCtxRecordEvent"), ("query", "cuEventQuery")):
            with self.subTest(case=case):
                run = self.run_program("contextless", case, LIMIT="64MiB", log=True)
                self.assertEqual((run.status, run.out), (0, "physical memory: 0\n"), run.err)
                self.expect_clean(run)
                snapshot = run.snapshot()
                self.expect_valid(snapshot)
                self.assertGreater(run.calls().get(call, 0), 0)
                self.assertEqual(stats_of(snapshot)["allocated_bytes"]["current"], 16 << 20)


# case of context_life -> hits: two in the first use() of a context, three in each further one, none while another context
# is known that does not synchronize
HITS = {"created_v1": 4, "destroyed": 2, "detached_last": 4, "detached_first": 5, "reset_beside": 5, "primary_again": 15,
        "destroy_refused": 5, "reset_unseen": 4, "green_current": 3, "green_stream": 5, "green_last": 7}


class Ends(PreloadCase):
    """Memory ends with its context, and with no other."""

    leaks_are_errors = True

    def test_every_end(self):
        self.assertEqual(set(self.run_program("context_life", preload=None).out.split()), set(HITS))
        for case in HITS:
            for driver in ("11040", "12040", "13000"):
                if driver == "11040" and case == "detached_first":
                    continue  # without ids a detached context passes for destroyed: what was cached is lost to it
                with self.subTest(case=case, driver=driver):
                    plain = self.run_program("context_life", case, preload=None, SIMCUDA_DRIVER=driver)
                    run = self.run_program("context_life", case, SIMCUDA_DRIVER=driver)
                    self.assertEqual((run.status, run.out), (0, plain.out))
                    self.assertIn(": 0\n", plain.out)
                    self.expect_clean(run)
                    snapshot = run.snapshot()
                    self.expect_valid(snapshot)
                    stats = stats_of(snapshot)
                    held = stats["reserved_bytes"]["current"] + stats["passthrough_bytes"]["current"]
                    self.assertEqual(held, run.sim["current_bytes"][0])
                    kept = stats["cached_bytes"]["current"] + stats["deferred_bytes"]["current"]
                    self.assertEqual(held - kept, plain.sim["current_bytes"][0])
                    if driver == "13000":  # fences learn of more
                        self.assertGreaterEqual(stats["cache_hits"], HITS[case])
                    else:
                        self.assertEqual(stats["cache_hits"], HITS[case])
                    self.assertEqual(run.messages, [])

    def test_a_green_context_whose_end_fails(self):
        """It stays known, and its memory with the primary context."""
        fail = "cuGreenCtxDestroy:999@1"
        plain = self.run_program("context_life", "green_current", preload=None, SIMCUDA_FAIL=fail)
        run = self.run_program("context_life", "green_current", SIMCUDA_FAIL=fail)
        self.assertEqual((run.status, run.out), (plain.status, plain.out))
        self.assertIn("cuGreenCtxDestroy(green): 999", run.out)
        self.expect_clean(run)
        self.assertGreaterEqual(stats_of(run.snapshot())["cache_hits"], HITS["green_current"])

    def test_access_of_a_peer_to_memory_that_is_there(self):
        """Of type vmm the library gives it itself: to its one allocation of the driver."""
        for driver, device in (("12050", "0"), ("13000", "0"), ("13000", "1")):
            given = []
            for way in ("none", "late"):
                run = self.run_program("peers", way, device, driver=driver, TYPE="vmm", SIMCUDA_DEVICES="2")
                self.assertEqual((run.status, run.out), (0, ""), run.err)
                self.expect_clean(run)
                given.append(run.calls()["cuMemSetAccess"])
            self.assertEqual(given[1], given[0] + 1, (driver, device))

    def test_who_may_use_memory_in_stream_order(self):
        """As natively: devices to which the pool gives access, before or after the allocation; other contexts of the device;
        after the end of the context in whose stream it was asked for. With plain memory only what the table in
        doc/stream-ordered.md says."""
        plain = {"peer_after", "peer_again", "another_context", "an_earlier_context", "ended"}
        gaps = {("round", "plain"): plain, ("naive", "plain"): plain, ("segment", "plain"): plain, ("vmm", "plain"): {"ended"},
                ("segment", "pool"): {"peer_after", "peer_again", "an_earlier_context"}}
        for case in self.run_program("async_access", preload=None).out.split():
            native = self.run_program("async_access", case, preload=None, SIMCUDA_DEVICES="2", SIMCUDA_ACCESS="1")
            self.assertEqual((native.status, native.out), (0, ""), native.err)
            self.assertEqual(native.sim["violations"], int(case == "peer_without"), native.err)
            for kind, mode in itertools.product(("round", "naive", "segment", "vmm", "unpooled"), ("pool", "plain", "driver")):
                with self.subTest(case, kind=kind, mode=mode):
                    run = self.run_program("async_access", case, TYPE=kind, ASYNC=mode, SIMCUDA_DEVICES="2",
                                           SIMCUDA_ACCESS="1", check_books=False)
                    found = (run.status, run.out, run.sim["violations"])
                    (self.assertNotEqual if case in gaps.get((kind, mode), ()) else self.assertEqual)(
                        found, (0, "", native.sim["violations"]), run.err)

    def test_addresses_go_back_with_their_context(self):
        """Of type vmm the library reserves them, and another context may be given the same."""
        run = self.run_program("contexts", TYPE="vmm", SIMCUDA_DEVICES="2", log=True)
        self.expect_clean(run)
        with open(run.log) as file:
            ends = [line.rstrip() for line in file if line.startswith("cuMemAddressFree")]
        self.assertTrue(ends)
        self.assertEqual([line for line in ends if not line.endswith("=0")], [])

    def test_an_end_that_no_hook_sees(self):
        """The same handle with another id is another context. Drivers have ids since 12.0."""
        for driver in ("12000", "12040", "13000"):
            with self.subTest(driver=driver):
                plain = self.run_program("context_life", "reset_unseen", preload=WAYS, SIMCUDA_DRIVER=driver)
                run = self.run_program("context_life", "reset_unseen", preload=LIBRARY + ":" + WAYS,
                                       SIMCUDA_DRIVER=driver)
                self.assertEqual((run.status, run.out), (plain.status, plain.out))
                self.expect_clean(run)
                self.assertIn("unseen_reset(0): 0", run.out)
                self.assertEqual(stats_of(run.snapshot())["cache_hits"], HITS["reset_unseen"])

    def test_a_driver_that_calls_back_while_the_library_starts(self):
        plain = self.run_program("context_life", "primary_again", preload=None)
        run = self.run_program("context_life", "primary_again", preload=LIBRARY + ":" + WAYS, timeout=20)
        self.assertEqual((run.status, run.out), (plain.status, plain.out))
        self.assertEqual(stats_of(run.snapshot())["cache_hits"], HITS["primary_again"])


if __name__ == "__main__":
    unittest.main()
