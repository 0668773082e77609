#!/usr/bin/env python3
"""What tuning gives, as the tables of doc/tune.md.

    scripts/tune-table.py BUILD [TRACE ...]

Without traces: those that the build has made, and others where a folder ../shared/traces has some. No GPU is needed.
"""

import glob
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def tool(build, *arguments):
    result = subprocess.run([os.path.join(build, "tools", "gpupool"), *arguments], check=True, stdout=subprocess.PIPE,
                            universal_newlines=True)
    return json.loads(result.stdout)


def arguments_of(settings):
    return [part for name, value in settings.items()
            for part in ("--" + name[len("GPUPOOL_"):].lower().replace("_", "-"), value)]


def held(build, settings, path):
    """Held over live, and calls, of settings on a trace."""
    recording, = tool(build, "replay", "--json", *arguments_of(settings), path)["recordings"]
    cold = recording["results"][0]["cold"]
    return cold["devices"][0]["held_peak"] / cold["devices"][0]["live_peak"], cold["call_count"], cold["devices"][0]["refused"]


def cell(score):
    return "%.2f, %d, %.1f ms" % (score["ratio"], score["calls"], score["cost_ns"] / 1e6)


def line_of(settings):
    return " ".join("`%s=%s`" % (name[len("GPUPOOL_"):], value) for name, value in settings.items())


def show_each(build, paths):
    print("| trace | default | `tune` | all settings tried | tried | settings |\n|---|---|---|---|---|---|")
    found = {}
    for path in paths:
        some = found[path] = tool(build, "tune", "--json", path)
        every = tool(build, "tune", "--json", "--exhaustive", path)
        print("| %s | %s | %s | %s | %d of %d | %s |" % (
            os.path.basename(path)[:-4], cell(some["default"]), cell(some["best"]), cell(every["best"]),
            some["tried"], some["candidates"], line_of(some["settings"])))
    return found


def show_pairs(build, paths, found):
    print("\n| tuned on, used on | " + " | ".join(os.path.basename(path)[:-4] for path in paths) + " |")
    print("|---" * (len(paths) + 1) + "|")
    for tuned in paths:
        cells = []
        for used in paths:
            ratio, calls, refused = held(build, found[tuned]["settings"], used)
            cells.append("%.2f, %d%s" % (ratio, calls, "!" if refused else ""))
        print("| %s | %s |" % (os.path.basename(tuned)[:-4], " | ".join(cells)))


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    build, paths = sys.argv[1], sys.argv[2:]
    if not paths:
        paths = sorted(glob.glob(os.path.join(build, "test", "workloads", "*.csv")) +
                       glob.glob(os.path.join(ROOT, "..", "shared", "traces", "*.csv")))
    found = show_each(build, paths)
    show_pairs(build, paths, found)
    all_ = tool(build, "tune", "--json", *paths)
    print("\nAll together: %s; default %s, tuned %s" % (
        line_of(all_["settings"]), cell(all_["default"]), cell(all_["best"])))


if __name__ == "__main__":
    main()
