"""What the Python programs share: one JSON object on stdout, in the form of common/report.h."""

import json
import os
import sys
import time

EXIT_SKIP = 77
facts = []


def fact(name, value, unit=""):
    facts.append({"name": name, "value": value, "unit": unit})


def finish(program):
    print(json.dumps({"program": program, "facts": facts}))


def skip(program, reason):
    print(json.dumps({"program": program, "skip": reason}))
    sys.exit(EXIT_SKIP)


def await_turn():
    """Called where everything is imported and the device is not used yet: others may be at work (execute.py)."""
    path = os.environ.get("GPU_CHECK_READY")
    if path:
        open(path, "w").close()
        sys.stdin.read()


def torch_in_turn(program):
    """PyTorch, with results that do not change from run to run; ends the program where there is none, or no device."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    try:
        import torch
    except ImportError as error:
        skip(program, "PyTorch is not installed (%s)" % error)
    await_turn()
    if not torch.cuda.is_available():
        skip(program, "this PyTorch finds no device")
    return torch


class Clock:
    """Seconds from the first call of begin(), so that what happens once is left out."""

    def __init__(self):
        self.at = None

    def begin(self):
        if self.at is None:
            self.at = time.perf_counter()

    def report(self):
        fact("seconds", time.perf_counter() - self.at, "s")
