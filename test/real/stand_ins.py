#!/usr/bin/env python3
"""Makes stand-ins for NVIDIA's libraries, which do not start on the simulated GPU: stand_ins.py FOLDER LIBRARY...

FOLDER gets a library for each name of LIBRARIES, or of another version that a LIBRARY (an ELF file) needs. It has the functions
that the LIBRARYs ask it for. Each does nothing and returns 0, which all of these libraries call success, but for those of SPECIAL, whose callers look at
more than that.
"""

import collections
import os
import re
import subprocess
import sys

LIBRARIES = {
    "cublas": "libcublas.so.12",
    "cublasLt": "libcublasLt.so.12",
    "cudnn": "libcudnn.so.9",
    "cufft": "libcufft.so.11",
    "curand": "libcurand.so.10",
    "cusolver": "libcusolver.so.11",
    "cusparse": "libcusparse.so.12",
    "ibv_": "libibverbs.so.1",
    "nccl": "libnccl.so.2",
    "nvrtc": "libnvrtc.so.12",
    "nvtx": "libnvToolsExt.so.1",
    "MPI_": "libmpi.so.40",
    "ompi_": "libmpi.so.40",
}
SPECIAL = {
    "cublasCreate_v2": "int cublasCreate_v2(void **handle) { *handle = &one; return 0; }",
    "cublasLtMatmulDescCreate": "int cublasLtMatmulDescCreate(void **made) { *made = &one; return 0; }",
    "cublasLtMatrixLayoutCreate": "int cublasLtMatrixLayoutCreate(void **made) { *made = &one; return 0; }",
    "cublasLtMatmulPreferenceCreate": "int cublasLtMatmulPreferenceCreate(void **made) { *made = &one; return 0; }",
    "cublasLtMatmulAlgoGetHeuristic":
        "int cublasLtMatmulAlgoGetHeuristic(void *l, void *op, void *a, void *b, void *c, void *d, void *p, int n,\n"
        "    void *results, int *ret_count) { *ret_count = 1; return 0; }",
    "cudnnGetVersion": "unsigned long cudnnGetVersion(void) { return 90100; }",
    "cudnnGetCudartVersion": "unsigned long cudnnGetCudartVersion(void) { return 12040; }",
}


def sonames(paths):
    """By prefix, the name of the library: with the version that the files need, else as in LIBRARIES."""
    needed = [name for path in paths for name in re.findall(
        r"\(NEEDED\).*\[(.*)\]", subprocess.run(["readelf", "-d", path], check=True, capture_output=True, text=True).stdout)]
    by_stem = {name.partition(".so")[0]: name for name in needed}
    return {prefix: by_stem.get(name.partition(".so")[0], name) for prefix, name in LIBRARIES.items()}


def asked_for(paths, libraries):
    """By library, the functions that the files want of it, and the version that they want them in."""
    names, versions = collections.defaultdict(set), {}
    longest_first = sorted(libraries, key=len, reverse=True)
    for path in paths:
        table = subprocess.run(["readelf", "--dyn-syms", "--wide", path], check=True, capture_output=True, text=True).stdout
        for line in table.splitlines():
            columns = line.split()
            if len(columns) < 8 or columns[6] != "UND":
                continue
            name, _, version = columns[7].partition("@")
            prefix = next((prefix for prefix in longest_first if name.startswith(prefix)), None)
            if prefix:
                names[libraries[prefix]].add(name)
                if version.lstrip("@") == libraries[prefix]:
                    versions[libraries[prefix]] = libraries[prefix]
    return names, versions


def make(folder, library, names, version):
    def define(name):
        if name.startswith("ompi_"):  # data, whose address is all that matters
            return "long %s[64];" % name
        return SPECIAL.get(name) or "int %s(void) { return 0; }" % name

    source = os.path.join(folder, library + ".c")
    with open(source, "w") as file:
        file.write("\n".join(["static char one;"] + [define(name) for name in sorted(names)]) + "\n")
    command = ["cc", "-shared", "-fPIC", "-w", "-o", os.path.join(folder, library), source, "-Wl,-soname," + library]
    if version:
        with open(source + ".map", "w") as file:
            file.write("%s { global: *; };\n" % version)
        command.append("-Wl,--version-script=%s.map" % source)
    subprocess.run(command, check=True)


def main():
    if len(sys.argv) < 3 or not re.match(r"[^-]", sys.argv[1]):
        sys.exit(__doc__)
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    libraries = sonames(sys.argv[2:])
    names, versions = asked_for(sys.argv[2:], libraries)
    for library in sorted(set(libraries.values())):
        make(folder, library, names[library], versions.get(library))


if __name__ == "__main__":
    main()
