#!/usr/bin/env python3
"""Writes doc/settings.md from base/options.def, so that a setting is described once.

    make-settings.py            writes the document
    make-settings.py --check    fails if it is not what it would write

A comment behind an option names the document that has the details: OPTION(...) /* limits.md */
"""

import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DOCUMENT, TABLE = "doc/settings.md", "base/options.def"
OPTION = re.compile(r'^OPTION\(\w+, "(\w+)", (\w+), "([^"]*)", \w+, \w+, "([^"]*)", "([^"]*)"\)(?: /\* (\S+) \*/)?$', re.M)
HEAD = """# Settings
Made from `base/options.def` by `scripts/make-settings.py`.

Each setting is an environment variable and an option of `gpupool run`: `GPUPOOL_MAX_CACHED=2GiB ./app` with the library preloaded is
`gpupool run --max-cached 2GiB -- ./app`. `gpupool config` prints all of them, with the values in effect and where these came from.
Sizes take `KiB`, `MiB` and `GiB`; shares are like `25%`. A malformed value is reported on stderr, and the default applies; a malformed
limit fails every allocation, because other users of the device rely on it.

What the environment does not set may stand in a file, as lines `NAME=VALUE`: in `~/.config/gpupool.conf` (or
`$XDG_CONFIG_HOME/gpupool.conf`), then in `/etc/gpupool.conf`. `export`, quotes and comments are written as in a shell:
`export GPUPOOL_LIMIT="8GiB" # each job`. A `LIMIT` in `/etc/gpupool.conf` is a ceiling, which other places and `gpupool ctl` only
lower. It binds programs that load the library; a user may leave the library out. A file is read if it belongs to the user or to root
and other users cannot write to it. Setuid programs read none. [roll-out](roll-out.md) says where these files come from in containers
and jobs.

A line that cannot be read may be a limit, so it counts as a malformed one: every allocation fails, and a message names the file and
the line. The same holds if a file sets two different values for a limit, and if `/etc/gpupool.conf` exists but cannot be used.

| variable | default | values | |
|---|---|---|---|
"""
VALUES = {"BOOL": "0, 1", "SIZE": "a size", "SHARE": "a size or a share", "DEVICE_SIZE": "a size or a share, for all devices or each"}


def cell(text):
    return text.replace("|", ", ")


def row(name, kind, default, syntax, help_text, document):
    names = r"(?<!\w)(?:" + "|".join(set(NAMES) - {"NVML", "NVTX"}) + r")(?!\w)"  # these two are words of their own
    help_text = re.sub(names, lambda found: "`GPUPOOL_%s`" % found[0], help_text)
    link = " See [%s](%s)." % (document[:-3], document) if document else ""
    end = "." if link and not help_text.endswith(".") else ""
    return "| `GPUPOOL_%s` | `%s` | %s | %s%s%s |\n" % (
        name, default, cell(syntax) or VALUES.get(kind, ""), help_text[0].upper() + help_text[1:], end, link)


with open(os.path.join(ROOT, TABLE), encoding="utf-8") as table:
    OPTIONS = OPTION.findall(table.read())
NAMES = [option[0] for option in OPTIONS]


def main(arguments):
    if arguments not in ([], ["--check"]):
        sys.exit(__doc__)
    text = HEAD + "".join(row(*option) for option in OPTIONS)
    path = os.path.join(ROOT, DOCUMENT)
    if arguments:
        with open(path, encoding="utf-8") as file:
            if file.read() != text:
                return "%s is not what %s says; scripts/make-settings.py writes it" % (DOCUMENT, TABLE)
    else:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
