"""Records (format/record.h) for the corpus of the fuzz target `recover`: small, with their sections side by side,
where those of a process are far apart.

The layouts are those of the structures in format; tables of names are read from the same .def files. The hash of the
layout is 0: the fuzz target and stamp_record put that of their build there.
"""

import os
import re
import struct

HERE = os.path.dirname(os.path.abspath(__file__))
HEADER_BYTES = 4096
ALLOCATED, PENDING, IDLE, FORWARDED, SEGMENT = 1, 2, 3, 4, 5
BASE_NS, START_US = 1000, 1760000000000000
BLOCK, MIB = 0x7f0000000000, 1 << 20


def names(path, macro):
    with open(os.path.join(HERE, "..", "..", path), encoding="utf-8") as file:
        return re.findall(r"^%s\((\w+)" % macro, file.read(), re.MULTILINE)


SECTIONS = [name.lower() for name in names("format/sections.def", "SECTION")]
ACTIONS = names("format/actions.def", "ACTION")
DETAILS = names("format/details.def", "(?:REASON|TRIM_REASON|MODE|MODE_CAUSE|FORWARDED_KIND)")
STATS = b"".join(struct.pack("=4Q", 3 * MIB, 5 * MIB, 9 * MIB, 6 * MIB) for _ in names("format/stats.def", "GAUGE"))
STATS += struct.pack("=Q", 7) * len(names("format/stats.def", "COUNTER"))
STATS += struct.pack("=Q", 0) * len(names("format/stats.def", "GAUGE"))


def event(action, time_ns, address, size, block, stack=-1, stream=-1, thread=0, detail="NONE", device=0, hit=0, completed=0,
          lifetime=0, alloc_thread=None):
    """completed: nanoseconds after a free, 0: not told. alloc_thread: the record of a free stands for the alloc, too."""
    flags = hit | (alloc_thread is not None) << 1
    return struct.pack("=5QIIiHHhHBBbB", BASE_NS + time_ns, BLOCK + address, size, lifetime, completed << 32 | block, 0,
                       alloc_thread or 0, stack, 0, 0, stream, thread, ACTIONS.index(action), DETAILS.index(detail), device, flags)


def slot(state, address, size, block, origin=0, stream=-1, kind="NONE", device=0, refs=1, is_cut=False, alloc_thread=None):
    """alloc_thread: no event tells of the alloc."""
    word = state | DETAILS.index(kind) << 8 | device << 16 | is_cut << 25 | (alloc_thread is not None) << 26 | refs << 32
    return struct.pack("=7QIhH", word, BLOCK + address, size, size, block, BASE_NS + 5, 1, origin, stream, alloc_thread or 0)


def description(**pairs):
    text = b"".join(key.encode() + b"\0" + value.encode() + b"\0" for key, value in pairs.items())
    return struct.pack("=Q", len(text)) + text


def devices(limit=0):
    record = STATS + struct.pack("=3Q5Q", 1, limit, 1, 80 << 30, 60 << 30, BASE_NS + 9, 5 * MIB, 15 << 30)
    return record.ljust(len(record) // 64 * 64 + 64, b"\0")


def threads(*entries):
    return struct.pack("=I", len(entries)) + b"".join(struct.pack("=i16s", tid, name) for tid, name in entries)


def streams(*handles):
    return struct.pack("=II", len(handles), 0) + b"".join(struct.pack("=Q", handle) for handle in handles)


def stacks(*frames):
    words = [word for stack in frames for word in [len(stack)] + [address | module + 1 << 48 for address, module in stack]]
    return struct.pack("=IIQ", len(words), len(frames), 2) + struct.pack("=%dQ" % len(words), *words)


def modules(*paths):
    data = b""
    for path in paths:
        name = path.encode()
        size = (64 + len(name) + 7) // 8 * 8
        data += struct.pack("=3QIHH32s", 1 << 40, 1 << 40, (1 << 40) + MIB, size, len(name), 4, b"\x12\x34\x56\x78")
        data += name.ljust(size - 64, b"\0")
    return struct.pack("=II", len(data), len(paths)) + data


def codes(*entries):
    """(name, file, first line, line table as of CPython 3.11)"""
    data = b""
    for name, file, first_line, table in entries:
        text = name.encode() + file.encode() + table
        size = (24 + len(text) + 7) // 8 * 8
        data += struct.pack("=IIiIII", size, len(table), first_line, 2, len(name), len(file)) + text.ljust(size - 24, b"\0")
    return struct.pack("=II", len(data), len(entries)) + data


def marks(*entries):
    """(time, kind, scope, device, thread, name)"""
    return struct.pack("=Q", len(entries)) + b"".join(
        struct.pack("=QQHBbI72s", BASE_NS + time_ns, scope, thread, kind, device, 0, name) for time_ns, kind, scope, device, thread, name in entries)


def out_of_memory():
    return struct.pack("=Q", 1) + struct.pack("=17Q6QiI", BASE_NS + 70, 1 << 40, MIB, 0, MIB, 512, 0, 1 << 33, MIB, 0, 0,
                                              5, 80 << 30, 0, 2 * 10**9, 3 * 10**9, 1, MIB, 2, 0, 0, 0, 0, 0, 1)


def events(chunks, chunk_records=8, dropped=0, discarding=0, wanted=1024):
    """chunks: lists of events; the first is the shared one."""
    header = struct.pack("=4I5Q4I2Q", 1, chunk_records, len(chunks), discarding, 128, 128 + 64 * len(chunks), dropped, 0, 0,
                         0, 0, 0, len(chunks), 0, wanted).ljust(128, b"\0")
    array = b"".join(struct.pack("=IIQIIII32x", len(chunk), 3 if i == 0 else 2, 0, 0, 0, 0xffff if i == 0 else i - 1, len(chunk))
                     for i, chunk in enumerate(chunks))
    return header + array + b"".join(b"".join(chunk).ljust(64 * chunk_records, b"\0") for chunk in chunks)


def record(recording=2, **sections):
    parts, body, offset = b"", b"", HEADER_BYTES
    for name in SECTIONS:
        content = sections.get(name, b"")
        content = content.ljust((len(content) + 63) // 64 * 64, b"\0")
        parts += struct.pack("=3Q", offset, len(content), len(content))
        body += content
        offset += len(content)
    header = struct.pack("=8sIIQQQiI32sQiiII", b"gpupool\0", len(SECTIONS), 0x01020304, 0, BASE_NS, START_US, 4711, recording,
                         b"0.1.0", offset, 13000, 12080, 0, 0)
    return (header + parts).ljust(HEADER_BYTES, b"\0") + body


def records():
    python = 0xffff - 1  # the tag, in place of a module's index: the low bits are an instruction and a code object
    frames = [[(0x10000001234, 0), (0x10000005678, 1)], [(0x10000001234, 0), (1 << 24 | 2, python), (2, python)], [(0x77, -1)]]
    story = [
        [event("SEGMENT_ALLOC", 10, 0, MIB, 0, stack=0), event("ALLOC", 11, 0, MIB, 1, stack=0, thread=1)],
        [event("FREE_REQUESTED", 20, 0, MIB, 1), event("FREE_COMPLETED", 30, 0, MIB, 1),
         event("ALLOC", 40, 0, MIB, 2, stack=1, hit=1)],
        [event("FORWARDED_ALLOC", 50, 2 * MIB, MIB, 3, stack=2, stream=1, thread=1, detail="ASYNC"),
         event("SEGMENT_ALLOC", 60, 4 * MIB, 2 * MIB, 0), event("ALLOC", 61, 4 * MIB, 2 * MIB, 4)],
    ]
    live = (slot(ALLOCATED, 0, MIB, 2, origin=2) + slot(FORWARDED, 2 * MIB, MIB, 3, origin=3, stream=1, kind="ASYNC") +
            slot(IDLE, 4 * MIB, 2 * MIB, 0, refs=0))
    whole = dict(
        description=description(program="/usr/bin/app", host="node1", rank="3", setting="trace=all",
                                source="trace=environment", argument="app"),
        devices=devices(limit=1 << 33), threads=threads((4711, b"app"), (4712, b"worker")), streams=streams(0, 0x7f00),
        live=live, stacks=stacks(*frames), modules=modules("/usr/bin/app", "/usr/lib/libapp.so"),
        codes=codes(("<module>", "/app/train.py", 1, b"\xf0\x03\x01\x01\x01\xd8\x00\x05\x80"), ("Model.load", "/app/model.py", 40, b"\x80\x00\xd8\x04\x08")),
        events=events(story),
        marks=marks((15, 0, 0, -1, 0, b"warm"), (22, 3, 0, -1, 0, b"load"), (25, 1, 1, 0, 1, b"step"), (45, 4, 0, -1, 0, b""),
                    (55, 2, 1, 0, 1, b"step")))
    yield "plain", record(**whole)
    yield "oom", record(oom=out_of_memory(), **whole)
    yield "state", record(recording=1, **dict(whole, events=b""))
    yield "dropped", record(**dict(whole, events=events(story, dropped=99, discarding=2)))
    yield "no-threads", record(**dict(whole, threads=b""))
    yield "no-streams", record(**dict(whole, streams=b""))
    yield "empty", record()
    pairs = [[], [event("FREE_REQUESTED", 30, 0, MIB, 1, stack=0, thread=1, lifetime=25, alloc_thread=0, completed=7),
                  event("FREE_REQUESTED", 50, MIB, MIB, 2, stack=1, lifetime=20, alloc_thread=1)],
             [event("SEGMENT_ALLOC", 4, 0, 8 * MIB, 0, thread=1)]]
    live_pairs = [slot(SEGMENT, 0, 8 * MIB, 0, refs=0), slot(PENDING, MIB, MIB, 2, origin=2, refs=0, is_cut=True),
                  slot(ALLOCATED, 4 * MIB, MIB, 3, origin=1, is_cut=True, alloc_thread=1),
                  slot(ALLOCATED, 5 * MIB, MIB, 4, is_cut=True, alloc_thread=9)]
    yield "pairs", record(**dict(whole, live=b"".join(live_pairs), events=events(pairs)))
    yield "few", record(**dict(whole, live=b"".join(live_pairs), events=events(pairs, wanted=2)))
    cut_story = [
        [event("SEGMENT_ALLOC", 10, 0, 8 * MIB, 0, stack=0), event("ALLOC", 11, 0, MIB, 1, stack=0)],
        [event("ALLOC", 20, MIB, MIB, 2, stack=1, hit=1), event("FREE_REQUESTED", 30, MIB, MIB, 2),
         event("ALLOC", 40, 4 * MIB, 2 * MIB, 3, stack=2, hit=1), event("FREE_COMPLETED", 50, MIB, MIB, 2),
         event("ALLOC", 60, 7 * MIB, MIB, 4, hit=1)],
    ]
    parts = [slot(SEGMENT, 0, 8 * MIB, 0, refs=0), slot(ALLOCATED, 0, MIB, 1, origin=1, is_cut=True),
             slot(PENDING, 4 * MIB, 2 * MIB, 3, origin=3, refs=0, is_cut=True)]
    yield "cut", record(**dict(whole, live=b"".join(parts), events=events(cut_story)))
    wrong = [slot(ALLOCATED, 512, MIB, 5, is_cut=True), slot(ALLOCATED, 6 * MIB, 3 * MIB, 6, is_cut=True),
             slot(ALLOCATED, 9 * MIB, MIB, 7, is_cut=True), slot(IDLE, 2 * MIB, MIB, 8, is_cut=True)]
    yield "cut-wrong", record(**dict(whole, live=b"".join(parts + wrong), events=events(cut_story)))
    overlap = bytearray(record(**whole))
    at = [104 + 24 * SECTIONS.index(name) for name in ("modules", "events")]
    overlap[at[0]:at[0] + 24] = overlap[at[1]:at[1] + 24]  # the modules lie where the events are
    yield "overlap", bytes(overlap)
