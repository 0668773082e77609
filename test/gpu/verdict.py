"""May GPUPOOL_REUSE be strict or context on this driver? From the facts and results of the checks.

A condition is met (True), refuted (False) or not decided (None), with its reason. A mode is as good as its worst
condition.
"""

from collections import namedtuple

Condition = namedtuple("Condition", "text met reason")


class Evidence:
    """Facts and results by the name of the check."""

    def __init__(self, outcomes):
        self.outcomes = {outcome["name"]: outcome for outcome in outcomes}

    def facts(self, name):
        outcome = self.outcomes.get(name)
        return {} if not outcome or outcome["result"] == "failed" else {
            fact["name"]: fact for run in outcome["runs"] for fact in run["facts"]}

    def passed(self, text, *names):
        missing = []
        for name in names:
            outcome = self.outcomes.get(name, {"result": "not run", "problems": []})
            if outcome["result"] == "failed":
                return Condition(text, False, "%s failed: %s" % (name, outcome["problems"][0]))
            if outcome["result"] != "passed":
                missing.append(name)
        return Condition(text, None, "not run: " + ", ".join(missing)) if missing else Condition(text, True, "")

    def assumptions(self, text, names, prefix=""):
        """All facts of these checks that begin so and carry an assumption are as assumed, and there are some."""
        wrong, missing = [], []
        for name in names:
            found = [fact for fact in self.facts(name).values()
                     if "assumed" in fact and fact["name"].startswith(prefix)]
            wrong += [fact["name"] for fact in found if fact["value"] != fact["assumed"]]
            if not found:
                missing.append(name)
        if wrong:
            return Condition(text, False, "not as assumed: " + ", ".join(wrong))
        return Condition(text, None, "not known: " + ", ".join(missing)) if missing else Condition(text, True, "")


def decide(outcomes):
    """{mode: {"verdict", "conditions"}}; verdict is "conditions met", "conditions not met" or "not decided"."""
    evidence = Evidence(outcomes)
    calls = ("G3-runtime-calls", "G3-runtime-calls-static")
    seen = evidence.assumptions("the runtime's allocations, frees and resets are seen", calls, "cuda")
    covers = evidence.assumptions("synchronizing a context covers all its work", ("G5-waits-sync",),
                                  "cudaDeviceSynchronize covers")
    control = evidence.passed("a pool without rules is caught, the driver alone is not", "integrity-unsafe",
                              "integrity-driver")
    if control.met is False:
        control = control._replace(met=None)  # then intact data says nothing
    fence = [evidence.assumptions("an event of the context waits for every kind of stream", ("G1-coverage",), "covers"),
             evidence.assumptions("and completes when they have", ("G1-coverage",), "completes after")]
    modes = {
        "strict": [seen, covers, control, evidence.passed("data is intact", "integrity-strict")],
        "context": [seen, covers] + fence + [
            control, evidence.passed("data is intact", "integrity-context", "integrity-auto", "integrity-deferred",
                                     "integrity-many", "integrity-per-thread")],
    }
    verdicts = {}
    for mode, conditions in modes.items():
        met = [condition.met for condition in conditions]
        text = "conditions not met" if False in met else "not decided" if None in met else "conditions met"
        verdicts[mode] = {"verdict": text, "conditions": [condition._asdict() for condition in conditions]}
    return verdicts
