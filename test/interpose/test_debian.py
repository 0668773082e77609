"""FFmpeg, Numba and PyCUDA, as a distribution ships them: the same output, messages and exit status with the library as
without, in every reuse mode and with types that cut memory. A program that is not installed is left out; exit status 77 if none is.

They need no GPU and no display. Debian's Numba 0.56 knows no driver newer than 12: it calls cuCtxGetDevice_v2 with the
parameters of cuCtxGetDevice. So a driver of 12.5 is simulated.
"""

import os
import shutil
import subprocess
import sys
import unittest

from harness import LIBRARY, PreloadCase

DRIVER = "12050"
SETTINGS = ({}, {"REUSE": "strict"}, {"TYPE": "segment"}, {"TYPE": "vmm"})
PYTHON = "/usr/bin/python3"  # the distribution's, which has its modules
FFMPEG = shutil.which("ffmpeg")


def has_module(name):
    """Whether Python finds it; importing it would load the driver."""
    code = "import importlib.util, sys; sys.exit(importlib.util.find_spec('%s') is None)" % name
    return os.path.exists(PYTHON) and subprocess.run([PYTHON, "-c", code], stderr=subprocess.DEVNULL).returncode == 0


HAS_NUMBA, HAS_PYCUDA = has_module("numba"), has_module("pycuda")


class Same(PreloadCase):
    def same(self, program, *args, status=0, least_allocations=1):
        """Returns what it prints."""
        folder = self.driver_folder(DRIVER)
        if not os.path.lexists(os.path.join(folder, "libcuda.so")):  # Numba tries that name first
            os.symlink("libcuda.so.1", os.path.join(folder, "libcuda.so"))
        plain = self.run_program(program, *args, preload=None, driver=DRIVER)
        self.assertEqual(plain.status, status, plain.err)
        for settings in SETTINGS:
            with self.subTest(**settings):
                run = self.run_program(program, *args, preload=LIBRARY, driver=DRIVER, LOG=os.devnull, **settings)
                self.assertEqual((run.status, run.out, run.err), (plain.status, plain.out, plain.err))
                self.expect_clean(run)
                (stats,) = [device["stats"] for device in run.snapshot()["devices"]]
                self.assertGreaterEqual(stats["allocation"]["allocated"], least_allocations)
        return plain.out


@unittest.skipUnless(FFMPEG, "ffmpeg is not installed")
class Ffmpeg(Same):
    SOURCE = ("-f", "lavfi", "-i", "testsrc=size=320x240:rate=10:duration=1")

    def ffmpeg(self, *args):
        return self.same(FFMPEG, "-hide_banner", "-nostdin", "-nostats", "-loglevel", "warning", *args)

    def test_up_and_down(self):
        """The frames that come back from the device are those that went there."""
        for pixels in ("nv12", "yuv420p", "p010"):
            filters = ("-vf", "format=%s,hwupload_cuda,hwdownload,format=%s" % (pixels, pixels))
            there = self.ffmpeg("-init_hw_device", "cuda=gpu:0", *self.SOURCE, *filters, "-f", "framemd5", "-")
            never = self.run_program(FFMPEG, "-loglevel", "error", "-nostdin", *self.SOURCE, "-pix_fmt",
                                     {"p010": "p010le"}.get(pixels, pixels), "-f", "framemd5", "-", preload=None).out
            self.assertEqual(there, never)
            self.assertIn("\n0, ", there)

    def test_primary_context(self):
        self.ffmpeg("-init_hw_device", "cuda=gpu:0,primary_ctx=1", "-filter_hw_device", "gpu", *self.SOURCE,
                    "-vf", "format=nv12,hwupload,hwdownload,format=nv12", "-f", "md5", "-")

    def test_two_graphs_of_filters(self):
        chain = "format=nv12,hwupload_cuda,hwdownload,format=nv12"
        self.ffmpeg("-init_hw_device", "cuda", *self.SOURCE, *self.SOURCE, "-filter_complex",
                    "[0:v]%s[a];[1:v]hflip,%s[b];[a][b]hstack" % (chain, chain), "-f", "md5", "-")


@unittest.skipUnless(HAS_NUMBA, "python3-numba is not installed")
class Numba(Same):
    def numba(self, code, **expected):
        return self.same(PYTHON, "-c", "import numpy as np\nfrom numba import cuda\n" + code, **expected)

    def test_copies(self):
        self.numba("""
for i in range(20):
    there = cuda.to_device(np.arange(10000, dtype=np.float32) + i)
    twin = cuda.device_array_like(there)
    twin.copy_to_device(there)
    print(twin.copy_to_host().sum())
""", least_allocations=40)

    def test_streams_and_pinned_memory(self):
        self.numba("""
streams = [cuda.stream() for _ in range(3)]
for i in range(12):
    host = np.full(5000, i)
    with cuda.pinned(host):
        there = cuda.to_device(host, stream=streams[i % 3])
        back = there.copy_to_host(stream=streams[i % 3])
        streams[i % 3].synchronize()
    print(back.sum())
""", least_allocations=12)

    def test_free_memory_and_its_end(self):
        self.numba("""
context = cuda.current_context()
before = context.get_memory_info().free
held = [cuda.device_array(1 << 20, dtype=np.uint8) for _ in range(4)]
print(before - context.get_memory_info().free)
del held
context.deallocations.clear()
print(before - context.get_memory_info().free)
try:
    held = [cuda.device_array(1 << 32, dtype=np.uint8) for _ in range(1000)]
except Exception as error:
    print(error)
""", least_allocations=4)

    def test_memory_freed_without_a_context(self):
        """Numba pops its context, and frees then."""
        self.numba("there = cuda.to_device(np.ones(1000))\ndel there\ncuda.close()")

    def test_a_bad_end(self):
        self.numba("there = cuda.to_device(np.ones(10)); raise ValueError('here')", status=1)
        self.numba("there = cuda.to_device(np.ones(10)); raise SystemExit(3)", status=3)


@unittest.skipUnless(HAS_PYCUDA, "python3-pycuda is not installed")
class Pycuda(Same):
    def pycuda(self, code, **expected):
        return self.same(PYTHON, "-c", "import numpy as np, pycuda.autoinit, pycuda.driver as driver\n" + code, **expected)

    def test_copies(self):
        self.pycuda("""
for i in range(20):
    here = np.arange(1000 * (i + 1), dtype=np.float32)
    there, twin, back = driver.mem_alloc(here.nbytes), driver.mem_alloc(here.nbytes), np.empty_like(here)
    driver.memcpy_htod(there, here)
    driver.memcpy_dtod(twin, there, here.nbytes)
    driver.memcpy_dtoh(back, twin)
    there.free()
    print(back.sum())
""", least_allocations=40)

    def test_arrays_and_pools(self):
        self.pycuda("""
import pycuda.gpuarray, pycuda.tools
array = pycuda.gpuarray.to_gpu(np.arange(10000, dtype=np.int32))
print(array.copy().get().sum(), array[10:20].get())
pool = pycuda.tools.DeviceMemoryPool()
blocks = [pool.allocate(1 << order) for order in range(4, 20)]
print(pool.active_blocks, pool.held_blocks)
del blocks
print(pool.active_blocks, pool.held_blocks)
pool.free_held()
""", least_allocations=18)

    def test_kernel(self):
        """The simulator knows it by its name."""
        self.assertEqual(self.pycuda("""
fill = driver.module_from_buffer(b"").get_function("simcuda_fill")
for value in range(1, 10):
    there, back = driver.mem_alloc(8000), np.empty(1000, np.uint64)
    fill(there, np.uint64(1000), np.uint64(value), block=(1, 1, 1), grid=(1, 1))
    driver.memcpy_dtoh(back, there)
    there.free()
    print(back.sum())
""", least_allocations=9).split()[-1], "9000")

    def test_contexts(self):
        self.pycuda("""
for i in range(3):
    context = driver.Device(0).make_context()
    there, back = driver.mem_alloc(4096), np.empty(4096, np.uint8)
    driver.memset_d8(there, i, 4096)
    driver.memcpy_dtoh(back, there)
    print(back.sum())
    context.pop()
    if i == 1:
        there.free()
    context.detach()
""", least_allocations=3)

    def test_what_is_left(self):
        self.pycuda("held = [driver.mem_alloc(1000) for _ in range(30)]; raise RuntimeError('here')", status=1,
                    least_allocations=30)


if __name__ == "__main__":
    if not (FFMPEG or HAS_NUMBA or HAS_PYCUDA):
        print("none of ffmpeg, python3-numba and python3-pycuda is installed")
        sys.exit(77)
    unittest.main()
