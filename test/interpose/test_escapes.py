"""Programs that a preload library cannot reach, or not wholly: that is said, once, and nothing is pooled by halves."""

import os
import shutil
import stat
import subprocess
import unittest

from harness import PROG, PreloadCase, SANITIZED, SIM

TOOL = os.environ.get("GP_TOOL")
ROUTES = os.path.join(PROG, "routes")
PLUGINS = os.path.join(ROUTES, "route_plugins")


def plugin(name):
    return os.path.join(ROUTES, "plugin_%s_legacy.so" % name)


@unittest.skipIf(SANITIZED, "sanitizers refuse RTLD_DEEPBIND, and want to be in a namespace once")
class Past(PreloadCase):
    """A part of the process goes past us while another is served."""

    def expect_said(self, words, text):
        plain = self.run_program(PLUGINS, *words, preload=None)
        run = self.run_program(PLUGINS, *words)
        self.assertEqual((run.status, run.out), (plain.status, plain.out))
        self.assertEqual(len(run.messages), 1, run.err)
        self.assertIn(text, run.messages[0])
        return run

    def test_second_copy_of_the_driver(self):
        run = self.expect_said(("apart", plugin("linked"), "plain", plugin("runtime_13")), "copies of the CUDA driver")
        self.assertEqual(run.snapshot_paths(), [])  # it was there before the first allocation

    def test_second_copy_by_another_path(self):
        """A driver file of its own: our functions would call the first one."""
        other = os.path.join(self.folder, "other")
        os.mkdir(other)
        shutil.copy(os.path.join(SIM, "libcuda.so.1"), other)
        run = self.run_program(os.path.join(ROUTES, "resolve"), "two", os.path.join(other, "libcuda.so.1"))
        self.assertEqual(run.out, "libgpupool.so\nlibcuda.so.1\n")
        self.assertEqual(len(run.messages), 1, run.err)
        self.assertIn("more than one copy", run.messages[0])

    def test_copy_that_comes_later(self):
        run = self.expect_said(("plain", plugin("linked"), "apart", plugin("linked")), "copies of the CUDA driver")
        self.assertEqual(len(run.snapshot_paths()), 1)

    def test_deep_binding_to_the_driver(self):
        run = self.expect_said(("deep", plugin("linked"), "plain", plugin("runtime_13")), "plugin_linked")
        self.assertEqual(run.snapshot_paths(), [])

    def test_deep_binding_of_a_runtime(self):
        """The runtime that it brings along finds the driver with the C library's dlsym."""
        run = self.expect_said(("deep", plugin("runtime_12"), "plain", plugin("runtime_13")), "libcudart.so.12")
        self.assertEqual(run.snapshot_paths(), [])

    def test_deep_binding_that_has_nothing_to_do_with_cuda(self):
        other = os.path.join(ROUTES, "deep_stranger.so")
        run = self.run_program(PLUGINS, "deep", other, "plain", plugin("runtime_13"))
        self.assertEqual((run.status, run.messages), (0, []))
        self.assertEqual(len(run.snapshot_paths()), 1)


@unittest.skipIf(SANITIZED or not TOOL, "the tool is not built, or all is built with a sanitizer")
class Unreachable(PreloadCase):
    """The library is not in the process: `gpupool run` says why."""

    def said(self, *command):
        env = dict(os.environ, LD_LIBRARY_PATH=SIM)
        result = subprocess.run([TOOL, "run", "--output", os.path.join(self.folder, "s.%p.json"), "--"] + list(command),
                                env=env, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                universal_newlines=True, timeout=60)
        lines = [line for line in result.stderr.splitlines() if "no CUDA allocation was seen" in line]
        self.assertEqual(len(lines), 1, result.stderr)
        return lines[0]

    def test_everything_bound_deep(self):
        self.assertIn("RTLD_DEEPBIND", self.said(PLUGINS, "deep", plugin("linked")))

    def test_everything_in_another_namespace(self):
        program = os.path.join(ROUTES, "route_apart")
        self.assertIn("dlmopen", self.said(program, plugin("linked")))

    def test_static_program(self):
        self.assertIn("statically linked", self.said(os.path.join(ROUTES, "static_program")))

    def test_setuid_program(self):
        program = shutil.copy(os.path.join(ROUTES, "resolve"), os.path.join(self.folder, "setuid"))
        os.chmod(program, 0o755 | stat.S_ISUID)
        self.assertIn("setuid", self.said(program, "none"))


if __name__ == "__main__":
    unittest.main()
