"""Runs an example of torch_memory_saver: tms_example.py FOLDER MODULE FUNCTION MODE; FOLDER has its package.

Kernels do nothing here, so tensors are filled and drawn on the host and copied. NVML, which PyTorch asks for the memory in
use, is replaced by the driver.
"""

import importlib
import os
import sys

import torch

folder, module, function, mode = sys.argv[1:]
sys.path[:0] = [folder, os.path.join(folder, "test/examples")]


def on_host(make):
    def made(*args, device="cpu", **more):
        return make(*args, **more).to(device)
    return made


def memory_used(device=None):
    free, total = torch.cuda.mem_get_info(device)
    return total - free


torch.full, torch.randn = on_host(torch.full), on_host(torch.randn)
torch.cuda.device_memory_used = memory_used
torch.manual_seed(1)
try:
    getattr(importlib.import_module(module), function)(mode)
    print("done")
finally:
    # At exit PyTorch 2.6 frees what its pools have outside of a region, where torch_memory_saver refuses it and crashes.
    saver = mode == "torch" and sys.modules["torch_memory_saver"].torch_memory_saver._impl
    if saver:
        saver._binary_wrapper.cdll.tms_set_interesting_region(True)
        saver._mem_pools.clear()
