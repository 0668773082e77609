"""gpupool.py: the functions of a Python program under the library, on the simulated GPU."""

import json
import os
import sys
import unittest

from harness import LIBRARY, PreloadCase, SOURCE

MODULE = os.path.join(SOURCE, "interpose", "api")
PYTHON = os.path.realpath(sys.executable)

# A program that uses the runtime through ctypes, as any other would through its own bindings.
HEAD = """
import ctypes, json, sys
sys.path.insert(0, %r)
import gpupool
MIB = 1 << 20
runtime = None

def call(name, *arguments):
    global runtime
    runtime = runtime or ctypes.CDLL("libcudart.so.13")
    result = getattr(runtime, name)(*arguments)
    assert result == 0, (name, result)

def allocate(size):
    memory = ctypes.c_void_p()
    call("cudaMalloc", ctypes.byref(memory), ctypes.c_size_t(size))
    return memory

def free(memory):
    call("cudaFree", memory)

def raised(function, *arguments):
    try:
        function(*arguments)
    except Exception as error:
        return type(error).__name__
    return None

def equal(got, expected):
    assert got == expected, (got, expected)
""" % MODULE

EVERY = """
def every():
    return sorted({raised(function, *arguments) for function, arguments in (
        (gpupool.memory_allocated, ()), (gpupool.memory_cached, (0,)), (gpupool.memory_reserved, ()), (gpupool.max_memory_allocated, ()),
        (gpupool.max_memory_cached, ()), (gpupool.max_memory_reserved, (0,)), (gpupool.memory_stats, ()), (gpupool.memory_summary, ()),
        (gpupool.gpu_memory_info, ()), (gpupool.empty_cache, ()), (gpupool.reset_peak_memory_stats, ()), (gpupool.reset_memory_stats, ()),
        (gpupool.set_limit, (MIB,)), (gpupool.set_memory_debug, ()), (gpupool.record_memory_history, ()), (gpupool.dump_snapshot, ()),
        (gpupool.retain, (4096,)), (gpupool.release, (4096,)), (gpupool.mark, ("x",)), (gpupool.profile_memory().__enter__, ()))}, key=str)
"""


class PythonCase(PreloadCase):
    def run_python(self, body, **settings):
        run = self.run_program(PYTHON, "-c", HEAD + body, **settings)
        self.assertEqual(run.status, 0, run.err[-2000:])
        return run


class Without(PythonCase):
    def test_the_library(self):
        self.run_python(EVERY + "allocate(MIB); equal(every(), ['NotLoadedError']); equal(gpupool.is_loaded(), False)\n"
                        "try: gpupool.memory_stats()\nexcept gpupool.NotLoadedError as error: equal('gpupool path' in str(error), True)",
                        preload=None)

    def test_a_preload(self):
        """A library that was merely opened sees no calls: it says so, and begins nothing."""
        self.run_python(EVERY + "gpupool._PROCESS = ctypes.CDLL(%r); allocate(MIB); equal(every(), ['NotLoadedError'])\n"
                        "equal(gpupool.is_loaded(), False)" % LIBRARY, preload=None)

    def test_a_driver(self):
        self.run_python(EVERY + "equal(gpupool.is_loaded(), True); equal(every(), ['InactiveError']); allocate(MIB)\n"
                        "equal(gpupool.memory_allocated(), MIB)")

    def test_a_pool(self):
        self.run_python(EVERY + "allocate(MIB); equal(every(), ['InactiveError'])", DISABLE="1")


class Statistics(PythonCase):
    def test_what_is_held(self):
        self.run_python("""
memory = [allocate(4 * MIB), allocate(MIB)]
free(memory[0]); call("cudaDeviceSynchronize")
equal((gpupool.memory_allocated(), gpupool.memory_cached(0), gpupool.memory_reserved()), (MIB, 4 * MIB, 5 * MIB))
equal((gpupool.max_memory_allocated(), gpupool.max_memory_cached(), gpupool.max_memory_reserved()), (5 * MIB, 4 * MIB, 5 * MIB))
allocate(4 * MIB)
stats = gpupool.memory_stats()
equal({name: stats[name] for name in ("allocated_bytes", "cached_bytes", "reserved_bytes", "inactive_split_bytes", "active_bytes",
       "cache_hit_rate", "num_allocations", "num_cache_hits", "num_cache_misses", "peak_allocated", "peak_cached", "allocated_bytes.all.freed")},
      {"allocated_bytes": 5 * MIB, "cached_bytes": 0, "reserved_bytes": 5 * MIB, "inactive_split_bytes": 0, "active_bytes": 5 * MIB,
       "cache_hit_rate": 0.333333, "num_allocations": 3, "num_cache_hits": 1, "num_cache_misses": 2, "peak_allocated": 5 * MIB,
       "peak_cached": 4 * MIB, "allocated_bytes.all.freed": 4 * MIB})
assert "device 0" in gpupool.memory_summary() and "allocated_bytes" in gpupool.memory_summary(0)
equal(raised(gpupool.memory_allocated, -3), "GpupoolError")
""")

    def test_devices_that_there_are_not(self):
        """A number that no int of C holds does not become another one."""
        self.run_python("""
memory = allocate(4 * MIB)
for device in (1, 63, 64, -2, 2**31, 2**32, 2**32 - 1, 2**40, -2**32, 2**64):
    for function, arguments in ((gpupool.memory_allocated, (device,)), (gpupool.memory_stats, (device,)), (gpupool.memory_summary, (device,)),
                                (gpupool.gpu_memory_info, (device,)), (gpupool.set_limit, (MIB, device)), (gpupool.reset_peak_memory_stats, (device,)),
                                (gpupool.reset_memory_stats, (device,)), (gpupool.profile_memory(device).__enter__, ())):
        equal((function.__name__, device, raised(function, *arguments)), (function.__name__, device, "GpupoolError"))
for level in (3, 2**32, 2**40):
    equal((level, raised(gpupool.set_memory_debug, level)), (level, "GpupoolError"))
equal(gpupool.memory_allocated(0), 4 * MIB)
free(memory)
""")

    def test_pytorchs_names(self):
        """Of those that are documented, all that the pool can tell."""
        self.run_python("""
allocate(MIB)
stats = gpupool.memory_stats()
for name in ("allocation", "segment", "allocated_bytes", "reserved_bytes", "active_bytes", "inactive_split_bytes", "requested_bytes"):
    for part in ("current", "peak", "allocated", "freed"):
        assert "%s.all.%s" % (name, part) in stats, name
for name in ("num_alloc_retries", "num_ooms", "num_sync_all_streams", "num_device_alloc", "num_device_free"):
    assert name in stats, name
""")

    def test_resets(self):
        self.run_python("""
memory = allocate(4 * MIB); allocate(MIB); free(memory)
gpupool.reset_peak_memory_stats()
equal((gpupool.max_memory_allocated(), gpupool.memory_stats()["num_allocations"]), (MIB, 2))
free(allocate(2 * MIB))
gpupool.reset_memory_stats(0)
equal((gpupool.max_memory_allocated(), gpupool.memory_stats()["num_allocations"]), (MIB, 0))
""")


class Profiles(PythonCase):
    def test_what_happened_inside(self):
        self.run_python("""
kept, before = allocate(MIB), allocate(16 * MIB)
free(before); call("cudaDeviceSynchronize")
profile = gpupool.profile_memory()
equal(raised(profile.peak_memory), "GpupoolError")
with profile as same:
    assert same is profile
    free(allocate(4 * MIB)); free(allocate(16 * MIB))
free(allocate(32 * MIB))
equal(profile.peak_memory(), 17 * MIB)
report = profile.report()
equal({name: report[name] for name in ("allocations", "frees", "allocated_bytes", "cache_hits", "cache_misses", "cache_hit_rate")},
      {"allocations": 2, "frees": 2, "allocated_bytes": 20 * MIB, "cache_hits": 1, "cache_misses": 1, "cache_hit_rate": 0.5})
assert report["duration_ns"] > 0
assert "peak_allocated" in profile.memory_summary() and str(17 * MIB) in profile.memory_summary()
equal([(event["action"], event["size"], event["hit"]) for event in profile.events() if event["action"] == "alloc"],
      [("alloc", 4 * MIB, 0), ("alloc", 16 * MIB, 1)])
equal(raised(profile.__enter__), "GpupoolError")
""", SNAPSHOT_AT="none")

    def test_marks(self):
        run = self.run_python("allocate(MIB); gpupool.mark('epoch 1'); gpupool.dump_snapshot('marked.json')", SNAPSHOT_AT="none")
        with open(os.path.join(run.folder, "marked.json")) as file:
            self.assertEqual([(mark["kind"], mark["name"]) for mark in json.load(file)["marks"]], [("mark", "epoch 1")])


class Requests(PythonCase):
    def test_cache_limit_and_info(self):
        self.run_python("""
free(allocate(4 * MIB)); call("cudaDeviceSynchronize")
equal((gpupool.empty_cache(), gpupool.empty_cache()), (4 * MIB, 0))
gpupool.set_limit(8 * MIB)
equal(gpupool.gpu_memory_info(), (8 * MIB, 8 * MIB))
equal(raised(allocate, 9 * MIB), "AssertionError")
equal((raised(gpupool.set_limit, 0), raised(gpupool.set_limit, -5)), ("ValueError", "ValueError"))
gpupool.set_limit(None, 0)
allocate(9 * MIB)
""")

    def test_snapshots_and_recording(self):
        run = self.run_python("""
gpupool_was = allocate(MIB)
first = gpupool.dump_snapshot("mine.json")
gpupool.record_memory_history("state")
equal((first, gpupool.dump_snapshot("mine.json"), raised(gpupool.record_memory_history, "some")), ("mine.json", "mine.json.1", "ValueError"))
gpupool.record_memory_history(None)
with open(gpupool.dump_snapshot()) as file:
    equal(json.load(file)["settings"]["trace"], "off")
equal(raised(gpupool.dump_snapshot, "no/such/folder.json"), "FileNotFoundError")
""", SNAPSHOT_AT="none")
        for name, mode in (("mine.json", "all"), ("mine.json.1", "state")):
            with open(os.path.join(run.folder, name)) as file:
                self.assertEqual(json.load(file)["settings"]["trace"], mode)

    def test_debug(self):
        run = self.run_python("allocate(MIB); gpupool.set_memory_debug(); gpupool.dump_snapshot('a.json')\n"
                              "gpupool.set_memory_debug(False); gpupool.dump_snapshot('b.json')")
        self.assertIn("snapshot written: a.json", run.err)
        self.assertNotIn("b.json", run.err)

    def test_references(self):
        self.run_python("""
memory = allocate(4 * MIB)
gpupool.retain(memory); free(memory); call("cudaDeviceSynchronize")
other = allocate(4 * MIB)
assert other.value != memory.value
gpupool.release(memory); call("cudaDeviceSynchronize")
equal(allocate(4 * MIB).value, memory.value)
equal(raised(gpupool.release, memory), "GpupoolError")
""")


if __name__ == "__main__":
    unittest.main()
