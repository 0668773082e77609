"""What the formats of `gpupool export` demand, as checks that raise AssertionError.

Written from the published descriptions of the formats, so that an export is judged by what its readers rely on, and not
by the code that made it.
"""

import bisect
import io
import json
import pickle
import pickletools

from schema_judge import Judge

# What both Python and the reader in JavaScript of PyTorch's viewer know.
OPCODES = {
    "PROTO", "STOP", "MARK", "EMPTY_DICT", "SETITEMS", "EMPTY_LIST", "APPENDS", "BINUNICODE", "BININT", "BININT1",
    "BININT2", "LONG1", "TUPLE2", "NEWTRUE", "NEWFALSE", "BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET",
}
BATCH_MOST = 1000

INTEGER = {"type": "integer", "minimum": 0}
TEXT = {"type": "string"}
PAIR = {"type": "array", "items": INTEGER, "minItems": 2, "maxItems": 2}


def shape(**members):
    return {"type": "object", "properties": members, "required": list(members), "additionalProperties": False}


def some(items):
    return {"type": "array", "items": items}


FRAME = shape(filename=TEXT, line=INTEGER, name=TEXT)
BLOCK = shape(address=INTEGER, size=INTEGER, requested_size=INTEGER, frames=some(FRAME),
              state={"enum": ["active_allocated", "active_pending_free", "inactive"]})
SEGMENT = shape(device=INTEGER, address=INTEGER, total_size=INTEGER, allocated_size=INTEGER, active_size=INTEGER,
                requested_size=INTEGER, stream=INTEGER, segment_type={"enum": ["small", "large"]},
                segment_pool_id=PAIR, is_expandable={"type": "boolean"}, frames=some(FRAME), blocks=some(BLOCK))
ENTRY_COMMON = dict(size=INTEGER, stream=INTEGER, compile_context={"const": "N/A"},
                    user_metadata=TEXT, pool_id=PAIR, segment_pool_id=PAIR)
ENTRY = shape(addr=INTEGER, action={"enum": ["alloc", "free_requested", "free_completed", "segment_alloc",
                                             "segment_free", "segment_map", "segment_unmap", "snapshot"]},
              **ENTRY_COMMON)
ENTRY_OOM = shape(device_free=INTEGER, action={"const": "oom"}, **ENTRY_COMMON)
for entry in (ENTRY, ENTRY_OOM):
    entry["properties"]["frames"] = some(FRAME)  # absent where none are known
    entry["properties"]["time_us"] = INTEGER  # the same
    entry["properties"]["rounded_size"] = INTEGER  # ours
ANNOTATION = shape(stage={"enum": ["START", "END"]}, name=TEXT, device=INTEGER, time_us=INTEGER)
PYTORCH = shape(segments=some(SEGMENT), device_traces=some(some({"oneOf": [ENTRY, ENTRY_OOM]})),
                allocator_settings={"type": "object", "additionalProperties": TEXT},
                external_annotations=some(ANNOTATION), gpupool={"type": "object"})
JUDGE_PYTORCH = Judge(PYTORCH)

SPEEDSCOPE_FRAME = shape(name=TEXT, file=TEXT, line={"type": "integer", "minimum": 1})
SPEEDSCOPE_FRAME["required"] = ["name"]
SPEEDSCOPE = {
    "type": "object",
    "required": ["$schema", "shared", "profiles"],
    "properties": {
        "$schema": {"const": "https://www.speedscope.app/file-format-schema.json"},
        "shared": shape(frames=some(SPEEDSCOPE_FRAME)),
        "profiles": some(shape(type={"const": "sampled"}, name=TEXT, unit={"const": "bytes"}, startValue=INTEGER,
                               endValue=INTEGER, samples=some(some(INTEGER)), weights=some(INTEGER))),
        "name": TEXT, "exporter": TEXT, "activeProfileIndex": INTEGER,
    },
    "additionalProperties": False,
}
JUDGE_SPEEDSCOPE = Judge(SPEEDSCOPE)

NUMBER = {"type": "number", "minimum": 0}
EVENT = {
    "type": "object", "required": ["name", "ph", "pid", "ts"],
    "properties": {"name": TEXT, "pid": INTEGER, "tid": INTEGER, "ts": NUMBER, "cat": TEXT, "id": TEXT},
}
PHASES = {
    "M": {"required": ["args"], "properties": {"name": {"enum": ["process_name", "thread_name"]}}},
    "C": {"required": ["args"], "properties": {"args": {"type": "object", "minProperties": 1,
                                                        "additionalProperties": NUMBER}}},
    "b": {"required": ["id", "cat"]},
    "e": {"required": ["id", "cat"]},
    "B": {"required": ["tid"]},
    "E": {"required": ["tid"]},
    "i": {"required": ["s"], "properties": {"s": {"enum": ["g", "p", "t"]}}},
}
JUDGE_EVENTS = Judge(some(EVENT))
JUDGE_PHASES = {phase: Judge(some(dict(schema, type="object"))) for phase, schema in PHASES.items()}


class Plain(pickle.Unpickler):
    """Reads what needs no class: anything else would be code of the file."""

    def find_class(self, module, name):
        raise AssertionError("the pickle imports %s.%s" % (module, name))

    def persistent_load(self, pid):
        raise AssertionError("the pickle refers to something outside")


def load_pickle(data):
    """The value of a pickle that every reader of PyTorch's snapshots takes."""
    operations = [(opcode.name, argument, at) for opcode, argument, at in pickletools.genops(data)]
    for name, argument, at in operations:
        assert name in OPCODES, "%s at %d" % (name, at)
        if name == "PROTO":
            assert argument == 2, "protocol %d" % argument
        elif name == "LONG1":
            assert -2**63 <= argument < 2**63, "%d at %d" % (argument, at)
    value = Plain(io.BytesIO(data)).load()
    check_batches(operations)
    return value


def check_batches(operations):
    """No list or dict takes more than BATCH_MOST elements at once. A stack machine that only counts."""
    stack, marks = [], []
    for name, _, at in operations:
        if name == "MARK":
            marks.append(len(stack))
        elif name in ("SETITEMS", "APPENDS"):
            count = len(stack) - marks.pop()
            most = BATCH_MOST * (2 if name == "SETITEMS" else 1)
            assert 0 < count <= most, "%d elements at %d" % (count, at)
            del stack[len(stack) - count:]
        elif name == "TUPLE2":
            del stack[-2:]
            stack.append(at)
        elif name not in ("PROTO", "STOP", "BINPUT", "LONG_BINPUT"):
            stack.append(at)
    assert len(stack) == 1 and not marks


def plain(value):
    """Tuples as lists, as JSON has them."""
    if isinstance(value, dict):
        return {key: plain(member) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(member) for member in value]
    return value


def check_pytorch(document):
    """Keys and types; blocks tile; and the events, undone one by one, fit the segments at every moment."""
    document = plain(document)
    JUDGE_PYTORCH.check(document)
    places = [(s["device"], s["address"]) for s in document["segments"]]
    assert places == sorted(places), "segments are not in order"
    for segment in document["segments"]:
        at = segment["address"]
        sums = {"active_allocated": 0, "active_pending_free": 0, "inactive": 0}
        requested = 0
        for block in segment["blocks"]:
            assert block["address"] == at, "blocks do not tile"
            at += block["size"]
            sums[block["state"]] += block["size"]
            requested += block["requested_size"] if block["state"] != "inactive" else 0
        assert at == segment["address"] + segment["total_size"], "blocks do not fill their segment"
        assert segment["allocated_size"] == sums["active_allocated"]
        assert segment["active_size"] == sums["active_allocated"] + sums["active_pending_free"]
        assert segment["requested_size"] == requested
        assert segment["device"] < len(document["device_traces"]), "a device without a trace"
    for device, trace in enumerate(document["device_traces"]):
        check_lifetimes([s for s in document["segments"] if s["device"] == device], trace)


def check_lifetimes(segments, trace):
    """Goes backwards, as the viewer does."""
    held = {s["address"]: s["total_size"] for s in segments}
    blocks = {}
    for segment in segments:
        for block in segment["blocks"]:
            if block["state"] != "inactive":
                blocks[block["address"]] = block["state"]

    starts = sorted(held)
    parts = {s["address"] for s in segments if s["is_expandable"]}  # where parts of segments begin

    def inside(address, size):
        at = bisect.bisect_right(starts, address) - 1
        return at >= 0 and address + size <= starts[at] + held[starts[at]]
    times = [entry["time_us"] for entry in trace if "time_us" in entry]
    assert times == sorted(times), "times go backwards"
    for entry in reversed(trace):
        action, address, size = entry["action"], entry.get("addr"), entry["size"]
        if action == "free_completed":
            assert address not in blocks, "%x is freed and held" % address
            assert inside(address, size), "%x was in no segment" % address
            blocks[address] = "active_pending_free"
        elif action == "free_requested":
            assert blocks.get(address) == "active_pending_free", "%x is freed out of turn" % address
            blocks[address] = "active_allocated"
        elif action == "alloc":
            assert blocks.pop(address, None) == "active_allocated", "%x is allocated out of turn" % address
            assert inside(address, size), "%x is in no segment" % address
        elif action == "segment_map":  # cuts the part out of its segment
            at = starts[bisect.bisect_right(starts, address) - 1]
            end = at + held.pop(at)
            assert at <= address and address + size <= end, "part %x is not there" % address
            starts.remove(at)
            for begin, rest in ((at, address - at), (address + size, end - address - size)):
                if rest:
                    held[begin] = rest
                    bisect.insort(starts, begin)
            parts.update(begin for begin in (at, address + size) if begin in held)
            assert not any(address <= block < address + size for block in blocks), "a block without a segment"
        elif action == "segment_unmap":  # joins it with the parts beside it
            for begin in [begin for begin in starts if begin in parts and begin + held[begin] == address]:
                address, size = begin, size + held.pop(begin)
                starts.remove(begin)
            if address + size in held and address + size in parts:
                starts.remove(address + size)
                size += held.pop(address + size)
            held[address] = size
            parts.add(address)
            bisect.insort(starts, address)
        elif action == "segment_alloc":
            assert held.pop(address, None) == size, "segment %x is not there" % address
            starts.remove(address)
            assert not any(address <= block < address + size for block in blocks), "a block without a segment"
        elif action == "segment_free":
            assert address not in held
            held[address] = size
            bisect.insort(starts, address)


def check_perfetto(document):
    """Every event has what its phase needs, times never go backwards, and slices end once, after they began."""
    assert set(document) == {"displayTimeUnit", "traceEvents"}
    JUDGE_EVENTS.check(document["traceEvents"])
    by_phase = {}
    for event in document["traceEvents"]:
        by_phase.setdefault(event["ph"], []).append(event)
    for phase, events in by_phase.items():
        JUDGE_PHASES[phase].check(events)
    open_slices, last = {}, 0
    ranges = {}  # of each thread
    for event in document["traceEvents"]:
        if event["ph"] == "M":
            assert isinstance(event["args"]["name"], str)
            continue
        assert event["ts"] >= last, "times go backwards"
        last = event["ts"]
        slice_of = (event["pid"], event.get("cat"), event.get("id"))
        if event["ph"] == "b":
            assert slice_of not in open_slices, "two slices of one id"
            open_slices[slice_of] = event["name"]
        elif event["ph"] == "e":
            assert open_slices.pop(slice_of) == event["name"]
        elif event["ph"] == "B":
            ranges.setdefault(event["tid"], []).append(event["name"])
        elif event["ph"] == "E":
            assert ranges[event["tid"]].pop() == event["name"]
    return open_slices


def check_speedscope(document):
    JUDGE_SPEEDSCOPE.check(document)
    assert 0 <= document["activeProfileIndex"] < len(document["profiles"])
    for profile in document["profiles"]:
        assert len(profile["samples"]) == len(profile["weights"])
        assert sum(profile["weights"]) == profile["endValue"] - profile["startValue"]
        for sample in profile["samples"]:
            assert 0 < len(sample) <= 501
            assert all(index < len(document["shared"]["frames"]) for index in sample)


def read_folded(text):
    """The stacks of folded lines, outermost call first, and their bytes."""
    stacks = {}
    for line in text.splitlines():
        names, _, number = line.rpartition(" ")
        assert names and " " not in names and number.isdigit(), line
        stacks[names] = stacks.get(names, 0) + int(number)  # several calls of one function look alike
    return stacks


def read_csv(text):
    lines = text.splitlines()
    assert lines[0] == "op,id,size,stream"
    rows = [line.split(",") for line in lines[1:]]
    live = set()
    for op, block, size, stream in rows:
        assert op in "AF" and int(size) >= 0 and int(stream) >= 0
        assert (block in live) == (op == "F"), "%s of %s" % (op, block)
        (live.add if op == "A" else live.remove)(block)
    return [(op, int(block), int(size), int(stream)) for op, block, size, stream in rows]


def load_json(data):
    return json.loads(data.decode("utf-8"))
