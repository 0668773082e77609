"""Programs in pygpu that launch no kernel: pygpu_memory.py CASE."""

import sys

import numpy as np
import pygpu


def copies(context):
    total = 0
    for i in range(60):
        here = np.arange(3000 * (1 + i % 9), dtype="float32")
        there = pygpu.gpuarray.array(here, context=context)
        twin = there.copy()
        total += int((np.asarray(twin) == here).all())
    print("as they went:", total)


def views(context):
    there = pygpu.gpuarray.array(np.arange(10000, dtype="int32"), context=context)
    parts = [there[1000 * i:1000 * (i + 1)] for i in range(10)]
    del there
    print([int(np.asarray(part).sum()) for part in parts])
    print(np.asarray(pygpu.gpuarray.zeros((100, 100), dtype="float32", context=context)).sum())


def full(context):
    """Until the device has no more."""
    held = []
    try:
        for _ in range(1000):
            held.append(pygpu.gpuarray.empty((1 << 31,), dtype="uint8", context=context))
    except pygpu.gpuarray.GpuArrayException as error:
        print(type(error).__name__)
    held.clear()
    print(np.asarray(pygpu.gpuarray.array(np.ones(10), context=context)).sum())


CASES = {function.__name__: function for function in (copies, views, full)}

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in CASES:
        sys.exit("%s One of: %s" % (__doc__, " ".join(CASES)))
    CASES[sys.argv[1]](pygpu.init("cuda0"))
