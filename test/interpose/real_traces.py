"""Says where the real traces are missing: the preload tests replay them, and are green without.

Skipped (status 77) then; else each of them has to be a trace.
"""

import os
import sys

from harness import Trace, real_traces

SKIP = 77


def main():
    if not real_traces():
        print("no ../shared/traces/*.csv beside the source tree: the tests replay the traces of test/workloads only")
        return SKIP
    for path in real_traces():
        trace = Trace(path)
        print("%s: %d allocations, %d bytes at most" % (os.path.basename(path), trace.allocations, trace.peak))
        if trace.allocations == 0 or trace.frees + trace.survivors != trace.allocations:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
