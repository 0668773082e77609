#!/usr/bin/env python3
"""Builds the library, the simulated GPU and the programs for aarch64 and runs the tests of routes and look-ups there.

    check_aarch64.py SOURCE BUILD

Skipped (status 77) where the cross compiler, its C library or qemu-aarch64 is not installed; on Debian and Ubuntu they are
gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and qemu-user.
"""

import os
import shutil
import subprocess
import sys

LIBC = "/usr/aarch64-linux-gnu"
TESTS = ("test_routes.py", "test_resolve.py", "test_newer.py", "test_libc.py")
SKIP = 77


def missing():
    for program in ("aarch64-linux-gnu-gcc", "qemu-aarch64"):
        if not shutil.which(program):
            return program
    return None if os.path.exists(LIBC + "/lib/ld-linux-aarch64.so.1") else LIBC + "/lib"


def main():
    source, build = sys.argv[1:]
    if missing():
        print("%s is not installed" % missing())
        return SKIP
    if not os.path.exists(os.path.join(build, "build.ninja")):
        subprocess.check_call(["meson", "setup", build, source, "-Ddebug_level=3", "-Dtools=disabled",
                               "--cross-file", os.path.join(source, "test", "aarch64", "cross.ini")])
    subprocess.check_call(["ninja", "-C", build])
    test = os.path.join(build, "test")
    env = dict(os.environ, GP_EMULATOR="qemu-aarch64 -L " + LIBC,
               GP_LIBRARY=os.path.join(build, "interpose", "libgpupool.so"),
               GP_UNSAFE_LIBRARY="", GP_LIBC_FLOOR="1", GP_SIM=os.path.join(test, "sim"), GP_PROG=os.path.join(test, "prog"),
               GP_OLD_DRIVER=os.path.join(test, "interpose", "old_driver", "libcuda.so.1"),
               GP_OLD_DRIVER_PROG=os.path.join(test, "interpose", "old_driver", "old_driver"), GP_SOURCE=source,
               GP_NEWER_PLUGINS=":".join(os.path.join(test, "prog", name) for name in (
                   "newer_launch.so", "newer_free.so", "newer_call.so", "newer_constructor.so")))
    status = 0
    for name in TESTS:
        print("== " + name, flush=True)
        status |= subprocess.call([sys.executable, os.path.join(source, "test", "interpose", name)], env=env)
    return 1 if status else 0


if __name__ == "__main__":
    sys.exit(main())
