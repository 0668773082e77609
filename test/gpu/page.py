"""The figures of results.md, a page for doc/gpu-results/, with facts of one kind in one line."""

import re
from collections import Counter

MOST_LINES = 300  # of the page
SPREAD = "A time is the median. `figures.md` of the same run has the spread, and the command of each run."
POOL = "pool: "  # begins the names of the figures that are the library's
# What the names of facts of one kind differ by: a number with its unit, or their end
NUMBER = re.compile(r"\d[\d,.]*( ?[KMG]i?B\b| B\b)?")
ENDS = (re.compile(r": (.*)$"), re.compile(r", (.*)$"), re.compile(r",? (idle|beside a kernel .*)$"))


def cell(text):
    return str(text).replace("|", "\\|").replace("\n", " ")


def table(heads, rows):
    lines = ["| %s |" % " | ".join(map(cell, row)) for row in [heads] + rows]
    return lines[:1] + ["|---" * len(heads) + "|"] + lines[1:]


def readings(name):
    """(kind, which of the kind), in each way that the name can be read."""
    yield name, ""
    for found in NUMBER.finditer(name):
        yield name[:found.start()] + "..." + name[found.end():], found.group()
    for end in ENDS:
        found = end.search(name)
        if found:
            yield name[:found.start()], found.group(1)


def by_kind(names):
    """{kind: [(name, which of the kind)]}. A name is read in the way that gives it most company; without, it is a kind."""
    company = Counter(kind for name in names for kind in dict(readings(name)))
    kinds = {}
    for name in names:
        kind, which = max(readings(name), key=lambda reading: company[reading[0]])
        kinds.setdefault(kind, []).append((name, which))
    return {kind if len(members) > 1 else members[0][0]: members if len(members) > 1 else [(members[0][0], "")]
            for kind, members in kinds.items()}


def joined(pairs):
    """(which, value) pairs as a text, in which each value is once."""
    by_value = {}
    for which, value in pairs:
        by_value.setdefault(value, []).append(which)
    return "; ".join(value if some == [""] else "%s: %s" % (", ".join(which or "itself" for which in some), value)
                     for value, some in by_value.items())


def rows_of(columns):
    """columns: {name: value} of each run. A row is a kind of facts and what each run found; kinds that found the same share it.

    Where there is one run, all facts without company are one row.
    """
    alone, by_cells = [], {}
    for kind, members in by_kind(dict.fromkeys(name for column in columns for name in column)).items():
        if len(columns) == 1 and len(members) == 1:
            alone.append((kind, columns[0][kind]))
            continue
        cells = tuple(joined((which, column[name]) for name, which in members if name in column) for column in columns)
        by_cells.setdefault(cells, []).append(kind)
    return ([["", joined(alone)]] if alone else []) + [["; ".join(some)] + list(cells) for cells, some in by_cells.items()]


def run_name(run):
    settings = ["%s=%s" % (name[len("GPUPOOL_"):], value) for name, value in sorted(run["environment"].items())
                if name.startswith("GPUPOOL_") and name != "GPUPOOL_OUTPUT"]
    return " ".join([run["under"]] + settings)


def questions(outcomes, figures):
    """The answers in one table, and a table for each question whose runs differ."""
    answers, compared = [], []
    for outcome in outcomes:
        runs = [run for run in outcome["runs"] if figures(run)]
        columns = [figures(run) for run in runs]
        facts = [{name: value for name, value in column.items() if not name.startswith(POOL)} for column in columns]
        title = "%s: %s" % (outcome["name"], outcome["shows"])
        if len(runs) > 1 and facts.count(facts[0]) == len(facts):
            title, columns = "%s (%d runs, no difference)" % (title, len(runs)), facts[:1]
        if len(columns) > 1:
            compared += ["", title, ""] + table([""] + [run_name(run) for run in runs], rows_of(columns))
        elif columns:
            rows = rows_of(columns)
            answers += [[title if row is rows[0] else ""] + row for row in rows]
    return (["", "## Questions", "", SPREAD, ""] + table(["question", "", "answer"], answers) if answers else []) + compared


def others(outcomes, figures):
    """A row for each run of the other checks, but for those that the head of the page compares."""
    rows = []
    for outcome in outcomes:
        for run in outcome["runs"] if not outcome["comparison"] else []:
            found = list(figures(run).items())
            if found:
                rows.append(["%s: %s" % (outcome["name"], outcome["shows"]), run_name(run),
                             joined(pair for pair in found if not pair[0].startswith(POOL)),
                             ", ".join(name[len(POOL):] + " " + value for name, value in found if name.startswith(POOL))])
    return ["", "## Programs", ""] + table(["check", "run", "what it found", "the pool"], rows) if rows else []


def page(head, outcomes, figures):
    """figures: of a run, {name: value} as texts."""
    lines = head + questions([outcome for outcome in outcomes if outcome["part"] == "question"], figures)
    lines += others([outcome for outcome in outcomes if outcome["part"] != "question"], figures)
    if len(lines) > MOST_LINES:
        left_out = len(lines) - MOST_LINES + 2
        lines = lines[:MOST_LINES - 2] + ["", "%d lines more did not fit: `figures.md` has all." % left_out]
    return "\n".join(lines) + "\n"
