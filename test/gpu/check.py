#!/usr/bin/env python3
"""The hardware check: settles on a real GPU what can only be settled there.

Builds gpupool and the programs of manifest.py with the CUDA toolkit at hand, runs them, and writes a report, its data
as JSON, and a page for doc/gpu-results/. Changes no setting of the GPU, needs no network, and no more than Python,
a C and a C++ compiler, Meson, Ninja and the CUDA toolkit; what a machine lacks is listed as skipped, with the reason.

Exit status: 0 all that could be run passed; 1 something failed; 2 usage; 77 no GPU, or nothing could be run.
"""

import argparse
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from importlib import metadata

sys.dont_write_bytecode = True

import manifest
import report
import toolchain
import verdict
from execute import execute
from programs import Kept, Programs
from session import Session

EXIT_FAILED, EXIT_USAGE, EXIT_SKIP = 1, 2, 77
DEFAULT_LIMIT = 480
BUILT = "built, not run"
GPU_PACKAGES = ("torch", "jax", "cupy", "numba", "triton", "onnx", "tensorflow", "nvidia-nccl", "nvidia-cudnn", "nvidia-cublas")
TRACE = "test/workloads/gpt2-medium-train.csv"  # its rule makes the other one, too


def matches(check, pattern):
    part, slash, name = pattern.partition("/")
    if slash:
        return part == check.part and name in (check.name, "")
    return pattern in (check.part, check.name)


def choose(parser, patterns):
    if not patterns:
        return list(manifest.CHECKS)
    for pattern in patterns:
        if not any(matches(check, pattern) for check in manifest.CHECKS):
            parser.error("--only %s: no such part or check; --list shows them (parts: %s)" %
                         (pattern, ", ".join(manifest.PARTS)))
    return [check for check in manifest.CHECKS if any(matches(check, pattern) for pattern in patterns)]


def choose_programs(parser, names):
    programs = [check for check in manifest.CHECKS if check.part == "real"]
    for name in names:
        if not any(check.name == name for check in programs):
            parser.error("--programs %s: no such program; there are %s" % (name, ", ".join(check.name for check in programs)))
    return [check for check in programs if not names or check.name in names]


def positive(text):
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError("a whole number of 1 or more, not \"%s\"" % text)
    return number


def folder_with(*names):
    def parse(text):
        for name in names:
            if not os.path.exists(os.path.join(text, name)):
                raise argparse.ArgumentTypeError("%s holds no %s: it is no build folder of gpupool with its tests" %
                                                 (text, name))
        return os.path.abspath(text)
    return parse


def parse_options():
    parser = argparse.ArgumentParser(prog="gpu-check.sh", description=__doc__.splitlines()[0],
                                     epilog="Exit status: 0 passed; 1 something failed; 2 usage; 77 no GPU.")
    parser.add_argument("--list", action="store_true", help="list the parts and checks, and do nothing")
    parser.add_argument("--only", action="append", metavar="PART/NAME", default=[],
                        help="only this part (%s) or check; may be repeated" % ", ".join(manifest.PARTS))
    parser.add_argument("--out", metavar="DIR", help="where the reports go (build/gpu-check)")
    parser.add_argument("--time-limit", type=positive, metavar="SECONDS", default=DEFAULT_LIMIT,
                        help="of the whole check (%(default)s); what does not fit is skipped")
    parser.add_argument("--repeat", type=positive, metavar="N", default=1,
                        help="run each real program so often in each way, in turn (%(default)s)")
    parser.add_argument("--programs", nargs="*", metavar="NAME",
                        help="only real programs, all or these, in at least three rounds of each way, five where times vary; "
                             "the next call with the same --out goes on where the time ended")
    parser.add_argument("--jobs", type=positive, default=os.cpu_count() or 1, help="compilers at a time (%(default)s)")
    parser.add_argument("--sim", action="store_true",
                        help="on the simulated GPU, what it can run: exercises the check itself")
    parser.add_argument("--build-only", action="store_true",
                        help="build everything and run nothing; needs no GPU (exit status 0 if all was built)")
    parser.add_argument("--revision", metavar="TEXT",
                        help="what the report calls this revision of gpupool (git describe), for a copy of the tree")
    parser.add_argument("--meson-build", metavar="DIR", type=folder_with("interpose/libgpupool.so", "test/prog/replay", TRACE),
                        help="use what is built there, and build gpupool no more")
    options = parser.parse_args()
    if options.programs is not None and (options.only or options.repeat != 1):
        parser.error("--programs chooses by itself what runs how often: leave --only and --repeat out")
    checks = choose(parser, options.only) if options.programs is None else choose_programs(parser, options.programs)
    options.out = os.path.abspath(options.out or os.path.join(toolchain.SOURCE, "build", "gpu-check"))
    if options.list:
        return options, checks
    try:
        os.makedirs(options.out, exist_ok=True)
    except OSError as error:
        parser.error("--out %s: %s" % (options.out, error.strerror))
    if not os.access(options.out, os.W_OK):
        parser.error("--out %s: it cannot be written" % options.out)
    return options, checks


def list_checks(checks):
    for part, title in manifest.PARTS.items():
        own = [check for check in checks if check.part == part]
        if own:
            print("%s: %s" % (part, title))
        for check in own:
            print("  %-30s %s%s" % (check.name, check.shows, " [also simulated]" if check.sim else ""))


def ask(*command):
    """The first line that a command prints, "" if it fails."""
    try:
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, universal_newlines=True,
                                timeout=30, cwd=toolchain.SOURCE)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return result.stdout.strip().splitlines()[0] if result.returncode == 0 and result.stdout.strip() else ""


def processor_name():
    try:
        with open("/proc/cpuinfo") as file:
            return next(line.split(":")[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


def python_packages():
    """What this Python holds of the packages that use a GPU, with versions."""
    held = {}
    for distribution in metadata.distributions():
        name = (distribution.metadata["Name"] or "").lower()
        if name.startswith(GPU_PACKAGES):
            held[name] = distribution.version
    return ", ".join("%s %s" % item for item in sorted(held.items()))


def describe_machine(folder, simulator, revision):
    machine = {"processor": processor_name(), "processors": os.cpu_count(), "kernel": platform.release(),
               "python": platform.python_version(),
               "revision": revision or ask("git", "describe", "--always", "--dirty") or "unknown revision"}
    environment = dict(os.environ, LD_LIBRARY_PATH=simulator) if simulator else None
    result = execute([sys.executable, os.path.join(toolchain.HERE, "probe.py")],
                     os.path.join(folder, "run", "probe"), 60, environment)
    if result.status == 0:
        machine["gpu"] = json.loads(result.out)
    else:
        machine["no_gpu"] = "the driver does not answer" if result.timed_out else result.err.strip()
    machine["packages"] = python_packages()
    if machine.get("gpu") and not simulator and shutil.which("nvidia-smi"):
        machine["driver"] = ask("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    return machine


def say(text):
    print(text, flush=True)


def build(options, checks, machine, problems):
    """The toolkit (or None), the folder of gpupool's build, and the libraries. What fails goes to problems."""
    toolkit, libraries = None, {}
    programs = {name: manifest.PROGRAMS[name] for check in checks if check.sim or not options.sim
                for name in manifest.built_by_nvcc(check)}
    folder = os.path.join(options.out, "sim" if options.sim else "program")
    build_folder = options.meson_build or os.path.join(options.out, "meson")
    try:
        if not options.meson_build:
            say("== building gpupool")
            prog = sorted({check.program[5:] for check in checks if check.program.startswith("prog:")})
            wanted = ["interpose/libgpupool.so", "test/interpose/libgpupool_unsafe.so", "test/sim/libcuda.so.1", TRACE]
            toolchain.build_gpupool(build_folder, wanted + ["test/prog/" + name for name in prog], options.jobs)
    except toolchain.Missing as missing:
        problems["gpupool"] = str(missing)
        say("   " + str(missing))
    for name, path in (("pool", "interpose/libgpupool.so"), ("unsafe", "test/interpose/libgpupool_unsafe.so")):
        if os.path.exists(os.path.join(build_folder, path)):
            libraries[name] = os.path.join(build_folder, path)
    try:
        toolkit = toolchain.Toolkit()
        machine["toolkit"] = "%s, %s" % (toolkit.version, toolkit.root)
        say("== building %d programs with %s" % (len(programs), toolkit.nvcc))
        code = toolkit.code_options(machine.get("gpu", {}).get("capability"), options.sim)
        failed, commands = toolchain.build_programs(toolkit, programs, folder, code, options.jobs)
        problems.update(failed)
        for name, reason in sorted(failed.items()):
            say("   %s: %s" % (name, reason))
    except toolchain.Missing as missing:
        problems.update({name: str(missing) for name in programs})
        say("   " + str(missing))
    if toolkit and any(run.under == "trace" for check in checks for run in check.runs):
        try:
            libraries["trace"] = toolchain.build_call_trace(toolkit, folder)
        except toolchain.Missing as missing:
            problems["trace"] = str(missing)
    return toolkit, folder, build_folder, libraries


class Interrupted(Exception):
    pass


def on_signal(number, frame):
    raise Interrupted("signal %d" % number)


def skipped(check, reason):
    return {"name": check.name, "part": check.part, "shows": check.shows, "result": "skipped", "problems": [reason],
            "runs": [], "surprises": [], "comparison": ""}


def perform(options, checks, data, begin):
    """Builds and runs, and fills data["checks"], so that what was done is there if it is interrupted."""
    problems = {}
    machine, outcomes = data["machine"], data["checks"]
    if not options.sim:
        machine.update(describe_machine(options.out, None, options.revision))
        if "gpu" not in machine and not options.build_only:
            say("== no GPU: %s" % machine["no_gpu"])
            outcomes += [skipped(check, "no GPU: " + machine["no_gpu"]) for check in checks]
            return
    toolkit, programs, build_folder, libraries = build(options, checks, machine, problems)
    if options.build_only:
        outcomes += [skipped(check, problems.get(check.program) or problems.get("gpupool") or BUILT)
                     for check in checks]
        return
    simulator = os.path.join(build_folder, "test", "sim") if options.sim else None
    if options.sim:
        machine.update(describe_machine(options.out, simulator, options.revision))
    say("== running %d checks" % len(checks))
    session = make_session(options, machine, programs, os.path.join(build_folder, "test", "prog"), libraries, problems,
                           toolkit, simulator, begin + options.time_limit)
    for check in session.turns(checks):
        outcome = session.perform(check)
        outcomes[:] = [other for other in outcomes if other["name"] != check.name] + [outcome]  # a later turn knows more
        if outcome["result"] != "skipped":
            say(report.line_of(outcome))
        write(options, data, begin)


def make_session(options, machine, *args):
    if options.programs is None:
        return Session(options.out, *args, options.repeat)
    return Programs(Kept(options.out, machine), options.out, *args)


def write(options, data, begin):
    data["seconds"] = round(time.monotonic() - begin, 1)
    data["verdicts"] = verdict.decide(data["checks"])
    report.write(data, options.out)


def main():
    begin = time.monotonic()
    options, checks = parse_options()
    if options.list:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # a pager that was left early is no error
        list_checks(checks)
        return 0
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, on_signal)
    data = {"date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "simulated": options.sim, "complete": False,
            "incomplete_because": "it was ended", "command": " ".join(["scripts/gpu-check.sh"] + sys.argv[1:]),
            "places": {options.out: "OUT", toolchain.SOURCE: "."},
            "machine": describe_machine(options.out, None, options.revision) if options.sim else {}, "checks": []}
    try:
        perform(options, checks, data, begin)
        data.update(complete=True, incomplete_because=None)
    except (KeyboardInterrupt, Interrupted) as error:
        data["incomplete_because"] = "interrupted (%s)" % (error or "from the keyboard")
        done = {outcome["name"] for outcome in data["checks"]}
        data["checks"] += [skipped(check, "interrupted") for check in checks if check.name not in done]
    write(options, data, begin)
    say("\n" + report.text_report(data) + "\nReports: %s" % options.out)
    results = [outcome["result"] for outcome in data["checks"]]
    if "failed" in results or not data["complete"]:
        return EXIT_FAILED
    if options.build_only:
        return EXIT_FAILED if any(outcome["problems"] != [BUILT] for outcome in data["checks"]) else 0
    return 0 if "passed" in results else EXIT_SKIP


if __name__ == "__main__":
    sys.exit(main())
