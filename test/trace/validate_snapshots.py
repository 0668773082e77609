"""Usage: validate_snapshots.py SCHEMA FORMAT PROGRAM [ARG...]

Runs PROGRAM in an empty folder, where it writes *.json. Each must fit the schema and the invariants of FORMAT.md
that a schema cannot say; broken copies of them must not fit. The lists of the schema are those of the .def files in FORMAT,
the folder format, and so are those in the snapshots.
"""
import copy
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import jsonschema

NAME_LISTS = ("actions", "details")


def names_of(folder, file, macro):
    """The names for the snapshot that a .def file gives, in its order."""
    text = (folder / file).read_text()
    names = re.findall(r'^(?:%s)\(\w+, "([^"]*)"' % macro, text, re.MULTILINE)
    assert names, f"{file} has no {macro}"
    return names


def check_lists(schema, folder):
    """That the schema has the names of the .def files. Returns the names of actions and details."""
    events = schema["properties"]["events"]
    actions = names_of(folder, "actions.def", "ACTION")
    details = names_of(folder, "details.def", "REASON|TRIM_REASON|MODE|MODE_CAUSE|FORWARDED_KIND|DAMAGE_KIND")
    columns = names_of(folder, "columns.def", "COLUMN|TIME_COLUMN|DURATION_COLUMN")
    assert events["properties"]["actions"]["items"]["enum"] == actions, actions
    assert events["properties"]["action"]["items"]["maximum"] == len(actions) - 1
    assert sorted(events["properties"]) == sorted(columns + list(NAME_LISTS)), columns
    assert sorted(events["required"]) == sorted(columns + list(NAME_LISTS)), columns
    states = names_of(folder, "states.def", "BLOCK_STATE")
    assert schema["$defs"]["block"]["properties"]["state"]["enum"] == states, states
    settings = schema["properties"]["settings"]["properties"]
    assert settings["trace"]["enum"] == names_of(folder, "recording.def", "RECORDING")
    stats = re.findall(r"^(?:GAUGE|COUNTER)\((\w+)", (folder / "stats.def").read_text(), re.MULTILINE)
    derived = ["cache_hit_rate", "efficiency", "fragmentation"]
    assert sorted(schema["$defs"]["stats"]["properties"]) == sorted(stats + derived), stats
    return actions, details


def check_invariants(snapshot):
    events = snapshot["events"]
    columns = {name: column for name, column in events.items() if name not in NAME_LISTS}
    lengths = {name: len(column) for name, column in columns.items()}
    assert len(set(lengths.values())) == 1, f"columns of different lengths: {lengths}"
    times = events["time_ns"]
    assert all(a <= b for a, b in zip(times, times[1:])), "times go backwards"
    for name, table in (("action", events["actions"]), ("detail", events["details"]),
                        ("thread", snapshot["threads"]), ("stream", snapshot["streams"]),
                        ("stack", snapshot["stacks"])):
        assert all(index < len(table) for index in events[name]), f"{name} is out of its table"
    if snapshot["dropped_events"]:
        assert all(time > snapshot["recorded_since_ns"] for time in times), "an event of the lost time"
    for segment in snapshot["segments"]:
        address = segment["address"]
        for block in segment["blocks"]:
            assert block["address"] == address, "blocks do not tile their segment"
            address += block["size"]
        assert address == segment["address"] + segment["total_size"], "blocks do not fill their segment"
        live = [block for block in segment["blocks"] if block["state"] == "active_allocated"]
        active = [block for block in segment["blocks"] if block["state"] != "inactive"]
        assert segment["allocated_size"] == sum(block["size"] for block in live)
        assert segment["active_size"] == sum(block["size"] for block in active)
        assert segment["requested_size"] == sum(block["requested_size"] for block in active)
    for name in ("segments", "passthrough"):
        places = [(item["device"], item["address"]) for item in snapshot[name]]
        assert places == sorted(places), f"{name} are not sorted"
    keys = list(snapshot)
    assert keys[:3] == ["format", "version", "reason"] and keys[-2:] == ["recorded_since_ns", "dropped_events"]


def parent_of(document, path):
    for step in path[:-1]:
        document = document[step]
    return document, path[-1]


def broken_copies(snapshot):
    """Yields (what, copy) of snapshots with one defect each."""
    def change(what, path, value):
        broken = copy.deepcopy(snapshot)
        parent, key = parent_of(broken, path)
        parent[key] = value
        return what, broken

    def remove(path):
        broken = copy.deepcopy(snapshot)
        parent, key = parent_of(broken, path)
        del parent[key]
        return f"without {path}", broken

    for key in snapshot:
        yield remove([key])
    for key in snapshot["events"]:
        yield remove(["events", key])
    for key in snapshot["process"]:
        yield remove(["process", key])
    yield change("another format", ["format"], "heaptrack")
    yield change("another version", ["version"], 2)
    yield change("an unknown action", ["events", "actions", 0], "allocate")
    yield change("an action beyond the list", ["events", "action", 0], 255)
    yield change("a negative action", ["events", "action", 0], -1)
    yield change("a text for a time", ["events", "time_ns", 0], "0")
    yield change("a fraction for a size", ["events", "size", 0], 0.5)
    yield change("a hit of 2", ["events", "hit", 0], 2)
    yield change("an unknown column", ["events", "colour"], [])
    yield change("an address of 2^53", ["events", "address", 0], 2**53)
    yield change("an unknown top-level key", ["extra"], 1)
    if snapshot["segments"]:
        yield remove(["segments", 0, "blocks", 0, "state"])
        yield remove(["segments", 0, "blocks"])
        yield remove(["devices", 0, "stats", "cached_bytes"])
        yield change("an unknown state", ["segments", 0, "blocks", 0, "state"], "free")
        yield change("a number as gauge", ["devices", 0, "stats", "cached_bytes"], 5)
        yield change("a rate above 1", ["devices", 0, "stats", "cache_hit_rate"], 1.5)
        yield change("a limit as text", ["devices", 0, "limit"], "8GiB")
    if snapshot["reason"] == "exit":
        yield change("oom without the reason", ["oom"], {})
    else:
        yield change("a reason without its oom", ["reason"], "oom") if "oom" not in snapshot else remove(["oom"])


def main():
    schema = json.loads(pathlib.Path(sys.argv[1]).read_text())
    validator_class = jsonschema.validators.validator_for(schema)
    validator_class.check_schema(schema)
    validator = validator_class(schema)
    lists = check_lists(schema, pathlib.Path(sys.argv[2]))
    program = [str(pathlib.Path(sys.argv[3]).resolve())] + sys.argv[4:]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(program, cwd=folder, check=True)
        paths = sorted(pathlib.Path(folder).glob("*.json"))
        assert paths, "no snapshot was written"
        for path in paths:
            snapshot = json.loads(path.read_bytes().decode("utf-8"))
            validator.validate(snapshot)
            check_invariants(snapshot)
            assert (snapshot["events"]["actions"], snapshot["events"]["details"]) == lists, "lists of names"
            if len(snapshot["events"]["action"]) > 1000:
                continue
            count = 0
            for what, broken in broken_copies(snapshot):
                assert not validator.is_valid(broken), f"{path.name} passed with {what}"
                count += 1
            print(f"{path.name}: valid; {count} broken copies refused")


main()
