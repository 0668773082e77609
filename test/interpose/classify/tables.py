"""The library's tables and the toolkit's files, read for the tests of this folder."""

import collections
import os
import re

SOURCE = os.environ["GP_SOURCE"]
INCLUDE = os.environ["GP_CUDA_INCLUDE"]
CLASSES_DEF = os.path.join("interpose", "routes", "classes.def")
FUNCTIONS_DEF = os.path.join("interpose", "routes", "functions.def")

Kind = collections.namedtuple("Kind", "name modes effect")
Class = collections.namedtuple("Class", "symbol since kind")
Function = collections.namedtuple("Function", "symbol base since per_thread parameters")
Parts = collections.namedtuple("Parts", "base variant suffix")

COMPLETE = 13000  # the newest CUDA version whose headers the tables were made from, in full
SKIP = 77  # the status by which Meson knows a test that could not run


def read(*path):
    with open(os.path.join(*path), errors="replace") as file:
        return file.read()


def entries(path, macro, arguments):
    """The entries of a table as tuples, each on a line of its own. A line that begins like one must be one. macro: a
    regular expression."""
    found = []
    for number, line in enumerate(read(SOURCE, path).splitlines(), 1):
        if re.match(macro + r"\(", line):
            match = re.fullmatch(r"%s\(%s\)" % (macro, arguments), line)
            if not match:
                raise ValueError("%s:%d: not the form of %s: %s" % (path, number, macro, line))
            found.append(match.groups())
    return found


def kinds():
    """name -> Kind, of classes.def"""
    return {name: Kind(name, frozenset(modes.split(" | ")), effect)
            for name, modes, effect in entries(CLASSES_DEF, "KIND", r"(\w+), (\w+(?: \| \w+)*), (\w+)")}


def classes():
    """[Class], of classes.def in its order"""
    return [Class(symbol, int(since), kind)
            for symbol, since, kind in entries(CLASSES_DEF, "CLASS", r"(\w+), (\d+), (\w+)")]


def hooks():
    """[Function], the hooks of functions.def"""
    form = r"(\w+), (\w+), (\d+), ([01]), \(([^()]*)\)(?:, \(.*)?"
    return [Function(symbol, base, int(since), per_thread == "1", parameters)
            for symbol, base, since, per_thread, parameters in entries(FUNCTIONS_DEF, r"(?:HOOK|FORWARD_\w+)", form)]


def calls():
    """[(symbol, parameters)], the CALLs of functions.def"""
    return entries(FUNCTIONS_DEF, "CALL", r"(\w+), \((.*)\)")


def parts(symbol):
    """cuStreamBeginCapture_v2_ptsz -> cuStreamBeginCapture, 2, _ptsz"""
    base, variant, suffix = re.fullmatch(r"(\w+?)(?:_v(\d))?(_ptsz|_ptds)?", symbol).groups()
    return Parts(base, int(variant or 1), suffix or "")


def cuda_version():
    return int(re.search(r"^#define CUDA_VERSION (\d+)", read(INCLUDE, "cuda.h"), re.M).group(1))


def came_by(since, version):
    """
    True if each toolkit of that version has what came with since. An update of one, with the same number, may bring
    functions that its first release lacks; the version that the table was made from is known in full.
    """
    return since < version or since == version == COMPLETE


def typedef_versions():
    """
    (base, suffix) -> {version: name of the typedef}, of cudaTypedefs.h: which CUDA versions introduced a variant. Some
    of its macros end in _v2 or _v3 for the variant; versions are four digits or more. Empty if there is no such file.
    """
    found = collections.defaultdict(dict)
    if os.path.exists(os.path.join(INCLUDE, "cudaTypedefs.h")):
        for name, base, version, suffix in re.findall(
                r"\b(PFN_(cu[A-Z]\w*?)_v(\d{4,})(_ptsz|_ptds)?)\b", read(INCLUDE, "cudaTypedefs.h")):
            found[base, suffix][int(version)] = name
    return found
