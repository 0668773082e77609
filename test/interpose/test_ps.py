"""`gpupool ps`: which programs run, and what each holds, from their records alone."""

import json
import mmap
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import unittest

from harness import PROG, SANITIZED, SIM, careful_tool
from live_program import LiveCase
from report_case import SCHEMA

TOOL = os.environ.get("GP_TOOL")
MIB = 1 << 20
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "format", "sections.def")) as sections:
    SECTION_OF_HEAPS = 104 + 24 * re.findall(r"^SECTION\((\w+)", sections.read(), re.MULTILINE).index("HEAPS")  # its offset
PROGRAMS = 16 if SANITIZED else 64
MUTATIONS = 10 if SANITIZED else 60


class PsCase(LiveCase):
    def setUp(self):
        super().setUp()
        self.records = os.path.join(self.folder, "records")
        os.mkdir(self.records, 0o700)
        self.own = os.path.join(self.records, "gpupool.%d" % os.geteuid())
        self.env = dict(os.environ, GPUPOOL_RECORD=self.records, LC_ALL="C.UTF-8")

    def begin(self, **settings):
        return self.start(RECORD=self.records, **settings)

    def tool(self, *args, status=0, **env):
        result = subprocess.run([TOOL, "ps"] + list(args), env=dict(self.env, **careful_tool(), **env),
                                capture_output=True, text=True)
        self.assertEqual(result.returncode, status, result.stderr)
        return result

    def document(self, *args):
        document = json.loads(self.tool("--json", *args).stdout)
        self.assertIsNone(next(SCHEMA.iter_errors(document), None))
        return document

    def processes(self, *args):
        return {process["inner_pid"]: process for process in self.document(*args)["processes"]}

    def content(self):
        """Of the only record, without the end of its events."""
        (name,) = os.listdir(self.own)
        with open(os.path.join(self.own, name), "rb") as file:
            return bytearray(file.read(1 << 20))

    def pretend_to_run(self, name, content):
        """A record whose program runs, for all that a reader can see: this process has it mapped."""
        os.makedirs(self.own, 0o700, exist_ok=True)
        path = os.path.join(self.own, name)
        with open(path, "w+b") as file:
            file.write(content)
            file.flush()
            mapped = mmap.mmap(file.fileno(), len(content))
        self.addCleanup(mapped.close)
        return mapped


class Ps(PsCase):
    def test_a_limit_brings_no_device_that_the_program_does_not_use(self):
        """It is set for every device that there may be."""
        program = self.begin(CONTROL="1")
        self.assertEqual(program.step("alloc %d" % MIB), 0)
        subprocess.run([TOOL, "ctl", str(program.pid), "limit", "1GiB"], env=dict(program.env, LD_PRELOAD=""), check=True,
                       stdout=subprocess.DEVNULL)
        expected = [(0, 1 << 30)]
        self.assertEqual([(device["device"], device["limit"]) for device in self.processes()[program.pid]["devices"]], expected)
        os.kill(program.pid, signal.SIGKILL)
        self.assertEqual(program.end(), -signal.SIGKILL)
        recovered = subprocess.run([TOOL, "recover", str(program.pid), "-o", "-"], env=self.env, capture_output=True, check=True)
        snapshot = json.loads(recovered.stdout)
        self.expect_valid(snapshot)
        self.assertEqual([(device["device"], device["limit"]) for device in snapshot["devices"]], expected)

    def test_run_names_who_else_holds_memory_when_it_ran_out(self):
        """A program of which nothing is missing does not hear of them."""
        program = self.begin()
        self.assertEqual(program.step("alloc %d" % (100 * MIB)), 0)
        for arguments, is_named in (("policy",), True), (("deep", "3"), False):
            run = subprocess.run([TOOL, "run", "--limit", "3MiB", "--output", self.folder + "/%e.%r.json", "--", os.path.join(PROG, "stacks"),
                                  *arguments], env={**self.env, "LD_LIBRARY_PATH": SIM, **careful_tool()}, capture_output=True, text=True)
            said = "gpupool: process %d (steps) is using 100 MiB of its device 0\n" % program.pid
            self.assertEqual(said in run.stderr, is_named, run.stderr)

    def test_figures(self):
        program = self.begin(LIMIT="64MiB", SIMCUDA_DEVICES="2")
        for step in ("alloc %d" % (4 * MIB), "alloc %d" % MIB, "free"):
            self.assertEqual(program.step(step), 0)
        self.assertEqual(program.step("synchronize"), 0)
        self.assertEqual(program.step("alloc %d" % (100 * MIB)), 2)
        process = self.processes()[program.pid]
        self.assertEqual(process["pid"], program.pid)
        self.assertEqual((process["uid"], process["program"]), (os.geteuid(), "steps"))
        self.assertTrue(process["is_readable"])
        (device,) = process["devices"]
        self.assertTrue(device.pop("is_settled"))
        self.assertEqual(device, {
            "device": 0, "held": 5 * MIB, "peak": 5 * MIB, "used": 4 * MIB, "cached": MIB, "pinned_host": 0,
            "limit": 64 * MIB, "hits": 0, "misses": 2, "driver_calls": 2, "ooms": 1})
        lines = self.tool().stdout.splitlines()
        (row,) = [line.split() for line in lines if line.split()[0] == str(program.pid)]
        self.assertEqual(row[-1], "steps")
        self.assertIn("5 MiB", " ".join(row))

    def test_what_a_thread_keeps(self):
        """The thread's own heap has it, and the device has not heard of it."""
        program = self.begin()
        steps = ("alloc %d" % MIB, "free", "synchronize", "alloc %d" % MIB, "free"), ("synchronize", "alloc %d" % (MIB - 512))
        for more, figures in zip(steps, ((0, 1), (MIB - 512, 2))):
            for step in more:
                self.assertEqual(program.step(step), 0)
            (device,) = self.processes()[program.pid]["devices"]
            self.assertTrue(device["is_settled"])
            self.assertEqual((device["used"], device["hits"]), figures)

    def test_figures_of_two_moments_are_not_added(self):
        """A heap seems to have freed more than there is, as if it had been read later than the device."""
        program = self.begin()
        for step in ("alloc %d" % MIB, "free", "synchronize", "alloc %d" % MIB, "free"):
            self.assertEqual(program.step(step), 0)
        (name,) = os.listdir(self.own)
        with open(os.path.join(self.own, name), "r+b") as file:
            file.seek(SECTION_OF_HEAPS)
            file.seek(struct.unpack("=Q", file.read(8))[0])
            counts = bytearray(file.read(32))
            allocs, frees, alloc_bytes, free_bytes = struct.unpack("=4Q", counts)
            self.assertEqual((allocs, frees, alloc_bytes, free_bytes), (0, 1, 0, MIB))
            file.seek(-8, os.SEEK_CUR)
            file.write(struct.pack("=Q", 2 * MIB))
        (device,) = self.processes()[program.pid]["devices"]
        self.assertEqual((device["is_settled"], device["used"]), (False, MIB))

    def test_a_program_that_ended_is_not_listed(self):
        program, killed = self.begin(), self.begin()
        self.assertEqual(program.step("alloc %d" % MIB), 0)
        self.assertEqual(killed.step("alloc %d" % MIB), 0)
        self.assertEqual({program.pid, killed.pid} - set(self.processes()), set())
        killed.process.kill()
        killed.end()
        program.end()
        self.assertEqual({program.pid, killed.pid} & set(self.processes()), set())
        self.assertEqual(len(os.listdir(self.own)), 1)  # the record of the killed one is for gpupool recover

    def test_a_program_that_begins_anew(self):
        program = self.begin()
        self.assertEqual(program.step("alloc %d" % MIB), 0)
        began = self.processes()[program.pid]["start_time_us"]
        self.assertEqual(program.step("exec"), 0)
        self.assertEqual(program.step("alloc %d" % (2 * MIB)), 0)
        (process,) = [process for process in self.document()["processes"] if process["inner_pid"] == program.pid]
        self.assertGreater(process["start_time_us"], began)
        self.assertEqual(process["devices"][0]["held"], 2 * MIB)

    def test_order(self):
        sizes = {self.begin(): size for size in (2, 8, 4)}
        for program, size in sizes.items():
            self.assertEqual(program.step("alloc %d" % (size * MIB)), 0)
        pids = {program.pid: size for program, size in sizes.items()}
        for key, expected in (("total", [8, 4, 2]), ("held", [8, 4, 2]), ("pid", [pids[pid] for pid in sorted(pids)])):
            listed = [pid for pid in self.processes("--sort", key) if pid in pids]
            self.assertEqual([pids[pid] for pid in listed], expected, key)

    def test_many_that_allocate_die_and_begin_anew(self):
        """Whatever instant the reader sees: no crash, and what it shows can be true."""
        programs = [self.begin() for _ in range(PROGRAMS)]
        for program in programs:
            self.assertEqual(program.step("alloc %d" % MIB), 0)
        chosen = random.Random(1)
        alive = list(programs)
        while alive:
            for program in alive[:8]:  # they work while the reader reads
                program.process.stdin.write(b"alloc 1048576\nfree\n" * 200)
                program.process.stdin.flush()
            listed = self.processes()
            self.assertEqual({program.pid for program in alive} - set(listed), set())
            for program in alive:
                (device,) = listed[program.pid]["devices"]
                self.assertLessEqual(device["held"], device["peak"])
                self.assertLessEqual(device["used"], 2 * MIB)
            for program in chosen.sample(alive, (len(alive) + 1) // 2):
                os.kill(program.pid, signal.SIGKILL)
                program.end()
                alive.remove(program)
            for program in alive[:2]:  # begins anew, and has memory or none when it is looked at
                program.process.stdin.write(b"exec\nalloc 1048576\n")
                program.process.stdin.flush()
                alive.remove(program)

    def test_hostile_records(self):
        program = self.begin()
        self.assertEqual(program.step("alloc %d" % MIB), 0)
        content = self.content()
        chosen = random.Random(2)
        mapped = self.pretend_to_run("4000000-1", content)
        self.assertIn(4000000, self.processes())
        for _ in range(MUTATIONS):
            for _ in range(chosen.randrange(1, 200)):
                at = chosen.choice((chosen.randrange(16, 512), chosen.randrange(4096, 64 << 10)))
                mapped[at] = chosen.choice((0, 0xff, 27, chosen.randrange(256)))
            mapped[16:24] = bytes(content[16:24])  # the hash of the layout: else it is of another build
            self.assertIn(program.pid, self.processes())
            text = self.tool().stdout
            self.assertNotIn("\x1b", text)
            self.assertTrue(all(len(line) <= 79 for line in text.splitlines()), text)

    def test_what_is_no_record(self):
        os.mkdir(self.own, 0o700)
        os.symlink("/proc/self/maps", os.path.join(self.own, "11-1"))
        os.mkfifo(os.path.join(self.own, "12-1"))
        os.mkdir(os.path.join(self.own, "13-1"))
        for name, content in (("14-1", b"x"), ("15-1", bytes(4096)), ("16-1", b"gpupool\0" + b"\xff" * 4088)):
            self.pretend_to_run(name, content)
        with open(os.path.join(self.own, "17-1"), "wb") as file:
            file.truncate(1 << 40)
        self.assertEqual(set(self.processes()) & set(range(11, 18)), set())

    def test_another_build(self):
        program = self.begin()
        self.assertEqual(program.step("alloc %d" % MIB), 0)
        content = self.content()[:8192]
        content[16] ^= 1
        content[48:80] = b"0.0.\x1b[31m9".ljust(32, b"\0")
        self.pretend_to_run("4000001-1", content)
        process = self.processes()[4000001]
        self.assertEqual((process["is_readable"], process["library_version"], process["devices"]), (False, "0.0.?[31m9", []))
        self.assertIn("(another build)", self.tool().stdout)

    def test_a_folder_that_others_can_enter(self):
        program = self.begin()
        self.assertEqual(program.step("alloc %d" % MIB), 0)
        os.chmod(self.own, 0o755)
        self.assertNotIn(program.pid, self.processes())

    @unittest.skipIf(os.geteuid() != 0, "for root")
    def test_users(self):
        """Root sees all users; a user only what is their own; a file in a user's folder that is another's is no record."""
        program = self.begin()
        self.assertEqual(program.step("alloc %d" % MIB), 0)
        (name,) = os.listdir(self.own)
        other = os.path.join(self.records, "gpupool.65534")
        os.mkdir(other, 0o700)
        shutil.copyfile(os.path.join(self.own, name), os.path.join(other, "21-1"))
        shutil.copyfile(os.path.join(self.own, name), os.path.join(other, "22-1"))
        forged = "%d-7" % program.pid  # in the name of a process of root
        shutil.copyfile(os.path.join(self.own, name), os.path.join(other, forged))
        for path in (other, os.path.join(other, "21-1"), os.path.join(other, forged)):
            os.chown(path, 65534, 65534)
        os.chmod(self.folder, 0o755)
        os.chmod(self.records, 0o755)
        for name in ("21-1", "22-1", forged):
            with open(os.path.join(other, name), "r+b") as file:
                self.addCleanup(mmap.mmap(file.fileno(), 4096).close)
        pids = [process["pid"] for process in self.document()["processes"] if process["inner_pid"] == program.pid]
        self.assertEqual(sorted(pids, key=str), [program.pid, None])
        listed = self.processes()
        self.assertEqual({pid for pid in (21, 22, program.pid) if pid in listed}, {21, program.pid})
        self.assertEqual(listed[21]["uid"], 65534)
        self.assertIn("nobody", self.tool().stdout)

    @unittest.skipIf(os.geteuid() != 0, "for root")
    def test_a_container(self):
        """Another /dev/shm, and another number for the process."""
        inside = ("mount -t tmpfs tmpfs /dev/shm && exec \"$@\"", "sh")
        prefix = ("unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c") + inside
        if subprocess.run(prefix + ("true",), stderr=subprocess.DEVNULL).returncode:
            self.skipTest("this container can make no other")
        program = self.start(prefix=prefix, RECORD="/dev/shm")
        self.assertEqual(program.step("alloc %d" % (3 * MIB)), 0)
        found = [process for process in self.processes().values()
                 if process["devices"] and process["devices"][0]["used"] == 3 * MIB and process["inner_pid"] == 1]
        (pid,) = [process["pid"] for process in found]
        with open("/proc/%d/status" % pid) as file:
            (numbers,) = [line.split()[1:] for line in file if line.startswith("NSpid:")]
        self.assertEqual((numbers[0], numbers[-1]), (str(pid), "1"))
        with open("/proc/%d/comm" % pid) as file:
            self.assertEqual(file.read(), "steps\n")


if __name__ == "__main__":
    unittest.main(argv=[os.path.basename(__file__)], verbosity=2)
