"""What the record of a process tells if the process is killed between any two stores to it.

test/prog/stepped.c does one operation after another. stop_at_stores.c stops it at each store, and recovers the record there.
"""

import functools
import json
import os
import subprocess
import sys
import tempfile
import unittest

from harness import LIBRARY, PreloadCase, QUICK, SANITIZED, rows_of

STOP_AT_STORES = os.environ["GP_STOP_AT_STORES"]
SKIP = 77
SIGNAL = "nothing: an operation begins or ends"
LIMIT = 72 << 20
NO_DESCRIPTION = "the settings and the name of the program are missing"  # before the first memory is had
# The next action of an owner, and the state that memory has after each
ACTIONS = {None: "alloc", "alloc": "free_requested", "free_requested": "free_completed"}
STATES = {"alloc": "active_allocated", "free_requested": "active_pending_free"}
TABLES = ("threads", "streams", "stacks", "frames", "modules", "marks")


class Operation:
    """What the program held before and after it (bytes by address); for its begin, each store and its end a function that
    loads the snapshot of that moment, and where the store was."""

    def __init__(self, name, before):
        self.name, self.before, self.after, self.states = name, before, before, []


def operations_of(text, folder):
    """Reads the lines of the program and of stop_at_stores."""
    @functools.lru_cache(maxsize=2)
    def load(name):
        with open(os.path.join(folder, name)) as file:
            return json.load(file)

    def held(fields):
        return {int(address, 16): int(size) for address, size in (field.split(":") for field in fields)}

    result = []
    for line in text.splitlines():
        word, rest = line.split(" ", 1)
        name, *fields = rest.split("\t")
        if word == "begin":
            result.append(Operation(name, held(fields)))
        elif word == "end":
            result[-1].after = held(fields)
        else:
            file, *place = rest.split()
            result[-1].states.append((functools.partial(load, file) if file != "-" else lambda: None, " ".join(place) or SIGNAL))
    return result


def held_items(snapshot):
    """What the snapshot says of memory that the program holds, by address."""
    items = [block for segment in snapshot["segments"] for block in segment["blocks"] if block["state"] == "active_allocated"]
    items += snapshot["passthrough"]
    result = {item["address"]: item for item in items}
    assert len(result) == len(items), "an address has two owners"
    return result


def owned(snapshot):
    """The same, but only the bytes that the program asked for."""
    return {address: item["requested_size" if "state" in item else "size"] for address, item in held_items(snapshot).items()}


def gauges_of(device):
    return {name: gauge for name, gauge in device["stats"].items() if isinstance(gauge, dict)}


def counts_of(snapshot):
    """Of each device what only grows. A new block is idle for a moment, and not counted so."""
    counts = {}
    for device in snapshot["devices"]:
        for name, value in device["stats"].items():
            if name in ("cached_bytes", "inactive_split_bytes"):
                continue
            if isinstance(value, dict):
                counts.update(((device["device"], name, part), value[part]) for part in ("allocated", "freed", "peak"))
            elif isinstance(value, int):
                counts[device["device"], name, ""] = value
    return counts


def is_same(item, other):
    """The time of an event is a little later than that of its request, so that each has a time of its own."""
    return {**item, "time_ns": 0} == {**other, "time_ns": 0} and abs(item["time_ns"] - other["time_ns"]) < 1000


class Steps(PreloadCase):
    trace = None  # what is recorded, of records that do not say so yet

    def operations(self, **settings):
        states = tempfile.mkdtemp(dir=self.folder)
        run = self.run_program("stepped", "600", "70", preload=None, prefix=(STOP_AT_STORES, states, LIBRARY), check_books=False,
                               RECORD=self.record_folder, OUTPUT=os.path.join(states, "of_program.%n.json"),
                               TRACE_EVENTS="1024", LIMIT=str(LIMIT), SIMCUDA_PACE="waits", **settings)
        self.assertEqual(run.status, 0, run.out[-2000:] + run.err)
        return operations_of(run.out, states)

    def expect_lives(self, snapshot):
        """The actions of each owner follow each other, and its state is that after the last one."""
        last, sizes = {}, {}
        for event in rows_of(snapshot):
            key, action = event["block"], event["action"]
            if action in ACTIONS.values():
                sizes[key] = event["size"]
                is_known = key in last or not snapshot["recorded_since_ns"]
                self.assertTrue(not is_known or ACTIONS[last.get(key)] == action, event)
                last[key] = action
        self.assertNotIn(0, last)
        blocks = {block["block"]: block for segment in snapshot["segments"] for block in segment["blocks"]}
        states = {block: item["state"] for block, item in blocks.items()}
        for block, item in blocks.items():
            if block and item["state"] == "inactive" and not snapshot["recorded_since_ns"]:
                self.assertEqual((last.get(block), sizes.get(block)), ("free_completed", item["requested_size"]), "last owner")
        for block, action in last.items():
            self.assertEqual(states.get(block, "inactive"), STATES.get(action, "inactive"), "block %d" % block)

    def expect_whole(self, snapshot):
        """Nothing is damaged, and what refers to tables finds it."""
        self.assertLessEqual(set(snapshot.get("notes", ())), {NO_DESCRIPTION})
        events = snapshot["events"]
        self.assertEqual(events["time_ns"], sorted(events["time_ns"]))
        for column, table in (("thread", "threads"), ("stream", "streams"), ("stack", "stacks")):
            self.assertLess(max(events[column], default=-1), len(snapshot[table]), column)
        if snapshot["settings"].get("trace", self.trace) == "state":
            self.expect_covered(snapshot)
        else:
            self.expect_history(snapshot)
            self.expect_lives(snapshot)

    def expect_counts(self, snapshot):
        for device in snapshot["devices"]:
            stats = device["stats"]
            self.assertLessEqual(stats["reserved_bytes"]["current"] + stats["passthrough_bytes"]["current"], LIMIT)
            for name, gauge in gauges_of(device).items():
                self.assertEqual(gauge["current"], gauge["allocated"] - gauge["freed"], name)
                self.assertLessEqual(gauge["current"], gauge["peak"], name)

    def expect_goes_on(self, before, after):
        """No event and no entry of a table comes undone or changes; no event is lost unsaid, or counted twice."""
        for table in TABLES:
            self.assertEqual(after[table][:len(before[table])], before[table], table)
        for name in ("pid", "start_time_us", "library_version"):
            self.assertEqual(after["process"][name], before["process"][name])
        rows = [{tuple(event.items()) for event in rows_of(snapshot)} for snapshot in (before, after)]
        gone = {row for row in rows[0] - rows[1] if dict(row)["time_ns"] > after["recorded_since_ns"]}
        self.assertEqual(gone, set())
        self.assertGreaterEqual(after["recorded_since_ns"], before["recorded_since_ns"])
        self.assertGreaterEqual(after["dropped_events"], before["dropped_events"])
        self.assertGreaterEqual(after["dropped_events"] + len(rows[1]), before["dropped_events"] + len(rows[0]))

    def expect_between(self, ends, snapshot):
        """ends: the snapshots before and after the operation. What is stored at once is as in one of them."""
        for name in ("oom", "host_oom", "notes"):
            self.assertIn(snapshot.get(name), [end.get(name) for end in ends], name)
        for table in ("process", "settings"):
            for name, value in snapshot[table].items():
                self.assertIn(value, [end[table].get(name) for end in ends], name)
        counts = [counts_of(end) for end in ends]
        for name, count in counts_of(snapshot).items():
            if name[1] == "segment":  # mapped pieces are one segment where a block lies in both
                continue
            self.assertLessEqual(counts[0].get(name, 0), count, name)
            self.assertLessEqual(count, counts[1][name], name)
        items = [held_items(end) for end in ends]
        for address, item in held_items(snapshot).items():
            found = [of_end.get(address) for of_end in items]
            self.assertTrue(any(other and is_same(item, other) for other in found), "%s is neither of %s" % (item, found))

    def judge_state(self, snapshot, last):
        """last: the snapshot before, or None. Most stores change figures only."""
        self.expect_counts(snapshot)
        if last and all(snapshot.get(name) == last.get(name) for name in snapshot.keys() | last.keys() if name != "devices"):
            return
        self.expect_whole(snapshot)
        if last:
            self.expect_goes_on(last, snapshot)

    def judge(self, operation, snapshot, before, ends):
        """before: the snapshot before that store; ends: those before and after the operation."""
        now = owned(snapshot)
        is_over = operation.before != owned(before or snapshot) == operation.after
        self.assertIn(now, [operation.after] if is_over else [operation.before, operation.after])
        self.judge_state(snapshot, before)
        self.expect_between(ends, snapshot)

    def judge_all(self, operation, last):
        """last: the snapshot before the operation, or None. Returns the last one of the operation."""
        loads = [load for load, _ in operation.states]
        ends = [last or next(filter(None, (load() for load in loads))), loads[-1]()]
        for load, place in operation.states:
            before, last = last, load()
            try:
                self.assertTrue(last or not before, "the record cannot be read any more")
                self.assertTrue(place != SIGNAL or load is loads[0] or last == before, "a store was not seen")
                if last:
                    self.judge(operation, last, before, ends)
            except Exception as error:
                raise AssertionError("%s, after the store to %s: %s" % (operation.name, place, error)) from error
        self.assertEqual(owned(last), operation.after, "at the end of " + operation.name)
        return last

    def run_all(self, **settings):
        """Returns the snapshot at the end of each operation, by name."""
        last, ends = None, {}
        for operation in self.operations(**settings):
            ends[operation.name] = last = self.judge_all(operation, last)
        return ends

    def expect_done(self, ends):
        """The script did what the names of its operations say."""
        for name, action, hit in (("miss", "alloc", 0), ("hit", "alloc", 1), ("free in use", "free_requested", 0), ("hit again", "alloc", 1),
                                  ("async again", "alloc", 1), ("free managed", "passthrough_free", 0), ("free exported", "segment_free", 0)):
            newest = list(rows_of(ends[name]))[-1]
            self.assertEqual((newest["action"], int(newest["hit"])), (action, hit), name)
        for name, action in (("hit again", "free_completed"), ("refused", "oom"), ("snapshot", "snapshot")):
            self.assertIn(action, [event["action"] for event in rows_of(ends[name])])
        self.assertEqual(len(ends["thread: miss"]["threads"]), 2)
        self.assertGreater(ends["turn"]["dropped_events"], 0)
        self.assertGreater(len(ends["shared"]["threads"]), 70)

    def test_round(self):
        self.expect_done(self.run_all())

    def test_segment(self):
        self.run_all(TYPE="segment")

    def test_vmm(self):
        self.run_all(TYPE="vmm")

    def test_state(self):
        self.trace = "state"
        self.run_all(TRACE="state")

    @unittest.skipIf(QUICK, "other ways to the same stores")
    def test_others(self):
        for settings in ({"ASYNC": "driver", "REUSE": "strict"}, {"TYPE": "unpooled", "STACKS": "native", "STACKS_FREE": "1"},
                         {"ASYNC": "plain", "TYPE": "naive"}):
            with self.subTest(**settings):
                self.run_all(**settings)


def reason_to_skip():
    if SANITIZED:
        return "a sanitizer needs its own answers to SIGSEGV"
    trial = subprocess.run([STOP_AT_STORES, ".", "", sys.executable, "-c", ""], env={"GPUPOOL_RECORD": "none"},
                           stdout=subprocess.PIPE, universal_newlines=True)
    return trial.stdout.strip() if trial.returncode == SKIP else None


if __name__ == "__main__":
    if reason_to_skip():
        print(reason_to_skip())
        sys.exit(SKIP)
    unittest.main()
