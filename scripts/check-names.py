#!/usr/bin/env python3
"""Finds names in documents that the tree does not have: check-names.py

Read are all *.md files but doc/gpu-results/ and, in doc/mutations.md, the tables: records of the past. A name is a text in
backticks, brackets or the target of a link, and is known by its form:

    a file         ends as source does, or stands in a folder and ends as data does: `release.c`, `pool/*.h`. A word in
                   capitals, MODULE, stands for anything. A path of the tree has to end so.
    a folder       `pool/reuse/`
    an identifier  begins with gp_, gpupool_ or simcuda_, or these in capitals: `gp_driver_X`. A source has to have it.
                   GPUPOOL_NAME may also be an option, and VALUE in GPUPOOL_NAME=VALUE has to be one of its choices.
    a build option `-Dname=true`, of meson_options.txt or Meson's own
    a test         of Meson: begins as a family of tests does (`preload-limit`), or follows the word "test" or "tests". Of
                   Python: `test_name`.

And finds the files of LISTS that the README of their folder leaves out.
"""

import fnmatch
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RECORDS = "doc/gpu-results/"
TABLES_OF_RECORDS = "doc/mutations.md"
SOURCE = ("c", "h", "S", "def", "py", "sh", "js", "css", "html", "cu", "cc", "build")
DATA = ("json", "md", "txt", "csv")
# Files of other projects, and of examples
FOREIGN = {"CUDAPluggableAllocator.h", "_memory_viz.py", "torch/cuda/_memory_viz.py", "torch/utils/viz/MemoryViz.js",
           "src/storage/pooled_storage_manager.h", "train.py"}
LISTS = {"doc/README.md": r"doc/(?!README)[^/]+\.md", "scripts/README.md": r"scripts/(?!README)[^/]+",
         "pool/README.md": r"pool/.*\.c", "trace/README.md": r"trace/.*\.c", "base/README.md": r"base/.*\.(c|def)"}
MESON_OWN = {"buildtype", "werror", "optimization", "c_args", "b_sanitize"}
SPAN = re.compile(r"(tests?\s+)?`([^`]+)`|\[([^\]`]+)\]|(?<=\])\(([^)#\s]+)[^)]*\)", re.I)
PATH = re.compile(r"(?<![\w./*<-])(?:(?:[\w.*-]+/)*[\w.*-]*\.(?:%s)|(?:[\w.*-]+/)+[\w.*-]*\.(?:%s))(?![\w.-])"
                  % ("|".join(SOURCE), "|".join(DATA)))
IDENTIFIER = re.compile(r"(?<![\w-])((?:gp|GP|gpupool|GPUPOOL|simcuda|SIMCUDA)_[\w*]*)(?![\w.])")


def spans(text):
    """(line number, whether it is called a test, text, target of a link), not from blocks of code, nor of links out of the tree."""
    text = re.sub(r"^(```.*?^```| {4}[^\n]*)", lambda match: "\n" * match[0].count("\n"), text, flags=re.M | re.S)
    text = re.sub(r"\[[^\]]*\]\(https?:[^)]*\)", lambda match: "\n" * match[0].count("\n"), text)
    for paragraph in re.finditer(r"(?:[^\n]+\n?)+", text):
        after = None  # the end of a list of names that the word "tests" begins
        for match in SPAN.finditer(paragraph[0]):
            test, ticks, bracket, target = match.groups()
            goes_on = after is not None and re.fullmatch(r",?\s+(?:and\s+|or\s+)?|,\s*", paragraph[0][after:match.start()])
            after = match.end() if ticks and (test or goes_on) else None
            line = text.count("\n", 0, paragraph.start() + match.start()) + 1
            yield line, after is not None, re.sub(r"\s+", " ", ticks or bracket or ""), target


def pattern_of(name):
    """Words in capitals stand for anything, but in names that are all capitals."""
    if name.upper() != name and not name.endswith(".md"):
        name = re.sub(r"(?<![A-Za-z])[A-Z]+(?![A-Za-z])", "*", name)
    return name + "*" if name.endswith("_") else name


class Tree:
    def __init__(self, texts):
        """texts: {path: text} of all files; what is no source may have none."""
        self.paths = ["/" + path for path in texts]
        self.folders = {path[:at + 1] for path in self.paths for at, char in enumerate(path) if char == "/"}
        self.words = {word for path, text in texts.items() if path.endswith(tuple("." + end for end in SOURCE))
                      for word in re.findall(r"\w+", text)}
        options = re.findall(r'^OPTION\(\w+, "(\w+)", (\w+), [^,]*, [^,]*, [^,]*, "([^"]*)"',
                             texts.get("base/options.def", ""), re.M)
        self.options = {name: choices.split("|") if kind == "CHOICE" else None for name, kind, choices in options}
        self.build_options = MESON_OWN | set(re.findall(r"^option\('(\w+)'", texts.get("meson_options.txt", ""), re.M))
        self.tests, self.families = set(), set()
        for path, text in texts.items():
            if path.startswith("test/") and path.endswith("meson.build"):
                names = set(re.findall(r"'([\w -]+)'", text))
                families = set(re.findall(r"test\('(\w+[- ])' \+", text))
                rest = {word for name in names for word in (name, name.lower(), name.replace("_", "-"))}
                self.tests |= names | {family + name for family in families for name in rest}
                self.families |= families

    def has_path(self, name):
        paths = self.folders if name.endswith("/") else self.paths
        pattern = "/" + pattern_of(name)
        if "*" not in pattern:
            return any(path.endswith(pattern) for path in paths)
        return bool(fnmatch.filter(paths, "*" + pattern))

    def has_word(self, name):
        return bool(name in self.words or name.replace("GPUPOOL_", "", 1) in self.options
                    or fnmatch.filter(self.words, pattern_of(name)))

    def lacks(self, text, is_test):
        """What of a text in backticks or brackets is not there."""
        paths = PATH.findall(text) + ([text] if re.fullmatch(r"(?:[a-z][\w-]*/)+", text) else [])
        lacking = [path for path in paths if path not in FOREIGN and not self.has_path(path)]
        lacking += [name for name in IDENTIFIER.findall(text) if not self.has_word(name)]
        lacking += ["GPUPOOL_%s=%s" % pair for pair in re.findall(r"\bGPUPOOL_(\w+)=([a-z]\w*)", text)
                    if self.options.get(pair[0]) and pair[1] not in self.options[pair[0]]]
        lacking += ["-D" + name for name in re.findall(r"(?<!\S)-D([a-z]\w*)=", text) if name not in self.build_options]
        if re.fullmatch(r"test_[a-z]\w*", text):
            return lacking + ([] if text in self.words else [text])
        is_test |= text.startswith(tuple(self.families))
        return lacking + ([text] if is_test and re.fullmatch(r"[a-z][a-z0-9 _-]*", text) and text not in self.tests else [])


def problems_of(document, text, tree):
    if document == TABLES_OF_RECORDS:
        text = re.sub(r"^\|.*", "-", text, flags=re.M)
    found = []
    for line, is_test, name, target in spans(text):
        if target:
            path = os.path.normpath(os.path.join("/", os.path.dirname(document), target))
            lacking = [] if path in tree.paths or path + "/" in tree.folders else [target]
        else:
            lacking = tree.lacks(name, is_test)
        found += ["%s:%d: %s is not there" % (document, line, what) for what in lacking]
    return found


def unlisted(document, text, texts):
    """What a README that lists all files of a kind leaves out."""
    names = {path: path.rpartition("/")[2] for path in texts if re.fullmatch(LISTS.get(document, "$"), path)}
    return ["%s: %s is not listed" % (document, path) for path, name in sorted(names.items())
            if not re.search(r"(?<![\w-])" + re.escape(name), text)]


def check_itself():
    tree = Tree({"pool/a.c": "int gp_there(void); GP_THERE, gp_driver_free", "pool/check_a.py": "def test_there(self):",
                 "base/options.def": 'OPTION(reuse, "REUSE", CHOICE, "auto", 0, 0, "auto|strict", "help")\n',
                 "meson_options.txt": "option('there',\n", "test/b/meson.build": "['there'] test('cli-' + name) test('it')",
                 "doc/b.md": "", "pool/data.json": ""})
    there = ("`a.c` `pool/a.c` `pool/*.c` `check_MODULE.py --all` `base/` `pool/data.json` `out.json`"
             " [a.c, gp_there] `gp_there()` `GP_THERE` `gp_driver_X` `gp_*` `GPUPOOL_REUSE=strict` `GPUPOOL_REUSE` `-Dthere=true` `cli-there`\n"
             "the tests `cli-there`,\n`it` and `there`; `not_there`, `/x/gone.c`, [b](b.md), [b](../pool/a.c#x),"
             " [gone.c](https://x/gone.c)\n"
             "    `gone.c`\n```\n`gone.c`\n```\nthe test `test_there`\n")
    assert problems_of("doc/a.md", there, tree) == [], problems_of("doc/a.md", there, tree)
    for text, what in (("`gone.c`", "gone.c"), ("`b/a.c`", "b/a.c"), ("`gone_*.c`", "gone_*.c"), ("`pool/gone/`", "pool/gone/"),
                       ("`pool/gone.json`", "pool/gone.json"), ("[pool/gone.c]", "pool/gone.c"), ("`gp_gone`", "gp_gone"),
                       ("[a.c, gp_gone]", "gp_gone"), ("`GPUPOOL_GONE=1`", "GPUPOOL_GONE"), ("`-Dgone=true`", "-Dgone"),
                       ("`GPUPOOL_REUSE=gone`", "GPUPOOL_REUSE=gone"), ("`cli-gone`", "cli-gone"), ("[b](gone.md)", "gone.md"),
                       ("tests `it`\nand `gone`", "gone"), ("`test_gone`", "test_gone")):
        assert [line.split()[1] for line in problems_of("doc/a.md", text, tree)] == [what], text
    assert unlisted("doc/README.md", "[b](b.md)", {"doc/README.md": "", "doc/b.md": "", "doc/x/c.md": ""}) == []
    assert unlisted("doc/README.md", "[b](a-b.md)", {"doc/b.md": ""}) == ["doc/README.md: doc/b.md is not listed"]


def texts_of_tree():
    """{path: text}, without what is hidden, folders of builds, and the text of this file, whose examples are not there."""
    texts = {}
    for where, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders
                      if name[0] not in "._" and not os.path.exists(os.path.join(where, name, "meson-info"))
                      and not (where == ROOT and name.startswith(("build", "dist")))]  # as .gitignore has it
        for name in names:
            path = os.path.relpath(os.path.join(where, name), ROOT)
            texts[path] = ""
            if name.endswith(tuple("." + end for end in SOURCE) + (".md", "_options.txt")):
                with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                    texts[path] = file.read()
    texts[os.path.relpath(os.path.abspath(__file__), ROOT)] = ""
    return texts


def main():
    check_itself()
    texts = texts_of_tree()
    tree = Tree(texts)
    problems = [problem for path in sorted(texts) if path.endswith(".md") and not path.startswith(RECORDS)
                for problem in problems_of(path, texts[path], tree) + unlisted(path, texts[path], texts)]
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
