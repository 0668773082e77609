#!/usr/bin/env python3
"""What the preloaded library costs a program that does not use CUDA: startup.py LIBRARY

Starts /bin/true with and without it in turns and prints the difference of the medians.
"""

import os
import statistics
import sys
import time

ROUNDS = 500


def start(env):
    began = time.perf_counter_ns()
    os.waitpid(os.posix_spawn("/bin/true", ["true"], env), 0)
    return time.perf_counter_ns() - began


def main():
    plain = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    pooled = dict(plain, LD_PRELOAD=os.path.abspath(sys.argv[1]))
    times = [(start(plain), start(pooled)) for _ in range(ROUNDS)]
    without, with_it = (statistics.median(column) / 1e3 for column in zip(*times))
    print("start of /bin/true: %.0f us without, %.0f us with the library: %.0f us more" % (
        without, with_it, with_it - without))


if __name__ == "__main__":
    sys.exit(main())
