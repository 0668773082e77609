#!/usr/bin/env python3
"""Compares doc/findings.md with the findings that the tool knows, the rows of tools/model/findings.def: check-findings.py

Every code must be in the first cell of a row of the document's table, in backticks, and every code there must be one of the
tool's. A row of either kind, a finding or an advice, must be said somewhere in tools/: GP_FINDING(name), GP_ADVICE(name). A
test that a row of the document names must be there: `file.py: test_name`, a method of a file under test/, or the name of a
Meson test, `cli-owners`.
"""

import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DOCUMENT = "doc/findings.md"
TABLE = "tools/model/findings.def"


def codes_of(table):
    """The codes of the table's findings."""
    return set(re.findall(r"^(?:FINDING\(|VARIANT\(\w+, )(\w+),", table, re.M))


def unsaid(table, sources):
    """The rows of the table that no source says."""
    rows = re.findall(r"^(FINDING|VARIANT|ADVICE)\((\w+),", table, re.M)
    names = {("ADVICE" if kind == "ADVICE" else "FINDING", name) for kind, name in rows}
    return sorted(names - set(re.findall(r"\bGP_(FINDING|ADVICE)\((\w+)\)", sources)))


def rows_of(document):
    """(codes, tests) of each row of the table whose first cell has a code."""
    for line in document.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
        if line.startswith("|") and len(cells) == 5 and cells[0].startswith("`"):
            yield re.findall(r"`(\w+)`", cells[0]), re.findall(r"`([^`]+)`", cells[4])


def problems_of(table, sources, document, tests):
    """tests: the texts of all test files by base name, and those of meson.build under the name meson.build."""
    codes, rows = codes_of(table), list(rows_of(document))
    listed = {code for row, _ in rows for code in row}
    problems = ["%s has %s, which %s does not list" % (TABLE, code, DOCUMENT) for code in sorted(codes - listed)]
    problems += ["%s lists %s, which %s does not have" % (DOCUMENT, code, TABLE) for code in sorted(listed - codes)]
    problems += ["%s has %s(%s), which no file of tools/ says" % (TABLE, kind, name) for kind, name in unsaid(table, sources)]
    for _, named in rows:
        for test in named:
            file, _, method = test.partition(": ")
            is_there = "def %s(" % method in tests.get(file, "") if method else "'%s'" % test in tests["meson.build"]
            if not is_there:
                problems.append("%s names the test %s, which is not there" % (DOCUMENT, test))
    return problems


def check_itself():
    table = 'FINDING(full, NOTE,\n    "text")\nVARIANT(fuller, full, NOTE, "text")\nADVICE(full, "text")\n'
    says = "GP_FINDING(full) GP_FINDING(fuller) GP_ADVICE(full)"
    row = "| `%s` | when | text | remedy | %s |\n"
    tests = {"test_a.py": "    def test_one(self):", "meson.build": "['cli-owners']"}
    good = row % ("full", "`test_a.py: test_one`, `cli-owners`")

    assert problems_of(table, says, good, tests) == []
    assert problems_of(table, says, "", tests) == ["%s has full, which %s does not list" % (TABLE, DOCUMENT)]
    assert problems_of("", says, good, tests) == ["%s lists full, which %s does not have" % (DOCUMENT, TABLE)]
    assert problems_of(table, "GP_FINDING(full)", good, tests) == [
        "%s has %s, which no file of tools/ says" % (TABLE, row) for row in ("ADVICE(full)", "FINDING(fuller)")]
    for name in ("test_a.py: test_two", "test_b.py: test_one", "cli-none"):
        assert problems_of(table, says, row % ("full", "`%s`" % name), tests) == [
            "%s names the test %s, which is not there" % (DOCUMENT, name)]


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def files_of(folder, ends):
    """{path: text} of the files below folder whose names end so."""
    found = {}
    for where, _, names in os.walk(os.path.join(ROOT, folder)):
        for name in names:
            if name.endswith(ends):
                path = os.path.relpath(os.path.join(where, name), ROOT)
                found[path] = read(path)
    return found


def main():
    check_itself()
    sources = "".join(files_of("tools", ".c").values())
    tests = {os.path.basename(path): text for path, text in files_of("test", ".py").items()}
    meson = "".join(files_of("test", "meson.build").values())
    # The tests of the command line are named after their parts.
    meson += "".join("'cli-%s'" % part.lower() for part in re.findall(r"'(\w+)'", meson))
    tests["meson.build"] = meson
    problems = problems_of(read(TABLE), sources, read(DOCUMENT), tests)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
