#!/usr/bin/env python3
"""Makes a wheel: the library, the tool with cJSON, the header, the manual pages and the Python module, as pip installs them.

    scripts/make-wheel.py [--machine aarch64] [--output FOLDER]    builds in build-wheel/ first
    scripts/make-wheel.py --build FOLDER [--output FOLDER]         takes the build that is there

For aarch64 it cross-compiles, with Debian's gcc-aarch64-linux-gnu and libc6-dev-arm64-cross, and gets the packages of Debian that
the tool is compiled with by apt-get. The wheel is the same, byte by byte, each time; its files have the time SOURCE_DATE_EPOCH, if
that is set. It says manylinux_2_17: a build that needs a newer glibc is refused.
"""

import argparse
import base64
import glob
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FLOOR = (2, 17)
TAGS = ("py3-none-manylinux_2_17_{0}", "py3-none-manylinux2014_{0}")  # two names of one thing, the second for pip before 20.3
OPTIONS = ("--buildtype=release", "-Dtests=disabled", "-Dtools=enabled", "-Dsymbols=enabled", "-Dlibc_floor=enabled", "--libdir=lib")
ARM_PACKAGES = ("libcjson1", "libcjson-dev", "libdw-dev", "libelf-dev", "liblzma-dev", "libmicrohttpd-dev", "libzstd-dev",
                "zlib1g-dev")
CJSON_LICENSE = "/usr/share/doc/libcjson1/copyright"


def fail(why):
    sys.exit("make-wheel.py: " + why)


def run(*command, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, check=False, **more)
    if done.returncode:
        fail("%s failed with status %d:\n%s" % (" ".join(command), done.returncode, done.stdout))
    return done.stdout


def fetch_arm(folder):
    """Debian's packages for arm64, unpacked, not installed."""
    if os.path.isdir(os.path.join(folder, "root")):
        return os.path.join(folder, "root")
    for name in ("lists/partial", "archives/partial", "debs"):
        os.makedirs(os.path.join(folder, name), exist_ok=True)
    apt = ["apt-get", "-q", "-o", "APT::Architecture=arm64", "-o", "APT::Architectures=arm64", "-o", "Dir::State::status=/dev/null",
           "-o", "Dir::State::lists=%s/lists" % folder, "-o", "Dir::Cache=%s" % folder, "-o", "APT::Sandbox::User="]
    run(*apt, "update")
    run(*apt, "download", *ARM_PACKAGES, cwd=os.path.join(folder, "debs"))
    for deb in sorted(glob.glob(os.path.join(folder, "debs", "*.deb"))):
        run("dpkg-deb", "-x", deb, os.path.join(folder, "unpacked"))
    os.rename(os.path.join(folder, "unpacked"), os.path.join(folder, "root"))
    return os.path.join(folder, "root")


def build_for(machine):
    folder = os.path.join(ROOT, "build-wheel", machine)
    options = list(OPTIONS)
    if machine != platform.machine():
        root = fetch_arm(os.path.join(ROOT, "build-wheel", "debian-arm64"))
        cross = os.path.join(ROOT, "build-wheel", "cross.ini")
        with open(cross, "w") as file:
            file.write("[binaries]\npkgconfig = 'pkg-config'\npkg-config = 'pkg-config'\n[properties]\nsys_root = '%s'\npkg_config_libdir = '%s'\n" %
                       (root, root + "/usr/lib/aarch64-linux-gnu/pkgconfig"))
        options += ["--cross-file", os.path.join(ROOT, "test", "aarch64", "cross.ini"), "--cross-file", cross]
    if not os.path.exists(os.path.join(folder, "build.ninja")):
        run("meson", "setup", folder, ROOT, *options)
    run("ninja", "-C", folder)
    return folder


class Build:
    """What a build folder says of itself."""

    def __init__(self, folder):
        self.folder = folder
        self.version = self.info("projectinfo")["version"]
        with open(os.path.join(folder, "interpose", "libgpupool.so"), "rb") as file:
            machine = int.from_bytes(file.read(20)[18:], "little")
        self.machine = {62: "x86_64", 183: "aarch64"}[machine]
        self.libdir = next(option["value"] for option in self.info("buildoptions") if option["name"] == "libdir")

    def info(self, what):
        with open(os.path.join(self.folder, "meson-info", "intro-%s.json" % what)) as file:
            return json.load(file)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def program(self, path):
        """Without debug information, of a C library that is old enough."""
        needed = run("readelf", "-VW", path).partition("Version needs section")[2]
        newer = {version for version in re.findall(r"Name: GLIBC_([0-9.]+)\s", needed) if tuple(map(int, version.split("."))) > FLOOR}
        if newer:
            fail("%s needs glibc %s; build it with -Dlibc_floor=enabled" % (path, ", ".join(sorted(newer))))
        stripped = self.path("stripped-" + os.path.basename(path))
        strip = "strip" if self.machine == platform.machine() else self.machine + "-linux-gnu-strip"
        run(strip, "--strip-unneeded", "-o", stripped, path)
        with open(stripped, "rb") as file:
            data = file.read()
        os.unlink(stripped)
        return data

    def cjson(self):
        for dependency in self.info("dependencies"):
            for argument in dependency["link_args"] if dependency["name"] == "libcjson" else ():
                if argument.endswith("/libcjson.so"):
                    return os.path.realpath(argument)
        fail("%s was made without the tool" % self.folder)

    def page(self, name):
        """Where it was cross-compiled the tool did not run: then that of any other build, they are the same."""
        for path in [self.path("man", name)] + sorted(glob.glob(os.path.join(ROOT, "build*", "man", name)) +
                                                      glob.glob(os.path.join(ROOT, "build-wheel", "*", "man", name))):
            if os.path.exists(path):
                return read(path)
        fail("there is no manual page %s; make the wheel of this machine first" % name)


def read(*names):
    with open(os.path.join(ROOT, *names), "rb") as file:
        return file.read()


def metadata(version):
    return ("Metadata-Version: 2.1\nName: gpupool\nVersion: %s\nSummary: pools, limits and records the GPU memory of unmodified CUDA "
            "programs, as an LD_PRELOAD library\nLicense: MIT\nRequires-Python: >=3.6\nDescription-Content-Type: text/markdown\n\n" %
            version).encode() + read("README.md")


def contents(build):
    """name -> (data, whether it is executable)"""
    data = "gpupool-%s.data" % build.version
    info = "gpupool-%s.dist-info" % build.version
    library = "%s/data/%s/" % (data, build.libdir)
    tags = "".join("Tag: %s\n" % tag.format(build.machine) for tag in TAGS)
    files = {
        "gpupool.py": read("interpose", "api", "gpupool.py"),
        data + "/scripts/gpupool": build.program(build.path("tools", "gpupool")),
        library + "libgpupool.so": build.program(build.path("interpose", "libgpupool.so")),
        data + "/data/lib/gpupool/libcjson.so.1": build.program(build.cjson()),  # where the tool's RUNPATH leads
        data + "/data/include/gpupool.h": read("interpose", "api", "gpupool.h"),
        data + "/data/share/man/man1/gpupool.1": build.page("gpupool.1"),
        data + "/data/share/man/man7/libgpupool.7": build.page("libgpupool.7"),
        data + "/data/share/bash-completion/completions/gpupool": read("completions", "gpupool.bash"),
        info + "/METADATA": metadata(build.version),
        info + "/LICENSE": read("LICENSE"),
        info + "/LICENSE.cJSON": read(CJSON_LICENSE),
        info + "/WHEEL": ("Wheel-Version: 1.0\nGenerator: gpupool\nRoot-Is-Purelib: false\n" + tags).encode(),
    }
    record = info + "/RECORD"
    lines = []
    for name in sorted(files):
        digest = base64.urlsafe_b64encode(hashlib.sha256(files[name]).digest()).rstrip(b"=").decode()
        lines.append("%s,sha256=%s,%d\n" % (name, digest, len(files[name])))
    files[record] = "".join(lines + [record + ",,\n"]).encode()
    return {name: (files[name], b"\x7fELF" == files[name][:4]) for name in files}


def write(build, folder):
    os.makedirs(folder, exist_ok=True)
    # Zip has no time before 1980
    when = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", 0)), 315532800))[:6]
    first = TAGS[0].format(build.machine)
    second = TAGS[1].format(build.machine).rpartition("-")[2]
    path = os.path.join(folder, "gpupool-%s-%s.%s.whl" % (build.version, first, second))
    with zipfile.ZipFile(path + ".part", "w", zipfile.ZIP_DEFLATED) as wheel:
        found = contents(build)
        for name in sorted(found, key=lambda name: (".dist-info/" in name, name.endswith("/RECORD"), name)):
            data, is_program = found[name]
            item = zipfile.ZipInfo(name, when)
            item.external_attr = (0o100755 if is_program else 0o100644) << 16
            item.create_system = 3
            wheel.writestr(item, data, zipfile.ZIP_DEFLATED, 9)
    os.replace(path + ".part", path)
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machine", choices=("x86_64", "aarch64"), default=platform.machine())
    parser.add_argument("--build", metavar="FOLDER")
    parser.add_argument("--output", metavar="FOLDER", default="dist")
    arguments = parser.parse_args()
    if not shutil.which("readelf"):
        fail("readelf is not installed (the package binutils)")
    print(write(Build(os.path.abspath(arguments.build) if arguments.build else build_for(arguments.machine)), arguments.output))


if __name__ == "__main__":
    main()
