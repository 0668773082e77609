"""Asks for memory through ctypes: no frame of a native stack says that it was this script."""

import ctypes

RUNTIME = ctypes.CDLL("libcudart.so.13")


def load(size):
    memory = ctypes.c_void_p()
    if RUNTIME.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(size)):
        raise MemoryError
    return memory


KEPT = [load(8 << 20) for _ in range(4)]
