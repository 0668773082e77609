#!/usr/bin/env python3
"""The logic of the hardware check, without a GPU: the manifest, what is judged a failure, the verdicts, the options."""

import argparse
import glob
import json
import os
import select
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True

import execute
import judge
import manifest
import page
import programs
import report
import session
import verdict

HERE = os.path.dirname(os.path.abspath(__file__))


def result(status=0, out="", err="", timed_out=False):
    return execute.Result(["program"], status, timed_out, 1.0, out, err, 1)


def observation(under="driver", values=None, status=0, stats=None, sim=None, out="", timed_out=False, assumed=None,
                skip=None, settings=None):
    facts = {name: {"name": name, "value": value} for name, value in (values or {}).items()}
    for name, pair in (assumed or {}).items():
        facts[name] = {"name": name, "value": pair[0], "assumed": pair[1], "says": ""}
    return judge.Observation(manifest.run(under, **(settings or {})), result(status, out, timed_out=timed_out), facts, skip,
                             stats, sim, [])


def a_check(judged="facts", expect=()):
    return manifest.check("name", "preload", "shows", "program", judge=judged, expect=expect)


class Manifest(unittest.TestCase):
    def test_names_are_unique(self):
        names = [check.name for check in manifest.CHECKS]
        self.assertEqual(len(names), len(set(names)))

    def test_every_line_names_what_there_is(self):
        for check in manifest.CHECKS:
            kind, _, name = check.program.rpartition(":")
            self.assertIn(check.part, manifest.PARTS)
            self.assertTrue(callable(getattr(judge, check.judge, None)), check.judge)
            if kind == "python":
                self.assertTrue(os.path.exists(os.path.join(HERE, "python", name)), name)
            elif kind == "prog":
                self.assertTrue(os.path.exists(os.path.join(HERE, "..", "prog", name + ".c")), name)
            else:
                self.assertIn(name, manifest.PROGRAMS)
            for run in check.runs:
                self.assertIn(run.under, ("driver", "pool", "unsafe", "trace"))
            if check.sim and not kind:
                self.assertFalse(manifest.PROGRAMS[name].static, "%s: a static runtime is NVIDIA's" % name)

    def test_every_program_is_built_and_used(self):
        sources = {os.path.relpath(path, HERE) for path in glob.glob(os.path.join(HERE, "*", "*.cu"))}
        self.assertEqual(sources, {program.source for program in manifest.PROGRAMS.values()})
        used = {name for check in manifest.CHECKS for name in manifest.built_by_nvcc(check)}
        self.assertEqual(set(manifest.PROGRAMS), used)

    def test_every_question_is_asked(self):
        asked = "-".join(check.name for check in manifest.CHECKS)
        for number in range(1, 20):
            self.assertIn("G%d-" % number, asked + "-")

    def test_verdicts_rest_on_checks_that_there_are(self):
        names = {check.name for check in manifest.CHECKS}
        for mode in verdict.decide([]).values():
            for condition in mode["conditions"]:
                self.assertIsNone(condition["met"])
                for name in condition["reason"].partition(": ")[2].split(", "):
                    self.assertIn(name, names | {""})


class Judge(unittest.TestCase):
    def expect(self, wanted, check, *observations):
        self.assertEqual(judge.judge(check, observations)[0], wanted, judge.judge(check, observations))

    def test_ends_that_are_failures(self):
        for bad in (observation(status=1), observation(status=-11), observation(status=-9, timed_out=True),
                    observation(status=0)):
            self.expect("failed", a_check(), bad)
        self.expect("passed", a_check(), observation(values={"a": 1}))

    def test_a_program_that_cannot_run_is_skipped_with_its_reason(self):
        self.assertEqual(judge.judge(a_check(), [observation(status=77, skip="too old")]), ("skipped", ["too old"]))

    def test_a_program_that_finds_a_reason_only_under_the_pool_fails(self):
        self.expect("failed", a_check("equal"), observation(values={"result: x": 1}),
                    observation("pool", status=77, skip="no device", stats={}))

    def test_a_pool_that_saw_nothing_is_a_failure(self):
        self.expect("failed", a_check(), observation("pool", {"a": 1}))
        self.expect("passed", a_check(), observation("pool", {"a": 1}, stats={}))

    def test_expectations_of_the_snapshot(self):
        check = a_check("passes", (("reserved_bytes.peak", "<=", 10), ("cache_hits", ">", 0)))
        self.expect("passed", check, observation("pool", stats={"reserved_bytes.peak": 10, "cache_hits": 1}))
        self.expect("failed", check, observation("pool", stats={"reserved_bytes.peak": 11, "cache_hits": 1}))
        self.expect("failed", check, observation("pool", stats={"reserved_bytes.peak": 1, "cache_hits": 0}))

    def test_corruption(self):
        wrong, right = {"mismatches": 3}, {"mismatches": 0}
        seen = {"corrupt_stamps": 2, "violations": 0}
        self.expect("failed", a_check("clean"), observation(values=wrong))
        self.expect("failed", a_check("clean"), observation(values=right, sim=seen))
        self.expect("failed", a_check("clean"), observation(values={"it is so": False}))
        self.expect("passed", a_check("clean"), observation(values=right))
        self.expect("passed", a_check("caught"), observation(values=wrong))
        self.expect("passed", a_check("caught"), observation(values=right, sim=seen))
        self.expect("failed", a_check("caught"), observation(values=right))

    def test_counts(self):
        values = {"mismatches": 0, "allocations": 5, "frees": 4, "stream-ordered allocations": 2,
                  "stream-ordered frees": 1}
        pooled = {"allocation.allocated": 7, "allocation.freed": 5}
        forwarded = {"allocation.allocated": 5, "allocation.freed": 4}
        for type_name, good, other in (("round", pooled, forwarded), ("unpooled", forwarded, pooled)):
            settings = {"TYPE": type_name}
            self.expect("passed", a_check("counted"), observation("pool", values, stats=good, settings=settings))
            for name in good:
                wrong = dict(good, **{name: other[name]})
                self.expect("failed", a_check("counted"), observation("pool", values, stats=wrong, settings=settings))

    def test_full_device(self):
        values = {"mismatches": 0, "a full device answers": "cudaErrorMemoryAllocation", "bytes that fitted": 1000,
                  "three quarters of it in one piece": "cudaSuccess",
                  "twice the device answers": "cudaErrorMemoryAllocation"}
        driver = observation("driver", values)
        self.expect("passed", a_check("full"), driver, observation("pool", values, stats={}))
        for name, bad in (("three quarters of it in one piece", "cudaErrorMemoryAllocation"),
                          ("bytes that fitted", 900), ("twice the device answers", "cudaErrorUnknown")):
            self.expect("failed", a_check("full"), driver, observation("pool", dict(values, **{name: bad}), stats={}))

    def test_same_output(self):
        driver = observation(out="a\nb\n")
        self.expect("passed", a_check("same"), driver, observation("pool", out="a\nb\n", stats={}))
        self.expect("failed", a_check("same"), driver, observation("pool", out="a\n", stats={}))
        self.expect("failed", a_check("same"), driver, observation("pool", out="a\nc\n", stats={}))

    def test_equal_results(self):
        driver = observation(values={"result: x": 100.0, "result: y": "7"})
        good = observation("pool", {"result: x": 100.05, "result: y": "7"}, stats={})
        self.expect("passed", a_check("equal"), driver, good)
        for values in ({"result: x": 101.0, "result: y": "7"}, {"result: x": 100.0, "result: y": "8"}, {}):
            self.expect("failed", a_check("equal"), driver, observation("pool", values, stats={}))

    def test_stacks_with_a_line_of_the_script(self):
        frames = [{"file": "/a/train.py"}, {"file": "/a/other.py"}, {"function": "main"}]
        snapshot = {"frames": frames, "stacks": [[2, 1], [1, 0], [0], [2]], "events": {"stack": [0, -1, 1, 2, 1]}}
        self.assertEqual(judge.stacks_of_script(snapshot, "train.py"), "2 of 3 stacks")

    def test_facts_are_found_behind_other_output(self):
        facts, skip = judge.parse_facts('warning\n{"program": "p", "facts": [{"name": "n", "value": 1}]}\nbye\n')
        self.assertEqual((facts["n"]["value"], skip), (1, None))
        self.assertEqual(judge.parse_facts('{"program": "p", "skip": "why"}'), ({}, "why"))
        self.assertEqual(judge.parse_facts('{"program": "p", "fac'), ({}, None))


def outcome(name, passed=True, **assumed):
    facts = [{"name": key, "value": pair[0], "assumed": pair[1], "says": ""} for key, pair in assumed.items()]
    return {"name": name, "part": "question", "shows": "", "result": "passed" if passed else "failed",
            "problems": [] if passed else ["why"], "surprises": [], "comparison": "", "runs": [{"facts": facts}]}


def good_outcomes():
    calls = {"cudaMalloc is seen": (True, True)}
    sync = outcome("G5-waits-sync", **{"cudaDeviceSynchronize covers: legacy": (True, True)})
    sync["runs"][0]["facts"].append({"name": "cudaMemcpy device to host, 64 B waits for", "value": "legacy, blocking"})
    return [outcome("G1-coverage", **{"covers: legacy": (True, True), "completes after: legacy": (True, True)}),
            outcome("G3-runtime-calls", **calls), outcome("G3-runtime-calls-static", **calls), sync] + [
                outcome("integrity-" + name) for name in ("unsafe", "driver", "auto", "context", "strict", "deferred",
                                                          "many", "per-thread")]


class Verdict(unittest.TestCase):
    def verdicts(self, outcomes):
        return {mode: decided["verdict"] for mode, decided in verdict.decide(outcomes).items()}

    def test_all_met(self):
        self.assertEqual(set(self.verdicts(good_outcomes()).values()), {"conditions met"})

    def test_nothing_known(self):
        self.assertEqual(set(self.verdicts([]).values()), {"not decided"})

    def refute(self, name, fact, value, *modes):
        outcomes = good_outcomes()
        chosen = next(o for o in outcomes if o["name"] == name)
        if fact is None:
            chosen.update(result="failed", problems=["why"])
        else:
            next(f for f in chosen["runs"][0]["facts"] if f["name"] == fact)["value"] = value
        refuted = {mode for mode, text in self.verdicts(outcomes).items() if text == "conditions not met"}
        self.assertEqual(refuted, set(modes), name)

    def test_each_condition_decides_its_modes(self):
        everything = ("strict", "context")
        self.refute("G1-coverage", "covers: legacy", False, "context")
        self.refute("G1-coverage", "completes after: legacy", False, "context")
        self.refute("G3-runtime-calls-static", "cudaMalloc is seen", False, *everything)
        self.refute("G5-waits-sync", "cudaDeviceSynchronize covers: legacy", False, *everything)
        self.refute("integrity-strict", None, None, "strict")
        self.refute("integrity-context", None, None, "context")
        self.refute("integrity-unsafe", None, None)  # a control that fails leaves all open

    def test_a_control_that_fails_decides_nothing(self):
        outcomes = good_outcomes()
        next(o for o in outcomes if o["name"] == "integrity-unsafe").update(result="failed", problems=["why"])
        self.assertEqual(set(self.verdicts(outcomes).values()), {"not decided"})

    def test_what_was_not_run_is_open(self):
        for gone in [o["name"] for o in good_outcomes()]:
            left = [o for o in good_outcomes() if o["name"] != gone]
            self.assertIn("not decided", self.verdicts(left).values(), gone)


class Pages(unittest.TestCase):
    def test_facts_of_one_kind_are_one_row(self):
        found = {"reading the clock": "5 ns", "cudaMalloc of 1 B": "3 us", "cudaMalloc of 4 KiB": "3 us", "cudaMalloc of 1 GiB": "9 us",
                 "covers: legacy": "yes", "covers: green": "yes", "covers: other": "no", "driver": "none",
                 "cuMemAlloc, global": "ok", "cuMemAlloc, relaxed": "ok", "cuMemFree, global": "ok", "cuMemFree, relaxed": "ok",
                 "cuEventQuery, idle": "1 us", "cuEventQuery beside a kernel in this context": "2 us"}
        self.assertEqual(page.rows_of([found]), [
            ["", "reading the clock: 5 ns; driver: none"],
            ["cudaMalloc of ...", "1 B, 4 KiB: 3 us; 1 GiB: 9 us"],
            ["covers", "legacy, green: yes; other: no"],
            ["cuMemAlloc; cuMemFree", "global, relaxed: ok"],
            ["cuEventQuery", "idle: 1 us; beside a kernel in this context: 2 us"]])
        other = dict(found, driver="one")
        del other["covers: other"]
        rows = page.rows_of([found, other])
        self.assertIn(["driver", "none", "one"], rows)
        self.assertIn(["covers", "legacy, green: yes; other: no", "legacy, green: yes"], rows)

    def outcomes(self, number):
        """Of all checks, with so many facts of each run that have nothing in common."""
        for check in manifest.CHECKS:
            made = outcome(check.name)
            made.update(part=check.part, shows=check.shows, runs=[])
            for run in check.runs:
                facts = [{"name": check.name + chr(0x4e00 + i), "value": i + 0.5, "unit": "us", "min": i, "p95": i + 1, "samples": 9}
                         for i in range(number)]
                made["runs"].append({"under": run.under, "command": ["program"], "environment": {"GPUPOOL_TYPE": "vmm"}, "seconds": 1,
                                     "facts": facts, "stats": {"fences": 1} if run.under == "pool" else None})
            yield made

    def test_the_page_is_short_and_every_figure_is_beside_it(self):
        for number in (1, 100):
            outcomes = list(self.outcomes(number))
            for check in outcomes:
                for i, run in enumerate(check["runs"]):
                    run["facts"][0]["value"] = i  # so that each fact of several runs has a row
            data = {"date": "", "simulated": False, "complete": True, "command": "", "places": {}, "checks": outcomes, "seconds": 1,
                    "verdicts": verdict.decide(outcomes), "machine": {"processor": "", "processors": 1, "revision": ""}}
            with tempfile.TemporaryDirectory() as folder:
                report.write(data, folder)
                texts = {}
                for name in ("results.md", "figures.md", "gpu-check.json"):
                    with open(os.path.join(folder, name)) as file:
                        texts[name] = file.read()
            self.assertLessEqual(texts["results.md"].count("\n"), page.MOST_LINES)
            self.assertEqual("did not fit" in texts["results.md"], number == 100)
            rows = {"| %s | %s | %s |" % (fact["name"], report.format_value(fact), report.spread(fact))
                    for check in outcomes for run in check["runs"] for fact in run["facts"]}
            self.assertLessEqual(rows, set(texts["figures.md"].splitlines()))
            self.assertEqual(len(json.loads(texts["gpu-check.json"])["checks"]), len(outcomes))

    def test_stored_pages_are_short(self):
        paths = glob.glob(os.path.join(HERE, "..", "..", "doc", "gpu-results", "*.md"))
        self.assertTrue(paths)
        for path in paths:
            with open(path) as file:
                self.assertLessEqual(len(file.readlines()), page.MOST_LINES, path)


class Compare(unittest.TestCase):
    def ran(self, under, seconds, held=None, **settings):
        stats = {"reserved_bytes.peak": held << 20, "cache_hit_rate": 0.5, "allocation.allocated": 8, "driver_allocs": 4,
                 "driver_frees": 1} if under == "pool" else None
        values = {"seconds": seconds} if stats or held is None else {"seconds": seconds, "held": held << 20}
        return observation(under, values, stats=stats, settings=settings)

    def test_each_way_has_its_median_range_and_peak(self):
        seen = [self.ran(*run) for run in (("driver", 4.0), ("pool", 1.0, 10)) * 2]
        seen += [self.ran("driver", 6.0), self.ran("pool", 2.0, 12), self.ran("pool", 3.0, 7, TYPE="unpooled")]
        self.assertEqual(session.compare(seen),
                         "alone 4.000 s (3 runs, 4.000 to 6.000); round 1.000 s (3 runs, 1.000 to 2.000), 4.00 times as fast, 12.0 MiB, "
                         "50.0% of 8 allocations from the pool, 5 driver calls; recorded only 3.000 s, 1.33 times as fast, 7.0 MiB")

    def test_a_program_may_say_what_its_own_allocator_held(self):
        self.assertEqual(session.compare([self.ran("driver", 1.0, 5)]), "alone 1.000 s, 5.0 MiB")


class CutShort(unittest.TestCase):
    """The time of the whole check ends during run N of a comparison that repeats."""

    def perform(self, cut_at):
        check = manifest.real("name", "shows", "thrust", (), runs=(manifest.run("driver"), manifest.run("driver", "other")))

        class Fake(session.Session):
            count = 0

            def missing(self, check):
                return None

            def start(self, check, run, number, waits):
                return None, {}

            def observe(self, check, run, program):
                self.count += 1
                return observation(values={"seconds": 1.0, "result: x": 1})._replace(run=run), self.count == cut_at

        return Fake("", "", "", {}, {}, None, None, time.monotonic() + 60, repeat=2).perform(check)

    def test_what_has_run_in_each_way_is_compared(self):
        outcome = self.perform(3)
        self.assertEqual((outcome["result"], len(outcome["runs"])), ("passed", 2))
        self.assertTrue(outcome["comparison"])

    def test_else_it_is_skipped(self):
        outcome = self.perform(2)
        self.assertEqual((outcome["result"], outcome["comparison"]), ("skipped", ""))


class Rounds(unittest.TestCase):
    """--programs: whole rounds of each way, until the times tell, over several calls."""

    CHECK = manifest.real("name", "shows", "thrust", (), runs=(manifest.run("driver"), manifest.run("pool", TYPE="unpooled")))
    MACHINE = {"revision": "1234567", "gpu": {"name": "a GPU"}, "driver": "580"}

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def perform(self, seconds, cut_at=0, check=CHECK, machine=None, fails_at=0, missing=None):
        """seconds: of one run after the other. Returns the outcome, and how many runs there were."""
        class Fake(programs.Programs):
            count = 0

            def missing(self, check):
                return missing

            def start(self, check, run, number, waits):
                return argparse.Namespace(folder=self.folder, is_ready=lambda: True, end=lambda: None), {}

            def observe(self, check, run, program):
                self.count += 1
                stats = {"reserved_bytes.peak": 1 << 20} if run.under == "pool" else None
                seen = observation(values={"seconds": seconds[(self.count - 1) % len(seconds)], "result: x": 1}, stats=stats,
                                   status=int(self.count == fails_at))
                if self.count == cut_at:
                    self.deadline = time.monotonic()
                return seen._replace(run=run), self.count == cut_at

        kept = programs.Kept(self.folder, machine or self.MACHINE)
        fake = Fake(kept, self.folder, "", "", {}, {}, None, None, time.monotonic() + 60)
        for turn in fake.turns([check]):
            outcome = fake.perform(turn)
        return outcome, fake.count

    def test_three_rounds_where_times_agree(self):
        outcome, count = self.perform([1.0, 2.0])
        self.assertEqual((outcome["result"], count, len(outcome["runs"])), ("passed", 6, 6))
        self.assertIn("alone 1.000 s (3 runs", outcome["comparison"])

    def test_five_where_they_do_not(self):
        self.assertEqual(self.perform([1.0, 2.0, 1.06, 2.0])[1], 10)
        self.assertEqual(self.perform([1.0, 2.0, 1.04, 2.0], machine={"revision": "other"})[1], 6)

    def test_as_many_as_the_table_asks_for(self):
        self.assertEqual(self.perform([1.0], check=self.CHECK._replace(rounds=10))[1], 20)

    def test_the_next_call_goes_on(self):
        outcome, _ = self.perform([1.0], cut_at=2)
        self.assertEqual((outcome["result"], outcome["comparison"]), ("skipped", ""))
        outcome, _ = self.perform([1.0], cut_at=4)
        self.assertEqual((outcome["result"], len(outcome["runs"])), ("passed", 2))
        self.assertIn("the next call goes on after round 1", outcome["comparison"])
        outcome, count = self.perform([1.0])
        self.assertEqual((outcome["result"], count, len(outcome["runs"])), ("passed", 4, 6))
        self.assertNotIn("next call", outcome["comparison"])
        self.assertEqual(self.perform([1.0])[1], 0)

    def test_another_revision_begins_anew(self):
        self.perform([1.0])
        self.assertEqual(self.perform([1.0], machine=dict(self.MACHINE, revision="7654321"))[1], 6)

    def test_a_round_that_failed_runs_again(self):
        for fails_at in (2, 4):
            outcome, count = self.perform([1.0], fails_at=fails_at)
            self.assertEqual((outcome["result"], count), ("failed", fails_at))
        self.assertEqual(self.perform([1.0])[1], 4)

    def test_each_program_has_a_round_before_any_has_two(self):
        checks = [self.CHECK, self.CHECK._replace(name="other")]
        kept = programs.Kept(self.folder, self.MACHINE)
        fake = programs.Programs(kept, self.folder, "", "", {}, {}, None, None, time.monotonic() + 60)
        seen = []
        for check in fake.turns(checks):
            seen.append((check.name, fake.needs(check)))
            for _ in range(fake.needs(check)):
                kept.add(check.name, [{"facts": [], "seconds": 1.0}] * 2)
        self.assertEqual(seen, [("name", 1), ("other", 1), ("name", 2), ("other", 2)])
        last = self.CHECK._replace(name="last")  # of a call that goes on: it has not run yet
        self.assertEqual(next(iter(fake.turns(checks + [last]))), last)

    def test_a_program_that_cannot_be_run_here_has_one_turn(self):
        outcome, count = self.perform([1.0], missing="it is not built")
        self.assertEqual((outcome["result"], outcome["problems"], count), ("skipped", ["it is not built"], 0))

    def test_a_foreign_program_that_fails_without_the_library_says_nothing(self):
        outcome, count = self.perform([1.0], fails_at=1, check=self.CHECK._replace(name="foreign", program="python:foreign.py"))
        self.assertEqual((outcome["result"], count), ("skipped", 1))
        self.assertIn("without the library", outcome["problems"][0])
        self.assertEqual(self.perform([1.0], fails_at=1)[0]["result"], "failed")


class Execute(unittest.TestCase):
    def test_programs_that_start_together_work_one_after_the_other(self):
        with tempfile.TemporaryDirectory() as folder:
            script = "import sys; sys.path.insert(0, %r); import common; common.await_turn(); open(%r, 'a').write(sys.argv[1])" % (
                os.path.join(HERE, "python"), os.path.join(folder, "order"))
            started = [execute.Program([sys.executable, "-c", script, name], os.path.join(folder, name), waits=True) for name in "abc"]
            while not all(program.is_ready() for program in started):
                time.sleep(0.01)
            self.assertFalse(os.path.exists(os.path.join(folder, "order")))
            for i in (2, 0, 1):
                self.assertEqual(started[i].finish(60).status, 0)
            with open(os.path.join(folder, "order")) as file:
                self.assertEqual(file.read(), "cab")

    def test_a_program_that_ends_without_its_turn(self):
        with tempfile.TemporaryDirectory() as folder:
            program = execute.Program(["false"], folder, waits=True)
            while not program.is_ready():
                time.sleep(0.01)
            self.assertEqual(program.finish(60).status, 1)

    def test_a_command_past_its_limit_ends_with_its_children(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "fifo")
            os.mkfifo(path)
            reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            done = execute.execute(["sh", "-c", "echo begun; sleep 600 3>%s & wait" % path], folder, 1)
            self.assertTrue(done.timed_out)
            self.assertEqual(done.out, "begun\n")
            select.select([reader], [], [], 60)  # the kernel may be a while about it
            self.assertEqual(os.read(reader, 1), b"")  # no process has it open for writing any more
            os.close(reader)

    def test_a_command_that_there_is_not(self):
        with tempfile.TemporaryDirectory() as folder:
            done = execute.execute(["/nowhere/program"], folder, 5)
            self.assertEqual(done.status, 127)
            self.assertIn("/nowhere/program", done.err)


class Command(unittest.TestCase):
    def run_check(self, *args, **environment):
        return subprocess.run([sys.executable, os.path.join(HERE, "check.py")] + list(args), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, universal_newlines=True, env=dict(os.environ, **environment))

    def test_mistakes_in_options(self):
        with tempfile.NamedTemporaryFile() as file:
            for args, text in ((["--only", "nothing"], "--only nothing: no such part or check"),
                               (["--only", "real/coverage"], "no such part or check"),
                               (["--time-limit", "0"], "--time-limit"), (["--time-limit", "soon"], "soon"),
                               (["--jobs", "-1"], "--jobs"), (["--repeat", "0"], "--repeat"), (["--out", file.name], file.name),
                               (["--programs", "nothing"], "--programs nothing: no such program; there are solver, "),
                               (["--programs", "--only", "real"], "--programs chooses by itself"),
                               (["--meson-build", "/nowhere"], "/nowhere holds no"), (["--unknown"], "--unknown"),
                               (["extra"], "extra")):
                done = self.run_check(*args)
                self.assertEqual(done.returncode, 2, args)
                self.assertIn(text, done.stderr)
                self.assertNotIn("Traceback", done.stderr)

    def test_list(self):
        done = self.run_check("--list")
        self.assertEqual(done.returncode, 0)
        for check in manifest.CHECKS:
            self.assertIn(check.name, done.stdout)
        only = self.run_check("--list", "--only", "integrity", "--only", "real/solver").stdout
        self.assertIn("integrity-auto", only)
        self.assertIn("solver", only)
        self.assertNotIn("G1-coverage", only)

    def test_without_a_gpu_everything_is_skipped_and_listed(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.run_check("--out", folder, "--revision", "a copy", CUDA_VISIBLE_DEVICES="")
            self.assertEqual(done.returncode, 77, done.stderr)
            with open(os.path.join(folder, "gpu-check.json")) as file:
                data = json.load(file)
            self.assertEqual(data["format"], report.FORMAT["format"])
            self.assertTrue(data["complete"])
            self.assertEqual(data["machine"]["revision"], "a copy")
            self.assertEqual([o["name"] for o in data["checks"]], [check.name for check in manifest.CHECKS])
            for check in data["checks"]:
                self.assertEqual(check["result"], "skipped")
                self.assertTrue(check["problems"][0].startswith("no GPU: "))
                self.assertIn(check["name"], done.stdout)
            for name in ("results.md", "figures.md"):
                with open(os.path.join(folder, name)) as file:
                    self.assertIn("not decided", file.read())


if __name__ == "__main__":
    unittest.main()
