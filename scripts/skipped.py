#!/usr/bin/env python3
"""Prints the tests that the last run of a build folder skipped, and why: skipped.py BUILD

Meson shows their exit status. Each of these tests says in its last line why it was skipped."""

import glob
import json
import os
import sys


def main():
    logs = glob.glob(os.path.join(sys.argv[1], "meson-logs", "testlog*.json"))
    with open(max(logs, key=os.path.getmtime), encoding="utf-8") as file:
        tests = [json.loads(line) for line in file]
    for test in tests:
        if test["result"] != "SKIP":
            continue
        said = (test.get("stdout", "") + test.get("stderr", "")).strip().splitlines()
        why = said[-1].replace("skipped: ", "", 1) if said else "it does not say why"
        print("skipped: %s: %s" % (test["name"].split(" / ")[-1], why))


if __name__ == "__main__":
    main()
