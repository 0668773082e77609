"""Programs that do not come to their end leave a record, and `gpupool recover` makes the snapshot of it."""

import glob
import json
import os
import re
import signal
import struct
import subprocess
import sys
import time
import unittest

from harness import LIBRARY, PROG, PreloadCase, SIM, stats_of, trace_files

TOOL = os.environ["GP_TOOL"]
MIB = 1 << 20
NO_DESCRIPTION = "the settings and the name of the program are missing"


def dropped_events(path):
    """Of format/record.h and format/chunk.h: of the last section, the member dropped."""
    with open(path, "rb") as file:
        header = file.read(4096)
        file.seek(struct.unpack_from("=Q", header, 104 + 11 * 24)[0])
        return struct.unpack_from("=Q", file.read(64), 32)[0]


class Recover(PreloadCase):
    def setUp(self):
        super().setUp()
        self.records = os.path.join(self.folder, "gpupool.%d" % os.geteuid())

    def environment(self, **settings):
        env = {key: value for key, value in os.environ.items() if not key.startswith(("GPUPOOL_", "SIMCUDA_"))}
        env.update({"GPUPOOL_" + key: value for key, value in settings.items()}, LD_LIBRARY_PATH=SIM, NO_COLOR="1")
        env["GPUPOOL_RECORD"] = settings.get("RECORD", self.folder)
        return env

    def tool(self, *args, **settings):
        return subprocess.run([TOOL] + list(args), env=self.environment(**settings), cwd=self.folder,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=120)

    def start(self, *command, **settings):
        """A program under the library, still running."""
        env = self.environment(OUTPUT=os.path.join(self.folder, "snapshot.%r.json"), **settings)
        env["LD_PRELOAD"] = (env.get("LD_PRELOAD", "") + ":" + LIBRARY).lstrip(":")
        return subprocess.Popen([os.path.join(PROG, command[0])] + list(command[1:]), env=env, cwd=self.folder,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)

    def left(self):
        return sorted(glob.glob(os.path.join(self.records, "*")))

    def recovered(self, *args, has_events=True):
        result = self.tool("recover", *args, "-o", "-")
        self.assertEqual(result.returncode, 0, result.stderr)
        snapshot = json.loads(result.stdout)
        self.assertEqual(snapshot["reason"], "recovered")
        if has_events:
            self.expect_valid(snapshot)
        return snapshot

    def await_record(self, program, bytes=1, dropped=0):
        """Waits until the program's record takes so much memory, and has given up so many events."""
        for _ in range(10000):
            files = glob.glob(os.path.join(self.records, "%d-*" % program.pid))
            if files and os.stat(files[0]).st_blocks * 512 >= bytes and dropped_events(files[0]) >= dropped:
                return
            if program.poll() is not None:
                self.fail("the program ended by itself: %s" % (program.communicate(),))
            time.sleep(0.001)
        program.kill()
        self.fail("no record of %d bytes in %s: %s" % (bytes, self.records, program.communicate()))

    def kill_replay(self, after_bytes, *args, dropped=0, **settings):
        """Kills a replay when its record is as await_record says."""
        program = self.start("replay", trace_files()[0], "--repeat", "60000", *args, **settings)
        self.await_record(program, after_bytes, dropped)
        program.kill()
        program.communicate()
        return program.pid

    def test_killed_before_the_ring_wraps(self):
        """Every event is there, and they lead to what the segments say (expect_valid replays them)."""
        pid = self.kill_replay(2 * MIB // 3, TRACE_EVENTS="1000000")
        snapshot = self.recovered(str(pid))
        self.assertEqual(snapshot["process"]["pid"], pid)
        self.assertEqual(snapshot["process"]["program"], os.path.realpath(os.path.join(PROG, "replay")))
        self.assertEqual(snapshot["process"]["command_line"][2:], ["--repeat", "60000"])
        self.assertEqual(snapshot["settings"]["trace_events"], "1000000")
        self.assertEqual(snapshot["settings"]["sources"]["trace_events"], "environment")
        self.assertEqual((snapshot["recorded_since_ns"], snapshot["dropped_events"]), (0, 0))
        self.assertEqual(snapshot["process"]["driver_version"], 13000)
        self.assertRegex(snapshot["process"]["library_version"], r"^[0-9.]+$")
        self.assertNotIn("notes", snapshot)
        stats = stats_of(snapshot)
        self.assertEqual(stats["allocation"]["current"],
                         sum(s["blocks"][0]["state"] == "active_allocated" for s in snapshot["segments"]))
        self.assertGreater(stats["allocation"]["allocated"], 1000)

    def test_killed_before_it_described_itself(self):
        """As at offset 0 of the first section, where the length of the description is stored last."""
        pid = self.kill_replay(2 * MIB // 3)
        path, = glob.glob(os.path.join(self.records, "%d-*" % pid))
        with open(path, "r+b") as file:
            file.seek(struct.unpack_from("=Q", file.read(4096), 104)[0])
            file.write(bytes(8))
        snapshot = self.recovered(str(pid))
        self.assertEqual(snapshot["settings"], {"sources": {}})
        self.assertEqual(snapshot["notes"], [NO_DESCRIPTION])
        self.assertGreater(stats_of(snapshot)["allocation"]["allocated"], 0)
        self.tool("recover", str(pid), "-o", "here.json")
        for command in ("summary", "sites", "diff"):
            result = self.tool(command, *["here.json"] * (1 + (command == "diff")))
            self.assertEqual((result.returncode, result.stderr), (0, ""), command)

    def test_the_folder_is_taken(self):
        """By another user, or open to others: one line, and a second place, which the tool knows; it stays known later."""
        runtime = os.path.join(self.folder, "runtime")
        os.mkdir(runtime, 0o700)
        os.environ["XDG_RUNTIME_DIR"] = runtime
        self.addCleanup(os.environ.pop, "XDG_RUNTIME_DIR")
        taken, self.records = self.records, os.path.join(runtime, os.path.basename(self.records))
        for take in [lambda: os.chmod(taken, 0o777)] + [lambda: os.chown(taken, 12345, 12345)] * (os.geteuid() == 0):
            os.mkdir(taken, 0o700)
            take()
            program = self.start("replay", trace_files()[0], "--repeat", "60000")
            self.await_record(program)
            self.assertIn("%d" % program.pid, self.tool("recover", "--list").stdout)
            program.kill()
            err = program.communicate()[1]
            self.assertEqual(len([line for line in err.splitlines() if "GPUPOOL_RECORD" in line]), 1, err)
            self.assertIn("GPUPOOL_RECORD=%s: other users have access to the folder %s in it; the record is kept in %s\n" % (
                self.folder, os.path.basename(taken), runtime), err)
            self.assertEqual(os.listdir(taken), [])
            self.assertEqual(self.recovered(str(program.pid))["process"]["pid"], program.pid)
            os.rmdir(taken)
            self.assertEqual(self.recovered(str(program.pid))["process"]["pid"], program.pid)
        del os.environ["XDG_RUNTIME_DIR"]
        os.mkdir(taken)
        os.chmod(taken, 0o777)
        self.assertIn("other users have access", self.tool("recover", "--list").stderr)
        run = self.start("replay", trace_files()[0])
        self.assertIn("would not survive a kill", run.communicate()[1])
        os.environ["XDG_RUNTIME_DIR"] = runtime

    def test_killed_with_stream_ordered_memory(self):
        """Each block names the stream of its owner, and no context; with the history and without."""
        for settings in ({"TRACE_EVENTS": "1000000"}, {"TRACE": "state"}):
            pid = self.kill_replay(2 * MIB // 3 if "TRACE" not in settings else MIB // 7, "--async", "--streams", "3", **settings)
            snapshot = self.recovered(str(pid), has_events="TRACE" not in settings)
            self.assertNotIn("notes", snapshot)
            self.assertEqual({segment["context"] for segment in snapshot["segments"]}, {0})
            owned = [block for segment in snapshot["segments"] for block in segment["blocks"] if block["state"] != "inactive"]
            self.assertEqual({block["stream"] for block in owned}, {0, 1, 2})

    def test_killed_with_cut_memory(self):
        """Segments with all their blocks, and what is idle between them; with the history and without."""
        for settings in ({"TRACE_EVENTS": "1000000"}, {"TRACE": "state"}, {"TRACE_EVENTS": "1000000", "TYPE": "vmm"},
                         {"TRACE": "state", "TYPE": "vmm"}):
            settings = dict({"TYPE": "segment"}, **settings)
            pid = self.kill_replay(2 * MIB // 3 if "TRACE" not in settings else MIB // 7, **settings)
            snapshot = self.recovered(str(pid), has_events="TRACE" not in settings)
            self.expect_covered(snapshot)
            self.assertNotIn("notes", snapshot)
            blocks = [block for segment in snapshot["segments"] for block in segment["blocks"]]
            self.assertGreater(len(blocks), 2 * len(snapshot["segments"]))
            sizes = {state: sum(block["size"] for block in blocks if block["state"] == state)
                     for state in ("active_allocated", "active_pending_free", "inactive")}
            stats = stats_of(snapshot)
            self.assertEqual(stats["segment"]["current"], len(snapshot["segments"]))
            self.assertEqual(stats["allocated_bytes"]["current"], sizes["active_allocated"])
            self.assertEqual(stats["deferred_bytes"]["current"], sizes["active_pending_free"])
            self.assertEqual(stats["cached_bytes"]["current"], sizes["inactive"])
            self.assertEqual(stats["inactive_split_bytes"]["current"],
                             sum(block["size"] for segment in snapshot["segments"] for block in segment["blocks"]
                                 if block["state"] == "inactive" and len(segment["blocks"]) > 1))

    def test_killed_after_the_ring_wrapped(self):
        self.kill_replay(1, dropped=20000, TRACE_EVENTS="4096")
        snapshot = self.recovered()
        self.assertGreater(snapshot["recorded_since_ns"], 0)
        self.assertGreater(snapshot["dropped_events"], 0)
        self.assertLessEqual(len(snapshot["events"]["action"]), 4096 + 256)
        self.assertGreater(len(snapshot["segments"]), 1000, "live blocks do not depend on the ring")
        # The newest event of an address says what its block is now.
        events, state = snapshot["events"], {}
        for action, address, block in zip(events["action"], events["address"], events["block"]):
            state[address] = (events["actions"][action], block)
        expected = {"alloc": "active_allocated", "free_requested": "active_pending_free", "free_completed": "inactive"}
        for segment in snapshot["segments"]:
            action, block = state.get(segment["address"], (None, 0))
            if action in expected:
                self.assertEqual(segment["blocks"][0]["state"], expected[action])
                self.assertEqual(segment["blocks"][0]["block"], block)

    def test_who_asked(self):
        program = self.start("exits", "abort", STACKS="native")
        program.communicate()
        snapshot = self.recovered()
        paths = [m["path"] for m in snapshot["modules"]]
        own = paths.index(os.path.realpath(os.path.join(PROG, "exits")))
        live = [s["blocks"][0] for s in snapshot["segments"] if s["blocks"][0]["state"] == "active_allocated"]
        self.assertEqual(len(live), 4)
        for block in live:
            stack = [snapshot["frames"][f] for f in snapshot["stacks"][block["stack"]]]
            self.assertIn(own, [frame["module"] for frame in stack])
        self.assertNotIn("notes", snapshot)
        for stack in snapshot["events"]["stack"]:
            self.assertLess(stack, len(snapshot["stacks"]))

    def test_state_only(self):
        self.kill_replay(MIB // 8, TRACE="state")
        snapshot = self.recovered(has_events=False)
        self.assertEqual(snapshot["events"]["action"], [])
        self.assertGreater(len(snapshot["segments"]), 100)
        self.assertEqual(snapshot["settings"]["trace"], "state")

    def test_kinds_of_memory(self):
        """What is not pooled is there as well, as the program's own snapshot would have had it."""
        program = self.start("exits", "abort")
        program.communicate()
        self.assertEqual(program.returncode, -signal.SIGABRT)
        snapshot = self.recovered()
        live = [s for s in snapshot["segments"] if s["blocks"][0]["state"] == "active_allocated"]
        self.assertEqual([s["requested_size"] for s in live], [MIB] * 4)
        self.assertEqual(stats_of(snapshot)["requested_bytes"]["current"], 4 * MIB)

    def test_ways_to_end(self):
        for way, kept in (("normal", 0), ("leak", 0), ("quick_exit", 0), ("_exit", 1), ("abort", 1)):
            with self.subTest(way=way):
                program = self.start("exits", way)
                program.communicate()
                self.assertEqual(len(self.left()), kept, self.left())
                if kept:
                    self.assertEqual(len(self.recovered("--remove")["segments"]), 4)
                    self.assertEqual(self.left(), [])

    def test_no_gpu_memory_no_file(self):
        program = self.start("lookups")
        program.communicate()
        self.assertFalse(os.path.exists(self.records))

    def test_a_child_leaves_its_parents_record_alone(self):
        run = self.run_program("fork")
        self.assertEqual(run.status, 0, run.err)
        self.assertEqual(self.left(), [])

    def test_run_names_the_command(self):
        run = self.tool("run", "--", os.path.join(PROG, "exits"), "abort")
        self.assertEqual(run.returncode, -signal.SIGABRT)
        last = run.stderr.splitlines()[-1]
        self.assertRegex(last, r"^gpupool: next: gpupool recover \d+$")
        self.assertEqual(len(self.recovered(last.split()[-1])["segments"]), 4)

    def test_running_programs_are_left_alone(self):
        program = self.start("replay", trace_files()[0], "--repeat", "60000")
        self.await_record(program)
        for args in ((str(program.pid),), (), ("--all",), tuple(self.left())):
            result = self.tool("recover", *args)
            self.assertEqual(result.returncode, 3)
            self.assertRegex(result.stderr, "still runs|no program has left")
        self.assertIn("running", self.tool("recover", "--list").stdout)
        program.kill()
        program.communicate()
        self.assertIn("ended", self.tool("recover", "--list").stdout)

    def test_list_all_and_what_is_kept(self):
        for _ in range(6):
            self.start("exits", "_exit").communicate()
        self.assertEqual(len(self.left()), 5, "four, and the one that began after they were counted")
        listed = self.tool("recover", "--list").stdout
        self.assertEqual(listed.count("ended"), 5)
        times = re.findall(r"^ *(\d+)  (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)  ", listed, re.M)
        began = {pid: self.recovered(pid)["process"]["start_time_us"] // 1000000 for pid, _ in times}
        self.assertEqual([(pid, time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(began[pid]))) for pid, _ in times], times)
        self.assertEqual(listed.count(os.path.join(PROG, "exits")), 5)
        result = self.tool("recover", "--all", "--remove")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(glob.glob(os.path.join(self.folder, "gpupool.exits.*.recovered.json"))), 5)
        self.assertEqual(self.left(), [])
        self.assertEqual(self.tool("recover").returncode, 3)

    def test_the_newest_and_how_many_there_are(self):
        self.start("exits", "_exit").communicate()
        self.assertNotIn("left", self.tool("recover", "-o", "-").stderr)
        second = self.start("exits", "_exit")
        second.communicate()
        both = self.tool("recover", "-o", "-")
        self.assertIn("gpupool: 2 records are left; this is the newest, gpupool recover --list shows all\n", both.stderr)
        self.assertEqual(json.loads(both.stdout)["process"]["pid"], second.pid)
        self.assertNotIn("left", self.tool("recover", str(second.pid), "-o", "-").stderr)

    def test_output_is_not_overwritten(self):
        self.start("exits", "_exit").communicate()
        self.assertEqual(self.tool("recover", "-o", "here.json").returncode, 0)
        again = self.tool("recover", "-o", "here.json")
        self.assertEqual(again.returncode, 2)
        self.assertIn("--force", again.stderr)
        self.assertEqual(self.tool("recover", "-o", "here.json", "--force").returncode, 0)
        for _ in range(2):
            self.assertEqual(self.tool("recover").returncode, 0)
        self.assertEqual(len(glob.glob(os.path.join(self.folder, "gpupool.exits.*.recovered.json*"))), 2)

    def test_a_page_is_beside_the_snapshot(self):
        self.start("exits", "_exit").wait(timeout=60)
        result = self.tool("recover", "--html", "-o", "here.json")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("gpupool: page for a browser: here.html", result.stderr.splitlines())
        self.assertTrue(os.path.exists(os.path.join(self.folder, "here.html")))
        result = self.tool("recover", "--html", "-o", "-")
        self.assertEqual((result.returncode, result.stdout), (2, ""))

    def test_what_cannot_be_read(self):
        self.start("exits", "_exit").communicate()
        (path,) = self.left()
        with open(path, "rb") as file:
            content = file.read(1 << 20)
        for name, data, text in (("empty", b"", "nothing was recorded"), ("text", b"no record" * 1000, "offset 0"),
                                 ("short", content[:100], "cut short")):
            with self.subTest(name=name):
                with open(os.path.join(self.folder, name), "wb") as file:
                    file.write(data)
                result = self.tool("recover", name)
                self.assertEqual(result.returncode, 3)
                self.assertIn(text, result.stderr)
        self.assertEqual(self.tool("recover", self.folder).returncode, 3)
        self.assertEqual(self.tool("recover", "missing").returncode, 3)
        self.assertEqual(self.tool("recover", "--all", "x").returncode, 2)
        self.assertEqual(self.tool("recover", "--lst").returncode, 2)

    def change_layout(self, path):
        """Makes a record that of another build: another hash of the layout, and another version of the library."""
        with open(path, "r+b") as file:
            header = bytearray(file.read(80))
            header[16] ^= 1
            header[48:80] = b"9.8.7".ljust(32, b"\0")
            file.seek(0)
            file.write(header)

    def test_another_build_wrote_it(self):
        refusal = "written by another build (gpupool 9.8.7), which stores other things or elsewhere"
        self.start("exits", "_exit").communicate()
        (path,) = self.left()
        self.assertEqual(os.path.basename(self.tool("recover", "--list").stdout.split()[-1]), "exits")
        self.change_layout(path)
        for command in ((), ("--all",), (path, "-o", "-"), ("--strict",)):
            with self.subTest(command=command):
                result = self.tool("recover", *command)
                self.assertEqual((result.returncode, result.stdout), (3, ""))
                self.assertIn(refusal, result.stderr)
                self.assertIn("the gpupool of that build reads it", result.stderr)
        self.assertEqual(self.left(), [path]) # for the gpupool that reads it
        listed = self.tool("recover", "--list")
        self.assertEqual((listed.returncode, listed.stdout.split()[-1]), (0, "?"))

    def test_run_says_that_another_build_wrote_it(self):
        """The program puts a record of another build where its own would be, and leaves by _exit."""
        self.start("exits", "_exit").communicate()
        (path,) = self.left()
        self.change_layout(path)
        program = os.path.join(self.folder, "program.py")
        with open(program, "w", encoding="utf-8") as file:
            file.write("import os, shutil\nshutil.copy(%r, os.path.join(%r, '%%d-%%d' %% (os.getpid(), 10**18)))\n"
                       "os._exit(0)\n" % (path, self.records))
        result = self.tool("run", "--", sys.executable, program, OUTPUT=os.path.join(self.folder, "of_run.json"))
        self.assertIn("written by another build (gpupool 9.8.7)", result.stderr)
        self.assertEqual(glob.glob(os.path.join(self.folder, "of_run*")), [])
        self.assertEqual(len(self.left()), 2)

    def recover_with_little_memory(self, sections):
        """Of a header, whose sections have these offsets and sizes, and a hole of 1 TiB."""
        self.start("exits", "_exit").communicate()
        with open(self.left()[-1], "rb") as file:
            header = bytearray(file.read(4096))
        for i, (offset, used) in enumerate(sections):
            struct.pack_into("=3Q", header, 104 + 24 * i, offset, used, used)
        with open(os.path.join(self.folder, "sparse"), "wb") as file:
            file.write(header)
            file.truncate(1 << 40)
        env = dict(self.environment(), MALLOC_PERTURB_="0") # which Meson sets, and which touches all memory
        program = subprocess.Popen([TOOL, "recover", "sparse", "-o", "-"], env=env, cwd=self.folder,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
        out, err = program.stdout.read(), program.stderr.read()
        _, status, usage = os.wait4(program.pid, 0)
        program.returncode = status
        program.stdout.close(), program.stderr.close()
        self.assertEqual(status, 0, err)
        if not os.environ.get("GP_SANITIZED", "none").startswith("address"): # which keeps a shadow of all memory
            self.assertLess(usage.ru_maxrss, 100 << 10)
        return json.loads(out).get("notes", [])

    def test_sections_are_bounded(self):
        """4 KiB on disk that claim 2 GiB for every section: none of them is ever so large."""
        notes = self.recover_with_little_memory([((1 + i) << 31, 1 << 31) for i in range(10)])
        self.assertEqual(sum("larger than it ever is" in note for note in notes), 8, notes) # as many as there is room for

    def test_holes_take_no_memory(self):
        """As much of every section as there may be: a hole is zeros, and zeros are nothing."""
        sizes = [160 << 10, 32 << 10, 384 << 10, 152, 80 << 10, 32 << 10, 64 << 20, 32 << 20, 4 << 20, 16 << 20, 96 << 10, 1 << 30]
        notes = self.recover_with_little_memory([((1 + i) << 31, size) for i, size in enumerate(sizes)])
        self.assertEqual(notes, [NO_DESCRIPTION])

    def test_sections_do_not_overlap(self):
        notes = self.recover_with_little_memory([(4096, 4096)] + [(1 << 20, 152)] * 11)
        self.assertEqual(sum("it overlaps that of devices" in note for note in notes), 8, notes) # as many as there is room for

    def test_strict_tells_what_is_missing(self):
        self.start("exits", "_exit").communicate()
        (path,) = self.left()
        self.assertEqual(self.tool("recover", "--strict").returncode, 0)
        with open(path, "rb") as file:
            content = file.read()
        cut = os.path.join(self.folder, "cut")
        with open(cut, "wb") as file:
            file.write(content[:len(content.rstrip(b"\0")) - 100])
        result = self.tool("recover", "--strict", "cut", "-o", "-")
        self.assertEqual(result.returncode, 4, result.stderr)
        self.assertIn("cut short", " ".join(json.loads(result.stdout)["notes"]))

    def test_failed_snapshot_keeps_the_record(self):
        program = self.start("exits", "leak", RECORD=self.folder)
        program.communicate()
        self.assertEqual(self.left(), [])
        env = self.environment(OUTPUT="/proc/none/here.json")
        env.update(LD_PRELOAD=LIBRARY, TMPDIR="/proc/none")
        result = subprocess.run([os.path.join(PROG, "exits"), "leak"], env=env, cwd=self.folder,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
        self.assertEqual(result.returncode, 0)
        (path,) = self.left()
        self.assertIn("next: gpupool recover " + path, result.stderr)
        self.assertEqual(len(self.recovered(path)["segments"]), 4)

    def test_ordinary_memory_says_so(self):
        run = self.run_program("exits", "leak", RECORD="/proc/none")
        self.assertIn("ordinary memory", run.snapshot()["notes"][0])
        run = self.run_program("exits", "leak", RECORD="none")
        self.assertNotIn("notes", run.snapshot())


if __name__ == "__main__":
    unittest.main()
