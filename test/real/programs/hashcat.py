"""hashcat of Debian, which compiles its kernels with NVRTC. They do nothing here, so it finds no password."""

import os

from program import Case, Program

NORMALIZE = [(r"(Started|Stopped|Time\.\w+\.*): .*", r"\1"), (r"^Speed\.#.*", "Speed"), (r"^Hardware\.Mon.*", "Hardware"),
             (r"\d+/\d+ MB", "N MB"), (r"\b\d+ (MB|ms|secs?)\b", r"N \1"), (r"[\d.]+ [kMGT]?H/s.*", "N H/s"), (r"Host memory required.*", "Host memory")]
# 8743b52063cd84097a65d1633f5c74f5 is the MD5 sum of "hashcat".
SUM = "8743b52063cd84097a65d1633f5c74f5"


def cases(place):
    links = place.work("hashcat")  # the names that it looks for; NVIDIA's development package has them
    for name, of in (("libcuda.so", place.home + "/lib/libcuda.so.1"), ("libnvrtc.so", "/usr/lib/x86_64-linux-gnu/libnvrtc.so.12")):
        path = place.outside("%s/%s" % (links, name))
        if not os.path.islink(path):
            os.symlink(of, path)
    environment = {"LD_LIBRARY_PATH": links, "HOME": links}  # there it keeps the kernels that it has compiled

    def case(label, *arguments):
        place.run(["hashcat", *arguments], environment=environment)  # compiles them, and says so
        return Case(label, ["hashcat", *arguments], environment, normalize=NORMALIZE)

    attack = ["--self-test-disable", "--backend-ignore-opencl", "--potfile-disable", "--force", "-O", "-n", "8", "-u", "32", "-T", "64"]
    return [case("devices", "-I", "--backend-ignore-opencl"),
            case("MD5, a mask", "-m", "0", "-a", "3", *attack, SUM, "?l?l?l"),
            case("SHA-256, words", "-m", "1400", "-a", "0", *attack, SUM * 2, "/usr/share/dict/words")]


PROGRAM = Program(
    title="hashcat",
    version=["hashcat", "--version"],
    packages="libminizip1t64 libxxhash0 zlib1g libnvrtc12 wamerican".split(),
    unpacked="hashcat hashcat-data".split(),
    cases=cases,
    note="finds nothing, since kernels do nothing",
)
