"""A Judge says of a document what its schema says of it: of good ones and of thousands that random changes have damaged.

    test_schema_judge.py SOURCE
"""

import copy
import json
import os
import random
import sys
import unittest

import jsonschema

import export_formats as formats
from schema_judge import SHORT, Judge

VALUES = (-1, 0, 1, 2, 10, 11, 63, 64, 2**53 - 1, 2**53, 0.0, -0.5, 0.5, 1.0, 1.5, True, False, None, "", "N/A", "alloc",
          "oom", "exit", "0x1f", [], [0], [0, 0], [0, 0, 0], {}, {"size": 0})
CHANGES = 200  # of each document


def some_frame(number):
    return {"filename": "a%d.py" % number, "line": number, "name": "f"}


def pytorch():
    segment = {"device": 0, "address": 1 << 30, "total_size": 4096, "allocated_size": 1024, "active_size": 1024,
               "requested_size": 1000, "stream": 0, "segment_type": "small", "segment_pool_id": [0, 0],
               "is_expandable": False, "frames": [],
               "blocks": [{"address": (1 << 30) + 1024 * i, "size": 1024, "requested_size": 1000 * (i == 0), "frames": [],
                           "state": "inactive" if i else "active_allocated"} for i in range(4)]}
    entries = [{"addr": 4096 * i, "action": "alloc" if i % 2 else "free_requested", "size": i, "stream": 0, "time_us": i,
                "compile_context": "N/A", "user_metadata": "", "pool_id": [0, 0], "segment_pool_id": [0, 0],
                "frames": [some_frame(k % 3) for k in range(0 if i else 2 * SHORT)]} for i in range(2 * SHORT)]
    entries.append(dict(entries[0], action="oom", device_free=7))
    del entries[-1]["addr"]
    return {"segments": [segment], "device_traces": [entries, []], "allocator_settings": {"a": "b"},
            "external_annotations": [], "gpupool": {}}


def places(value, path=()):
    yield path
    for key, member in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(member, path + (key,))


def damaged(document, paths, draw):
    """A copy in which one value is another, or gone, or there twice."""
    document = copy.deepcopy(document)
    path = draw.choice(paths)
    holder = document
    for key in path[:-1]:
        holder = holder[key]
    change = draw.randrange(4)
    if change == 0:
        del holder[path[-1]]
    elif change == 1 and isinstance(holder, list):
        holder.insert(draw.randrange(len(holder) + 1), draw.choice((holder[path[-1]],) + VALUES))
    elif change == 1:
        holder["more"] = draw.choice(VALUES)
    else:
        holder[path[-1]] = copy.deepcopy(draw.choice(VALUES))
    return document


class Judges(unittest.TestCase):
    def compare(self, schema, document, kind=jsonschema.Draft7Validator):
        judge, validator = Judge(schema, kind), kind(schema)
        validator.validate(document)
        judge.check(document)
        draw = random.Random(1)
        refused = 0
        paths = list(places(document))[1:]
        for _ in range(CHANGES):
            changed = damaged(document, paths, draw)
            valid = validator.is_valid(changed)
            refused += not valid
            self.assertEqual(judge.is_valid(changed), valid, json.dumps(changed))
        self.assertTrue(CHANGES / 10 < refused < CHANGES, refused)  # else the changes are worth little

    def test_pytorch(self):
        self.compare(formats.PYTORCH, pytorch())

    def test_perfetto(self):
        events = [{"name": "a", "ph": "C", "pid": 1, "ts": i / 4, "args": {"allocated": i}} for i in range(2 * SHORT)]
        self.compare(formats.some(formats.EVENT), events)
        self.compare(formats.some(formats.PHASES["C"]), events)

    def test_snapshot(self):
        with open(os.path.join(SOURCE, "trace", "snapshot.schema.json"), encoding="utf-8") as file:
            schema = json.load(file)
        events = {name: [i % 2 for i in range(2 * SHORT)] for name in schema["properties"]["events"]["required"]}
        events["actions"] = schema["properties"]["events"]["properties"]["actions"]["items"]["enum"]
        events["details"] = ["", "idle"]
        part = {"$defs": schema["$defs"], "type": "object", "properties": {"events": schema["properties"]["events"],
                "streams": schema["properties"]["streams"]}, "required": ["events"]}
        document = {"events": events, "streams": [{"handle": "0x%x" % i} for i in range(2 * SHORT)]}
        self.compare(part, document, jsonschema.validators.validator_for(schema))
        Judge(schema)  # it knows all of it

    def test_numbers_at_the_bounds(self):
        for value in VALUES:
            for schema in ({"minimum": 0}, {"maximum": 63}, {"type": "integer", "minimum": -1, "maximum": 2**53 - 1},
                           {"enum": [1, 63]}, {"const": 0}, {"type": "number"},
                           {"patternProperties": {"^s": {"maximum": -1}}}):
                for document in (value, [value] * 3 * SHORT, list(range(3 * SHORT)) + [value]):
                    judged = formats.some(schema) if document is not value else schema
                    self.assertEqual(Judge(judged).is_valid(document), jsonschema.Draft7Validator(judged).is_valid(document),
                                     (judged, document))

    def test_what_no_judge_knows_is_refused(self):
        for schema in ({"multipleOf": 2}, {"maxItems": SHORT + 1}, formats.some({"uniqueItems": True, "items": {}})):
            with self.assertRaises(AssertionError):
                Judge(schema)


if __name__ == "__main__":
    SOURCE = sys.argv.pop(1)
    unittest.main()
