"""Which C libraries the library and the tool load with: versions of glibc, and musl."""

import json
import os
import re
import shutil
import subprocess
import unittest

from harness import EMULATOR, LIBRARY, PreloadCase, SOURCE

FLOOR = (2, 17)
BUILD = os.path.dirname(os.path.dirname(LIBRARY))
HAS_FLOOR = os.environ.get("GP_LIBC_FLOOR") == "1"  # else linked to the C library at hand


def readelf(*arguments):
    return subprocess.run(["readelf", "-W", *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          universal_newlines=True, check=True).stdout


def glibc_versions(path):
    return {tuple(map(int, version.split("."))) for version in
            re.findall(r"Name: GLIBC_([0-9.]+)\s", readelf("-V", path).partition("Version needs section")[2])}


def installed():
    """Of programs and libraries, where they lie in the build."""
    with open(os.path.join(BUILD, "meson-info", "intro-installed.json")) as file:
        for path in json.load(file):
            if os.path.isfile(path):
                with open(path, "rb") as opened:
                    if opened.read(4) == b"\x7fELF":
                        yield path


@unittest.skipUnless(HAS_FLOOR, "linked to the C library at hand")
class Floor(unittest.TestCase):
    def test_what_is_installed_needs_no_newer_glibc(self):
        names = set()
        for path in installed():
            names.add(os.path.basename(path))
            versions = glibc_versions(path)
            self.assertTrue(versions, path)
            with self.subTest(path=path):
                self.assertEqual(sorted(version for version in versions if version > FLOOR), [])
        self.assertIn("libgpupool.so", names)

    def test_every_name_has_a_version(self):
        """Else it would be bound to whatever has the name, and a name that the list lacks would pass."""
        for path in installed():
            symbols = re.findall(r" (GLOBAL|WEAK) +DEFAULT +UND (\S+)", readelf("--dyn-syms", path))
            self.assertGreater(len(symbols), 50)
            # Of the compiler's crtbeginS.o and crti.o; the C library has none of them. cJSON's have no versions.
            optional = {"_ITM_deregisterTMCloneTable", "_ITM_registerTMCloneTable", "__gmon_start__"}
            self.assertEqual({name for _, name in symbols if "@" not in name and not name.startswith("cJSON_")}, optional)

    def test_tells_what_the_documents_say(self):
        with open(os.path.join(SOURCE, "README.md")) as file:
            text = file.read()
        self.assertIn("glibc %d.%d" % FLOOR, text)


@unittest.skipUnless(HAS_FLOOR, "linked to the C library at hand")
@unittest.skipIf(EMULATOR, "for this machine only")
@unittest.skipUnless(shutil.which("musl-gcc"), "musl-gcc is not installed")
class Musl(PreloadCase):
    """No CUDA driver is made for musl, but programs in such a container start with the library preloaded."""

    def setUp(self):
        super().setUp()
        sources = os.path.join(SOURCE, "test", "interpose", "musl")
        self.driver = os.path.join(self.folder, "libcuda.so.1")
        self.program = os.path.join(self.folder, "program")
        subprocess.check_call(["musl-gcc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", self.driver,
                               os.path.join(sources, "driver.c")])
        subprocess.check_call(["musl-gcc", "-o", self.program, os.path.join(sources, "program.c"), self.driver])

    def test_a_program_starts_and_is_left_alone(self):
        for way, status in (("none", 0), ("linked", 3), ("opened", 3)):
            with self.subTest(way=way):
                prefix = ("env", "LD_LIBRARY_PATH=" + self.folder)
                plain = self.run_program(self.program, way, preload=None, prefix=prefix)
                self.assertEqual(plain.status, status, plain.err)
                run = self.run_program(self.program, way, prefix=prefix)
                self.assertEqual((run.status, run.out), (plain.status, plain.out), run.err)
                self.assertEqual(len(run.err.splitlines()), way != "none", run.err)
                self.assertEqual(run.snapshot_paths(), [])
                if way != "none":
                    self.assertIn("the C library of this program is not glibc; nothing is pooled", run.err)


if __name__ == "__main__":
    unittest.main()
