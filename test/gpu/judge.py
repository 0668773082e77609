"""Whether a check went as it should. One function for each value of Check.judge.

Each gets the check and its Observations, one for each run, and yields problems; none: it passed. What every run has to
satisfy is in observation_problems.
"""

import json
import operator
import os
from collections import namedtuple

# facts: {name: fact} of the program's JSON, {} if it prints none. stats: of device 0 in the exit snapshot of the
# program's process, flat ("reserved_bytes.peak"), or None. sim: the simulator's counters, or None.
Observation = namedtuple("Observation", "run result facts skip stats sim messages")

EXIT_SKIP = 77
TOLERANCE = 1e-3
OPERATORS = {">": operator.gt, ">=": operator.ge, "==": operator.eq, "<=": operator.le, "<": operator.lt}


def parse_facts(text):
    """The facts, and the reason if the program says that it cannot be run here."""
    at = text.find('{"program"')
    if at < 0:
        return {}, None
    try:
        data, _ = json.JSONDecoder().raw_decode(text, at)
    except ValueError:
        return {}, None
    return {fact["name"]: fact for fact in data.get("facts", [])}, data.get("skip")


def flatten_stats(snapshot):
    for device in snapshot["devices"]:
        if device["device"] == 0:
            flat = {}
            for name, value in device["stats"].items():
                if isinstance(value, dict):
                    flat.update(("%s.%s" % (name, key), number) for key, number in value.items())
                else:
                    flat[name] = value
            return flat
    return None


def stacks_of_script(snapshot, script):
    """"N of M stacks": those with a line of the Python program itself, of all that an event has. (The native part of a stack
    with lines of Python is a stack, too, which no event has.)"""
    lines = {i for i, frame in enumerate(snapshot["frames"]) if os.path.basename(frame.get("file", "")) == script}
    used = {stack for stack in snapshot["events"]["stack"] if stack >= 0}
    named = sum(not lines.isdisjoint(snapshot["stacks"][stack]) for stack in used)
    return "%d of %d stacks" % (named, len(used))


def value(observation, name):
    fact = observation.facts.get(name)
    return None if fact is None else fact["value"]


def mismatches(observation):
    """Of words, as the kernels counted them; the simulated GPU counts itself."""
    count = value(observation, "mismatches")
    if observation.sim and count is not None:
        count += observation.sim["corrupt_stamps"] + observation.sim["violations"]
    return count


def last_line(text):
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip()[:300] if lines else ""


def observation_problems(check, observation):
    result = observation.result
    under = observation.run.under
    if result.timed_out:
        yield "%s: stopped after %d s, its time limit" % (under, round(result.seconds))
    elif result.status < 0:
        yield "%s: died of signal %d: %s" % (under, -result.status, last_line(result.err))
    elif result.status:
        yield "%s: exit status %d: %s" % (under, result.status, last_line(result.err) or last_line(result.out))
    elif under in ("pool", "unsafe"):
        if observation.stats is None:
            yield "%s: no snapshot of this process with device 0: gpupool saw no allocation" % under
        else:
            for name, relation, number in check.expect:
                if not OPERATORS[relation](observation.stats.get(name, 0), number):
                    yield "%s: %s is %s, not %s %s" % (under, name, observation.stats.get(name), relation, number)


def facts(check, observations):
    if not observations[0].facts:
        yield "it printed no facts"


def clean(check, observations):
    yield from facts(check, observations)
    for observation in observations:
        if mismatches(observation):
            yield "%s: %d words were not what was written" % (observation.run.under, mismatches(observation))
        for name, fact in observation.facts.items():
            if fact["value"] is False and "assumed" not in fact:
                yield "%s: not so: %s" % (observation.run.under, name)


def caught(check, observations):
    for observation in observations:
        if not mismatches(observation):
            yield "memory in use was handed out again, and the check did not notice"


def counted(check, observations):
    yield from clean(check, observations)
    for observation in observations:
        if observation.stats is None:
            continue
        # With `unpooled` the driver's own pool serves stream-ordered memory, of which the statistics count nothing.
        pools_ordered = observation.run.settings.get("TYPE") != "unpooled"
        for name, key in (("allocations", "allocation.allocated"), ("frees", "allocation.freed")):
            made = value(observation, name) + (value(observation, "stream-ordered " + name) if pools_ordered else 0)
            if made != observation.stats[key]:
                yield "the program made %s %s, the snapshot says %s" % (made, name, observation.stats[key])


def full(check, observations):
    yield from clean(check, observations)
    wanted = {"a full device answers": "cudaErrorMemoryAllocation", "twice the device answers":
              "cudaErrorMemoryAllocation", "three quarters of it in one piece": "cudaSuccess"}
    for observation in observations:
        for name, answer in wanted.items():
            if observation.run.under == "driver" and answer == "cudaSuccess":
                continue  # the driver's own business
            if value(observation, name) != answer:
                yield "%s: %s: %s, not %s" % (observation.run.under, name, value(observation, name), answer)
    if len(observations) == 2:
        driver, pool = (value(observation, "bytes that fitted") for observation in observations)
        if pool < driver * 0.97:
            yield "under the pool only %.1f%% of the memory fits that the driver gives" % (100 * pool / driver)


def passes(check, observations):
    return ()


def same(check, observations):
    first = observations[0].result
    for observation in observations[1:]:
        theirs, ours = first.out.splitlines(), observation.result.out.splitlines()
        for number in range(max(len(theirs), len(ours))):
            pair = [lines[number] if number < len(lines) else "nothing" for lines in (theirs, ours)]
            if pair[0] != pair[1]:
                yield "line %d of its output is \"%s\", under the pool \"%s\"" % (number + 1, pair[0], pair[1])
                break


def same_facts(check, observations):
    yield from clean(check, observations)
    first = observations[0]
    for observation in observations[1:]:
        for name in first.facts:
            if value(first, name) != value(observation, name):
                yield "%s: %s, under the pool %s" % (name, value(first, name), value(observation, name))


def close(a, b):
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return abs(a - b) <= TOLERANCE * max(abs(a), abs(b), 1e-12)
    return a == b


def equal(check, observations):
    first = observations[0]
    results = [name for name in first.facts if name.startswith("result")]
    if not results:
        yield "it printed no result"
    for observation in observations[1:]:
        for name in results:
            if not close(value(first, name), value(observation, name)):
                yield "%s is %s, under the pool (%s) %s" % (name, value(first, name), observation.run.settings,
                                                            value(observation, name))


def judge(check, observations):
    """(result, problems): "passed", "failed", or "skipped" with the reason as the only problem."""
    first = observations[0]
    if first.result.status == EXIT_SKIP and not first.result.timed_out:
        return "skipped", [first.skip or last_line(first.result.out) or "it gives no reason"]
    problems = [text for observation in observations for text in observation_problems(check, observation)]
    # Other people's packages need not go together. Programs of ours must run.
    is_foreign = check.judge == "equal" and check.program.startswith("python:")
    if is_foreign and first.run.under == "driver" and (first.result.status or first.result.timed_out):
        return "skipped", ["it fails without the library: " + problems[0]]
    if not problems:
        problems = list(globals()[check.judge](check, observations))
    return ("failed" if problems else "passed"), problems


def surprises(observations):
    """Facts that are not what gpupool's design assumes."""
    return [fact for observation in observations for fact in observation.facts.values()
            if "assumed" in fact and fact["assumed"] != fact["value"]]
