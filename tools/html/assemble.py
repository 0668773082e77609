#!/usr/bin/env python3
"""Makes one file of the page's modules: assemble.py [--depfile FILE] PAGE_FOLDER OUTPUT

PAGE_FOLDER has page.html, and beside it what that names: style sheets, and a module that imports the others. OUTPUT is C
source, the text before and after a payload (page_text.h); if its name ends in .html it is the page itself, without one.

The modules become one script, in the order of their imports, inside of one function in strict mode: `import` and `export` are
taken out, as are comments, and every name stays what it is. So no two modules may declare the same name at their top, and only these forms are
known, each at the begin of a line:

    import {name, other} from './module.js';
    import './module.js';
    export function name() ...        also class, const, let, async function

The policy of the page gets the digests of its script and its style: nothing else in the file can run, whatever it contains.
"""

import base64
import hashlib
import os
import re
import sys

STYLE = re.compile(r'<link rel="stylesheet" href="([\w./-]+)">')
SCRIPT = re.compile(r'<script type="module" src="([\w./-]+)"></script>')
STYLES = '<style></style>'
PAYLOAD = '<script type="application/octet-stream;base64" id="payload"></script>'
IMPORT = re.compile(r"^import\b(?: *\{([^}]*)\} *from)? *(?:'([^'\n]*)'|\"([^\"\n]*)\");?[ \t]*$", re.M)
DECLARATION = re.compile(r"(export +)?(?:(?:async +)?function\b *\*?|class\b|const\b|let\b|var\b) *([\w$]*)")
NAME = re.compile(r"[A-Za-z_$][\w$]*")
# After these a slash begins a regular expression; after anything else that is a value it divides.
BEFORE_REGEX = {"return", "typeof", "case", "in", "of", "delete", "void", "throw", "new", "else", "do", "yield", "await"}
# In a script element these change where it ends.
REFUSED = ("</script", "<script", "<!--", "\r", "\u2028", "\u2029")


class Problem(Exception):
    pass


def string_end(text, at):
    """Behind the string, or the regular expression, that begins at `at`; None: its line ends first."""
    quote, in_class = text[at], False
    at += 1
    while at < len(text) and text[at] != "\n":
        if text[at] == "\\":
            at += 2
            continue
        if quote == "/" and text[at] in "[]":
            in_class = text[at] == "["
        elif text[at] == quote and not in_class:
            return at + 1
        at += 1
    return None


def blank(text):
    """Spaces of the same length, with the same lines."""
    return re.sub(r"[^\n]", " ", text)


def mask(text, where, comments=None):
    """The text with spaces in place of comments and of what is in literals, so that braces and words in it are code. Adds the
    (begin, end) of each comment to comments."""
    out, at, last = [], 0, ""
    templates = []  # of each ${ that is open: the depth of braces in it
    while at < len(text):
        character = text[at]
        begin = at
        if text.startswith("//", at):
            at = text.find("\n", at)
            at = len(text) if at < 0 else at
        elif text.startswith("/*", at):
            at = text.find("*/", at) + 2
            if at < 2:
                raise Problem("%s: a comment does not end" % where)
        elif character in "'\"" or (character == "/" and (not last or last in BEFORE_REGEX or last in "(,=:[!&|?{};+-*%<>~^")):
            at = string_end(text, at)
            if at is None:
                raise Problem("%s:%d: a literal does not end in its line" % (where, text.count("\n", 0, begin) + 1))
            last = "'"
        elif character == "`" or (character == "}" and templates and templates[-1] == 0):
            if character == "}":
                templates.pop()
            at += 1
            while at < len(text) and text[at] != "`" and not text.startswith("${", at):
                at += 2 if text[at] == "\\" else 1
            if at >= len(text):
                raise Problem("%s: a template does not end" % where)
            if text[at] == "`":
                at, last = at + 1, "'"
            else:
                templates.append(0)
                at, last = at + 2, "("
        else:
            word = NAME.match(text, at)
            at = word.end() if word else at + 1
            if templates and character in "{}":
                templates[-1] += 1 if character == "{" else -1
            if not character.isspace():
                last = text[begin:at]
            out.append(text[begin:at])
            continue
        if comments is not None and text[begin:begin + 2] in ("//", "/*"):
            comments.append((begin, at))
        out.append(blank(text[begin:at]))
    return "".join(out)


def comment_cut(text, begin, end):
    """What goes with a comment: the spaces before it, and its line where nothing else is in that. Between two words it stays."""
    if NAME.match(text[begin - 1:begin]) and NAME.match(text[end:end + 1]):
        return begin, begin
    first = len(text[:begin].rstrip(" "))
    if first and text[first - 1] != "\n":
        return (first if text[end:end + 1].isspace() else begin), end
    behind = re.compile(" *\n").match(text, end)
    return first, behind.end() if behind else end


def top_lines(masked):
    """(offset, end) of each line that begins outside of all braces, brackets and parentheses."""
    depth, at = 0, 0
    for line in masked.splitlines(keepends=True):
        if depth == 0:
            yield at, at + len(line)
        depth += sum(line.count(c) for c in "{[(") - sum(line.count(c) for c in "}])")
        at += len(line)


def read(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    for refused in REFUSED:
        if refused in text.lower() and not path.endswith(".html"):
            raise Problem("%s: a page cannot hold %r; write it in parts" % (path, refused))
    return text


class Module:
    """path; imports: [(path, names)]; names: {declared at the top: is exported}; text: without comments, import and export"""

    def __init__(self, path):
        self.path = path
        text = read(path)
        comments = []
        masked = mask(text, path, comments)
        self.imports, self.names = [], {}
        cuts = [comment_cut(text, *comment) for comment in comments]
        for begin, end in top_lines(masked):
            if not masked[begin:end].strip() or masked[begin].isspace():
                continue
            cuts += self.statement(text, masked, begin)
        if re.search(r"(?<![.\w$])import\s*[(.]", masked):
            raise Problem("%s: modules are imported at the begin of a line only" % path)
        for begin, end in sorted(cuts, reverse=True):
            text = text[:begin] + text[end:]
        self.text = text.strip("\n") + "\n"

    def fail(self, text, at, why):
        raise Problem("%s:%d: %s" % (self.path, text.count("\n", 0, at) + 1, why))

    def statement(self, text, masked, begin):
        """What is to be cut out of the statement that begins there."""
        if re.match(r"import\b", masked[begin:]):
            found = IMPORT.match(text, begin)
            if not found:
                self.fail(text, begin, "of imports only import {a, b} from './module.js' is known")
            names = [name.strip() for name in (found.group(1) or "").split(",") if name.strip()]
            for name in names:
                if not NAME.fullmatch(name):
                    self.fail(text, begin, "'%s': a name cannot be changed where it is imported" % name)
            target = found.group(2) or found.group(3)
            if not target.startswith("."):
                self.fail(text, begin, "'%s' is not a path that begins with a dot" % target)
            self.imports.append((os.path.normpath(os.path.join(os.path.dirname(self.path), target)), names))
            return [(begin, found.end())]
        found = DECLARATION.match(masked, begin)
        if not found:
            if re.match(r"export\b", masked[begin:]):
                self.fail(text, begin, "of exports only a function, class, const or let is known, not a list or a default")
            return []
        name = found.group(2)
        if not name:
            self.fail(text, begin, "a declaration at the top names one thing")
        if name in self.names:
            self.fail(text, begin, "%s is declared twice" % name)
        self.names[name] = bool(found.group(1))
        return [(begin, found.end(1))] if found.group(1) else []


def in_order(path):
    """All modules that `path` needs, each behind those that it imports."""
    done, open_paths, order = {}, [], []

    def visit(at, importer):
        if at in open_paths:
            raise Problem("a circle of imports: %s" % " -> ".join(map(os.path.basename, open_paths[open_paths.index(at):] + [at])))
        if at in done:
            return
        if not os.path.exists(at):
            raise Problem("%s: there is no %s" % (importer, at))
        open_paths.append(at)
        module = Module(at)
        for target, names in module.imports:
            visit(target, at)
            for name in names:
                if not done[target].names.get(name):
                    raise Problem("%s: %s does not export %s" % (at, target, name))
        open_paths.pop()
        done[at] = module
        order.append(module)

    visit(path, path)
    owners = {}
    for module in order:
        for name in module.names:
            if name in owners:
                raise Problem("%s: %s is also a name of %s; they become one script" % (module.path, name, owners[name]))
            owners[name] = module.path
    return order


def one_script(path):
    modules = in_order(path)
    parts = ["(function () {\n'use strict';\n"]
    for module in modules:
        parts.append("\n/* ---- %s */\n%s" % (os.path.relpath(module.path, os.path.dirname(path)), module.text))
    return "".join(parts) + "}());\n", [module.path for module in modules]


def digest(text):
    return "'sha256-%s'" % base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def replace_once(page, where, old, new):
    if page.count(old) != 1:
        raise Problem("%s: %s stands there %d times, not once" % (where, old, page.count(old)))
    return page.replace(old, new)


def find_once(pattern, page, where, what):
    found = pattern.findall(page)
    if len(found) != 1:
        raise Problem("%s: it names %d %s, not one" % (where, len(found), what))
    return found[0]


def assemble(folder):
    """(the page before the payload, the page behind it, the paths of all that was read)"""
    path = os.path.join(folder, "page.html")
    page = read(path)
    style_paths = [os.path.join(folder, name) for name in STYLE.findall(page)]
    style = "\n" + "\n".join(map(read, style_paths))
    if not style_paths or re.search(r"</style|@import|url\((?!['\"]?data:)", style, re.I):
        raise Problem("%s: it needs a style sheet, and none may end the element, or load anything" % path)
    page = STYLE.sub("", STYLE.sub(lambda _: STYLES, page, 1))
    script, module_paths = one_script(os.path.normpath(os.path.join(folder, find_once(SCRIPT, page, path, "modules"))))
    script = "\n" + script
    page = replace_once(page, path, "script-src 'self'", "script-src " + digest(script))
    page = replace_once(page, path, "style-src 'self'", "style-src " + digest(style))
    before, _, behind = page.partition(find_once(re.compile(re.escape(PAYLOAD)), page, path, "payloads"))
    before += PAYLOAD.replace("</script>", "")
    behind = "</script>" + behind

    def fill(part):  # functions, for a replacement may have backslashes
        part = part.replace(STYLES, "<style>%s</style>" % style)
        return SCRIPT.sub(lambda _: "<script>%s</script>" % script, part)

    return fill(before), fill(behind), [path] + style_paths + module_paths


def c_string(text):
    """A literal a line. Bytes that are not plain are octal, three digits, so that none can run into what follows."""
    lines = []
    for line in text.encode().splitlines(keepends=True):
        literal = "".join("\\n" if byte == 10 else chr(byte) if 32 <= byte < 127 and byte not in b'"\\?' else "\\%03o" % byte
                          for byte in line)
        lines.append('  "%s"' % literal)
    return "\n".join(lines) or '  ""'


def c_source(before, behind):
    out = ["/* Made by tools/html/assemble.py. */", '#include "tools/html/page_text.h"', ""]
    for name, text in (("begin", before), ("end", behind)):
        out.append("const char gp_html_page_%s[] =\n%s;" % (name, c_string(text)))
        out.append("const size_t gp_html_page_%s_length = sizeof(gp_html_page_%s) - 1;" % (name, name))
    return "\n".join(out) + "\n"


def main(arguments):
    depfile = None
    if arguments[:1] == ["--depfile"]:
        depfile, arguments = arguments[1], arguments[2:]
    if len(arguments) != 2:
        sys.exit(__doc__)
    folder, output = arguments
    try:
        before, behind, paths = assemble(folder)
    except (Problem, OSError, UnicodeDecodeError) as problem:
        sys.exit("assemble.py: %s" % problem)
    with open(output, "w", encoding="utf-8") as file:
        file.write(before + behind if output.endswith(".html") else c_source(before, behind))
    if depfile:
        with open(depfile, "w", encoding="utf-8") as file:
            file.write("%s: %s\n" % (output, " ".join(path.replace(" ", "\\ ") for path in paths)))


if __name__ == "__main__":
    main(sys.argv[1:])
