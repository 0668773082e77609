"""Programs in PyTorch: pytorch.py CASE. What they print does not depend on what is computed, nor on where memory is."""

import ctypes
import os
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


def out_of_memory():
    """The program goes on after each refusal."""
    kept, refused = [], 0
    for i in range(60):
        try:
            kept.append(torch.empty((1 + i % 5) << 26, dtype=torch.uint8, device="cuda"))
        except RuntimeError as error:
            assert isinstance(error, torch.cuda.OutOfMemoryError) or "out of memory" in str(error)
            refused += 1
            del kept[: len(kept) // 2]
    kept.clear()
    torch.cuda.empty_cache()
    torch.empty(3 << 28, dtype=torch.uint8, device="cuda")
    print("refused" if refused else "never refused")


def work(number, results):
    made = [torch.full((1 + i % 3, 1 << 18), number, device="cuda") for i in range(10)]
    results.put((number, torch.stack([tensor.sum() for tensor in made[:3]]).shape))


def processes():
    import torch.multiprocessing

    context = torch.multiprocessing.get_context("spawn")
    results = context.SimpleQueue()
    started = [context.Process(target=work, args=(number, results)) for number in range(3)]
    for process in started:
        process.start()
    print(sorted(results.get()[0] for _ in started))
    for process in started:
        process.join()
    print([process.exitcode for process in started])


def receive(offers, answers):
    """A tensor alone, one inside it, one of another segment: opened, read, and written where another process sees it."""
    tensors = offers.get()
    answers.put([tensor.cpu().flatten()[:: 1 << 16].tolist() for tensor in tensors])
    tensors[0].copy_(torch.full(tensors[0].shape, 4.0))
    torch.cuda.synchronize()
    del tensors
    torch.cuda.ipc_collect()
    answers.put("done")
    offers.get()


def shared():
    """Another process opens tensors, and ends when this one fails. They are filled by copies, since kernels do nothing."""
    import torch.multiprocessing

    context = torch.multiprocessing.get_context("spawn")
    for size in (1 << 18, 3 << 20):
        offers, answers = context.SimpleQueue(), context.SimpleQueue()
        process = context.Process(target=receive, args=(offers, answers), daemon=True)
        process.start()
        whole = torch.arange(4 * size, dtype=torch.float32).reshape(4, size).to("cuda")
        kept = torch.full((size,), 3.0).to("cuda")
        offers.put([kept, whole[2], whole])
        print(answers.get(), answers.get(), kept.cpu().unique().tolist())
        offers.put(None)
        process.join()
        print(process.exitcode)
        del whole, kept
        torch.cuda.ipc_collect()
        torch.cuda.empty_cache()


def pluggable():
    """With the functions of doc/api.md, if the library is there."""
    if "libgpupool" in os.environ.get("LD_PRELOAD", ""):
        pool = torch.cuda.memory.CUDAPluggableAllocator("libgpupool.so", "gpupool_torch_alloc", "gpupool_torch_free")
        library = ctypes.CDLL("libgpupool.so")
        for name in ("record_stream", "base_alloc", "reset", "memory_fraction"):
            address = ctypes.cast(getattr(library, "gpupool_torch_" + name), ctypes.c_void_p).value
            getattr(pool.allocator(), "set_%s_fn" % name)(address)
        torch.cuda.memory.change_current_allocator(pool)
    train(6)
    streams()
    graph()
    torch.cuda.empty_cache()


CASES = {function.__name__: function for function in (train, streams, pinned, graph, pool, out_of_memory, processes, shared, pluggable)}

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in CASES:
        sys.exit("%s, one of: %s" % (__doc__, " ".join(CASES)))
    CASES[sys.argv[1]]()
