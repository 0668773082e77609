"""Pages that `gpupool html` makes of snapshots, in a browser: what the tests of pages share.

A test module ends with pages.main(__doc__): its arguments are GPUPOOL and names of tests; without a browser it is skipped, with one line.
"""

import json
import lzma
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from browser import Browser, Page, find_browser

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(SOURCE, "test", "tools"), os.path.join(SOURCE, "test", "golden")]
GOLDEN = os.path.join(SOURCE, "test", "golden")
SKIPPED = 77
UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
GPUPOOL = None
browser = None  # one for all tests of a module
folder = None


def golden(name):
    """The path of a stored snapshot, NAME.json."""
    path = os.path.join(folder, name + ".json")
    if not os.path.exists(path):
        with lzma.open(os.path.join(GOLDEN, name + ".json.xz")) as packed, open(path, "wb") as file:
            shutil.copyfileobj(packed, file)
    return path


def golden_names():
    return sorted(name[:-8] for name in os.listdir(GOLDEN) if name.endswith(".json.xz"))


def write(name, content):
    path = os.path.join(folder, name)
    with open(path, "wb") as file:
        file.write(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def tool(*arguments):
    return subprocess.run([GPUPOOL, *arguments], stdout=subprocess.PIPE, check=True, timeout=60).stdout


def report(command, *arguments):
    """What a report says as JSON; of one file, where it has one object each."""
    document = json.loads(tool(command, "--json", *arguments))
    return document["snapshots"][0] if "snapshots" in document else document


def size_text(size):
    """"97.7 KiB": as base/size.c writes it"""
    unit = 0
    while unit < 6 and size >> (10 * (unit + 1)):
        unit += 1
    whole, rest = divmod(size, 1 << (10 * unit))
    if not rest:
        return "%d %s" % (whole, UNITS[unit])
    tenths = ((rest >> (10 * (unit - 1) if unit > 1 else 0)) * 10 + 512) // 1024
    return "%d.%d %s" % (whole + tenths // 10, tenths % 10, UNITS[unit])


def make(*snapshots, name="page.html"):
    path = os.path.join(folder, name)
    tool("html", *snapshots, "-o", path, "--force")
    return path


class Case(unittest.TestCase):
    """Every page that a test opens has to be without exceptions, errors and requests in the end."""

    def open(self, *snapshots, **options):
        return self.open_page(make(*snapshots), **options)

    def open_page(self, path, **options):
        page = Page(browser, "file://" + path, **options)
        self.addCleanup(self.close, page)
        page.wait_for("window.gpupoolPage && gpupoolPage.ready", "the page to be ready")
        return page

    def close(self, page):
        page.settle()
        page.close()
        self.assertEqual(page.problems, [])
        self.assertEqual([address for address in page.requests if not address.startswith("blob:")], [page.address.split("#")[0]])

    def show(self, page, view):
        page.evaluate("gpupoolPage.selection.set({view: %s})" % json.dumps(view))
        page.settle()

    def table(self, page, which):
        """Opens one of the tables."""
        if page.evaluate("gpupoolPage.selection.state.view") != "tables":
            self.show(page, "tables")
        page.evaluate("document.querySelector('.tables [data-id=%s]').click()" % which)
        page.settle()

    def copied(self, page, selector):
        """The rows of a table as its button copies them: a list of {label: text}, and where labels repeat a list of rows."""
        page.evaluate("navigator.clipboard.writeText = text => { window.copied = text; return Promise.resolve(); };"
                      "document.querySelector(%s).click()" % json.dumps(selector))
        lines = page.evaluate("window.copied").rstrip("\n").split("\n")
        return [line.split("\t") for line in lines]


def page_with_functions(snapshot):
    """A page of the same modules and data that shows nothing: window.functions has what functions.js names."""
    data = re.search(r'id="payload">([^<]*)<', read(make(snapshot))).group(1)
    copy = os.path.join(folder, "modules")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(os.path.join(SOURCE, "tools", "html", "page"), copy)
    shutil.copy(os.path.join(HERE, "functions.js"), os.path.join(copy, "main.js"))
    path = os.path.join(folder, "functions.html")
    subprocess.run([os.path.join(SOURCE, "tools", "html", "assemble.py"), copy, path], check=True)
    text = read(path)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace('id="payload">', 'id="payload">' + data))
    return path


def main(usage):
    global GPUPOOL, browser, folder
    if len(sys.argv) < 2:
        sys.exit(usage)
    GPUPOOL = os.path.abspath(sys.argv.pop(1))
    if not find_browser():
        print("skipped: no browser is installed (chromium)")
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory(prefix="gpupool-pages-") as folder, Browser() as browser:
        module = sys.modules["__main__"]
        done = unittest.main(module=module, exit=False, verbosity=1)
    sys.exit(not done.result.wasSuccessful())
