#!/usr/bin/env python3
"""The wheel that scripts/make-wheel.py makes of this build, installed into virtual environments of the Pythons at hand.

    test_wheel.py SOURCE BUILD [TEST ...]

These are the python3.N of PATH, and those of pyenv: all of them, or with GP_QUICK the oldest and the newest.
"""

import base64
import csv
import glob
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

SOURCE = BUILD = None
# pip knows manylinux2014 since 19.3
MAKES_PIP = "import ensurepip, sys, venv; sys.exit(tuple(map(int, ensurepip.version().split('.')[:2])) < (19, 3))"


def run(*command, **more):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, timeout=300, check=False,
                          **more)


def pythons():
    """version -> path"""
    paths = [shutil.which("python3.%d" % minor) for minor in range(6, 20)] + ["/usr/bin/python3"]
    found = {}
    for path in filter(None, paths + glob.glob(os.path.expanduser("~/.pyenv/versions/3*/bin/python3"))):
        if run(path, "-c", MAKES_PIP).returncode == 0:
            version = run(path, "-c", "import sys; print(*sys.version_info[:2])").stdout.split()
            found[tuple(map(int, version))] = path
    return found


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.wheel = cls.make("first")

    @classmethod
    def make(cls, name):
        done = run(os.path.join(SOURCE, "scripts", "make-wheel.py"), "--build", BUILD, "--output", os.path.join(cls.folder, name))
        if done.returncode:
            raise AssertionError(done.stdout)
        return done.stdout.strip()

    def test_twice_the_same(self):
        with open(self.wheel, "rb") as first, open(self.make("second"), "rb") as second:
            self.assertEqual(first.read(), second.read())

    def test_says_what_is_in_it(self):
        with zipfile.ZipFile(self.wheel) as wheel:
            names = wheel.namelist()
            record = next(name for name in names if name.endswith(".dist-info/RECORD"))
            rows = {row[0]: row[1:] for row in csv.reader(io.StringIO(wheel.read(record).decode()))}
            self.assertEqual(sorted(rows), sorted(names))
            for name in set(names) - {record}:
                digest = base64.urlsafe_b64encode(hashlib.sha256(wheel.read(name)).digest()).rstrip(b"=").decode()
                self.assertEqual(rows[name], ["sha256=" + digest, str(wheel.getinfo(name).file_size)])
            tags = re.findall(r"^Tag: py3-none-(\S+)$", wheel.read(record.replace("RECORD", "WHEEL")).decode(), re.M)
        self.assertTrue(self.wheel.endswith("-py3-none-%s.whl" % ".".join(tags)), tags)

    def test_a_build_that_needs_a_newer_glibc_is_refused(self):
        sys.path.insert(0, os.path.join(SOURCE, "scripts"))
        make_wheel = __import__("make-wheel")
        make_wheel.FLOOR = (2, 2)
        with self.assertRaisesRegex(SystemExit, "tools/gpupool needs glibc 2"):
            make_wheel.contents(make_wheel.Build(BUILD))

    def test_in_virtual_environments(self):
        found = pythons()
        if not found:
            self.skipTest("no Python here has venv and pip (the package python3-venv)")
        if os.environ.get("GP_QUICK"):
            found = {version: found[version] for version in (min(found), max(found))}
        print("Pythons:", ", ".join("%d.%d" % version for version in sorted(found)))
        for version, python in found.items():
            with self.subTest(version=version):
                self.try_with(python)

    def try_with(self, python):
        home = os.path.join(self.folder, "venv with a blank")
        shutil.rmtree(home, ignore_errors=True)
        self.expect(python, "-m", "venv", home)
        here = os.path.join(home, "bin", "python")
        before = self.listing(home)
        pip = [here, "-m", "pip", "--disable-pip-version-check"]
        self.expect(*pip, "install", "--no-index", "--no-deps", self.wheel)
        version = self.expect(os.path.join(home, "bin", "gpupool"), "--version")
        self.assertRegex(version, r"^gpupool \d+\.\d+\.\d+\n$")
        self.assertEqual(self.expect(here, "-m", "gpupool", "--version"), version)
        self.assertIn("cjson.so.1 => %s/bin/../lib/gpupool/" % home, self.expect("ldd", os.path.join(home, "bin", "gpupool")))
        self.assertEqual(self.expect(here, "-c", "import gpupool; print(gpupool.is_loaded())"), "False\n")
        header = os.path.join(home, "include", "gpupool.h")
        self.assertTrue(os.path.exists(header))
        self.assertEqual(len(glob.glob(os.path.join(home, "share", "man", "man?", "*gpupool.?"))), 2)
        library = next(path for path in glob.glob(os.path.join(home, "lib", "**", "libgpupool.so"), recursive=True))
        said = subprocess.run([here, "-c", "import gpupool; print(gpupool.is_loaded())"], stdout=subprocess.PIPE, check=False,
                              env=dict(os.environ, LD_PRELOAD=self.link_to(library)), universal_newlines=True).stdout
        self.assertEqual(said, "True\n")
        self.expect(*pip, "uninstall", "-y", "gpupool")
        self.assertEqual(self.listing(home), before)

    def link_to(self, library):
        """The loader takes no path with a blank."""
        link = os.path.join(self.folder, "library.so")
        if os.path.lexists(link):
            os.unlink(link)
        os.symlink(library, link)
        return link

    def test_the_tool_finds_its_library(self):
        """By pip's own layout, in a folder without a blank."""
        python = next(iter(pythons().values()), None)
        if not python:
            self.skipTest("no Python here has venv and pip (the package python3-venv)")
        home = os.path.join(self.folder, "plain")
        self.expect(python, "-m", "venv", home)
        here = os.path.join(home, "bin", "python")
        self.expect(here, "-m", "pip", "--disable-pip-version-check", "install", "--no-index", "--no-deps", self.wheel)
        for tool in ([os.path.join(home, "bin", "gpupool")], [here, "-m", "gpupool"]):
            said = self.expect(*tool, "run", "--", here, "-c", "import gpupool; print(gpupool.is_loaded())")
            self.assertEqual(said.splitlines()[0], "True", said)
            preload = "LD_PRELOAD=" + self.expect(*tool, "path").strip()
            said = self.expect("env", preload, here, "-c", "import gpupool; print(gpupool.is_loaded())")
            self.assertEqual(said.splitlines()[0], "True", said)

    def test_signals_are_the_programs_own(self):
        """Python ignores SIGPIPE; a program under `python3 -m gpupool` does not."""
        module = os.path.join(SOURCE, "interpose", "api", "gpupool.py")
        fake = os.path.join(self.folder, "fake")
        os.makedirs(fake, exist_ok=True)
        with open(os.path.join(fake, "gpupool"), "w") as file:
            file.write("#!/bin/sh\ngrep SigIgn /proc/self/status\n")
        os.chmod(os.path.join(fake, "gpupool"), 0o755)
        said = run("/usr/bin/python3", module, env=dict(os.environ, PATH=fake + ":" + os.environ["PATH"])).stdout
        self.assertEqual(int(said.split()[1], 16) & (1 << 12), 0, said)

    def expect(self, *command):
        done = run(*command)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    @staticmethod
    def listing(folder):
        """Of files: pip leaves folders behind. Other modules' compiled forms come as Python runs."""
        return {os.path.join(path, name) for path, _, names in os.walk(folder) for name in names
                if not path.endswith("__pycache__") or "gpupool" in name}


if __name__ == "__main__":
    SOURCE, BUILD = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
