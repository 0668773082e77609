"""Finds the CUDA toolkit and what builds gpupool, and builds the programs of the manifest. Downloads nothing."""

import concurrent.futures
import glob
import json
import os
import shutil
import subprocess
import sys

from execute import clean_environment, execute

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
HEADERS = {"cublas": "cublas_v2.h", "cublasLt": "cublasLt.h", "cudnn": "cudnn.h", "cufft": "cufft.h",
           "cusparse": "cusparse.h", "nccl": "nccl.h"}
LEAST_CAPABILITY = 70  # __nanosleep
COMPILE_LIMIT = 240
NOT_COMPILED = "it does not compile"


class Missing(Exception):
    """Something that the machine does not have; the text says what, and what may help."""


def wheel_folders(kind):
    """Libraries that came with Python packages, nvidia/cudnn/lib for instance."""
    return [folder for path in sys.path if path
            for folder in sorted(glob.glob(os.path.join(path, "nvidia", "*", kind)))]


class Toolkit:
    """The CUDA toolkit at hand."""

    def __init__(self):
        found = subprocess.run([os.path.join(SOURCE, "scripts", "find-cuda.sh")], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, universal_newlines=True)
        if found.returncode:
            raise Missing(found.stderr.strip())
        self.include = found.stdout.strip()
        folder = os.path.dirname(self.include)
        if os.path.basename(os.path.dirname(folder)) == "targets":
            folder = os.path.dirname(os.path.dirname(folder))
        self.root = folder
        self.nvcc = self.find_nvcc()
        self.version, self.architectures = self.ask_nvcc()
        machine = os.uname().machine
        roots = [self.root, os.path.join(self.root, "targets", machine + "-linux"),
                 os.path.join(self.root, "extras", "CUPTI")]
        folders = [os.path.join(root, lib) for root in roots for lib in ("lib64", "lib")]
        folders += ["/usr/lib/%s-linux-gnu" % machine, "/usr/lib64"]
        self.search_folders = [f for f in folders if os.path.isdir(f)] + wheel_folders("lib")
        folders = [self.include, os.path.join(self.root, "extras", "CUPTI", "include"), "/usr/include"]
        self.include_folders = [f for f in folders if os.path.isdir(f)] + wheel_folders("include")

    def find_nvcc(self):
        folders = [os.path.join(os.environ[name], "bin") for name in ("CUDA_PATH", "CUDA_HOME") if os.environ.get(name)]
        folders += os.environ.get("PATH", "").split(":") + [os.path.join(self.root, "bin"), "/usr/local/cuda/bin"]
        nvcc = os.environ.get("NVCC") or shutil.which("nvcc", path=":".join(folders))
        if not nvcc:
            raise Missing("nvcc is not installed: install the CUDA Toolkit, or set NVCC to its compiler")
        return nvcc

    def ask_nvcc(self):
        try:
            version = subprocess.run([self.nvcc, "--version"], stdout=subprocess.PIPE, universal_newlines=True,
                                     check=True)
            known = subprocess.run([self.nvcc, "--list-gpu-arch"], stdout=subprocess.PIPE, universal_newlines=True,
                                   check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise Missing("%s does not work: %s" % (self.nvcc, error))
        release = next((line.strip() for line in version.stdout.splitlines() if "release" in line), "unknown")
        numbers = [int(word[8:]) for word in known.stdout.split() if word.startswith("compute_") and word[8:].isdigit()]
        return release, sorted(number for number in numbers if number >= LEAST_CAPABILITY)

    def find_library(self, name):
        """The path of a shared library, or Missing."""
        for folder in self.search_folders:
            for pattern in ("lib%s.so", "lib%s.so.[0-9]*"):
                found = sorted(glob.glob(os.path.join(folder, pattern % name)))
                if found:
                    return found[0]
        raise Missing("lib%s.so is not installed" % name)

    def find_header_folder(self, header):
        for folder in self.include_folders:
            if os.path.exists(os.path.join(folder, header)):
                return folder
        raise Missing("%s is not installed" % header)

    def code_options(self, capability, simulated):
        """Machine code for the GPU at hand, and code that any GPU can translate. Without a GPU: for compiling only."""
        least = self.architectures[0]
        options = ["-gencode", "arch=compute_%d,code=compute_%d" % (least, least)]
        if simulated:
            return options + ["-O0"]  # the device code is not run, and the test shall be quick
        options.append("-O2")
        wanted = int(capability.replace(".", "")) if capability else 90
        fitting = [number for number in self.architectures if number <= wanted]
        if fitting and fitting[-1] == wanted:
            options += ["-gencode", "arch=compute_%d,code=sm_%d" % (wanted, wanted)]
        elif fitting and fitting[-1] != least:
            options += ["-gencode", "arch=compute_%d,code=compute_%d" % (fitting[-1], fitting[-1])]
        return options


def search_path(toolkit, program=None):
    """LD_LIBRARY_PATH for a program: the shared runtime, what the program needs, and what that needs in turn."""
    folders = []
    if not toolkit:
        return folders
    for name in ("cudart",) + (program.needs if program else ()) + ("cupti",):
        try:
            folder = os.path.dirname(toolkit.find_library(name))
        except Missing:
            continue
        if folder not in folders:
            folders.append(folder)
    if program and program.needs:
        folders += [f for f in toolkit.search_folders if f not in folders and "/nvidia/" in f]
    return folders


def compile_command(toolkit, program, target, options):
    command = [toolkit.nvcc, "-std=c++17", "-Wno-deprecated-gpu-targets", "-Xcompiler", "-Wall", "-I", SOURCE,
               "-cudart", "static" if program.static else "shared"] + options
    if program.per_thread:
        command += ["-default-stream", "per-thread"]
    command += ["-D" + name for name in program.define]
    folders = [toolkit.find_header_folder(HEADERS[name]) for name in program.needs]
    if "USE_" in " ".join(program.define):
        folders += [f for f in toolkit.include_folders if os.path.exists(os.path.join(f, "cupti.h"))][:1]
    for folder in folders:
        if folder != toolkit.include:
            command += ["-Xcompiler", "-idirafter," + folder]
    command += [os.path.join(HERE, program.source)] + [toolkit.find_library(name) for name in program.needs]
    return command + ["-Xlinker", "--unresolved-symbols=ignore-in-shared-libs", "-ldl", "-lpthread", "-o", target]


def newest_source():
    files = glob.glob(os.path.join(HERE, "**", "*.*"), recursive=True)
    files.append(os.path.join(SOURCE, "interpose", "routes", "functions.def"))
    return max(os.path.getmtime(path) for path in files if path.endswith((".cu", ".h", ".c", ".S", ".def")))


def up_to_date(target, command):
    try:
        with open(target + ".command") as file:
            return json.load(file) == command and os.path.getmtime(target) > newest_source()
    except (OSError, ValueError):
        return False


def build_one(name, command, target, folder):
    """Why it could not be built; None if it was."""
    if up_to_date(target, command):
        return None
    result = execute(command, os.path.join(folder, "log", name), COMPILE_LIMIT)
    if result.timed_out:
        return "it took longer than %d s to compile" % COMPILE_LIMIT
    if result.status:
        lines = [line for line in result.err.splitlines() + result.out.splitlines() if "error" in line] or [result.err]
        return "%s: %s" % (NOT_COMPILED, lines[0].strip()[:300])
    with open(target + ".command", "w") as file:
        json.dump(command, file)
    return None


def build_programs(toolkit, programs, folder, options, jobs):
    """programs: {name: Program}. Returns {name: reason} of those that could not be built, and {name: command}."""
    os.makedirs(folder, exist_ok=True)
    problems, commands = {}, {}
    for name, program in programs.items():
        try:
            commands[name] = compile_command(toolkit, program, os.path.join(folder, name), options)
        except Missing as missing:
            problems[name] = str(missing)
    with concurrent.futures.ThreadPoolExecutor(jobs) as executor:
        # what takes long first
        order = sorted(commands, key=lambda name: not programs[name].source.startswith("real"))
        pending = {executor.submit(build_one, name, commands[name], os.path.join(folder, name), folder): name
                   for name in order}
        try:
            for future in concurrent.futures.as_completed(pending):
                if future.result():
                    problems[pending[future]] = future.result()
        except BaseException:  # interrupted: what has not begun is not begun
            for future in pending:
                future.cancel()
            raise
    return problems, commands


def build_call_trace(toolkit, folder):
    """The path of the call trace, or Missing."""
    if os.uname().machine != "x86_64":
        raise Missing("the call trace is written for x86-64")
    target = os.path.join(folder, "libcalltrace.so")
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        raise Missing("there is no C compiler")
    sources = [os.path.join(HERE, "trace", "calltrace.c"), os.path.join(HERE, "trace", "stubs_x86_64.S"),
               os.path.join(SOURCE, "interpose", "routes", "dlsym_x86_64.S")]
    command = compiler.split() + ["-D_GNU_SOURCE", "-std=c11", "-O2", "-Wall", "-shared", "-fPIC", "-I", SOURCE,
                                  "-isystem", toolkit.include] + sources + ["-Wl,-z,defs", "-ldl", "-lpthread", "-o", target]
    os.makedirs(folder, exist_ok=True)
    problem = build_one("libcalltrace.so", command, target, folder)
    if problem:
        raise Missing("the call trace: " + problem)
    return target


def which(*names):
    """On PATH, or beside this Python: a virtual environment's programs need not be on PATH."""
    path = os.environ.get("PATH", "") + ":" + os.path.dirname(sys.executable)
    return next((found for found in (shutil.which(name, path=path) for name in names) if found), None)


def find_meson():
    if os.environ.get("MESON"):
        return os.environ["MESON"].split()
    if which("meson"):
        return [which("meson")]
    if subprocess.run([sys.executable, "-c", "import mesonbuild.mesonmain"], stderr=subprocess.DEVNULL).returncode == 0:
        return [sys.executable, "-m", "mesonbuild.mesonmain"]
    raise Missing("Meson is not installed: install it, or set MESON to a copy of it (\"python3 /path/to/meson.py\")")


def find_ninja():
    ninja = os.environ.get("NINJA") or which("ninja", "ninja-build")
    if not ninja:
        raise Missing("Ninja is not installed: install it, or set NINJA to a copy of it")
    return ninja


def build_gpupool(folder, wanted, jobs):
    """Builds gpupool and the programs of test/prog in `folder`. Needs no library: features without theirs are off."""
    meson, ninja = find_meson(), find_ninja()
    environment = dict(clean_environment(), NINJA=ninja)
    log = os.path.join(folder, "gpu-check-log")
    if not os.path.exists(os.path.join(folder, "build.ninja")):
        result = execute(meson + ["setup", folder, SOURCE, "-Dtools=auto", "-Dtests=auto"], os.path.join(log, "setup"),
                         COMPILE_LIMIT, environment)
        if result.status:
            lines = (result.out + result.err).strip().splitlines() or ["it says nothing"]
            why = next((line for line in lines if "ERROR" in line), lines[-1])
            raise Missing("meson setup failed: %s; see %s" % (why.strip(), os.path.join(log, "setup", "stdout")))
    targets = execute([ninja, "-C", folder, "-t", "targets", "all"], os.path.join(log, "targets"), 60, environment)
    known = {line.split(":")[0] for line in targets.out.splitlines()}
    result = execute([ninja, "-C", folder, "-j", str(jobs)] + [name for name in wanted if name in known],
                     os.path.join(log, "build"), COMPILE_LIMIT, environment)
    if result.status:
        raise Missing("gpupool does not build: see %s" % os.path.join(log, "build", "stdout"))
