#!/usr/bin/env python3
"""Makes what documents, schemas and the page list of statistics and events from format/stats.def and format/actions.def.

    make-tables.py            writes the tables of trace/FORMAT.md, tools/html/page/labels.js, and the lists of
                              trace/snapshot.schema.json; those of the reports: make-reports.py
    make-tables.py --check    fails if they are not what it would write
"""

import os
import re
import sys
import textwrap

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
STATS = "format/stats.def"
ACTIONS = "format/actions.def"
DOCUMENT = "trace/FORMAT.md"
SCHEMA = "trace/snapshot.schema.json"
MODULE = "tools/html/page/labels.js"
DERIVED = ["cache_hit_rate", "efficiency", "fragmentation"]


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def rows(table, macro, columns):
    """What the groups of columns match in each row of the macro."""
    return re.findall(r"^%s\(%s\)$" % (macro, columns), read(table), re.M)


GAUGES = rows(STATS, "GAUGE", r'(\w+), "(\w+)", "([^"]*)", \w+, "(.*)"')
COUNTERS = rows(STATS, "COUNTER", r'(\w+), "([^"]*)", \w+, "(.*)"')
EVENTS = rows(ACTIONS, "ACTION", r'\w+, "(\w+)", "[^"]*", (?:0|\'\w\'), "([^"]*)", "(.*)"')  # name, mark, what
MARKS = [(name, mark) for name, mark, _ in EVENTS if mark]


def document(text):
    gauges = "".join("| `%s` | %s | %s |\n" % (name, unit, what) for name, unit, _, what in GAUGES)
    counters = "".join("| `%s` | %s |\n" % (name, what) for name, _, what in COUNTERS)
    actions = "".join("| `%s` | %s |\n" % (name, what) for name, _, what in EVENTS)
    text = re.sub(r"(?<=\n\| action \| meaning \|\n\|---\|---\|\n)(\|.*\n)+", lambda _: actions, text)
    text = re.sub(r"(?<=\n\| gauge \| unit \| what \|\n\|---\|---\|---\|\n)(\|.*\n)+", lambda _: gauges, text)
    return re.sub(r"(?<=\n\| number \| what \|\n\|---\|---\|\n)(\|.*\n)+", lambda _: counters, text)


def module():
    gauges = "".join("  ['%s', '%s', '%s'],\n" % row[:3] for row in GAUGES)
    counters = "".join("  ['%s', '%s'],\n" % row[:2] for row in COUNTERS)
    marks = "".join("  %s: '%s',\n" % row for row in MARKS)
    return """/** The statistics of a device, and the events that are marks. scripts/make-tables.py makes this of the tables in format. */

/** @type {[string, string, string][]} name, unit and label */
export const GAUGES = [
%s];

/** @type {[string, string][]} name and label */
export const COUNTERS = [
%s];

/** @type {Record<string, string>} what a mark says, by the name of the event */
export const EVENT_MARKS = {
%s};
""" % (gauges, counters, marks)


def quoted(names):
    return ", ".join('"%s"' % name for name in names)


def lines(names, indent):
    return textwrap.fill(quoted(names), 120, initial_indent=indent * " ", subsequent_indent=indent * " ") + "\n"


def schema(text):
    text = re.sub(r'(\n        "actions": \{\n          "type": "array",\n          "items": \{\n            "enum": \[\n)(?:.*\n)*?( +\]\n)',
                  lambda found: found[1] + lines([row[0] for row in EVENTS], 14) + found[2], text, count=1)
    text = re.sub(r'(\n        "action": .*"maximum": )\d+', lambda found: found[1] + str(len(EVENTS) - 1), text, count=1)
    properties = ['"%s": {"$ref": "#/$defs/gauge"}' % row[0] for row in GAUGES]
    properties += ['"%s": {"$ref": "#/$defs/uint"}' % row[0] for row in COUNTERS]
    required = lines([row[0] for row in GAUGES + COUNTERS] + DERIVED, 8)
    return re.sub(
        r'(\n    "stats": \{\n      "type": "object",\n      "properties": \{\n)(?:.*\n)*?'
        r'(        "%s":(?:.*\n)*?      \},\n      "required": \[\n)(?:.*\n)*?(      \],\n)' % DERIVED[0],
        lambda found: found[1] + "".join("        %s,\n" % one for one in properties) + found[2] + required + found[3],
        text, count=1)


def main(arguments):
    if arguments not in ([], ["--check"]):
        sys.exit(__doc__)
    made = {DOCUMENT: document(read(DOCUMENT)), MODULE: module(), SCHEMA: schema(read(SCHEMA))}
    stale = [path for path, text in made.items() if not os.path.exists(os.path.join(ROOT, path)) or text != read(path)]
    if arguments and stale:
        return "not what %s and %s say: %s; scripts/make-tables.py writes it" % (STATS, ACTIONS, ", ".join(stale))
    for path in stale:
        with open(os.path.join(ROOT, path), "w", encoding="utf-8") as file:
            file.write(made[path])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
