"""A program that lives while the test talks to it: test/prog/steps.c, or one that reads its steps as that does, under
the library, on the simulated GPU.
"""

import json
import os
import selectors
import signal
import subprocess

from harness import LIBRARY, PROG, SIM, PreloadCase

PATIENCE = 60  # seconds for a line that will never come; nothing is measured


class LiveProgram:
    def __init__(self, folder, preload=LIBRARY, prefix=(), name="steps", driver_folder=None, **settings):
        self.folder = folder
        env = {key: value for key, value in os.environ.items() if not key.startswith(("GPUPOOL_", "SIMCUDA_"))}
        env.update(LD_LIBRARY_PATH=(driver_folder + ":" if driver_folder else "") + SIM,
                   GPUPOOL_VERBOSE="1", XDG_RUNTIME_DIR=folder,
                   GPUPOOL_OUTPUT=os.path.join(folder, "snapshot.%p.%n.%r.json"))
        if preload:
            env["LD_PRELOAD"] = (env.get("LD_PRELOAD", "") + ":" + preload).lstrip(":")
        for key, value in settings.items():
            env[key if key.startswith(("SIMCUDA_", "GP_", "FAIL_", "XDG_")) else "GPUPOOL_" + key] = value
        self.env = env
        self.process = subprocess.Popen(list(prefix) + [os.path.join(PROG, name)], env=env, cwd=folder, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.pid = self.process.pid
        self.unread = {self.process.stdout: b"", self.process.stderr: b""}
        self.err = ""

    def _line(self, file):
        with selectors.DefaultSelector() as selector:
            selector.register(file, selectors.EVENT_READ)
            while b"\n" not in self.unread[file]:
                if not selector.select(PATIENCE):
                    raise AssertionError("no line came; stderr so far:\n" + self.err)
                more = os.read(file.fileno(), 65536)
                if not more:
                    raise AssertionError("the program has ended; stderr:\n" + self.err)
                self.unread[file] += more
        line, self.unread[file] = self.unread[file].split(b"\n", 1)
        return line.decode(errors="replace")

    def step(self, text):
        """What the program answers."""
        self.process.stdin.write((text + "\n").encode())
        self.process.stdin.flush()
        name, answer = self._line(self.process.stdout).split()
        assert name == text.split()[0], (name, text)
        return int(answer)

    def message(self, text):
        """Waits for a line on stderr that has `text` in it."""
        while True:
            line = self._line(self.process.stderr)
            self.err += line + "\n"
            if text in line:
                return line

    def written(self):
        """Waits for the line about a snapshot; returns the path."""
        return self.message("snapshot written: ").split("snapshot written: ")[1].split("; next")[0]

    def signal(self, number=signal.SIGUSR1):
        os.kill(self.pid, number)

    def end(self):
        """Its status; what was not read of stderr is in err."""
        self.process.stdin.close()
        with self.process:
            self.err += (self.unread[self.process.stderr] + self.process.stderr.read()).decode(errors="replace")
        return self.process.returncode


class LiveCase(PreloadCase):
    def start(self, **settings):
        """In a folder of its own, ended with the test."""
        self.runs = next(self.numbers)
        folder = os.path.join(self.folder, "run%d" % self.runs)
        os.mkdir(folder, 0o700)
        program = LiveProgram(folder, **settings)
        self.addCleanup(self._end, program)
        return program

    def _end(self, program):
        if program.process.returncode is None:
            program.process.kill()
            program.end()

    def read(self, path, schema=True):
        with open(path) as file:
            snapshot = json.load(file)
        self.expect_valid(snapshot, schema=schema)
        return snapshot
