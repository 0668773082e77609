"""Programs in Numba that launch no kernel: numba_memory.py CASE."""

import sys

import numpy as np
from numba import cuda


def copies():
    total = 0
    for i in range(60):
        here = np.arange(5000 * (1 + i % 9), dtype=np.float32) + i
        there = cuda.to_device(here)
        twin = cuda.device_array_like(there)
        twin.copy_to_device(there)
        total += int((twin.copy_to_host() == here).all())
    print("as they went:", total)


def streams():
    made = [cuda.stream() for _ in range(3)]
    total = 0
    for i in range(30):
        here = np.full(20000, i)
        with cuda.pinned(here):
            there = cuda.to_device(here, stream=made[i % 3])
            back = there.copy_to_host(stream=made[i % 3])
            made[i % 3].synchronize()
        total += int((back == here).all())
    print("as they went:", total)


def managed():
    both = cuda.managed_array(10000, dtype=np.int64)
    both[:] = np.arange(10000)
    mapped = cuda.mapped_array(1000, dtype=np.int32)
    mapped[:] = 7
    pinned = cuda.pinned_array(1000, dtype=np.int32)
    pinned[:] = 8
    print(both.sum(), mapped.sum(), cuda.to_device(pinned).copy_to_host().sum())


def views():
    there = cuda.to_device(np.arange(1000).reshape(10, 100))
    parts = [there[i] for i in range(10)]
    del there
    print([int(part.copy_to_host().sum()) for part in parts])
    record = np.zeros(5, dtype=[("a", np.int32), ("b", np.float64)])
    record["b"] = 3
    print(cuda.to_device(record).copy_to_host()["b"].sum())


def full():
    """Until the device has no more."""
    context = cuda.current_context()
    before = context.get_memory_info()
    held = []
    try:
        for _ in range(1000):
            held.append(cuda.device_array(1 << 31, dtype=np.uint8))
    except cuda.cudadrv.driver.CudaAPIError as error:
        print(error)
    held.clear()
    context.deallocations.clear()
    print("total", before.total == context.get_memory_info().total)
    print(cuda.to_device(np.ones(10)).copy_to_host().sum())


def closed():
    """Numba pops its context, and then frees what it has put off."""
    for i in range(5):
        there = [cuda.to_device(np.ones(1000 << j)) for j in range(8)]
        del there
        cuda.close()
        print("closed", i)
    print(cuda.to_device(np.ones(10)).copy_to_host().sum())


CASES = {function.__name__: function for function in (copies, streams, managed, views, full, closed)}

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in CASES:
        sys.exit("%s One of: %s" % (__doc__, " ".join(CASES)))
    CASES[sys.argv[1]]()
