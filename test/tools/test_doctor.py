#!/usr/bin/env python3
"""gpupool doctor: each check, in a place where it finds something and in one where it does not.

    test_doctor.py GPUPOOL PRELOAD_STUB SIMULATOR [TEST ...]

The driver is the simulated one. SIMULATOR is its folder.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import unittest

import cli
import report_case
from cli import DONE, USAGE

SIMULATOR = None
CHANGE = 1
MAY_MOUNT = os.geteuid() == 0 and subprocess.run(["unshare", "--mount", "true"], check=False).returncode == 0


class Doctor(cli.Case):
    def setUp(self):
        super().setUp()
        self.environment["LD_LIBRARY_PATH"] = SIMULATOR

    def checks(self, *program, status=DONE, **environment):
        """{name: [(state, text, remedy)]}"""
        text = self.run_tool("doctor", "--json", *program, status=status, **environment).stdout
        found = {}
        report_case.SCHEMA.validate(json.loads(text))
        for check in json.loads(text)["checks"]:
            self.assertLessEqual(len(check["name"]), 9, "the column of names")
            found.setdefault(check["name"], []).append((check["state"], check["text"], check["remedy"]))
        for state, said, remedy in (one for checks in found.values() for one in checks):
            self.assertTrue(state == "ok" or remedy or re.search("accepted:|nearest|instead:", said), said)
        return found

    def one(self, name, *program, status=DONE, **environment):
        found = self.checks(*program, status=status, **environment)
        self.assertIn(name, found)
        self.assertEqual(len(found[name]), 1, found)
        return found[name][0]

    def compile(self, name, *options, source="int main(void) { return 0; }\n"):
        path = self.path("work", name)
        result = subprocess.run(["cc", "-x", "c", "-", "-o", path, *options], input=source, encoding="utf-8", stderr=subprocess.PIPE, check=False)
        if result.returncode:
            self.skipTest("cannot be compiled here: " + result.stderr)
        return path

    def test_a_good_place(self):
        result = self.run_tool("doctor")
        self.assertEqual(result.stderr, "")
        self.assertLess(result.stdout.count("\n"), 24)  # one screen
        self.assertIn("ok      driver    libcuda.so.1, CUDA 13.0\n", result.stdout)
        self.assertTrue(result.stdout.endswith("\nNothing needs to be changed.\n"))
        self.assertTrue(all(len(line) < 80 for line in result.stdout.splitlines() if self.folder not in line), result.stdout)

    def test_usage(self):
        self.one_line(self.run_tool("doctor", "--jsn", status=USAGE).stderr)
        self.assertIn("no-such-program", self.one_line(self.run_tool("doctor", "no-such-program", status=USAGE).stderr))
        self.assertIn("usage: gpupool doctor", self.run_tool("doctor", "--help").stdout)

    def test_a_library_that_the_loader_does_not_find(self):
        path = self.run_tool("path").stdout.strip()
        for preload in ("libgpupool.so", "/nowhere/libgpupool.so"):
            state, said, remedy = self.one("preload", status=CHANGE, LD_PRELOAD=preload)
            self.assertEqual((state, remedy), ("change", "LD_PRELOAD=" + path))
            self.assertIn(preload, said)
        for preload in (path, "libc.so.6", ""):
            self.assertNotIn("preload", self.checks(LD_PRELOAD=preload), preload)

    def test_the_path_of_the_library(self):
        path = self.run_tool("path").stdout
        self.assertEqual(self.checks()["library"][0][1].split()[0] + "\n", path)
        self.assertIn("usage: gpupool path", self.run_tool("path", "--help").stdout)
        self.one_line(self.run_tool("path", "--hlp", status=USAGE).stderr)
        self.one_line(self.run_tool("path", "x", status=USAGE).stderr)

    def test_no_driver(self):
        result = self.run_tool("doctor", status=CHANGE, LD_LIBRARY_PATH="")
        self.assertIn("change  driver    libcuda.so.1 was not found", result.stdout)
        self.assertTrue(result.stdout.endswith("\n1 to change.\n"))

    def test_versions_of_the_driver(self):
        for version, state, part in (("11010", "change", "older than 11.2"), ("12040", "note", "no fences"), ("13050", "ok", "CUDA 13.5"),
                                     ("14000", "note", "newer than this gpupool knows")):
            found = self.one("driver", status=CHANGE if state == "change" else DONE, SIMCUDA_DRIVER=version)
            self.assertEqual(found[0], state)
            self.assertIn(part, found[1])

    def test_a_driver_that_fails(self):
        found = self.one("driver", status=CHANGE, SIMCUDA_FAIL="cuInit:100@1")
        self.assertIn("error 100", found[1])
        self.assertIn("CUDA_VISIBLE_DEVICES", found[2])
        library = self.path("crash/libcuda.so.1")
        os.mkdir(os.path.dirname(library))
        self.compile("../crash/libcuda.so.1", "-shared", "-fPIC", source="#include <signal.h>\nint cuDriverGetVersion(int *v) { return raise(SIGILL); }\n"
                     "int cuInit(unsigned f) { return 0; }\nint cuDeviceGetCount(int *n) { return 1; }\n")
        self.assertIn("Illegal instruction", self.one("driver", status=CHANGE, LD_LIBRARY_PATH=self.path("crash"))[1])

    def test_devices(self):
        found = self.checks(SIMCUDA_DEVICES="2", SIMCUDA_CAPACITY="8GiB")["device"]
        self.assertEqual([check[0] for check in found], ["ok", "ok"])
        self.assertIn("8 GiB", found[1][1])
        found = self.one("device", SIMCUDA_INTEGRATED="1GiB")
        self.assertEqual(found[0], "note")
        self.assertIn("GPUPOOL_INTEGRATED=available", found[2])
        self.assertIn("GPUPOOL_LIMIT", found[2])
        self.assertEqual(self.one("devices", status=None, CUDA_VISIBLE_DEVICES="")[0], "change")
        self.assertIn("MIG", self.checks(CUDA_VISIBLE_DEVICES="MIG-1")["devices"][1][1])
        self.assertEqual(self.one("devices", NVIDIA_VISIBLE_DEVICES="void")[0], "note")
        self.assertIn("the smaller", self.one("MPS", CUDA_MPS_PINNED_DEVICE_MEM_LIMIT="0=1G")[1])

    def test_the_library(self):
        self.assertEqual(self.one("library")[0], "ok")
        os.remove(self.pool_library)
        self.assertIn("was not found", self.one("library", status=CHANGE)[1])
        self.compile("../tree/interpose/libgpupool.so", "-shared", "-fPIC", source="int f(void) { return 0; }\n")
        with open(self.pool_library, "r+b") as file:  # a library by its first page only, as a broken copy is
            file.truncate(4096)
        self.assertIn("is not loaded", self.one("library", status=CHANGE)[1])

    def test_other_preloads(self):
        self.assertEqual(self.one("preloads")[0], "ok")
        found = self.one("preloads", status=CHANGE, LD_PRELOAD=shutil.copy(cli.STUB, self.path("libvgpu.so")))
        self.assertIn("HAMi-core", found[1])
        self.assertIn("CUDA_INJECTION64_PATH", self.one("preloads", status=CHANGE, CUDA_INJECTION64_PATH="/opt/tool.so")[1])

    def test_settings(self):
        self.assertEqual(self.one("settings")[1], "all at their defaults")
        self.assertIn("GPUPOOL_LIMIT=8GiB", self.one("settings", GPUPOOL_LIMIT="8GiB")[1])
        self.assertIn("GPUPOOL_LIMIT=8Q is malformed", self.one("settings", status=None, GPUPOOL_LIMIT="8Q")[1])
        self.assertEqual(self.one("settings", GPUPOOL_LIMT="8G")[0], "note")
        self.assertEqual(self.one("settings", status=CHANGE, GPUPOOL_DISABLE="1")[2], "unset GPUPOOL_DISABLE")

    def test_room_for_the_record(self):
        self.assertIn(self.path("no") + ": No such file", self.one("record", status=CHANGE, GPUPOOL_RECORD=self.path("no"))[1])
        self.assertEqual(self.one("record", GPUPOOL_RECORD="none")[0], "ok")
        os.chmod(self.path("tmp"), 0o777)
        self.assertEqual(self.one("record", GPUPOOL_RECORD=self.path("tmp"))[2], "chmod 1777 " + self.path("tmp"))

    @unittest.skipUnless(MAY_MOUNT, "needs a mount")
    def test_the_path_without_proc(self):
        """As in a chroot. The tool reads in /proc what it is, and where."""
        result = subprocess.run(["unshare", "--mount", "sh", "-c", "mount -t tmpfs tmpfs /proc && exec \"$0\" path", self.tool],
                                stdout=subprocess.PIPE, env=self.environment, check=False)
        self.assertEqual(result.stdout.decode(), self.run_tool("path").stdout)

    @unittest.skipUnless(MAY_MOUNT, "needs a mount")
    def test_a_small_shared_memory(self):
        for size, state in (("2m", "change"), ("32m", "note"), ("128m", "ok")):
            script = "mount -t tmpfs -o size=%s,mode=1777 tmpfs \"$1\" && exec \"$0\" doctor --json" % size
            result = subprocess.run(["unshare", "--mount", "sh", "-c", script, self.tool, self.path("tmp")], stdout=subprocess.PIPE,
                                    env={**self.environment, "GPUPOOL_RECORD": self.path("tmp")}, check=False)
            record = [check for check in json.loads(result.stdout)["checks"] if check["name"] == "record"]
            self.assertEqual([check["state"] for check in record], [state], record)

    def test_programs(self):
        true = shutil.which("true")
        self.assertEqual(self.one("program", true)[0], "ok")
        program = shutil.copy(true, self.path("work/suid"))
        os.chmod(program, 0o4755)
        self.assertIn("it is a setuid program", self.one("program", "--", program, status=CHANGE)[1])
        program = self.compile("static", "-static")
        self.assertIn("statically linked", self.one("program", program, status=CHANGE)[1])
        script = self.write_program("script", "#!/bin/sh\ntouch ran\n# ssh far away\nssh host ./app\n")
        found = self.checks(script)
        self.assertEqual((found["program"][0][0], found["children"][0][0]), ("ok", "note"))
        self.assertIn("ssh HOST gpupool run", found["children"][0][1])
        self.assertFalse(os.path.exists(self.path("work/ran")))
        self.write_program("docker", "#!/bin/sh\n")
        self.assertIn("in a container", self.one("program", "./docker", "run", status=CHANGE)[1])

    def test_libraries_of_a_program(self):
        self.compile("libgone.so", "-shared", "-fPIC", source="int gone(void) { return 0; }\n")
        program = self.compile("app", "-L" + self.path("work"), "-lgone", source="int gone(void);\nint main(void) { return gone(); }\n")
        self.assertIn("libgone.so is not found", self.one("libraries", program, status=CHANGE)[1])
        self.assertNotIn("libraries", self.checks(program, LD_LIBRARY_PATH=SIMULATOR + ":" + self.path("work")))

    def test_a_program_with_a_sanitizer(self):
        program = self.compile("app", "-fsanitize=address", "-shared-libasan" if "clang" in os.environ.get("CC", "") else "-g")
        found = self.checks(program, status=None)
        if "libraries" not in found:
            self.skipTest("the compiler links the runtime statically")
        state, text, remedy = found["libraries"][0]
        self.assertEqual(state, "change")
        self.assertIn("not the first library", text)
        runtime = remedy.split()[0].split("=")[1]
        self.assertTrue(os.path.exists(runtime), remedy)
        self.assertNotIn("libraries", self.checks(program, LD_PRELOAD=runtime))

    def test_frameworks(self):
        source = self.write("train.py", "import os, torch.nn as nn\n")
        self.assertIn("backend:cudaMallocAsync", self.one("framework", sys.executable, source)[2])
        self.assertIn(source, self.one("framework", "env", "-u", "X", "python3", source)[1])  # below any launcher
        for setting in ({"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}, {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}):
            self.assertEqual(self.one("framework", sys.executable, source, **setting)[0], "ok")
        self.assertEqual(self.one("framework", sys.executable, source, PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")[0], "note")
        for arguments, wanted in ((("-m", "vllm.entrypoints"), "PyTorch"), (("-c", "x = 1; from jax import numpy"), "JAX"),
                                  (("-c", "import cupy"), "CuPy"), (("-c", "import tensorflow as tf"), "TensorFlow")):
            self.assertIn(wanted, self.one("framework", sys.executable, *arguments)[1])
        for code in ("import torchless", "import my.torch", "print('torch')", "import os"):
            self.assertNotIn("framework", self.checks(sys.executable, "-c", code))
        tool = self.write_program("serve", "#!%s\nfrom vllm.scripts import main\n" % sys.executable)
        self.assertIn("PyTorch", self.one("framework", tool)[1])
        self.compile("libtorch_cuda.so", "-shared", "-fPIC", source="int torch(void) { return 0; }\n")
        program = self.compile("infer", "-L" + self.path("work"), "-ltorch_cuda", source="int torch(void);\nint main(void) { return torch(); }\n")
        self.assertIn("libtorch", self.one("framework", program, LD_LIBRARY_PATH=SIMULATOR + ":" + self.path("work"))[1])


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    cli.GPUPOOL, cli.STUB, SIMULATOR = (os.path.abspath(argument) for argument in sys.argv[1:4])
    unittest.main(argv=[sys.argv[0]] + sys.argv[4:])
