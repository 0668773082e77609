#!/usr/bin/env python3
"""What the tool does without the libraries that it opens when it needs them: libdw, zlib, zstd.

    test_libraries.py GPUPOOL PRELOAD_STUB [TEST ...]
"""

import base64
import gzip
import os
import re
import shutil
import subprocess
import sys
import unittest
import zlib

import cli
from cli import DONE, INPUT, Case, snapshot_of


class Libraries(Case):
    def without(self, *names):
        """Files of these names that the loader meets first, and that are no libraries. The leak checker needs some itself."""
        folder = self.path("without")
        os.makedirs(folder, exist_ok=True)
        for name in names:
            with open(os.path.join(folder, name), "w") as file:
                file.write("no library\n" * 100)
        return {"LD_LIBRARY_PATH": folder, "LD_PRELOAD": ""}

    def test_only_the_c_library_and_cjson_are_needed(self):
        needed = re.findall(r"NEEDED.*\[(\S+)\]", subprocess.run(["readelf", "-d", cli.GPUPOOL], stdout=subprocess.PIPE,
                                                                 universal_newlines=True, check=True).stdout)
        others = {name for name in needed if not re.match(r"lib(c|m|pthread|dl|cjson|asan|tsan|ubsan)\.so", name)}
        self.assertEqual(others, set())

    def test_names_of_functions(self):
        frames = [{"address": 4096, "module": 0, "function": "", "file": "", "line": 0}]
        path = self.write("s.json", snapshot_of(
            modules=[{"path": "/usr/bin/app", "build_id": "00112233", "base": 0, "start": 0, "end": 1 << 20}],
            frames=frames, stacks=[[0]]))
        without = self.without("libdw.so.1")
        result = self.run_tool("symbolize", path, "-o", "out.json", status=INPUT, **without)
        self.assertEqual(result.stderr, "gpupool: symbolize needs libdw.so.1, which is not installed (the package libdw1, or "
                                        "elfutils-libs)\n")
        result = self.run_tool("sites", path, path, **without)
        self.assertEqual(result.stderr.count("functions have no names here: that needs libdw.so.1"), 1, result.stderr)

    def test_compressed_files(self):
        path = self.write("s.json", snapshot_of())
        with open(path, "rb") as file:
            data = file.read()
        compressed = {"gzip": ("libz.so.1", gzip.compress(data))}
        if shutil.which("zstd"):
            compressed["zstd"] = ("libzstd.so.1", subprocess.run(["zstd", "-q"], input=data, stdout=subprocess.PIPE,
                                                                 check=True).stdout)
        for way, (library, packed) in compressed.items():
            with open(self.path("work", "packed"), "wb") as file:
                file.write(packed)
            self.run_tool("summary", "packed", status=DONE)
            result = self.run_tool("summary", "packed", status=INPUT, **self.without(library))
            self.one_line(result.stderr)
            self.assertIn("it is compressed by %s, which needs %s; that is not installed" % (way, library), result.stderr)

    def test_the_page_is_made_without_zlib(self):
        path = self.write("s.json", snapshot_of())
        packed = []
        for environment in ({}, self.without("libz.so.1")):
            self.run_tool("html", path, "-o", "page.html", "--force", **environment)
            with open(self.path("work", "page.html"), encoding="utf-8") as file:
                packed.append(base64.b64decode(max(re.findall(r"[A-Za-z0-9+/]{100,}=*", file.read()), key=len)))
        self.assertGreater(len(packed[1]), len(packed[0]))
        self.assertEqual(zlib.decompress(packed[1]), zlib.decompress(packed[0]))


if __name__ == "__main__":
    cli.GPUPOOL, cli.STUB = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
