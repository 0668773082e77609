"""Where programs run: a Debian in a folder, or this machine (--here)."""

import os
import shutil
import signal
import subprocess
import sys

from program import Missing

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RELEASE = os.environ.get("RELEASE", "trixie")
LIBRARIES = ("interpose/libgpupool.so", "test/sim/libcuda.so.1", "test/sim/libcudart.so.11.0", "test/sim/libcudart.so.12",
             "test/sim/libcudart.so.13")
SHELL = 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && mount --rbind /sys "$0/sys" && %s exec chroot "$0" "$@"'


def put(path, target):
    """A copy of the file, in the place of an older one, which a program may still run."""
    shutil.copy(path, target + ".new")
    os.replace(target + ".new", target)


class Place:
    """This machine. Nothing is installed."""

    def __init__(self, folder, build, checkouts):
        self.folder = os.path.abspath(folder)
        self.checkouts = {name: os.path.abspath(path) for name, path in checkouts.items()}
        self.build = os.path.abspath(build)

    def copy_files(self):
        """The libraries of BUILD into lib/, what runs inside into inside/."""
        os.makedirs(self.outside(self.home + "/lib"), exist_ok=True)
        for library in LIBRARIES:
            path = os.path.join(self.build, library)
            if not os.path.exists(path):
                sys.exit("real-programs.sh: %s is not there; build it: meson setup %s && ninja -C %s" % (path, self.build, self.build))
            put(path, self.outside("%s/lib/%s" % (self.home, os.path.basename(library))))
        shutil.rmtree(self.outside(self.home + "/inside"), ignore_errors=True)
        shutil.copytree(os.path.join(ROOT, "test/real/inside"), self.outside(self.home + "/inside"))
        shutil.copy(os.path.join(ROOT, "interpose/api/gpupool.py"), self.outside(self.home + "/inside"))

    def driver(self, version):
        """The folder of a simulated driver that exports what one of that version does: put it on LD_LIBRARY_PATH."""
        folder = "%s/lib/%s" % (self.home, version)
        os.makedirs(self.outside(folder), exist_ok=True)
        put("%s/test/sim/libcuda-%s.so" % (self.build, version), self.outside(folder + "/libcuda.so.1"))
        if not os.path.islink(self.outside(folder + "/libcuda.so")):
            os.symlink("libcuda.so.1", self.outside(folder + "/libcuda.so"))
        return folder

    @property
    def home(self):  # as programs see it
        return self.folder

    @property
    def library(self):
        return self.home + "/lib/libgpupool.so"

    def outside(self, path):
        """The path on this machine of one that programs see."""
        return path

    def checkout(self, name):
        """The path of a checkout, as programs see it. They may not write there."""
        if name not in self.checkouts:
            raise Missing("needs --checkout %s=PATH" % name)
        return self.checkouts[name]

    def work(self, name):
        """A folder in which a program may build, which stays."""
        path = "%s/work/%s" % (self.home, name)
        os.makedirs(self.outside(path), exist_ok=True)
        return path

    def environment(self, more):
        base = {"HOME": self.home, "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1"}
        path = self.home + "/lib"
        if "LD_LIBRARY_PATH" in more:
            path = more["LD_LIBRARY_PATH"] + ":" + path
        return dict(base, **dict(more, LD_LIBRARY_PATH=path))

    def start(self, command, environment, folder, **how):
        return subprocess.Popen(command, env=environment, cwd=folder, **how)

    def run(self, command, environment=None, folder=None, out=subprocess.PIPE, err=subprocess.STDOUT, seconds=300):
        """Status (negative: signal; None: killed after so many seconds) and, if out is PIPE, the output."""
        process = self.start(command, self.environment(environment or {}), folder or self.home, stdin=subprocess.DEVNULL,
                             stdout=out, stderr=err, start_new_session=True)
        try:
            output = process.communicate(timeout=seconds)[0]
            return process.returncode, (output or b"").decode(errors="replace")
        except subprocess.TimeoutExpired:
            return None, ""
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)  # what it has left running
            except ProcessLookupError:
                pass
            process.wait()

    def must(self, command, what, **how):
        """Runs a step of a preparation; its output is in the log of the place."""
        status, output = self.run(command, seconds=3600, **how)
        with open(os.path.join(self.folder, "prepare.log"), "a") as log:
            log.write("== %s: %s\n%s\n" % (what, " ".join(command), output))
        if status != 0:
            raise Missing("%s failed (status %s): %s" % (what, status, (output.strip().splitlines() or [""])[-1][:120]))
        return output

    def has(self, package):
        status, output = self.run(["dpkg-query", "-W", "-f", "${db:Status-Status}", package])
        return status == 0 and output == "installed"

    def install(self, packages):
        missing = [package for package in packages if not self.has(package)]
        if missing:
            raise Missing("needs the package%s %s" % ("s" if len(missing) > 1 else "", " ".join(missing)))

    def unpack(self, packages):
        if packages:
            raise Missing("runs in a Debian of its own only: --folder FOLDER")


class Chroot(Place):
    """A Debian of its own in FOLDER/root, which is made once. It takes root."""

    def __init__(self, folder, build, checkouts):
        super().__init__(folder, build, checkouts)
        self.root = os.path.join(self.folder, "root")
        self.updated = False

    def make(self):
        os.makedirs(self.folder, exist_ok=True)
        if os.geteuid() != 0:
            sys.exit("real-programs.sh: a Debian in a folder takes root; --here runs what this machine has, without it")
        if os.path.exists(os.path.join(self.root, "etc/debian_version")):
            return
        if not shutil.which("debootstrap"):
            sys.exit("real-programs.sh: debootstrap is not there; install the package debootstrap, or use --here")
        print("== making a Debian in %s" % self.root, flush=True)
        mirror = [os.environ["MIRROR"]] if "MIRROR" in os.environ else []
        with open(os.path.join(self.folder, "install.log"), "w") as log:
            made = subprocess.run(["debootstrap", "--variant=minbase", "--components=main,contrib,non-free,non-free-firmware",
                                   RELEASE, self.root] + mirror, stdout=log, stderr=subprocess.STDOUT)
        if made.returncode != 0:
            shutil.rmtree(self.root, ignore_errors=True)
            sys.exit("real-programs.sh: debootstrap failed; see %s" % log.name)

    @property
    def home(self):
        return "/gpupool"

    def outside(self, path):
        return self.root + path

    def checkout(self, name):
        super().checkout(name)
        os.makedirs(self.outside("/checkout/" + name), exist_ok=True)
        return "/checkout/" + name

    def start(self, command, environment, folder, **how):
        """The mounts end with the command."""
        binds = ""
        for name, path in self.checkouts.items():
            os.makedirs(self.outside("/checkout/" + name), exist_ok=True)
            binds += 'mount --bind -o ro "%s" "$0/checkout/%s" && ' % (path, name)
        inside = ["env", "-i", "--chdir=" + folder] + ["%s=%s" % pair for pair in environment.items()] + command
        return subprocess.Popen(["unshare", "--mount", "sh", "-c", SHELL % binds, self.root] + inside, cwd="/", **how)

    def apt(self, command, what):
        if not self.updated:
            self.must(["apt-get", "update"], "apt-get update", folder="/")
            self.updated = True
        self.must(command, what, folder="/", environment={"DEBIAN_FRONTEND": "noninteractive"})

    def install(self, packages):
        missing = [package for package in packages if not self.has(package)]
        if missing:
            print("== installing %s" % " ".join(missing), flush=True)
            self.apt(["apt-get", "install", "-y", "--no-install-recommends"] + missing, "apt-get install")

    def unpack(self, packages):
        marks = "/var/lib/gpupool-unpacked"
        missing = [package for package in packages if not os.path.exists(self.outside("%s/%s" % (marks, package)))]
        if missing:
            print("== unpacking %s" % " ".join(missing), flush=True)
            script = 'mkdir -p %s; d=$(mktemp -d); cd "$d"; chmod 755 .; apt-get download "$@"; for deb in *.deb; do dpkg-deb -x "$deb" /; ' \
                     'done; cd /; rm -r "$d"; for p; do touch %s/"$p"; done' % (marks, marks)
            self.apt(["sh", "-ec", script, "sh"] + missing, "unpacking")
