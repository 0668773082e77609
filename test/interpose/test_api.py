"""gpupool.h: what a program that includes it gets, with the library and without."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import unittest

from harness import LIBRARY, PROG, SOURCE, PreloadCase, stats_of, unless_short
from live_program import LiveCase

TOOL = os.environ.get("GP_TOOL")
MIB = 1 << 20
OK, NOT_LOADED, INACTIVE, INVALID, UNKNOWN, FAILED = range(6)
COMPILERS = {"c": ("cc", "clang"), "c++": ("c++", "clang++")}
HEADER = os.path.join(SOURCE, "interpose", "api", "gpupool.h")
FUNCTIONS = ["reset_peaks", "reset_stats", "set_recording 1", "set_verbose 1", "snapshot", "retain 0", "release 0", "mark x", "end 1",
             "set_limit 0 none", "result_of segment"]


class ApiCase(LiveCase):
    def begin(self, **settings):
        settings = dict({"RECORD": self.record_folder}, **settings)
        program = self.start(name="api", **settings)
        self.assertEqual(program.step("synchronize"), 0)
        return program

    def steps(self, program, *pairs):
        for text, answer in pairs:
            self.assertEqual(program.step(text), answer, text)

    def number(self, program, name, device=0):
        return program.step("number %s %d" % (name, device))


class Header(unittest.TestCase):
    def compile(self, command, language, body):
        subprocess.run(shlex.split(command) + ["-Wall", "-Wextra", "-pedantic", "-Werror", "-O2", "-x", language, "-", "-o", os.devnull,
                                               "-I" + os.path.dirname(HEADER)],
                       input=body, encoding="utf-8", check=True, timeout=120)

    @unless_short
    def test_compiles_alone(self):
        """And links without a library, whatever the executable is."""
        body = "#include <gpupool.h>\nint main(void) { return (int)gpupool_reset_peaks(0) - 1 + (int)gpupool_memory_stats(0, NULL, 0); }\n"
        standards = [("c", standard) for standard in ("c99", "gnu99", "c11", "c17", "c2x")]
        standards += [("c++", standard) for standard in ("c++11", "c++14", "c++17", "c++20", "gnu++20")]
        zero = {"c": "", "c++": " -Wzero-as-null-pointer-constant"}
        commands = [("%s -std=%s%s" % (compiler, standard, zero[language]), language)
                    for language, standard in standards for compiler in COMPILERS[language] if shutil.which(compiler)]
        for command, language in commands + [("cc -std=c11 -fno-pie -no-pie", "c")]:
            with self.subTest(command):
                self.compile(command, language, body if language == "c" else body.replace("NULL", "nullptr"))

    def test_says_what_it_needs(self):
        for language, standard in (("c", "c89"), ("c", "gnu89"), ("c++", "c++98")):
            for compiler in filter(shutil.which, COMPILERS[language]):
                result = subprocess.run([compiler, "-x", language, "-std=" + standard, "-fsyntax-only", HEADER], stderr=subprocess.PIPE, encoding="utf-8",
                                        timeout=120, check=False)
                self.assertNotEqual(result.returncode, 0)
                self.assertIn("gpupool.h needs C99 or C++11, or later", result.stderr)

    @unittest.skipUnless(os.uname().machine == "x86_64", "no x86-64")
    def test_assembles_where_pointers_have_32_bits(self):
        """There is no library for such programs, and perhaps there are no headers of the system."""
        for compiler in filter(shutil.which, COMPILERS["c"]):
            command = compiler + " -mx32 -ffreestanding -c"
            try:
                self.compile(command, "c", "#include <stdint.h>\nint x;\n")
            except subprocess.CalledProcessError:
                continue  # one without x32
            for level in ("-O0", "-O2"):
                self.compile(command + " " + level, "c", "#include <gpupool.h>\nint main(void) { return gpupool_version() ? 1 : 0; }\n")

    def test_all_is_documented(self):
        """Each function that the library exports is declared there, and has a function that a program calls."""
        with open(HEADER, encoding="utf-8") as file:
            text = file.read()
        exported = {line.split()[-1] for line in subprocess.run(
            ["nm", "-D", "--defined-only", LIBRARY], stdout=subprocess.PIPE, encoding="utf-8", check=True).stdout.splitlines()}
        functions = {name for name in exported if name.startswith("gpupool_api_")}
        self.assertGreater(len(functions), 10)
        for name in functions:
            self.assertIn(name + "(", text)
            self.assertIn("GPUPOOL_CALL(%s, " % name[len("gpupool_api_"):], text)


class Without(ApiCase):
    def expect(self, program, answer):
        self.steps(program, *((step, answer) for step in FUNCTIONS))
        self.steps(program, ("empty_cache", -1), ("memory_free", -answer), ("begin x", -answer), ("number segment", 0), ("memory_stats 0", 0), ("memory_summary 0", 0))
        self.assertEqual(program.end(), 0)

    def test_the_library(self):
        program = self.begin(preload=None)
        self.steps(program, ("alloc 1000", 0), ("library", 0))
        self.expect(program, NOT_LOADED)

    def test_a_pool(self):
        program = self.begin(DISABLE="1")
        self.steps(program, ("alloc 1000", 0), ("library", 1))
        self.expect(program, INACTIVE)

    def test_a_driver(self):
        """The runtime has not been called: nothing is known so far, and all is well later."""
        program = self.start(name="api")
        self.steps(program, ("library", 1), ("result_of segment", INACTIVE), ("set_limit 0 %d" % MIB, INACTIVE), ("synchronize", 0),
                   ("result_of segment", OK))
        self.assertEqual(program.end(), 0)

    def test_a_parent(self):
        program = self.begin()
        self.steps(program, ("alloc 1000", 0), ("child", INACTIVE), ("result_of segment", OK))
        self.assertEqual(program.end(), 0)


class Found(PreloadCase):
    def test_by_every_kind_of_executable(self):
        """The linker of one that is not position-independent would decide for good that there is no library."""
        for options in ([], ["-fno-pie", "-no-pie"], ["-O2", "-fno-pie", "-no-pie"], ["-O2", "-fno-plt"]):
            with self.subTest(options):
                program = os.path.join(self.folder, "program")
                subprocess.run(["cc", "-x", "c", "-", "-o", program, "-I" + os.path.dirname(HEADER)] + options, encoding="utf-8", check=True, timeout=120,
                               input="#include <gpupool.h>\nint main(void) { return gpupool_version() ? 77 : 0; }\n")
                self.assertEqual([self.run_program(program, preload=preload).status for preload in (None, LIBRARY)], [0, 77])

    def test_ordinals_that_no_int_holds(self):
        """They do not become those of other devices. A device that is never right is refused before there is a driver."""
        program = os.path.join(self.folder, "program")
        subprocess.run(["cc", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-x", "c", "-", "-o", program, "-I" + os.path.dirname(HEADER)],
                       encoding="utf-8", check=True, timeout=120, input="""#include <gpupool.h>
int main(void)
{
  static const long long devices[] = {1LL << 40, (1LL << 32) - 1, -1 - (1LL << 32), 1LL << 31, -2};
  uint64_t scope;
  for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++)
    if (gpupool_reset_peaks(devices[i]) != GPUPOOL_INVALID || gpupool_reset_stats(devices[i]) != GPUPOOL_INVALID ||
        gpupool_set_limit(devices[i], 1) != GPUPOOL_INVALID || gpupool_statistic(devices[i], "segment", NULL) != GPUPOOL_INVALID ||
        gpupool_memory_info(devices[i], NULL, NULL) != GPUPOOL_INVALID || gpupool_scope_begin(devices[i], "x", &scope) != GPUPOOL_INVALID)
      return 1 + (int)i;
  return gpupool_reset_peaks(0) == GPUPOOL_INACTIVE && gpupool_reset_peaks(GPUPOOL_CURRENT) == GPUPOOL_INACTIVE ? 0 : 9;
}
""")
        self.assertEqual(self.run_program(program).status, 0)

    def test_without_the_loaders_table(self):
        """As on machines other than x86-64, in both languages."""
        with open(HEADER) as file:
            text = file.read().replace("#if defined __x86_64__", "#if defined NO_MACHINE")
        with open(os.path.join(self.folder, "gpupool.h"), "w") as file:
            file.write(text)
        for compiler in (["cc", "-x", "c"], ["cc", "-O2", "-x", "c"], ["c++", "-x", "c++"], ["c++", "-O2", "-x", "c++"]):
            with self.subTest(compiler=compiler):
                if not shutil.which(compiler[0]):
                    self.skipTest("no " + compiler[0])
                program = os.path.join(self.folder, "program")
                subprocess.run(compiler + ["-", "-o", program, "-fPIC", "-I" + self.folder], encoding="utf-8", check=True, timeout=120,
                               input="#include <gpupool.h>\nint main() { return gpupool_version() ? 77 : 0; }\n")
                self.assertEqual([self.run_program(program, preload=preload).status for preload in (None, LIBRARY)], [0, 77])


class Statistics(ApiCase):
    def test_what_is_held(self):
        program = self.begin()
        self.steps(program, ("alloc %d" % (4 * MIB), 0), ("alloc %d" % MIB, 1), ("free 0", 0), ("synchronize", 0))
        for name, value in (("allocated_bytes", MIB), ("cached_bytes", 4 * MIB), ("reserved_bytes", 5 * MIB),
                            ("allocated_bytes.all.peak", 5 * MIB), ("allocated_bytes.all.allocated", 5 * MIB),
                            ("allocated_bytes.all.freed", 4 * MIB), ("allocation.all.current", 1), ("num_allocations", 2),
                            ("num_device_alloc", 2), ("cache_hits", 0), ("num_cache_misses", 2), ("peak_allocated", 5 * MIB)):
            self.assertEqual(self.number(program, name), value, name)
        self.steps(program, ("result_of no_such_name", UNKNOWN), ("number segment -1", 2))
        self.assertEqual(program.end(), 0)

    def test_devices_that_there_are_not(self):
        program = self.begin(SIMCUDA_DEVICES="2")
        self.steps(program, ("result_of segment 1", OK), ("number segment 1", 0), ("set_limit 1 %d" % MIB, OK))
        for device in (-2, 2, 63, 64, 2**31 - 1):
            self.steps(program, ("result_of segment %d" % device, INVALID), ("number segment %d" % device, 0), ("set_limit %d %d" % (device, MIB), INVALID),
                       ("memory_free %d" % device, -INVALID), ("reset_peaks %d" % device, INVALID), ("reset_stats %d" % device, INVALID),
                       ("memory_stats %d" % device, 0), ("memory_summary %d" % device, 0), ("begin x %d" % device, -INVALID))
        self.assertEqual(program.end(), 0)

    def test_json_is_what_the_snapshot_says(self):
        program = self.begin()
        self.steps(program, ("alloc %d" % (4 * MIB), 0), ("free 0", 0), ("synchronize", 0), ("alloc %d" % (4 * MIB), 1), ("alloc 1000", 2))
        self.assertGreater(program.step("memory_stats 0"), 100)
        told = json.loads(program.message("{"))
        self.steps(program, ("snapshot", 0))
        stats = stats_of(self.read(program.written()))
        for name, value in stats.items():
            if isinstance(value, dict):
                for part in value:
                    self.assertEqual(told["%s.all.%s" % (name, part)], value[part], name)
                self.assertEqual(told[name], value["current"])
            else:
                self.assertAlmostEqual(told[name], value, 5, name)
        self.assertEqual(told["cache_hit_rate"], 0.333333)
        self.assertEqual(program.end(), 0)

    def test_texts(self):
        program = self.begin(LIMIT="1GiB")
        self.steps(program, ("alloc %d" % (4 * MIB), 0), ("texts 0", 1))
        self.assertGreater(program.step("memory_summary 0"), 100)
        program.message("device 0, limit 1 GiB")
        self.assertRegex(program.message("allocated_bytes"), r"allocated_bytes +4 MiB +4 MiB +4 MiB +0 B")
        self.assertRegex(program.message("cache_misses"), r"cache_misses +1  allocations that needed the driver")
        self.assertEqual(program.end(), 0)

    def test_resets(self):
        program = self.begin()
        self.steps(program, ("alloc %d" % (4 * MIB), 0), ("alloc %d" % MIB, 1), ("free 0", 0), ("reset_peaks 0", OK))
        self.assertEqual(self.number(program, "allocated_bytes.all.peak"), MIB)
        self.assertEqual(self.number(program, "allocated_bytes.all.allocated"), 5 * MIB)
        self.steps(program, ("alloc %d" % (2 * MIB), 2), ("free 2", 0), ("reset_stats -1", OK))
        for name, value in (("allocated_bytes.all.peak", MIB), ("allocated_bytes.all.allocated", 0), ("allocated_bytes.all.freed", 0), ("allocated_bytes", MIB), ("cache_misses", 0)):
            self.assertEqual(self.number(program, name), value, name)
        self.steps(program, ("alloc 512", 3), ("free 1", 0), ("snapshot", 0))
        self.assertEqual([self.number(program, "allocation.all." + part) for part in ("allocated", "freed")], [1, 1])
        stats = stats_of(self.read(program.written()))  # for snapshots the counts go on
        self.assertEqual(stats["allocation"], {"current": 1, "peak": 2, "allocated": 4, "freed": 3})
        self.assertEqual(program.end(), 0)

    def test_devices_have_their_own(self):
        program = self.begin(SIMCUDA_DEVICES="2")
        self.steps(program, ("alloc %d" % MIB, 0), ("device 1", 0), ("alloc %d" % (2 * MIB), 1), ("alloc %d" % (2 * MIB), 2), ("free 2", 0), ("number allocated_bytes -1", 2 * MIB),
                   ("number allocated_bytes 0", MIB), ("reset_peaks 0", OK), ("number allocated_bytes.all.peak 1", 4 * MIB),
                   ("set_limit 1 %d" % (3 * MIB), OK), ("alloc %d" % (4 * MIB), -1), ("device 0", 0), ("alloc %d" % (4 * MIB), 3))
        self.assertEqual(program.end(), 0)

    def test_memory_info(self):
        program = self.begin(SIMCUDA_CAPACITY="1GiB", SIMCUDA_DEVICES="2")
        self.steps(program, ("alloc %d" % (100 * MIB), 0), ("device 1", 0), ("alloc %d" % MIB, 1))
        before = program.step("memory_free 0")
        self.steps(program, ("free 0", 0), ("memory_total 0", 1024), ("memory_free 0", before + 100), ("set_limit 0 %d" % (256 * MIB), OK),
                   ("memory_total 0", 256), ("memory_free 0", 256), ("memory_total 1", 1024))
        self.assertEqual(program.end(), 0)


class Requests(ApiCase):
    def test_empty_cache(self):
        program = self.begin()
        self.steps(program, ("alloc %d" % (4 * MIB), 0), ("free 0", 0), ("synchronize", 0), ("empty_cache", 4 * MIB), ("number reserved_bytes", 0), ("empty_cache", 0))
        self.assertEqual(program.end(), 0)

    def test_limit(self):
        program = self.begin(LIMIT="8MiB")
        self.steps(program, ("alloc %d" % (9 * MIB), -1), ("set_limit 0 0", INVALID), ("set_limit 0 %d" % (16 * MIB), OK), ("alloc %d" % (9 * MIB), 0),
                   ("alloc %d" % (9 * MIB), -1), ("set_limit 0 none", OK), ("alloc %d" % (9 * MIB), 1))
        self.assertEqual(program.end(), 0)

    def test_snapshot(self):
        program = self.begin()
        path = os.path.join(program.folder, "mine.json")
        self.steps(program, ("alloc %d" % MIB, 0), ("snapshot " + path, OK))
        self.assertEqual(program.message("snapshot \""), 'snapshot "%s" errno 0' % path)
        self.assertEqual(self.read(path)["reason"], "request")
        self.steps(program, ("snapshot " + path, OK))
        self.assertEqual(program.message('snapshot "'), 'snapshot "%s.1" errno 0' % path)
        for wrong, number in ((program.folder, 21), (os.path.join(program.folder, "none", "x.json"), 2)):  # EISDIR, ENOENT
            self.steps(program, ("snapshot " + wrong, FAILED))
            self.assertEqual(program.message('snapshot "'), 'snapshot "" errno %d' % number)
        self.assertEqual(program.end(), 0)

    def test_recording(self):
        program = self.begin()
        sizes = []
        for recording, answer, mode in (("2", OK, "all"), ("1", OK, "state"), ("3", INVALID, "state"), ("0", OK, "off"), ("2", OK, "all")):
            self.steps(program, ("set_recording " + recording, answer), ("alloc %d" % (1000 + len(sizes)), len(sizes)), ("snapshot", OK))
            with open(program.written()) as file:
                snapshot = json.load(file)
            self.assertEqual(snapshot["settings"]["trace"], mode)
            events = snapshot["events"]
            sizes.append([size for size, action in zip(events["size"], events["action"]) if events["actions"][action] == "alloc"])
        self.assertEqual(sizes, [[1000]] * 4 + [[1004]])
        self.assertEqual(program.end(), 0)

    def test_verbose(self):
        program = self.begin()
        self.steps(program, ("set_verbose 3", INVALID), ("set_verbose 0", OK), ("alloc 1000", 0), ("snapshot", OK))
        self.assertEqual(program.end(), 0)
        self.assertNotIn("snapshot written", program.err)


class Scopes(ApiCase):
    def report(self, program, scope):
        self.steps(program, ("end %d" % scope, OK))
        return json.loads(program.message("{"))

    def test_report(self):
        program = self.begin()
        self.steps(program, ("alloc %d" % MIB, 0), ("alloc %d" % (8 * MIB), 1), ("free 1", 0), ("synchronize", 0), ("begin step", 1),
                   ("alloc %d" % (8 * MIB - 1), 2), ("alloc %d" % (2 * MIB), 3), ("free 2", 0), ("free 0", 0), ("synchronize", 0))
        self.assertEqual(self.report(program, 1), {
            "peak_allocated": 11 * MIB, "peak_reserved": 11 * MIB, "peak_cached": 9 * MIB, "peak_requested": 11 * MIB - 1,
            "allocated_bytes": 10 * MIB, "allocations": 2, "freed_bytes": 9 * MIB, "frees": 2, "cache_hits": 1, "cache_misses": 1,
            "driver_allocs": 1, "driver_frees": 0, "num_ooms": 0, "has_duration": 1, "cache_hit_rate": 0.5, "efficiency": 1.0})
        self.steps(program, ("end 1", UNKNOWN), ("end 0", INVALID), ("begin", -INVALID))
        self.assertEqual(program.end(), 0)

    def test_peaks_of_scopes_that_overlap(self):
        """Each has the highest of its own time; what others read of peaks, and a reset, changes none of them."""
        program = self.begin()
        self.steps(program, ("alloc %d" % (32 * MIB), 0), ("free 0", 0), ("begin outer", 1), ("alloc %d" % (8 * MIB), 1), ("free 1", 0),
                   ("begin inner", 2), ("alloc %d" % (2 * MIB), 2), ("reset_peaks 0", OK), ("alloc %d" % MIB, 3), ("free 2", 0), ("free 3", 0))
        self.assertEqual(self.report(program, 2)["peak_allocated"], 3 * MIB)
        self.assertEqual(self.number(program, "allocated_bytes.all.peak"), 3 * MIB)
        self.steps(program, ("begin late", 3), ("alloc %d" % MIB, 4), ("free 4", 0))
        self.assertEqual(self.report(program, 1)["peak_allocated"], 8 * MIB)
        self.steps(program, ("alloc %d" % (4 * MIB), 5))
        self.assertEqual(self.report(program, 3)["peak_allocated"], 4 * MIB)
        self.assertEqual(self.number(program, "allocated_bytes.all.peak"), 4 * MIB)
        self.assertEqual(program.end(), 0)

    def test_a_scope_hides_no_peak(self):
        """From snapshots, and from the record of a program that is killed inside one."""
        program = self.begin()
        self.steps(program, ("alloc %d" % (32 * MIB), 0), ("free 0", 0), ("begin x", 1), ("alloc %d" % MIB, 1), ("snapshot", OK))
        snapshot = self.read(program.written())
        self.assertEqual(stats_of(snapshot)["allocated_bytes"]["peak"], 32 * MIB)
        if TOOL:
            recovered = self.kill_and_recover(program)
            self.assertEqual(stats_of(recovered)["allocated_bytes"]["peak"], 32 * MIB)

    def test_devices(self):
        program = self.begin(SIMCUDA_DEVICES="2")
        self.steps(program, ("begin zero 0", 1), ("begin one 1", 2), ("alloc %d" % MIB, 0), ("device 1", 0), ("alloc 512", 1), ("begin current -1", 3),
                   ("alloc 512", 2))
        self.assertEqual([self.report(program, scope)["allocations"] for scope in (1, 2, 3)], [1, 2, 1])
        self.assertEqual(program.end(), 0)

    def test_as_many_as_there_may_be(self):
        program = self.begin()
        self.steps(program, *[("begin x", i) for i in range(1, 65)])
        self.steps(program, ("begin x", -FAILED), ("end 7", OK), ("begin x", 65))
        self.assertEqual(program.end(), 0)

    def kill_and_recover(self, program):
        program.signal(signal.SIGKILL)
        program.end()
        record = next(os.path.join(folder, name) for folder, _, names in os.walk(self.record_folder) for name in names
                      if "-%d" % program.pid in name or ".%d" % program.pid in name or str(program.pid) in name)
        path = os.path.join(program.folder, "recovered.json")
        subprocess.run([TOOL, "recover", record, "-o", path], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120)
        return self.read(path)


class Threads(ApiCase):
    def test_all_at_once(self):
        for settings in ({}, {"TYPE": "segment"}, {"GP_LOCK_GAPS": "3"}):
            program = self.begin(**settings)
            self.steps(program, ("threads", 0), ("synchronize", 0), ("number allocation", 0), ("snapshot", OK))
            snapshot = self.read(program.written())
            self.assertEqual(stats_of(snapshot)["allocation"]["allocated"], 400)
            self.assertEqual({mark["kind"] for mark in snapshot["marks"]}, {"begin", "mark", "end"})
            self.assertEqual(program.end(), 0)


class Marks(ApiCase):
    def told(self, snapshot):
        marks = snapshot["marks"]
        self.assertEqual([mark["time_ns"] for mark in marks], sorted(mark["time_ns"] for mark in marks))
        return [(mark["kind"], mark["name"], mark["scope"], mark["device"]) for mark in marks]

    def test_snapshots_have_them(self):
        program = self.begin()
        self.steps(program, ("mark " + 100 * "x", OK), ("mark", INVALID), ("alloc %d" % MIB, 0), ("begin step -1", 1), ("alloc 512", 1), ("mark y", OK),
                   ("end 1", OK), ("set_recording 0", OK), ("mark unseen", OK), ("set_recording 2", OK), ("snapshot", OK))
        snapshot = self.read(program.written())
        self.assertEqual(self.told(snapshot), [("mark", 71 * "x", None, None), ("begin", "step", 1, 0), ("mark", "y", None, None), ("end", "step", 1, 0)])
        self.assertEqual({snapshot["threads"][mark["thread"]]["tid"] for mark in snapshot["marks"]}, {program.pid})
        if TOOL:
            self.assertEqual(self.told(Scopes.kill_and_recover(self, program)), self.told(snapshot))

    def test_the_newest_are_kept(self):
        program = self.begin()
        self.steps(program, ("alloc 512", 0), ("marks 33000", OK))
        self.steps(program, ("snapshot", OK))
        self.assertEqual([name for _, name, _, _ in self.told(self.read(program.written()))], ["m%d" % i for i in range(33000 - 32767, 33000)])
        self.assertEqual(program.end(), 0)


class Examples(PreloadCase):
    """Those of doc/examples: as they are printed, with the library and without."""

    def run_example(self, name, *lines, **settings):
        if not os.path.exists(os.path.join(PROG, name)):
            self.skipTest("no C++ compiler")
        run = self.run_program(name, **settings)
        self.assertEqual((run.status, run.out.splitlines()[:len(lines)]), (0, list(lines)), run.err)
        self.expect_clean(run)
        return run

    def test_steps(self):
        run = self.run_example("example_steps", "gpupool is not there", "step 1", "step 2", "step 3", preload=None)
        self.assertEqual(len(run.out.splitlines()), 4)
        with open(os.path.join(SOURCE, "meson.build")) as file:
            version = re.search(r"version: '(.*)'", file.read()).group(1)
        # Memory comes back when the pool learns that it is unused, which a busy machine delays: hence the virtual clock
        run = self.run_example("example_steps", "gpupool " + version,
                               "step 1: at most 3 MiB, 0 of 2 allocations without the driver",
                               "step 2: at most 6 MiB, 1 of 2 allocations without the driver",
                               "step 3: at most 10 MiB, 1 of 2 allocations without the driver",
                               "gpupool memory summary, device 0, limit none", virtual_clock=True)
        marks = run.snapshot()["marks"]
        self.assertEqual([mark["kind"] for mark in marks], ["begin", "end"] * 3)

    def test_shared(self):
        self.run_example("example_shared", "it took a copy, and reads 7", preload=None)
        self.run_example("example_shared", "it took a copy, and reads 7", DISABLE="1")
        self.run_example("example_shared", "it holds the memory, and reads 7", "2 allocations, at most 1048576 bytes")


class Holders(ApiCase):
    """A block returns to the pool when the last holder lets go."""

    MODES = [{"TYPE": kind} for kind in ("round", "segment", "vmm", "unpooled")] + [{"REUSE": "strict"}]

    def test_retained_memory_is_not_handed_out(self):
        for settings in self.MODES:
            for kind in ("alloc", "async")[:1 if settings.get("TYPE") == "unpooled" else 2]:  # the driver serves it itself then
                with self.subTest(settings, kind=kind):
                    program = self.begin(**settings)
                    self.steps(program, ("%s %d" % (kind, 4 * MIB), 0), ("retain 0", OK), ("retain 0", OK), ("free 0", 0), ("synchronize", 0),
                               ("number deferred_bytes", 4 * MIB), ("%s %d" % (kind, 4 * MIB), 1), ("address 1", 0), ("release 0", OK), ("synchronize", 0), ("%s %d" % (kind, 4 * MIB), 2),
                               ("release 0", OK), ("release 0", UNKNOWN), ("retain 0", UNKNOWN), ("synchronize", 0))
                    blocks = {"round": 3}.get(settings.get("TYPE"))
                    if blocks:  # a whole driver allocation each: what was let go of is handed out now
                        self.assertEqual(self.number(program, "cache_misses"), blocks)
                        self.steps(program, ("%s %d" % (kind, 4 * MIB), 3), ("number cache_misses", blocks))
                    self.assertEqual(program.end(), 0)

    def test_what_has_no_owner(self):
        program = self.begin()
        self.steps(program, ("retain", UNKNOWN), ("release", UNKNOWN), ("alloc %d" % MIB, 0), ("release 0", UNKNOWN), ("free 0", 0), ("retain 0", UNKNOWN),
                   ("number allocation", 0))
        self.assertEqual(program.end(), 0)


if __name__ == "__main__":
    unittest.main()
