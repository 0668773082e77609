#!/usr/bin/env python3
"""Makes shared libraries without code, of the names and versions of glibc 2.17, for the linker to bind to.

    make_stubs.py SYMBOLS[:SYMBOLS] FOLDER MACHINE COMPILER...

Writes one library for each that SYMBOLS name into FOLDER. The loader takes the real ones: nothing of these ever runs.
"""

import collections
import os
import subprocess
import sys

OLDEST = {"x86_64": "GLIBC_2.2.5", "aarch64": "GLIBC_2.17"}  # versions of glibc's first release on the machine
FUNCTION = ".text\n.globl {0}\n.type {0}, %function\n{0}:\n"
VARIABLE = ".data\n.globl {0}\n.type {0}, %object\n.size {0}, {1}\n{0}: .zero {1}\n"
ALIAS = ".weak {0}\n.set {0}, {1}\n"


def number(version):
    return tuple(int(part) for part in version.split("_")[1].split("."))


def read(paths, machine):
    """library -> version -> name -> what follows its "="; nothing for a function"""
    libraries = collections.defaultdict(lambda: collections.defaultdict(dict))
    for path in paths:
        with open(path) as file:
            for line in file:
                words = line.partition("#")[0].split()
                for name, _, what in (word.partition("=") for word in words[2:]):
                    libraries[words[0]][max(words[1], OLDEST[machine], key=number)][name] = what
    return libraries


def make(library, versions, folder, compiler):
    path = os.path.join(folder, library)
    with open(path + ".s", "w") as file:
        file.write('.section .note.GNU-stack,"",%progbits\n')
        for name, what in sorted(item for names in versions.values() for item in names.items()):
            file.write((FUNCTION if not what else VARIABLE if what.isdigit() else ALIAS).format(name, what))
    with open(path + ".map", "w") as file:
        for version in sorted(versions, key=number):
            file.write("%s { global: %s; };\n" % (version, "; ".join(versions[version])))
    subprocess.check_call([*compiler, "-shared", "-nostdlib", "-Wl,-soname," + library,
                           "-Wl,--version-script=%s.map" % path, "-o", path, path + ".s"])


def main():
    symbols, folder, machine, *compiler = sys.argv[1:]
    for library, versions in read(symbols.split(":"), machine).items():
        make(library, versions, folder, compiler)


if __name__ == "__main__":
    main()
