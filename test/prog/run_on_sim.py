#!/usr/bin/env python3
"""Runs a program on the simulated GPU, without gpupool, and judges it.

    run_on_sim.py [--status N] [--says TEXT]... [--never PATTERN]... [--set NAME=VALUE]... -- PROGRAM ARGS

The program must end with status N (0), print every TEXT of --says and nothing that matches a PATTERN of --never, and
the simulator must have seen no access that the program was not entitled to. A program that fails here is itself wrong,
so nothing that it shows under the pool would count.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--status", type=int, default=0)
    parser.add_argument("--says", action="append", default=[])
    parser.add_argument("--never", action="append", default=[])
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()

    env = dict(os.environ)
    env.update(item.split("=", 1) for item in options.set)
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        env["SIMCUDA_STATS"] = os.path.join(folder, "stats.json")
        result = subprocess.run(options.command, env=env, stdout=subprocess.PIPE, universal_newlines=True)
        sys.stdout.write(result.stdout)
        if result.returncode != options.status:
            problems.append("status %d instead of %d" % (result.returncode, options.status))
        problems += ["does not say: " + text for text in options.says if text not in result.stdout]
        problems += ["says: " + text for text in options.never if re.search(text, result.stdout)]
        if os.path.exists(env["SIMCUDA_STATS"]):  # not written by a program that leaves without exit handlers
            with open(env["SIMCUDA_STATS"]) as file:
                stats = json.load(file)
            problems += ["%s: %s" % (name, stats[name]) for name in ("violations", "corrupt_stamps") if stats[name]]
    for problem in problems:
        sys.stderr.write("run_on_sim.py: %s\n" % problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
