"""Trains a transformer whose batch and length change each step: `torch_varying.py STEPS`. The losses are the result.

With GPU_CHECK_ALLOCATOR=gpupool gpupool serves each tensor, as doc/api.md has it, in place of PyTorch's own cache.
"""

import ctypes
import os
import random
import sys

import common

STEPS = int(sys.argv[1])
WORDS, WIDTH = 8000, 512
torch = common.torch_in_turn("torch_varying")

from torch import nn  # noqa: E402  (only where there is PyTorch)


def plug_in():
    library = "libgpupool.so"
    for path in os.environ["LD_PRELOAD"].split(":"):
        if os.path.basename(path) == library:
            library = path
    pool = torch.cuda.memory.CUDAPluggableAllocator(library, "gpupool_torch_alloc", "gpupool_torch_free")
    loaded = ctypes.CDLL(library)
    for name in ("record_stream", "base_alloc", "reset", "memory_fraction"):
        address = ctypes.cast(getattr(loaded, "gpupool_torch_" + name), ctypes.c_void_p).value
        getattr(pool.allocator(), "set_%s_fn" % name)(address)
    torch.cuda.memory.change_current_allocator(pool)


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 8, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 5, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, words):
        return self.head(self.layers(self.words(words)))


plugged = os.environ.get("GPU_CHECK_ALLOCATOR") == "gpupool"
if plugged:
    plug_in()
torch.manual_seed(1)
torch.use_deterministic_algorithms(True, warn_only=True)
draws = random.Random(1)
model = Transformer().cuda()
optimizer = torch.optim.Adam(model.parameters())
clock = common.Clock()
losses = []
for number in range(STEPS):
    if number == 3:
        torch.cuda.synchronize()
        clock.begin()
    shape = draws.randint(1, 4), draws.randint(64, 320)
    words, next_words = (torch.randint(0, WORDS, shape).cuda() for _ in range(2))
    loss = nn.functional.cross_entropy(model(words).flatten(0, 1), next_words.flatten())
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
torch.cuda.synchronize()
clock.begin()
clock.report()
common.fact("steps", STEPS)
common.fact("result: first loss", losses[0])
common.fact("result: mean loss", sum(losses) / len(losses))
common.fact("version", torch.__version__)
if not plugged:
    common.fact("held", torch.cuda.max_memory_reserved(), "B")
    common.fact("requested", torch.cuda.max_memory_allocated(), "B")
common.finish("torch_varying")
