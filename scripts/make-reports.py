#!/usr/bin/env python3
"""Makes the JSON schema of the reports and the tables of tools/REPORTS.md from the lines that write the reports.

    make-reports.py                 writes the tables of tools/REPORTS.md
    make-reports.py --check         fails if they are not up to date
    make-reports.py --schema FILE DEPFILE
                                    writes the schema, and what it depends on as a rule of make

tools/json_print.h explains these lines: GP_JSON_SHAPE names an object, each GP_PUT_... below it is one of its members. What
stands between two comments in REPORTS.md is made: <!-- table: SHAPE --> and <!-- end -->. It has the members of the shape and of
every shape in it that no earlier table has.
"""

import glob
import json
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DOCUMENT = os.path.join("tools", "REPORTS.md")
LINE = re.compile(r"\bGP_(JSON_SHAPE|JSON_DOCUMENT|PUT_[A-Z_]+)\(")
TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|[(){}\[\],]|[^"(){}\[\],]+')
TYPES = {
    "uint": ({"type": "integer", "minimum": 0}, "integer"),
    "device": ({"type": "integer", "minimum": 0, "maximum": 63}, "integer"),
    "number": ({"type": "number", "minimum": 0}, "number"),
    "bool": ({"type": "boolean"}, "true or false"),
    "text": ({"type": "string"}, "text"),
    "texts": ({"type": "array", "items": {"type": "string"}}, "list of texts"),
    "map_of_text": ({"type": "object", "additionalProperties": {"type": "string"}}, "texts by name"),
    "any_object": ({"type": "object"}, "object"),
    "any_list": ({"type": "array"}, "list"),
}


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def arguments(text, begin):
    """The arguments of the call whose parenthesis opens just before begin; adjacent strings are joined."""
    found, depth = [""], 0
    for token in TOKEN.finditer(text, begin):
        token = token[0]
        if token == ")" and not depth:
            return [re.sub(r'"\s*"', "", one.strip()) for one in found]
        if token == "," and not depth:
            found.append("")
            continue
        depth += (token in "([{") - (token in ")]}") if len(token) == 1 else 0
        found[-1] += token
    raise SystemExit("an open parenthesis: %s" % text[begin:begin + 80])


def literal(text):
    if not text.startswith('"'):
        raise SystemExit("not a string: %s" % text)
    return json.loads(text)


class Shapes:
    """members: by shape a list of (key, type, meaning), or of the name of another shape whose members follow."""

    def __init__(self):
        self.members = {"amount": [("bytes", "uint", "bytes"), ("count", "uint", "in how many blocks")]}
        self.documents = {}
        files = sorted(glob.glob(os.path.join(ROOT, "tools", "**", "*.c"), recursive=True))
        self.files = files + [os.path.join(ROOT, "format", name) for name in ("stats.def", "actions.def")]
        for path in files:
            self.read(read(path), path)
        statistics = re.findall(r'^(GAUGE|COUNTER)\((\w+), .*"([^"]+)"\)$', read("format/stats.def"), re.M)
        self.members["stats"][:0] = [(name, "gauge" if kind == "GAUGE" else "uint_or_null", label)
                                     for kind, name, label in statistics]

    def read(self, text, path):
        shape = None
        for found in LINE.finditer(text):
            kind, words = found[1], arguments(text, found.end())
            if kind.startswith("JSON_"):
                shape = self.members.setdefault(words[0], [])
                if kind == "JSON_DOCUMENT":
                    self.documents[words[0]] = words[0]
                elif words[0].endswith("_snapshot"):
                    self.documents[words[0][:-len("_snapshot")]] = None
                continue
            if shape is None:
                raise SystemExit("%s: GP_%s without GP_JSON_SHAPE" % (path, kind))
            shape.append(self.member(kind[len("PUT_"):], words))

    @staticmethod
    def member(kind, words):
        if kind == "SHAPE":
            return words[0]
        kind, null = (kind[:-len("_OR_NULL")], "_or_null") if kind.endswith("_OR_NULL") else (kind, "")
        if kind == "BY":
            return literal(words[2]), words[3], literal(words[4])
        key, meaning = literal(words[1]), literal(words[-1])
        if kind == "CHOICE":
            choices = literal(words[2])
            if choices == "format/actions.def":  # the events that are marks
                choices = "|".join(re.findall(r'^ACTION\(\w+, "(\w+)", "[^"]*", \'', read(choices), re.M))
            return key, '"' + choices + '"' + null, meaning
        if kind in ("OBJECT", "LIST", "MAP"):
            return key, words[-2] + {"OBJECT": "", "LIST": "[]", "MAP": "{}"}[kind] + null, meaning
        return key, kind.lower() + null, meaning

    def all(self, shape):
        found = []
        for member in self.members[shape]:
            found += self.all(member) if isinstance(member, str) else [member]
        return found

    def schema_of_type(self, kind):
        if kind.endswith("_or_null"):
            return {"anyOf": [self.schema_of_type(kind[:-len("_or_null")]), {"type": "null"}]}
        if kind.endswith("[]"):
            return {"type": "array", "items": self.schema_of_type(kind[:-2])}
        if kind.endswith("{}"):
            return {"type": "object", "additionalProperties": self.schema_of_type(kind[:-2])}
        if kind.startswith('"'):
            return {"enum": kind[1:-1].split("|")}
        return TYPES[kind][0] if kind in TYPES else {"$ref": "#/$defs/" + kind}

    def schema_of(self, members):
        return {"type": "object",
                "properties": {key: {"description": meaning, **self.schema_of_type(kind)} for key, kind, meaning in members},
                "required": [key for key, _, meaning in members if not meaning.startswith("only with ")],
                "additionalProperties": False}

    def schema(self):
        shapes = {name: self.schema_of(self.all(name)) for name in self.members if name not in self.documents}
        for command, shape in self.documents.items():
            members = self.all(shape) if shape else [("snapshots", command + "_snapshot[]", "each file that could be read")]
            shapes[command] = self.schema_of(members)
            shapes[command]["properties"].update(format={"const": "gpupool-" + command}, version={"const": 1})
            shapes[command]["required"] += ["format", "version"]
        return {"$schema": "https://json-schema.org/draft/2020-12/schema",
                "title": "What the commands of gpupool print with --json",
                "description": "The document of a command is $defs/COMMAND. REPORTS.md has the same as text.",
                "oneOf": [{"$ref": "#/$defs/" + command} for command in self.documents], "$defs": shapes}

    def words(self, kind):
        """The type in words, and the shape that it names, or None."""
        if kind.endswith("_or_null"):
            text, shape = self.words(kind[:-len("_or_null")])
            return text + " or null", shape
        if kind.endswith("[]"):
            text, shape = self.words(kind[:-2])
            return ("list of " + text + "s" if not shape else "list"), shape
        if kind.endswith("{}"):
            text, shape = self.words(kind[:-2])
            return "%ss by name" % text, shape
        if kind.startswith('"'):
            return ", ".join("`%s`" % word for word in kind[1:-1].split("|")), None
        return TYPES.get(kind, ("", "object"))[1], None if kind in TYPES else kind

    def tables(self, root, shape, path, done):
        """The table of a shape, then of those in it that are not done yet. done: by shape where its table is."""
        done[shape] = "`%s` of `%s`" % (path, root)
        rows, inner = [], []
        for key, kind, meaning in self.all(shape):
            text, named = self.words(kind)
            if named in done:
                meaning += "; like " + done[named]
            rows.append("| `%s` | %s | %s |\n" % (key, text, meaning.replace("|", "\\|")))
            if named:
                suffix = "[]" if "[]" in kind else ".NAME" if "{}" in kind else ""
                inner.append((named, path + ("." if path else "") + key + suffix))
        text = "| key | type | meaning |\n|---|---|---|\n" + "".join(rows)
        if path:
            text = "`%s`:\n\n" % path + text
        for named, below in inner:
            if named not in done:
                text += "\n" + self.tables(root, named, below, done)
        return text


def document(shapes, text):
    done = {}
    return re.sub(r"(<!-- table: (\w+) -->\n)(?:.*\n)*?(<!-- end -->)",
                  lambda found: found[1] + shapes.tables(found[2].replace("_snapshot", ""), found[2], "", done) + found[3], text)


def main(words):
    shapes = Shapes()
    if words[:1] == ["--schema"] and len(words) == 3:
        with open(words[1], "w", encoding="utf-8") as file:
            json.dump(shapes.schema(), file, indent=1)
        with open(words[2], "w", encoding="utf-8") as file:
            file.write("%s: %s\n" % (words[1], " ".join(path.replace(" ", "\\ ") for path in shapes.files)))
        return 0
    if words not in ([], ["--check"]):
        sys.exit(__doc__)
    now = read(DOCUMENT)
    made = document(shapes, now)
    if words and made != now:
        return "%s is not up to date: scripts/make-reports.py writes it" % DOCUMENT
    if made != now:
        with open(os.path.join(ROOT, DOCUMENT), "w", encoding="utf-8") as file:
            file.write(made)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
