"""Programs in PyCUDA that launch no kernel: pycuda_memory.py CASE."""

import sys

import numpy as np
import pycuda.autoinit  # noqa: F401: makes a context, and ends it
import pycuda.driver as driver
import pycuda.gpuarray
import pycuda.tools


def copies():
    total = 0
    for i in range(60):
        here = np.arange(3000 * (1 + i % 9), dtype=np.float32)
        there, twin, back = driver.mem_alloc(here.nbytes), driver.mem_alloc(here.nbytes), np.empty_like(here)
        driver.memcpy_htod(there, here)
        driver.memcpy_dtod(twin, there, here.nbytes)
        driver.memcpy_dtoh(back, twin)
        there.free()
        total += int((back == here).all())
    print("as they went:", total)


def arrays():
    array = pycuda.gpuarray.to_gpu(np.arange(10000, dtype=np.int32))
    print(array.copy().get().sum(), array[10:20].get(), array.reshape(100, 100)[3].get().sum())
    pitched, pitch = driver.mem_alloc_pitch(100, 50, 4)
    print("pitched", pitch >= 100)
    pitched.free()


def pools():
    """PyCUDA's own pools, of the device and of page-locked memory."""
    pool = pycuda.tools.DeviceMemoryPool()
    for size in (100, 5000, 70000, 3 << 20):
        held = [pool.allocate(size) for _ in range(10)]
        print(pool.active_blocks, pool.held_blocks)
        del held[::2]
        print(pool.active_blocks, pool.held_blocks)
        del held
    pool.stop_holding()
    host = pycuda.tools.PageLockedMemoryPool()
    for _ in range(5):
        here = host.allocate((1000, 10), np.float64)
        here.fill(2)
        print(pycuda.gpuarray.to_gpu(here).get().sum())
        del here
    host.stop_holding()


def streams():
    made = [driver.Stream() for _ in range(3)]
    total = 0
    for i in range(30):
        here = driver.pagelocked_empty(20000, np.int64)
        here[:] = i
        back = driver.pagelocked_empty_like(here)
        there = driver.mem_alloc(here.nbytes)
        driver.memcpy_htod_async(there, here, made[i % 3])
        driver.memcpy_dtoh_async(back, there, made[i % 3])
        event = driver.Event().record(made[i % 3])
        event.synchronize()
        total += int((back == here).all())
    print("as they went:", total)


def full():
    """Until the device has no more."""
    free, total = driver.mem_get_info()
    held = []
    try:
        for _ in range(1000):
            held.append(driver.mem_alloc(1 << 31))
    except driver.MemoryError as error:
        print(error)
    held.clear()
    print("total", driver.mem_get_info()[1] == total)
    print(pycuda.gpuarray.to_gpu(np.ones(10)).get().sum())


def contexts():
    """A second context, whose memory ends with it."""
    second = driver.Device(0).make_context()
    array = pycuda.gpuarray.to_gpu(np.ones(1 << 20))
    print(array.get().sum())
    second.pop()
    print(pycuda.gpuarray.to_gpu(np.ones(10)).get().sum())
    del array  # PyCUDA makes its context current for that
    second.detach()
    print("ended")


CASES = {function.__name__: function for function in (copies, arrays, pools, streams, full, contexts)}

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in CASES:
        sys.exit("%s One of: %s" % (__doc__, " ".join(CASES)))
    CASES[sys.argv[1]]()
