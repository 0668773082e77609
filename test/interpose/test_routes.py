"""Every way in which a program reaches the driver, with drivers of several versions, for both default streams."""

import collections
import os
import re
import sys
import unittest

from harness import EMULATOR, LIBRARY, PROG, PreloadCase, stats_of

ROUTES_FOLDER = os.path.join(PROG, "routes")
VERSIONS = ("11020", "11080", "12040", "12050", "13000", "14000")
if EMULATOR:  # slow, and what differs between architectures does not depend on the driver
    VERSIONS = ("11020", "13000")
FLAVOURS = ("legacy", "per_thread")

# The program and its arguments; {flavour}, {driver} (folder of the driver) and {folder} (of the programs) are filled in.
# since: the first driver with which it works at all, with or without us. preload: other preloads, {library} is ours.
Route = collections.namedtuple("Route", "name program arguments since preload", defaults=("", (), 0, "{library}"))
ROUTES = (
    Route("shared runtime 11", "route_runtime_11_{flavour}"),
    Route("shared runtime 12", "route_runtime_12_{flavour}", since=12000),
    Route("shared runtime 13", "route_runtime_13_{flavour}", since=12000),
    Route("static runtime 11", "route_static_11_{flavour}"),
    Route("static runtime 13", "route_static_13_{flavour}", since=12000),
    Route("linked to libcuda", "route_linked_{flavour}"),
    Route("dlsym, name by name", "route_driver_{flavour}", ("names",)),
    Route("dlopen by its path", "route_driver_{flavour}", ("names", "{driver}/libcuda.so.1")),
    Route("cuGetProcAddress", "route_driver_{flavour}", ("proc1",), since=11030),
    Route("cuGetProcAddress_v2", "route_driver_{flavour}", ("proc2",), since=12000),
    Route("... asked for itself", "route_driver_{flavour}", ("self",), since=12000),
    Route("wrapper, -O0", "route_wrapper_O0_{flavour}"),
    Route("wrapper, -O2", "route_wrapper_O2_{flavour}"),
    Route("plug-in with libcuda", "route_plugins", ("{folder}/plugin_linked_{flavour}.so",)),
    Route("plug-in with runtime", "route_plugins", ("{folder}/plugin_runtime_11_{flavour}.so",)),
    Route("runtimes 11 and 13", "route_plugins", ("{folder}/plugin_runtime_11_{flavour}.so",
                                                  "{folder}/plugin_runtime_13_{flavour}.so"), since=12000),
    Route("a preload before ours", "route_linked_{flavour}", preload="{folder}/wrapper_O0.so:{library}"),
    Route("a preload after ours", "route_linked_{flavour}", preload="{library}:{folder}/wrapper_O0.so"),
    Route("dlsym wrapped after", "route_driver_{flavour}", ("names",), preload="{library}:{folder}/wrapper_dlsym.so"),
)


class Matrix(PreloadCase):
    def run_route(self, route, version, flavour, preload):
        words = {"flavour": flavour, "driver": self.driver_folder(version), "folder": ROUTES_FOLDER, "library": LIBRARY}
        program = os.path.join(ROUTES_FOLDER, route.program.format(**words))
        # Where a device is emulated it is small, and would keep nothing idle.
        return self.run_program(program, *[word.format(**words) for word in route.arguments], driver=version, RESERVE="0",
                                preload=route.preload.format(**words) if preload else None)

    def check(self, route, version, flavour):
        """What the table says of this cell."""
        plain = self.run_route(route, version, flavour, preload=False)
        run = self.run_route(route, version, flavour, preload=True)
        self.assertEqual((run.status, run.out, run.err), (plain.status, plain.out, plain.err))
        if int(version) < route.since:
            self.assertNotEqual(plain.status, 0)
            return "-"
        self.assertEqual(plain.status, 0, plain.out)
        self.expect_clean(run)
        snapshot = run.snapshot()
        self.assertEqual(snapshot["process"]["driver_version"], int(version))
        stats = stats_of(snapshot)
        allocations = sum(int(count) for count in re.findall(r"allocations=(\d+)", run.out))
        self.assertEqual(stats["allocation"]["allocated"], allocations)  # each once: by no layer twice
        self.assertGreater(stats["cache_hits"], 0)
        self.assertLess(run.calls()["cuMemAlloc_v2"], plain.calls()["cuMemAlloc_v2"])
        return "ok"

    def test_routes_drivers_and_default_streams(self):
        table = []
        for route in ROUTES:
            cells = []
            for version in VERSIONS:
                for flavour in FLAVOURS:
                    cell = "FAILED"
                    with self.subTest(route=route.name, driver=version, flavour=flavour):
                        cell = self.check(route, version, flavour)
                    cells.append(cell)
            table.append((route.name, cells))
        form = "%-22s" + " %-14s" * len(VERSIONS)
        sys.stderr.write("\n" + form % (("route and driver",) + tuple(
            "%d.%d" % (int(v) // 1000, int(v) % 1000 // 10) for v in VERSIONS)) + "\n")
        sys.stderr.write(form % (("",) + ("legacy/thread",) * len(VERSIONS)) + "\n")
        for name, cells in table:
            pairs = tuple("%s / %s" % (cells[i], cells[i + 1]) for i in range(0, len(cells), 2))
            sys.stderr.write(form % ((name,) + pairs) + "\n")
        sys.stderr.write("-: the program cannot use that driver, with the library or without\n")


class Preloads(PreloadCase):
    """Another preload beside ours: none may be cut off."""

    def counts(self, program, arguments, preload):
        os.environ["WRAPPER_TELLS"] = "1"
        self.addCleanup(os.environ.pop, "WRAPPER_TELLS", None)
        run = self.run_program(os.path.join(ROUTES_FOLDER, program), *arguments, preload=preload, ASYNC="driver")
        calls, lookups = re.search(r"wrapper: (\d+) calls and (\d+) look-ups", run.err).groups()
        return run, int(calls), int(lookups)

    def test_one_before_us_sees_every_call_and_one_after_us_those_of_the_pool(self):
        wrapper = os.path.join(ROUTES_FOLDER, "wrapper_O0.so")
        run, calls, _ = self.counts("route_linked_legacy", (), wrapper + ":" + LIBRARY)
        self.assertEqual(calls, stats_of(run.snapshot())["allocation"]["allocated"])
        run, calls, _ = self.counts("route_linked_legacy", (), LIBRARY + ":" + wrapper)
        self.assertEqual(calls, run.calls()["cuMemAlloc_v2"])
        self.assertLess(calls, stats_of(run.snapshot())["allocation"]["allocated"])

    def test_one_after_us_that_wraps_dlsym_is_asked(self):
        wrapper = os.path.join(ROUTES_FOLDER, "wrapper_dlsym.so")
        run, _, lookups = self.counts("route_driver_legacy", ("names",), LIBRARY + ":" + wrapper)
        self.assertGreaterEqual(lookups, 12)
        self.assertGreater(stats_of(run.snapshot())["cache_hits"], 0)

    def test_one_before_us_that_wraps_dlsym(self):
        """It finds the C library's dlsym by dlvsym, which passes over every other preload: which the library can only say."""
        wrapper = os.path.join(ROUTES_FOLDER, "wrapper_dlsym.so")
        run, _, lookups = self.counts("route_driver_legacy", ("names",), wrapper + ":" + LIBRARY)
        self.assertEqual(run.status, 0)
        self.assertGreaterEqual(lookups, 12)
        self.assertEqual(run.snapshot_paths(), [])
        self.assertIn("wrapper_dlsym.so comes before libgpupool.so", run.messages[0])
        run, _, _ = self.counts("route_linked_legacy", (), wrapper + ":" + LIBRARY)
        self.assertIn("wrapper_dlsym.so comes before libgpupool.so", run.messages[0])


if __name__ == "__main__":
    unittest.main()
