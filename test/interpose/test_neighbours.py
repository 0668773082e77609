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


if __name__ == "__main__":
    unittest.main()
