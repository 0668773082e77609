"""Threads that are cancelled in the library, or in the driver under it: the process goes on as without the library."""

import os
import re
import shutil
import subprocess
import unittest

from harness import EMULATOR, LIBRARY, PreloadCase, SANITIZED, stats_of

CHECKER = os.environ["GP_CANCEL_POINTS"]
FIRST = ("start", "start_and_return", "look_up", "make_child")
STEPS = FIRST + ("memory", "memory_and_return", "pressure", "too_much", "unpooled", "mapped", "streams", "contexts")

# All that pthreads(7) calls a cancellation point, or one that may be, and that glibc makes one or could.
POINTS = set("""
accept accept4 aio_suspend clock_nanosleep close closedir connect creat creat64 dlclose dlmopen dlopen dprintf fclose
fcntl fdatasync fflush fgetc fgets fgetws fopen fopen64 fprintf fputc fputs fread freopen freopen64 fscanf fseek fsync
ftell ftw fwrite getaddrinfo getc getchar getdelim getdents64 getgrgid getgrnam getline getpwnam getpwuid getrandom glob
lockf lockf64 __getdelim mq_receive mq_send mq_timedreceive mq_timedsend msgrcv msgsnd msync nanosleep nftw open open64
openat openat64 opendir pause pclose perror poll popen posix_fallocate posix_fallocate64 ppoll pread pread64 preadv
printf pselect pthread_cond_clockwait pthread_cond_timedwait pthread_cond_wait pthread_join pthread_testcancel
pthread_timedjoin_np putc putchar puts pwrite pwrite64 pwritev read readdir readdir64 readv recv recvfrom recvmmsg
recvmsg scandir select sem_clockwait sem_timedwait sem_wait send sendfile sendmmsg sendmsg sendto sigpause sigsuspend
sigtimedwait sigwait sigwaitinfo sleep splice syncfs syslog system tcdrain tee tmpfile tmpfile64 usleep vdprintf
vfprintf vmsplice vprintf vsyslog wait wait3 wait4 waitid waitpid wordexp write writev
""".split())

SETTINGS = (
    {},
    {"TYPE": "unpooled", "LIMIT": "256MiB"},
    {"REUSE": "strict", "STACKS": "native", "VERBOSE": "2"},
    {"SNAPSHOT_AT": "exit,oom,peak,signal:USR2", "CONTROL": "1", "STATS": "1"},
)


class Cancel(PreloadCase):
    def check(self, run, plain, step, pooled):
        self.assertEqual((run.status, sorted(set(run.out.splitlines()))),
                         (plain.status, sorted(set(plain.out.splitlines()))), run.err[-2000:])
        self.assertIn("the process works", run.out)
        snapshot = run.snapshot()
        if step != "contexts":  # a context that was destroyed, and its thread with it, is known to be gone when it is asked for
            self.expect_valid(snapshot)
        rounds = int(re.search(r"^rounds=(\d+)$", run.err, re.M).group(1))
        if pooled:  # two in each round, if nothing keeps the pool suspended; memory that went back is missed later
            self.assertGreaterEqual(stats_of(snapshot)["cache_hits"],
                                    2 * rounds - 4 if step in ("streams", "contexts") else rounds)

    def run_steps(self, way, steps, **settings):
        for step in steps:
            with self.subTest(step=step, **settings):
                simulator = {k: v for k, v in settings.items() if k.startswith("SIMCUDA_")}
                plain = self.run_program("cancel", way, step, preload=None, timeout=60, **simulator)
                run = self.run_program("cancel", way, step, timeout=60, **settings)
                self.check(run, plain, step, settings.get("TYPE") != "unpooled")

    def test_a_pending_cancellation_does_not_act_in_the_library(self):
        for settings in SETTINGS:
            self.run_steps("pending", STEPS, **settings)

    def test_a_pending_cancellation_when_the_device_is_full(self):
        self.run_steps("pending", ("pressure",), SIMCUDA_CAPACITY="48MiB")

    def test_a_cancellation_in_the_driver_leaves_nothing_half_made(self):
        for settings in SETTINGS:
            self.run_steps("driver", STEPS, **settings)

    def test_what_was_asked_for_in_vain_does_not_count_against_the_limit(self):
        self.run_steps("driver", ("memory", "pressure"), LIMIT="64MiB")
        self.run_steps("driver", ("unpooled",), LIMIT="33MiB")

    def test_exit_with_a_cancellation_pending_writes_the_snapshot(self):
        run = self.run_program("cancel", "pending", "end_process", timeout=60)
        self.assertEqual(run.status, 0)
        self.expect_valid(run.snapshot())

    def points(self, step, **settings):
        path = os.path.join(self.folder, "points%d" % self.runs)
        os.environ["CANCEL_POINTS_FILE"] = path
        self.addCleanup(os.environ.pop, "CANCEL_POINTS_FILE", None)
        self.run_program("cancel", "driver", step, preload=CHECKER + ":" + LIBRARY, timeout=60, **settings)
        with open(path) as file:  # children of the program write into it, too
            return [line.split() for line in file]

    @unittest.skipIf(SANITIZED, "sanitizers stand in for the same functions")
    def test_no_cancellation_point_is_reached_unheld(self):
        seen = set()
        for settings in SETTINGS + ({"LOG": os.path.join(self.folder, "log"), "TRACE_EVENTS": "1000000"},):
            for step in STEPS:
                with self.subTest(step=step, **settings):
                    points = self.points(step, **settings)
                    self.assertEqual([name for state, name in points if state != "held"], [])
                    seen.update(name for state, name in points)
        self.assertLessEqual({"open64", "openat64", "close", "read", "write", "sigtimedwait", "fopen64", "dlopen",
                              "sem_timedwait", "sem_wait"}, seen)

    @unittest.skipIf(SANITIZED or EMULATOR or not shutil.which("nm"), "the library has other imports, or there is no nm")
    def test_the_checker_knows_all_points_that_the_library_imports(self):
        def names(path, option):
            text = subprocess.run(["nm", "-D", option, path], stdout=subprocess.PIPE, universal_newlines=True, check=True)
            return {line.split()[-1].split("@")[0] for line in text.stdout.splitlines()}
        self.assertEqual(sorted((names(LIBRARY, "--undefined-only") & POINTS) - names(CHECKER, "--defined-only")), [])


if __name__ == "__main__":
    unittest.main()
