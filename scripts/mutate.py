#!/usr/bin/env python3
"""Breaks one line of the library or the tool at a time and sees whether a test notices.

    scripts/mutate.py --seed S --count N [--folder FOLDER] [--kind KIND] [--workers W]
    scripts/mutate.py --every --kind lock [--folder FOLDER]     not drawn: each edit of the kind
    scripts/mutate.py --again [--commit REV]   what an earlier commit missed, here
    scripts/mutate.py --sanitize address|thread   what this commit missed, with the sanitizer of .ci/run
    scripts/mutate.py --table [--commit REV]   its results by folder and kind, and what was missed
    scripts/mutate.py --seeds [--only PATTERN]   not drawn: the edits of mutate-seeds.json (seeds.py)

Each edit is drawn by the seed and its number: a file of the product weighted by its lines, a function
of it, one of the kinds in mutations.py. It is built in a copy of the tree (edited_tree.py) with every assert;
then the quick tests that pass the line (reach.py) run in growing cost until one is red. An edit that does not compile is
drawn again; one that compiles to the same code is set aside as equivalent, others only by a reason in mutate-aside.json,
which the next run takes in.

Results are lines of JSON in --results, one an edit: what is there for the commit, the seed and the number is not run
again, so that a run may be interrupted. The last line is "N of M noticed". doc/mutations.md has the results.
"""

import argparse
import glob
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(HERE)
sys.path.insert(0, HERE)
import mutations  # noqa: E402
import seeds  # noqa: E402
from edited_tree import Problem, copy_tree  # noqa: E402
from reach import Reach  # noqa: E402
from trial import EQUIVALENT, MISSED, NOTICED, SANITIZERS, Suite  # noqa: E402

FOLDERS = ("base", "format", "pool", "trace", "interpose", "tools")
ASIDE = "set aside"
DRAWS = 100


def name_of(revision):
    return subprocess.check_output(["git", "rev-parse", "--short=10", revision], cwd=SOURCE, text=True).strip()


def commit():
    """Of the tree as it is in these folders, which must be that of a commit."""
    changed = subprocess.check_output(["git", "status", "--porcelain", "-uno", "--", *FOLDERS], cwd=SOURCE, text=True)
    if changed:
        raise Problem("edits on top of a commit do not count for it:\n" + changed)
    return name_of("HEAD")


def sources(tree, folder):
    paths = {}
    for name in [folder] if folder else FOLDERS:
        for path in glob.glob(os.path.join(tree, name, "**", "*.c"), recursive=True):
            with open(path, encoding="utf-8") as file:
                paths[os.path.relpath(path, tree)] = file.read()
    return paths


def read_lines(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def read_aside():
    with open(os.path.join(HERE, "mutate-aside.json"), encoding="utf-8") as file:
        return json.load(file)


def judged(result, aside):
    """The result with a reason that mutate-aside.json has gained since."""
    for entry in aside:
        if result["result"] == MISSED and all(result[key] == entry[key] for key in ("file", "function", "before", "after")):
            return dict(result, result=ASIDE, reason=entry["reason"])
    return result


def drawn(files, seed, number, wanted, kind):
    """Edits in the order in which they are tried until one compiles."""
    generator = random.Random("%d:%d:%s" % (seed, number, wanted))
    for _ in range(DRAWS):
        path, function, edit = mutations.draw(generator, files)
        if not kind or edit.kind == kind:
            yield path, function, edit


def every(files, kind):
    for path in sorted(files):
        mask = mutations.masked(files[path])
        for function in mutations.functions(files[path]):
            for edit in mutations.edits(files[path], function, kind, mask):
                yield path, function, edit


def missed_before(files, results):
    """The same edits in the files as they are now; what is no longer there is left out, and said."""
    for result in results:
        text = files.get(result["file"], "")
        found = [(result["file"], function, edit) for function in mutations.functions(text)
                 if function.name == result["function"] for edit in mutations.edits(text, function, result["kind"])
                 if mutations.differing(text, edit) == (result["before"], result["after"])]
        if found:
            yield min(found, key=lambda candidate: abs(candidate[2].line - result["line"]))
        else:
            print("no longer there: " + describe(result), flush=True)


def share(results):
    counted = [result for result in results if result["result"] in (NOTICED, MISSED)]
    return sum(result["result"] == NOTICED for result in counted), len(counted)


def row(name, results):
    noticed, whole = share(results)
    least, most = mutations.interval(noticed, whole)
    counts = [sum(result["result"] == which for result in results) for which in (EQUIVALENT, ASIDE)]
    return "| %s | %d of %d | %s | %s | %d | %d | %d |" % (
        name, noticed, whole, "%.0f%%" % (100 * noticed / whole) if whole else "",
        "%.0f to %.0f%%" % (100 * least, 100 * most) if whole else "",
        sum(result["result"] == MISSED and "sanitized" in result for result in results), *counts)


def table(results):
    lines = ["| edits | noticed | share | 95% interval | and by a sanitizer | same code | set aside |", "|---|---|---|---|---|---|---|"]
    lines += [row("`%s`" % folder, [r for r in results if r["file"].startswith(folder + "/")]) for folder in FOLDERS]
    lines += [row(kind, [r for r in results if r["kind"] == kind]) for kind in mutations.KINDS]
    lines.append(row("all", results))
    return "\n".join(lines)


def of_commit(results, at):
    """The drawn ones, each with what a sanitizer said of it."""
    def key(result):
        return tuple(str(result[name]) for name in ("file", "function", "before", "after"))
    results = [judged(result, read_aside()) for result in results if result["commit"] == at]
    sanitized = {key(r): r["by"] for r in results if r["seed"] in SANITIZERS and r["result"] == NOTICED}
    return [dict(r, sanitized=sanitized[key(r)]) if key(r) in sanitized else r for r in results if is_drawn(r)]


def describe(result):
    by = "%s, %d s" % (result["by"], result["seconds"]) if result["by"] else result.get("sanitized") or "%d tests" % result.get("asked", 0)
    return "%-10s %s:%d %s, %s: %s -> %s  %s" % (
        result["result"], result["file"], result["line"], result["function"], result["kind"], " ".join(result["before"])[:100],
        " ".join(result["after"])[:100], by)


def jobs_of(options, results, at):
    """(seed, number, candidates) of what is to be tried, each a list of edits of which the first that compiles counts."""
    files = sources(SOURCE, options.folder)
    if options.again or options.sanitize:
        missed = [r for r in results if r["commit"] == name_of(options.commit) and is_drawn(r) and
                  judged(r, read_aside())["result"] == MISSED and (options.sanitize != "thread" or r["kind"] == "lock")]
        return files, [(options.sanitize or "again", i, [edit]) for i, edit in enumerate(missed_before(files, missed))]
    if options.every:
        return files, [("every", i, [edit]) for i, edit in enumerate(every(files, options.kind))]
    wanted = wanted_of(options)
    return files, [(options.seed, number, drawn(files, options.seed, number, wanted, options.kind))
                   for number in range(options.count)]


def is_drawn(result):
    return isinstance(result["seed"], int)


def wanted_of(options):
    return "%s/%s" % (options.folder or "", options.kind or "")


def work(folder, reach, sanitizer, files, todo, next_one, path, common):
    """One worker: takes jobs until there are none."""
    suite = Suite(folder + ("-" + sanitizer if sanitizer else ""), reach, sanitizer)
    while True:
        with next_one.get_lock():
            at, next_one.value = next_one.value, next_one.value + 1
        if at >= len(todo):
            break
        seed, number, candidates = todo[at]
        for source, function, edit in candidates:
            result = suite.try_edit(source, files[source], function, edit)
            if result:
                break
        else:
            result = {"file": source, "line": edit.line, "function": function.name, "kind": edit.kind, "before": [], "after": [],
                      "result": "does not compile", "by": None, "seconds": 0}
        result.update(common, seed=seed, number=number)
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(result) + "\n")
        print(describe(judged(result, read_aside())), flush=True)


def run(options, path):
    at = commit()
    wanted = wanted_of(options)

    def done():
        return {(r["seed"], r["number"]): r for r in read_lines(path) if r["commit"] == at and r["wanted"] == wanted}

    files, jobs = jobs_of(options, read_lines(path), at)
    todo = [job for job in jobs if job[:2] not in done()]
    if todo:
        tree = os.path.join(options.build, "counted")
        copy_tree(tree)
        reach = Reach(os.path.join(options.build, "reach.json.gz"), tree, tree + "-build")
        next_one = multiprocessing.Value("i", 0)
        workers = [multiprocessing.Process(target=work, args=(os.path.join(options.build, "worker-%d" % i), reach, options.sanitize,
                                                              files, todo, next_one, path, {"commit": at, "wanted": wanted}))
                   for i in range(options.workers)]
        try:
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
        finally:
            for worker in workers:
                worker.terminate()
        if any(worker.exitcode for worker in workers):
            raise Problem("a worker failed")
    results = done()
    print("%d of %d noticed" % share([judged(results[job[:2]], read_aside()) for job in jobs]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--folder", choices=FOLDERS)
    parser.add_argument("--kind", choices=sorted(mutations.KINDS))
    parser.add_argument("--build", metavar="DIR", default=os.path.join(tempfile.gettempdir(), "gpupool-mutate"),
                        help="the copy of the tree and its build, kept for the next run (%(default)s)")
    parser.add_argument("--results", metavar="FILE", help="mutations.jsonl in the folder of --build")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="edits at a time (%(default)s)")
    parser.add_argument("--every", action="store_true")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--sanitize", choices=sorted(SANITIZERS))
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--seeds", action="store_true")
    parser.add_argument("--only", metavar="PATTERN", default="", help="seeds whose guard, test, file or sentence matches")
    parser.add_argument("--commit", metavar="REV", default="HEAD", help="whose results (%(default)s)")
    options = parser.parse_args()
    path = options.results or os.path.join(options.build, "mutations.jsonl")
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # and take the edit back
    try:
        if options.table:
            results = of_commit(read_lines(path), name_of(options.commit))
            print(table(results))
            print("\n".join(describe(r) for r in results if r["result"] in (MISSED, ASIDE)))
            return 0
        if options.every and not options.kind:
            raise Problem("--every needs --kind: there are tens of thousands")
        options.build = os.path.abspath(options.build)
        os.makedirs(options.build, exist_ok=True)
        if options.seeds:
            return seeds.run(os.path.join(options.build, "worker-0"), options.only)
        run(options, path)
        return 0
    except Problem as problem:
        sys.stderr.write("mutate.py: %s\n" % problem)
        return 2


if __name__ == "__main__":
    sys.exit(main())
