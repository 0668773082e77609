"""Array arithmetic with CuPy: `cupy_arrays.py ROUNDS [pool]`. Its own memory pool is switched off without `pool`."""

import sys

import common

ROUNDS = int(sys.argv[1])
try:
    import cupy
except ImportError as error:
    common.skip("cupy_arrays", "CuPy is not installed (%s)" % error)
common.await_turn()
try:
    cupy.cuda.runtime.getDeviceCount()
except cupy.cuda.runtime.CUDARuntimeError as error:
    common.skip("cupy_arrays", "CuPy finds no device (%s)" % error)

if sys.argv[2:] != ["pool"]:
    cupy.cuda.set_allocator(None)
    cupy.cuda.set_pinned_memory_allocator(None)
clock = common.Clock()
total = 0.0
for number in range(ROUNDS):
    if number == 2:
        cupy.cuda.Device().synchronize()
        clock.begin()
    a = cupy.arange(1 << (16 + number % 5), dtype=cupy.float64)
    b = cupy.sqrt(a * 2 + number) - cupy.sin(a)
    total += float(cupy.sort(b)[::17].sum())
cupy.cuda.Device().synchronize()
clock.begin()
clock.report()
common.fact("rounds", ROUNDS)
common.fact("result: total", total)
common.fact("version", cupy.__version__)
common.finish("cupy_arrays")
