"""The CUDA backend of llama.cpp, by the functions of its C library: llama.py FOLDER CASE. FOLDER has libggml-cuda.so.

What it prints does not depend on what is computed, nor on where memory is.
"""

import ctypes
import glob
import os
import sys

F32, F16, MIB = 0, 1, 1 << 20
NODES = 64


class Parameters(ctypes.Structure):  # ggml_init_params
    _fields_ = [("size", ctypes.c_size_t), ("memory", ctypes.c_void_p), ("no_alloc", ctypes.c_bool)]


class Ggml:
    """Functions of ggml; a name with _p returns a pointer."""

    def __init__(self, folder):
        self.libraries = [ctypes.CDLL(path, ctypes.RTLD_GLOBAL) for path in
                          [os.path.join(folder, "libggml-base.so")] + glob.glob(os.path.join(folder, "libggml.*.so"))]
        backend = self.pointer("backend_load", os.fsencode(os.path.join(folder, "libggml-cuda.so")))
        self.devices = [self.pointer("backend_reg_dev_get", backend, ctypes.c_size_t(index))
                        for index in range(self.function("backend_reg_dev_count", ctypes.c_size_t)(backend))]

    def function(self, name, result=ctypes.c_int):
        for library in self.libraries:
            if hasattr(library, "ggml_" + name):
                found = getattr(library, "ggml_" + name)
                found.restype = result
                return found
        raise AttributeError(name)

    def pointer(self, name, *arguments):
        return ctypes.c_void_p(self.function(name, ctypes.c_void_p)(*arguments))

    def call(self, name, *arguments):
        return self.function(name)(*arguments)


def devices(ggml):
    for device in ggml.devices:
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        ggml.call("backend_dev_memory", device, ctypes.byref(free), ctypes.byref(total))
        print(ggml.function("backend_dev_name", ctypes.c_char_p)(device).decode(), total.value)


def buffers(ggml):
    """Sizes of a model's weights and caches, until there is no more memory, and again."""
    backend = ggml.pointer("backend_dev_init", ggml.devices[0], None)
    for _ in range(2):
        made = []
        for i in range(200):
            buffer = ggml.pointer("backend_alloc_buffer", backend, ctypes.c_size_t((1 + i % 7) * 29 * MIB + 4096 * i))
            if not buffer:
                break
            made.append(buffer)
        print("refused" if len(made) in range(55, 80) else "made %d" % len(made))
        for buffer in made:
            ggml.call("backend_buffer_free", buffer)
    ggml.call("backend_free", backend)


def graphs(ggml):
    """Layers of a small model, whose batch grows: temporary memory of the backend's own pool."""
    backend = ggml.pointer("backend_dev_init", ggml.devices[0], None)
    for step in range(12):
        batch = 1 << (step % 8)
        context = ggml.pointer("init", Parameters(16 * MIB, None, True))
        x = ggml.pointer("new_tensor_2d", context, F32, ctypes.c_int64(512), ctypes.c_int64(batch))
        weights = [ggml.pointer("new_tensor_2d", context, F16, ctypes.c_int64(512), ctypes.c_int64(512)) for _ in range(6)]
        y = x
        for weight in weights:
            y = ggml.pointer("rms_norm", context, ggml.pointer("mul_mat", context, weight, y), ctypes.c_float(1e-5))
            y = ggml.pointer("add", context, ggml.pointer("silu", context, y), x)
        graph = ggml.pointer("new_graph", context)
        ggml.call("build_forward_expand", graph, y)
        buffer = ggml.pointer("backend_alloc_ctx_tensors", context, backend)
        data = (ctypes.c_float * (512 * batch))()
        ggml.call("backend_tensor_set", x, data, ctypes.c_size_t(0), ctypes.c_size_t(ctypes.sizeof(data)))
        status = [ggml.call("backend_graph_compute", backend, graph) for _ in range(3)]
        ggml.call("backend_tensor_get", y, data, ctypes.c_size_t(0), ctypes.c_size_t(ctypes.sizeof(data)))
        print("batch", batch, status)
        ggml.call("backend_buffer_free", buffer)
        ggml.call("free", context)
    ggml.call("backend_free", backend)


CASES = {function.__name__: function for function in (devices, buffers, graphs)}

if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[2] not in CASES:
        sys.exit("%s\nCASE, one of: %s" % (__doc__, " ".join(CASES)))
    CASES[sys.argv[2]](Ggml(sys.argv[1]))
