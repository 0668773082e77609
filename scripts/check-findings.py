#!/usr/bin/env python3
"""Compares doc/findings.md with the findings that the tool knows: check-findings.py

A finding is the code in a call of gp_findings_say(findings, severity, "code", ...) in tools/; where the code is chosen, each
choice is one. Every code must be in the first cell of a row of the document's table, in backticks, and every row must have
one that the tool says. A test that a row names must be there: `file.py: test_name`, a method of a file under test/, or the
name of a Meson test, `cli-owners`.
"""

import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DOCUMENT = "doc/findings.md"
SAYS = "gp_findings_say("


def third_argument(text, start):
    """The third argument of the call whose bracket is open before start."""
    depth, commas, begin, quoted = 1, 0, start, False
    for at in range(start, len(text)):
        char = text[at]
        if char == '"' and text[at - 1] != "\\":
            quoted = not quoted
        if quoted:
            continue
        depth += {"(": 1, ")": -1}.get(char, 0)
        if depth == 0 or (char == "," and depth == 1):
            commas += 1
            if commas == 3 or depth == 0:
                return text[begin:at]
            begin = at + 1
    return ""


def codes_of(sources):
    """{code: path} of {path: text}; a call whose code is no literal has the code None."""
    found = {}
    for path, text in sources.items():
        for match in re.finditer(re.escape(SAYS), text):
            codes = re.findall(r'"(\w+)"', third_argument(text, match.end()))
            for code in codes or [None]:
                found[code] = path
    return found


def rows_of(document):
    """(codes, tests) of each row of the table whose first cell has a code."""
    for line in document.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
        if line.startswith("|") and len(cells) == 5 and cells[0].startswith("`"):
            yield re.findall(r"`(\w+)`", cells[0]), re.findall(r"`([^`]+)`", cells[4])


def problems_of(sources, document, tests):
    """tests: the texts of all test files by base name, and those of meson.build under the name meson.build."""
    codes, rows = codes_of(sources), list(rows_of(document))
    listed = {code for row, _ in rows for code in row}
    problems = ["%s: the code of a finding is no literal" % codes.pop(None)] if None in codes else []
    problems += ["%s says %s, which %s does not list" % (path, code, DOCUMENT)
                 for code, path in sorted(codes.items()) if code not in listed]
    problems += ["%s lists %s, which the tool does not say" % (DOCUMENT, code) for code in sorted(listed - set(codes))]
    for _, named in rows:
        for test in named:
            file, _, method = test.partition(": ")
            is_there = "def %s(" % method in tests.get(file, "") if method else "'%s'" % test in tests["meson.build"]
            if not is_there:
                problems.append("%s names the test %s, which is not there" % (DOCUMENT, test))
    return problems


def check_itself():
    code = 'void f(void)\n{\n  gp_findings_say(findings, is_bad(a, "x,") ? A : B,\n      %s, 0, "text");\n}\n'
    row = "| `%s` | when | text | remedy | %s |\n"
    tests = {"test_a.py": "    def test_one(self):", "meson.build": "['cli-owners']"}

    def refused(code_text, document):
        return problems_of({"tools/a.c": code_text}, document, tests)

    assert refused(code % '"full"', row % ("full", "")) == []
    assert refused(code % '"full"', "") == ["tools/a.c says full, which %s does not list" % DOCUMENT]
    assert refused(code % 'a ? "full" : "empty"', row % ("full", "")) == [
        "tools/a.c says empty, which %s does not list" % DOCUMENT]
    assert refused(code % "name", "") == ["tools/a.c: the code of a finding is no literal"]
    assert refused("", row % ("full", "")) == ["%s lists full, which the tool does not say" % DOCUMENT]
    assert refused(code % '"full"', row % ("full", "`test_a.py: test_one`, `cli-owners`")) == []
    for name in ("test_a.py: test_two", "test_b.py: test_one", "cli-none"):
        assert refused(code % '"full"', row % ("full", "`%s`" % name)) == [
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
    sources = {path: text for path, text in files_of("tools", ".c").items() if not path.endswith("finding_list.c")}
    tests = {os.path.basename(path): text for path, text in files_of("test", ".py").items()}
    meson = "".join(files_of("test", "meson.build").values())
    # The tests of the command line are named after their parts.
    meson += "".join("'cli-%s'" % part.lower() for part in re.findall(r"'(\w+)'", meson))
    tests["meson.build"] = meson
    problems = problems_of(sources, read(DOCUMENT), tests)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
