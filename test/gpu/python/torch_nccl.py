"""Collectives of NCCL among the one process on one device: `torch_nccl.py ROUNDS`."""

import os
import sys
import tempfile

import common

ROUNDS = int(sys.argv[1])
torch = common.torch_in_turn("torch_nccl")
import torch.distributed as distributed  # noqa: E402  (only where there is PyTorch)

if not distributed.is_available() or not distributed.is_nccl_available():
    common.skip("torch_nccl", "this PyTorch has no NCCL")
with tempfile.TemporaryDirectory() as folder:
    distributed.init_process_group("nccl", init_method="file://" + os.path.join(folder, "meeting"), world_size=1, rank=0)
    clock = common.Clock()
    total = 0.0
    for number in range(ROUNDS):
        tensor = torch.full((1 << (18 + number % 4),), float(number), device="cuda")
        distributed.all_reduce(tensor)
        gathered = [torch.empty_like(tensor)]
        distributed.all_gather(gathered, tensor)
        total += gathered[0].double().sum().item()
        clock.begin()  # once there is a communicator
    distributed.destroy_process_group()
clock.report()
common.fact("result: total", total)
common.fact("version", "%s, NCCL %s" % (torch.__version__, ".".join(map(str, torch.cuda.nccl.version()))))
common.finish("torch_nccl")
