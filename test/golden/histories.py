"""Histories that end otherwise than they were when memory ran out, made anew for each test.

Each function returns the bytes of a file; the stored texts name what it plants.
"""

import json
import os
import pickle
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))

from report_case import Program  # noqa: E402
from test_expandable import ALONE, BASES, Allocator  # noqa: E402

MIB, GIB = 1 << 20, 1 << 30
START_US = 1700000000000000


def frames(*lines):
    return [{"name": name, "filename": file, "line": line} for name, file, line in lines]


MAIN = ("<module>", "serve.py", 99)
LOAD = frames(("load_weights", "model.py", 12), MAIN)
EXTEND = frames(("KVCache.extend", "cache.py", 40), ("generate", "serve.py", 7), MAIN)


class Torch:
    """A program under PyTorch: each block is a segment of its own."""

    def __init__(self, devices, with_times=True):
        self.traces = [[] for _ in range(devices)]
        self.live = {}
        self.with_times = with_times
        self.now = START_US

    def entry(self, device, action, size, stack, **more):
        self.now += 1000
        made = {"action": action, "size": size, "stream": 0, **more}
        if self.with_times:
            made["time_us"] = self.now
        if stack:
            made["frames"] = stack
        self.traces[device].append(made)

    def alloc(self, device, size, stack, stream=0):
        address = (device + 1) << 44 | sum(map(len, self.traces)) << 33
        segment = -(-size // (2 * MIB)) * 2 * MIB
        self.entry(device, "segment_alloc", segment, stack, addr=address, stream=stream)
        self.entry(device, "alloc", size, stack, addr=address, stream=stream)
        self.live[device, address] = size, segment, stack, stream
        return address

    def free(self, device, address):
        self.give_back(device, self.keep(device, address))

    def keep(self, device, address):
        """The program frees it, and it is cached."""
        self.leave(device, address)
        return self.complete(device, address)

    def leave(self, device, address):
        """The program frees it, and another stream still uses it."""
        size, _, _, stream = self.live[device, address]
        self.entry(device, "free_requested", size, None, addr=address, stream=stream)

    def complete(self, device, address):
        size, segment, _, stream = self.live.pop((device, address))
        self.entry(device, "free_completed", size, None, addr=address, stream=stream)
        return address, segment, stream

    def reuse(self, device, cached, size, stack):
        """A cached block serves the next request."""
        address, segment, stream = cached
        self.entry(device, "alloc", size, stack, addr=address, stream=stream)
        self.live[device, address] = size, segment, stack, stream
        return address

    def give_back(self, device, cached, stack=None):
        address, segment, stream = cached
        self.entry(device, "segment_free", segment, stack, addr=address, stream=stream)

    def oom(self, device, size, free, stack):
        self.entry(device, "oom", size, stack, device_free=free)

    def pickled(self):
        segments = []
        for (device, address), (size, segment, stack, stream) in sorted(self.live.items()):
            takes = -(-size // 512) * 512
            if takes > MIB >= segment - takes:
                takes = segment
            blocks = [{"address": address, "size": takes, "requested_size": size, "state": "active_allocated", "frames": stack}]
            if segment > blocks[0]["size"]:
                blocks.append({"address": address + blocks[0]["size"], "size": segment - blocks[0]["size"],
                               "requested_size": 0, "state": "inactive", "frames": []})
            segments.append({
                "device": device, "address": address, "total_size": segment, "allocated_size": blocks[0]["size"],
                "active_size": blocks[0]["size"], "requested_size": size, "stream": stream, "segment_type": "large",
                "segment_pool_id": (0, 0), "is_expandable": False, "frames": stack, "blocks": blocks})
        return pickle.dumps({"segments": segments, "device_traces": self.traces, "allocator_settings": {},
                             "external_annotations": []}, 2)


def three_devices():
    """Device 1 of three fills up with the cache of KVCache.extend; after the crash nothing of it is left."""
    program = Torch(3)
    for device in range(3):
        program.alloc(device, 2 * GIB, LOAD)
    cache = [program.alloc(1, 2 * GIB - MIB, EXTEND) for _ in range(38)]
    program.alloc(2, 40 * GIB, LOAD)  # another device holds much, and is well
    program.oom(1, 4 * GIB, 300 * MIB, EXTEND)
    for address in cache:
        program.free(1, address)
    return program.pickled()


def no_times():
    """No times, so that device 0 comes before device 1, whenever it was; KVCache.extend is on all ten streams of 1."""
    program = Torch(2, with_times=False)
    program.alloc(0, 5 * GIB, LOAD)
    cache = [program.alloc(1, 256 * MIB + stream, EXTEND, stream=0x1000 * stream) for stream in range(10) for _ in range(3)]
    program.alloc(1, GIB, LOAD)
    program.oom(1, 512 * MIB, 64 * MIB, EXTEND)
    for address in cache:
        program.free(1, address)
    return program.pickled()


def survived():
    """Memory ran out twice; the program freed its cache and went on."""
    program = Torch(1)
    weights = program.alloc(0, 10 * GIB, LOAD)
    cache = program.alloc(0, 60 * GIB, EXTEND)
    program.oom(0, 20 * GIB, 9 * GIB, EXTEND)
    program.oom(0, 12 * GIB, 9 * GIB, EXTEND)
    program.free(0, cache)
    program.alloc(0, 20 * GIB, EXTEND)
    program.free(0, weights)
    return program.pickled()


def killed():
    """Memory ran out of Cache::grow(); the program freed most of it, and was killed later."""
    program = Program()
    program.alloc(8 * MIB, stack=0)
    caches = [program.alloc(9 * MIB, 16 * MIB, stack=1) for _ in range(6)]
    program.managed(5 * MIB, stack=0)
    program.free(caches.pop(), complete=False)
    program.event("oom", size=20 * MIB, stack=1)
    for cache in caches:
        program.free(cache)
    snapshot = program.snapshot(reason="recovered")
    snapshot["devices"][0]["stats"]["num_ooms"] = 1
    return json.dumps(snapshot).encode()


def script():
    """A script under PyTorch, of which the stacks have C frames without names."""
    program = Program()
    for stack, count in ((0, 60), (1, 20), (2, 8)):
        for _ in range(count):
            program.alloc(16 * MIB, stack=stack)
    program.event("oom", size=64 * MIB, stack=0)
    torch = "/opt/venv/lib/python3.12/site-packages/torch/lib/"
    paths = ["/opt/python/bin/python3.12", torch + "libtorch_python.so", torch + "libc10_cuda.so", "/usr/lib/libcudart.so.13"]
    modules = [{"path": path, "build_id": "", "bias": 0, "start": start, "end": start + 4096}
               for path, start in zip(paths, range(4096, 1 << 20, 4096))]
    places = [(3, 0x10), (2, 0x44b), (1, 0x5c1), (1, 0x4fa), (1, 0x632), (0, 0x80)]
    frames_of_c = [{"function": "cudaMalloc" if module == 3 else "", "file": "", "line": 0, "module": module,
                    "address": modules[module]["start"] + offset, "inline": False} for module, offset in places]
    oom = {"time_ns": program.time, "device": 0, "requested": 64 * MIB, "live": 1408 * MIB, "deferred": 0, "cached": 0,
           "in_pieces": 0, "passthrough": 0, "limit": 1424 * MIB, "by_limit": True, "largest_free": 0,
           "device_free": 70 * GIB, "device_total": 80 * GIB, "owners": [], "message": "out of memory on device 0",
           "advice": "It is the limit that refuses: this request alone takes 48 MiB more, GPUPOOL_LIMIT=1472MiB",
           "remedy": {"settings": {"GPUPOOL_LIMIT": "1472MiB"}, "action": None}}
    snapshot = program.snapshot(reason="oom", oom=oom, modules=modules, frames=frames_of_c,
                                stacks=[[0, 1, 2, 5], [0, 1, 3, 5], [0, 1, 4, 5]])
    snapshot["process"].update(program=paths[0], command_line=["python3", "train.py"])
    snapshot["devices"][0].update(limit=1424 * MIB)
    snapshot["devices"][0]["stats"]["num_ooms"] = 1
    return json.dumps(snapshot).encode()


def expandable():
    """One expandable segment. A cache of 5 MiB blocks loses every second one. A request finds no hole and no memory, so
    PyTorch unmaps what it can, and maps more at the end; the next one is in vain."""
    program, base = Allocator(0), BASES[0]

    def put(at, size, stack):
        program.stack = stack
        program.put(base, base + at, size)
    put(0, 30 * MIB, LOAD)
    for i in range(10):
        put((30 + 5 * i) * MIB, 5 * MIB, EXTEND)
    for i in range(0, 10, 2):
        for action in ("free_requested", "free_completed"):
            program.blocks.pop(base + (30 + 5 * i) * MIB, None)
            program.event(action, base + (30 + 5 * i) * MIB, 5 * MIB)
    program.stack = EXTEND
    program.empty_cache()
    put(80 * MIB, 16 * MIB, EXTEND)
    program.trace.append({"action": "oom", "size": 16 * MIB, "stream": 0, "device_free": 3 * MIB, "frames": EXTEND,
                          "time_us": program.trace[-1]["time_us"] + 1})
    return pickle.dumps(program.snapshot(), 2)


def tight():
    """Requests of growing size, for which PyTorch has to give back what it cached; and one empty_cache after another."""
    program = Torch(1)
    empty = frames(("empty_cache", "/usr/lib/python3/site-packages/torch/cuda/memory.py", 162), ("evaluate", "train.py", 31), MAIN)
    program.alloc(0, 600 * MIB, LOAD)
    kept = []
    for step in range(4):
        kept += [program.keep(0, address) for address in [program.alloc(0, 64 * MIB, EXTEND) for _ in range(3)]]
        for cached in kept:
            program.give_back(0, cached, EXTEND)
        kept = [program.keep(0, program.alloc(0, (80 + 8 * step) * MIB, EXTEND))]
    for _ in range(3):
        kept.append(program.keep(0, program.alloc(0, 100 * MIB, EXTEND)))
        while kept:
            program.give_back(0, kept.pop(), empty)
    return program.pickled()


def training():
    """Ten steps. The backward pass frees the activations one after the other. A second stream sends the gradients, so that
    their bucket is pending until the next forward pass is through."""
    program, forward, send = Torch(1), frames(("forward", "model.py", 30), MAIN), frames(("all_reduce", "ddp.py", 8), MAIN)
    program.alloc(0, 1500 * MIB, LOAD)
    cached, bucket = {}, None

    def request(name, size, stack):
        return program.reuse(0, cached.pop(name), size, stack) if name in cached else program.alloc(0, size, stack)
    for _ in range(10):
        activations = [request(layer, (90 + 7 * layer) * MIB, forward) for layer in range(8)]
        if bucket:
            cached["bucket"] = program.complete(0, bucket)
        for layer in reversed(range(8)):
            cached[layer] = program.keep(0, activations[layer])
        bucket = request("bucket", 250 * MIB, send)
        program.leave(0, bucket)
    for one in (*cached.values(), program.complete(0, bucket)):
        program.give_back(0, one)
    return program.pickled()


def no_history():
    """A server as it was when it was asked; PyTorch keeps the last event where it records none. Device 1 does nothing."""
    program = Torch(2)
    for _ in range(3):
        program.alloc(0, 2 * GIB + MIB, LOAD)
    program.alloc(0, 64 * MIB, frames(("at::cuda::getNewWorkspace()", "??", 0), MAIN))
    program.alloc(0, 300 * MIB, EXTEND)
    program.traces[0] = program.traces[0][-1:]
    return program.pickled()


def late():
    """Recording began when the weights were there, and saw one request after the other."""
    program = Torch(1)
    program.alloc(0, 6 * GIB, None)
    unseen = len(program.traces[0])
    address, segment, stream = program.keep(0, program.alloc(0, 128 * MIB, EXTEND))
    for _ in range(8):
        program.entry(0, "alloc", 128 * MIB, EXTEND, addr=address, stream=stream)
        program.live[0, address] = 128 * MIB, segment, EXTEND, stream
        program.keep(0, address)
    program.entry(0, "alloc", 128 * MIB, EXTEND, addr=address, stream=stream)
    program.live[0, address] = 128 * MIB, segment, EXTEND, stream
    program.traces[0] = program.traces[0][unseen:]
    return program.pickled()


def in_pieces(folder):
    """Ordinary segments, of which one part after the other is freed: much is idle, and no piece is as large as the request."""
    program = Allocator(0)
    load, extend = ([{**one, "filename": folder + one["filename"]} for one in stack] for stack in (LOAD, EXTEND))
    for i in range(8):
        program.stack = load
        program.alone[ALONE + i * 20 * MIB] = 20 * MIB
        program.event("segment_alloc", ALONE + i * 20 * MIB, 20 * MIB)
        program.hold(ALONE + i * 20 * MIB, 9 * MIB)
        program.stack = extend
        program.hold(ALONE + (i * 20 + 9) * MIB, 11 * MIB)
    for i in range(8):
        for action in ("free_requested", "free_completed"):
            program.blocks.pop(ALONE + i * 20 * MIB, None)
            program.event(action, ALONE + i * 20 * MIB, 9 * MIB)
    program.trace.append({"action": "oom", "size": 16 * MIB, "stream": 0, "device_free": 3 * MIB, "frames": extend,
                          "time_us": program.trace[-1]["time_us"] + 1})
    snapshot = program.snapshot()
    snapshot["allocator_settings"] = {"PYTORCH_CUDA_ALLOC_CONF": "", "expandable_segments": False, "max_split_size": -1}
    return pickle.dumps(snapshot, 2)


def first_version():
    """As PyTorch 1.13 and 2.0 wrote it: blocks without addresses, whose stacks are in a history, and no settings."""
    program = Torch(1, with_times=False)
    for size in (3 * GIB, GIB + MIB, 300 * MIB):
        program.alloc(0, size, LOAD)
    for address in [program.alloc(0, 64 * MIB, EXTEND) for _ in range(4)]:
        program.free(0, address)
    snapshot = pickle.loads(program.pickled())
    for one in snapshot["segments"]:
        for block in one["blocks"]:
            if block["state"] == "active_allocated":
                block["history"] = [{"addr": block["address"], "real_size": block["requested_size"], "frames": block["frames"]}]
            for name in ("address", "frames", "requested_size"):
                del block[name]
        for name in ("segment_pool_id", "is_expandable", "requested_size", "frames"):
            del one[name]
    return pickle.dumps({"segments": snapshot["segments"], "device_traces": snapshot["device_traces"]}, 2)


FILES = {
    "no-history.pickle": no_history, "late.pickle": late, "expandable.pickle": expandable, "tight.pickle": tight,
    "three-devices.pickle": three_devices, "no-times.pickle": no_times, "survived.pickle": survived,
    "in-pieces.pickle": lambda: in_pieces("/home/ada/"), "windows.pickle": lambda: in_pieces("C:\\Users\\ada\\chat\\"),
    "first-version.pickle": first_version, "training.pickle": training, "killed.json": killed, "script.json": script,
}
