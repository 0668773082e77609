"""A copy of the tree with a build, in which an edit is tried and taken back."""

import contextlib
import json
import os
import shutil
import signal
import subprocess

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SKIPPED = 77


class Problem(Exception):
    pass


def copy_tree(to):
    """Tracked files, and new ones that git does not ignore; what has not changed is not touched."""
    names = subprocess.run(["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=SOURCE, check=True,
                           stdout=subprocess.PIPE).stdout.decode().split("\0")
    for name in names:
        source, target = os.path.join(SOURCE, name), os.path.join(to, name)
        if not name or not os.path.isfile(source):
            continue
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(source, "rb") as file:
            content = file.read()
        if os.path.exists(target):
            with open(target, "rb") as file:
                if file.read() == content:
                    continue
        shutil.copy(source, target)


def end_session(leader):
    """Kills what the leader of a session has started: tests of Check run in process groups of their own."""
    for name in os.listdir("/proc"):
        try:
            with open("/proc/%s/stat" % name) as file:
                session = int(file.read().rpartition(")")[2].split()[3])
            if session == leader:
                os.kill(int(name), signal.SIGKILL)
        except (OSError, ValueError):  # no process, or it has ended
            pass


def run_quietly(command, limit_s=None, **more):
    """Status and output; None as status: it ran past the limit and was ended with all that it had started."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               universal_newlines=True, errors="replace", start_new_session=True, **more)
    try:
        out, _ = process.communicate(timeout=limit_s)
        return process.returncode, out
    except subprocess.TimeoutExpired:
        end_session(process.pid)
        return None, process.communicate()[0]
    except BaseException:  # interrupted: what it had started would go on
        end_session(process.pid)
        raise


def must(*command):
    status, out = run_quietly(list(command))
    if status != 0:
        raise Problem("%s failed:\n%s" % (command[0], out[-4000:]))


class Test:
    """One of a build folder, as Meson would run it."""

    def __init__(self, found, files):
        self.name, self.command, self.folder = found["name"], found["cmd"], found["workdir"]
        self.timeout_s, self.environment = found["timeout"], found["env"]
        self.targets = sorted(file for target in found["depends"] for file in files.get(target, ()))
        self.suites = {suite.split(":")[-1] for suite in found["suite"]}

    def run(self, build, limit_s=None, arguments=(), **more):
        """(status, output); None as status: no end."""
        with open(os.path.join(build, "test", "leak_checker"), encoding="utf-8") as file:
            leak_checker = file.read().strip()
        environment = dict(os.environ, CK_DEFAULT_TIMEOUT="0", GP_LEAK_CHECKER=leak_checker, MALLOC_PERTURB_="165",
                           **self.environment, **more)
        return run_quietly(["env", "--default-signal=HUP,INT,QUIT", *self.command, *arguments], limit_s or self.timeout_s,
                           env=environment, cwd=self.folder or build)


def tests_of(build):
    """{name: test}"""
    def read(what):
        with open(os.path.join(build, "meson-info", "intro-%s.json" % what), encoding="utf-8") as file:
            return json.load(file)
    files = {target["id"]: [os.path.relpath(name, build) for name in target["filename"]] for target in read("targets")}
    return {test["name"]: Test(test, files) for test in read("tests")}


def configure(source, build, *options):
    if not os.path.exists(os.path.join(build, "build.ninja")):
        must("meson", "setup", build, source, "-Ddebug_level=3", *options)
    must("ninja", "-C", build, "build.ninja")


class Tree:
    def __init__(self, folder, *options):
        self.source = os.path.join(folder, "tree")
        self.build = os.path.join(folder, "build")
        copy_tree(self.source)
        configure(self.source, self.build, *options)
        self.tests = tests_of(self.build)

    def make(self, *targets):
        must("ninja", "-C", self.build, *targets)

    def try_make(self, *targets):
        """(status, output)"""
        return run_quietly(["ninja", "-C", self.build, *targets])

    @contextlib.contextmanager
    def edit(self, name, text):
        """The file has this text while the caller is in it."""
        path = os.path.join(self.source, name)
        with open(path, encoding="utf-8") as file:
            before = file.read()
        try:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            yield
        finally:
            with open(path, "w", encoding="utf-8") as file:
                file.write(before)
