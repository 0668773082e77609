"""One run of a case, and what differs between two."""

import fnmatch
import glob
import hashlib
import json
import os
import re
import shutil
import time

import account
from variants import PLAIN

OUR_LINES = re.compile(r"^(gpupool|simcuda): .*\n?", re.M)
OURS = ("out", "err", "*.stats", "*.log", "*.json", "core*")
MEMORY_CALL = re.compile(r"cuMem(Alloc|Free|Create|Release|Map|Unmap|SetAccess|Address)")
WRONG = ("violations", "corrupt_stamps")


class Run:
    """What a run left in its folder, which is made anew."""

    def __init__(self, place, case, folder, environment):
        self.folder = place.outside(folder)
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        simulator = {"SIMCUDA_STATS": folder + "/%p.stats", "SIMCUDA_LOG": folder + "/%p.log"}
        began = time.monotonic()
        with open(self.folder + "/out", "wb") as out, open(self.folder + "/err", "wb") as err:
            self.status = place.run(case.command, environment=dict(simulator, **environment), folder=folder, out=out, err=err,
                                    seconds=case.seconds)[0]
        self.seconds = time.monotonic() - began
        self.out = self.read("out", case)
        self.err = OUR_LINES.sub("", self.read("err", case))

    def read(self, name, case):
        with open(os.path.join(self.folder, name), errors="replace") as file:
            text = file.read()
        for pattern, replacement in case.normalize:
            text = re.sub(pattern, replacement, text, flags=re.M)
        return text

    def paths(self, pattern):
        return sorted(glob.glob(os.path.join(glob.escape(self.folder), pattern)))

    def statistics(self):
        found = []
        for path in self.paths("*.stats"):
            with open(path) as file:
                found.append(json.load(file))
        return found

    def wrong(self, name):
        return sum(statistics[name] for statistics in self.statistics())

    def figures(self):
        """Most memory of all devices and processes, as the driver sees it, and calls for memory."""
        found = self.statistics()
        peak = sum(sum(statistics["peak_bytes"]) for statistics in found)
        calls = sum(count for statistics in found for name, count in statistics["calls"].items() if MEMORY_CALL.match(name))
        return "%5d MiB, %5d calls" % (peak >> 20, calls) if found else ""

    def files(self, patterns):
        """The sums of the files that a case declares."""
        found = {}
        for folder, _, names in os.walk(self.folder):
            for name in names:
                path = os.path.join(folder, name)
                short = os.path.relpath(path, self.folder)
                if any(fnmatch.fnmatch(short, pattern) for pattern in patterns) and not any(fnmatch.fnmatch(short, ours) for ours in OURS):
                    with open(path, "rb") as file:
                        found[short] = hashlib.sha256(file.read()).hexdigest()
        return found

    def forget(self):
        """Logs and snapshots, which may be large."""
        for path in self.paths("*.log") + self.paths("*.json"):
            os.remove(path)


def say_status(status):
    return "killed after its time" if status is None else "signal %d" % -status if status < 0 else "exit status %d" % status


def first_difference(what, plain, other):
    for before, after in zip(plain.splitlines() + ["(end)"], other.splitlines() + ["(end)"]):
        if before != after:
            at = max(0, len(os.path.commonprefix([before, after])) - 30)
            return '%s: "%s", was "%s"' % (what, after[at:at + 100], before[at:at + 100])
    return "%s: other ends of lines" % what


def compare_accounts(case, variant, plain, run):
    program, driver, missing = account.of_snapshots(run.paths("*.exit.json"), False)
    if missing:
        return ["%d events are missing in the snapshot" % missing]
    theirs = account.of_logs(run.paths("*.log"))
    same = driver == theirs
    if not same and account.has_mapped(run.paths("*.log")):
        # Mapped memory moves from one place to another without the driver, outlives its context, and some is
        # reserved for requests that fail: only what is allocated in the end is the same.
        driver = account.of_snapshots(run.paths("*.exit.json"), True)[1]
        same = driver.held() == theirs.held()
    found = [] if same else ["asked of the driver: snapshot %s, simulator %s" % (driver, theirs)]
    theirs = account.of_logs(plain.paths("*.log"))
    if not case.varies and program != theirs:
        found.append("asked for by the program: snapshot %s, simulator %s" % (program, theirs))
    return found


def differences(case, variant, plain, run):
    """Sentences; none: the run is as the plain one."""
    found = []
    if run.status != plain.status:
        found.append("%s, was %s" % (say_status(run.status), say_status(plain.status)))
    if run.out != plain.out:
        found.append(first_difference("output", plain.out, run.out))
    if case.compare_errors and run.err != plain.err:
        found.append(first_difference("errors", plain.err, run.err))
    before, after = plain.files(case.files), run.files(case.files)
    found += ["%s: another content" % name if name in before and name in after else "%s: only one run has it" % name
              for name in sorted(before.keys() | after.keys()) if before.get(name) != after.get(name)]
    if len(plain.statistics()) != len(run.statistics()):
        found.append("%d processes used the simulator to their end, were %d" % (len(run.statistics()), len(plain.statistics())))
    found += ["%d %s, were %d" % (run.wrong(name), name.replace("_", " "), plain.wrong(name)) for name in WRONG
              if run.wrong(name) > plain.wrong(name)]
    if not case.no_account and not found:
        found += compare_accounts(case, variant, plain, run)
    return found


class Verdict:
    """SAME, EXPLAINED or DIFFERENT, and why."""

    def __init__(self, case, variant, plain, run):
        self.differences = differences(case, variant, plain, run)
        self.reason = case.unlike.get(variant, case.unlike.get("preloaded", ""))
        if not self.differences and self.reason:
            self.differences = ["is as %s, though a difference is declared: %s" % (PLAIN, self.reason)]
            self.reason = ""
        self.word = "same" if not self.differences else "explained" if self.reason else "DIFFERENT"
        self.failed = self.word == "DIFFERENT"
