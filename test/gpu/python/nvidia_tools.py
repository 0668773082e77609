"""What compute-sanitizer, Nsight and cuda-gdb find in a program with a mistake, alone and under the library:
`nvidia_tools.py OVERRUN LIBRARY` (question/overrun.cu). A tool that is not installed is left out.
"""

import concurrent.futures
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import common

OVERRUN, LIBRARY = sys.argv[1:]
WAYS = {"alone": None, "round": "round", "segment": "segment", "vmm": "vmm", "recorded only": "unpooled"}
PLACES = ("/usr/local/cuda*/bin", "/usr/local/cuda*/compute-sanitizer", "/opt/nvidia/nsight-compute/*",
          "/opt/nvidia/nsight-compute/*/host/target-linux-x64", "/opt/nvidia/nsight-systems/*/bin")
MISTAKES = (("within", "no mistake", "memcheck"), ("past", "a write past 1000 bytes", "memcheck"),
            ("past-page", "a write past 4 MiB", "memcheck"), ("freed", "a write after the free", "memcheck"),
            ("twice", "a second free", "memcheck"), ("unwritten", "a read of memory that nothing wrote", "initcheck"),
            ("kept", "a block that is not freed", "leak"))


def find(tool):
    found = [path for place in PLACES for path in sorted(glob.glob(os.path.join(place, tool)))]
    return shutil.which(tool) or (found[-1] if found else None)


def run(folder, way, command):
    """Status and all output of a command in a folder of its own, and (pooled, recorded) allocations of the library: with a tool
    that watches CUDA calls it pools nothing, and records."""
    own = tempfile.mkdtemp(dir=folder)
    environment = dict(os.environ)
    if WAYS[way]:
        environment.update(LD_PRELOAD=LIBRARY, GPUPOOL_TYPE=WAYS[way], GPUPOOL_OUTPUT=os.path.join(own, "%p.%r.json"))
    try:
        done = subprocess.run(command, cwd=own, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                              timeout=60, universal_newlines=True, errors="replace")
    except subprocess.TimeoutExpired:
        return None, "", (0, 0), own
    pooled = recorded = 0
    for path in glob.glob(os.path.join(own, "*.exit.json")):
        with open(path) as file:
            snapshot = json.load(file)
        pooled += sum(device["stats"]["allocation"]["allocated"] for device in snapshot["devices"])
        made = [snapshot["events"]["actions"].index(name) for name in ("alloc", "passthrough_alloc")]
        recorded += sum(action in made for action in snapshot["events"]["action"])
    return done.returncode, done.stdout, (pooled, recorded), own


def library_saw(seen):
    return " (library: %d allocations pooled, %d recorded)" % seen


def sanitize(tool, folder, way, mistake, check):
    command = [tool, "--tool", "initcheck"] if check == "initcheck" else [tool] + ["--leak-check", "full"] * (check == "leak")
    _, out, seen, _ = run(folder, way, command + [OVERRUN, mistake])
    errors = re.search(r"ERROR SUMMARY: (\d+) error", out)
    leaks = re.search(r"LEAK SUMMARY: (\d+) bytes leaked in (\d+) alloc", out)
    if not errors:
        return "it does not work: %s" % (out.strip().splitlines() or ["no output"])[-1]
    told = "%s errors" % errors.group(1)
    if leaks:
        told += ", %s B kept in %s allocations" % leaks.groups()
    return told + (library_saw(seen) if WAYS[way] else "")


def by_way(told):
    """told: {way: text}, as one text in which each is once."""
    ways = {}
    for way, text in told.items():
        ways.setdefault(text, []).append(way)
    return "; ".join("%s: %s" % (", ".join(same), text) for text, same in ways.items())


def main():
    sanitizer, folder = find("compute-sanitizer"), tempfile.mkdtemp()
    jobs = {}
    with concurrent.futures.ThreadPoolExecutor(6) as executor:
        for mistake, says, check in MISTAKES if sanitizer else ():
            jobs[says] = {way: executor.submit(sanitize, sanitizer, folder, way, mistake, check) for way in WAYS}
    for says, of_ways in jobs.items():
        common.fact("compute-sanitizer, " + says, by_way({way: job.result() for way, job in of_ways.items()}))
    commands = {"ncu": (["--metrics", "gpu__time_duration.sum"], "touch"),
                "nsys": (["profile", "--trace=cuda", "--cuda-memory-usage=true", "--force-overwrite=true", "-o", "report"], ""),
                "cuda-gdb": (["-q", "-batch", "-ex", "run", "--args"], "exited normally")}
    for tool, (options, word) in commands.items():
        path, told = find(tool), {}
        for way in ("alone", "round", "vmm") if path else ():
            status, out, seen, own = run(folder, way, [path] + options + [OVERRUN, "within"])
            made = ", ".join(sorted(os.path.splitext(name)[1] for name in os.listdir(own) if name.startswith("report")))
            told[way] = "exit status %s, %s%s%s%s" % (
                status, "the program's own output" if '"mistake"' in out else "no output of the program",
                "" if not word else ", and the tool's" if word in out else ", and not the tool's", ", makes " + made if made else "",
                library_saw(seen) if WAYS[way] else "")
        if told:
            common.fact(tool, by_way(told))
    shutil.rmtree(folder)
    if not common.facts:
        common.skip("nvidia_tools", "none of NVIDIA's tools is installed")
    common.finish("nvidia_tools")


if __name__ == "__main__":
    main()
