"""Arrays and a kernel of Numba: `numba_arrays.py ROUNDS`."""

import sys

import common

ROUNDS = int(sys.argv[1])
try:
    import numpy
    from numba import cuda
except ImportError as error:
    common.skip("numba_arrays", "Numba is not installed (%s)" % error)
common.await_turn()
if not cuda.is_available():
    common.skip("numba_arrays", "Numba finds no device")


@cuda.jit
def scale(array, factor):
    i = cuda.grid(1)
    if i < array.size:
        array[i] = array[i] * factor + i % 7


clock = common.Clock()
total = 0.0
for number in range(ROUNDS):
    if number == 2:
        cuda.synchronize()
        clock.begin()
    array = cuda.to_device(numpy.arange(1 << (12 + number % 8), dtype=numpy.float64))
    scale[(array.size + 255) // 256, 256](array, number / 8)
    total += float(array.copy_to_host()[::17].sum())
    del array
clock.begin()
clock.report()
common.fact("result: total", total)
common.finish("numba_arrays")
