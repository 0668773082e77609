"""Describes the GPU, as JSON on stdout, or says on stderr why there is none (exit status 1).

    probe.py

Asks the driver and no runtime, changes nothing, and creates no context. In a process of its own: a driver that hangs
or dies takes no other process along.
"""

import ctypes
import json
import sys

MAJOR, MINOR, MULTIPROCESSORS = 75, 76, 16  # CUdevice_attribute


def main():
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        sys.exit("no CUDA driver (libcuda.so.1) is installed")

    def call(name, *args):
        status = getattr(driver, name)(*args)
        if status:
            text = ctypes.c_char_p()
            driver.cuGetErrorName(status, ctypes.byref(text))
            sys.exit("the CUDA driver answers %s to %s" % ((text.value or b"error %d" % status).decode(), name))

    call("cuInit", 0)
    count = ctypes.c_int()
    call("cuDeviceGetCount", ctypes.byref(count))
    if count.value == 0:
        sys.exit("the CUDA driver knows of no device")

    def attribute(number):
        value = ctypes.c_int()
        call("cuDeviceGetAttribute", ctypes.byref(value), number, 0)
        return value.value

    name = ctypes.create_string_buffer(256)
    call("cuDeviceGetName", name, len(name), 0)
    total = ctypes.c_size_t()
    call("cuDeviceTotalMem_v2", ctypes.byref(total), 0)
    version = ctypes.c_int()
    call("cuDriverGetVersion", ctypes.byref(version))
    print(json.dumps({
        "name": name.value.decode(errors="replace"),
        "devices": count.value,
        "capability": "%d.%d" % (attribute(MAJOR), attribute(MINOR)),
        "multiprocessors": attribute(MULTIPROCESSORS),
        "memory_bytes": total.value,
        "cuda_version_of_driver": version.value,
    }))


main()
