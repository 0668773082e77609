#!/usr/bin/env python3
"""What scripts/test.sh and its like ask of a machine before they build: CUDA's headers first, then packages.

    test_steps.py SOURCE [TEST ...]
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = None
# A machine with nothing but a shell, whose package manager says that it was called.
PROGRAMS = ("sh", "dirname", "basename", "readlink", "sed", "uname", "date", "mkdir", "printf", "tr", "tail", "env")
FAKES = {
    "id": "echo $FAKE_UID",
    "dpkg-query": "case $* in *$FAKE_MISSING*) echo not-installed ;; *) echo installed ;; esac",
    "apt-get": 'echo "apt-get $*" >>"$FAKE_LOG"',
}


class Steps(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        os.mkdir(self.path("bin"))
        for name in PROGRAMS:
            os.symlink(shutil.which(name), self.path("bin", name))
        for name, text in FAKES.items():
            self.add_program(name, text)
        shutil.copytree(os.path.join(SOURCE, "scripts"), self.path("scripts"))

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def add_program(self, name, text="true"):
        with open(self.path("bin", name), "w") as file:
            file.write("#!%s\n%s\n" % (shutil.which("sh"), text))
        os.chmod(self.path("bin", name), 0o755)

    def add_headers(self, version, without=""):
        include = self.path("cuda-%d" % version, "include")
        os.makedirs(os.path.join(include, "crt"))
        for name in {"cuda.h", "cuda_runtime_api.h", "crt/host_defines.h"} - {without}:
            with open(os.path.join(include, name), "w") as file:
                file.write("#define CUDA_VERSION %d\n" % version)
        return include

    def run_here(self, command, uid=1000, missing="nothing", **env):
        done = subprocess.run([self.path("bin", "sh"), "-c", command], cwd=self.folder, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, universal_newlines=True, timeout=60, check=False,
                              env=dict(PATH=self.path("bin"), FAKE_UID=str(uid), FAKE_MISSING=missing,
                                       FAKE_LOG=self.path("log"), **env))
        return done.returncode, done.stdout

    def test_each_script_looks_for_headers_before_packages(self):
        for name in ("scripts/test.sh", "scripts/demo.sh", "scripts/bench.sh", "scripts/soak.sh", ".ci/run"):
            with open(os.path.join(SOURCE, name)) as file:
                calls = [line.strip() for line in file]
            self.assertLess(calls.index("find_cuda_headers"), calls.index("install_build_packages"), name)

    def test_headers_that_are_new_enough(self):
        old, new = self.add_headers(11040), self.add_headers(12050)
        env = {"CUDA_PATH": os.path.dirname(old), "CUDA_HOME": os.path.dirname(new)}
        self.assertEqual(self.run_here("scripts/find-cuda.sh", **env), (0, old + "\n"))
        self.assertEqual(self.run_here("scripts/find-cuda.sh 12050", **env), (0, new + "\n"))
        status, said = self.run_here("scripts/find-cuda.sh 99000", **env)
        self.assertEqual(status, 1)
        self.assertIn("CUDA headers 99.0 or newer were not found (those in %s are of 11.4): " % old, said)
        self.assertEqual(len(said.splitlines()), 1)

    def test_headers_without_those_of_the_compiler(self):
        bad, good = self.add_headers(12060, without="crt/host_defines.h"), self.add_headers(12050)
        env = {"CUDA_PATH": os.path.dirname(bad), "CUDA_HOME": os.path.dirname(good)}
        self.assertEqual(self.run_here("scripts/find-cuda.sh", **env), (0, good + "\n"))

    def install(self, **how):
        return self.run_here(". scripts/steps.sh; install_build_packages && echo features $FEATURES", **how)

    def test_what_is_there_is_left_alone(self):
        for uid in (0, 1000):
            self.assertEqual(self.install(uid=uid), (0, "features enabled\n"))
        self.assertFalse(os.path.exists(self.path("log")))

    def test_root_installs_what_is_missing(self):
        status, said = self.install(uid=0, missing="libcjson-dev")
        self.assertEqual((status, said.splitlines()[-1]), (0, "features enabled"), said)
        with open(self.path("log")) as file:
            self.assertIn("--no-install-recommends libcjson-dev\n", file.read())

    def test_without_root_it_goes_on_with_what_is_there(self):
        for program in ("cc", "meson", "ninja"):
            status, said = self.install(missing="libcjson-dev")
            self.assertEqual(status, 1)
            self.assertIn("nothing can be built without %s" % program, said)
            self.add_program(program)
        status, said = self.install(missing="libcjson-dev")
        self.assertEqual((status, said.splitlines()[-1]), (0, "features auto"), said)
        self.assertIn("ask an administrator to run: apt-get install libcjson-dev)\n", said)


if __name__ == "__main__":
    SOURCE = sys.argv[1]
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
