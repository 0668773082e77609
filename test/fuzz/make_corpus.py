#!/usr/bin/env python3
"""Makes the first inputs of the fuzz targets, the same bytes every time.

    make_corpus.py GPUPOOL

Writes corpus/TARGET/* beside this file; what a fuzzer has found and was put there by hand stays. Inputs are small, so that
a mutation hits something that matters.
"""

import json
import os
import pickle
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tools"))
import cli  # noqa: E402
import make_records  # noqa: E402
import test_export  # noqa: E402
import test_import  # noqa: E402
import test_logs  # noqa: E402
import test_roundtrip  # noqa: E402

OPTIONS = {
    "sizes": "GPUPOOL_LIMIT=0=8GiB,1=50%\nGPUPOOL_RESERVE=5%\nGPUPOOL_MAX_CACHED=1.5GiB\nGPUPOOL_PAGE=4K\n",
    "lists": "GPUPOOL_SNAPSHOT_AT=exit,oom\nGPUPOOL_TYPE=naive\nGPUPOOL_REUSE=strict\nGPUPOOL_TRACE=state\n",
    "numbers": "GPUPOOL_TRACE_EVENTS=2048\nGPUPOOL_IDLE_RELEASE=0\nGPUPOOL_ROUND_CUTOFF=20\nGPUPOOL_STATS=1\n",
    "names": "GPUPOOL_OUTPUT=/tmp/%e.%h.%p.%k.%t.%n.%r.%%.json\nGPUPOOL_LOG=%p.log\nGPUPOOL_LIMT=1\n",
    "mxnet": "MXNET_GPU_MEM_POOL_TYPE=Naive\nMXNET_GPU_MEM_POOL_RESERVE=5\nMXNET_GPU_MEM_POOL_PAGE_SIZE=4096\n",
    "path": "out/%e.%%.%n",
}
TRACES = {
    "plain": "op,id,size,stream\nA,1,1000,0\nA,2,5,7\nF,1,0,0\nA,1,18446744073709551615,0\n",
    "crlf": "A,1,1000,0\r\nF,1,0,1\r\n",
    "none": "op,id,size,stream\n",
}


SUPPRESSIONS = {
    "leak-sanitizer": "leak:init\nmain\ncudaMalloc\n/usr/lib/libcudart.so.13\n",
    "ties": "leak:^Model::load*float*)$\nModel::load(std::vector<float> const&)\nModel::load\n",
    "stars": "leak:a*b**c$\naxbxxcxbc\nabc\nac\n",
    "comments": "#leak\nleak:",
}


def small(snapshot, **changes):
    """Without the columns and gauges that are like others."""
    return dict(snapshot, **changes)


def snapshots():
    story = test_export.story_snapshot()
    oom = {"time_ns": 18000, "device": 0, "requested": 1 << 40, "live": 1, "deferred": 0, "cached": 0, "passthrough": 0,
           "limit": 1 << 33, "by_limit": True, "largest_free": 0, "device_free": 5, "device_total": None,
           "unaccounted": None, "owners": [{"size": 5, "count": 2}], "message": "out of memory"}
    yield "plain", cli.snapshot_of()
    yield "story", story
    yield "oom", small(story, reason="oom", oom=oom)
    yield "devices", small(story, devices=story["devices"] + [cli.device_of(7)], recorded_since_ns=99, dropped_events=3)
    yield "pytorch", test_import.torch_snapshot()
    yield "pytorch-of-2.5", dict(test_roundtrip.fixtures())["2.5"]
    yield "pytorch-of-1.13", json.loads(json.dumps(test_roundtrip.small("1.13")))


def write(target, name, data):
    folder = os.path.join(HERE, "corpus", target)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as file:
        file.write(data)


def main(gpupool):
    for name, text in OPTIONS.items():
        write("options", name, text.encode())
    for name, text in TRACES.items():
        write("trace", name, text.encode())
    for name, text in SUPPRESSIONS.items():
        write("suppressions", name, text.encode())
    for name, data in make_records.records():
        write("recover", name, data)
    for name, snapshot in snapshots():
        write("snapshot", name, json.dumps(snapshot, separators=(",", ":")).encode())
    for name, text in test_logs.small_logs():
        write("snapshot", name, text.encode())
    for protocol in (2, 4, 5):
        write("pickle", "pytorch-%d" % protocol, pickle.dumps(test_import.torch_snapshot(), protocol))
    for name in ("2.5", "2.0", "1.13"):
        write("pickle", "pytorch-of-" + name, pickle.dumps(dict(test_roundtrip.fixtures())[name], 4))
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(test_export.story_snapshot(), file)
        file.flush()
        write("pickle", "ours", subprocess.run([gpupool, "export", "--to", "pytorch", file.name],
                                               stdout=subprocess.PIPE, check=True).stdout)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
