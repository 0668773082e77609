"""Settings from files: what a program does that has lost its environment."""

import os
import unittest

from harness import MAY_MOUNT, PreloadCase

# An /etc of the test's own, with what the loader needs
WITH_ETC = ("mount -t tmpfs -o mode=755 tmpfs \"$0\" && cp /etc/ld.so.cache \"$0\" && cp -r \"$1\" \"$0/gpupool.conf\" && "
            "mount --move \"$0\" /etc && shift && exec \"$@\"")


class Settings(PreloadCase):
    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o644)
        return path

    def run_with(self, user, **settings):
        path = self.write("config/gpupool.conf", user)
        return self.run_program("memory_kinds", "plain:1048576:8", prefix=("env", "XDG_CONFIG_HOME=" + os.path.dirname(path)), **settings)

    def run_on_a_machine(self, system, path=None, **settings):
        mounted = os.path.join(self.folder, "etc")
        os.makedirs(mounted, exist_ok=True)
        prefix = ("unshare", "--mount", "sh", "-c", WITH_ETC, mounted, path or self.write("system.conf", system))
        return self.run_program("memory_kinds", "plain:1048576:8", prefix=prefix, **settings)

    def test_the_users_file(self):
        run = self.run_with("TYPE=naive\nSTATS=1\n", STATS="0")
        self.assertEqual(run.status, 0, run.err)
        settings = run.snapshot()["settings"]
        self.expect_valid(run.snapshot())
        self.assertEqual((settings["type"], settings["stats"]), ("naive", "0"))
        self.assertEqual((settings["sources"]["type"], settings["sources"]["stats"]), ("user_file", "environment"))

    def test_what_is_wrong_is_said_with_its_line(self):
        run = self.run_with("# mine\nTYPE=cubic\nLIMT=8GiB\n")
        self.assertIn("config/gpupool.conf, line 2: GPUPOOL_TYPE=cubic is malformed; accepted: round|", run.err)
        self.assertIn("line 3: GPUPOOL_LIMT is no option of this version; the nearest is GPUPOOL_LIMIT", run.err)
        self.assertEqual(run.err.count("line 2"), 1)
        self.assertEqual(run.snapshot()["settings"]["type"], "round")

    @unittest.skipUnless(MAY_MOUNT, "needs mounts")
    def test_the_machines_file(self):
        run = self.run_on_a_machine("TYPE=naive\nLIMIT=0=1GiB\n", LIMIT="2GiB")
        self.assertIn("/etc/gpupool.conf: its LIMIT is lower than GPUPOOL_LIMIT=2GiB, and holds", run.err)
        snapshot = run.snapshot()
        self.expect_valid(snapshot)
        self.assertEqual(snapshot["devices"][0]["limit"], 1 << 30)
        self.assertEqual((snapshot["settings"]["type"], snapshot["settings"]["sources"]),
                         ("naive", {**snapshot["settings"]["sources"], "type": "system_file", "limit": "system_file"}))

    @unittest.skipUnless(MAY_MOUNT, "needs mounts")
    def test_a_malformed_ceiling_refuses_everything(self):
        run = self.run_on_a_machine("LIMIT=8Q\n", LIMIT="2GiB")
        self.assertIn("/etc/gpupool.conf, line 1: GPUPOOL_LIMIT=8Q is malformed", run.err)
        self.assertIn("plain: 0 of 8", run.out)

    @unittest.skipUnless(MAY_MOUNT, "needs mounts")
    def test_a_machines_file_that_cannot_be_read_refuses_everything(self):
        for path in (None, os.path.join(self.folder, "empty")):
            os.makedirs(path or self.folder, exist_ok=True)
            run = self.run_on_a_machine("# limits\nlimit: 8GiB\n", path, LIMIT="2GiB", HOST_LIMIT="1GiB")
            said = ": it is no regular file. Until" if path else ", line 2: \"limit: 8GiB\" is malformed;"
            self.assertEqual(run.err.count("/etc/gpupool.conf"), 1, run.err)
            self.assertIn("/etc/gpupool.conf" + said, run.err)
            self.assertIn("Until it is corrected, every allocation fails", run.err)
            self.assertIn("plain: 0 of 8", run.out)

    @unittest.skipUnless(MAY_MOUNT, "needs mounts")
    def test_a_limit_as_a_shell_has_it(self):
        run = self.run_on_a_machine("\ufeffexport GPUPOOL_LIMIT='1GiB' # of each program\n")
        self.assertEqual(run.err, "")
        self.assertEqual(run.snapshot()["devices"][0]["limit"], 1 << 30)

    def test_a_name_in_small_letters_gets_a_hint(self):
        run = self.run_program("memory_kinds", "plain:1048576:8", prefix=("env", "gpupool_limit=8GiB", "GPU_POOL_LIMIT=8GiB"))
        for name in ("gpupool_limit", "GPU_POOL_LIMIT"):
            self.assertIn(name + " is no option of this version; the nearest is GPUPOOL_LIMIT", run.err)


if __name__ == "__main__":
    unittest.main()
