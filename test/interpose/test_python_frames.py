"""Python frames: whose line asked for memory, under each CPython that is found here."""

import glob
import itertools
import json
import os
import subprocess
import sys
import unittest

from harness import LIBRARY, PROG, QUICK, SANITIZED, SOURCE, PreloadCase
from test_stacks import Snapshot

TOOL = os.environ.get("GP_TOOL")
FAKE = os.environ["GP_FAKE_PYTHON_LIBRARY"]
FAKE_THREADED = os.environ["GP_FAKE_THREADED_LIBRARY"]
PROGRAM = os.path.join(SOURCE, "test", "prog", "python_frames.py")
KNOWN = ((3, 8), (3, 15))
TOLD = "stacks have no Python frames"


def found():
    """The interpreters by version: that of this test, the distribution's, and those of pyenv."""
    by_version = {}
    for path in [os.path.realpath(sys.executable), "/usr/bin/python3"] + glob.glob("/usr/bin/python3.[0-9]") + glob.glob(
            "/usr/bin/python3.[0-9][0-9]") + sorted(glob.glob(os.path.join(os.path.expanduser(os.environ.get("PYENV_ROOT", "~/.pyenv")), "versions", "*", "bin", "python3"))):
        told = subprocess.run([path, "-c", "import ctypes, sys; print(*sys.version_info[:3])"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) if os.path.exists(path) else None
        if told and told.returncode == 0:
            version = tuple(map(int, told.stdout.split()))
            if not any(version[:2] == other[:2] for other in by_version if QUICK):
                by_version.setdefault(version, path)
    return by_version


INTERPRETERS = found()
SUPPORTED = {version: path for version, path in INTERPRETERS.items() if KNOWN[0] <= version[:2] <= KNOWN[1]}


# Those that know -X perf on this processor
TRAMPOLINES = {version: path for version, path in SUPPORTED.items()
               if subprocess.run([path, "-c", "import sys, sysconfig; sys.exit(not sysconfig.get_config_var('PY_HAVE_PERF_TRAMPOLINE'))"]).returncode == 0}


def each(versions=SUPPORTED):
    """A test for each of these interpreters."""
    def for_each(test):
        def run(self):
            for version, path in sorted(versions.items()):
                with self.subTest(version=".".join(map(str, version))):
                    test(self, path)
        run.__name__, run.__doc__ = test.__name__, test.__doc__
        return run
    return for_each


class PythonFrames(PreloadCase):
    def run_case(self, path, case, count=1, **settings):
        return self.run_program(path, PROGRAM, case, str(count), "report.json", TRACE_EVENTS="1000000", **settings)

    def report(self, run):
        with open(os.path.join(run.folder, "report.json")) as file:
            return {int(size): [tuple(frame) for frame in frames] for size, frames in json.load(file).items()}

    def frames_of(self, snapshot, stack):
        """The frames of Python."""
        return [(frame["function"], frame["file"], frame["line"]) for frame in (snapshot.frames(stack) if stack >= 0 else [])
                if frame["module"] < 0 and frame.get("file")]

    def frames(self, snapshot, stack):
        """The same without that of allocate()."""
        frames = self.frames_of(snapshot, stack)
        if frames:
            self.assertEqual(frames[0][:2], ("allocate", PROGRAM))
        return frames[1:]

    def compare(self, run, document=None):
        """Every allocation of the report has exactly its frames, as far as the stack goes. Returns how many there were."""
        document = document or run.snapshot()
        snapshot, report, wrong = Snapshot(document), self.report(run), []
        by_size = {event["size"]: event for event in snapshot.of("alloc")}
        for size, expected in report.items():
            got = self.frames(snapshot, by_size[size]["stack"])
            depth = int(document["settings"]["stack_depth"])
            if not got or got != (expected if len(expected) < depth - 16 else expected[:len(got)]):
                wrong.append((size, expected, got))
        self.assertEqual(wrong[:2], [])
        self.assertEqual(document["lost_stacks"], 0)
        return len(report)

    def test_one_is_there(self):
        self.assertTrue(SUPPORTED, INTERPRETERS)

    @each()
    def test_every_kind_of_function(self, path):
        for stacks in ("python", "all"):
            run = self.run_case(path, "every_kind", 2, STACKS=stacks)
            self.assertEqual((run.status, run.err), (0, ""))
            self.assertGreater(self.compare(run), 300)
            self.expect_valid(run.snapshot())

    @each()
    def test_auto_has_them_too(self, path):
        run = self.run_case(path, "nested", SMALL_MAX="0")
        self.assertEqual((run.status, run.err), (0, ""))
        self.assertEqual(self.compare(run), 2)
        native, = [frame for frame in Snapshot(run.snapshot()).frames(0) if frame["module"] >= 0][:1]
        self.assertGreater(native["address"], 0)

    @each()
    def test_native_has_none(self, path):
        for stacks in ("native", "fp"):
            run = self.run_case(path, "nested", STACKS=stacks)
            self.assertFalse([frame for frame in run.snapshot()["frames"] if "function" in frame])

    @each()
    def test_only_python(self, path):
        run = self.run_case(path, "nested", STACKS="python")
        self.assertFalse([frame for frame in run.snapshot()["frames"] if frame["address"] or frame["module"] >= 0])

    @each()
    def test_freed_code_never_lends_its_name(self, path):
        for stacks in ("python", "all"):
            run = self.run_case(path, "repeat", 200 if QUICK else 1000, STACKS=stacks)
            self.assertEqual((run.status, run.err), (0, ""))
            self.compare(run)

    @each()
    def test_depth(self, path):
        for stacks in ("python", "all"):
            run = self.run_case(path, "every_kind", STACKS=stacks, STACK_DEPTH="12")
            self.compare_depth(run, 12)

    def compare_depth(self, run, depth):
        snapshot, report = Snapshot(run.snapshot()), self.report(run)
        for event in snapshot.of("alloc"):
            self.assertLessEqual(len(snapshot.frames(event["stack"])), depth)
            got = self.frames(snapshot, event["stack"])
            self.assertEqual(got, report[event["size"]][:len(got)])

    @each()
    def test_frames_of_c_between(self, path):
        """The interpreter's own frames give way; those of other libraries stay where they were called."""
        run = self.run_case(path, "through_c", STACKS="all")
        snapshot = Snapshot(run.snapshot())
        by_size = {event["size"]: event for event in snapshot.of("alloc")}
        for size in self.report(run):
            kinds = ["python" if frame["module"] < 0 else os.path.basename(run.snapshot()["modules"][frame["module"]]["path"])
                     for frame in snapshot.frames(by_size[size]["stack"])]
            first = kinds.index("python")
            self.assertTrue(kinds[first - 1].startswith("_ctypes"), kinds)
            self.assertFalse([kind for kind in kinds[:first] if kind.startswith(("python3", "libpython"))], kinds)

    @each()
    def test_greenlets(self, path):
        if subprocess.run([path, "-c", "import greenlet"], stderr=subprocess.DEVNULL).returncode:
            self.skipTest("this Python has no greenlets")
        for stacks in ("python", "all"):
            run = self.run_case(path, "greenlets", 5, STACKS=stacks)
            self.assertEqual((run.status, run.err), (0, ""))
            self.assertGreater(self.compare(run), 50)

    @each()
    def test_fork(self, path):
        run = self.run_case(path, "forked", STACKS="all")
        self.assertEqual((run.status, run.err), (0, ""))
        self.compare(run)

    @each()
    def test_the_line_that_runs_out(self, path):
        for stacks in ("auto", "python"):
            run = self.run_case(path, "too_much", STACKS=stacks)
            with open(os.path.join(run.folder, "report.json")) as file:
                (name, _, line), = json.load(file)["line"]
            self.assertIn(" in %s (python_frames.py:%d);" % (name, line), run.err)

    @each()
    def test_the_end(self, path):
        """Functions that atexit calls have frames. Once the interpreter takes itself apart there are none, and nothing worse."""
        for stacks in ("python", "all"):
            run = self.run_case(path, "finalized", STACKS=stacks, STACKS_FREE="1")
            self.assertEqual((run.status, run.err), (0, ""))
            self.assertEqual(self.compare(run), 3)
            snapshot = Snapshot(run.snapshot())
            freed, = snapshot.of("free_requested", 6000)
            self.assertEqual(self.frames_of(snapshot, freed["stack"]), [])
            run = self.run_case(path, "daemon", STACKS=stacks)
            self.assertEqual((run.status, run.err), (0, ""))

    @each({version: path for version, path in SUPPORTED.items() if version < (3, 12)})
    def test_another_interpreter(self, path):
        """ctypes is for one interpreter from 3.12 on."""
        run = self.run_case(path, "interpreters", STACKS="python")
        self.assertEqual((run.status, run.err), (0, ""))
        self.assertEqual(self.compare(run), 3)  # one is that of the class body
        self.assertEqual([event["stack"] for event in Snapshot(run.snapshot()).events if event["size"] in (5000, 5001)
                          and event["action"] == "alloc"], [-1, -1])

    @unittest.skipUnless(TOOL, "needs the tool")
    @each()
    def test_a_killed_program(self, path):
        self.expect_killed(path)

    def expect_killed(self, path):
        run, document = self.kill_and_recover("all", path)
        self.assertEqual(self.compare(run, document), 3)

    def kill_and_recover(self, stacks, *python):
        folder = os.path.join(self.folder, "killed%d" % next(self.numbers))
        os.mkdir(folder)
        env = dict(os.environ, LD_PRELOAD=LIBRARY, LD_LIBRARY_PATH=os.environ["GP_SIM"], GPUPOOL_RECORD=folder, GPUPOOL_STACKS=stacks)
        report = os.path.join(folder, "report.json")
        killed = subprocess.run(list(python) + [PROGRAM, "killed", "1", report], env=env, stderr=subprocess.PIPE)
        self.assertEqual((killed.returncode, killed.stderr), (-9, b""))
        record, = glob.glob(os.path.join(folder, "gpupool.*", "*"))
        out = os.path.join(folder, "recovered.json")
        subprocess.run([TOOL, "recover", record, "-o", out], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        with open(out) as file:
            return type("Killed", (), {"folder": folder}), json.load(file)

    @each(TRAMPOLINES)
    def test_trampolines_are_no_frames(self, path):
        """-X perf: the native stack has a frame of the interpreter's own for each function. The stack has it once."""
        run = self.run_program(path, "-X", "perf", PROGRAM, "every_kind", "1", "report.json", TRACE_EVENTS="1000000", STACKS="all")
        document = run.snapshot()
        self.forget_map(document)
        self.assertEqual((run.status, run.err), (0, ""))
        self.compare(run)
        snapshot = Snapshot(document)
        self.assertFalse([frame for event in snapshot.of("alloc") for frame in snapshot.frames(event["stack"])
                          if frame["address"] and frame["module"] < 0])

    @each(TRAMPOLINES)
    def test_trampolines_have_names(self, path):
        """The map for perf names the frames where the library knows nothing of Python."""
        run = self.run_program(path, "-X", "perf", PROGRAM, "nested", "1", "report.json", STACKS="native")
        self.expect_trampolines(run.snapshot(), ("allocate", PROGRAM))
        self.expect_valid(run.snapshot())

    @unittest.skipUnless(TOOL, "needs the tool")
    @each(TRAMPOLINES)
    def test_trampolines_of_a_killed_program(self, path):
        self.expect_trampolines(self.kill_and_recover("native", path, "-X", "perf")[1], ("allocate", PROGRAM))

    def expect_trampolines(self, document, name):
        self.forget_map(document)
        snapshot = Snapshot(document)
        for event in snapshot.of("alloc"):
            first, = [frame for frame in snapshot.frames(event["stack"]) if frame["module"] < 0][:1]
            self.assertEqual((first["function"], first["file"], first["line"]), name + (0,))
            self.assertGreater(first["address"], 0)

    def forget_map(self, document):
        os.unlink("/tmp/perf-%d.map" % document["process"]["pid"])

    @each({version: path for version, path in INTERPRETERS.items() if version not in SUPPORTED})
    def test_versions_that_are_not_known(self, path):
        run = self.run_case(path, "nested", STACKS="all")
        self.assertEqual(run.status, 0)
        self.assertEqual((run.err.count("\n"), run.err.count(TOLD)), (1, 1), run.err)
        self.assertFalse([frame for frame in run.snapshot()["frames"] if "function" in frame])


class Fake(PreloadCase):
    """An interpreter that is made for this test (fake_python.c), in a program that knows nothing of it."""

    def run_fake(self, wrong, stacks="python", minor=13, fake=FAKE):
        run = self.run_program("stacks", "policy", preload=LIBRARY + ":" + fake, GP_FAKE_PYTHON=wrong, STACKS=stacks,
                               GP_FAKE_PYTHON_MINOR=str(minor))
        self.assertEqual(run.status, 0, run.err)
        return run

    def test_as_it_should_be(self):
        for stacks, minor in itertools.product(("python", "all", "auto"), (13, 14, 15)):
            self.expect_its_frame(self.run_fake("nothing", stacks, minor))

    def test_free_threaded(self):
        for stacks, minor in itertools.product(("python", "all", "auto"), (13, 14)):
            self.expect_its_frame(self.run_fake("nothing", stacks, minor, FAKE_THREADED))

    def expect_its_frame(self, run):
        self.assertEqual(run.err, "")
        frames = [frame for frame in run.snapshot()["frames"] if "function" in frame]
        self.assertEqual(frames, [{"address": 0, "module": -1, "function": "fake", "file": "fake.py", "line": 12}])

    def test_what_is_wrong_is_told_once(self):
        for wrong in ("cookie", "version", "table", "threaded", "frame", "type", "name"):
            with self.subTest(wrong=wrong):
                self.expect_told(self.run_fake(wrong, "all"))
        for wrong, minor in (("cookie", 13), ("threaded", 13), ("threaded", 14), ("type", 14), ("copy", 14), ("nothing", 15)):
            with self.subTest(free_threaded=wrong, minor=minor):
                self.expect_told(self.run_fake(wrong, "all", minor, FAKE_THREADED))

    def expect_told(self, run):
        self.assertEqual((run.err.count("\n"), run.err.count(TOLD)), (1, 1), run.err)
        self.assertFalse([frame for frame in run.snapshot()["frames"] if "function" in frame])
        self.assertGreater(len(run.snapshot()["frames"]), 0)

    def test_what_is_not_ready_is_not_told(self):
        for wrong in ("chain", "begun", "two"):
            with self.subTest(wrong=wrong):
                run = self.run_fake(wrong, "all")
                self.assertEqual(run.err, "")
                self.assertFalse([frame for frame in run.snapshot()["frames"] if "function" in frame])


if __name__ == "__main__":
    unittest.main()
