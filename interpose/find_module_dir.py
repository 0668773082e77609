#!/usr/bin/env python3
"""Prints the folder, relative to PREFIX, from which this Python imports modules; nothing if PREFIX has none.

    find_module_dir.py PREFIX
"""

import os
import site
import sys

inside = (os.path.relpath(path, sys.argv[1]) for path in site.getsitepackages())
print(next((path for path in inside if path.startswith("lib")), ""))  # /usr has local/lib, too
