"""Judges long documents by a JSON schema: what the schema cannot tell apart is looked at once.

jsonschema takes a millisecond for a few values, and a snapshot has a million. A Judge first replaces each number by one of
the same kind on the same side of every bound in the schema, and each text that the schema does not name by the empty one,
unless it looks into texts; long lists then lose what repeats. test_schema_judge.py shows that no verdict changes.
"""

import bisect
import math

import jsonschema

# All that may be in a schema here: of another keyword it would have to be decided what it can tell apart.
KEYWORDS = {"$defs", "$ref", "$schema", "additionalProperties", "anyOf", "const", "description", "else", "enum", "if", "items",
            "maximum", "maxItems", "minimum", "minItems", "minLength", "minProperties", "not", "oneOf", "pattern",
            "patternProperties", "properties", "required", "then", "title", "type", "uniqueItems"}
SHORT = 8  # a list that is no longer stays as it is, for minItems and maxItems


def parts(schema):
    """The schema and all schemas inside it."""
    yield schema
    if not isinstance(schema, dict):
        return
    assert set(schema) <= KEYWORDS, set(schema) - KEYWORDS
    assert max(schema.get("minItems", 0), schema.get("maxItems", 0)) <= SHORT
    assert "uniqueItems" not in schema or "enum" in schema["items"]  # texts that are named
    for name in ("$defs", "patternProperties", "properties"):  # names of members stay as they are
        for member in schema.get(name, {}).values():
            yield from parts(member)
    for name in ("anyOf", "oneOf"):
        for member in schema.get(name, ()):
            yield from parts(member)
    for name in ("additionalProperties", "else", "if", "items", "not", "then"):
        if name in schema:
            yield from parts(schema[name])


class Judge:
    def __init__(self, schema, kind=jsonschema.Draft7Validator):
        self.validator = kind(schema)
        named = [value for part in parts(schema) if isinstance(part, dict)
                 for value in part.get("enum", []) + [part[key] for key in ("const", "minimum", "maximum") if key in part]]
        self.bounds = sorted({value for value in named if type(value) is int})
        assert all(type(value) in (int, str, type(None)) for value in named), named
        self.texts = {value for value in named if type(value) is str}
        self.reads_texts = any({"pattern", "minLength"} & set(part) for part in parts(schema) if isinstance(part, dict))

    def number(self, value):
        if isinstance(value, float) and not math.isfinite(value):
            return value
        whole = value == int(value)
        at = bisect.bisect_right(self.bounds, value)
        if whole and at > 0 and self.bounds[at - 1] == value:
            return self.bounds[at - 1]
        if at > 0:
            return self.bounds[at - 1] + (1 if whole else 0.5)
        return (self.bounds[0] if self.bounds else 0) - (1 if whole else 0.5)

    def members(self, values):
        kinds = set(map(type, values))
        if len(values) <= SHORT or str in kinds:
            return [self.shorten(value) for value in values]
        if kinds == {int}:
            return list({self.number(value): None for value in set(values)})
        return list({repr(short): short for short in map(self.shorten, values)}.values())

    def shorten(self, value):
        """A smaller value of which the schema says the same. The order of a dict's keys may keep two apart: it costs time only."""
        kind = type(value)
        if kind is int or kind is float:
            return self.number(value)
        if kind is str:
            return value if self.reads_texts or value in self.texts else ""
        if kind is dict:
            return {key: self.shorten(member) for key, member in value.items()}
        if kind is list:
            return self.members(value)
        return value

    def check(self, document):
        """Raises jsonschema.ValidationError."""
        self.validator.validate(self.shorten(document))

    def is_valid(self, document):
        return self.validator.is_valid(self.shorten(document))
