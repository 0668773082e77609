"""Programs in PyTorch: pytorch.py CASE. What they print does not depend on what is computed, nor on where memory is."""

import random
import sys

import torch
from torch import nn

WORDS, WIDTH = 8000, 512


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, WIDTH // 64, 4 * WIDTH, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 5, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, words):
        return self.head(self.layers(self.words(words)))


def train(steps=12):
    """Batch and length change each step."""
    torch.manual_seed(1)
    draws = random.Random(1)
    model = Transformer().to("cuda")
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        shape = draws.randint(1, 4), draws.randint(64, 320)
        words, next_words = (torch.randint(0, WORDS, shape).to("cuda") for _ in range(2))
        loss = nn.functional.cross_entropy(model(words).flatten(0, 1), next_words.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        loss.item()
    print("trained", steps)


def streams():
    """Tensors that another stream still reads when they are freed."""
    made = [torch.cuda.Stream() for _ in range(4)]
    kept = []
    for i in range(400):
        mine, other = made[i % 4], made[(i + 1) % 4]
        with torch.cuda.stream(mine):
            tensor = torch.ones((1 + i % 7) << 16, device="cuda")
        other.wait_stream(mine)
        with torch.cuda.stream(other):
            kept.append(tensor * 2)
        tensor.record_stream(other)
        del tensor, kept[:-50]
    torch.cuda.synchronize()
    print("kept", len(kept))


def pinned():
    for i in range(20):
        host = torch.ones(1 << (10 + i % 10)).pin_memory()
        device = host.to("cuda", non_blocking=True)
        device.to("cpu")
    print("copied")


def graph():
    x = torch.ones(1 << 20, device="cuda")
    made = torch.cuda.CUDAGraph()
    with torch.cuda.graph(made):
        y = (x * 2 + 1).sum()
    for _ in range(5):
        made.replay()
    y.item()
    print("replayed")


def pool():
    private = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(private):
        tensor = torch.ones(3 << 20, device="cuda")
    print("from a pool of its own", tuple(tensor.shape))


CASES = {function.__name__: function for function in (train, streams, pinned, graph, pool)}

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in CASES:
        sys.exit("%s, one of: %s" % (__doc__, " ".join(CASES)))
    CASES[sys.argv[1]]()
