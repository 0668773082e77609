#!/usr/bin/env python3
"""Makes what the documents and schemas list of the statistics from format/stats.def.

    make-stats.py            writes the tables of trace/FORMAT.md, tools/html/page/stats.js, and "stats" in
                             trace/snapshot.schema.json; those of the reports: make-reports.py
    make-stats.py --check    fails if they are not what it would write
"""

import os
import re
import sys
import textwrap

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TABLE = "format/stats.def"
DOCUMENT = "trace/FORMAT.md"
SCHEMAS = {"trace/snapshot.schema.json": "uint"}  # type of counters
MODULE = "tools/html/page/stats.js"
DERIVED = ["cache_hit_rate", "efficiency", "fragmentation"]


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def rows(macro, columns):
    """(name, ..., what) of each row of the macro."""
    return re.findall(r'^%s\((\w+), %s"(.*)"\)$' % (macro, columns), read(TABLE), re.M)


GAUGES = rows("GAUGE", r'"(\w+)", "([^"]*)", \w+, ')
COUNTERS = rows("COUNTER", r'"([^"]*)", \w+, ')


def document(text):
    gauges = "".join("| `%s` | %s | %s |\n" % (name, unit, what) for name, unit, _, what in GAUGES)
    counters = "".join("| `%s` | %s |\n" % (name, what) for name, _, what in COUNTERS)
    text = re.sub(r"(?<=\n\| gauge \| unit \| what \|\n\|---\|---\|---\|\n)(\|.*\n)+", lambda _: gauges, text)
    return re.sub(r"(?<=\n\| number \| what \|\n\|---\|---\|\n)(\|.*\n)+", lambda _: counters, text)


def module():
    gauges = "".join("  ['%s', '%s', '%s'],\n" % row[:3] for row in GAUGES)
    counters = "".join("  ['%s', '%s'],\n" % row[:2] for row in COUNTERS)
    return """/** The statistics of a device. scripts/make-stats.py makes this of format/stats.def. */

/** @type {[string, string, string][]} name, unit and label */
export const GAUGES = [
%s];

/** @type {[string, string][]} name and label */
export const COUNTERS = [
%s];
""" % (gauges, counters)


def schema(text, counter):
    properties = ['"%s": {"$ref": "#/$defs/gauge"}' % row[0] for row in GAUGES]
    properties += ['"%s": {"$ref": "#/$defs/%s"}' % (row[0], counter) for row in COUNTERS]
    required = ", ".join('"%s"' % name for name in [row[0] for row in GAUGES + COUNTERS] + DERIVED)
    required = textwrap.fill(required, 120, initial_indent=8 * " ", subsequent_indent=8 * " ")
    return re.sub(
        r'(\n    "stats": \{\n      "type": "object",\n      "properties": \{\n)(?:.*\n)*?'
        r'(        "%s":(?:.*\n)*?      \},\n      "required": \[\n)(?:.*\n)*?(      \],\n)' % DERIVED[0],
        lambda found: found[1] + "".join("        %s,\n" % one for one in properties) + found[2] + required + "\n" + found[3],
        text, count=1)


def main(arguments):
    if arguments not in ([], ["--check"]):
        sys.exit(__doc__)
    made = {DOCUMENT: document(read(DOCUMENT)), MODULE: module(), **{path: schema(read(path), kind) for path, kind in SCHEMAS.items()}}
    stale = [path for path, text in made.items() if not os.path.exists(os.path.join(ROOT, path)) or text != read(path)]
    if arguments and stale:
        return "not what %s says: %s; scripts/make-stats.py writes it" % (TABLE, ", ".join(stale))
    for path in stale:
        with open(os.path.join(ROOT, path), "w", encoding="utf-8") as file:
            file.write(made[path])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
