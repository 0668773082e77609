"""Tensors that a second process reads by torch.multiprocessing: `torch_ipc.py TENSORS`. The sums are the result."""

import sys

import common

TENSORS = int(sys.argv[1])


def add_up(tensors, sums):
    while True:
        tensor = tensors.get()
        if tensor is None:
            return
        sums.put(tensor.double().sum().item())
        del tensor


if __name__ == "__main__":
    torch = common.torch_in_turn("torch_ipc")
    import torch.multiprocessing

    context = torch.multiprocessing.get_context("spawn")
    tensors, sums = context.Queue(), context.Queue()
    child = context.Process(target=add_up, args=(tensors, sums), daemon=True)
    child.start()
    clock = common.Clock()
    total = 0.0
    for number in range(TENSORS):
        tensor = torch.arange(1 << (16 + number % 6), device="cuda") % (number + 2)
        tensors.put(tensor)
        total += sums.get(timeout=60)
        clock.begin()  # once the child has begun
        del tensor
    tensors.put(None)
    child.join()
    clock.report()
    common.fact("result: total", total)
    common.fact("result: the child's exit status", child.exitcode)
    common.fact("version", torch.__version__)
    common.finish("torch_ipc")
