"""The tool on real snapshots: `gpupool run` starts programs under the library, `gpupool summary` reads what they left."""

import glob
import json
import os
import re
import subprocess
import unittest

from harness import GIB, PROG, PreloadCase, SIM, Trace, trace_files

TOOL = os.environ["GP_TOOL"]


class Tool(PreloadCase):
    def tool(self, *args, **settings):
        env = {key: value for key, value in os.environ.items() if not key.startswith(("GPUPOOL_", "SIMCUDA_"))}
        env.update(settings, LD_LIBRARY_PATH=SIM, NO_COLOR="1")
        return subprocess.run([TOOL] + list(args), env=env, cwd=self.folder, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, universal_newlines=True, timeout=120)

    def summary(self, *args):
        result = self.tool("summary", "--json", *args)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)["snapshots"]

    def test_why_nothing_is_pooled(self):
        """An error of the device and a tool that watches are told apart."""
        for settings, code, other in (({"CUDA_INJECTION64_PATH": "/opt/tool.so"}, "aside", "dead"),
                                      ({"SIMCUDA_FAIL": "cuCtxSynchronize:700@1"}, "dead", "aside")):
            run = self.tool("run", "--output", code + ".json", "--", os.path.join(PROG, "scenario"), **settings)
            self.assertEqual(run.returncode, 0, run.stderr)
            (facts,) = self.summary(code + ".json")
            codes = [finding["code"] for finding in facts["findings"]]
            self.assertIn(code, codes)
            self.assertNotIn(other, codes)

    def test_run_and_summary_of_every_trace(self):
        for path in trace_files():
            with self.subTest(trace=os.path.basename(path)):
                trace = Trace(path)
                before = set(glob.glob(os.path.join(self.folder, "*.json")))
                run = self.tool("run", "--", os.path.join(PROG, "replay"), "--check", path)
                self.assertEqual(run.returncode, 0, run.stderr)
                (snapshot,) = set(glob.glob(os.path.join(self.folder, "*.json"))) - before
                name = os.path.basename(snapshot)
                self.assertIn("gpupool: next: gpupool summary " + name, run.stderr.splitlines())
                (facts,) = self.summary(snapshot)
                self.assertEqual(facts["reason"], "exit")
                self.assertFalse(facts["partial"])
                stats = facts["devices"][0]["stats"]
                self.assertEqual(stats["allocation"]["allocated"], trace.allocations)
                self.assertEqual(stats["requested_bytes"]["peak"], trace.peak)
                text = self.tool("summary", snapshot).stdout
                self.assertIn("{:,}".format(trace.allocations), text)
                if trace.allocations >= 100:  # else they are too few to judge the pool by
                    self.assertIn("served from the pool", " ".join(text.split()))
                self.assertLessEqual(max(len(line) for line in text.splitlines()), 120)

    def test_options_reach_the_program(self):
        path = trace_files()[0]
        run = self.tool("run", "--limit=2GiB", "--type", "naive", "--reuse", "strict", "--output", "here.%r.json", "--",
                        os.path.join(PROG, "replay"), path)
        self.assertEqual(run.returncode, 0, run.stderr)
        (facts,) = self.summary(os.path.join(self.folder, "here.oom.json"))
        self.assertEqual((facts["settings"]["type"], facts["settings"]["reuse"]), ("naive", "strict"))
        self.assertEqual(facts["devices"][0]["limit"], 2 * GIB)
        text = " ".join(self.tool("summary", os.path.join(self.folder, "here.oom.json")).stdout.split())
        self.assertIn("Out of memory on device 0", text)
        self.assertRegex(text, "the program requested .* and had .*the limit is 2 GiB")
        self.assertIn("the limit was reached", text)

    def test_the_last_out_of_memory_is_named(self):
        """The first one has a snapshot of its own, the last one that of the exit; each says which it is."""
        run = self.tool("run", "--limit=2GiB", "--output", "%r.json", "--", os.path.join(PROG, "replay"), trace_files()[0])
        self.assertEqual(run.stderr.splitlines()[-1], "gpupool: next: gpupool summary exit.json")
        first, last = (self.summary(name)[0] for name in ("oom.json", "exit.json"))
        self.assertEqual(first["findings"][0]["code"], "oom")
        (found,) = [finding for finding in last["findings"] if finding["code"] == "oom"]
        self.assertRegex(found["message"].replace(",", ""), r"Memory ran out (\d+) times in all; this is --at oom=\1\.")
        self.assertTrue(found["advice"])

    def test_pages_are_beside_the_snapshots(self):
        run = self.tool("run", "--html", "--limit=2GiB", "--output", "page.%r.json", "--", os.path.join(PROG, "replay"), trace_files()[0])
        self.assertEqual(run.returncode, 0, run.stderr)
        for reason in ("oom", "exit"):
            page = os.path.join(self.folder, "page.%s.html" % reason)
            self.assertIn("gpupool: page for a browser: " + page, run.stderr.splitlines())
            self.assertEqual(os.stat(page).st_mode & 0o777, 0o600)
            with open(page, encoding="utf-8") as file:
                self.assertIn('id="payload"', file.read())
        self.assertEqual(run.stderr.splitlines()[-1], "gpupool: next: gpupool summary page.exit.json", "the last of several")
        self.assertEqual(self.tool("run", "--html", "--", "/bin/sh", "-c", "exit 41").returncode, 41)

    def test_snapshots_have_the_id_of_their_run(self):
        """Those of all that it starts, and of a record; one that the program has no part in is not named."""
        replay = "'%s' '%s'" % (os.path.join(PROG, "replay"), trace_files()[0])
        script = "echo $GPUPOOL_RUN; %s >&2; env -u GPUPOOL_RUN GPUPOOL_OUTPUT=other.json %s >&2; '%s' leave" % (
            replay, replay, os.path.join(PROG, "last"))
        result = self.tool("run", "--output", "%e.json", "--", "/bin/sh", "-c", script, GPUPOOL_RECORD=self.folder)
        run = result.stdout.strip()
        self.assertRegex(run, "^[0-9a-f]{16}$")
        self.assertEqual(re.findall("^gpupool: snapshot: (.*)$", result.stderr, re.M), ["replay.json"])
        self.assertEqual(self.tool("recover", "-o", "last.json", GPUPOOL_RECORD=self.folder).returncode, 0)
        runs = {}
        for name in ("replay.json", "other.json", "last.json"):
            with open(os.path.join(self.folder, name), encoding="utf-8") as file:
                snapshot = json.load(file)
            self.expect_valid(snapshot)
            runs[name] = snapshot["process"]["run"]
        self.assertEqual(runs, {"replay.json": run, "other.json": None, "last.json": run})

    def test_an_id_that_is_none_is_not_written(self):
        for text in ("", "x" * 16, "0123456789abcdef-", "\x1b[2J", "0" * 17, "-".join(["0" * 16] * 17)):
            run = self.run_program("scenario", RUN=text)
            self.assertIsNone(run.snapshot()["process"]["run"])
            self.assertEqual(run.err, "")

    def test_exit_status_is_the_programs(self):
        self.assertEqual(self.tool("run", "--", os.path.join(PROG, "replay"), "--no-such-option").returncode, 2)
        self.assertEqual(self.tool("run", "--", "/bin/sh", "-c", "exit 41").returncode, 41)

    def test_program_without_cuda_is_said(self):
        result = self.tool("run", "--", "/bin/true")
        self.assertEqual(result.returncode, 0)
        self.assertIn("no CUDA allocation was seen", result.stderr)

    def test_an_environment_that_is_cleared_is_guessed(self):
        """By a command, and by a script."""
        replay = [os.path.join(PROG, "replay"), trace_files()[0]]
        # Without their options the sanitizers look for leaks at the end of a program, which fails now and then while its threads end.
        kept = ["%s=%s" % (name, os.environ[name]) for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS") if name in os.environ]
        run = self.tool("run", "--", "/usr/bin/env", "-i", "LD_LIBRARY_PATH=" + SIM, *kept, *replay)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("or without LD_PRELOAD (env -i, sudo and some wrappers clear it: put gpupool run after them)", run.stderr)
        script = os.path.join(self.folder, "wrapper")
        with open(script, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\nunset LD_PRELOAD\nexec \"$@\"\n")
        os.chmod(script, 0o755)
        run = self.tool("run", "--", script, *replay)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("or it clears LD_PRELOAD (then put gpupool run before the program in the script)", run.stderr)

    def test_program_that_only_pins_memory_is_not_one_without_cuda(self):
        result = self.tool("run", "--output", "pinned.json", "--", os.path.join(PROG, "last"), "pinned")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("no CUDA allocation", result.stderr)
        self.assertEqual(self.summary("pinned.json")[0]["reason"], "exit")

    def test_what_went_with_a_context_is_what_was_not_freed(self):
        for freed, kept in ((5, 2), (4, 0)):
            name = "context%d.json" % kept
            self.tool("run", "--output", name, "--", os.path.join(PROG, "last"), "context", str(freed), str(kept))
            texts = [f["message"] for f in self.summary(name)[0]["findings"] if f["code"] == "context_lost"]
            self.assertEqual(len(texts), 1 if kept else 0, texts)
            for text in texts:
                self.assertTrue(text.startswith("%d allocations that the program had not freed" % kept), text)

    def test_program_that_leaves_by_exit_now_gets_its_snapshot(self):
        """The library has no say at _exit: the snapshot is made of the record, as `gpupool recover` makes it."""
        for output, name in (("left.%p.%r.json", None), ("plain.json", "plain.json")):
            result = self.tool("run", "--output", output, "--", os.path.join(PROG, "last"), "leave",
                               GPUPOOL_RECORD=self.folder)
            self.assertEqual(result.returncode, 5, result.stderr)
            if not name:
                (name,) = [os.path.basename(path) for path in glob.glob(os.path.join(self.folder, "left.*.recovered.json"))]
            self.assertRegex(result.stderr.splitlines()[-1], "^gpupool: next: gpupool summary .*" + re.escape(name) + "$")
            self.assertNotIn("gpupool recover", result.stderr)
            (facts,) = self.summary(name)
            self.assertEqual(facts["devices"][0]["stats"]["allocation"]["current"], 1)
            self.assertEqual(glob.glob(os.path.join(self.folder, "gpupool.*", "*")), [])  # the record has served
        result = self.tool("run", "--output", output, "--", os.path.join(PROG, "last"), "leave",
                           GPUPOOL_RECORD=self.folder, GPUPOOL_SNAPSHOT_AT="none")
        self.assertEqual(glob.glob(os.path.join(self.folder, "plain.json.*")), [], result.stderr)

    def test_a_program_killed_below_a_shell_is_found(self):
        """By the run's id in its record: not one that another run left meanwhile."""
        last = os.path.join(PROG, "last")
        leave = "%s leave; GPUPOOL_RUN=%s %s leave; exit 3" % (last, "0" * 16, last)
        result = self.tool("run", "--", "/bin/sh", "-c", leave, GPUPOOL_RECORD=self.folder, GPUPOOL_OUTPUT="none.json")
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertNotIn("no CUDA allocation", result.stderr)
        (pid,) = re.findall(r"^gpupool: process (\d+) did not exit normally; its record is left$", result.stderr, re.M)
        self.assertRegex(result.stderr, r"(?m)^gpupool: next: gpupool recover %s$" % pid)
        self.assertEqual(len(glob.glob(os.path.join(self.folder, "gpupool.*", "*"))), 2)
        self.tool("recover", pid, "-o", os.path.join(self.folder, "one.json"), GPUPOOL_RECORD=self.folder)
        self.assertEqual(self.summary("one.json")[0]["reason"], "recovered")

    def test_truncated_and_corrupt_snapshots(self):
        self.tool("run", "--output", "s.json", "--", os.path.join(PROG, "replay"), trace_files()[0])
        with open(os.path.join(self.folder, "s.json"), "rb") as file:
            good = file.read()
        bad = os.path.join(self.folder, "bad.json")
        for cut in [0, 1, 17, 1000, len(good) // 2, len(good) - 2]:
            with open(bad, "wb") as file:
                file.write(good[:cut])
            result = self.tool("summary", bad)
            self.assertEqual(result.returncode, 3, cut)
            self.assertRegex(result.stderr, r"^gpupool: .*bad\.json: .*\n$")
        for at in range(0, len(good), len(good) // 60):
            with open(bad, "wb") as file:
                file.write(good[:at] + bytes([good[at] ^ 0x15]) + good[at + 1:])
            result = self.tool("summary", bad)
            self.assertIn(result.returncode, (0, 3), at)
            self.assertNotIn("Sanitizer", result.stderr)


if __name__ == "__main__":
    unittest.main()
