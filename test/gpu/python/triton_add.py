"""A kernel of Triton on PyTorch's tensors: `triton_add.py ROUNDS`."""

import sys

import common

ROUNDS = int(sys.argv[1])
torch = common.torch_in_turn("triton_add")
try:
    import triton
    import triton.language as tl
except ImportError as error:
    common.skip("triton_add", "Triton is not installed (%s)" % error)


@triton.jit
def add(x, y, out, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


clock = common.Clock()
total = 0.0
for number in range(ROUNDS):
    if number == 2:
        torch.cuda.synchronize()
        clock.begin()
    x = torch.arange(1 << (12 + number % 8), device="cuda", dtype=torch.float32)
    y, out = x * number, torch.empty_like(x)
    add[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), BLOCK=1024)
    total += out[::17].double().sum().item()
clock.begin()
clock.report()
common.fact("result: total", total)
common.fact("version", triton.__version__)
common.finish("triton_add")
