"""What a file of programs/ declares: PROGRAM = Program(...). Paths are those inside the place where programs run."""

import dataclasses
import importlib.util
import os
import re

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs")


class Missing(Exception):
    """Why a program, or a case of it, cannot run here: one sentence, for the table."""


@dataclasses.dataclass
class Case:
    label: str
    command: list
    environment: dict = dataclasses.field(default_factory=dict)
    # Pairs (pattern, replacement), applied to standard output and standard error: what differs between two plain runs.
    normalize: list = dataclasses.field(default_factory=list)
    compare_errors: bool = True  # standard error, too, without the lines of the library
    files: list = dataclasses.field(default_factory=list)  # patterns of files that it leaves in its folder: same content
    # By variant, or "preloaded" for all but plain: why it differs. A difference without a reason here is a failure, and
    # so is a reason without a difference.
    unlike: dict = dataclasses.field(default_factory=dict)
    varies: str = ""  # why it does not allocate the same in each run; then only the library's calls of the driver are counted
    no_account: str = ""  # why nothing is counted
    limit: str = ""  # GPUPOOL_LIMIT of the variant "limit"; "": that of the program
    seconds: int = 300  # then it is killed


@dataclasses.dataclass
class Program:
    title: str
    version: object  # a command, of which the first line is taken, or a function of a Place that returns one
    cases: object  # a list of Case, or a function of a Place that returns one
    packages: list = dataclasses.field(default_factory=list)  # of Debian, installed
    unpacked: list = dataclasses.field(default_factory=list)  # of Debian, unpacked without what they depend on
    checkout: str = ""  # what --checkout NAME=PATH has to name: where it is from
    prepare: object = None  # a function of a Place, called once: builds, or raises Missing
    environment: dict = dataclasses.field(default_factory=dict)  # of all cases
    limit: str = "16GiB"
    note: str = ""  # for the table: what cannot be had, and why


def names():
    return sorted(name[:-3] for name in os.listdir(FOLDER) if re.fullmatch(r"[a-z]\w*\.py", name))


def load(name):
    spec = importlib.util.spec_from_file_location("programs." + name, os.path.join(FOLDER, name + ".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.PROGRAM
