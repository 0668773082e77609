"""The toolkit's own libraries on the simulated driver, as far as they get without a GPU: every name is answered rightly."""

import glob
import os
import re
import subprocess
import unittest

from harness import LIBRARY, PROG, PreloadCase, SIM, SOURCE

ROUTES = os.path.join(PROG, "routes")
ROOT = os.path.dirname(os.path.realpath(os.environ["GP_CUDA_INCLUDE"]))
LIBRARIES = ("libcudart", "libcublas", "libcufft", "libnccl", "libcusparse", "libcusolver")
STATIC = ("toolkit_static_legacy", "toolkit_static_per_thread")  # of nvcc, with NVIDIA's static runtime


def find(name):
    for folder in (os.path.join(ROOT, "lib64"), os.path.join(ROOT, "lib")):
        for path in sorted(glob.glob(os.path.join(folder, name + ".so.*"))):
            return path
    return None


def hooks(column):
    with open(os.path.join(SOURCE, "interpose", "routes", "functions.def")) as file:
        return {match[column] for match in re.findall(r"^(?:HOOK|FORWARD_\w+)\((\w+), (\w+),", file.read(), re.M)}


def classes():
    with open(os.path.join(SOURCE, "interpose", "routes", "classes.def")) as file:
        return set(re.findall(r"^CLASS\((\w+),", file.read(), re.M))


class Toolkit(PreloadCase):
    def start(self, command, preload):
        """Status, output, the look-ups that the driver's log holds, and the names that were looked up in it by dlsym."""
        log = os.path.join(self.folder, "log")
        env = dict(os.environ, SIMCUDA_LOG=log, LD_DEBUG="symbols", LD_DEBUG_OUTPUT=os.path.join(self.folder, "ld"),
                   LD_LIBRARY_PATH=os.pathsep.join([SIM, os.path.dirname(find("libcudart") or SIM)]),
                   GPUPOOL_OUTPUT=os.path.join(self.folder, "snapshot.json"))
        if preload:
            env["LD_PRELOAD"] = LIBRARY
        result = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
        queries, names = [], set()
        if os.path.exists(log):
            with open(log) as file:
                queries = re.findall(r'^cuGetProcAddress(?:_v2)? "(\w*)" (\d+) (\d+)', file.read(), re.M)
            os.remove(log)
        for path in glob.glob(os.path.join(self.folder, "ld.*")):
            with open(path, errors="replace") as file:
                names |= set(re.findall(r"symbol=(cu[A-Z]\w+);\s+lookup in file=\S*libcuda\.so\.1", file.read()))
            os.remove(path)
        return (result.returncode, result.stdout, result.stderr), queries, names

    def check(self, command):
        plain, queries, names = self.start(command, preload=False)
        if plain[0] == 77:
            self.skipTest(plain[1].decode())
        pooled, asked, looked_up = self.start(command, preload=True)
        self.assertEqual((pooled, asked), (plain, queries))
        self.assertLessEqual(names, looked_up)
        self.assertGreater(len(queries) + len(names), 50)

        path = os.path.join(self.folder, "queries")
        with open(path, "w") as file:
            file.writelines("GPA %s %s %s\n" % query for query in queries)
        for a, b in zip(self.run_program("lookups", path, preload=None).out.splitlines(),
                        self.run_program("lookups", path).out.splitlines()):
            base = a.split()[0].rstrip(":")
            if base in hooks(1) | {"cuGetProcAddress_v2"}:
                self.assertIn(b, (a, a.replace("libcuda.so.1", "libgpupool.so")))
                self.assertTrue(b.endswith(("libgpupool.so", "NULL")) or (base, a.split()[1]) == ("cuMemAlloc", "2000"), b)
            elif base in classes():
                self.assertEqual(a, b)
            else:  # OpenGL, EGL, VDPAU: the driver's or a trampoline
                self.assertIn(b, (a, a.replace("libcuda.so.1", "libgpupool.so")))

        names = sorted(names)
        owners = self.run_program(os.path.join(ROUTES, "resolve"), "owners", *names).out.splitlines()
        self.assertEqual(owners, [name + ": " + ("libgpupool.so" if name in hooks(0) else "libcuda.so.1")
                                  for name in names])

    def test_libraries(self):
        for name in LIBRARIES:
            with self.subTest(library=name):
                path = find(name)
                if not path:
                    self.skipTest("%s is not in %s" % (name, ROOT))
                self.check([os.path.join(ROUTES, "toolkit_user"), path])

    def test_programs_with_the_static_runtime(self):
        for name in STATIC:
            with self.subTest(program=name):
                program = os.path.join(ROUTES, name)
                if not os.path.exists(program):
                    self.skipTest("nvcc is not installed")
                self.check([program])


if __name__ == "__main__":
    unittest.main()
