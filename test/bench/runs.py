"""Runs the programs of this folder and reads what they print. For table.py and traces.py."""

import ctypes.util
import json
import os
import subprocess
import tempfile


CAPACITY = "1024GiB"  # 50,000 blocks of mixed sizes are more than a device has


class Build:
    """The programs of one build folder, with the effort that is wanted of them."""

    def __init__(self, path, is_quick):
        self.path = os.path.abspath(path)
        self.is_quick = is_quick
        self.effort = ["--pairs", "3200", "--rounds", "12"] if is_quick else ["--pairs", "6400", "--rounds", "60"]
        self.sim = os.path.join(self.path, "test", "sim")
        self.library = os.path.join(self.path, "interpose", "libgpupool.so")
        self.mimalloc = ctypes.util.find_library("mimalloc")

    def program(self, name):
        return os.path.join(self.path, "test", "bench", name)

    def has(self, name):
        return os.path.exists(self.program(name))

    def environment(self, settings, preload, folder):
        env = {key: value for key, value in os.environ.items() if not key.startswith(("GPUPOOL_", "SIMCUDA_", "LD_"))}
        env.update(LD_LIBRARY_PATH=self.sim, GPUPOOL_RECORD=folder, SIMCUDA_CAPACITY=CAPACITY)
        env.update(settings)
        env["GPUPOOL_OUTPUT"] = os.path.join(folder, "snapshot.%n.json")
        env["SIMCUDA_STATS"] = os.path.join(folder, "sim.json")
        if preload:
            env["LD_PRELOAD"] = preload
        return env


def run(build, command, settings, preload=None):
    """Its output, and the simulated driver's counts: {} where none was used."""
    with tempfile.TemporaryDirectory() as folder:
        result = subprocess.run(command, env=build.environment(settings, preload, folder), check=True, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        counts = {}
        path = os.path.join(folder, "sim.json")
        if os.path.exists(path):
            with open(path) as file:
                counts = json.load(file)
    return result.stdout, counts


class Figure:
    """ns (or bytes), and the C library's pair in ns, measured just before."""

    def __init__(self, value, host):
        self.value = value
        self.host = host

    @property
    def ratio(self):
        return self.value / self.host


def measure(build, name, workloads, settings=None, preload=None):
    """Figures by the workload's name, and the simulated driver's counts of calls. Each workload in a process of its own, since
    what one leaves in a pool is no other's; `A B` are two in one process."""
    figures = {}
    calls = {}
    for workload in workloads:
        output, counts = run(build, [build.program(name)] + build.effort + workload.split(), settings or {}, preload)
        calls[workload] = counts.get("calls", {})
        for line in output.splitlines():
            part, value, host = line.split()
            figures[part] = Figure(float(value), float(host))
    return figures, calls
