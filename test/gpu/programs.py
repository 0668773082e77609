"""Real programs in rounds, each way once a round, until the times tell something (gpu-check.sh --programs).

A machine with a GPU is often to be had for minutes only. So whole rounds are kept in OUT/programs.json, and the next call for
the same revision and GPU goes on with what is missing.
"""

import json
import os
import statistics
import time

import judge
import watch
from execute import Result
from report import write_atomically
from session import LEAST_SECONDS, Session, compare, describe

LEAST_ROUNDS, MOST_ROUNDS = 3, 5
WIDE = 0.05  # more rounds where the times of a way differ by more than that share of their median


class Kept:
    """The rounds so far: {name of the check: [[a run of each way]]}."""

    def __init__(self, folder, machine):
        self.path = os.path.join(folder, "programs.json")
        self.made_with = {key: machine.get(key) for key in ("revision", "gpu", "driver")}
        self.rounds = {}
        try:
            with open(self.path) as file:
                data = json.load(file)
        except (OSError, ValueError):
            return
        if data["made_with"] == self.made_with:
            self.rounds = data["rounds"]

    def add(self, name, runs):
        self.rounds.setdefault(name, []).append(runs)
        write_atomically(self.path, json.dumps({"made_with": self.made_with, "rounds": self.rounds}) + "\n")


def seconds_of(run):
    return next((fact["value"] for fact in run["facts"] if fact["name"] == "seconds"), run["seconds"])


def are_wide(rounds):
    for same in zip(*rounds):
        seconds = [seconds_of(run) for run in same]
        if max(seconds) - min(seconds) > WIDE * statistics.median(seconds):
            return True
    return False


def are_enough(rounds, least):
    if len(rounds) < least:
        return False
    return len(rounds) >= max(least, MOST_ROUNDS) or not are_wide(rounds)


def observation_of(run, description):
    result = Result(description["command"], description["status"], description["timed_out"], description["seconds"], "", "", 0)
    return judge.Observation(run, result, {fact["name"]: fact for fact in description["facts"]}, None, description["stats"],
                             description["simulator"], description["messages"])


class Programs(Session):
    def __init__(self, kept, *args):
        super().__init__(*args)
        self.kept = kept

    def has_time(self):
        return self.deadline - time.monotonic() >= LEAST_SECONDS

    def perform(self, check):
        rounds = self.kept.rounds.get(check.name, [])
        outcome = self.begin(check, bool(rounds))
        if outcome["problems"]:
            return outcome
        while not are_enough(rounds, check.rounds or LEAST_ROUNDS) and self.has_time():
            if not self.perform_round(check, outcome):
                return outcome
            rounds = self.kept.rounds.get(check.name, [])
        if not rounds:
            outcome["problems"] = ["the time of the whole check ended during its first round; the next call runs it"]
            return outcome
        observations = [observation_of(run, description) for one in rounds for run, description in zip(check.runs, one)]
        outcome["runs"] = [description for one in rounds for description in one]
        outcome["result"], outcome["problems"] = judge.judge(check, observations)
        if outcome["result"] == "passed":
            outcome["comparison"] = compare(observations)
            if not are_enough(rounds, check.rounds or LEAST_ROUNDS):
                outcome["comparison"] += "; the next call goes on after round %d" % len(rounds)
        return outcome

    def perform_round(self, check, outcome):
        """False: the program failed, or cannot be run here, and the outcome says so. A round that the end of the time cuts
        short is not kept."""
        is_python = check.program.startswith("python:")
        started = self.start_together(check, check.runs) if is_python else []
        observations, descriptions = [], []
        try:
            for number, run in enumerate(check.runs, 1):
                program, environment = started[number - 1] if started else self.start(check, run, number, False)
                memory = watch.Memory(program.folder)
                observation, is_cut_short = self.observe(check, run, program)
                peak = memory.end()
                if is_cut_short:
                    return True
                if peak is not None:
                    observation.facts["device"] = {"name": "device", "value": peak, "unit": "B"}
                observations.append(observation)
                descriptions.append(describe(observation, environment))
                if observation.result.status or observation.result.timed_out or observation.skip:
                    outcome["runs"] = descriptions
                    outcome["result"], outcome["problems"] = judge.judge(check, observations)
                    return False
        finally:
            for program, _ in started:
                program.end()
        self.kept.add(check.name, descriptions)
        return True
