"""This machine's CUDA headers, its nvcc, and programs that are built with them for the shared runtime."""

import os
import shutil
import subprocess

from place import ROOT
from program import Missing


def find_headers():
    """The folder of CUDA's headers, 12.4 or newer."""
    found = subprocess.run([ROOT + "/scripts/find-cuda.sh", "12040"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           universal_newlines=True)
    if found.returncode != 0:
        raise Missing(found.stderr.strip().rstrip("."))
    return found.stdout.strip()


def find_nvcc():
    nvcc = shutil.which("nvcc") or shutil.which(os.path.join(os.path.dirname(find_headers()), "bin", "nvcc"))
    if not nvcc:
        raise Missing("needs nvcc on this machine")
    return nvcc


def libraries(toolkit):
    """The options that link with the driver's stub and the runtime of the toolkit."""
    return ["-L%s/lib64" % toolkit, "-L%s/lib64/stubs" % toolkit, "-lcudart", "-lcuda"]


def with_compiler(compiler):
    """The beginning and the end of a command that builds C or C++."""
    include = find_headers()
    return [compiler, "-w", "-I" + include], libraries(os.path.dirname(include))


def with_nvcc():
    """The beginning and the end of a command that builds with nvcc, for what the simulated GPU is: CUB starts no other kernels."""
    nvcc = find_nvcc()
    return [nvcc, "-w", "-cudart", "shared", "-arch=sm_90"], libraries(os.path.dirname(os.path.dirname(os.path.realpath(nvcc))))


def build(tools, program, sources, options=(), more=()):
    """Builds the program unless it is newer than its sources. TOOLS is what with_compiler or with_nvcc returned; MORE are libraries."""
    if os.path.exists(program) and all(os.path.getmtime(program) > os.path.getmtime(source) for source in sources):
        return
    first, last = tools
    with open(program + ".log", "w") as log:
        status = subprocess.run(first + list(options) + ["-o", program] + sources + list(more) + last, stdout=log, stderr=log).returncode
    if status != 0:
        raise Missing("%s could not be built: see %s.log" % (os.path.basename(program), program))
