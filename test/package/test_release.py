#!/usr/bin/env python3
"""The version is the same wherever it is written down.

    test_release.py SOURCE VERSION [TEST ...]
"""

import os
import re
import sys
import unittest

SOURCE = VERSION = None


def read(*names):
    with open(os.path.join(SOURCE, *names), encoding="utf-8") as file:
        return file.read()


class Release(unittest.TestCase):
    def test_one_version(self):
        self.assertEqual(re.search(r"^## (\S+?),? ", read("NEWS.md"), re.M).group(1), VERSION)
        self.assertEqual(re.match(r"gpupool \((\S+)\) ", read("scripts", "debian", "changelog")).group(1), VERSION)


if __name__ == "__main__":
    SOURCE, VERSION = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
