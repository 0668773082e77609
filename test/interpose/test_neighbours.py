"""Other libraries that hook CUDA in the same process: each sees what it sees without this library, in either order."""

import os
import re
import unittest

from harness import LIBRARY, PreloadCase, stats_of

from test_routes import ROUTES_FOLDER
from test_runtime import CALLS, RuntimeCase, entries

DETOUR = os.path.join(ROUTES_FOLDER, "detour.so")


@unittest.skipUnless(os.path.exists(DETOUR), "the patch is x86-64 code")
class Detours(RuntimeCase):
    """Functions that are patched in place."""

    @staticmethod
    def counts(run):
        return re.findall(r"detour: \d+ allocations, \d+ frees", run.err)

    def test_calls_come_to_a_patched_function_from_then_on(self):
        self.with_environment(RUNTIME_PATH_TOOL=DETOUR)
        for how in ("driver", "runtime"):
            with self.subTest(how=how):
                self.with_environment(DETOUR=how)
                plain = self.run_path("tool_asks", preload=None)
                self.assertEqual(self.counts(plain), ["detour: 18 allocations, 18 frees"])
                run = self.run_path("tool_asks")
                self.assertEqual((run.status, run.out, run.messages), (0, plain.out, []))
                self.assertEqual(self.counts(run), self.counts(plain))
                self.assertEqual(entries(run), [0, CALLS])
                self.assertGreater(stats_of(run.snapshot())["cache_hits"], CALLS)  # the pool serves, behind the patch

    def test_one_that_was_there_first(self):
        self.with_environment(DETOUR="runtime", DETOUR_EARLY="1")
        plain = self.run_path("pairs", preload=DETOUR)
        for preload in (DETOUR + ":" + LIBRARY, LIBRARY + ":" + DETOUR):
            run = self.run_path("pairs", preload=preload)
            self.assertEqual((run.status, run.out, run.messages), (0, plain.out, []))
            self.assertEqual((self.counts(run), entries(run)), (self.counts(plain), [CALLS]))

    def test_a_patched_export_leaves_the_next_one_whole(self):
        """The program is linked to the functions: what is found by the order of look-up is what it calls."""
        self.with_environment(DETOUR="scope", DETOUR_EARLY="1")
        program = os.path.join(ROUTES_FOLDER, "route_linked_legacy")
        plain = self.run_program(program, preload=DETOUR)
        for preload in (DETOUR + ":" + LIBRARY, LIBRARY + ":" + DETOUR):
            run = self.run_program(program, preload=preload)
            self.assertEqual((run.status, run.out, run.messages), (0, plain.out, []))
            self.assertEqual(self.counts(run), self.counts(plain))
            self.expect_clean(run)


class Preloads(PreloadCase):
    """Libraries between the program and the driver: with definitions of the driver's functions (neighbour.so), and with answers
    to look-ups, too (neighbour_dlsym.so, neighbour_symbolic.so)."""

    ROUTES = ("route_linked_legacy", "route_runtime_13_legacy", "route_static_13_legacy", "route_driver_legacy names",
              "route_driver_legacy proc1", "route_driver_legacy proc2", "route_driver_legacy self")

    def run_route(self, route, preload, **settings):
        program, *arguments = route.split()
        return self.run_program(os.path.join(ROUTES_FOLDER, program), *arguments, preload=preload, **settings)

    @staticmethod
    def counts(run):
        return [int(count) for count in re.search(r"neighbour: (\d+) allocations, (\d+) frees", run.err).groups()]

    def expect_pooled(self, run, plain):
        self.assertEqual((run.status, run.out, run.messages), (0, plain.out, []), run.err)
        self.expect_clean(run)
        stats = stats_of(run.snapshot())
        self.assertEqual(stats["allocation"]["allocated"], int(re.search(r"allocations=(\d+)", run.out).group(1)))
        self.assertLess(run.calls()["cuMemAlloc_v2"], plain.calls()["cuMemAlloc_v2"])

    def test_one_behind_us_gets_what_the_pool_takes(self):
        for name in ("neighbour.so", "neighbour_dlsym.so", "neighbour_symbolic.so"):
            neighbour = os.path.join(ROUTES_FOLDER, name)
            for route in self.ROUTES:
                with self.subTest(name=name, route=route):
                    plain = self.run_route(route, neighbour)
                    run = self.run_route(route, LIBRARY + ":" + neighbour)
                    self.expect_pooled(run, plain)
                    is_asked = self.counts(plain)[0] > 0
                    self.assertEqual(self.counts(run)[0], run.calls()["cuMemAlloc_v2"] if is_asked else 0)

    def test_one_before_us_that_asks_dlsym(self):
        neighbour = os.path.join(ROUTES_FOLDER, "neighbour.so")
        for route in self.ROUTES:
            with self.subTest(route=route):
                plain = self.run_route(route, neighbour)
                run = self.run_route(route, neighbour + ":" + LIBRARY)
                self.expect_pooled(run, plain)
                self.assertEqual(self.counts(run), self.counts(plain))

    def test_one_before_us_that_answers_look_ups_itself(self):
        """Its calls do not come to us, which we say; where some do, nothing is pooled."""
        neighbour = os.path.join(ROUTES_FOLDER, "neighbour_dlsym.so")
        for route in self.ROUTES:
            with self.subTest(route=route):
                plain = self.run_route(route, neighbour)
                run = self.run_route(route, neighbour + ":" + LIBRARY)
                self.assertEqual((run.status, run.out), (0, plain.out))
                self.assertEqual((self.counts(run), run.calls()), (self.counts(plain), plain.calls()))
                self.assertEqual(len(run.messages), 1, run.err)
                self.assertIn("neighbour_dlsym.so comes before libgpupool.so", run.messages[0])
                self.assertEqual(run.snapshot_paths(), [])
                self.assertEqual(self.run_route(route, neighbour + ":" + LIBRARY, DISABLE="1").messages, [])

    def test_one_that_serves_the_runtimes_calls_itself(self):
        saver = os.path.join(ROUTES_FOLDER, "saver.so")
        plain = self.run_route("route_runtime_13_legacy", saver)
        served, calls = map(int, re.search(r"saver: (\d+) of (\d+)", plain.err).groups())
        self.assertGreater(served, 0)
        for preload in (saver + ":" + LIBRARY, LIBRARY + ":" + saver):
            for kind in ("round", "segment", "vmm"):
                run = self.run_route("route_runtime_13_legacy", preload, TYPE=kind)
                self.assertEqual((run.status, run.out, run.messages), (0, plain.out, []), run.err)
                self.assertIn("saver: %d of %d" % (served, calls), run.err)
                self.expect_clean(run)
                stats = stats_of(run.snapshot())
                allocations = int(re.search(r"allocations=(\d+)", run.out).group(1))
                self.assertEqual(stats["allocation"]["allocated"], allocations - served)
                self.assertEqual(stats["passthrough_bytes"]["current"], 0)
                self.assertGreaterEqual(stats["passthrough_bytes"]["allocated"], served << 21)

    def test_without_a_driver_nothing_is_said(self):
        neighbour = os.path.join(ROUTES_FOLDER, "neighbour_dlsym.so")
        self.assertEqual(self.run_program("/bin/true", preload=neighbour + ":" + LIBRARY).messages, [])


if __name__ == "__main__":
    unittest.main()
