#!/usr/bin/env python3
"""Shows that two builds behave alike: the same driver calls, output, messages, snapshots, reports, and cost.

    compare-builds.py BASE_BUILD NEW_BUILD [--only PART[,PART]...] [--match TEXT] [--jobs N]

Parts:
  tool          every report, its JSON and every export of the stored snapshots, and what the fuzz corpora make of the tool
  programs      each program that the suite `prog` runs, under the library, with each of SETTINGS
  traces        each trace that NEW_BUILD has made, and of ../shared/traces if that folder exists, under the library
  instructions  callgrind's count of instructions of the library and of the tool on the same input, in release builds that
                the script makes in a temporary folder: at most 1% more

Both libraries run the programs, and the simulated GPU, of NEW_BUILD. Compared are the exit status, the output, the messages,
the simulator's log of driver calls and its counts, and each snapshot, which must also be valid. What differs between two
runs of one build is made neutral: times, process and thread numbers, the host's addresses, the folder. Runs that depend on
the order of threads are listed in UNORDERED and compared by what does not. Exit status 1: something differs.
"""

import argparse
import collections
import difflib
import glob
import json
import lzma
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import tempfile

import jsonschema

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
PARTS = ("tool", "programs", "traces", "instructions")
DIFFERENCE_LINES = 40
TIMEOUT_S = 60
ARENA = range(0x300000000000, 0x500000000000)  # of the simulator: the same in each run
MOST_INSTRUCTIONS = 1.01

# What each program of the suite `prog` runs with
SETTINGS = (
    {}, {"TYPE": "naive"}, {"TYPE": "unpooled"}, {"REUSE": "strict"}, {"REUSE": "context"},
    {"TRACE": "off"}, {"TRACE": "state"}, {"STACKS": "native"}, {"LIMIT": "64MiB", "STATS": "1"},
    {"MAX_DEFERRED": "0", "MAX_CACHED": "1MiB"}, {"VERBOSE": "2", "STATS": "1"}, {"DISABLE": "1"},
    {"SIMCUDA_DRIVER": "11040"}, {"SIMCUDA_DRIVER": "12040"},
)
# What each trace is replayed with: arguments, settings
REPLAYS = tuple((["--check", "--streams", "3"], settings) for settings in (
    {}, {"TYPE": "naive"}, {"TYPE": "unpooled"}, {"REUSE": "strict"}, {"MAX_DEFERRED": "0"},
    {"LIMIT": "2GiB"}, {"LIMIT": "4GiB"}, {"MAX_CACHED": "1GiB"}, {"TRACE_EVENTS": "2048"},
)) + (
    (["--check"], {}),
    (["--check"], {"TYPE": "naive"}),
    (["--check", "--api", "driver", "--repeat", "2"], {"REUSE": "context"}),
    (["--check", "--async"], {}),
    (["--sync-every", "0"], {}),
    (["--check", "--threads", "4"], {}),
)

# Programs that the simulator's log disturbs: a pattern of their names, and why
WITHOUT_LOG = ((r"^cancel\b", "writing a line is a point at which the simulator's caller can be cancelled"),)

# Runs of which the order of threads decides details: a pattern of their names, and why
UNORDERED = (
    (r"--threads [^1]", "threads allocate at the same time: which of them gets a cached block is luck"),
    (r"^per_thread\b", "threads allocate at the same time"),
    (r"^life (crowd|parade|fork_beside_threads|fork_during_start)", "threads allocate at the same time"),
    (r"^stacks threads", "threads allocate at the same time"),
    (r"^exits thread", "threads allocate until the process ends"),
)
# Runs in which the library asks its fences by the time that this takes, so that the calls of two runs may differ: they are
# repeated, and if no two agree compared as the above
PACED = r"^replay|^(static_route|driver_linked|two_contexts) "
TRIES = 3
ENDLESS = r"^exits thread"  # how much they allocate is luck, too


class Side:
    """One of the two builds; its programs are those of the new build."""

    def __init__(self, name, build, folder):
        self.name = name
        self.build = os.path.abspath(build)
        self.folder = os.path.join(folder, name)
        os.makedirs(self.folder)
        # Copies, since paths are in snapshots, and a build that goes on must not be compared by halves.
        self.library = os.path.join(self.folder, "libgpupool.so")
        self.tool = os.path.join(self.folder, "gpupool")
        shutil.copy(os.path.join(self.build, "interpose", "libgpupool.so"), self.library)
        shutil.copy(os.path.join(self.build, "tools", "gpupool"), self.tool)
        with open(os.path.join(self.build, "meson-info", "meson-info.json")) as file:
            self.source = json.load(file)["directories"]["source"]

    def room(self, name):
        path = os.path.join(self.folder, re.sub(r"[^A-Za-z0-9_=.-]+", "_", name)[:150])
        os.makedirs(path)
        return path


#
# Making neutral
#
def neutral_text(text, side):
    text = text.replace(side.folder, "FOLDER")
    # The library asks a device what is free every so often, by the clock.
    text = re.sub(r"^cuCtxGetCurrent .*\ncuMemGetInfo_v2 .*\n", "", text, flags=re.M)
    text = re.sub(r'"(cuMemGetInfo_v2|cuCtxGetCurrent)": \d+,?', "", text)
    text = re.sub(r"^stack used: \d+", "stack used: N", text, flags=re.M)
    text = re.sub(r"\bseconds=[0-9.]+", "seconds=TIME", text)
    text = re.sub(r"gpupool: \[\d+\]", "gpupool: [PID]", text)
    text = re.sub(r"(snapshot|sim)\.\d+\.", r"\1.PID.", text)
    text = re.sub(r"\d+ records? of programs? that did not come to (its|their) end (is|are) left.*", "RECORDS LEFT", text)
    text = re.sub(r"\b0x[5-7f][0-9a-f]{8,}", "HOST", text)
    text = re.sub(r"\b(process|thread|pid) \d+", r"\1 NUMBER", text)
    return re.sub(r"\b\d+(\.\d+)? (ns|us|ms|s)\b", "TIME", text)


def neutral_address(address):
    return address if address in ARENA or address < 1 << 32 else "host"


def neutral_stacks(snapshot):
    """The text of each stack: positions in modules, which are the same wherever these were loaded."""
    frames = []
    for frame in snapshot["frames"]:
        module = snapshot["modules"][frame["module"]] if frame["module"] >= 0 else {"path": "?", "bias": 0}
        name = os.path.basename(module["path"])
        own = name.startswith("libgpupool")  # its code is what differs
        frames.append((name, "own" if own else frame["address"] - module["bias"] if frame["module"] >= 0 else "host",
                       frame.get("function"), frame.get("file"), frame.get("line"), frame.get("inline")))
    return [str([frames[index] for index in stack]) for stack in snapshot["stacks"]] + [None]


def neutral_snapshot(snapshot):
    """Lines that say all that a snapshot holds, but what is of this run alone."""
    stacks = neutral_stacks(snapshot)
    events = snapshot["events"]
    rows = []
    for i in range(len(events["action"])):
        row = {name: events[name][i] for name in events if name not in ("actions", "details")}
        row["action"] = events["actions"][row["action"]]
        row["detail"] = events["details"][row["detail"]]
        row["address"] = neutral_address(row["address"])
        row["stack"] = stacks[row["stack"]]
        for name in ("time_ns", "duration_ns", "lifetime_ns"):
            row[name] = row[name] > 0
        rows.append(json.dumps(row))
    rest = json.loads(json.dumps(snapshot))
    for name in ("events", "frames", "stacks"):
        del rest[name]
    rest["process"].update(start_time_us=0, pid=0, host="")
    rest["names"] = [events["actions"], events["details"]]
    for device in rest["devices"]:
        device["use"] = device["use"] and device["use"]["total"]  # when it was asked is a matter of time
    if "oom" in rest:
        rest["oom"]["time_ns"] = 0
    held = rest["passthrough"] + [block for segment in rest["segments"] for block in segment["blocks"]]
    for block in held:
        block.update(time_ns=block["time_ns"] > 0, stack=stacks[block["stack"]], address=neutral_address(block["address"]))
    for thread in rest["threads"]:
        thread["tid"] = 0
    for stream in rest["streams"]:
        stream["handle"] = neutral_address(int(stream["handle"], 16))
    rest["modules"] = sorted([os.path.basename(m["path"]),
                              "" if "libgpupool" in m["path"] else m["build_id"]] for m in rest["modules"])
    rest["recorded_since_ns"] = rest["recorded_since_ns"] > 0
    lines = ["%s: %s" % (name, json.dumps(item)) for name in rest
             for item in (rest[name] if isinstance(rest[name], list) else [rest[name]])]
    return lines + rows


class Validator:
    def __init__(self, path):
        with open(path) as file:
            self.validator = jsonschema.Draft202012Validator(json.load(file))

    def problem(self, document):
        """Of many events the first are as good as all: arrays are slow to validate."""
        if "events" in document:
            events = {name: column[:300] for name, column in document["events"].items()}
            document = dict(document, events=events)
        error = next(self.validator.iter_errors(document), None)
        return "valid" if error is None else "INVALID: %s at %s" % (error.message[:200], list(error.path))


#
# One program under one library
#
class Programs:
    def __init__(self, new_build):
        self.build = os.path.abspath(new_build)
        self.sim = os.path.join(self.build, "test", "sim")
        self.validator = Validator(os.path.join(ROOT, "trace", "snapshot.schema.json"))

    def run(self, side, name, command, settings):
        """What was observed: a text by what it is."""
        folder = side.room(name)
        env = {key: value for key, value in os.environ.items() if not key.startswith(("GPUPOOL_", "SIMCUDA_", "LD_"))}
        env.update(LD_LIBRARY_PATH=self.sim, LD_PRELOAD=side.library, SIMCUDA_LOG=os.path.join(folder, "sim.%p.log"),
                   SIMCUDA_STATS=os.path.join(folder, "sim.%p.json"), GPUPOOL_RECORD=folder,
                   GPUPOOL_OUTPUT=os.path.join(folder, "snapshot.%p.%n.%r.json"))
        for key, value in settings.items():
            env[key if key.startswith("SIMCUDA_") else "GPUPOOL_" + key] = value
        if any(re.search(pattern, name) for pattern, _ in WITHOUT_LOG):
            del env["SIMCUDA_LOG"]
        command = [os.path.join(self.build, command[0])] + command[1:]
        result = subprocess.run(command, env=env, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, encoding="utf-8", errors="replace", timeout=TIMEOUT_S, check=False)
        return self.observe(side, folder, result.returncode, result.stdout, result.stderr)

    def observe(self, side, folder, status, output, messages):
        seen = {"status": str(status), "output": output, "messages": messages}
        counts = collections.Counter()
        for path in sorted(glob.glob(os.path.join(folder, "*")), key=numbers_of):
            base = re.sub(r"\.\d+\.", ".", os.path.basename(path), count=1)
            if os.path.isdir(path):
                continue
            counts[base] += 1
            base = "%s #%d" % (base, counts[base])
            with open(path, encoding="utf-8", errors="replace") as file:
                text = file.read()
            if base.startswith("snapshot."):
                snapshot = json.loads(text)
                seen[base] = "\n".join([self.validator.problem(snapshot)] + neutral_snapshot(snapshot))
            else:
                seen[base] = text
        shutil.rmtree(folder)
        return seen


def numbers_of(path):
    return [int(number) if number.isdigit() else number for number in re.split(r"(\d+)", os.path.basename(path))]


def unordered(name, seen):
    """What does not depend on the order of threads: kinds of messages and calls, and what was asked for."""
    kept = {"status": seen["status"], "output": "\n".join(sorted(re.sub(r"\d+", "N", seen["output"]).splitlines()))}
    for key, text in seen.items():
        lines = text.splitlines()
        if key.startswith("sim.log") and not re.search(ENDLESS + "|" + PACED, name):
            kept[key] = " ".join(sorted({line.split(" ")[0] for line in lines} -
                                         {"cuEventQuery", "cuEventCreate", "cuCtxRecordEvent", "cuMemFree_v2"}))
        if key.startswith("snapshot."):
            kept[key] = lines[0]
            for line in lines:
                if line.startswith("devices: ") and not re.search(ENDLESS, name):
                    stats = json.loads(line[len("devices: "):])["stats"]
                    kept[key] += "\n%s" % [stats["allocation"]["allocated"], stats["requested_bytes"]["allocated"],
                                            stats["allocation"]["current"], stats["passthrough_bytes"]["current"]]
    return kept


#
# The parts: each yields the name of a case, and what makes an observation of it for a side
#
def program_cases(programs):
    names = {}
    with open(os.path.join(programs.build, "meson-info", "intro-tests.json")) as file:
        for test in json.load(file):
            if any(suite.endswith(":prog") for suite in test["suite"]):
                separator = test["cmd"].index("--")
                options, command = test["cmd"][1:separator], test["cmd"][separator + 1:]
                sim = dict(value.split("=", 1) for option, value in zip(options, options[1:]) if option == "--set")
                command = [os.path.join(programs.build, word) if word.startswith("test/") and i else word
                           for i, word in enumerate(command)]
                names[" ".join(os.path.basename(word) for word in command)] = (command, sim)
    for name, (command, sim) in names.items():
        for settings in SETTINGS if not name.startswith("replay") else ({},):  # the traces have settings of their own
            settings = dict(sim, **settings)
            case = " ".join([name] + ["%s=%s" % item for item in settings.items()])
            yield case, lambda side, case=case, command=command, settings=settings: programs.run(
                side, case, command, settings)


def trace_files(build):
    """The project's own, and the real ones where their folder exists beside the source tree, or a work tree's origin."""
    common = subprocess.run(["git", "-C", ROOT, "rev-parse", "--path-format=absolute", "--git-common-dir"], check=False,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8").stdout.strip()
    origins = {ROOT, os.path.dirname(common)} - {""}
    return sorted(glob.glob(os.path.join(build, "test", "workloads", "*.csv"))) + sorted(
        path for origin in origins for path in glob.glob(os.path.join(origin, "..", "shared", "traces", "*.csv")))


def trace_cases(programs):
    for path in trace_files(programs.build):
        for arguments, settings in REPLAYS:
            case = " ".join(["replay", os.path.basename(path)] + arguments + ["%s=%s" % item for item in settings.items()])
            yield case, lambda side, case=case, command=["test/prog/replay", path] + arguments, settings=settings: (
                programs.run(side, case, command, settings))


def tool_inputs(folder):
    """Snapshots of every kind, unpacked: path by name."""
    inputs = {}
    for path in sorted(glob.glob(os.path.join(ROOT, "test", "golden", "*.json.xz"))):
        name = os.path.basename(path)[:-3]
        inputs[name] = os.path.join(folder, name)
        with lzma.open(path) as packed, open(inputs[name], "wb") as file:
            shutil.copyfileobj(packed, file)
    for kind in ("snapshot", "pickle"):
        for path in sorted(glob.glob(os.path.join(ROOT, "test", "fuzz", "corpus", kind, "*"))):
            name = "%s-%s" % (kind, os.path.basename(path))
            inputs[name] = os.path.join(folder, name)
            shutil.copy(path, inputs[name])
    return inputs


REPORTS = (
    ["summary"], ["timeline"], ["timeline", "--ascii", "--height", "5", "--points", "7"], ["leaks"], ["leaks", "-n", "0"],
    ["frag"], ["frag", "--at", "peak", "-n", "0"], ["frag", "--at", "1ms"], ["sites"],
) + tuple(["sites", "--sort", sort, "--by", by] for sort in ("live", "peak", "total", "count", "temporary")
          for by in ("function", "line", "module", "size")) + (
    ["summary", "--device", "0", "--since", "1ms"], ["leaks", "--stream", "0"], ["sites", "--focus", "a", "--ignore", "b"],
)
EXPORTS = ("pytorch", "pytorch-json", "perfetto", "speedscope", "folded", "csv")


def run_tool(side, arguments, folder, stdin=None):
    env = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "GPUPOOL_RECORD": folder}
    result = subprocess.run([side.tool] + arguments, cwd=folder, env=env, stdin=stdin or subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300, check=False)
    return {"status": str(result.returncode), "output": result.stdout.decode("utf-8", "backslashreplace"),
            "messages": result.stderr.decode("utf-8", "backslashreplace")}


def tool_cases(folder):
    inputs = tool_inputs(folder)
    commands = []
    for name in inputs:
        for report in REPORTS:
            commands += [[report[0], name] + report[1:], [report[0], name] + report[1:] + ["--json"]]
        commands += [["export", "--to", to, name, "-o", "-"] for to in EXPORTS]
        commands += [["export", "--to", "folded", "--metric", metric, name, "-o", "-"] for metric in ("live", "total")]
        commands += [["symbolize", name, "-o", "-"]]
    names = sorted(inputs)
    for a, b in zip(names, names[1:]):
        commands += [["diff", a, b], ["diff", a, b, "--json"], ["leaks", a, b], ["leaks", a, b, "--json"]]
    commands += [[command, "--help"] for command in ("summary", "symbolize", "live", "ctl", "export", "leaks", "sites", "frag",
                                                     "timeline", "diff", "recover", "config", "run")]
    commands += [["config"], ["config", "--json"], ["--help"], ["--version"], ["nonsense"], ["summary", "missing"]]
    for arguments in commands:
        yield "gpupool " + " ".join(arguments), lambda side, arguments=arguments: run_tool(side, arguments, folder)


#
# Instructions
#
def release_build(side, folder):
    """Release builds are what users have: no asserts, all optimizations."""
    build = os.path.join(folder, side.name + ".release")
    env = dict(os.environ)
    subprocess.run(["meson", "setup", build, side.source, "--buildtype=release", "-Db_ndebug=true", "-Dtests=disabled",
                    "-Dc_args=-g", "-Dtools=enabled"], check=True, env=env, stdout=subprocess.DEVNULL)
    subprocess.run(["ninja", "-C", build, "interpose/libgpupool.so", "tools/gpupool"], check=True, stdout=subprocess.DEVNULL)
    return build


def instructions(command, env, folder, left_out=()):
    """Instructions of a command, without those of the objects whose name begins with one of left_out."""
    path = os.path.join(folder, "callgrind.out")
    subprocess.run(["valgrind", "-q", "--tool=callgrind", "--callgrind-out-file=" + path] + command, env=env, cwd=folder,
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    total = 0
    objects = {}
    counted = True
    of_call = False  # the line after calls= is what was called, and counted where that is
    with open(path) as file:
        for line in file:
            if line.startswith("ob="):
                number, _, name = line[3:].strip().partition(" ")
                name = objects.setdefault(number, os.path.basename(name))
                counted = not name.startswith(left_out)
            elif line.startswith("cob="):
                number, _, name = line[4:].strip().partition(" ")
                objects.setdefault(number, os.path.basename(name))
            elif line.startswith("calls="):
                of_call = True
            elif line[:1] in "0123456789+-*":
                if counted and not of_call:
                    total += int(line.split()[1])
                of_call = False
    os.remove(path)
    return total


def count_cases(programs, releases, folder):
    """Name, and a function of a side: instructions. Of a replay the second pass is what counts, and apart from it the rest."""
    trace = os.path.join(folder, "trace.csv")
    with open(os.path.join(programs.build, "test", "workloads", "gpt2-medium-train.csv")) as file, open(trace, "w") as short:
        short.writelines(list(file)[:4000])

    def replay(side, passes, arguments, settings):
        for path in glob.glob(os.path.join(folder, "out.json*")):
            os.remove(path)
        env = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": programs.sim, "GPUPOOL_RECORD": folder,
               "LD_PRELOAD": os.path.join(releases[side.name], "interpose", "libgpupool.so"),
               "GPUPOOL_OUTPUT": os.path.join(folder, "out.json")}
        env.update({"GPUPOOL_" + key: value for key, value in settings.items()})
        program = os.path.join(programs.build, "test", "prog", "replay")
        return instructions([program, trace, "--repeat", str(passes)] + arguments, env, folder,
                            ("replay", "libcuda", "libcudart"))

    for name, arguments, settings in (
            ("allocate and free, nothing recorded", ["--streams", "3"], {"TRACE": "off"}),
            ("allocate and free, strict", [], {"TRACE": "off", "REUSE": "strict"}),
            ("allocate and free, recorded", ["--streams", "3"], {"TRACE": "all", "STACKS": "off"}),
            ("allocate and free, state recorded", ["--streams", "3"], {"TRACE": "state", "STACKS": "off"}),
            ("allocate and free, recorded with stacks", [], {"TRACE": "all", "STACKS": "fp"}),
            ("stream-ordered, recorded", ["--async"], {"TRACE": "all", "STACKS": "off"})):
        settings["SNAPSHOT_AT"] = "oom"

        def steady(side, arguments=arguments, settings=settings):
            return replay(side, 2, arguments, settings) - replay(side, 1, arguments, settings)
        yield name, steady
    yield "start, one pass, snapshot at the end", lambda side: replay(side, 1, [], {"STACKS": "off"})

    def tool(side, arguments):
        path = os.path.join(releases[side.name], "tools", "gpupool")
        return instructions([path] + arguments, {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}, folder)

    tool_inputs(folder)
    for arguments in (["summary", "train.json"], ["timeline", "train.json"], ["frag", "train.json", "--at", "peak"],
                      ["leaks", "oom-limit.json", "train.json"], ["sites", "leak.json"],
                      ["export", "--to", "pytorch", "train.json", "-o", "-"], ["summary", "pickle-ours"]):
        yield "gpupool " + " ".join(arguments), lambda side, arguments=arguments: tool(side, arguments)


#
# Comparing
#
def differences(name, sides, seen, in_part):
    """Lines that say how two observations differ, none if they do not."""
    if in_part:
        seen = [unordered(name, one) for one in seen]
    lines = []
    for key in sorted(set(seen[0]) | set(seen[1])):
        base, new = (one.get(key, "(none)") for one in seen)
        if base != new:  # most are equal as they are
            base, new = (neutral_text(text, side).splitlines() for side, text in zip(sides, (base, new)))
        if base != new:
            found = list(difflib.unified_diff(base, new, "base: " + key, "new: " + key, lineterm="", n=0))
            lines += [line[:400] for line in found[:DIFFERENCE_LINES]]
            if len(found) > DIFFERENCE_LINES:
                lines.append("... and %d lines more" % (len(found) - DIFFERENCE_LINES))
    return lines


class Comparison:
    """All cases of a part, run for both sides by processes that inherit the cases."""

    def __init__(self, part, cases, sides):
        self.part, self.cases, self.sides = part, list(cases), sides

    def lines(self, index):
        name, observe = self.cases[index]
        try:
            in_part = any(re.search(pattern, name) for pattern, _ in UNORDERED)
            seen = [observe(side) for side in self.sides]
            lines = differences(name, self.sides, seen, in_part)
            if not lines or in_part or not re.search(PACED, name):
                return lines
            bases, news = [seen[0]], [seen[1]]
            for _ in range(TRIES):
                bases.append(observe(self.sides[0]))
                news.append(observe(self.sides[1]))
                if not all(differences(name, self.sides, [base, new], False) for base in bases for new in news):
                    return []
            if not any(differences(name, [self.sides[0]] * 2, [bases[0], base], False) for base in bases[1:]):
                return lines  # the base is always the same, so it is not the time
            return differences(name, self.sides, seen, True) or IN_PART
        except subprocess.TimeoutExpired as error:
            return [str(error)]

    def run(self, jobs):
        """The number of cases that differ."""
        global running  # by which the forked processes find the cases
        running = self
        failed = in_part = 0
        with multiprocessing.get_context("fork").Pool(jobs) as pool:
            for index, lines in enumerate(pool.imap(lines_of, range(len(self.cases)))):
                if lines == IN_PART:
                    in_part += 1
                    print("in part: %s: %s" % (self.part, self.cases[index][0]))
                elif lines:
                    failed += 1
                    print("DIFFERS: %s: %s" % (self.part, self.cases[index][0]))
                    print("\n".join("    " + line for line in lines), flush=True)
        print("%s: compared %d, %d in part, %d differ" % (self.part, len(self.cases), in_part, failed), flush=True)
        if not self.cases:
            print("%s: no case has this name" % self.part)
        return failed + (not self.cases)


running = None
IN_PART = ["in part"]


def lines_of(index):
    return running.lines(index)


def compare_instructions(programs, sides, folder, match):
    releases = {side.name: release_build(side, folder) for side in sides}
    failed = 0
    print("%-55s %14s %14s %8s" % ("instructions", "base", "new", "new/base"))
    for name, count in count_cases(programs, releases, folder):
        if match in name:
            base, new = (count(side) for side in sides)
            failed += new > base * MOST_INSTRUCTIONS
            print("%-55s %14d %14d %8.4f%s" % (name, base, new, new / base, " MORE" * (new > base * MOST_INSTRUCTIONS)),
                  flush=True)
    print("instructions: %d grew by more than 1%%" % failed)
    return failed


def main():
    parser = argparse.ArgumentParser(usage=__doc__.replace("%", "%%"))
    parser.add_argument("base")
    parser.add_argument("new")
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--match", default="")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    parts = options.only.split(",")
    if set(parts) - set(PARTS):
        parser.error("parts are: " + ", ".join(PARTS))
    folder = tempfile.mkdtemp(prefix="gpupool-compare-")
    sides = [Side("a", options.base, folder), Side("b", options.new, folder)]
    programs = Programs(options.new)
    failed = 0
    try:
        for part in parts:
            shared = os.path.join(folder, part)
            os.mkdir(shared)
            if part == "instructions":
                failed += compare_instructions(programs, sides, shared, options.match)
                continue
            cases = {"tool": lambda: tool_cases(shared), "programs": lambda: program_cases(programs),
                     "traces": lambda: trace_cases(programs)}[part]()
            failed += Comparison(part, (case for case in cases if options.match in case[0]), sides).run(options.jobs)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print("the builds differ" if failed else "the builds behave alike")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
