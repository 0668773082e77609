#!/usr/bin/env python3
"""Makes the table of doc/findings.md from tools/model/findings.def.

    make-findings.py            writes it, below the text that the page begins with
    make-findings.py --check    fails if it is not what it would write, or the findings are not in order

Each finding has a row: WHEN(condition, remedy, tests). A row of either kind, a finding or an advice, is said somewhere in
tools/: GP_FINDING(name), GP_ADVICE(name). A test that WHEN names is there: `file.py: test_name`, a method of a file under
test/, or the name of a Meson test, `cli-owners`.
"""

import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DOCUMENT = "doc/findings.md"
TABLE = "tools/model/findings.def"
HEADING = "| code | text | condition | remedy or hint | applied by |\n|---|---|---|---|---|\n"
STRING = r'"((?:[^"\\]|\\.)*)"'
ROW = re.compile(r'^(?:FINDING\((\w+), \w+,\s*%s\)|VARIANT\(\w+, (\w+),|WHEN\(%s, %s, %s\))' % ((STRING,) * 4), re.M)


def plain(text):
    return text.replace('\\"', '"').replace("\\\\", "\\").replace("|", "\\|")


def rows_of(table):
    """(code, sentence, condition, remedy, tests) of each WHEN; the sentence is of the first one of a code."""
    code, sentence = None, ""
    for finding, text, variant, condition, remedy, tests in ROW.findall(table):
        if finding:
            code, sentence = finding, re.sub(r"%[-.0-9]*[a-z]+", "...", plain(text))
        elif not variant:
            yield code, sentence, plain(condition), plain(remedy), tests
            sentence = ""


def table_of(rows):
    return HEADING + "".join("| `%s` | %s | %s | %s | %s |\n" % row for row in rows).replace("|  |", "| |")


def codes_of(table):
    """The codes of the table's findings."""
    return set(re.findall(r"^(?:FINDING\(|VARIANT\(\w+, )(\w+),", table, re.M))


def unsaid(table, sources):
    """The rows of the table that no source says."""
    rows = re.findall(r"^(FINDING|VARIANT|ADVICE)\((\w+),", table, re.M)
    names = {("ADVICE" if kind == "ADVICE" else "FINDING", name) for kind, name in rows}
    return sorted(names - set(re.findall(r"\bGP_(FINDING|ADVICE)\((\w+)\)", sources)))


def problems_of(table, sources, tests):
    """tests: the texts of all test files by base name, and those of meson.build under the name meson.build."""
    rows = list(rows_of(table))
    problems = ["%s has %s without WHEN" % (TABLE, code) for code in sorted(codes_of(table) - {row[0] for row in rows})]
    problems += ["%s has %s(%s), which no file of tools/ says" % (TABLE, kind, name) for kind, name in unsaid(table, sources)]
    for row in rows:
        for test in re.findall(r"`([^`]+)`", row[4]):
            file, _, method = test.partition(": ")
            is_there = "def %s(" % method in tests.get(file, "") if method else "'%s'" % test in tests["meson.build"]
            if not is_there:
                problems.append("%s names the test %s, which is not there" % (TABLE, test))
    return problems


def check_itself():
    table = 'FINDING(full, NOTE,\n    "%s is full")\nVARIANT(fuller, full, NOTE, "text")\nADVICE(full, "text")\n'
    says = "GP_FINDING(full) GP_FINDING(fuller) GP_ADVICE(full)"
    row = 'WHEN("a \\"b\\" | c", "none", "%s")\n'
    tests = {"test_a.py": "    def test_one(self):", "meson.build": "['cli-owners']"}
    good = table + row % "`test_a.py: test_one`, `cli-owners`" + row % ""

    assert problems_of(good, says, tests) == []
    assert table_of(rows_of(good)) == HEADING + (
        '| `full` | ... is full | a "b" \\| c | none | `test_a.py: test_one`, `cli-owners` |\n| `full` | | a "b" \\| c | none | |\n')
    assert problems_of(table, says, tests) == ["%s has full without WHEN" % TABLE]
    assert problems_of(good, "GP_FINDING(full)", tests) == [
        "%s has %s, which no file of tools/ says" % (TABLE, row) for row in ("ADVICE(full)", "FINDING(fuller)")]
    for name in ("test_a.py: test_two", "test_b.py: test_one", "cli-none"):
        assert problems_of(table + row % ("`%s`" % name), says, tests) == [
            "%s names the test %s, which is not there" % (TABLE, name)]


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


def main(arguments):
    if arguments not in ([], ["--check"]):
        sys.exit(__doc__)
    check_itself()
    table, document = read(TABLE), read(DOCUMENT)
    written = document[:document.index(HEADING)] + table_of(rows_of(table))
    if not arguments:
        with open(os.path.join(ROOT, DOCUMENT), "w", encoding="utf-8") as file:
            file.write(written)
        return 0
    sources = "".join(files_of("tools", ".c").values())
    tests = {os.path.basename(path): text for path, text in files_of("test", ".py").items()}
    meson = "".join(files_of("test", "meson.build").values())
    # The tests of the command line are named after their parts.
    meson += "".join("'cli-%s'" % part.lower() for part in re.findall(r"'(\w+)'", meson))
    tests["meson.build"] = meson
    problems = problems_of(table, sources, tests)
    if written != document:
        problems.append("%s is not what %s says; scripts/make-findings.py writes it" % (DOCUMENT, TABLE))
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
