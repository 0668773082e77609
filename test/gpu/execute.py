"""Runs one command in a process group of its own, with a time limit."""

import os
import signal
import subprocess
import time
from collections import namedtuple

Result = namedtuple("Result", "command status timed_out seconds out err pid")

MOST_OUTPUT = 1 << 20
# What another user of the shell set for these would decide what is measured.
UNWANTED = ("GPUPOOL_", "MXNET_GPU_MEM_", "SIMCUDA_", "LD_PRELOAD", "CUDA_LAUNCH_BLOCKING", "CUDA_MODULE_LOADING",
            "PYTORCH_", "XLA_")


def clean_environment():
    return {name: value for name, value in os.environ.items() if not name.startswith(UNWANTED)}


def read(path):
    with open(path, errors="replace") as file:
        return file.read(MOST_OUTPUT)


def end_group(process):
    """The process and its children. The kernels that they left running end by themselves, within seconds."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


class Program:
    """A command that runs, in a process group of its own. Output goes to files in `folder`; the first of it is returned.
    Nothing raises for what the command does. One that `waits` for its turn (common.py) starts, and works once it is
    finished: several can start together and work one after the other.
    """

    def __init__(self, command, folder, environment=None, waits=False):
        os.makedirs(folder, exist_ok=True)
        self.command, self.folder, self.waits = command, folder, waits
        self.paths = [os.path.join(folder, name) for name in ("stdout", "stderr")]
        self.begin = time.monotonic()
        self.process, self.error = None, ""
        environment = dict(environment or clean_environment())
        self.ready = os.path.join(folder, "ready")
        if waits:
            environment["GPU_CHECK_READY"] = self.ready
            if os.path.exists(self.ready):
                os.unlink(self.ready)
        with open(self.paths[0], "wb") as out, open(self.paths[1], "wb") as err:
            try:
                self.process = subprocess.Popen(command, stdin=subprocess.PIPE if waits else subprocess.DEVNULL, stdout=out,
                                                stderr=err, cwd=folder, env=environment, start_new_session=True)
            except OSError as error:
                self.error = "%s: %s" % (command[0], error.strerror)

    def is_ready(self):
        """It waits for its turn, or has ended without."""
        return not self.waits or not self.process or os.path.exists(self.ready) or self.process.poll() is not None

    def end(self):
        if self.process:
            end_group(self.process)

    def finish(self, limit):
        if not self.process:
            return Result(self.command, 127, False, 0.0, "", self.error, 0)
        timed_out = False
        if self.waits:
            self.begin = time.monotonic()
            self.process.stdin.close()
        try:
            self.process.wait(limit)
        except subprocess.TimeoutExpired:
            timed_out = True
            self.end()
        except BaseException:  # interrupted: nothing that the check started goes on
            self.end()
            raise
        return Result(self.command, self.process.returncode, timed_out, time.monotonic() - self.begin, read(self.paths[0]),
                      read(self.paths[1]), self.process.pid)


def execute(command, folder, limit, environment=None):
    return Program(command, folder, environment).finish(limit)
