#!/usr/bin/env python3
"""Writes the manual pages from what the tool says of itself, so that there is one source.

    make-pages.py GPUPOOL gpupool.1|libgpupool.7

gpupool.1 is made of the help of each command, libgpupool.7 of the option table (gpupool config --json).
"""

import json
import os
import re
import subprocess
import sys


def run(*arguments):
    env = {name: value for name, value in os.environ.items() if not name.startswith(("GPUPOOL_", "MXNET_"))}
    env["XDG_CONFIG_HOME"] = "/nonexistent"  # the builder's own settings are no defaults
    return subprocess.run(arguments, env=env, check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout


def roff(text):
    """Text that means itself."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("^", "\\(ha").replace("~", "\\(ti")
    return "\\&" + text if text.startswith(".") else text


def paragraphs(lines):
    """Lines of the help as roff: options become tagged paragraphs, what is indented otherwise stays as it is."""
    out, in_option = [], False
    for line in lines:
        option = re.match(r"  (-\S(?:[^ ]| (?! ))*)(?:  +(\S.*))?$", line)
        if option:
            out += [".TP", ".B " + roff(option.group(1))] + ([roff(option.group(2))] if option.group(2) else [])
            in_option = True
        elif not line.strip():
            out.append(".PP")
            in_option = False
        elif in_option and line.startswith("    "):
            out.append(roff(line.strip()))
        else:
            if in_option:
                out.append(".PP")
            in_option = False
            out.append(roff(line.strip()))
    return out


def head(name, section, title, version):
    return [".\\\" Made by make-pages.py; do not edit", ".TH %s %s \"\" \"%s\" \"%s\"" % (name, section, version, title)]


def tool_page(gpupool):
    overview = run(gpupool, "--help")
    commands = re.findall(r"^  (\w+) +(\S.*)$", overview, re.MULTILINE)
    out = head("GPUPOOL", 1, "User Commands", run(gpupool, "--version").strip())
    out += [".SH NAME", "gpupool \\- run CUDA programs with pooled GPU memory, and tell what they did with it",
            ".SH SYNOPSIS", ".B gpupool run", "[options] [\\-\\-] PROGRAM [ARGS]", ".br", ".B gpupool COMMAND",
            "FILE... [options]", ".SH DESCRIPTION",
            "gpupool runs unmodified CUDA programs under", ".BR libgpupool (7),",
            "a caching pool for GPU memory that is preloaded, and reads the snapshots that they leave: JSON files that tell of",
            "every allocation and free.", "The last line of a report names the command to type next.", ".PP",
            "In place of a file,", ".B \\-", "is the standard input. Sizes are in powers of 1024."]
    for name, summary in commands:
        if name == "help":
            continue
        lines = run(gpupool, "help", name).splitlines()
        out += [".SH " + name.upper(), roff(summary[0].upper() + summary[1:]) + ".", ".PP", ".B " + roff(lines[0][7:]), ".PP"]
        out += paragraphs(lines[2:])
    out += [".SH EXIT STATUS", "0: done. 1: findings, only if asked for. 2: usage. 3: input that cannot be read or is corrupt.",
            "4: partial input, with \\-\\-strict.", ".B gpupool run", "returns the status of the program, and ends by the signal that ended it; 125: it failed itself,",
            "126: the program cannot be run, 127: it was not found.",
            ".SH ENVIRONMENT", "NO_COLOR, if it is set and not empty: no colour. TERM=dumb does the same. LC_CTYPE says whether",
            "pictures may be drawn with characters beyond ASCII. The settings of the library are in", ".BR libgpupool (7).",
            ".SH SEE ALSO", ".BR libgpupool (7)"]
    return out


def library_page(gpupool):
    options = json.loads(run(gpupool, "config", "--json"))["options"]
    out = head("LIBGPUPOOL", 7, "Miscellaneous", run(gpupool, "--version").strip())
    out += [".SH NAME", "libgpupool \\- a caching pool for the GPU memory of unmodified CUDA programs", ".SH SYNOPSIS",
            ".B LD_PRELOAD=libgpupool.so", "PROGRAM [ARGS]", ".SH DESCRIPTION",
            "The library keeps freed GPU memory and hands it out again without a driver call, holds the program to a memory",
            "limit, and records every allocation and free. What it recorded is one JSON file at exit, and one when memory",
            "runs out, which", ".BR gpupool (1)", "explains. Messages go to stderr, never to the output of the program.",
            ".SH ENVIRONMENT",
            "Sizes are plain bytes or 8G, 8g, 8GB, 8GiB (powers of 1024); a share is 50%. A malformed value is reported and the",
            "default used; a malformed limit refuses every allocation. In a setuid program nothing is read.", ".PP",
            "What the environment does not set may stand in a file, as lines NAME=VALUE (see FILES). A file is read only if it",
            "belongs to the user or to root and no others may write to it."]
    for option in options:
        out += [".TP", ".B " + option["variable"]]
        out += [roff(option["help"][0].upper() + option["help"][1:] + "."), "Accepted: " + roff(option["syntax"]) + "."
                if option["syntax"] else "", "Default: " + roff(option["default"]) + "."]
    out += [".SH FILES", ".TP", ".I $XDG_CONFIG_HOME/gpupool.conf", "Settings of the user; by default ~/.config/gpupool.conf.",
            ".TP", ".I /etc/gpupool.conf", "Settings of the machine, after those of the user. Its LIMIT is a ceiling: others can",
            "only lower it. If the file exists but cannot be read, every allocation fails.", ".TP", ".I gpupool.PROGRAM.HOST.PID.REASON.json",
            "The snapshots, in the folder that the program was started in; GPUPOOL_OUTPUT names them otherwise.",
            ".SH SEE ALSO", ".BR gpupool (1)"]
    return [line for line in out if line]


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    make = {"gpupool.1": tool_page, "libgpupool.7": library_page}[sys.argv[2]]
    print("\n".join(make(os.path.abspath(sys.argv[1]))))
