#!/usr/bin/env python3
"""Holds each room to its budget of lines in scripts/size.txt: check-size.py [--table]

Counts the lines of the tracked files that are neither empty nor comment, much as cloc does. Above a budget it fails, and
names the files that have grown since scripts/size.txt was last changed. A commit that raises a budget says in its body
what users get for the lines. --table prints the count of each room, and changes nothing.
"""

import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUDGETS = os.path.join("scripts", "size.txt")
C_LIKE = (".c", ".h", ".def", ".S", ".js", ".ts", ".css")
HASH = (".py", ".sh", "meson.build")
# A comment, or a string that may look as if one began in it.
C_TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def count(path, text):
    """Lines of code in the text of a file with that name."""
    if path.endswith(C_LIKE):
        text = C_TOKEN.sub(lambda found: "" if found[0][0] == "/" else "x", text)
    lines = [line.strip() for line in text.splitlines()]
    return sum(1 for line in lines if line and not (path.endswith(HASH) and line.startswith("#")))


def git(*arguments):
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL).stdout.decode(errors="replace")


def files(room):
    """path -> text, of the tracked files of a room."""
    found = {}
    for path in git("ls-files", "-z", "--", room).split("\0"):
        if path and os.path.isfile(os.path.join(ROOT, path)):
            with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as file:
                found[path] = file.read()
    return found


def lines_before(path, revision):
    try:
        return count(path, git("show", "%s:%s" % (revision, path)))
    except subprocess.CalledProcessError:
        return 0  # new


def grown(counts):
    """(lines more, path) of the files that have grown since the budgets were last changed, most first."""
    revision = git("log", "-1", "--format=%H", "--", BUDGETS).strip()
    more = [(now - lines_before(path, revision), path) for path, now in counts.items()] if revision else []
    return sorted([each for each in more if each[0] > 0], reverse=True)


def main(arguments):
    if arguments not in ([], ["--table"]):
        sys.exit(__doc__)
    try:
        git("rev-parse", "--git-dir")
    except (OSError, subprocess.CalledProcessError) as error:
        print("%s: which files are the project's is not known"
              % ("git is not installed" if isinstance(error, OSError) else "not a git checkout"))
        return 77
    problems = 0
    with open(os.path.join(ROOT, BUDGETS), encoding="utf-8") as file:
        budgets = [line.split() for line in file if line.strip() and not line.startswith("#")]
    for room, budget in budgets:
        counts = {path: count(path, text) for path, text in files(room).items()}
        total = sum(counts.values())
        if arguments:
            print("%-10s %6d of %6s" % (room, total, budget))
        elif total > int(budget):
            problems += 1
            print("%s/ has %d lines, %d more than its budget in %s" % (room, total, total - int(budget), BUDGETS))
            for more, path in grown(counts):
                print("  %+5d %s" % (more, path))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
