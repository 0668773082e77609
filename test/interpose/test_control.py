"""The control socket of a running program, and `gpupool ctl` that talks to it."""

import json
import os
import pwd
import shutil
import signal
import socket
import stat
import subprocess
import unittest

from harness import LIBRARY, MAY_MOUNT, SANITIZED, careful_tool, may_unshare, stats_of
from live_program import LiveCase

TOOL = os.environ.get("GP_TOOL")
MIB = 1 << 20


class ControlCase(LiveCase):
    def control(self, **settings):
        program = self.start(CONTROL="1", **settings)
        self.assertEqual(program.step("alloc %d" % MIB), 0)
        return program

    def socket_path(self, program):
        (name,) = [name for name in os.listdir(os.path.join(program.folder, "gpupool"))
                   if name.startswith("%d-" % program.pid)]
        return os.path.join(program.folder, "gpupool", name)

    def connect(self, program):
        client = socket.socket(socket.AF_UNIX)
        self.addCleanup(client.close)
        client.settimeout(120)
        client.connect(self.socket_path(program))
        return client

    def answer(self, client):
        text = b""
        while True:
            more = client.recv(65536)
            if not more:
                return json.loads(text.decode())
            text += more

    def ask(self, program, request):
        client = self.connect(program)
        client.sendall(request)
        return self.answer(client)


class Socket(ControlCase):
    def test_requests(self):
        program = self.control()
        self.assertEqual(program.step("alloc %d" % (4 * MIB)), 0)
        self.assertEqual(program.step("free"), 0)
        self.assertEqual(program.step("synchronize"), 0)
        answer = self.ask(program, b"stats\n")
        self.assertTrue(answer["ok"])
        self.assertEqual(answer["pid"], program.pid)
        self.assertEqual(answer["program"], "steps")
        self.assertEqual(stats_of(answer)["requested_bytes"]["current"], MIB)
        self.assertEqual(stats_of(answer)["cached_bytes"]["current"], 4 * MIB)
        answer = self.ask(program, b"empty-cache\n")
        self.assertEqual(answer["given_back"], 4 * MIB)
        answer = self.ask(program, b"limit 4MiB\n")  # of which each of these takes a page, until its address is known
        self.assertEqual(answer["devices"], [{"device": 0, "limit": 4 * MIB, "held": MIB}])
        self.assertEqual(program.step("alloc %d" % (4 * MIB)), 2)  # cudaErrorMemoryAllocation
        self.assertEqual(program.step("alloc %d" % MIB), 0)
        self.assertTrue(self.ask(program, b"limit none\n")["ok"])
        self.assertEqual(program.step("alloc %d" % (4 * MIB)), 0)
        answer = self.ask(program, b"snapshot\n")
        snapshot = self.read(answer["path"])
        self.assertEqual(snapshot["reason"], "request")
        self.assertEqual(stats_of(snapshot)["allocation"]["current"], 3)
        self.assertEqual(self.ask(program, b"trace state\n"), {"ok": True, "trace": "state"})
        self.assertFalse(self.ask(program, b"no such thing\n")["ok"])
        self.assertEqual(program.end(), 0)
        with open(os.path.join(program.folder, "snapshot.%d.3.exit.json" % program.pid)) as file:
            self.assertEqual(json.load(file)["settings"]["trace"], "state")

    def test_who_may_come_in(self):
        """The owner's folder and socket are closed to others."""
        program = self.control()
        path = self.socket_path(program)
        folder = os.stat(os.path.dirname(path))
        self.assertEqual((stat.S_IMODE(folder.st_mode), folder.st_uid), (0o700, os.geteuid()))
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        self.assertEqual(program.end(), 0)

    @unittest.skipUnless(os.geteuid() == 0, "needs a second user")
    def test_another_user_is_refused(self):
        """Even where the files would let him in."""
        program = self.control()
        path = self.socket_path(program)
        os.chmod(path, 0o777)
        for folder in (os.path.dirname(path), program.folder, self.folder):
            os.chmod(folder, 0o755)
        code = "import socket,sys; s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); print(s.makefile().read())"
        nobody = pwd.getpwnam("nobody").pw_uid
        result = subprocess.run(["/usr/bin/env", "python3", "-c", code, path], stdout=subprocess.PIPE, user=nobody, timeout=120)
        self.assertEqual(json.loads(result.stdout.decode()),
                         {"ok": False, "error": "only the user of the program and root may control it"})
        self.assertEqual(program.end(), 0)

    def test_folders_that_are_not_ours(self):
        """Open to others, or a link to somewhere: another folder is taken, and nothing of it is touched."""
        elsewhere = os.path.join(self.folder, "elsewhere")
        os.mkdir(elsewhere, 0o700)
        runtime = os.path.join(self.folder, "runtime")
        for make in (lambda path: os.mkdir(path, 0o755) or os.chmod(path, 0o755), lambda path: os.symlink(elsewhere, path)):
            os.mkdir(runtime, 0o700)
            make(os.path.join(runtime, "gpupool"))
            program = self.start(CONTROL="1", XDG_RUNTIME_DIR=runtime)
            self.assertEqual(program.step("alloc 1"), 0)
            self.assertEqual(os.listdir(os.path.join(runtime, "gpupool")), [])
            path = [os.path.join(folder, name) for folder in ["/tmp/gpupool.%d" % os.geteuid()] for name in os.listdir(folder)
                    if name.startswith("%d-" % program.pid)]
            self.assertEqual(len(path), 1, program.err)
            self.assertEqual(program.end(), 0)
            self.assertFalse(os.path.exists(path[0]))
            shutil.rmtree(runtime)

    def test_nothing_without_the_wish_or_before_memory(self):
        program = self.start()
        program.step("alloc 1")
        self.assertEqual(os.listdir(program.folder), [])
        self.assertEqual(len(os.listdir("/proc/%d/task" % program.pid)), 1)
        self.assertEqual(program.end(), 0)
        program = self.start(CONTROL="1")
        program.step("synchronize")
        self.assertEqual(os.listdir(program.folder), [])
        self.assertEqual(len(os.listdir("/proc/%d/task" % program.pid)), 1)
        self.assertEqual(program.end(), 0)

    def test_the_program_sees_no_descriptor(self):
        program = self.control()
        folder = "/proc/%d/fd" % program.pid
        files = [os.readlink(os.path.join(folder, name)) for name in os.listdir(folder) if int(name) > 2]
        self.assertEqual([file for file in files if "simulated-gpu" not in file], [])  # its memory
        self.assertGreater(program.step("close"), 50)  # what it closes and opens does not concern the library
        self.assertTrue(self.ask(program, b"stats\n")["ok"])
        self.assertTrue(self.ask(program, b"snapshot\n")["ok"])
        self.assertEqual(program.end(), 0)

    def test_the_helper_keeps_nothing_of_the_program_open(self):
        """Who reads a pipe of the program gets its end when the program closes it."""
        program = self.control()
        tasks = {}
        for task in os.listdir("/proc/%d/task" % program.pid):
            with open("/proc/%s/comm" % task) as file:
                tasks[file.read()] = task
        task = tasks["gpupool\n"]
        files = "/proc/%d/task/%s/fd" % (program.pid, task)
        targets = sorted((int(name), os.readlink(os.path.join(files, name))) for name in os.listdir(files))
        self.assertEqual([name for number, name in targets if number < 2], ["/dev/null", "/dev/null"])
        self.assertEqual(len([name for number, name in targets if number > 2]), 1, targets)  # it listens
        self.assertEqual(program.end(), 0)

    def test_a_child_serves_nothing(self):
        program = self.control(SNAPSHOT_AT="none")
        self.assertEqual(program.step("fork"), signal.SIGUSR1)  # its own end, by the signal
        self.assertTrue(self.ask(program, b"stats\n")["ok"])  # the socket is still there
        self.assertEqual(program.end(), 0)
        self.assertEqual(os.listdir(os.path.join(program.folder, "gpupool")), [])

    def test_clients_that_do_not_behave(self):
        program = self.control()
        silent = self.connect(program)
        gone = self.connect(program)
        gone.sendall(b"stats\n")
        gone.close()
        half = self.connect(program)
        half.sendall(b"stats")
        half.shutdown(socket.SHUT_WR)
        flood = self.connect(program)
        flood.settimeout(120)
        try:
            flood.sendall(b"x" * (1 << 22))
        except OSError:
            pass  # it is not read to the end
        self.assertTrue(self.ask(program, b"stats\n")["ok"])
        self.assertEqual(self.answer(silent)["error"], "no request within a second; a request is one line of text")
        self.assertTrue(self.answer(half)["ok"])
        self.assertEqual(program.end(), 0)

    def test_stale_sockets_go(self):
        program = self.control()
        path = self.socket_path(program)
        program.process.kill()
        program.end()
        self.assertTrue(os.path.exists(path))
        another = self.start(CONTROL="1", XDG_RUNTIME_DIR=program.folder)
        another.step("alloc 1")
        self.assertFalse(os.path.exists(path))
        self.assertEqual(len(os.listdir(os.path.dirname(path))), 1)
        self.assertEqual(another.end(), 0)
        self.assertEqual(os.listdir(os.path.dirname(path)), [])

    def test_the_end_meets_a_request(self):
        """Whatever comes first, the program ends well, there is an answer or none, and no half of a file."""
        for _ in range(20):
            program = self.control()
            client = self.connect(program)
            client.sendall(b"snapshot\n")
            self.assertEqual(program.end(), 0)
            try:
                self.answer(client)
            except (OSError, ValueError):
                pass
            names = [name for name in os.listdir(program.folder) if name != "gpupool"]
            for name in names:
                self.read(os.path.join(program.folder, name))
            self.assertEqual(os.listdir(os.path.join(program.folder, "gpupool")), [])

    def test_a_malformed_limit_can_be_mended(self):
        program = self.start(CONTROL="1", LIMIT="lots")
        self.assertEqual(program.step("alloc 1"), 2)
        self.assertTrue(self.ask(program, b"limit 2MiB\n")["ok"])
        self.assertEqual(program.step("alloc 1"), 0)
        self.assertEqual(program.end(), 0)


@unittest.skipUnless(TOOL, "the tool is not built")
class Ctl(ControlCase):
    def ctl(self, program, *args, status=0, **settings):
        env = dict(program.env, LD_PRELOAD="", NO_COLOR="1", **settings)
        env = {key: value for key, value in env.items() if not key.startswith("GPUPOOL_")}
        if not env["LD_PRELOAD"]:
            del env["LD_PRELOAD"]
            env.update(careful_tool())
        result = subprocess.run([TOOL, "ctl"] + list(args), env=env, cwd=self.folder, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, universal_newlines=True, timeout=120)
        self.assertEqual(result.returncode, status, result.stderr)
        return result.stderr if status else result.stdout

    def test_every_request(self):
        program = self.control()
        pid = str(program.pid)
        stats = json.loads(self.ctl(program, "--json", pid, "stats"))
        self.assertEqual(stats_of(stats)["allocation"]["current"], 1)
        self.assertIn("requested_bytes                  1 MiB           1 MiB           1 MiB\n", self.ctl(program, pid, "stats"))
        self.assertEqual(self.ctl(program, pid, "empty-cache"), "released to the driver: 0 B\n")
        self.assertEqual(self.ctl(program, pid, "reset-peaks"), "done\n")
        self.assertEqual(self.ctl(program, pid, "trace", "off"), "recorded from now on: off\n")
        self.assertEqual(self.ctl(program, pid, "limit", "1MiB"), "device 0: limit 1 MiB, total 1 MiB\n")
        self.assertEqual(self.ctl(program, pid, "limit", "512KiB"),
                         "device 0: limit 512 KiB, total 1 MiB: allocations fail until the program has freed enough\n")
        out = self.ctl(program, pid, "snapshot", "here.json")  # of the tool's folder, not the program's
        path = os.path.join(self.folder, "here.json")
        self.assertEqual(out, "snapshot written: %s\nnext: gpupool summary %s\n" % (path, path))
        self.read(path)
        self.assertIn(".request.json", self.ctl(program, pid, "snapshot"))
        self.assertIn("accepted: a size", self.ctl(program, pid, "limit", "lots", status=3))
        self.assertEqual(program.end(), 0)

    def test_what_a_busy_device_keeps(self):
        program = self.start(CONTROL="1", name="waiting_steps")
        for step in ("leave idle", "start"):
            self.assertEqual(program.step(step), 0)
        self.assertEqual(self.ctl(program, str(program.pid), "empty-cache"),
                         "released to the driver: 0 B\nthe device is busy: 64 MiB more are released when the program frees "
                         "memory or\nsynchronizes while the device is quiet\n")
        for step in ("stop", "synchronize"):
            self.assertEqual(program.step(step), 0)
        self.assertEqual((self.ctl(program, str(program.pid), "empty-cache"), program.end()),
                         ("released to the driver: 0 B\n", 0))

    def test_a_program_whose_gpu_state_is_checkpointed(self):
        """It is asked meanwhile, when no call of the driver would return, and goes on with its record afterwards."""
        program = self.control(SIMCUDA_STATS=os.path.join(self.folder, "sim.json"))
        pid = str(program.pid)
        for name in ("Lock", "Checkpoint"):
            self.assertEqual(program.step("checkpoint " + name), 0)
        self.assertEqual(stats_of(json.loads(self.ctl(program, "--json", pid, "stats")))["allocation"]["current"], 1)
        self.ctl(program, pid, "snapshot", "meanwhile.json")
        self.assertEqual(stats_of(self.read(os.path.join(self.folder, "meanwhile.json")))["allocation"]["current"], 1)
        for name in ("Restore", "Unlock"):
            self.assertEqual(program.step("checkpoint " + name), 0)
        self.assertEqual(program.step("alloc %d" % MIB), 0)
        self.assertEqual(stats_of(json.loads(self.ctl(program, "--json", pid, "stats")))["allocation"]["current"], 2)
        self.assertEqual(program.end(), 0)
        with open(os.path.join(self.folder, "sim.json")) as file:
            self.assertEqual(json.load(file)["violations"], 0)

    def test_the_runner_leads_to_its_program(self):
        program = self.start(prefix=(TOOL, "run", "--control", "--output", "run.json", "--"), preload=None)
        self.assertEqual(program.step("alloc %d" % MIB), 0)
        stats = json.loads(self.ctl(program, "--json", str(program.pid), "stats"))
        self.assertEqual(stats_of(stats)["allocation"]["current"], 1)
        self.assertEqual(program.end(), 0)

    def test_found_without_the_tools_own_settings(self):
        """The folder is the program's, whatever the tool's environment says."""
        program = self.control()
        self.assertIn("allocation", self.ctl(program, str(program.pid), "stats", XDG_RUNTIME_DIR=self.folder))
        self.assertEqual(program.end(), 0)

    @unittest.skipUnless(os.geteuid() == 0, "needs a second user")
    def test_another_user_who_answers_is_not_asked(self):
        """Neither in a folder of his own, nor behind a socket in a folder of the program's user."""
        nobody = pwd.getpwnam("nobody").pw_uid
        program = self.start(CONTROL="1")
        program.step("synchronize")  # no memory yet: it has made no socket
        with open("/proc/%d/stat" % program.pid) as file:
            name = "%d-%s" % (program.pid, file.read().rsplit(")", 1)[1].split()[19])
        for path in (self.folder, program.folder):
            os.chmod(path, 0o755)
        folder = os.path.join(program.folder, "gpupool")
        os.mkdir(folder, 0o700)
        os.chown(folder, nobody, -1)
        code = ("import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.bind(sys.argv[1])\ns.listen(8)\n"
                "print('listens', flush=True)\nwhile True:\n  c = s.accept()[0]\n  print(repr(c.recv(99)), flush=True)\n"
                "  c.sendall(b'{\"ok\":true,\"given_back\":12345}')\n  c.close()")
        server = subprocess.Popen(["/usr/bin/env", "python3", "-c", code, os.path.join(folder, name)], user=nobody,
                                  stdout=subprocess.PIPE)
        self.addCleanup(server.wait)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.kill)
        self.assertEqual(server.stdout.readline(), b"listens\n")
        self.assertIn("the folder %s belongs to user %d, not to user 0" % (folder, nobody),
                      self.ctl(program, str(program.pid), "empty-cache", status=3))
        os.chown(folder, 0, -1)
        self.assertIn("user %d, process %d, answers at %s instead of process %d of user 0" % (
            nobody, server.pid, os.path.join(folder, name), program.pid),
            self.ctl(program, str(program.pid), "empty-cache", status=3))
        self.assertEqual(server.stdout.readline(), b"b''\n")  # it was connected to, as soon as it runs, and nothing was sent
        os.kill(server.pid, signal.SIGKILL)
        self.assertLessEqual(set(server.stdout.read().splitlines()), {b"b''"})
        self.assertEqual(program.end(), 0)

    @unittest.skipUnless(MAY_MOUNT, "needs a second user and mounts")
    def test_another_user_has_taken_the_folder(self):
        """The one in /tmp, which everybody can make, of a user without XDG_RUNTIME_DIR: one line, and a second place."""
        taken = os.path.join(self.folder, "taken")
        os.mkdir(taken, 0o777)
        os.chown(taken, 12345, -1)
        for name in ("/tmp/gpupool.0", "/run/user"):
            if not os.path.isdir(name):
                self.skipTest("there is no %s to mount something at" % name) if name != "/tmp/gpupool.0" else os.mkdir(name, 0o700)
        script = ('mount --bind "$0" /tmp/gpupool.0 && mount -t tmpfs none /run && mkdir -p /run/user && mkdir -m 700 /run/user/0 '
                  '&& unset XDG_RUNTIME_DIR && exec "$@"')
        program = self.start(CONTROL="1", prefix=("unshare", "--mount", "sh", "-c", script, taken))
        self.assertEqual(program.step("alloc %d" % MIB), 0)
        self.assertEqual(stats_of(json.loads(self.ctl(program, "--json", str(program.pid), "stats")))["allocation"]["current"], 1)
        self.assertEqual(os.listdir(taken), [])
        self.assertEqual(program.end(), 0)

    @unittest.skipUnless(may_unshare(["--pid", "--fork"]), "needs PID namespaces")
    def test_one_number_in_two_namespaces(self):
        """Both are process 1, of one user, with one folder, and see the /proc of another namespace."""
        programs = []
        for i in range(2):
            program = self.start(CONTROL="1", XDG_RUNTIME_DIR=self.folder,
                                 prefix=("unshare", "--pid", "--fork", "--kill-child"))
            self.assertEqual(program.step("alloc %d" % ((i + 1) * MIB)), 0)
            with open("/proc/%d/task/%d/children" % (program.pid, program.pid)) as file:
                programs.append((program, file.read().strip()))
        self.assertEqual(len(os.listdir(os.path.join(self.folder, "gpupool"))), 2)
        for i, (program, pid) in enumerate(programs):
            stats = json.loads(self.ctl(program, "--json", pid, "stats"))
            self.assertEqual(stats["pid"], 1)
            self.assertEqual(stats_of(stats)["requested_bytes"]["current"], (i + 1) * MIB)
        for program, _ in programs:
            self.assertEqual(program.end(), 0)
        self.assertEqual(os.listdir(os.path.join(self.folder, "gpupool")), [])

    def test_why_not(self):
        program = self.start(preload=None)
        pid = str(program.pid)
        self.assertIn("not started with GPUPOOL_CONTROL=1", self.ctl(program, pid, "stats", status=3))
        self.assertEqual(program.end(), 0)
        self.assertIn("there is no process " + pid, self.ctl(program, pid, "stats", status=3))
        program = self.start(preload=None, CONTROL="1")
        self.assertIn("does not run under libgpupool.so", self.ctl(program, str(program.pid), "stats", status=3))
        self.assertEqual(program.end(), 0)
        program = self.start(CONTROL="1")
        program.step("synchronize")
        self.assertIn("has not requested GPU memory yet", self.ctl(program, str(program.pid), "stats", status=3))
        self.assertEqual(program.end(), 0)

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("setpriv"), "needs to take rights away")
    def test_a_closed_process_has_no_socket(self):
        """The kernel shows neither the environment nor the files of a process with more rights."""
        program = self.start(preload=None)
        for command in (["ctl", str(program.pid), "stats"], ["live", "--once", str(program.pid)]):
            result = subprocess.run(["setpriv", "--bounding-set=-all", TOOL, *command], stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, universal_newlines=True, timeout=60)
            self.assertEqual(result.returncode, 3, result.stderr)
            self.assertIn("process %d has no control socket that this user can see" % program.pid, result.stderr)
            self.assertIn("GPUPOOL_CONTROL=1", result.stderr)
            self.assertNotIn("ermission", result.stderr)
        self.assertEqual(program.end(), 0)

    def test_stale_sockets_go_when_the_tool_looks(self):
        program, other = self.control(), self.control()
        path = self.socket_path(program)
        program.process.kill()
        program.end()
        self.assertTrue(os.path.exists(path))
        shutil.move(path, os.path.join(other.folder, "gpupool"))
        self.ctl(other, str(other.pid), "stats")
        self.assertEqual(os.listdir(os.path.join(other.folder, "gpupool")), [os.path.basename(self.socket_path(other))])
        self.assertEqual(other.end(), 0)

    def test_usage(self):
        program = self.control()
        for args, text in (((), "the process id is missing"), (("1",), "a request is missing"), (("x", "stats"), "is not a process id"),
                           (("1", "stat"), "did you mean stats?"), (("1", "limit"), "limit needs SIZE"),
                           (("1", "stats", "2"), "takes no argument"), (("1", "trace", "a", "b"), "unexpected argument b"),
                           (("--jsn", "1", "stats"), "did you mean --json?")):
            self.assertIn(text, self.ctl(program, *args, status=2))
        self.assertIn("usage: gpupool ctl", self.ctl(program, "--help"))
        self.assertEqual(program.end(), 0)


if __name__ == "__main__":
    unittest.main()
