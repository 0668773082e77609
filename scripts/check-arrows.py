#!/usr/bin/env python3
"""Refuses dependencies that run in circles or against the order of folders: check-arrows.py BUILD_FOLDER

A module is a .c file with its .h (either alone, too), an assembly file with what it implements, or a .def file. An arrow is an include, or
a symbol that one object needs and another one defines, as nm says. Refused are
- a circle of more than MOST_IN_CIRCLE modules;
- an arrow from a room to one that scripts/arrows.txt does not let it use;
- a source file that is in no room of scripts/arrows.txt;
- a header that more than MOST_INCLUDERS files include, which scripts/arrows.txt does not call vocabulary.
"""

import collections
import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
AREAS = ("base", "format", "pool", "trace", "interpose", "tools")
MOST_IN_CIRCLE = 3
MOST_INCLUDERS = 25
# The library defines them, but a caller means the C library's
INTERPOSED = {"dlsym", "dlvsym"}
OF_THE_C_LIBRARY = ("interpose/libc/", "tools/libc/")


def module_of(path):
    stem, extension = os.path.splitext(path)
    if extension == ".def":
        return path
    return re.sub(r"_(x86_64|aarch64)$", "", stem) if extension == ".S" else stem


def sources():
    found = []
    for area in AREAS:
        for folder, _, names in os.walk(os.path.join(ROOT, area)):
            found += [os.path.relpath(os.path.join(folder, name), ROOT) for name in names if re.search(r"\.(c|h|S|def)$", name)]
    return sorted(found)


def includes_of(files):
    """(file, file): an include of one file by another"""
    known = set(files)
    for path in files:
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            for included in re.findall(r'^\s*#\s*include\s+"([^"]+)"', file.read(), re.M):
                beside = os.path.normpath(os.path.join(os.path.dirname(path), included))
                target = included if included in known else beside
                if target in known:
                    yield path, target


def include_arrows(includes):
    """(module, module, what). What a .def file includes counts for itself."""
    for path, target in includes:
        yield module_of(path), module_of(target), "includes " + target


def objects(build):
    """(source, object) of the library's and the tool's own objects: Meson's names of objects hide the folders."""
    with open(os.path.join(build, "compile_commands.json")) as file:
        for entry in json.load(file):
            source = os.path.relpath(os.path.realpath(os.path.join(entry["directory"], entry["file"])), ROOT)
            output = os.path.join(entry["directory"], entry["output"])
            # test/ compiles some of these sources again; the first folder of an object is that of its target
            if source.split(os.sep)[0] in AREAS and entry["output"].split(os.sep)[0] in AREAS and os.path.exists(output):
                yield source, output


def symbol_arrows(build):
    defined, needed = {}, []
    modules = {path: module_of(source) for source, path in objects(build)}
    if not modules:
        sys.exit("check-arrows.py: %s has no objects; build it first" % build)
    # One process for all: starting it takes longer than reading an object
    listing = subprocess.run(["nm", "-A", *modules], stdout=subprocess.PIPE, encoding="utf-8", check=True).stdout
    for line in listing.splitlines():
        module = modules[line.rpartition(":")[0]]
        kind, name = line.split()[-2:]
        if kind == "U":
            needed.append((module, name))
        elif kind in "TDBRVWCSGu" and name not in INTERPOSED and not module.startswith(OF_THE_C_LIBRARY):
            defined[name] = module
    for module, name in needed:
        if name in defined:
            yield module, defined[name], "uses " + name


def circles(arrows):
    """Strongly connected modules (Tarjan), largest first."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in arrows[node]:
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            at = stack.index(node)
            found.append(sorted(stack[at:]))
            del stack[at:]
    sys.setrecursionlimit(10000)
    for node in sorted(arrows):
        if node not in index:
            visit(node)
    return sorted(found, key=len, reverse=True)


def order():
    """Of scripts/arrows.txt: the room of each folder or module, what each room may use, all that these use included, and the
    vocabulary."""
    rooms, uses, vocabulary = {}, {}, []
    with open(os.path.join(ROOT, "scripts", "arrows.txt"), encoding="utf-8") as file:
        for line in file:
            line = line.split("#")[0].strip()
            if line:
                members, _, names = line.partition(":")
                if members == "vocabulary":
                    vocabulary = names.split()
                    continue
                room = members.split()[0]
                uses[room] = {room}
                for name in names.split():
                    if name not in rooms:
                        sys.exit("arrows.txt: %s uses %s, which no line above it names" % (room, name))
                    uses[room] |= uses[rooms[name]]
                rooms.update((member, room) for member in members.split())
    for name in list(rooms) + vocabulary:
        if not os.path.isdir(os.path.join(ROOT, name)) and not any(os.path.exists(os.path.join(ROOT, name + end))
                                                                   for end in ("", ".c", ".h")):
            sys.exit("arrows.txt: there is no %s" % name)
    return rooms, uses, vocabulary


def crowds(includes, vocabulary):
    """Headers that too many files include. includes: (file, header)"""
    count = collections.Counter(header for _, header in set(includes))
    return ["%s is included by %d files, more than %d: split it, or call it vocabulary" % (header, number, MOST_INCLUDERS)
            for header, number in sorted(count.items()) if number > MOST_INCLUDERS and module_of(header) not in vocabulary]


def collect(found):
    """{module: {other: {what}}} of (module, other, what), without arrows of a module to itself"""
    arrows = collections.defaultdict(lambda: collections.defaultdict(set))
    for module, other, what in found:
        if module != other:
            arrows[module][other].add(what)
        arrows[other]
    return arrows


def problems_of(arrows, rooms, uses):
    def room_of(module):
        return rooms.get(module) or rooms.get(os.path.dirname(module))

    problems = ["%s is in no room of scripts/arrows.txt" % module for module in sorted(arrows) if not room_of(module)]
    for module in sorted(arrows):
        for other, whats in sorted(arrows[module].items()):
            if room_of(module) and room_of(other) not in uses[room_of(module)]:
                problems.append("%s may not use %s: it %s" % (module, other, ", ".join(sorted(whats)[:3])))
    for circle in circles(arrows):
        if len(circle) > MOST_IN_CIRCLE:
            problems.append("a circle of %d modules:" % len(circle))
            problems += ["    %s -> %s: %s" % (module, other, ", ".join(sorted(arrows[module][other])[:3]))
                         for module in circle for other in sorted(arrows[module]) if other in circle]
    return problems


def check_itself():
    """What is refused, on made-up modules: two rooms, of which low may not use high."""
    rooms, uses = {"low": "low", "high": "high"}, {"low": {"low"}, "high": {"high", "low"}}

    def refused(*found):
        return problems_of(collect((module, other, "uses f") for module, other in found), rooms, uses)

    assert refused(("high/a", "low/b"), ("low/b", "low/c"), ("low/c", "low/d"), ("low/d", "low/b")) == []
    assert refused(("low/a", "high/b")) == ["low/a may not use high/b: it uses f"]
    assert refused(("high/a", "stray/b"))[0] == "stray/b is in no room of scripts/arrows.txt"
    ring = ["low/a", "low/b", "low/c", "low/d"]
    assert refused(*zip(ring, ring[1:] + ring[:1]))[0] == "a circle of 4 modules:"

    many = [("low/%d.c" % i, "low/b.h") for i in range(MOST_INCLUDERS + 1)]
    assert crowds(many[1:] + many[1:], []) == crowds(many, ["low/b"]) == []
    assert crowds(many, ["low/c"])[0].startswith("low/b.h is included by 26 files, more than 25")


def main(build):
    check_itself()
    files = sources()
    rooms, uses, vocabulary = order()
    includes = list(includes_of(files))
    own = [(module_of(path), module_of(path), "") for path in files]
    arrows = collect(own + list(include_arrows(includes)) + list(symbol_arrows(build)))
    problems = problems_of(arrows, rooms, uses)
    problems += crowds([pair for pair in includes if pair[1].endswith(".h")], vocabulary)
    print("\n".join(problems))
    print("%d modules, %d arrows, %d problems" % (len(arrows), sum(map(len, arrows.values())), len(problems)))
    return 1 if problems else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
