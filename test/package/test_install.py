#!/usr/bin/env python3
"""What the install command of README.md builds and installs, and what it says at its end.

    test_install.py SOURCE LIBRARY BUILD [TEST ...]
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = LIBRARY = BUILD = None
SEARCHED = "import site; print(*site.getsitepackages(), sep='\\n')"


def run(*command, **more):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, timeout=100,
                          check=False, **more)


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, *names):
        return os.path.join(self.folder, *names)


class Setup(Folder):
    def setup_as_documented(self, *options):
        with open(os.path.join(SOURCE, "README.md")) as file:
            words = re.search(r"^    meson setup (\S+) (.*) && meson install", file.read(), re.M).group(2).split()
        build = self.path("build")
        done = run("meson", "setup", build, SOURCE, *words, *options)
        self.assertEqual(done.returncode, 0, done.stdout)
        return build

    def introspect(self, build, what):
        return json.loads(run("meson", "introspect", "--" + what, build).stdout)

    def test_builds_the_product_only_for_usr_local_lib(self):
        build = self.setup_as_documented()
        targets = self.introspect(build, "targets")
        names = {target["name"] for target in targets if target["build_by_default"]}
        self.assertLessEqual({"gpupool", "base", "format", "pool", "trace", "tools"}, names)
        self.assertLess(len(targets), 14, sorted(names))
        # Without dpkg-dev Meson would take lib64, where the loader of Debian and Ubuntu does not look.
        libraries = {path for path in self.introspect(build, "installed").values() if path.endswith(".so")}
        self.assertEqual(libraries, {"/usr/local/lib/libgpupool.so"})

    def test_the_module_goes_where_python_looks(self):
        """The Python that runs Meson: `python3` on PATH may be another, which after-install.sh asks."""
        with open(os.path.join(self.setup_as_documented(), "meson-logs/meson-log.txt")) as file:
            python = re.search(r"^Program python3 found: YES \((.*)\)", file.read(), re.M).group(1)
        searched = run(python, "-c", SEARCHED).stdout.split()
        prefix = next(path[:path.index("/lib")] for path in searched if "/lib" in path)
        installed = self.introspect(self.setup_as_documented("--reconfigure", "--prefix=" + prefix), "installed")
        module = next(path for path in installed.values() if path.endswith("/gpupool.py"))
        self.assertIn(os.path.dirname(module), searched)


class ForTests(unittest.TestCase):
    def test_ninja_builds_what_tests_need(self):
        """Since 1.7 Meson builds what only tests need by another target, and tests are run by `meson test --no-rebuild`."""
        def read(what):
            with open(os.path.join(BUILD, "meson-info", "intro-%s.json" % what)) as file:
                return json.load(file)
        needed = {target for test in read("tests") for target in test["depends"]}
        left_out = [target["name"] for target in read("targets") if target["id"] in needed and not target["build_by_default"]]
        self.assertTrue(needed)
        self.assertEqual(left_out, [])


class AfterInstall(Folder):
    """The loader takes LD_LIBRARY_PATH for its cache here."""

    def after_install(self, library, module, python=sys.executable, **env):
        script = os.path.join(SOURCE, "scripts", "after-install.sh")
        path = self.path("bin")
        os.mkdir(path)
        os.symlink("/bin/true", os.path.join(path, "ldconfig"))  # the machine's cache stays as it is
        os.symlink(python, os.path.join(path, "python3"))
        done = run(script, library, module, env=dict(os.environ, PATH=path + ":" + os.environ["PATH"], **env))
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout.splitlines()

    def test_a_library_and_a_module_that_are_found(self):
        folder = self.path("lib")
        os.mkdir(folder)
        shutil.copy(LIBRARY, folder)
        said = self.after_install(os.path.join(folder, "libgpupool.so"), os.path.join(folder, "gpupool.py"),
                                  LD_LIBRARY_PATH=folder, PYTHONPATH=folder)
        self.assertEqual(said, ["A program under the pool: LD_PRELOAD=libgpupool.so ./app"])

    def test_a_library_and_a_module_that_are_not(self):
        library = self.path("libgpupool.so")
        shutil.copy(LIBRARY, library)
        self.assertEqual(self.after_install(library, self.path("gpupool.py")),
                         ["A program under the pool: LD_PRELOAD=%s ./app" % library,
                          "`import gpupool` needs PYTHONPATH=" + self.folder])

    def test_the_python_of_users_is_asked(self):
        said = self.after_install("/nonexistent/libgpupool.so", self.path("gpupool.py"), "/bin/false", PYTHONPATH=self.folder)
        self.assertEqual(said[1:], ["`import gpupool` needs PYTHONPATH=" + self.folder])

    def test_another_library_of_that_name(self):
        """The loader's is not the one that was installed."""
        folder = self.path("lib")
        os.mkdir(folder)
        shutil.copy(LIBRARY, folder)
        library = self.path("libgpupool.so")
        shutil.copy(LIBRARY, library)
        said = self.after_install(library, os.path.join(folder, "gpupool.py"), LD_LIBRARY_PATH=folder, PYTHONPATH=folder)
        self.assertEqual(said, ["A program under the pool: LD_PRELOAD=%s ./app" % library])

    def test_a_package_is_for_another_place(self):
        self.assertEqual(self.after_install("/nonexistent/libgpupool.so", "/nonexistent/gpupool.py", DESTDIR=self.folder), [])


if __name__ == "__main__":
    SOURCE, LIBRARY, BUILD = sys.argv[1:4]
    unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=2)
