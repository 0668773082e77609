#!/usr/bin/env python3
"""Prints the version script of a driver of CUDA version VERSION: of the entry points in api.def, those that it had.

    driver_map.py api.def VERSION
"""

import re
import sys

path, version = sys.argv[1], int(sys.argv[2])
with open(path) as file:
    names = [name for name, since in re.findall(r"^SIM_(?:API|STUB)\((\w+), \w+, (\d+),", file.read(), re.M)
             if int(since) <= version]
print("{\n  global: %s;\n  local: *;\n};" % "; ".join(names))
