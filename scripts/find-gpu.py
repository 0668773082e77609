#!/usr/bin/env python3
"""Is there a GPU that a program linked to the shared CUDA runtime can use?

    find-gpu.py CUDA_INCLUDE RUNTIME

RUNTIME is the name of the runtime that the program wants, libcudart.so.13. It is looked for in the toolkit of
CUDA_INCLUDE, then where the loader looks. If it finds a device, prints three lines: the folder of the runtime (empty:
the loader finds it), the name of the device, its free memory in MiB. Else prints why not on stderr; exit status 1.
"""

import ctypes
import os
import sys


def call(library, name, *args):
    status = getattr(library, name)(*args)
    if status:
        text = ""
        if name.startswith("cuda"):
            library.cudaGetErrorString.restype = ctypes.c_char_p
            text = ": " + library.cudaGetErrorString(status).decode()
        sys.exit("%s says error %d%s" % (name, status, text))


def main():
    include, name = sys.argv[1:]
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        sys.exit("no CUDA driver (libcuda.so.1) is installed")
    call(driver, "cuInit", 0)

    toolkit = os.path.realpath(include)
    folders = [os.path.normpath(os.path.join(toolkit, up, lib)) for up in ("..", "../../..") for lib in ("lib64", "lib")]
    folder = next((f for f in folders if os.path.exists(os.path.join(f, name))), "")
    try:
        runtime = ctypes.CDLL(os.path.join(folder, name))
    except OSError:
        sys.exit("there is a CUDA driver, but no %s: install the runtime of the CUDA Toolkit" % name)
    count = ctypes.c_int()
    call(runtime, "cudaGetDeviceCount", ctypes.byref(count))
    if count.value == 0:
        sys.exit("the CUDA driver knows of no device")
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    call(runtime, "cudaMemGetInfo", ctypes.byref(free), ctypes.byref(total))
    device = ctypes.create_string_buffer(256)
    call(driver, "cuDeviceGetName", device, len(device), 0)
    print(folder, device.value.decode(errors="replace"), free.value >> 20, sep="\n")


main()
