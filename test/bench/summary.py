#!/usr/bin/env python3
"""How long `gpupool summary` takes for a million events, and how much memory: summary.py GPUPOOL [EVENTS]

Both as ratios to the file: to the time of reading it and doing nothing with it, and to its size. Also through a pipe.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time


def statistics(macro):
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "format", "stats.def"), encoding="utf-8") as file:
        return re.findall(r"^%s\((\w+)" % macro, file.read(), re.MULTILINE)


ROUNDS = 5
GAUGES, COUNTERS = statistics("GAUGE"), statistics("COUNTER")
LIVE = 1000  # blocks that are held at a time


def columns(count):
    """Thirds: an alloc, the free of a block LIVE allocations ago, and that it may be used again."""
    def each(alloc, free):
        for i in range(count):
            yield alloc(i // 3) if i % 3 == 0 else free(max(i // 3 - LIVE, 0))
    block = list(each(lambda n: n + 1, lambda n: n + 1))
    yield "action", (i % 3 for i in range(count))
    yield "time_ns", (1000 + 2500 * i + i % 7 for i in range(count))
    yield "device", (0 for _ in range(count))
    yield "stream", (0 for _ in range(count))
    yield "thread", (0 for _ in range(count))
    yield "address", ((1 << 45) + (number % (2 * LIVE) << 21) for number in block)
    yield "size", (512 + number * 7919 % 2000000 for number in block)
    yield "rounded_size", (1 << 21 for _ in range(count))
    yield "block", block
    yield "hit", (int(i % 3 == 0) for i in range(count))
    yield "duration_ns", (0 for _ in range(count))
    yield "lifetime_ns", each(lambda n: 0, lambda n: 7500 * LIVE + n % 1000)
    yield "stack", (-1 for _ in range(count))
    yield "detail", (0 for _ in range(count))


def write(path, count):
    stats = {name: dict.fromkeys(["current", "peak", "allocated", "freed"], 0) for name in GAUGES}
    stats.update(dict.fromkeys(COUNTERS, 0))
    head = {"format": "gpupool-snapshot", "version": 1, "reason": "exit", "process": {"start_time_us": 1760000000000000},
            "settings": {}, "devices": [{"device": 0, "limit": None, "stats": stats}], "segments": [], "passthrough": [],
            "streams": [{"handle": "0x0"}], "threads": [{"tid": 1, "name": "made up"}]}
    tail = {"stacks": [], "frames": [], "modules": [], "recorded_since_ns": 0, "dropped_events": 0}
    with open(path, "w") as file:
        file.write(json.dumps(head)[:-1] + ',\n"events":{\n"actions":["alloc","free_requested","free_completed"],'
                   '\n"details":[""]')
        for name, values in columns(count):
            file.write(',\n"%s":[%s]' % (name, ",".join(map(str, values))))
        file.write("},\n" + json.dumps(tail)[1:] + "\n")


def read_raw(path):
    began = time.perf_counter()
    with open(path, "rb", buffering=0) as file:
        while file.read(1 << 20):
            pass
    return time.perf_counter() - began


def summarize(tool, path, piped):
    """Seconds on a processor, elapsed seconds, and the most bytes that were resident."""
    began = time.perf_counter()
    source = subprocess.Popen(["cat", path], stdout=subprocess.PIPE) if piped else None
    process = subprocess.Popen([tool, "summary", "-" if piped else path], stdout=subprocess.DEVNULL,
                               stdin=source.stdout if piped else subprocess.DEVNULL)
    if piped:
        source.stdout.close()
    _, status, usage = os.wait4(process.pid, 0)
    elapsed = time.perf_counter() - began
    if piped:
        source.wait()
    if status:
        sys.exit("summary failed: status %d" % status)
    return usage.ru_utime + usage.ru_stime, elapsed, usage.ru_maxrss * 1024


def write_apart(path, count):
    """In a process of its own: what is resident before exec() counts as the child's."""
    child = os.fork()
    if child == 0:
        write(path, count)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        sys.exit("the snapshot cannot be written")


def main():
    tool = os.path.abspath(sys.argv[1])
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 1000000
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "large.json")
        write_apart(path, count)
        size = os.path.getsize(path)
        raw = min(read_raw(path) for _ in range(ROUNDS))
        print("%d events, %.1f MB; read and thrown away: %.3f s" % (count, size / 1e6, raw))
        for piped in (False, True):
            results = [summarize(tool, path, piped) for _ in range(ROUNDS)]
            busy, elapsed, resident = (min(column) for column in zip(*results))
            print("summary of %s: %6.3f s elapsed, %6.3f s busy: %5.1f times the read; %6.1f MB resident: %4.2f of the file"
                  % ("a pipe" if piped else "a file", elapsed, busy, busy / raw, resident / 1e6, resident / size))


if __name__ == "__main__":
    sys.exit(main())
