"""NVML's question for the memory of a device: its own answer, or that of cudaMemGetInfo under a limit."""

import os
import re
import sys
import unittest

from harness import GIB, PROG, PreloadCase

NVML = os.path.join(PROG, "nvml", "libnvidia-ml.so.1")
OWN = [("total", 81 * GIB), ("free", 70 * GIB), ("used", 11 * GIB)]
OWN_V2 = [("total", 81 * GIB), ("reserved", GIB), ("free", 70 * GIB), ("used", 10 * GIB)]
LIMITED = [("total", 8 * GIB), ("free", 7 * GIB), ("used", GIB)]
# As pynvml does it.
PYTHON = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
context, memory, bytes_of = ctypes.c_void_p(), ctypes.c_uint64(), (ctypes.c_ulonglong * 3)()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(1 << 30)) == 0
nvml = ctypes.CDLL(%r)
device = ctypes.c_void_p()
assert nvml.nvmlDeviceGetHandleByIndex_v2(1, ctypes.byref(device)) == 0
assert nvml.nvmlDeviceGetMemoryInfo(device, bytes_of) == 0
print("nvml 1: total=%%d free=%%d used=%%d" %% tuple(bytes_of))
"""


class Nvml(PreloadCase):
    def ask(self, *args, program="nvml/nvml_loads", **settings):
        run = self.run_program(program, *args, **{"SIMCUDA_DEVICES": "2", **settings})
        self.assertEqual(run.status, 0, run.out + run.err)
        run.told = {name: [(word, int(number)) for word, number in re.findall(r"(\w+)=(\d+)", rest)]
                    for name, rest in re.findall(r"^(\w+ \d): (.*)$", run.out, re.M)}
        return run

    WAYS = (("nvml/nvml_loads", NVML), ("nvml/nvml_linked", "linked"))

    def test_under_a_limit_it_is_cudas_answer(self):
        """NVML's device 1 is CUDA's device 0. The other one the program does not use."""
        for program, way in self.WAYS:
            with self.subTest(way=way):
                told = self.ask(way, "cuda", program=program, LIMIT="8GiB", NVML="limit").told
                self.assertEqual(told["cuda 0"], LIMITED[:2])
                self.assertEqual(told["nvml 1"], LIMITED)
                self.assertEqual(told["nvml_v2 1"], [LIMITED[0], ("reserved", 0)] + LIMITED[1:])
                self.assertEqual((told["nvml 0"], told["nvml_v2 0"]), (OWN, OWN_V2))

    def test_else_it_is_nvmls_answer(self):
        for program, way in self.WAYS:
            for settings in ({"LIMIT": "8GiB"}, {"NVML": "limit"}, {"NVML": "limit", "LIMIT": "1=8GiB"},
                             {"NVML": "limit", "LIMIT": "8GiB", "DISABLE": "1"}):
                with self.subTest(way=way, **settings):
                    told = self.ask(way, "cuda", program=program, **settings).told
                    for i in "01":
                        self.assertEqual((told["nvml " + i], told["nvml_v2 " + i]), (OWN, OWN_V2))

    def test_a_program_without_cuda_gets_nvmls_answer(self):
        """As nvidia-smi, which inherits the environment. The library does not start."""
        for program, way in self.WAYS:
            with self.subTest(way=way):
                run = self.ask(way, program=program, LIMIT="8 bananas", NVML="limit")
                for i in "01":
                    self.assertEqual((run.told["nvml " + i], run.told["nvml_v2 " + i]), (OWN, OWN_V2))
                self.assertEqual((run.err, run.snapshot_paths()), ("", []))

    def test_python(self):
        run = self.ask("-c", PYTHON % NVML, program=sys.executable, LIMIT="8GiB", NVML="limit")
        self.assertEqual(run.told["nvml 1"], LIMITED)

    def test_without_nvml_there_is_no_such_function(self):
        self.assertIn("absent: not found, not found", self.ask("absent", LIMIT="8GiB", NVML="limit").out)
        self.assertIn("absent: found, found", self.ask("absent", program="nvml/nvml_linked", NVML="limit").out)

    def test_what_nvml_refuses_is_refused(self):
        plain = self.ask("wrong", NVML, preload=None).out
        self.assertIn("wrong: 2 2 2", plain)
        self.assertIn("wrong: 2 2 2", self.ask("wrong", NVML, LIMIT="8GiB", NVML="limit").out)


if __name__ == "__main__":
    unittest.main()
