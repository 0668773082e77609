"""Snapshots made of what a program did, and what all tests of reports share."""

import json
import os

import jsonschema

import cli
from cli import DONE, MIB, Case, device_of, gauge, snapshot_of

EVENT_DEFAULTS = {"device": 0, "stream": 0, "thread": 0, "stack": -1}
ACTIONS = [
    "alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "oom", "snapshot", "trim", "mode",
    "passthrough_alloc", "passthrough_free", "free_refused", "damage",
]
DETAILS = ["", "idle", "managed", "pinned_host", "edge", "stale"]
FRAMES = [  # a program, its library, the runtime
    {"function": "main", "file": "/src/app.cu", "line": 90, "module": 0},
    {"function": "Model::load(std::string const&)", "file": "/src/model.cu", "line": 12, "module": 0},
    {"function": "Cache::grow()", "file": "/src/cache.cu", "line": 33, "module": 0},
    {"function": "cudaMalloc", "file": "", "line": 0, "module": 1},
    {"function": "a::very::long::name::of::a::function::that::is::cut::in::its::middle", "file": "/src/long.cu",
     "line": 7, "module": 0},
]
STACKS = [[3, 1, 0], [3, 2, 0], [3, 2, 1, 0], [3, 4, 0]]


# jsonschema 3, as of Ubuntu 22.04, does not know the newest draft, of which the schema uses nothing
DRAFT = getattr(jsonschema, "Draft202012Validator", jsonschema.Draft7Validator)
# test/golden checks the schema itself, once: that takes ten times as long as any document
SCHEMA = DRAFT(cli.report_schema())


class Program:
    """Makes the snapshot of a program from what it did: alloc, free, complete, passthrough."""

    def __init__(self, with_stacks=True):
        self.rows = []
        self.live = {}
        self.passthrough = {}
        self.with_stacks = with_stacks
        self.time = self.blocks = 0
        self.reserved = {}
        self.cut = {}

    def event(self, action, detail="", **columns):
        self.time += 1000
        row = {name: 0 for name in cli.COLUMNS}
        row.update(EVENT_DEFAULTS, time_ns=self.time, **columns)
        row.update(action=ACTIONS.index(action), detail=DETAILS.index(detail))
        if not self.with_stacks:
            row["stack"] = -1
        self.rows.append(row)
        return row

    def alloc(self, size, rounded=None, stack=-1, address=None, **columns):
        self.blocks += 1
        rounded = rounded or size
        address = address or (self.blocks << 32)
        device = columns.get("device", 0)
        if not self.segment_of(device, address) and (device, address) not in self.reserved:
            self.event("segment_alloc", address=address, size=rounded, rounded_size=rounded, device=device)
            self.reserved[device, address] = rounded
        row = self.event("alloc", size=size, rounded_size=rounded, address=address, block=self.blocks, stack=stack,
                         **columns)
        self.live[self.blocks] = dict(row, state="active_allocated")
        return self.blocks

    def segment(self, size, device=0):
        """A segment that is cut: returns its address. alloc has addresses in it."""
        self.blocks += 1
        address = self.blocks << 32
        self.event("segment_alloc", address=address, size=size, rounded_size=size, device=device)
        self.cut[device, address] = size
        return address

    def segment_of(self, device, address):
        return next((key for key, size in self.cut.items() if key[0] == device and key[1] <= address < key[1] + size), None)

    def cut_blocks(self, segment):
        """Those in use, and what is between them."""
        end = segment[1]
        active = [block for block in self.live.values() if block["state"] != "inactive" and
                  self.segment_of(block["device"], block["address"]) == segment]
        for block in sorted(active, key=lambda block: block["address"]) + [None]:
            begin = block["address"] if block else segment[1] + self.cut[segment]
            if begin > end:
                yield {"address": end, "size": begin - end, "requested_size": 0, "block": 0, "state": "inactive", "refs": 0,
                       "stack": -1, "stream": -1, "time_ns": 0, "tainted": False}
            if block:
                yield {"address": begin, "size": block["rounded_size"], "requested_size": block["size"],
                       "block": block["block"], "state": block["state"], "refs": 1, "stack": block["stack"],
                       "stream": block["stream"], "time_ns": block["time_ns"], "tainted": False}
                end = begin + block["rounded_size"]

    def columns_of(self, block):
        return {name: self.live[block][name] for name in ("address", "block", "device", "rounded_size", "size",
                                                          "stack", "stream", "thread")}

    def free(self, block, complete=True):
        self.live[block]["state"] = "active_pending_free"
        self.event("free_requested", **self.columns_of(block))
        if complete:
            self.complete(block)
        return self.live.get(block, {}).get("address")

    def complete(self, block):
        self.live[block]["state"] = "inactive"
        self.event("free_completed", **self.columns_of(block))

    def managed(self, size, stack=-1, kind="managed"):
        self.blocks += 1
        row = self.event("passthrough_alloc", detail=kind, size=size, address=self.blocks << 32, block=self.blocks,
                         stack=stack)
        self.passthrough[self.blocks] = dict(row, kind=kind)

    def snapshot(self, keep=None, **changes):
        """keep: only that many of the events, the last ones."""
        latest = {}
        for block in self.live.values():
            if not self.segment_of(block["device"], block["address"]):
                latest[block["device"], block["address"]] = block
        segments = [{
            "device": device, "address": address, "total_size": self.reserved[device, address], "stream": -1,
            "context": 1, "allocated_size": 0, "active_size": 0, "requested_size": 0, "blocks": [{
                "address": address, "size": self.reserved[device, address], "requested_size": block["size"],
                "block": block["block"], "state": block["state"], "refs": 1, "stack": block["stack"],
                "stream": block["stream"], "time_ns": block["time_ns"], "tainted": False}],
        } for (device, address), block in sorted(latest.items())] + [{
            "device": device, "address": address, "total_size": size, "stream": -1, "context": 1, "allocated_size": 0,
            "active_size": 0, "requested_size": 0, "blocks": list(self.cut_blocks((device, address)))
        } for (device, address), size in sorted(self.cut.items())]
        rows = self.rows[-keep:] if keep else self.rows
        events = {name: [row[name] for row in rows] for name in cli.COLUMNS}
        events.update(actions=ACTIONS, details=DETAILS)
        passthrough = [{"device": row["device"], "address": row["address"], "size": row["size"], "kind": row["kind"],
                        "stream": row["stream"], "block": row["block"], "stack": row["stack"],
                        "time_ns": row["time_ns"]} for row in self.passthrough.values()]
        devices = sorted({row["device"] for row in self.rows} | {0})
        named = {"stacks": STACKS, "modules": [
            {"path": "/usr/bin/app", "build_id": "", "bias": 0, "start": 4096, "end": 8192},
            {"path": "/usr/lib/libcudart.so.13", "build_id": "", "bias": 0, "start": 8192, "end": 16384},
        ], "frames": [dict(frame, address=4096 + i, inline=False) for i, frame in enumerate(FRAMES)]}
        return snapshot_of(**{
            "devices": [device_of(device, allocation=gauge(3)) for device in devices], "segments": segments,
            "passthrough": passthrough, "events": events, "streams": [{"handle": "0x0"}, {"handle": "0x7f00"}],
            "threads": [{"tid": 4711, "name": "main"}, {"tid": 4712, "name": "worker"}],
            "recorded_since_ns": rows[0]["time_ns"] - 1 if keep else 0,
            "dropped_events": len(self.rows) - len(rows), **(named if self.with_stacks else {}), **changes})


def ordinary(with_stacks=True):
    """loads a model of 2 x 10 MiB, which it keeps; grows a cache, which it frees; a temporary; managed memory."""
    program = Program(with_stacks)
    program.alloc(10 * MIB, stack=0)
    program.alloc(10 * MIB, stack=0, thread=1, stream=1)
    cache = program.alloc(30 * MIB, 32 * MIB, stack=1)
    other = program.alloc(5 * MIB, stack=2)
    address = program.free(program.alloc(1 * MIB, stack=3))
    program.free(program.alloc(1 * MIB, stack=3, address=address))
    program.free(cache)
    program.free(other, complete=False)
    program.managed(3 * MIB, stack=1)
    return program


def fragmented():
    """A segment of 64 MiB: a model of 8 x 4 MiB with 4 MiB after each, which a cache of 2 x 4 MiB takes from; the rest idle
    but for one block that the device still uses."""
    program = Program()
    base = program.segment(64 * MIB)
    between = []
    for i in range(8):
        program.alloc(4 * MIB, stack=0, address=base + 8 * i * MIB)
        between.append(program.alloc(4 * MIB, stack=1, address=base + (8 * i + 4) * MIB))
    for i, block in enumerate(between[2:]):
        program.free(block, complete=i < 5)
    return program


class Reports(Case):
    command = None

    def report(self, program, *arguments, status=DONE, command=None, **environment):
        snapshot = program.snapshot() if isinstance(program, Program) else program
        return self.run_tool(command or self.command, self.write("s.json", snapshot), *arguments, status=status,
                             **environment)

    def document(self, program, *arguments, status=DONE):
        document = json.loads(self.report(program, "--json", *arguments, status=status).stdout)
        self.expect_valid(document, self.command)
        return document

    def expect_valid(self, document, command):
        """As the schema of the reports says, and as nothing else."""
        self.assertEqual((document["format"], document["version"]), ("gpupool-" + command, 1))
        SCHEMA.validate(document)
        for key in list(document):
            self.assertFalse(SCHEMA.is_valid({name: document[name] for name in document if name != key}), key)
        self.assertFalse(SCHEMA.is_valid(dict(document, extra=1)))

    def facts(self, program, *arguments):
        return self.document(program, *arguments)["snapshots"][0]

    def narrow(self, text):
        self.assertLessEqual(max(map(len, text.splitlines())), 80, text)
