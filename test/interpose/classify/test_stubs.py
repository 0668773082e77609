"""The stubs of work.def as they are in the library: how many instructions a launch pays for, and that none calls."""

import os
import re
import subprocess
import sys
import unittest

from tables import SKIP, works

LIBRARY = sys.argv[1]
# endbr64, the stream, the place of its mark, whose it is, the marker, the mark, the jump
MOST = {"CONFIG": 20, "DEFAULT": 15}
USUAL = 15
PER_THREAD = 2  # stream 0 is another


class Stubs(unittest.TestCase):
    def test_instructions_to_the_jump(self):
        listing = subprocess.run(["objdump", "-d", "--no-show-raw-insn", LIBRARY], check=True, stdout=subprocess.PIPE,
                                 universal_newlines=True).stdout
        bodies = dict(re.findall(r"^[0-9a-f]+ <gp_work_(\w+)>:\n((?:.+\n)*)", listing, re.M))
        longest = 0
        for work in works():
            lines = [line.split(":", 1)[1].split("#")[0].strip() for line in bodies[work.symbol].splitlines()]
            end = next(i for i, line in enumerate(lines) if re.match(r"(bnd )?(notrack )?jmp +\*", line))
            self.assertLessEqual(end + 1, MOST.get(work.where, USUAL) + PER_THREAD * work.per_thread, work.symbol)
            self.assertFalse([line for line in lines if line.startswith(("call", "push", "lock"))], work.symbol)
            longest = max(longest, end + 1)
        print("%d stubs, at most %d instructions to the driver" % (len(works()), longest))


if __name__ == "__main__":
    if os.uname().machine != "x86_64":
        sys.exit(SKIP)
    unittest.main(argv=sys.argv[:1], verbosity=2)
