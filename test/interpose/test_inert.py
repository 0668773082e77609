"""What the library must not do: to programs without CUDA, to the symbol table, with bad settings."""

import json
import os
import re
import subprocess
import unittest

from harness import LIBRARY, PreloadCase, SOURCE, stats_of, trace_files


def tool(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout


class Inert(PreloadCase):
    def test_needs_libc_only(self):
        needed = re.findall(r"NEEDED.*\[(.*)\]", tool("readelf", "-d", LIBRARY))
        allowed = {"libc.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1", "libdl.so.2", "libpthread.so.0"}
        if "asan" in tool("readelf", "-d", LIBRARY) or "tsan" in tool("readelf", "-d", LIBRARY):
            self.skipTest("built with a sanitizer")
        self.assertEqual([name for name in needed if name not in allowed], [])

    def test_exports_the_hooks_dlsym_and_its_api_only(self):
        with open(os.path.join(SOURCE, "interpose", "routes", "functions.def")) as file:
            hooks = set(re.findall(r"^(?:HOOK|FORWARD_\w+)\((\w+),", file.read(), re.M))
        with open(os.path.join(SOURCE, "interpose", "api", "gpupool.h")) as file:
            api = set(re.findall(r"^\w.*\b(gpupool_(?:api|torch)_\w+)\(", file.read(), re.M))
        with open(os.path.join(SOURCE, "interpose", "routes", "runtime.def")) as file:
            hooks |= set(re.findall(r"^RUNTIME\((\w+)\)", file.read(), re.M))
        with open(os.path.join(SOURCE, "interpose", "hooks", "nvml.def")) as file:
            hooks |= set(re.findall(r"^NVML\((\w+),", file.read(), re.M))
        exported = {line.split()[-1] for line in tool("nm", "-D", "--defined-only", LIBRARY).splitlines()}
        self.assertEqual({name for name in exported if not name.startswith(("__asan", "__tsan", "__odr"))},
                         hooks | api | {"dlsym", "InitializeInjectionNvtx2"} | {"gpupool_debug_holds"} & exported)  # of a debug build
        self.assertGreater(len(hooks), 30)

    def test_exports_have_no_named_version(self):
        """A named version node would not satisfy references to dlsym@GLIBC_2.34, silently."""
        self.assertNotRegex(tool("readelf", "--dyn-syms", "-W", LIBRARY), r"\bdlsym@@?\w")
        self.assertNotIn("Version definition section", tool("readelf", "-V", LIBRARY))

    def test_no_constructor(self):
        sections = tool("readelf", "-S", "-W", LIBRARY)
        match = re.search(r"\.init_array\s+INIT_ARRAY\s+\w+ \w+ (\w+)", sections)
        if "asan" in tool("readelf", "-d", LIBRARY) or "tsan" in tool("readelf", "-d", LIBRARY):
            self.skipTest("built with a sanitizer")
        self.assertEqual(int(match.group(1), 16) if match else 8, 8)  # the compiler's own frame_dummy

    def test_program_without_allocation_writes_nothing(self):
        run = self.run_program("lookups", "/dev/null")
        self.assertEqual(run.snapshot_paths(), [])


class Settings(PreloadCase):
    def test_malformed_values_are_said_once_and_change_nothing(self):
        path = trace_files()[0]
        plain = re.sub(r" seconds=\S+", "", self.run_program("replay", "--check", path, preload=None).out)
        for name, value in (("TYPE", "square"), ("RESERVE", "much"), ("MAX_CACHED", "1XB"), ("IDLE_RELEASE", "-5"),
                            ("ROUND_CUTOFF", "99"), ("PAGE", "1"), ("LARGE_ROUND", "2.5.1MiB"),
                            ("REUSE", "epoch"), ("MAX_DEFERRED", "200%"), ("TRACE", "yes"), ("TRACE_EVENTS", "1e6"),
                            ("SNAPSHOT_AT", "exit,never"), ("OUTPUT_MAX", "0"), ("STATS", "2"), ("VERBOSE", "loud"),
                            ("DISABLE", "maybe")):
            with self.subTest(name=name, value=value):
                run = self.run_program("replay", "--check", path, **{name: value})
                self.assertEqual(run.status, 0, run.err)
                self.assertEqual(re.sub(r" seconds=\S+", "", run.out), plain)
                lines = [line for line in run.messages if "GPUPOOL_%s=%s is malformed" % (name, value) in line]
                self.assertEqual(len(lines), 1, run.err)
                self.assertIn("accepted:", lines[0])

    def test_values_do_not_steer_a_terminal(self):
        """Neither in messages nor in a snapshot, which keeps them all the same."""
        wild = "\x1b[2J\n\x9b\u202e\u2066"
        run = self.run_program("exits", "leak", TYPE=wild, LOG="", OUTPUT="here" + wild + ".json", VERBOSE="2")
        self.assertEqual(run.status, 0)
        self.assertTrue([line for line in run.messages if "GPUPOOL_TYPE=?[2J???? is malformed" in line], run.err)
        (name,) = [name for name in os.listdir(run.folder) if name.startswith("here")]
        with open(os.path.join(run.folder, name), "rb") as file:
            content = file.read()
        for text in (run.err.encode("utf-8", "surrogateescape"), content):
            for bad in (b"\x1b", b"\xc2\x9b", "\u202e".encode(), "\u2066".encode()):
                self.assertNotIn(bad, text)
        self.assertIn(wild, json.loads(content)["settings"]["output"])

    def test_malformed_output_pattern_uses_the_default(self):
        run = self.run_program("replay", trace_files()[0], OUTPUT="x.%z.json")
        self.assertEqual(len([line for line in run.messages if "GPUPOOL_OUTPUT=x.%z.json is malformed" in line]), 1)
        self.assertEqual(len([name for name in os.listdir(run.folder) if name.startswith("gpupool.replay.")]), 1)

    def test_unknown_name_is_said_with_the_nearest(self):
        run = self.run_program("replay", trace_files()[0], LIMITS="1GiB")
        lines = [line for line in run.messages if "GPUPOOL_LIMITS" in line]
        self.assertEqual(len(lines), 1, run.err)
        self.assertIn("GPUPOOL_LIMIT", lines[0].replace("GPUPOOL_LIMITS", ""))

    def test_unwritable_output_folder(self):
        run = self.run_program("replay", trace_files()[0], OUTPUT="/nowhere/at/all/%p.json")
        self.assertEqual(run.status, 0)
        self.assertEqual(len([line for line in run.messages if "/nowhere/at/all" in line]), 1, run.err)

    def test_full_disk(self):
        """The file may not grow past 64 KiB: the snapshot fails with one line, and nothing is left behind."""
        run = self.run_program("replay", trace_files()[0], prefix=(
            "/bin/bash", "-c", 'trap "" XFSZ; ulimit -f 64; exec "$@"', "bash"))
        self.assertEqual(run.status, 0, run.err)
        self.assertEqual(run.snapshot_paths(), [])
        lines = [line for line in run.messages if "File too large" in line or "snapshot" in line]
        self.assertEqual(len(lines), 1, run.err)
        self.assertEqual([name for name in os.listdir(run.folder) if "snapshot" in name], [])

    def test_log_file(self):
        run = self.run_program("replay", trace_files()[0], STATS="1", VERBOSE="1", LOG="log.%p.txt")
        self.assertEqual(run.messages, [])
        logs = [name for name in os.listdir(run.folder) if name.startswith("log.")]
        self.assertEqual(len(logs), 1)
        with open(os.path.join(run.folder, logs[0])) as file:
            text = file.read()
        self.assertIn("GPUPOOL_STATS=1", text)
        self.assertIn("without a driver call", text)
        run = self.run_program("replay", trace_files()[0], LOG="/nowhere/log.txt")
        self.assertEqual(len([line for line in run.messages if "GPUPOOL_LOG=/nowhere/log.txt" in line]), 1)

    def test_log_without_a_reader(self):
        """A FIFO without a reader, or with one that has stopped, and what is no file: the program does not wait for it."""
        fifo = os.path.join(self.folder, "fifo")
        os.mkfifo(fifo)
        run = self.run_program("replay", trace_files()[0], LOG=fifo, STATS="1", timeout=60)
        self.assertEqual(run.status, 0)
        self.assertEqual(len([line for line in run.messages if "(nothing reads from it)" in line]), 1, run.err)
        self.assertIn("without a driver call", run.err)

        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        writer = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, writer)
        for size in (4096, 1):
            try:
                while True:
                    os.write(writer, b"x" * size)
            except BlockingIOError:
                pass
        run = self.run_program("replay", trace_files()[0], LOG=fifo, STATS="1", VERBOSE="2", timeout=60)
        self.assertEqual((run.status, run.messages), (0, []))
        self.expect_valid(run.snapshot())

        for path, messages in ((self.folder, 1), ("/dev/full", 0), ("/dev/null", 0)):
            run = self.run_program("replay", trace_files()[0], LOG=path, timeout=60)
            self.assertEqual((run.status, len([m for m in run.messages if "GPUPOOL_LOG" in m])), (0, messages), run.err)

    def small_trace(self):
        path = os.path.join(self.folder, "small.csv")
        with open(path, "w") as file:
            file.write("op,id,size,stream\nA,0,4096,0\nF,0,0,0\n")
        return path

    def log_by(self, path):
        run = self.run_program("replay", self.small_trace(), LOG=path, VERBOSE="1", STATS="1", timeout=60)
        self.assertEqual(run.status, 0, run.err)
        return run

    def test_the_log_follows_links_of_the_user_and_of_root(self):
        os.symlink("log.txt", os.path.join(self.folder, "link"))
        os.symlink(self.folder, os.path.join(self.folder, "folder"))
        os.symlink("folder/./link", os.path.join(self.folder, "far"))
        os.symlink("nowhere/", os.path.join(self.folder, "end"))
        os.symlink("circle", os.path.join(self.folder, "circle"))
        for path in ("link", "folder/link", "folder/../%s/far" % os.path.basename(self.folder), "folder//log.txt"):
            self.assertEqual(self.log_by(os.path.join(self.folder, path)).messages, [])
            with open(os.path.join(self.folder, "log.txt")) as file:
                self.assertIn("allocations", file.read())
            os.unlink(os.path.join(self.folder, "log.txt"))
        self.assertIn("peak requested", self.log_by("/dev/stderr").err)
        self.assertIn("peak requested", self.log_by("/proc/self/fd/2").err)
        for path, reason in (("circle", "Too many links"), ("end", "No such file or directory"), ("folder/", "Is a directory"),
                             ("small.csv/log", "Not a directory"), ("none/log", "No such file or directory")):
            line, = [m for m in self.log_by(os.path.join(self.folder, path)).messages if "cannot be opened" in m]
            self.assertIn(reason, line)

    @unittest.skipUnless(os.geteuid() == 0, "needs a second user")
    def test_the_log_follows_no_link_of_another_user(self):
        """Neither to a file, nor through a folder, nor to a file that is made, nor behind a link of the user's own."""
        target = os.path.join(self.folder, "target")
        with open(target, "w"):
            pass
        for name, to in (("file", target), ("folder", self.folder), ("new", os.path.join(self.folder, "made"))):
            os.symlink(to, os.path.join(self.folder, name))
            os.chown(os.path.join(self.folder, name), 12345, 12345, follow_symlinks=False)
        os.symlink("file", os.path.join(self.folder, "own"))
        for path in ("file", "folder/target", "new", "own", "folder/new"):
            run = self.log_by(os.path.join(self.folder, path))
            self.assertEqual(len([m for m in run.messages if "a link of another user is on its way" in m]), 1, run.err)
            self.assertTrue([m for m in run.messages if "peak requested" in m])
            self.assertEqual(os.path.getsize(target), 0)
            self.assertFalse(os.path.exists(os.path.join(self.folder, "made")))

    def test_snapshots_go_to_files_only(self):
        """Nothing is made beside a device or a pipe; /dev/null is what a user names who wants none."""
        folder = os.path.join(self.folder, "beside")
        os.mkdir(folder)
        fifo = os.path.join(folder, "fifo")
        os.mkfifo(fifo)
        os.symlink("/dev/null", os.path.join(folder, "null"))
        for name, lines in (("fifo", 1), ("null", 1)):
            run = self.run_program("replay", self.small_trace(), OUTPUT=os.path.join(folder, name), timeout=60)
            self.assertEqual(run.status, 0)
            self.assertEqual(len([m for m in run.messages if "it is not a regular file" in m]), lines, run.err)
            self.assertEqual(sorted(os.listdir(folder)), ["fifo", "null"])
        before = sorted(name for name in os.listdir("/dev") if name.startswith("null"))
        run = self.run_program("replay", self.small_trace(), OUTPUT="/dev/null", timeout=60)
        self.assertEqual((run.status, run.messages), (0, []))
        self.assertEqual(sorted(name for name in os.listdir("/dev") if name.startswith("null")), before)

    def test_few_descriptors(self):
        """What cannot be opened is not said to be in use, or missing."""
        runtime = os.path.join(self.folder, "runtime")
        os.mkdir(runtime, 0o700)
        os.environ["XDG_RUNTIME_DIR"] = runtime
        self.addCleanup(os.environ.pop, "XDG_RUNTIME_DIR")
        run = self.run_program("replay", self.small_trace(), CONTROL="1", VERBOSE="2", OUTPUT="/dev/null",
                               prefix=("sh", "-c", 'ulimit -n 4; exec "$@"', "sh"), timeout=60)
        self.assertEqual(run.status, 0, run.err)
        self.assertNotIn("already in use", run.err)
        self.assertIn("cannot create the socket", run.err)
        self.assertEqual([m for m in run.messages if "cannot create the socket" in m and "Too many open files" not in m], [])

    def test_a_record_that_is_not_safe_is_said(self):
        """The folder is there, and not this user's alone, or it is not there: one line, whatever the verbosity."""
        taken = os.path.join(self.record_folder, "gpupool.%d" % os.geteuid())
        for make in (os.mkdir, lambda path: open(path, "w").close(), lambda path: os.symlink("/tmp", path)):
            make(taken)
            if os.path.isdir(taken) and not os.path.islink(taken):
                os.chmod(taken, 0o777)
            run = self.run_program("replay", trace_files()[0])
            self.assertEqual(run.status, 0)
            self.assertEqual(len([line for line in run.messages if "would not survive a kill" in line]), 1, run.err)
            if os.path.isdir(taken) and not os.path.islink(taken):
                os.rmdir(taken)
            else:
                os.unlink(taken)
        run = self.run_program("replay", trace_files()[0], RECORD="/nowhere")
        line, = [line for line in run.messages if "would not survive" in line]
        self.assertIn("GPUPOOL_RECORD=/nowhere: cannot use the folder: No such file or directory", line)

    def test_program_that_only_pins_memory_of_the_host(self):
        run = self.run_program("last", "pinned")
        snapshot = run.snapshot()
        self.expect_valid(snapshot)
        self.assertEqual(stats_of(snapshot)["pinned_host_bytes"]["allocated"], 2 << 20)

    def test_mxnet_variables(self):
        os.environ["MXNET_GPU_MEM_POOL_TYPE"] = "Round"
        self.addCleanup(os.environ.pop, "MXNET_GPU_MEM_POOL_TYPE")
        settings = self.run_program("replay", trace_files()[0]).snapshot()["settings"]
        self.assertEqual((settings["type"], settings["round_cutoff"]), ("round", "24"))
        settings = self.run_program("replay", trace_files()[0], TYPE="naive").snapshot()["settings"]
        self.assertEqual((settings["type"], settings["round_cutoff"]), ("naive", "none"))


if __name__ == "__main__":
    unittest.main()
