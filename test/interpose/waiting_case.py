"""Programs with a kernel that waits for their own thread: the library does not wait where the program would not.

Each scenario of test/prog/waiting_*.c is legal: natively it ends. Under the library it has to end, too, with the same
output; where the driver or a limit refuses memory that the library keeps, and the device is busy, "NAME: 2, then 0" is
as good as "NAME: 0" (test/prog/waiting.h). Time is that of a virtual clock: what is waited for takes none, and is seen.
"""

import itertools
import re
import subprocess

from harness import PreloadCase

HANG = 60  # seconds after which a program hangs; nothing is measured
ENOUGH = 2  # problems: a library that hangs need not be waited for in each scenario
MODES = ("context", "strict")
MIB = 1 << 20
LEFT = ("idle", "deferred")
SHORT = dict(SIMCUDA_CAPACITY="1GiB", RESERVE="0", PATIENCE="1")


class Case:
    """A scenario with its settings.

    refused: the library may refuse memory while the kernel runs; it may take `patience` seconds for that. free_waits: the
    settings of SIMCUDA_FREE_WAITS under which the program is legal. plain: settings of the run without the library, where
    they differ. none_left: statistics of bytes that have to be 0 at the end.
    """

    def __init__(self, program, *arguments, refused=False, free_waits=("0", "1"), drivers=("12040", "13000"), plain=None,
                 none_left=(), modes=MODES, patience=None, **settings):
        self.command = ("waiting_" + program,) + arguments
        self.refused = refused
        self.free_waits = free_waits
        self.drivers = drivers
        self.settings = settings
        self.none_left = none_left
        self.modes = modes
        self.patience = int(settings.get("PATIENCE", 2)) if patience is None else patience
        self.plain = settings if plain is None else plain

    def runs(self):
        for free_waits, driver in itertools.product(self.free_waits, self.drivers):
            yield self, driver, free_waits


class WaitingCase(PreloadCase):
    def finish(self, case, driver, free_waits, **settings):
        """The run of a case, or a line that says where it hangs."""
        try:
            return self.run_program(*case.command, driver=driver, timeout=HANG, virtual_clock=True,
                                    SIMCUDA_FREE_WAITS=free_waits, **settings)
        except subprocess.TimeoutExpired as hang:
            out = hang.output or b""
            lines = (out.decode(errors="replace") if isinstance(out, bytes) else out).splitlines()
            return "it hangs; last line: %s" % (lines[-1] if lines else "none")

    @staticmethod
    def same_lines(case, run):
        """What it printed, less what may differ."""
        out = re.sub("^seconds: .*$", "", run.out, flags=re.M)
        return re.sub(": 2, then 0$", ": 0", out, flags=re.M) if case.refused else out

    @staticmethod
    def seconds(run):
        return int(re.search(r"^seconds: (\d+)$", run.out, re.M).group(1))

    def judge(self, case, plain, run):
        """What is wrong with a run, or None."""
        for which, result in (("without the library ", plain), ("", run)):
            if isinstance(result, str):
                return which + result
            if result.status != 0 or not result.out.endswith("\nend\n"):
                return which + "status %d: %s%s" % (result.status, result.out, result.err[-2000:])
            if result.sim["violations"] or result.sim["corrupt_stamps"]:
                return which + "memory was used by two: %s" % result.err[-2000:]
        if self.same_lines(case, run) != self.same_lines(case, plain):
            return "%s\ninstead of\n%s%s" % (run.out, plain.out, run.err[-2000:])
        refusals = run.out.count(": 2, then 0")
        if self.seconds(run) > self.seconds(plain) + 1 + refusals * case.patience:
            return "%d seconds, natively %d:\n%s" % (self.seconds(run), self.seconds(plain), run.out)
        for device in run.snapshot()["devices"]:  # the program has synchronized
            kept = [device["stats"][name]["current"] for name in ("surplus_bytes",) + case.none_left]
            if any(kept):
                return "bytes that should have gone back: %s" % kept
        return None

    def problems(self, case, driver, free_waits):
        """A line for each mode in which something is wrong."""
        plain = self.finish(case, driver, free_waits, preload=None, **case.plain)
        for mode in case.modes:
            problem = self.judge(case, plain, self.finish(case, driver, free_waits, REUSE=mode, **case.settings))
            if problem:
                yield "%s: driver %s, SIMCUDA_FREE_WAITS=%s, %s: %s" % (" ".join(case.command), driver, free_waits, mode,
                                                                        problem)

    def check(self, cases):
        found = []
        for driver in {driver for case in cases for driver in case.drivers}:
            self.driver_folder(driver)  # not by two threads

        def one(run):
            for problem in self.problems(*run) if len(found) < ENOUGH else ():
                found.append(problem)
                if len(found) >= ENOUGH:
                    return

        self.in_parallel(one, (run for case in cases for run in case.runs()))
        self.assertEqual(found, [], "\n".join(found))
