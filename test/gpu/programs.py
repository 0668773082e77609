"""Real programs in rounds, each way once a round, until the times tell something (gpu-check.sh --programs).

A machine with a GPU is often to be had for minutes only. So each program has one round before any has its second, and whole
rounds are kept in OUT/programs.json: the next call for the same revision and GPU goes on with what is missing.
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
        self.memory = watch.Memory()
        self.ended = set()  # names of checks that failed or cannot be run here: the next call tries again

    def has_time(self):
        return self.deadline - time.monotonic() >= LEAST_SECONDS

    def rounds_of(self, check):
        return self.kept.rounds.get(check.name, [])

    def needs(self, check):
        """Rounds of its next turn: the first alone, then those that are missing to the least, then one by one."""
        rounds = self.rounds_of(check)
        if are_enough(rounds, check.rounds or LEAST_ROUNDS):
            return 0
        return max(1, (check.rounds or LEAST_ROUNDS) - len(rounds)) if rounds else 1

    def turns(self, checks):
        """Each check at least once, for its outcome, and again while it needs rounds and there is time for them: always one of
        those with the fewest rounds."""
        waiting = list(checks)
        while waiting:
            check = min(waiting, key=lambda check: len(self.rounds_of(check)))
            waiting.remove(check)
            yield check
            if self.needs(check) and check.name not in self.ended and self.has_time():
                waiting.append(check)

    def perform(self, check):
        outcome = self.begin(check, bool(self.rounds_of(check)))
        if outcome["problems"]:
            self.ended.add(check.name)
            return outcome
        if self.has_time() and not self.perform_turn(check, self.needs(check), outcome):
            self.ended.add(check.name)
            return outcome
        rounds = self.rounds_of(check)
        if not rounds:
            outcome["problems"] = ["the time of the whole check ended during its first round; the next call runs it"]
            return outcome
        observations = [observation_of(run, description) for one in rounds for run, description in zip(check.runs, one)]
        outcome["runs"] = [description for one in rounds for description in one]
        outcome["result"], outcome["problems"] = judge.judge(check, observations)
        if outcome["result"] == "passed":
            outcome["comparison"] = compare(observations)
            if self.needs(check):
                outcome["comparison"] += "; the next call goes on after round %d" % len(rounds)
        return outcome

    def perform_turn(self, check, count, outcome):
        """False: the program failed, or cannot be run here, and the outcome says so. A round that the end of the time cuts
        short is not kept."""
        is_python = check.program.startswith("python:")
        started = self.start_together(check, check.runs * count) if is_python else []
        try:
            for number in range(count):
                programs = started[number * len(check.runs):(number + 1) * len(check.runs)]
                descriptions = self.perform_round(check, programs, outcome)
                if not descriptions:
                    return outcome["result"] == "skipped" and not outcome["problems"]
                self.kept.add(check.name, descriptions)
        finally:
            for program, _ in started:
                program.end()
        return True

    def perform_round(self, check, started, outcome):
        """The runs of each way, described; None if one was cut short, or went wrong, which the outcome then says."""
        observations, descriptions = [], []
        for number, run in enumerate(check.runs, 1):
            program, environment = started[number - 1] if started else self.start(check, run, number, False)
            self.memory.begin()
            observation, is_cut_short = self.observe(check, run, program)
            peak = self.memory.end()
            if is_cut_short:
                return None
            if peak is not None:
                observation.facts["device"] = {"name": "device", "value": peak, "unit": "B"}
            observations.append(observation)
            descriptions.append(describe(observation, environment))
            if observation.result.status or observation.result.timed_out or observation.skip:
                outcome["runs"] = descriptions
                outcome["result"], outcome["problems"] = judge.judge(check, observations)
                return None
        return descriptions
