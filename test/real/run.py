#!/usr/bin/env python3
"""Runs real programs on the simulated GPU, without the library and under each type of it, and says what differs.

    real-programs.sh (--folder FOLDER | --here) [--build BUILD] [--checkout NAME=PATH]... [--table FILE] [NAME...]
    real-programs.sh --list

NAME: programs of test/real/programs, without one all. FOLDER gets a Debian with what they need, once: it takes root,
debootstrap and a network; MIRROR names a mirror of Debian, RELEASE another release than trixie. A checkout is never written to.

A run is as the plain one if output, exit status and declared files are the same, the simulator has found no wrong access, and the
snapshot has the allocations and frees of the simulator's log. Status 1: a run differs without a declared reason; 77: none ran.
"""

import argparse
import os
import subprocess
import sys
import tempfile

import program
import table
from judge import Run, Verdict, say_status
from place import ROOT, Chroot, Place
from program import Missing
from variants import PLAIN, PRELOADED, environment


def options():
    parser = argparse.ArgumentParser(prog="real-programs.sh", description=__doc__.split("\n\n", 1)[0],
                                     epilog=__doc__.split("\n\n", 2)[2], formatter_class=argparse.RawDescriptionHelpFormatter)
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--folder", help="where the Debian is, or is made (some GB)")
    place.add_argument("--here", action="store_true", help="run with the packages of this machine, and install nothing")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="a build of gpupool with its tests (build)")
    parser.add_argument("--checkout", action="append", default=[], metavar="NAME=PATH", help="sources of a program that needs them")
    parser.add_argument("--table", metavar="FILE", help="write the rows into the table of FILE (doc/programs.md)")
    parser.add_argument("--variants", help="some of: %s" % " ".join(PRELOADED))
    parser.add_argument("--match", default="", metavar="TEXT", help="only cases whose label has TEXT")
    parser.add_argument("--plant", action="append", default=[], metavar="NAME=VALUE",
                        help="set in preloaded runs only: a mistake, to see a row turn red")
    parser.add_argument("--list", action="store_true", help="print the programs, and what each needs")
    parser.add_argument("names", nargs="*", metavar="NAME")
    chosen = parser.parse_args()

    known = program.names()
    for name in chosen.names:
        if name not in known:
            parser.error('there is no program "%s"; there are: %s' % (name, " ".join(known)))
    for option in ("checkout", "plant"):
        for text in getattr(chosen, option):
            if "=" not in text or text.startswith("="):
                parser.error('--%s "%s": NAME=%s would be right' % (option, text, "PATH" if option == "checkout" else "VALUE"))
        setattr(chosen, option, dict(text.split("=", 1) for text in getattr(chosen, option)))
    for name, path in chosen.checkout.items():
        if name not in known or not program.load(name).checkout:
            parser.error('--checkout "%s": %s' % (name, "programs with a checkout are: " + " ".join(
                known_name for known_name in known if program.load(known_name).checkout)))
        if not os.path.isdir(path):
            parser.error("--checkout %s: %s is no folder" % (name, path))
    chosen.variants = chosen.variants.split(",") if chosen.variants else list(PRELOADED)
    for variant in chosen.variants:
        if variant not in PRELOADED:
            parser.error('there is no variant "%s"; there are: %s' % (variant, " ".join(PRELOADED)))
    if not os.path.isdir(chosen.build) and not chosen.list:
        parser.error("--build %s: there is no such folder; scripts/test.sh makes build" % chosen.build)
    if chosen.table:
        with open(chosen.table) as file:
            if table.BEGIN not in file.read():
                parser.error('--table %s: it has no line "%s"' % (chosen.table, table.BEGIN))
    if not (chosen.folder or chosen.here or chosen.list):
        parser.error("where? --folder FOLDER, in which a Debian is made, or --here")
    chosen.names = chosen.names or known
    return chosen


def print_list():
    for name in program.names():
        one = program.load(name)
        needs = " ".join(one.packages + one.unpacked) or "nothing"
        print("%-20s %s: %s%s" % (name, one.title, needs, ", a checkout of %s" % one.checkout if one.checkout else ""))


def say(label, variant, run, what):
    print("%-40s %-9s %6.1f s, %-24s %s" % (label, variant, run.seconds, run.figures(), what), flush=True)


def run_case(place, chosen, name, one, case, row):
    """Whether it is as without the library, or its difference is declared."""
    folder = "%s/runs/%s/%s" % (place.home, name, "".join(c if c.isalnum() else "-" for c in case.label))
    good = True
    base = dict(one.environment, **case.environment)
    plain = Run(place, case, folder + "/" + PLAIN, base)
    row.cases += 1
    row.seconds += plain.seconds
    say(case.label, PLAIN, plain, say_status(plain.status))
    row.remark(plain.status != 0 and "%s in all runs" % say_status(plain.status), case.label)
    row.remark(case.varies and "its allocations vary: " + case.varies, case.label)
    row.remark(case.no_account and "allocations are not counted: " + case.no_account, case.label)
    for variant in chosen.variants:
        settings = environment(variant, case.limit or one.limit, place.library, chosen.plant)
        if "LD_PRELOAD" in base and "LD_PRELOAD" in settings:
            settings["LD_PRELOAD"] += ":" + base["LD_PRELOAD"]
        run = Run(place, case, folder + "/" + variant, dict(base, **settings))
        verdict = Verdict(case, variant, plain, run)
        row.seconds += run.seconds
        row.ran.add(variant)
        row.same[variant] += verdict.word == "same"
        row.remark(verdict.differences and (verdict.reason or verdict.differences[0]), "%s, %s" % (case.label, variant))
        say(case.label, variant, run, verdict.word + "".join("\n    " + text for text in verdict.differences))
        if not verdict.failed:
            run.forget()
        good = good and not verdict.failed
    plain.forget()
    return good


def run_program(place, chosen, name):
    """The row, or None where it cannot run, and whether nothing unexplained differs."""
    one = program.load(name)
    print("== %s" % one.title, flush=True)
    try:
        place.install(one.packages)
        place.unpack(one.unpacked)
        if one.checkout:
            place.checkout(name)
        if one.prepare:
            one.prepare(place)
        cases = one.cases(place) if callable(one.cases) else one.cases
    except Missing as why:
        print("not run: %s" % why, flush=True)
        return None, True
    command = one.version(place) if callable(one.version) else one.version
    version = place.run(command, environment=one.environment, folder="/", err=subprocess.DEVNULL)[1].strip().splitlines() or ["?"]
    row = table.Row(name, one, version[0])
    results = [run_case(place, chosen, name, one, case, row) for case in cases if chosen.match in case.label]
    return row, all(results)


def main():
    chosen = options()
    if chosen.list:
        print_list()
        return 0
    with tempfile.TemporaryDirectory(prefix="gpupool-programs-") as temporary:
        if chosen.here:
            place = Place(temporary, chosen.build, chosen.checkout)
        else:
            place = Chroot(chosen.folder, chosen.build, chosen.checkout)
            place.make()
        place.copy_files()
        results = {name: run_program(place, chosen, name) for name in chosen.names}
    rows = [row for row, _ in results.values() if row]
    if chosen.table:
        table.write(chosen.table, rows)
    for row in rows:
        print(table.line(row.cells()))
    failed = [name for name, (_, good) in results.items() if not good]
    if failed:
        print("real-programs.sh: differs without a declared reason: %s" % " ".join(failed), file=sys.stderr)
    return 1 if failed else 0 if rows else 77


if __name__ == "__main__":
    sys.exit(main())
