#!/usr/bin/env python3
"""Prints the version script of a driver of CUDA version VERSION: of the entry points in api.def, those that it had,
and what oracle.h declares.

    driver_map.py api.def oracle.h VERSION
"""

import re
import sys

path, oracle, version = sys.argv[1], sys.argv[2], int(sys.argv[3])
with open(path) as file:
    names = [name for name, since in re.findall(r"^SIM_(?:API|STUB)\((\w+), \w+, (\d+),", file.read(), re.M)
             if int(since) <= version]
with open(oracle) as file:
    names += re.findall(r"^simcuda_\w+_fn (simcuda_\w+);", file.read(), re.M)
print("{\n  global: %s;\n  local: *;\n};" % "; ".join(names))
