#!/usr/bin/env python3
"""Puts the oldest and the newest CUDA headers that Debian's packages have into a folder, and prints where they are.

    fetch-cuda-headers.py FOLDER

A line for each: the version, as CUDA_VERSION of cuda.h has it, a tab, a folder for CUDA_PATH. What cannot be had is said on stderr, and is no error; a version
that lies there already is not fetched again.

The mirror is the one that apt has for Debian; its other releases are asked for with lists and settings inside FOLDER, so the
system's own stay as they are. The package with the headers has nearly 1 GB of libraries behind them: the download ends where
these begin. So its checksum cannot be verified; nothing of it is run.
"""

import collections
import concurrent.futures
import functools
import http.client
import lzma
import os
import shutil
import subprocess
import sys
import tarfile
import urllib.error
import urllib.request

PACKAGE = "nvidia-cuda-dev"
SUITES = ("bookworm", "trixie", "sid", "experimental")
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
SECONDS = 60  # in which the mirror has to answer; one that fetches the whole file first takes its time

Offer = collections.namedtuple("Offer", "version suite")


class Missing(Exception):
    """A sentence."""


def run(*command):
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, check=False)
    if result.returncode != 0:
        raise Missing("%s fails: %s" % (" ".join(command[:1] + command[-2:]), result.stderr.strip().replace("\n", " ")[-300:]))
    return result.stdout


def mirror():
    """Debian's, of the machine's own sources."""
    if not shutil.which("apt-get") or not os.path.exists(KEYRING):
        raise Missing("this is no Debian system")
    for line in run("apt-get", "indextargets", "--format", "$(ORIGIN) $(REPO_URI)", "Created-By: Packages").splitlines():
        origin, _, uri = line.partition(" ")
        if origin == "Debian" and uri.startswith("http") and "security" not in uri:
            return uri
    raise Missing("apt has no mirror of Debian")


class Apt:
    """Its commands, with lists of their own."""

    def __init__(self, folder):
        self.folder = os.path.abspath(folder)
        for name in ("lists/partial", "cache/archives/partial"):
            os.makedirs(os.path.join(self.folder, name), exist_ok=True)
        sources = os.path.join(self.folder, "sources.list")
        with open(sources, "w", encoding="utf-8") as file:
            uri = mirror()
            file.writelines("deb [signed-by=%s] %s %s non-free\n" % (KEYRING, uri, suite) for suite in SUITES)
        self.options = ["-o", "Dir::Etc::SourceList=" + sources, "-o", "Dir::Etc::SourceParts=/nonexistent",
                        "-o", "Dir::State::Lists=" + os.path.join(self.folder, "lists"),
                        "-o", "Dir::Cache=" + os.path.join(self.folder, "cache"), "-o", "APT::Sandbox::User=root",
                        "-o", "Acquire::Languages=none", "-o", "Acquire::http::Timeout=20", "-o", "Acquire::Retries=0"]

    def run(self, command, *arguments):
        return run(command, *self.options, *arguments)

    def offers(self):
        """From the oldest to the newest."""
        self.run("apt-get", "-q", "update")
        lines = [line.split("|") for line in self.run("apt-cache", "madison", PACKAGE).splitlines()]
        found = {version.strip(): where.split()[1].split("/")[0] for _, version, where in lines}

        def compare(one, other):
            return -1 if subprocess.run(["dpkg", "--compare-versions", one, "lt", other], check=False).returncode == 0 else 1
        return [Offer(version, found[version]) for version in sorted(found, key=functools.cmp_to_key(compare))]

    def uri(self, version):
        return self.run("apt-get", "download", "--print-uris", "%s=%s" % (PACKAGE, version)).split("'")[1]


class Packed:
    """The tar file inside a Debian package, while it is downloaded."""

    def __init__(self, stream):
        self.stream = stream
        self.unpacker = lzma.LZMADecompressor()
        self.rest = b""
        if stream.read(8) != b"!<arch>\n":
            raise Missing("what the mirror sends is no package")
        while True:
            header = stream.read(60)
            if header.startswith(b"data.tar.xz"):
                return
            if len(header) < 60:
                raise Missing("the package has no data.tar.xz")
            size = int(header[48:58])
            stream.read(size + size % 2)

    def read(self, count):
        while len(self.rest) < count:
            packed = self.stream.read(1 << 16)
            if not packed:
                break
            self.rest += self.unpacker.decompress(packed)
        result, self.rest = self.rest[:count], self.rest[count:]
        return result


def unpack_headers(uri, folder):
    """What lies under usr/include, which comes before usr/lib."""
    with urllib.request.urlopen(uri, timeout=SECONDS) as stream, tarfile.open(fileobj=Packed(stream), mode="r|") as tar:
        for member in tar:
            name = os.path.normpath(member.name)
            if name.startswith("usr/lib"):
                return
            if name.startswith("usr/include/") and (member.isfile() or member.isdir()) and ".." not in name.split("/"):
                path = os.path.join(folder, *name.split("/")[1:])
                os.makedirs(path if member.isdir() else os.path.dirname(path), exist_ok=True)
                if member.isfile():
                    with open(path, "wb") as file:
                        shutil.copyfileobj(tar.extractfile(member), file)


def fetch(apt, folder, offer):
    """Returns the line to print, or raises Missing."""
    package = "%s %s (%s)" % (PACKAGE, offer.version, offer.suite)
    path = os.path.join(os.path.abspath(folder), offer.version)
    if not os.path.exists(path):
        partial = path + ".partial"
        shutil.rmtree(partial, ignore_errors=True)
        try:
            unpack_headers(apt.uri(offer.version), partial)
        except (OSError, EOFError, lzma.LZMAError, tarfile.TarError, http.client.HTTPException, urllib.error.URLError) as error:
            raise Missing("the headers of %s cannot be had: %s" % (package, error)) from error
        if not os.path.exists(os.path.join(partial, "include/cuda.h")):
            raise Missing("%s has no cuda.h before its libraries" % package)
        os.rename(partial, path)
    with open(os.path.join(path, "include/cuda.h"), encoding="utf-8") as file:
        version = next(line.split()[2] for line in file if line.startswith("#define CUDA_VERSION "))
    return "%s\t%s" % (version, path)


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    folder = sys.argv[1]
    try:
        apt = Apt(os.path.join(folder, "apt"))
        offers = apt.offers()
        if not offers:
            raise Missing("the mirror has no %s, or does not answer" % PACKAGE)
    except Missing as error:
        print("other CUDA headers cannot be had: %s" % error, file=sys.stderr)
        return
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for work in [pool.submit(fetch, apt, folder, offer) for offer in sorted({offers[0], offers[-1]}, key=offers.index)]:
            try:
                print(work.result())
            except Missing as error:
                print(error, file=sys.stderr)


if __name__ == "__main__":
    main()
