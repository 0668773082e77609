"""The memory of the device while a program runs, as its driver counts it: by NVML, from outside of the program.

A program under the pool cannot tell: cudaMemGetInfo calls idle memory of the pool free.
"""

import ctypes
import threading

EVERY_SECONDS = 0.005


class Counts(ctypes.Structure):
    """nvmlMemory_t of nvml.h, in bytes."""
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class Memory:
    """Watches the first device between begin() and end(), again and again. Without NVML nothing is known."""

    def __init__(self):
        self.used = None
        self.most = 0
        self.thread = None
        try:
            nvml = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            return
        device, counts = ctypes.c_void_p(), Counts()

        def used():
            nvml.nvmlDeviceGetMemoryInfo(device, ctypes.byref(counts))
            return counts.used

        if nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == 0:
            self.used = used
            self.idle = used()

    def watch(self):
        while not self.is_over.wait(EVERY_SECONDS):
            self.most = max(self.most, self.used())

    def begin(self):
        if self.used:
            self.most = self.idle
            self.is_over = threading.Event()
            self.thread = threading.Thread(target=self.watch, daemon=True)
            self.thread.start()

    def end(self):
        """Bytes: the most that was in use, less what was in use before the first program; None: not known."""
        if not self.used:
            return None
        self.is_over.set()
        self.thread.join()
        return self.most - self.idle
