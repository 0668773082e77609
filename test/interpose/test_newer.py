"""Drivers newer than the library: 13.5, whose functions the tables have, and one with functions that no table has."""

import os
import re
import unittest

from harness import EMULATOR, SOURCE, PreloadCase, choices_of, count_actions, stats_of

KNOWN, INVENTED = "13050", "14000"
ROUNDS = 20  # of test/prog/newer.c
LAUNCH, FREE, CALL, CONSTRUCTOR = os.environ["GP_NEWER_PLUGINS"].split(":")
# The pointers that cuGetProcAddress gives are the exports, or they are not.
POINTERS = ({}, {"SIMCUDA_PROC_ADDRESS": "distinct"})


def since(version):
    """The names, with and without suffix, of what came after the headers of 13.0."""
    with open(os.path.join(SOURCE, "test", "sim", "api.def")) as file:
        rows = re.findall(r"^SIM_(?:API|STUB)\((\w+), (\w+), (\d+),", file.read(), re.M)
    return sorted({name for row in rows if 13000 < int(row[2]) <= int(version) for name in row[:2]})


class Newer(PreloadCase):
    def use(self, what, how, *args, driver=INVENTED, **settings):
        return self.run_program("newer", what, how, *args, driver=driver, VERBOSE="1", **settings)

    def plain(self, what, how, *args, driver=INVENTED, **settings):
        return self.run_program("newer", what, how, *args, driver=driver, preload=None, **settings)

    def said(self, run, text):
        return [line for line in run.messages if text in line]

    def ways(self, *others):
        for pointers in POINTERS:
            yield ("proc",), pointers
        for how in ("dlsym",) + others:
            yield (how,), {}


class LookUps(Newer):
    def test_a_look_up_has_no_consequence(self):
        """Runtimes look everything up when they start."""
        for driver in (KNOWN, INVENTED):
            for pointers in POINTERS:
                with self.subTest(driver=driver, **pointers):
                    plain = self.plain("names", "", *since(driver), driver=driver, **pointers)
                    run = self.use("names", "", *since(driver), driver=driver, **pointers)
                    self.assertEqual((run.status, run.out), (plain.status, plain.out))
                    self.assertGreater(run.field("found"), 40)
                    self.assertEqual(self.said(run, "nothing is pooled"), [])
                    self.assertGreaterEqual(stats_of(run.snapshot())["cache_hits"], ROUNDS)

    def test_a_look_up_while_another_thread_has_the_lock_of_the_loader(self):
        run = self.use("constructor", "linked", CONSTRUCTOR)
        self.assertEqual((run.status, run.out), (0, "loaded=1\n"))

    def test_more_functions_than_trampolines(self):
        """Each invented name is one function; the same function always gets the same trampoline."""
        run = self.use("names", "", *(since(INVENTED) * 20))
        self.assertEqual(self.said(run, "nothing is pooled"), [])
        self.assertGreaterEqual(stats_of(run.snapshot())["cache_hits"], ROUNDS)


class Work(Newer):
    def test_work_that_the_tables_do_not_know_is_waited_for(self):
        """Arguments in all registers and on the stack reach the function: it refuses other ones."""
        for how, settings in self.ways():
            with self.subTest(how=how, **settings):
                run = self.use("launch", *how, **settings)
                self.assertEqual((run.status, run.field("early")), (0, 0), run.out)
                self.expect_clean(run)
                self.assertEqual(self.said(run, "nothing is pooled"), [])
                self.assertGreaterEqual(stats_of(run.snapshot())["cache_hits"], ROUNDS)

    def test_a_library_that_is_linked_to_it(self):
        """No call of it passes by this library; it is loaded when the pool is at work."""
        run = self.use("launch", "linked", LAUNCH)
        self.assertEqual((run.status, run.field("early")), (0, 0), run.out)
        for plugin, name in ((FREE, "newer_free.so"), (CALL, "newer_call.so")):
            run = self.use("free", "linked", plugin, SIMCUDA_UNSEEN_FREES="1")
            self.assertEqual(run.status, 0)
            self.assertEqual(len(self.said(run, name + " is linked to cuMemFree_v3")), 1, run.err)
            self.assertEqual(len(self.said(run, "nothing is pooled")), 1)

    def test_a_context_that_nothing_told_of(self):
        for how, settings in self.ways():
            with self.subTest(how=how, **settings):
                run = self.use("context", *how, **settings)
                self.assertEqual((run.status, run.field("early")), (0, 0), run.out)


class Captures(Newer):
    def check(self, what, how, settings, driver):
        plain = self.plain(what, *how, driver=driver, **settings)
        run = self.use(what, *how, driver=driver, **settings)
        self.assertEqual((run.status, run.out), (plain.status, plain.out))
        self.assertEqual(run.out, "begin: 1\nend: 401\n" if what == "refused" else "begin: 0\nend: 0\n")
        self.expect_clean(run)
        snapshot = run.snapshot()
        self.assertGreaterEqual(stats_of(snapshot)["cache_hits"], ROUNDS - 1)  # pooled again
        forwarded = count_actions(snapshot).get("passthrough_alloc", 0)
        least = 1 if what == "recapture" else 128  # a relaxed one, beside which what is idle is handed out
        self.assertEqual(forwarded >= least, what != "refused", forwarded)

    def test_a_capture_is_noticed_and_its_end(self):
        for what in ("capture", "refused"):
            for how, settings in self.ways():
                with self.subTest(what=what, how=how, **settings):
                    self.check(what, how, settings, INVENTED)

    def test_a_capture_whose_beginning_has_end_in_its_name(self):
        for how, settings in self.ways():
            with self.subTest(how=how, **settings):
                self.check("logical", how, settings, INVENTED)

    def test_a_stream_that_another_thread_destroyed_after_its_capture(self):
        """The driver is asked nothing about that stream any more."""
        for how, settings in self.ways():
            with self.subTest(how=how, **settings):
                run = self.use("gone", *how, log=True, **settings)
                self.assertEqual((run.status, run.out), (0, "begin: 0\nend: 0\n"))
                with open(run.log) as file:
                    log = file.read()
                asked = re.findall(r"^.*cuStreamIsCapturing.*$", log[log.rindex("cuStreamDestroy_v2") :], re.M)
                self.assertEqual(asked, [])
                self.assertGreaterEqual(stats_of(run.snapshot())["cache_hits"], ROUNDS - 1)  # pooled again

    def test_a_capture_that_is_looked_up_behind_the_library(self):
        """No call of it passes by this library: its end would not be seen either."""
        plain = self.plain("capture", "next")
        run = self.use("capture", "next")
        self.assertEqual((run.status, run.out), (plain.status, plain.out))
        self.assertEqual(len(self.said(run, "nothing is pooled")), 1, run.err)

    def test_captures_that_the_tables_know(self):
        for what in ("recapture", "cig"):
            for how, settings in self.ways():
                with self.subTest(what=what, how=how, **settings):
                    self.check(what, how, settings, KNOWN)
        self.check("cig-per-thread", ("dlsym",), {}, KNOWN)


class Memory(Newer):
    def test_memory_that_others_may_use_is_not_reused(self):
        for what, driver in (("lend", INVENTED), ("endpoint", KNOWN), ("multicast", KNOWN)):
            for how, settings in self.ways(*(["exact"] if what == "multicast" else [])):
                with self.subTest(what=what, how=how, **settings):
                    run = self.use(what, *how, driver=driver, **settings)
                    self.assertEqual(run.status, 0, run.out)
                    self.assertEqual(run.calls()["cuMemFree_v2"], 1)
                    self.assertEqual(self.said(run, "nothing is pooled"), [])

    def test_an_allocation_is_the_driver_s_and_in_no_limit(self):
        for how, settings in self.ways():
            with self.subTest(how=how, **settings):
                plain = self.plain("alloc", *how, **settings)
                run = self.use("alloc", *how, **settings)
                self.assertEqual((run.status, run.out), (plain.status, plain.out))
                self.assertGreater(stats_of(run.snapshot())["cache_hits"], 0)
                run = self.run_program("newer", "alloc", *how, driver=INVENTED, LIMIT="1GiB", **settings)
                self.assertEqual(len(self.said(run, "is not counted or limited")), 1, run.err)
                if not settings:
                    named = "a newer variant of cuMemAlloc," if how == ("proc",) else "cuMemAlloc_v3,"
                    self.assertEqual(len(self.said(run, named)), 1, run.err)

    def test_a_free_of_pooled_memory_is_the_pool_s(self):
        """The simulated driver ends the process when it is to free what the pool of a debug build holds."""
        for pool in choices_of("TYPE"):
            for how, settings in self.ways():
                for what in ("free", "frees"):
                    with self.subTest(type=pool, what=what, how=how, **settings):
                        plain = self.plain(what, *how, **settings)
                        run = self.use(what, *how, TYPE=pool, virtual_clock=not EMULATOR, **settings)
                        self.assertEqual((run.status, run.out), (plain.status, plain.out))
                        self.assertEqual(self.said(run, "nothing is pooled"), [])
                        self.expect_clean(run)
                        if pool != "unpooled" and not EMULATOR:  # without that clock it depends on the machine
                            self.assertGreaterEqual(stats_of(run.snapshot())["cache_hits"], ROUNDS // 2)

    def test_a_free_that_the_pool_cannot_make_is_refused(self):
        """In the order of a stream: a part of an allocation is not the driver's to free, nor is what was freed."""
        plain = self.plain("frees-async", "dlsym").out
        self.assertEqual(plain, "freed: 1\nfirst: 0\nagain: 1\n")
        for pool in choices_of("TYPE"):
            for how, settings in self.ways():
                with self.subTest(type=pool, how=how, **settings):
                    run = self.use("frees-async", *how, TYPE=pool, **settings)
                    is_cut = pool in ("segment", "vmm")
                    self.assertEqual((run.status, run.out),
                                     (0, plain.replace("first: 0", "first: 801") if is_cut else plain))
                    self.assertEqual(len(self.said(run, "set GPUPOOL_TYPE=round")), is_cut, run.err)
                    self.assertEqual(len(self.said(run, "nothing is pooled")), not is_cut, run.err)
                    self.expect_clean(run)

    def test_a_free_that_is_looked_up_behind_the_library_ends_pooling(self):
        plain = self.plain("free", "next")
        run = self.use("free", "next")
        self.assertEqual((run.status, run.out), (plain.status, plain.out))
        self.assertEqual(len(self.said(run, "nothing is pooled")), 1, run.err)
        self.expect_clean(run)


class GreenContexts(Newer):
    def test_work_of_green_contexts_is_waited_for(self):
        """By facts of the primary context; a synchronization of the green one says nothing of that."""
        run = self.use("green", "", driver=KNOWN)
        self.assertEqual((run.status, run.field("early")), (0, 0), run.out)
        self.assertEqual(self.said(run, "nothing is pooled"), [])
        self.assertGreaterEqual(stats_of(run.snapshot())["cache_hits"], ROUNDS)
        run = self.use("green", "", driver="12040")  # that one has no event of a whole context
        self.assertEqual(len(self.said(run, "nothing is pooled")), 1)

    def test_a_primary_context_that_is_never_current(self):
        """Its green contexts work all the same."""
        run = self.use("apart", "", driver=KNOWN)
        self.assertEqual((run.status, run.field("early"), self.said(run, "nothing is pooled")), (0, 0, []), run.out)


if __name__ == "__main__":
    if EMULATOR:
        LookUps = Work = Captures = GreenContexts = None  # they take much memory; what is left shows the trampolines
    unittest.main()
