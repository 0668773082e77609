"""What programs find when they look for functions of the driver, by dlsym and by cuGetProcAddress."""

import collections
import itertools
import os
import re
import unittest

from harness import EMULATOR, PROG, PreloadCase, QUICK, SANITIZED, SOURCE, stats_of, trace_files

RESOLVE = os.path.join(PROG, "routes", "resolve")
NEWEST = 13050  # of the versions that the library knows


def table(path, pattern):
    with open(os.path.join(SOURCE, path)) as file:
        return re.findall(pattern, file.read(), re.M)


def hooks():
    """[(exported name, base name, version)]"""
    return [(symbol, base, int(since))
            for symbol, base, since in table("interpose/routes/functions.def",
                                             r"^(?:HOOK|FORWARD_\w+)\((\w+), (\w+), (\d+),")]


class Variants(PreloadCase):
    def called(self, name, version, flags, **settings):
        """Which entry points of the driver a call of what cuGetProcAddress gave reached."""
        run = self.run_program(RESOLVE, "call", name, str(version), str(flags), log=True, driver=str(NEWEST), **settings)
        with open(run.log) as file:
            calls = [line.split()[0] for line in file]
        return run, calls

    def test_every_hook_is_the_variant_that_the_driver_means(self):
        """Also where the driver's pointers are not its exports, so that only the documented rule tells. Where this
        takes long, or is to be quick, each version is asked with one of the flags and in one of the modes."""
        versions = collections.defaultdict(set)
        for _, base, since in hooks():
            if base == "cuIpcOpenEventHandle" and EMULATOR:
                continue  # a structure by value: on this processor the program's zeros stand for its address
            versions[base] |= {since} if EMULATOR else {since, NEWEST, max(since - 10, 2000)}
        ways = list(itertools.product(("exported", "distinct"), (0, 1, 2)))
        queries = [(base, version) for base in sorted(versions) for version in sorted(versions[base])]
        if QUICK or SANITIZED or EMULATOR:
            queries = [query + way for query, way in zip(queries, itertools.cycle(ways))]
        else:
            queries = [query + way for query, way in itertools.product(queries, ways)]
        for base, version, mode, flags in queries:
            query = {"name": base, "version": version, "flags": flags, "SIMCUDA_PROC_ADDRESS": mode}
            with self.subTest(**query):
                plain, meant = self.called(**query, preload=None)
                run, reached = self.called(**query)
                self.assertEqual((run.status, run.out), (plain.status, plain.out))
                if base == "cuGetProcAddress":
                    reached = [name for name in reached if name.startswith(base)]
                self.assertIn(meant[-1], reached)
                others = {symbol for symbol, other, _ in hooks() if other == base} - {meant[-1]}
                self.assertEqual(set(reached[1:]) & others, set())

    def test_a_disabled_library_is_out_of_the_way(self):
        path = os.path.join(self.folder, "queries.txt")
        with open(path, "w") as file:
            file.writelines("GPA %s %d 0\n" % (base, NEWEST) for base in sorted({base for _, base, _ in hooks()}))
        plain = self.run_program("lookups", path, preload=None, driver=str(NEWEST))
        self.assertNotIn("libgpupool", plain.out)
        self.assertEqual(self.run_program("lookups", path, driver=str(NEWEST), DISABLE="1").out, plain.out)

    def test_every_name_and_version_is_answered(self):
        """Only what is hooked comes from us, everything else from the driver, as without us."""
        queries = ['GPA  0 0']
        names = table("test/sim/api.def", r"^SIM_(?:API|STUB)\(\w+, (\w+), (\d+),")
        for base, since in sorted({(base, since) for base, since in names if int(since) <= NEWEST}):
            queries += ["GPA %s %s %d" % (base, version, flags) for version in (since, NEWEST) for flags in (0, 2)]
        path = os.path.join(self.folder, "queries.txt")
        with open(path, "w") as file:
            file.write("\n".join(queries) + "\n")
        plain = self.run_program("lookups", path, preload=None, driver=str(NEWEST)).out.splitlines()
        pooled = self.run_program("lookups", path, driver=str(NEWEST)).out.splitlines()
        self.assertEqual(len(plain), len(queries) + 1)
        self.assertEqual(len(pooled), len(plain))
        different = {b.split()[0].rstrip(":") for a, b in zip(plain, pooled)
                     if a != b and a.replace("libcuda.so.1", "libgpupool.so") == b}
        self.assertEqual([(a, b) for a, b in zip(plain, pooled) if a != b and b.split()[0].rstrip(":") not in different],
                         [])
        # The look-up of cuGetProcAddress_v2 itself is by its exported name.
        # So does, as a trampoline, what no table has: OpenGL, EGL and VDPAU.
        classes = {symbol for symbol in table("interpose/routes/classes.def", r"^CLASS\((\w+),")}
        known = {name for name in different if name in classes} | {"cuGetProcAddress_v2"}
        self.assertEqual(known, {base for _, base, _ in hooks()} | {"cuGetProcAddress_v2"})

    def test_the_first_call_of_a_linked_program(self):
        plain = self.run_program(os.path.join(PROG, "routes", "linked_lookup"), preload=None)
        run = self.run_program(os.path.join(PROG, "routes", "linked_lookup"))
        self.assertEqual((run.status, run.out), (plain.status, plain.out))
        self.assertEqual(stats_of(run.snapshot())["allocation"]["allocated"], 1)

    def test_missing_empty_and_wrong_arguments(self):
        for settings in ({}, {"SIMCUDA_PROC_ADDRESS": "distinct"}):
            plain = self.run_program(RESOLVE, "corners", preload=None, **settings)
            run = self.run_program(RESOLVE, "corners", **settings)
            self.assertGreater(len(plain.out.splitlines()), 1000)
            self.assertEqual((run.status, run.out, run.err), (plain.status, plain.out, plain.err))

    def test_driver_whose_pointers_are_not_its_exports(self):
        for name in ("static_route", "per_thread", "replay"):
            args = ("--check", trace_files()[0]) if name == "replay" else ()
            run = self.run_program(name, *args, SIMCUDA_PROC_ADDRESS="distinct")
            self.assertEqual(run.status, 0, run.err)
            self.assertGreater(stats_of(run.snapshot())["allocation"]["allocated"], 0)


class NewerDriver(PreloadCase):
    """A driver newer than the library, with a variant that no table has."""

    def ask(self, version, **settings):
        route = os.path.join(PROG, "routes", "route_driver_legacy")
        return self.run_program(RESOLVE, "call", "cuMemAlloc", str(version), "0", driver="14000", **settings), route

    def test_program_that_does_not_ask_for_it_is_served(self):
        run, route = self.ask(NEWEST)
        self.assertEqual(run.messages, [])
        run = self.run_program(route, "proc2", driver="14000")
        self.assertEqual((run.status, run.messages), (0, []))
        self.assertGreater(stats_of(run.snapshot())["cache_hits"], 0)

    def test_program_that_asks_for_it_gets_it(self):
        for settings in ({}, {"SIMCUDA_PROC_ADDRESS": "distinct"}):
            plain, _ = self.ask(14000, preload=None, **settings)
            run, _ = self.ask(14000, **settings)
            self.assertEqual((run.status, run.out, run.messages), (plain.status, plain.out, []))


class Names(PreloadCase):
    def test_driver_without_most_functions(self):
        """Our own failing lookups must not show in dlerror(), and what cannot be pooled is forwarded."""
        arguments = (os.environ["GP_OLD_DRIVER_PROG"], os.environ["GP_OLD_DRIVER"])
        plain = self.run_program(*arguments, preload=None)
        run = self.run_program(*arguments)
        self.assertEqual((run.status, run.out), (plain.status, plain.out))
        self.assertIn("cuMemAlloc_v2: found, no error", run.out)
        self.assertIn("alloc: 0, 0x10040", run.out)
        self.assertEqual(run.err, "")

    def test_callers_of_either_version_of_dlsym(self):
        run = self.run_program(os.path.join(PROG, "routes", "dlsym_versions"))
        self.assertEqual(run.out, "old: libgpupool.so\nnew: libgpupool.so\n")

    def test_functions_of_other_libraries_are_theirs(self):
        program = os.path.join(PROG, "routes", "namesake_user")
        run = self.run_program(program, os.path.join(PROG, "routes", "namesake.so"))
        self.assertEqual((run.out, run.messages), ("42\nlibgpupool.so\n", []))

    def test_names_of_ours_are_not_there_without_a_driver_that_has_them(self):
        """A program that asks whether there is CUDA must not be told so because of us."""
        for arguments in (("none",), ("global", "cuMemAlloc_v2", "cuInit", "cuCtxSynchronize_v2", "cuMemAllocAsync_ptsz")):
            for driver in ("11020", "13000"):
                with self.subTest(arguments=arguments, driver=driver):
                    plain = self.run_program(RESOLVE, *arguments, driver=driver, preload=None)
                    run = self.run_program(RESOLVE, *arguments, driver=driver)
                    self.assertEqual((run.status, run.out, run.err), (plain.status, plain.out, plain.err))
                    if arguments[0] == "none":
                        self.assertNotIn("found", run.out)


if __name__ == "__main__":
    unittest.main()
