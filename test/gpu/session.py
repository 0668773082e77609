"""Runs the checks of the manifest one after the other and keeps their outcomes."""

import glob
import json
import os
import sys
import time

import judge
import manifest
import toolchain
from execute import clean_environment, execute

LEAST_SECONDS = 5  # of the whole time, to begin another run


class Session:
    """What all checks share: where things are, what could not be built, and how much time is left."""

    def __init__(self, folder, programs, prog_folder, libraries, problems, toolkit, simulator, deadline):
        self.folder = folder
        self.programs = programs        # folder of the programs that nvcc built
        self.prog_folder = prog_folder  # ... of test/prog
        self.libraries = libraries      # {"pool", "unsafe", "trace": path}, those that there are
        self.problems = problems        # {program or library: why it could not be built}
        self.toolkit = toolkit
        self.simulator = simulator      # folder of the simulated libraries, or None
        self.deadline = deadline

    def missing(self, check):
        """Why the check cannot be run here, or None."""
        kind, _, name = check.program.rpartition(":")
        if kind == "python":
            pass
        elif kind == "prog":
            if not os.path.exists(os.path.join(self.prog_folder, name)):
                return self.problems.get("gpupool") or "test/prog/%s is not built" % name
        elif name in self.problems:
            return self.problems[name]
        for run in check.runs:
            if run.under != "driver" and run.under not in self.libraries:
                return self.problems.get(run.under) or self.problems.get("gpupool") or "there is no library for it"
        return None

    def command(self, check):
        kind, _, name = check.program.rpartition(":")
        if kind == "python":
            command = [sys.executable, os.path.join(toolchain.HERE, "python", name)]
        else:
            command = [os.path.join(self.prog_folder if kind == "prog" else self.programs, name)]
        args = check.sim_args if self.simulator and check.sim_args is not None else check.args
        return command + [arg.format(workloads=os.path.join(os.path.dirname(self.prog_folder), "workloads")) for arg in args]

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

    def observe(self, check, run, number):
        folder = os.path.join(self.folder, "run", check.name, "%d-%s" % (number, run.under))
        for old in glob.glob(os.path.join(folder, "*.json")):
            os.unlink(old)
        limit = max(1, min(check.limit, self.deadline - time.monotonic()))
        environment = self.environment(check, run, folder)
        result = execute(self.command(check), folder, limit, dict(clean_environment(), **environment))
        facts, skip = judge.parse_facts(result.out)
        stats = None
        snapshot = os.path.join(folder, "snapshot.%d.exit.json" % result.pid)
        if os.path.exists(snapshot):
            with open(snapshot) as file:
                stats = judge.flatten_stats(json.load(file))
        sim = None
        counters = os.path.join(folder, "sim.%d.json" % result.pid)
        if os.path.exists(counters):
            with open(counters) as file:
                sim = json.load(file)
        messages = [line for line in result.err.splitlines() if line.startswith("gpupool: ")]
        cut_short = result.timed_out and limit < check.limit
        return judge.Observation(run, result, facts, skip, stats, sim, messages), environment, cut_short

    def perform(self, check):
        """The outcome of one check, ready for the report."""
        outcome = {"name": check.name, "part": check.part, "shows": check.shows, "result": "skipped", "problems": [],
                   "runs": [], "surprises": [], "comparison": ""}
        reason = "not for the simulated GPU" if self.simulator and not check.sim else self.missing(check)
        if not reason and self.deadline - time.monotonic() < LEAST_SECONDS:
            reason = "no time was left"
        if reason:
            outcome["problems"] = [reason]
            if self.simulator and toolchain.NOT_COMPILED in reason:
                outcome["result"] = "failed"  # with the compiler that the project is developed with: a mistake here
            return outcome
        observations = []
        for number, run in enumerate(check.runs, 1):
            observation, environment, cut_short = self.observe(check, run, number)
            observations.append(observation)
            outcome["runs"].append(describe(observation, environment))
            if cut_short:
                outcome["problems"] = ["the time of the whole check ended during it"]
                return outcome
            if observation.result.status != 0 or observation.result.timed_out:
                break  # nothing to compare with
        outcome["result"], outcome["problems"] = judge.judge(check, observations)
        outcome["surprises"] = judge.surprises(observations)
        if check.judge == "equal" and outcome["result"] == "passed":
            outcome["comparison"] = compare(observations)
        return outcome


def describe(observation, environment):
    result = observation.result
    return {"under": observation.run.under, "command": result.command, "environment": environment,
            "status": result.status, "timed_out": result.timed_out, "seconds": round(result.seconds, 3),
            "facts": list(observation.facts.values()), "stats": observation.stats, "simulator": observation.sim,
            "messages": observation.messages[:20]}


def compare(observations):
    """Time without and with the pool; memory as the driver had to give it without and with."""
    times = [judge.value(observation, "seconds") for observation in observations]
    text = "%.3f s, under the pool %.3f s" % (times[0], times[1])
    if times[1]:
        text += " (%.2f times as fast)" % (times[0] / times[1])
    recorded = observations[-1].stats
    text += "; %.1f MiB at most" % (recorded["reserved_bytes.peak"] / 2**20)
    for observation in observations[1:-1]:
        pooled = observation.stats
        text += "; %s %.3f s, %.1f MiB, %.1f%% of %d allocations from the pool" % (
            observation.run.settings.get("TYPE", "round"), judge.value(observation, "seconds"),
            pooled["reserved_bytes.peak"] / 2**20, 100 * pooled["cache_hit_rate"], pooled["allocation.allocated"])
    return text
