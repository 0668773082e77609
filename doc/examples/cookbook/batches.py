"""A Python program of doc/cookbook.md that keeps every batch that it loads.

    python3 batches.py          ends as Python programs usually do
    python3 batches.py leave    leaves by _exit, as Go programs and the workers of multiprocessing do
"""

import ctypes
import os
import sys

cuda = ctypes.CDLL("libcudart.so")
kept = []


def load_batch(number):
    memory = ctypes.c_void_p()
    if cuda.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t((2 + number % 3) << 20)) != 0:
        sys.exit("batches.py: out of memory")
    return memory


def train(batches):
    for number in range(batches):
        kept.append(load_batch(number))


train(30)
if sys.argv[1:] == ["leave"]:
    os._exit(0)
