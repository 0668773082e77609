#!/usr/bin/env python3
"""Compares doc/waits.md and doc/own-calls.md with the calls of the driver that the library makes on its own account: check-waits.py

A call is (what is called, file, function that calls). In interpose/ it is a use of GP_REAL_CALL(X, ...), of GP_REAL(X) that
is no test for presence, or of gp_real_get(...); also through a macro that hands one of its arguments to these. In pool/ it is
a call of the driver's table, ops->X(...), or of one of the functions gp_driver_X of pool/space/driver_calls.c.
Left out is what the program asked for: a function hook_X that calls X, and a call of X inside one of the macros FORWARDING,
if there is a hook_X. Left out is also what is defined in pool/space/driver_calls.c: it stands for its callers.

Every other call must be in a table of one of them, in a row that begins with these three; a cell may name several, in
backticks. A row that no code has is an error, too.
"""

import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DOCUMENTS = ("doc/waits.md", "doc/own-calls.md")  # calls that may wait, and that do not
DOCUMENT = " or ".join(DOCUMENTS)
TABLE_CALLS = "pool/space/driver_calls.c"
FORWARDING = ("GP_FORWARD_ALLOC", "GP_FORWARD_FREE", "GP_FORWARD_FREE_IN", "GP_FORWARD_HIDDEN")
DEFINES_REAL = "interpose/routes/real.h"
# Of the driver's table: they call no driver, or only by functions that are rows themselves.
NO_CALLS = {"now_ns", "code_is_sticky", "code_is_context_gone", "look_for_escapes"}
REAL = re.compile(r"\bGP_REAL_CALL\(\s*(\w+)|\bGP_REAL\(\s*(\w+)\s*\)|\bgp_real_get\(")
CONDITION_BEFORE = re.compile(r"(?:!|&&|\|\||\b(?:if|while) \()\s*$")
CONDITION_AFTER = re.compile(r"\s*(?:&&|\|\||\?)")
END_AFTER = re.compile(r"\s*[);]")
OPS = re.compile(r"\bops->(\w+)\s*\(|\b(gp_driver_\w+)\(")


def without_comments(text):
    """The same text, every character of a comment or a literal a blank; line ends stay."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match.group())
    return re.sub(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", blank, text, flags=re.S)


def end_of_brackets(text, start):
    """The place behind the bracket that closes the one at start."""
    depth = 0
    for at in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return at + 1
    return len(text)


def arguments_of(text, start):
    """The arguments between the bracket at start and the one that closes it, and the place behind that."""
    end = end_of_brackets(text, start)
    found, depth, begin = [], 0, start + 1
    for at in range(start + 1, end):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if at == end - 1 or (text[at] == "," and depth == 0):
            found.append(text[begin:at].strip())
            begin = at + 1
    return found, end


def split_macros(text):
    """The text without its preprocessor lines, and the macros with arguments: {name: (parameters, body)}."""
    macros = {}

    def take(match):
        define = re.match(r"#\s*define\s+(\w+)\(([^)]*)\)(.*)", match.group().replace("\\\n", " \n"), re.S)
        if define:
            macros[define.group(1)] = ([name.strip() for name in define.group(2).split(",")], define.group(3))
        return re.sub(r"[^\n]", " ", match.group())
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", take, text, flags=re.M), macros


def functions_of(text):
    """(name, body) of each function: a block at depth 0 with a parameter list before it."""
    text = re.sub(r"__attribute__\(\(.*?\)\)\)?", "", text)
    depth, begin, opened = 0, 0, 0
    for at, char in enumerate(text):
        if char == "{":
            depth += 1
            opened = at if depth == 1 else opened
        elif char == "}":
            depth -= 1
            if depth == 0:
                head = text[begin:opened]
                name = re.search(r"(\w+)\s*\(", head)
                if name and "=" not in head:
                    yield name.group(1), text[opened:at]
                begin = at + 1
        elif char == ";" and depth == 0:
            begin = at + 1


def is_test(text, match):
    """GP_REAL(X) that is only asked for: a truth value, not called, stored or handed on."""
    after = text[match.end():match.end() + 100]
    return bool(CONDITION_AFTER.match(after) or
                (END_AFTER.match(after) and CONDITION_BEFORE.search(text[max(0, match.start() - 100):match.start()])))


def real_uses(text):
    """(driver function, place) of each use of the driver's functions."""
    for match in REAL.finditer(text):
        if match.group(1):
            yield match.group(1), match.start()
        elif match.group(2):
            if not is_test(text, match):
                yield match.group(2), match.start()
        else:
            yield "gp_real_get", match.start()


def handed_on(macros, uses):
    """Of macros: {name: position of the argument that names what is called}."""
    return {name: parameters.index(called) for name, (parameters, body) in macros.items()
            for called, _ in uses(body) if called in parameters}


def uses_of(text, macros, uses):
    """(called, place), the uses through macros included."""
    yield from uses(text)
    for name, position in handed_on(macros, uses).items():
        for match in re.finditer(r"\b%s\(" % name, text):
            arguments, _ = arguments_of(text, match.end() - 1)
            yield arguments[position], match.start()


def forwarded_spans(text):
    return [(match.start(), end_of_brackets(text, match.end() - 1))
            for match in re.finditer(r"\b(?:%s)\(" % "|".join(FORWARDING), text)]


def interpose_calls(path, text, hooked):
    text, macros = split_macros(without_comments(text))
    for function, body in functions_of(text):
        spans = forwarded_spans(body)
        for called, place in uses_of(body, macros, real_uses):
            inside = any(begin <= place < end for begin, end in spans)
            if function != "hook_" + called and not (inside and called in hooked):
                yield called, path, function


def pool_calls(path, text):
    text, _ = split_macros(without_comments(text))
    for function, body in functions_of(text):
        for match in OPS.finditer(body):
            if match.group(1) not in NO_CALLS and match.group(2) not in ("gp_driver_note", "gp_driver_count"):
                yield match.group(1) or match.group(2), path, function


def calls_of(sources):
    """The calls in {path: text}."""
    hooked = {name for text in sources.values() for name in re.findall(r"\bhook_(cu\w+)\(", text)}
    found = set()
    for path, text in sources.items():
        if path.startswith("interpose/") and path != DEFINES_REAL:
            found |= set(interpose_calls(path, text, hooked))
        elif path.startswith("pool/") and path != TABLE_CALLS:
            found |= set(pool_calls(path, text))
    return found


def rows_of(document):
    """What the rows of the tables list: (called, file, function)."""
    found = set()
    for line in document.splitlines():
        cells = [re.findall(r"`([^`]+)`", cell) for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and len(cells) >= 3 and cells[0] and cells[2] and any(
                re.fullmatch(r"(interpose|pool)/[\w/]+\.[ch]", path) for path in cells[1]):
            found |= {(called, path, function) for called in cells[0] for path in cells[1] for function in cells[2]}
    return found


def problems_of(sources, document):
    calls, rows = calls_of(sources), rows_of(document)
    return (["%s: %s calls %s, which %s does not list" % (path, function, called, DOCUMENT)
             for called, path, function in sorted(calls - rows)] +
            ["%s lists a call of %s by %s in %s, which is not there" % (DOCUMENT, called, function, path)
             for called, path, function in sorted(rows - calls)])


def check_itself():
    """What is refused and what is not, on made-up code."""
    hooks = """
#define BEGIN(symbol, ...) \\
  result = GP_REAL_CALL(symbol, __VA_ARGS__)
CUresult CUDAAPI hook_cuFree(CUdeviceptr pointer)
{
  bool has = version > 1 && GP_REAL(cuOther);
  if (!GP_REAL(cuOther) || GP_REAL(cuOther) && has) /* GP_REAL_CALL(cuComment) */
    return GP_REAL_CALL(cuFree, pointer);
  log("GP_REAL_CALL(cuText)");
}
CUresult CUDAAPI hook_cuBegin(void) { BEGIN(cuBegin, 1); }
static CUresult helper(CUdeviceptr pointer)
{
  GP_FORWARD_FREE(result, engine, GP_REAL_CALL(cuFree, pointer));
}
"""
    pool = """
static __attribute__((noinline)) bool has(const gp_engine_t *engine)
{
  return engine->driver.ops->wait && engine->driver.ops->now_ns(0) && gp_driver_note(engine);
}
"""

    def refused(path, code, document=""):
        return problems_of({"interpose/hooks.c": hooks, "pool/a.c": pool, path: code}, document)

    def missing(path, function, called):
        return ["%s: %s calls %s, which %s does not list" % (path, function, called, DOCUMENT)]

    row = "| `%s` | `%s` | `%s` | why |"
    new = "interpose/new.c"
    assert refused(new, "") == []
    assert refused(new, "void f(void) { GP_REAL_CALL(cuWait); }") == missing(new, "f", "cuWait")
    assert refused(new, "void f(void) { GP_REAL_CALL(\n    cuWait, 1); }") == missing(new, "f", "cuWait")
    assert refused(new, "void f(void) { if (GP_REAL(cuWait)) GP_REAL(cuWait)(1); }") == missing(new, "f", "cuWait")
    assert refused(new, "void f(void) { call(GP_REAL(cuWait), 1); }") == missing(new, "f", "cuWait")
    assert refused(new, "void f(void) { wait_t *w = GP_REAL(cuWait); w(); }") == missing(new, "f", "cuWait")
    assert refused(new, "void f(void) { void *w = gp_real_get(GP_FN_cuWait); }") == missing(new, "f", "gp_real_get")
    assert refused(new, "void hook_cuFree(void) { GP_REAL_CALL(cuWait); }") == missing(new, "hook_cuFree", "cuWait")
    assert refused(new, "void f(void) { GP_FORWARD_FREE(r, GP_REAL_CALL(cuWait)); }") == missing(new, "f", "cuWait")
    assert refused(new, "#define W(x) GP_REAL(x)(1)\nvoid f(void) { W(cuWait); }") == missing(new, "f", "cuWait")
    assert refused("pool/b.c", "void f(void) { gp_driver_wait(engine, 1); }") == missing("pool/b.c", "f", "gp_driver_wait")
    assert refused("pool/b.c", "void f(void) { engine->driver.ops->wait(1); }") == missing("pool/b.c", "f", "wait")
    assert refused(new, "void f(void) { GP_REAL_CALL(cuWait); }", row % ("cuWait", new, "f")) == []
    assert refused(new, "void f(void) { GP_REAL_CALL(cuWait); }\nvoid g(void) { GP_REAL_CALL(cuWait); }",
                   row % ("cuWait", new, "f`, `g")) == []
    assert refused(new, "", row % ("cuWait", new, "f")) == [
        "%s lists a call of cuWait by f in %s, which is not there" % (DOCUMENT, new)]


def main():
    check_itself()
    sources = {}
    for area in ("interpose", "pool"):
        for folder, _, names in os.walk(os.path.join(ROOT, area)):
            for name in names:
                if name.endswith((".c", ".h")):
                    path = os.path.join(folder, name)
                    with open(path, encoding="utf-8") as file:
                        sources[os.path.relpath(path, ROOT)] = file.read()
    text = ""
    for name in DOCUMENTS:
        with open(os.path.join(ROOT, name), encoding="utf-8") as file:
            text += file.read()
    problems = problems_of(sources, text)
    print("\n".join(problems))
    print("%d calls, %d problems" % (len(calls_of(sources)), len(problems)))
    return 1 if problems else 0


if __name__ == "__main__":
    if len(sys.argv) != 1:
        sys.exit(__doc__)
    sys.exit(main())
