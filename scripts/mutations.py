"""Single edits of C source, each of a kind that a slip makes: what scripts/mutate.py tries. Texts only, no files.

An edit keeps the number of lines, so that an assert further down compiles to the same code as before.
"""

import collections
import re

# kind: a key of KINDS; replacements: [(start, end, text)] in the file's text; line: of the first
Edit = collections.namedtuple("Edit", "kind line replacements")
# start, end: of the body with its braces, in the file's text
Function = collections.namedtuple("Function", "name returns start end")

KEYWORDS = {"if", "while", "for", "switch", "return", "sizeof", "defined", "do", "else", "case", "typeof", "_Static_assert"}
ASSERT = re.compile(r"\bgp_(?:assert(?:_internal|_full)?|expect)\(")
TAKE = r"(?:gp_lock_take|pthread_mutex_lock)"
RELEASE = r"(?:gp_lock_release|pthread_mutex_unlock)"
CLEANUP = re.compile(r"free|close|munmap|unlink|rmdir|_fini|_destroy|_delete|_drop|_forget|_restore|_give\b")


def masked(text):
    """The text with blanks for comments, literals, lines of the preprocessor and asserts: as long, with the same lines."""
    def blank(found):
        return re.sub(r"[^\n]", " ", found.group())
    text = re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text, flags=re.S)
    text = re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", blank, text, flags=re.M)
    found = ASSERT.search(text)
    while found:
        end = closing(text, found.end() - 1) + 1
        text = text[:found.start()] + re.sub(r"[^\n]", " ", text[found.start():end]) + text[end:]
        found = ASSERT.search(text)
    return text


def closing(text, start):
    """The place of the bracket that closes the one at start."""
    depth = 0
    for i in range(start, len(text)):
        depth += (text[i] in "([{") - (text[i] in ")]}")
        if depth == 0:
            return i
    return len(text) - 1


def functions(text):
    """As the formatter writes them: the braces of a body begin lines of their own."""
    mask = masked(text)
    found = []
    for brace in re.finditer(r"^\{$", mask, re.M):
        head = mask[max(mask.rfind(mark, 0, brace.start()) for mark in ";{}") + 1:brace.start()]
        names = [name for name in re.finditer(r"(\w+)\s*\(", head) if name.group(1) != "__attribute__"]
        if not names or not head.rstrip().endswith(")"):
            continue
        returns = re.sub(r"__attribute__\s*\(\(.*?\)\)|\b(?:static|inline|INLINE|_Noreturn)\b", " ", head[:names[0].start()])
        found.append(Function(names[0].group(1), " ".join(returns.split()), brace.start(), closing(mask, brace.start()) + 1))
    return found


def arguments_of(text, mask, start, end):
    """(start, end) of each argument between the brackets at start and end."""
    spans, depth, begin = [], 0, start + 1
    for i in range(start + 1, end + 1):
        if i == end or (mask[i] == "," and depth == 0):
            spans.append((begin, i))
            begin = i + 1
        else:
            depth += (mask[i] in "([{") - (mask[i] in ")]}")
    return [(a + len(text[a:b]) - len(text[a:b].lstrip()), a + len(text[a:b].rstrip())) for a, b in spans]


def gone(text, start, end):
    return (start, end, ";" + "\n" * text.count("\n", start, end))


def statements(mask, function):
    """(name, start, end) of the calls whose result the code does not use."""
    for found in re.finditer(r"(?<=[;{}\n])[ \t]*(?:\(void\))?(\w+)\(", mask[function.start:function.end]):
        start = function.start + found.start() + len(found.group()) - len(found.group().lstrip())
        end = closing(mask, function.start + found.end() - 1) + 1
        before = mask[:start].rstrip()[-1:]
        if found.group(1) not in KEYWORDS and mask[end:end + 1] == ";" and before in ";{})e":  # e: of else
            yield found.group(1), start, end + 1


def negated(text, mask, function):
    for found in re.finditer(r"\b(?:if|while)\s*\(", mask[function.start:function.end]):
        start = function.start + found.end() - 1
        end = closing(mask, start)
        if text[start + 1:end] not in ("true", "1"):
            yield [(start + 1, start + 1, "!("), (end, end, ")")]


def is_lock(name):
    return re.fullmatch(TAKE + "|" + RELEASE, name)


def dropped(text, mask, function):
    for name, start, end in statements(mask, function):
        if not is_lock(name) and not CLEANUP.search(name):
            yield [gone(text, start, end)]


def cleaned(text, mask, function):
    for name, start, end in statements(mask, function):
        if not is_lock(name) and CLEANUP.search(name):
            yield [gone(text, start, end)]


def unlocked(text, mask, function):
    """Every take and release of one function: one of them alone would hang the first caller."""
    locks = [(name, start, end) for name, start, end in statements(mask, function) if is_lock(name)]
    if any(re.fullmatch(TAKE, name) for name, _, _ in locks) and any(re.fullmatch(RELEASE, name) for name, _, _ in locks):
        yield [gone(text, start, end) for _, start, end in locks]


def swapped(text, mask, function):
    for found in re.finditer(r"\b(\w+)\(", mask[function.start:function.end]):
        if found.group(1) in KEYWORDS:
            continue
        start = function.start + found.end() - 1
        spans = arguments_of(text, mask, start, closing(mask, start))
        for (a, b), (c, d) in zip(spans, spans[1:]):
            if a < b and c < d and text[a:b] != text[c:d]:
                yield [(a, b, text[c:d]), (c, d, text[a:b])]


def off_by_one(text, mask, function):
    body = mask[function.start:function.end]
    for found in re.finditer(r" (<=|>=|<|>) ", body):
        other = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}[found.group(1)]
        yield [(function.start + found.start(1), function.start + found.end(1), other)]
    for found in re.finditer(r" ([+-]) 1\b(?![.\w])", body):
        yield [(function.start + found.start(), function.start + found.end(), "")]


def constant(text, mask, function):
    for found in re.finditer(r"\b(?:true|false|\d+)\b(?!\.)", mask[function.start:function.end]):
        word = found.group()
        other = {"true": "false", "false": "true"}.get(word) or str(int(word) + 1 if word.isdigit() else 0)
        yield [(function.start + found.start(), function.start + found.end(), other)]


def early_return(text, mask, function):
    """At the beginning of the body: the function does nothing."""
    at = function.start + 1
    if function.returns == "void":
        yield [(at, at, " return;")]
    elif function.returns == "bool":
        yield [(at, at, " return false;")]
        yield [(at, at, " return true;")]
    elif "*" in function.returns:
        yield [(at, at, " return NULL;")]
    else:
        yield [(at, at, " return 0;")]


KINDS = {"condition": negated, "call": dropped, "arguments": swapped, "lock": unlocked, "cleanup": cleaned,
         "off by one": off_by_one, "constant": constant, "early return": early_return}


def edits(text, function, kind, mask=None):
    mask = mask or masked(text)
    return [Edit(kind, text.count("\n", 0, parts[0][0]) + 1, sorted(parts)) for parts in KINDS[kind](text, mask, function)]


def applied(text, edit):
    for start, end, replacement in reversed(edit.replacements):
        text = text[:start] + replacement + text[end:]
    return text


def differing(text, edit):
    """What is there before and after, of the lines that the edit touches."""
    before, after = text.split("\n"), applied(text, edit).split("\n")
    changed = [i for i, (a, b) in enumerate(zip(before, after)) if a != b]
    return [before[i].strip() for i in changed], [after[i].strip() for i in changed]


def lines_of(text, function, edit):
    """Two sets: the lines that the edit touches, and those of its function. At the beginning of a body all of it counts."""
    inside = range(text.count("\n", 0, function.start) + 1, text.count("\n", 0, function.end) + 2)
    if edit.kind == "early return":
        return set(inside), set(inside)
    touched = set()
    for start, end, _ in edit.replacements:
        touched.update(range(text.count("\n", 0, start) + 1, text.count("\n", 0, end) + 2))
    return touched, set(inside)


def draw(random, files):
    """One edit of {path: text}: a file by its lines, one of its functions, a kind that it offers, one edit of that kind."""
    paths = sorted(files)
    while True:
        path, = random.choices(paths, [files[path].count("\n") for path in paths])
        text = files[path]
        mask = masked(text)
        found = functions(text)
        if not found:
            continue
        function = random.choice(found)
        offered = {kind: edits(text, function, kind, mask) for kind in KINDS}
        kinds = sorted(kind for kind in offered if offered[kind])
        if kinds:
            return path, function, random.choice(offered[random.choice(kinds)])


def interval(part, whole, z=1.96):
    """Of a share, by Wilson: (least, most), in 0 to 1."""
    if whole == 0:
        return 0.0, 1.0
    share, square = part / whole, z * z
    middle = (share + square / (2 * whole)) / (1 + square / whole)
    half = z / (1 + square / whole) * ((share * (1 - share) / whole + square / (4 * whole * whole)) ** 0.5)
    return max(0.0, middle - half), min(1.0, middle + half)
