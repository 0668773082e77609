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


def execute(command, folder, limit, environment=None):
    """Output goes to files in `folder`; the first of it is returned. Never raises for what the command does."""
    os.makedirs(folder, exist_ok=True)
    paths = [os.path.join(folder, name) for name in ("stdout", "stderr")]
    begin = time.monotonic()
    timed_out = False
    with open(paths[0], "wb") as out, open(paths[1], "wb") as err:
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=folder,
                                       env=environment or clean_environment(), start_new_session=True)
        except OSError as error:
            return Result(command, 127, False, 0.0, "", "%s: %s" % (command[0], error.strerror), 0)
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            timed_out = True
            end_group(process)
        except BaseException:  # interrupted: nothing that the check started goes on
            end_group(process)
            raise
    return Result(command, process.returncode, timed_out, time.monotonic() - begin, read(paths[0]), read(paths[1]),
                  process.pid)
