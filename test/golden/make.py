#!/usr/bin/env python3
"""Makes the snapshots of this folder anew, by running programs on the simulated GPU under the library.

    make.py BUILD_FOLDER [NAME...]

Without names all of them. What says where they were made (paths, host, process) is replaced; times are those of the run. Afterwards
`test_golden.py --update` writes the expected outputs, which have to be read.
"""

import json
import lzma
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
MODEL, TEXT = "gpt2-medium-train.csv", "llm-inference-growing-cache.csv"

# name: reason, program, arguments, settings
RUNS = {
    "train": ("exit", "test/prog/replay", [MODEL, "--streams", "4"], {"TRACE_EVENTS": "5000", "STACKS": "off"}),
    "oom-limit": ("oom", "test/prog/replay", [MODEL], {"LIMIT": "2GiB", "STACKS": "off"}),
    "oom-cached": ("oom", "test/prog/replay", [TEXT],
                   {"LIMIT": "2600MiB", "TRACE_EVENTS": "4000", "STACKS": "off"}),
    "leak": ("exit", "test/golden/devices", [], {"STACKS": "native"}),
    "oom-stacks": ("oom", "test/golden/devices", [], {"STACKS": "native", "LIMIT": "200MiB"}),
    "two-limits": ("oom", "test/golden/devices", [], {"STACKS": "native", "LIMIT": "0=1GiB,1=100MiB"}),
    "no-events": ("exit", "test/golden/devices", [], {"TRACE": "state", "STACKS": "off"}),
    "surplus": ("exit", "test/prog/waiting_surplus", ["hit", "much"],
                {"SIMCUDA_CAPACITY": "1GiB", "MAX_CACHED": "8MiB", "STACKS": "off"}),
    "growing-cache": ("oom", "test/golden/growing_cache", [], {"STACKS": "native", "LIMIT": "2GiB"}),
    "oom-busy": ("oom", "test/prog/waiting_memory", ["pooled", "idle"],
                 {"SIMCUDA_CAPACITY": "1GiB", "RESERVE": "0", "PATIENCE": "1", "STACKS": "off"}),
    "pieces": ("oom", "test/prog/remedies",
               ["load:%d" % (48 << 20), "pass:%d" % (16 << 20)] * 12 + ["free:pass", "synchronize", "grow:%d" % (400 << 20)],
               {"SIMCUDA_CAPACITY": "1GiB", "RESERVE": "0", "TYPE": "segment", "STACKS": "native"}),
}


def neutral(snapshot, arguments):
    """The same snapshot from a machine that is nowhere."""
    process = snapshot["process"]
    name = os.path.basename(process["program"])
    process.update(program="/usr/bin/" + name, host="node1", pid=4711, start_time_us=1760000000000000,
                   command_line=[name] + [os.path.basename(argument) for argument in arguments])
    snapshot["settings"]["output"] = "gpupool.%e.%h.%p.%r.json"
    snapshot["settings"]["sources"].pop("output", None)
    for i, thread in enumerate(snapshot["threads"]):
        thread["tid"] = 4711 + i
    for module in snapshot["modules"]:
        module["path"] = "/usr/lib/" + os.path.basename(module["path"])
    for frame in snapshot["frames"]:
        if frame.get("file"):
            frame["file"] = "/src/" + os.path.basename(frame["file"])
    return snapshot


def main(build, names):
    for name in names or RUNS:
        reason, program, arguments, settings = RUNS[name]
        arguments = [os.path.join(build, "test/workloads", argument) if argument in (MODEL, TEXT) else argument for argument in arguments]
        with tempfile.TemporaryDirectory() as folder:
            env = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": os.path.join(build, "test/sim"),
                   "LD_PRELOAD": os.path.join(build, "interpose/libgpupool.so"), "SIMCUDA_DEVICES": "4",
                   "GPUPOOL_OUTPUT": os.path.join(folder, "%r.json")}
            env.update({key if key.startswith("SIMCUDA_") else "GPUPOOL_" + key: value for key, value in settings.items()})
            subprocess.run([os.path.join(build, program)] + arguments, env=env, cwd=folder,
                           check=reason == "exit", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            # Names belong to the input: the test has neither these files nor their debug information.
            subprocess.run([os.path.join(build, "tools/gpupool"), "symbolize", reason + ".json", "-o", "named.json"],
                           cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            with open(os.path.join(folder, "named.json"), encoding="utf-8") as file:
                snapshot = neutral(json.load(file), arguments)
        text = json.dumps(snapshot, separators=(",", ":"))
        with lzma.open(os.path.join(HERE, name + ".json.xz"), "wb", preset=9 | lzma.PRESET_EXTREME) as file:
            file.write(text.encode())


if __name__ == "__main__":
    if len(sys.argv) < 2 or not RUNS.keys() >= set(sys.argv[2:]):
        sys.exit(__doc__)
    main(os.path.abspath(sys.argv[1]), sys.argv[2:])
