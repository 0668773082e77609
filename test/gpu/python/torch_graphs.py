"""A CUDA graph of PyTorch, captured once and replayed: `torch_graphs.py REPLAYS`."""

import sys

import common

REPLAYS = int(sys.argv[1])
torch = common.torch_in_turn("torch_graphs")

torch.manual_seed(1)
weights = torch.randn(512, 512, device="cuda") / 32
source = torch.randn(256, 512, device="cuda")


def step():
    return torch.tanh(source @ weights).sum(dim=0)


side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    step()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    result = step()
clock = common.Clock()
total = 0.0
for number in range(REPLAYS):
    if number == 3:
        torch.cuda.synchronize()
        clock.begin()
    source.copy_(torch.full_like(source, number / 16))
    graph.replay()
    total += result.sum().item()
clock.begin()
clock.report()
common.fact("result: total", total)
common.fact("version", torch.__version__)
common.fact("held", torch.cuda.max_memory_reserved(), "B")
common.finish("torch_graphs")
