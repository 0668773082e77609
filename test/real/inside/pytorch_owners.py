"""The library's snapshot beside torch.cuda.memory._snapshot() of the same run: every block, every figure, every line of Python.

PyTorch's segments are the program's blocks for the library. Without the library it trains only, and prints the same.
"""

import json
import os
import sys

import torch

import pytorch

FAILURES = []


def same(what, ours, theirs):
    if ours != theirs:
        FAILURES.append("%s: the library has %s, PyTorch %s" % (what, ours, theirs))


def lines_of(snapshot, stack):
    """File, line, function, of Python only, the innermost first."""
    frames = [snapshot["frames"][index] for index in snapshot["stacks"][stack]] if stack >= 0 else []
    return [(frame["file"], frame["line"], frame["function"].rsplit(".", 1)[-1]) for frame in frames
            if frame.get("file", "").endswith(".py")]


def live_blocks(snapshot):
    return {block["address"]: block["requested_size"] for segment in snapshot["segments"] for block in segment["blocks"]
            if block["state"] == "active_allocated"}


def compare_expandable(ours, theirs, statistics):
    """PyTorch maps the pieces of such a segment; the library knows them as memory of cuMemCreate."""
    same("mapped bytes", sum(one["size"] for one in ours["passthrough"] if one["kind"] == "vmm"),
         sum(segment["total_size"] for segment in theirs["segments"]))
    for part in ("current", "peak", "allocated", "freed"):
        same("passthrough_bytes." + part, ours["devices"][0]["stats"]["passthrough_bytes"][part],
             statistics["reserved_bytes.all." + part])


def compare(ours, theirs, statistics):
    same("blocks", sorted(live_blocks(ours).items()),
         sorted((segment["address"], segment["total_size"]) for segment in theirs["segments"]))
    stats = ours["devices"][0]["stats"]
    for its, mine in (("segment.all", "allocation"), ("reserved_bytes.all", "requested_bytes")):
        for part in ("current", "peak", "allocated", "freed"):
            same("%s.%s" % (mine, part), stats[mine][part], statistics["%s.%s" % (its, part)])
    events = ours["events"]
    mine = [(events["address"][i], events["size"][i], events["stack"][i]) for i, action in enumerate(events["action"])
            if events["actions"][action] == "alloc"]
    its = [entry for entry in theirs["device_traces"][0] if entry["action"] == "segment_alloc"]
    same("allocations", [(address, size) for address, size, _ in mine], [(entry["addr"], entry["size"]) for entry in its])
    with_lines = 0
    for (_, _, stack), entry in zip(mine, its):
        frames = [(frame["filename"], frame["line"], frame["name"]) for frame in entry["frames"]]
        same("lines", lines_of(ours, stack), frames)
        with_lines += bool(frames)
    if not with_lines:
        FAILURES.append("PyTorch has no line of Python")
    return len(mine), with_lines


def main():
    torch.cuda.memory._record_memory_history(stacks="python")
    for when in range(3):
        pytorch.train(4)
        if when == 1:
            torch.cuda.empty_cache()
        theirs, statistics = torch.cuda.memory._snapshot(), torch.cuda.memory_stats()
        if "libgpupool" in os.environ.get("LD_PRELOAD", ""):
            import gpupool
            with open(gpupool.dump_snapshot("beside.json")) as file:
                ours = json.load(file)
            if "expandable" in os.environ.get("PYTORCH_CUDA_ALLOC_CONF", ""):
                compare_expandable(ours, theirs, statistics)
            else:
                print("%d segments of PyTorch, %d with lines of Python" % compare(ours, theirs, statistics), file=sys.stderr)
    print("\n".join(FAILURES[:5]) or "the same")


if __name__ == "__main__":
    main()
    sys.exit(bool(FAILURES))
