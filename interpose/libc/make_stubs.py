#!/usr/bin/env python3
"""Makes shared libraries without code, of the names and versions of glibc 2.17, for the linker to bind to.

    make_stubs.py SYMBOLS FOLDER MACHINE COMPILER...

Writes one library for each that SYMBOLS names into FOLDER. The loader takes the real ones: nothing of these ever runs.
"""

import collections
import os
import subprocess
import sys

OLDEST = {"x86_64": "GLIBC_2.2.5", "aarch64": "GLIBC_2.17"}  # versions of glibc's first release on the machine


def number(version):
    return tuple(int(part) for part in version.split("_")[1].split("."))


def read(path, machine):
    """library -> version -> names"""
    libraries = collections.defaultdict(lambda: collections.defaultdict(list))
    with open(path) as file:
        for line in file:
            words = line.partition("#")[0].split()
            if words:
                libraries[words[0]][max(words[1], OLDEST[machine], key=number)] += words[2:]
    return libraries


def make(library, versions, folder, compiler):
    path = os.path.join(folder, library)
    with open(path + ".s", "w") as file:
        file.write('.section .note.GNU-stack,"",%progbits\n.text\n')
        for name in sorted(sum(versions.values(), [])):
            file.write(".globl {0}\n.type {0}, %function\n{0}:\n".format(name))
    with open(path + ".map", "w") as file:
        for version in sorted(versions, key=number):
            file.write("%s { global: %s; };\n" % (version, "; ".join(versions[version])))
    subprocess.check_call([*compiler, "-shared", "-nostdlib", "-Wl,-soname," + library,
                           "-Wl,--version-script=%s.map" % path, "-o", path, path + ".s"])


def main():
    symbols, folder, machine, *compiler = sys.argv[1:]
    for library, versions in read(symbols, machine).items():
        make(library, versions, folder, compiler)


if __name__ == "__main__":
    main()
