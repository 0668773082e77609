#!/usr/bin/env python3
"""The files that commands write: where -o and --force lead, and what is left of a command that is stopped.

    cli_files.py GPUPOOL PRELOAD_STUB STOP_AT_NAME RECORD
"""

import json
import os
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys
import unittest

import cli
from cli import FAILED, INPUT, USAGE

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fuzz"))
import make_records as made

STOP_AT_NAME = RECORD = None
TRACE = "op,id,size,stream\nA,0,4096,0\nF,0,0,0\n"
ONE_INPUT = (["summary"], ["summary", "--json"], ["leaks"], ["sites"], ["frag"], ["timeline"], ["html"], ["symbolize"],
             ["export", "--to", "pytorch"], ["export", "--to", "perfetto"])


class Files(cli.Case):
    def setUp(self):
        super().setUp()
        path = self.write("s.json", cli.snapshot_of())
        self.commands = {
            "summary": ["summary", "--json", path], "symbolize": ["symbolize", path],
            "export": ["export", "--to", "pytorch-json", path], "recover": ["recover", RECORD],
        }
        os.mkdir(self.path("out"))

    def each(self):
        for name, command in self.commands.items():
            with self.subTest(command=name):
                yield command

    def left(self):
        names = sorted(os.listdir(self.path("out")))
        for name in names:
            os.unlink(self.path("out", name))
        return names

    def write_to(self, command, name, *options, **keywords):
        return self.run_tool(*command, "-o", self.path("out", name), *options, **keywords)

    def test_a_new_file(self):
        for command in self.each():
            self.write_to(command, "new")
            with open(self.path("out", "new"), encoding="utf-8") as file:
                json.load(file)
            self.assertEqual(self.left(), ["new"])

    def test_an_existing_file(self):
        for command in self.each():
            path = self.write("../out/kept", "before")
            os.chmod(path, 0o640)
            self.assertIn("kept exists; --force overwrites it", self.write_to(command, "kept", status=USAGE).stderr)
            with open(path, encoding="utf-8") as file:
                self.assertEqual(file.read(), "before")
            self.write_to(command, "kept", "--force")
            with open(path, encoding="utf-8") as file:
                json.load(file)
            self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600 if command[0] == "recover" else 0o640)
            self.assertEqual(self.left(), ["kept"])

    def made_mode(self, command, *options, stdin=""):
        self.write_to(command, "new", *options, stdin=stdin, preexec_fn=lambda: os.umask(0o022))
        mode = stat.S_IMODE(os.stat(self.path("out", "new")).st_mode)
        self.assertEqual(self.left(), ["new"])
        return mode

    def test_the_mode_is_the_strictest_of_the_inputs(self):
        one, other = (self.write(name, cli.snapshot_of()) for name in ("one.json", "other.json"))
        os.chmod(self.write("trace.csv", TRACE), 0o600)
        profile = ["tune", "--json", self.path("work", "trace.csv"), "--force", "--write-profile", self.path("out", "new")]
        for mode, expected in ((0o644, 0o644), (0o606, 0o604), (0o400, 0o600), (0o666, 0o644), (0o640, 0o640)):
            os.chmod(one, mode)
            with self.subTest(mode=oct(mode)):
                self.assertEqual(self.made_mode(["summary", one]), expected)
        for command in ONE_INPUT:
            with self.subTest(command=command):
                self.assertEqual(self.made_mode([*command, one]), 0o640)
        for command, files in ((["diff"], [one, other]), (["html"], [other, one]), (["leaks"], [other, one])):
            with self.subTest(command=command):
                self.assertEqual(self.made_mode([*command, *files]), 0o640)
        for command in (["replay"], ["tune"]):
            self.assertEqual(self.made_mode([*command, self.path("work", "trace.csv")]), 0o600)
        self.run_tool(*profile)
        self.assertEqual(stat.S_IMODE(os.stat(self.path("out", "new")).st_mode), 0o600)
        self.assertEqual(self.left(), ["new"])
        self.assertEqual(self.made_mode(["recover", RECORD]), 0o600)

    def test_what_comes_from_stdin_is_its_users_alone(self):
        for command in ONE_INPUT:
            with self.subTest(command=command):
                self.assertEqual(self.made_mode([*command, "-"], stdin=json.dumps(cli.snapshot_of())), 0o600)

    def test_an_existing_file_gets_no_more_readers(self):
        path = self.path("work", "s.json")
        os.chmod(path, 0o600)
        self.write("../out/new", "before")
        os.chmod(self.path("out", "new"), 0o664)
        self.assertEqual(self.made_mode(["summary", path], "--force"), 0o600)

    def test_the_group_is_the_inputs_or_has_no_permission(self):
        if os.geteuid() != 0:
            self.skipTest("only root can give a file to another group")
        path = self.path("work", "s.json")
        os.chown(path, -1, 12345)
        os.chmod(path, 0o640)
        self.assertEqual(self.made_mode(["summary", path]), 0o600)

    def test_what_is_no_file_is_never_replaced(self):
        """A pipe is written to as it is; a device, where we may make one, too."""
        path = self.path("out", "pipe")
        for command in self.each():
            os.mkfifo(path)
            self.assertIn("exists", self.write_to(command, "pipe", status=USAGE).stderr)
            with subprocess.Popen(["cat", path], stdout=subprocess.PIPE) as reader:
                self.write_to(command, "pipe", "--force")
                json.loads(reader.communicate()[0])
            self.assertTrue(stat.S_ISFIFO(os.lstat(path).st_mode))
            self.assertEqual(self.left(), ["pipe"])

    def test_a_device_stays_one(self):
        try:
            os.mknod(self.path("out", "null"), 0o666 | stat.S_IFCHR, os.makedev(1, 3))
            with open(self.path("out", "null"), "w", encoding="utf-8"):
                pass
        except OSError:
            self.skipTest("no device can be made here")
        for command in self.commands.values():
            self.write_to(command, "null", "--force")
            self.assertTrue(stat.S_ISCHR(os.lstat(self.path("out", "null")).st_mode))

    def test_links(self):
        for command in self.each():
            for name in (os.path.join("..", "work", "target"), "nowhere"):
                os.symlink(name, self.path("out", "link"))
                self.write("target", "before")
                self.assertIn("exists", self.write_to(command, "link", status=USAGE).stderr)
                if name == "nowhere":
                    result = self.write_to(command, "link", "--force", status=INPUT)
                    self.assertIn("a dangling link", result.stderr)
                else:
                    self.write_to(command, "link", "--force")
                    with open(self.path("work", "target"), encoding="utf-8") as file:
                        json.load(file)
                self.assertEqual(os.readlink(self.path("out", "link")), name)
                self.assertEqual(self.left(), ["link"])

    def test_folders(self):
        for command in self.each():
            for force in ([], ["--force"]):
                self.run_tool(*command, "-o", self.path("out"), *force, status=INPUT if force else USAGE)
                for name, folder in (("missing/new", "out/missing"), (os.path.join("..", "work", "s.json", "new"), "work/s.json")):
                    result = self.write_to(command, name, *force, status=INPUT)
                    self.assertIn("there is no folder", result.stderr)
                    self.assertIn(folder, result.stderr)
            self.assertEqual(os.listdir(self.path("tmp")), [])
            self.assertEqual(self.left(), [])

    def test_recover_writes_nowhere_else(self):
        """Without -o into this folder, of a name that is free, and nowhere if that cannot be."""
        for suffix in ("", ".1", ".2"):
            result = self.run_tool("recover", RECORD)
            name = "gpupool.app.node1.4711.recovered.json" + suffix
            self.assertIn("recovered: %s\n" % name, result.stderr)
            self.assertEqual(stat.S_IMODE(os.stat(self.path("work", name)).st_mode), 0o600)
        if os.geteuid() != 0:
            os.chmod(self.path("work"), 0o500)
            self.run_tool("recover", RECORD, status=INPUT)
            os.chmod(self.path("work"), 0o700)
        self.assertEqual(os.listdir(self.path("tmp")), [])

    def stop(self, command, number, ignored=False):
        def dispose():
            signal.signal(number, signal.SIG_IGN if ignored else signal.SIG_DFL) # nohup(1) may have left another
        env = dict(self.environment, LD_PRELOAD=STOP_AT_NAME, STOP_SIGNAL=str(int(number)))
        return subprocess.run([self.tool, *command], cwd=self.path("work"), env=env, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=60, preexec_fn=dispose, check=False)

    def test_a_stopped_command_leaves_nothing(self):
        for command in self.each():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGQUIT, signal.SIGXFSZ):
                result = self.stop([*command, "-o", self.path("out", "new")], number)
                self.assertEqual((result.returncode, self.left()), (-number, []), result.stderr)
                path = self.write("../out/kept", "before")
                result = self.stop([*command, "-o", path, "--force"], number)
                with open(path, encoding="utf-8") as file:
                    self.assertEqual(file.read(), "before")
                self.assertEqual((result.returncode, self.left()), (-number, ["kept"]), result.stderr)

    def test_a_signal_that_is_ignored_stays_so(self):
        result = self.stop([*self.commands["summary"], "-o", self.path("out", "new")], signal.SIGHUP, ignored=True)
        self.assertEqual((result.returncode, self.left()), (INPUT, []), result.stderr)

    def test_a_full_disk_leaves_nothing_recovered(self):
        """For which a limit on the size of files stands here."""
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))

        result = subprocess.run([self.tool, "recover", RECORD, "-o", self.path("out", "new")], env=self.environment, encoding="utf-8",
                                stderr=subprocess.PIPE, preexec_fn=limit, timeout=60, check=False)
        self.assertEqual((result.returncode, self.left()), (INPUT, []))
        self.assertEqual(result.stderr, "gpupool: the snapshot of %s could not be written to %s: File too large\n" %
                         (RECORD, self.path("out", "new")))


class Left(cli.Case):
    """Records that programs have left: which one is recovered, and what run makes of one."""

    def setUp(self):
        super().setUp()
        self.root = self.path("records")
        self.records = os.path.join(self.root, "gpupool.%d" % os.geteuid())
        os.makedirs(self.records, 0o700)
        self.environment["GPUPOOL_RECORD"] = self.root

    def leave(self, name):
        shutil.copy(RECORD, os.path.join(self.records, name))

    def recover(self, *arguments, **options):
        return self.run_tool("recover", *arguments, **options).stderr

    def write_record(self, slots, chunks):
        with open(RECORD, "rb") as file:
            layout_hash = file.read(24)[16:]
        content = made.record(description=made.description(setting="trace=all"), threads=made.threads((1, b"app")),
                              devices=made.devices(), live=b"".join(slots),
                              events=made.events([[]] + [[event] for event in chunks], chunk_records=1, wanted=1 << 24))
        path = self.path("work", "record")
        with open(path, "wb") as file:
            file.write(content[:16] + layout_hash + content[24:])
        return path

    def test_allocations_in_flight_of_much_mapped_memory(self):
        """Each lies in nearly all pieces of it. Where each looked for each piece among all of them, this took many minutes."""
        pieces, allocs, piece = 20000, 2000, 2 * made.MIB
        record = self.write_record(
            [made.slot(made.SEGMENT, i * piece, piece, 0, refs=0) for i in range(pieces)],
            [made.event("ALLOC", 10 + i, 512 * i, pieces * piece - 512 * i, i + 1) for i in range(1, allocs + 1)])
        output = self.path("work", "s.json")
        self.assertIn("%d damaged records were left out" % (allocs - 1), self.recover(record, "-o", output))
        with open(output, encoding="utf-8") as file:
            segments = json.load(file)["segments"]
        self.assertEqual([segment["total_size"] for segment in segments], [pieces * piece])
        live = [block for block in segments[0]["blocks"] if block["block"]]
        self.assertEqual([(block["block"], block["size"]) for block in live], [(allocs + 1, pieces * piece - 512 * allocs)])

    def test_wrong_arguments_are_one_line(self):
        for arguments, part in ((("1", "2"), "1 and 2: one at a time, or --all"), (("--all", "1"), "--all and 1: use one of them"),
                                (("-o",), "-o needs a value"), (("--output",), "--output needs a value"),
                                (("--all", "-o", "x"), "--all and -o: each record has a snapshot of its own"),
                                (("--html", "-o", "-"), "--html makes a page next to the snapshot"),
                                (("--al",), "unknown option --al (did you mean --all?)")):
            result = self.recover(*arguments, status=USAGE)
            self.one_line(result)
            self.assertIn("recover: " if "--al" not in arguments else "recover", result)
            self.assertIn(part, result)
        text = self.run_tool("recover", "--help").stdout
        self.assertTrue(text.startswith("usage: gpupool recover [FILE | PID] [options]\n"), text)
        self.assertEqual(self.run_tool("recover", "-h").stdout, text)

    def test_there_is_none(self):
        for arguments, part in (((), "no program has left a record in " + self.root), (("--all",), "no program has left a record in " + self.root),
                                (("77",), "process 77 has left no record in %s; gpupool recover --list shows" % self.root)):
            result = self.recover(*arguments, status=INPUT)
            self.one_line(result)
            self.assertIn(part, result)
        self.assertEqual(self.run_tool("recover", "--list").stdout, "No records in %s.\n" % self.root)

    def test_the_newest_of_several(self):
        self.leave("999999998-1760000000000000")
        self.assertNotIn("records are left", self.recover("--output=one"))
        self.leave("999999999-1770000000000000")
        self.leave("999999997-1750000000000000")
        self.leave("none-of-them")
        self.assertIn("3 records are left; this is the newest, gpupool recover --list shows all\n",
                      self.recover("--remove", "--output=newest"))
        self.assertEqual(sorted(os.listdir(self.records)), ["999999997-1750000000000000", "999999998-1760000000000000", "none-of-them"])
        self.assertNotIn("are left", self.recover("999999997", "--output", "--force", "--remove"))  # a file of that name
        self.assertEqual(sorted(os.listdir(self.records)), ["999999998-1760000000000000", "none-of-them"])
        rows = self.run_tool("recover", "--list").stdout.splitlines()
        self.assertRegex(rows[1], r"^ 999999998  2025-10-0\d \d\d:\d\d:\d\d +\d+ KiB  ended +/usr/bin/app$")
        for name in ("one", "newest", "--force"):
            with open(self.path("work", name), encoding="utf-8") as file:
                self.assertEqual(json.load(file)["reason"], "recovered")

    def run_and_leave(self, *options, record=None):
        """The program leaves a record as one does that calls _exit."""
        program = self.write_program("leave", "#!/bin/sh\ncp '%s' \"%s/$$-9999999999999999\"\n" % (record or RECORD, self.records))
        return self.run_tool("run", *options, "--", program).stderr

    def test_run_names_the_snapshot_as_the_library_would(self):
        result = self.run_and_leave("--output", "%e.%h.%k.%p.%t.%n.%r.%%.json")
        self.assertIn("left no snapshot at exit", result)
        self.assertIn("recovered: %s\n" % self.path("work", "app.node1.3.4711.1760000000.1.recovered.%.json"), result)
        self.assertEqual(os.listdir(self.records), [])
        with open(RECORD, "rb") as file:
            content = file.read()
        with open(self.path("work/other"), "wb") as file:
            file.write(content.replace(b"\0rank\0", b"\0knar\0").replace(b"\0host\0", b"\0tsoh\0"))
        self.assertIn("recovered: %s\n" % self.path("work", "unknown.0.json"),
                      self.run_and_leave("--output", "%h.%k.json", record=self.path("work/other")))

    def test_run_recovers_into_a_folder(self):
        os.mkdir(self.path("work/out"))
        name = "gpupool.app.node1.4711.recovered.json"
        for output, html in (("out", False), ("out/", False), (self.path("work/out"), True)):
            result = self.run_and_leave("--output", output, *(["--html"] if html else []))
            self.assertRegex(result, r"recovered: %s(\.\d)?\n" % re.escape(self.path("work", "out", name)))
            self.assertEqual(".html" in result, html)
        self.assertEqual(sorted(one for one in os.listdir(self.path("work/out")) if "html" not in one), [name, name + ".1", name + ".2"])

    def test_run_leaves_what_was_not_asked_for(self):
        result = self.run_and_leave("--snapshot-at", "oom")
        self.assertRegex(result, r"leave did not exit normally; its record is left\ngpupool: next: gpupool recover \d+\n$")
        self.assertEqual(len(os.listdir(self.records)), 1)


class Places(cli.Case):
    """Where run finds what it needs, and where snapshots go."""

    def child_environment(self, *arguments, cwd=None, tool=None, **environment):
        result = subprocess.run([tool or self.tool, "run", *arguments, "--", "env"], cwd=cwd or self.path("work"), encoding="utf-8",
                                env={**self.environment, **environment}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60, check=True)
        return dict(line.split("=", 1) for line in result.stdout.splitlines() if "=" in line)

    def test_a_profile_is_found_after_a_change_of_folder(self):
        self.write("p.txt", "type=naive\n")
        for given, seen in (("p.txt", self.path("work/p.txt")), (self.path("work/p.txt"), self.path("work/p.txt")), ("none", "none")):
            self.assertEqual(self.child_environment("--profile", given)["GPUPOOL_PROFILE"], seen)
            self.assertEqual(self.child_environment(GPUPOOL_PROFILE=given)["GPUPOOL_PROFILE"], seen)
        self.assertNotIn("GPUPOOL_PROFILE", self.child_environment())
        options = json.loads(self.run_tool("config", "--json", "--profile=p.txt").stdout)["options"]
        self.assertEqual([(one["value"], one["source"]) for one in options if one["name"] == "type"], [("naive", "profile")])

    def test_a_folder_is_no_placeholder(self):
        os.mkdir(self.path("work/50%p"))
        self.assertEqual(self.child_environment("--output=%p.json", cwd=self.path("work/50%p"))["GPUPOOL_OUTPUT"],
                         self.path("work/50%%p/%p.json"))

    def test_a_folder_that_cannot_be_written(self):
        """The user chose none, and the library has another."""
        def lose_rights():
            if os.geteuid() == 0:
                os.setuid(65534)
        os.chmod(self.folder, 0o755)
        os.chmod(self.path("tmp"), 0o777)
        result = subprocess.run([self.tool, "run", "--", "true"], cwd="/", env=self.environment, encoding="utf-8",
                                stderr=subprocess.PIPE, preexec_fn=lose_rights, timeout=60, check=False)
        self.assertEqual(result.returncode, 0)
        self.assertEqual(result.stderr.splitlines()[0], "gpupool: nothing can be written in this folder (Permission denied): "
                         "snapshots go to " + self.path("tmp"))

    def test_the_library_is_missing(self):
        os.remove(self.pool_library)
        result = self.run_tool("run", "--", "touch", "ran", status=None)
        if not result.returncode:
            self.skipTest("one is installed where this build looks for it")
        self.assertEqual(result.returncode, FAILED)
        self.one_line(result.stderr)
        self.assertIn("libgpupool.so was not found, neither next to this tool nor in /", result.stderr)
        self.assertEqual(os.listdir(self.path("work")), [])

    def test_what_the_loader_cannot_take(self):
        for name in ("a b", "a:b"):
            shutil.copytree(self.path("tree"), self.path(name))
            result = subprocess.run([self.path(name, "tools/gpupool"), "run", "--", "touch", "ran"], cwd=self.path("work"),
                                    env=self.environment, stderr=subprocess.PIPE, encoding="utf-8", timeout=60, check=False)
            self.assertEqual(result.returncode, FAILED)
            self.one_line(result.stderr)
            self.assertIn("cannot be preloaded: the loader accepts no path with a space or a colon", result.stderr)
            self.assertEqual(os.listdir(self.path("work")), [])

    def test_of_many_snapshots_the_first_are_named(self):
        for count, rest in ((8, None), (10, "gpupool: and 2 more")):
            write = "for i in $(seq 1 %d); do echo '\"process\":{\"run\":\"'$GPUPOOL_RUN'\"' >$$.x.$i.json; done" % count
            lines = self.run_tool("run", "--output", "%p.x.%n.json", "--", "sh", "-c", write).stderr.splitlines()
            self.assertEqual(sum("snapshot: " in line for line in lines), 8)
            self.assertEqual(lines[8:-1], [rest] if rest else [])

    def test_a_script_for_the_shell_gets_its_arguments(self):
        self.write_program("plain", "test \"$#.$1.$2\" = '2.a.b c' && exit 5\n")
        self.run_tool("run", "./plain", "a", "b c", status=5)


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    cli.GPUPOOL, cli.STUB, STOP_AT_NAME, RECORD = map(os.path.abspath, sys.argv[1:5])
    unittest.main(argv=[sys.argv[0]] + sys.argv[5:])
