"""Runs the checks of the manifest one after the other and keeps their outcomes."""

import glob
import json
import os
import statistics
import sys
import time

import judge
import manifest
import toolchain
from execute import Program, clean_environment

LEAST_SECONDS = 5  # of the whole time, to begin another run


class Session:
    """What all checks share: where things are, what could not be built, and how much time is left."""

    def __init__(self, folder, programs, prog_folder, libraries, problems, toolkit, simulator, deadline,
                 repeat=1):
        self.folder = folder
        self.programs = programs        # folder of the programs that nvcc built
        self.prog_folder = prog_folder  # ... of test/prog
        self.libraries = libraries      # {"pool", "unsafe", "trace": path}, those that there are
        self.problems = problems        # {program or library: why it could not be built}
        self.toolkit = toolkit
        self.simulator = simulator      # folder of the simulated libraries, or None
        self.deadline = deadline
        self.repeat = repeat            # how often a real program runs in each way, in turn

    def missing(self, check):
        """Why the check cannot be run here, or None."""
        kind, _, name = check.program.rpartition(":")
        if kind == "prog" and not os.path.exists(os.path.join(self.prog_folder, name)):
            return self.problems.get("gpupool") or "test/prog/%s is not built" % name
        for name in manifest.built_by_nvcc(check):
            if name in self.problems:
                return self.problems[name]
        for under in [run.under for run in check.runs] + ["pool"] * ("{pool}" in check.args):
            if under != "driver" and under not in self.libraries:
                return self.problems.get(under) or self.problems.get("gpupool") or "there is no library for it"
        return None

    def command(self, check):
        kind, _, name = check.program.rpartition(":")
        if kind == "python":
            command = [sys.executable, os.path.join(toolchain.HERE, "python", name)]
        else:
            command = [os.path.join(self.prog_folder if kind == "prog" else self.programs, name)]
        args = check.sim_args if self.simulator and check.sim_args is not None else check.args
        workloads = os.path.join(os.path.dirname(self.prog_folder), "workloads")
        return command + [arg.format(workloads=workloads, programs=self.programs, pool=self.libraries.get("pool")) for arg in args]

    def environment(self, check, run, folder):
        """What is set for this run, beside what is inherited."""
        ours = {}
        kind, _, name = check.program.rpartition(":")
        if self.simulator:
            ours["LD_LIBRARY_PATH"] = self.simulator
            ours["SIMCUDA_STATS"] = os.path.join(folder, "sim.%p.json")
        elif kind != "python":
            program = None if kind else manifest.PROGRAMS[name]
            folders = toolchain.search_path(self.toolkit, program) + [os.environ.get("LD_LIBRARY_PATH", "")]
            ours["LD_LIBRARY_PATH"] = ":".join(path for path in folders if path)
        if kind == "python":
            ours["PYTHONDONTWRITEBYTECODE"] = "1"
        if run.under != "driver":
            ours["LD_PRELOAD"] = self.libraries[run.under]
        if run.under in ("pool", "unsafe"):
            ours["GPUPOOL_OUTPUT"] = os.path.join(folder, "snapshot.%p.%r.json")
        for key, text in run.settings.items():
            if key.startswith("env:"):
                ours[key[4:]] = text
            elif run.under in ("pool", "unsafe"):
                ours["GPUPOOL_" + key] = text
        return ours

    def start(self, check, run, number, waits):
        folder = os.path.join(self.folder, "run", check.name, "%d-%s" % (number, run.under))
        for old in glob.glob(os.path.join(folder, "*.json")):
            os.unlink(old)
        environment = self.environment(check, run, folder)
        return Program(self.command(check), folder, dict(clean_environment(), **environment), waits), environment

    def start_together(self, check, runs):
        """Most of the time of a Python program is its imports; those of all runs are made at once."""
        started = [self.start(check, run, number, True) for number, run in enumerate(runs, 1)]
        while not all(program.is_ready() for program, _ in started) and time.monotonic() < self.deadline:
            time.sleep(0.02)
        return started

    def observe(self, check, run, program):
        limit = max(1, min(check.limit, self.deadline - time.monotonic()))
        result = program.finish(limit)
        facts, skip = judge.parse_facts(result.out)
        stats = None
        snapshot = os.path.join(program.folder, "snapshot.%d.exit.json" % result.pid)
        if os.path.exists(snapshot):
            with open(snapshot) as file:
                data = json.load(file)
            stats = judge.flatten_stats(data)
            if check.program.startswith("python:"):
                stacks = judge.stacks_of_script(data, os.path.basename(self.command(check)[1]))
                facts["stacks"] = {"name": "stacks", "value": stacks, "unit": ""}
        sim = None
        counters = os.path.join(program.folder, "sim.%d.json" % result.pid)
        if os.path.exists(counters):
            with open(counters) as file:
                sim = json.load(file)
        messages = [line for line in result.err.splitlines() if line.startswith("gpupool: ")]
        cut_short = result.timed_out and limit < check.limit
        return judge.Observation(run, result, facts, skip, stats, sim, messages), cut_short

    def begin(self, check, has_results=False):
        """The outcome of one check, for the report; with a problem if it cannot be run. has_results: it has run before."""
        outcome = {"name": check.name, "part": check.part, "shows": check.shows, "result": "skipped", "problems": [],
                   "runs": [], "surprises": [], "comparison": ""}
        reason = "not for the simulated GPU" if self.simulator and not check.sim else self.missing(check)
        if not reason and not has_results and self.deadline - time.monotonic() < LEAST_SECONDS:
            reason = "no time was left"
        if reason:
            outcome["problems"] = [reason]
            if self.simulator and toolchain.NOT_COMPILED in reason:
                outcome["result"] = "failed"  # with the compiler that the project is developed with: a mistake here
        return outcome

    def turns(self, checks):
        """The checks in the order in which they are performed."""
        return checks

    def perform(self, check):
        outcome = self.begin(check)
        if outcome["problems"]:
            return outcome
        runs = check.runs * (self.repeat if check.part == "real" else 1)
        together = check.program.startswith("python:") and self.repeat > 1
        started = self.start_together(check, runs) if together else []
        try:
            self.perform_runs(check, runs, started, outcome)
        finally:
            for program, _ in started:
                program.end()
        return outcome

    def perform_runs(self, check, runs, started, outcome):
        observations = []
        for number, run in enumerate(runs, 1):
            program, environment = started[number - 1] if started else self.start(check, run, number, False)
            observation, cut_short = self.observe(check, run, program)
            if cut_short and len(observations) >= len(check.runs):
                break  # each way has run: that can be compared
            observations.append(observation)
            outcome["runs"].append(describe(observation, environment))
            if cut_short:
                outcome["problems"] = ["the time of the whole check ended during it"]
                return
            if observation.result.status != 0 or observation.result.timed_out:
                break  # nothing to compare with
        outcome["result"], outcome["problems"] = judge.judge(check, observations)
        outcome["surprises"] = judge.surprises(observations)
        if check.judge == "equal" and outcome["result"] == "passed":
            outcome["comparison"] = compare(observations)


def describe(observation, environment):
    result = observation.result
    return {"under": observation.run.under, "command": result.command, "environment": environment,
            "status": result.status, "timed_out": result.timed_out, "seconds": round(result.seconds, 3),
            "facts": list(observation.facts.values()), "stats": observation.stats, "simulator": observation.sim,
            "messages": observation.messages[:20]}


def compare(observations):
    """Each way to run it: the median of its seconds and their range, and the most memory that it held."""
    ways = {}
    for observation in observations:
        ways.setdefault(repr(observation.run), []).append(observation)
    alone = statistics.median(judge.value(observation, "seconds") for observation in observations if observation.run == observations[0].run)
    texts = []
    for same in ways.values():
        seconds = sorted(judge.value(observation, "seconds") for observation in same)
        text = "%s %.3f s" % (way_of(same[0].run), statistics.median(seconds))
        if len(seconds) > 1:
            text += " (%d runs, %.3f to %.3f)" % (len(seconds), seconds[0], seconds[-1])
        if same[0].run != observations[0].run and statistics.median(seconds):
            text += ", %.2f times as fast" % (alone / statistics.median(seconds))
        held = [bytes for bytes in map(held_by, same) if bytes is not None]
        if held:
            text += ", %.1f MiB" % (max(held) / 2**20)
        device = [judge.value(observation, "device") for observation in same if "device" in observation.facts]
        if device:
            text += ", %.0f MiB on the device" % (max(device) / 2**20)
        if "stacks" in same[0].facts:
            text += ", %s with a line of the script" % judge.value(same[0], "stacks")
        stats = same[0].stats
        if stats and same[0].run.settings.get("TYPE") != "unpooled":
            text += ", %.1f%% of %d allocations from the pool, %d driver calls" % (
                100 * stats["cache_hit_rate"], stats["allocation.allocated"], stats["driver_allocs"] + stats["driver_frees"])
        texts.append(text)
    return "; ".join(texts)


def way_of(run):
    """As a reader of the page calls it."""
    type_name = run.settings.get("TYPE", "round")
    return run.label or ("alone" if run.under == "driver" else "recorded only" if type_name == "unpooled" else type_name)


def held_by(observation):
    """Bytes: the peak that the snapshot tells, else what the program says of its own allocator, else None."""
    return observation.stats["reserved_bytes.peak"] if observation.stats else judge.value(observation, "held")
