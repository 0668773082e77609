"""What was allocated and freed, by the simulator's log and by the library's snapshots.

The snapshots have to equal two logs: what the program asked for (its log without the library), and what the library asked
the driver for (the log of the same run). Memory of arrays, of other APIs and of graphs is left out of both.
"""

import json
import re

CALL = re.compile(r"(cuMem(?:Alloc_v2|AllocManaged|AllocPitch_v2|AllocAsync|AllocFromPoolAsync|Create))(?:_ptsz)? "
                  r"(\d+) (?:(\d+) )?.*?-> (\w+)=0$")
FREE = re.compile(r"cuMem(?:Free_v2|FreeAsync|Release)(?:_ptsz)? (\w+)\b.*=0$")
# Memory of another process, which counts it
IMPORT = re.compile(r"cuMem(?:ImportFromShareableHandle|PoolImportPointer) .*-> (\w+)=0$")
CAPTURE = re.compile(r"cuStreamBeginCapture.*=0$")  # stream-ordered memory is then the graph's
OTHERS = ("array", "external", "graph", "pinned_host")  # kinds of memory that is not pooled
ROW_BYTES = 512
# The pool tries whether it can map, once per range; that is no memory of the pool.
TRIAL = ["cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemUnmap", "cuMemRelease"]


class Sums:
    def __init__(self):
        self.allocations = self.bytes = self.frees = self.freed = 0

    def add(self, size):
        self.allocations += 1
        self.bytes += size

    def free(self, size):
        self.frees += 1
        self.freed += size

    def take_back(self, size):
        self.allocations, self.bytes, self.frees, self.freed = (
            self.allocations - 1, self.bytes - size, self.frees - 1, self.freed - size)

    def __add__(self, other):
        both = Sums()
        both.allocations, both.bytes, both.frees, both.freed = (
            mine + its for mine, its in zip(vars(self).values(), vars(other).values()))
        return both

    def held(self):
        return self.allocations - self.frees, self.bytes - self.freed

    def __eq__(self, other):
        return vars(self) == vars(other)

    def __str__(self):
        return "%(allocations)d allocations of %(bytes)d bytes, %(frees)d frees of %(freed)d" % vars(self)


def of_log(lines):
    sums, last, sizes, captures, of_graphs, imported = Sums(), [], {}, 0, set(), set()
    for line in lines:
        last = last[1 - len(TRIAL):] + [line]
        captures += bool(CAPTURE.match(line))
        captures -= line.startswith("cuStreamEndCapture")
        if not line.startswith("cuMem"):
            continue
        call = CALL.match(line)
        if call and captures and "Async" in call.group(1):
            of_graphs.add(call.group(4))
        elif call:
            size = int(call.group(2))
            if "Pitch" in call.group(1):
                size = -(-size // ROW_BYTES) * ROW_BYTES * int(call.group(3))
            sums.add(size)
            sizes[call.group(4)] = size
        got = IMPORT.match(line)
        if got:
            imported.add(got.group(1))
        free = FREE.match(line)
        if free and free.group(1) in imported:
            imported.remove(free.group(1))
        elif free and free.group(1) != "0" and free.group(1) not in of_graphs:
            sums.free(sizes.get(free.group(1), 0))
        if [call.split(" ")[0] for call in last] == TRIAL:
            sums.take_back(int(last[0].split(" ")[1]))
    return sums


def of_logs(paths):
    sums = Sums()
    for path in paths:
        with open(path, errors="replace") as file:
            sums += of_log(file)
    return sums


def has_mapped(paths):
    for path in paths:
        with open(path, errors="replace") as file:
            if any(line.startswith("cuMemMap ") for line in file):
                return True
    return False


def of_snapshots(paths, frees_lost):
    """
    What the program got, what the driver gave, and how many events are missing. frees_lost: memory whose context has ended
    is freed by calls, too.
    """
    program, driver, missing = Sums(), Sums(), 0
    for path in paths:
        with open(path) as file:
            snapshot = json.load(file)
        missing += snapshot["dropped_events"]
        events = snapshot["events"]
        for action, detail, size in zip(events["action"], events["detail"], events["size"]):
            action, detail = events["actions"][action], events["details"][detail]
            counted = action.startswith("passthrough") and detail not in OTHERS
            if action == "alloc" or (counted and action == "passthrough_alloc"):
                program.add(size)
            if action == "segment_alloc" or (counted and action == "passthrough_alloc"):
                driver.add(size)
            if (action == "free_requested" and detail != "context_lost") or (counted and action == "passthrough_free"):
                program.free(size)
            if (action == "segment_free" and (frees_lost or detail != "context_lost")) or (counted and action == "passthrough_free"):
                driver.free(size)
    return program, driver, missing
