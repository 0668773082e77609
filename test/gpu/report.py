"""Writes what the check found: gpu-check.json, report.txt, figures.md with all of it, and results.md, a page for
doc/gpu-results/.
"""

import json
import os
import shlex
import sys

import manifest
from page import cell, page

FORMAT = {"format": "gpupool-gpu-check", "version": 1}


def write_atomically(path, text):
    with open(path + ".part", "w") as file:
        file.write(text)
    os.replace(path + ".part", path)


def format_value(fact):
    value = fact["value"]
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, (int, float)):
        return str(value)
    unit = fact.get("unit", "")
    if unit == "ns" and value >= 1000:
        value, unit = value / 1000, "us"
    if unit == "us" and value >= 1000:
        value, unit = value / 1000, "ms"
    if isinstance(value, int) or value >= 1e6:
        number = "{:,.0f}".format(value)
    else:
        number = "{:,.4g}".format(value)
    return (number + " " + unit).strip()


def spread(fact):
    if "min" not in fact:
        return ""
    least, high = (format_value(dict(fact, value=fact[key])) for key in ("min", "p95"))
    return "least %s, 95%% %s, %d times" % (least, high, fact["samples"])


def counts(outcomes):
    number = {result: sum(o["result"] == result for o in outcomes) for result in ("passed", "failed", "skipped")}
    return "%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % number


def line_of(outcome):
    text = "  %-8s %-30s %s" % (outcome["result"], outcome["name"], outcome["shows"])
    if outcome["runs"]:
        text += " (%.1f s)" % sum(run["seconds"] for run in outcome["runs"])
    return "\n".join([text] + ["             " + problem for problem in outcome["problems"]])


def skipped_lines(outcomes):
    """By reason, which is often the same for many."""
    skipped = [outcome for outcome in outcomes if outcome["result"] == "skipped"]
    for reason in sorted({outcome["problems"][0] for outcome in skipped}):
        yield "  skipped: %s" % reason
        for outcome in skipped:
            if outcome["problems"][0] == reason:
                yield "           %-30s %s" % (outcome["name"], outcome["shows"])


def machine_lines(machine):
    lines = []
    gpu = machine.get("gpu")
    if gpu:
        lines.append("GPU: %s, compute capability %s, %.0f MiB, %d device(s)" %
                     (gpu["name"], gpu["capability"], gpu["memory_bytes"] / 2**20, gpu["devices"]))
        lines.append("CUDA version of the driver: %d%s" % (
            gpu["cuda_version_of_driver"], ", driver " + machine["driver"] if machine.get("driver") else ""))
    else:
        lines.append("GPU: none (%s)" % machine.get("no_gpu", "not looked for"))
    lines.append("Toolkit: %s" % machine.get("toolkit", "none"))
    if machine.get("packages"):
        lines.append("Python: %s" % machine["packages"])
    lines.append("Host: %s, %s processors" % (machine["processor"], machine["processors"]))
    lines.append("gpupool: %s" % machine["revision"])
    return lines


def verdict_lines(verdicts):
    said = set()  # modes build on each other
    for mode, verdict in verdicts.items():
        yield "  %-8s %s" % (mode, verdict["verdict"])
        again = False
        for condition in verdict["conditions"]:
            if condition["met"] is not True and condition["text"] not in said:
                said.add(condition["text"])
                word = "refuted" if condition["met"] is False else "open"
                yield "             %s: %s: %s" % (word, condition["text"], condition["reason"])
            elif condition["met"] is not True:
                again = True
        if again:
            yield "             and what is said above"


def surprise_lines(outcomes):
    for outcome in outcomes:
        for fact in outcome["surprises"]:
            yield "  %s: %s: %s, assumed %s; %s" % (outcome["name"], fact["name"], format_value(fact),
                                                  format_value(dict(fact, value=fact["assumed"])), fact["says"])


def text_report(data):
    outcomes = data["checks"]
    lines = ["gpupool hardware check, %s" % data["date"]] + machine_lines(data["machine"])
    if data["simulated"]:
        lines.append("SIMULATED GPU: this exercises the check itself and says nothing about hardware.")
    if not data["complete"]:
        lines.append("NOT COMPLETE: %s" % data["incomplete_because"])
    for part, title in manifest.PARTS.items():
        own = [outcome for outcome in outcomes if outcome["part"] == part]
        if own:
            lines += ["", "%s: %s" % (title, counts(own))]
            lines += [line_of(outcome) for outcome in own if outcome["result"] != "skipped"]
            lines += skipped_lines(own)
    surprising = list(surprise_lines(outcomes))
    if surprising:
        lines += ["", "Not as the design assumes"] + surprising
    comparisons = [outcome for outcome in outcomes if outcome["comparison"]]
    if comparisons:
        lines += ["", "Without and with the pool"]
        lines += ["  %-20s %s" % (outcome["name"], outcome["comparison"]) for outcome in comparisons]
    if not data["simulated"] and any(outcome["runs"] for outcome in outcomes):
        lines += ["", "Reuse modes on this driver"] + list(verdict_lines(data["verdicts"]))
    return "\n".join(lines + ["", counts(outcomes) + " in %.0f s" % data["seconds"]]) + "\n"


def without_places(text, places):
    """For a page that others read: folders by their role. The JSON has them as they were."""
    for place, name in places.items():
        text = text.replace(place, name)
    return text


# Where things are on the machine at hand, which the JSON has and no reader of the page needs
OF_THE_MACHINE = ("LD_LIBRARY_PATH", "GPUPOOL_OUTPUT", "PYTHONDONTWRITEBYTECODE", "SIMCUDA_STATS")


def command_of(run, places):
    settings = {name: value for name, value in run["environment"].items() if name not in OF_THE_MACHINE}
    if "LD_PRELOAD" in settings:
        settings["LD_PRELOAD"] = os.path.basename(settings["LD_PRELOAD"])
    command = list(run["command"])
    if command[0] == sys.executable:
        command[0] = "python3"
    words = ["%s=%s" % item for item in sorted(settings.items())] + command
    return without_places(" ".join(shlex.quote(word) if "=" not in word else word for word in words), places)


# Of the pool, for each run under it
POOL_FIGURES = (("cache_hit_rate", "share"), ("driver_allocs", ""), ("driver_frees", ""), ("fences", ""),
                ("host_waits", ""), ("num_ooms", ""), ("reserved_bytes.peak", "B"), ("requested_bytes.peak", "B"))


def figures_of(run):
    facts = list(run["facts"])
    if run["stats"] and run["under"] == "pool":
        facts += [{"name": "pool: " + name, "value": run["stats"][name], "unit": unit} for name, unit in POOL_FIGURES
                  if name in run["stats"]]
    return facts


def head_of(data):
    """What both pages begin with: the machine, what passed and what did not, the times without and with the pool."""
    outcomes, places = data["checks"], data["places"]
    lines = ["# %s, %s" % (data["machine"].get("gpu", {}).get("name", "no GPU"), data["date"]), ""]
    lines += ["- " + line for line in machine_lines(data["machine"])]
    ended = "" if data["complete"] else "; not complete: " + data["incomplete_because"]
    lines.append("- Command: `%s`; %s in %.0f s%s" % (without_places(data["command"], places), counts(outcomes),
                                                     data["seconds"], ended))
    lines += ["", "## Reuse modes", "", "| mode | verdict | what is open or refuted |", "|---|---|---|"]
    for mode, verdict in data["verdicts"].items():
        open_ones = ["%s: %s" % (c["text"], c["reason"]) for c in verdict["conditions"] if c["met"] is not True]
        lines.append("| %s | %s | %s |" % (mode, verdict["verdict"], cell("; ".join(open_ones))))
    failed = [outcome for outcome in outcomes if outcome["result"] == "failed"]
    skipped = [outcome for outcome in outcomes if outcome["result"] == "skipped"]
    for title, chosen in (("Failed", failed), ("Skipped", skipped)):
        if chosen:
            lines += ["", "## " + title, ""]
            lines += ["- %s: %s" % (outcome["name"], without_places("; ".join(outcome["problems"]), places))
                      for outcome in chosen]
    surprising = list(surprise_lines(outcomes))
    if surprising:
        lines += ["", "## Not as the design assumes", ""] + ["- " + line.strip() for line in surprising]
    comparisons = [outcome for outcome in outcomes if outcome["comparison"]]
    if comparisons:
        lines += ["", "## Without and with the pool", ""]
        lines += ["- %s: %s" % (outcome["name"], outcome["comparison"]) for outcome in comparisons]
    return lines


def every_figure(data):
    """figures.md: a table for each run, with its command."""
    lines, places = head_of(data) + ["", "## Figures"], data["places"]
    for outcome in data["checks"]:
        for run in outcome["runs"]:
            facts = figures_of(run)
            if not facts:
                continue
            lines += ["", "**%s**, %s, in %.1f s: `%s`" % (outcome["name"], outcome["shows"], run["seconds"],
                                                          command_of(run, places)), "",
                      "| | | |", "|---|---|---|"]
            lines += ["| %s | %s | %s |" % (cell(fact["name"]), cell(format_value(fact)), cell(spread(fact)))
                      for fact in facts]
    return "\n".join(lines) + "\n"


def results(data):
    return page(head_of(data), data["checks"], lambda run: {fact["name"]: format_value(fact) for fact in figures_of(run)})


def write(data, folder):
    """Each file is replaced as a whole, so that an interrupted run leaves the last complete ones."""
    write_atomically(os.path.join(folder, "gpu-check.json"), json.dumps(dict(FORMAT, **data), indent=1) + "\n")
    write_atomically(os.path.join(folder, "report.txt"), text_report(data))
    if not data["simulated"]:
        write_atomically(os.path.join(folder, "figures.md"), every_figure(data))
        write_atomically(os.path.join(folder, "results.md"), results(data))
