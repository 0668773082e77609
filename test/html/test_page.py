"""Pages of snapshots open in a browser, show what the reports say, and do nothing else.

    test_page.py GPUPOOL [TEST ...]
"""

import base64
import gzip
import os
import pickle
import re
import zlib

import pages
import test_import

VIEWS = ("findings", "bands", "addresses", "state", "flame", "tables")
QUICK = os.environ.get("GP_QUICK") in ("1", "2")
TABLES = ("owners", "held", "sizes", "threads", "streams", "events")


def bare(summary):
    """Without what only one of page and report has."""
    return {key: value for key, value in summary.items() if key != "file"}


class Opens(pages.Case):
    def check(self, path):
        """All views and all tables, in light and dark; the summary is that of the tool, digit by digit."""
        page = self.open(path)
        self.assertEqual(page.evaluate("gpupoolPage.error"), "")
        self.assertEqual(bare(page.evaluate("gpupoolPage.page.recordings[0].summary")), bare(pages.report("summary", path)))
        for view in VIEWS:
            self.show(page, view)
            self.assertEqual(page.evaluate("document.querySelectorAll('[role=tabpanel]:not([hidden])').length"), 1)
        for table in TABLES:
            self.table(page, table)
        page.theme(True)
        self.show(page, "flame")
        return page

    def test_no_other_requests(self):
        """What the browser itself refuses: the policy of the page."""
        page = self.open(pages.golden("leak"))
        self.assertEqual(page.evaluate("fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'refused')"), "refused")
        self.assertTrue(page.problems)
        self.assertEqual(page.requests, [page.address])
        page.evaluate("document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.ran = 1'}))")
        self.assertIsNone(page.evaluate("window.ran"))
        page.problems.clear()

    def test_pytorch(self):
        snapshot = test_import.torch_snapshot()
        for name, content in (("torch.pickle", pickle.dumps(snapshot)), ("torch.json", snapshot),
                              ("torch.pickle.gz", gzip.compress(pickle.dumps(snapshot, protocol=2))),
                              ("streams.pickle", pickle.dumps(test_import.ten_streams()))):
            with self.subTest(name):
                self.check(pages.write(name, content))

    def test_what_the_tool_exports(self):
        for form in ("pytorch", "pytorch-json"):
            with self.subTest(form):
                path = os.path.join(pages.folder, "exported." + form)
                pages.tool("export", "--to", form, pages.golden("growing-cache"), "-o", path, "--force")
                self.check(path)

    def test_a_part_of_the_time(self):
        path = os.path.join(pages.folder, "part.html")
        pages.tool("html", pages.golden("growing-cache"), "--range", "100..200", "-o", path, "--force")
        page = self.open_page(path)
        self.assertEqual(page.evaluate("gpupoolPage.error"), "")
        for view in VIEWS:
            self.show(page, view)
        self.assertEqual(page.evaluate("gpupoolPage.page.recordings[0].range"), {"from": 101, "to": 201})


def add_golden(name):
    def test(self):
        self.check(pages.golden(name))
    setattr(Opens, "test_golden_" + name.replace("-", "_"), test)


for golden_name in pages.golden_names():
    add_golden(golden_name)


class Damaged(pages.Case):
    """The page says what is wrong with its data, in a sentence, and nothing else goes wrong."""

    def opened(self, change):
        path = pages.make(pages.golden("leak"))
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(change(text))
        page = self.open_page(path)
        self.assertEqual(page.evaluate("document.querySelector('[role=alert]').textContent"), page.evaluate("gpupoolPage.error"))
        return page.evaluate("gpupoolPage.error")

    @staticmethod
    def parts(text):
        before, mark, data = text.partition('id="payload">')
        data, end, behind = data.partition("</script>")
        return before + mark, data, end + behind

    def test_cut(self):
        for part in (0, 3, 4, 1000, -8):
            with self.subTest(part):
                self.assertRegex(self.opened(lambda text: self.parts(text)[0] + self.parts(text)[1][:part]), "was cut|damaged")

    def test_changed(self):
        def change(text, at, to):
            before, data, behind = self.parts(text)
            at = int(len(data) * at)
            return before + data[:at] + to + data[at + len(to):] + behind
        places, changes = (0, 0.01, 0.3, 0.6, 0.95), ("AAAA", "\u20ac", "????????")
        for i, at in enumerate(places):
            for to in changes if not QUICK else changes[i % len(changes):][:1]:
                with self.subTest(at=at, to=to):
                    self.assertRegex(self.opened(lambda text: change(text, at, to)), "damaged.*(cut or changed|length|begin|ends|header)")

    def test_of_another_form(self):
        """What is packed well, but is not what the page reads."""
        def repacked(change):
            def of_text(text):
                before, data, behind = self.parts(text)
                return before + base64.b64encode(zlib.compress(change(zlib.decompress(base64.b64decode(data))))).decode() + behind
            return of_text

        def with_header(change):
            def of_data(data):
                length = int.from_bytes(data[8:12], "little")
                header = change(data[12:12 + length])
                return data[:8] + len(header).to_bytes(4, "little") + header + data[12 + length:]
            return of_data
        for change in (lambda data: data + b"\0", lambda data: data[:-1], lambda data: b"GPPAGE9\n" + data[8:], lambda data: data[:10], lambda data: b"",
                       with_header(lambda header: header[:-1]), with_header(lambda header: b"null"), with_header(lambda header: b"{}"),
                       with_header(lambda header: header.replace(b'"u32"', b'"u33"')),
                       with_header(lambda header: re.sub(rb'("name":"life.begin"[^}]*"count":)', rb"\g<1>9", header)),
                       with_header(lambda header: re.sub(rb'("name":"life.begin"[^}]*"bytes":)', rb"\g<1>9", header))):
            self.assertRegex(self.opened(repacked(change)), "damaged|does not know")

    def test_without_data(self):
        self.assertIn("no data", self.opened(lambda text: "".join(self.parts(text)[::2])))

    def test_in_a_browser_that_is_too_old(self):
        page = self.open(pages.golden("leak"))
        page.call("Page.addScriptToEvaluateOnNewDocument", source="delete window.DecompressionStream")
        page.requests.clear()
        page.call("Page.reload")
        page.wait_for("window.gpupoolPage && gpupoolPage.error")
        self.assertRegex(page.evaluate("document.querySelector('[role=alert]').textContent"), "too old.*DecompressionStream.*Chrome.*or later")


if __name__ == "__main__":
    pages.main(__doc__)
