#!/usr/bin/env python3
"""Makes the pictures of the documents again: pictures.py GPUPOOL [FOLDER]

They are of golden snapshots, in a browser without a window. Look at them before they go in.
"""

import lzma
import os
import subprocess
import sys
import tempfile

from browser import Browser

HERE = os.path.dirname(os.path.abspath(__file__))
SIZE = (1180, 640)

# picture: snapshot, dark, what is selected
PICTURES = {
    "findings": ("growing-cache", False, "{view: 'findings'}"),
    "active-memory": ("growing-cache", True, "{view: 'bands', life: 120}"),
    "state": ("oom-cached", False, "{view: 'state'}"),
    "stacks": ("growing-cache", True, "{view: 'flame'}"),
}


def main(tool, folder):
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory() as work, Browser(size=SIZE) as browser:
        for name, (snapshot, dark, selected) in PICTURES.items():
            with lzma.open(os.path.join(HERE, "..", "golden", snapshot + ".json.xz")) as source, \
                    open(os.path.join(work, snapshot + ".json"), "wb") as target:
                target.write(source.read())
            subprocess.run([tool, "html", snapshot + ".json", "--force"], cwd=work, check=True, stdout=subprocess.DEVNULL)
            page = browser.open(os.path.join(work, snapshot + ".html"), dark=dark, size=SIZE)
            page.wait_for("window.gpupoolPage && window.gpupoolPage.ready")
            page.evaluate("gpupoolPage.selection.set(%s); 1" % selected)
            page.settle()
            page.screenshot(os.path.join(folder, name + ".png"))
            page.close()


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else os.path.join(HERE, "..", "..", "doc", "pictures"))
