"""Names in a snapshot can be anything, and stay text in its page: functions, files, libraries, threads, programs, marks, files' own names.

    test_names.py GPUPOOL [TEST ...]
"""

import json
import os
import pickle
import subprocess

import pages
import test_export
import test_import

NAMES = {
    "script end": "</script><script>window.attacked = 1</script>",
    "comment": "<!--<script>window.attacked = 1</script>",
    "image": "<img src=x onerror=\"window.attacked = 1\">",
    "quotes": "\"'`;window.attacked = 1;//${window.attacked = 1}",
    "attribute": "\" onmouseover=\"window.attacked = 1\" x=\"",
    "address": "javascript:window.attacked=1",
    "separators": "a\u2028b\u2029c\u0085d\r\ne\tf\0g",
    "directions": "\u202egnp.elif\u202c\u200b\ufeff\u061c",
    "long": "long" + "x" * 100000 + "end",
    "braces": "{{constructor.constructor('window.attacked = 1')()}}",
    "members": "__proto__",
    "formula": "=cmd|'/c calc'!A1",
    "entities": "&lt;b&gt;&amp;&#0;&#x1F;",
    "spaces": "   ",
}
VIEWS = ("findings", "bands", "addresses", "state", "flame", "tables")
TABLES = ("owners", "held", "sizes", "threads", "streams", "events")


def snapshot(name):
    made = test_export.story_snapshot()
    for frame in made["frames"]:
        if "function" in frame:
            frame.update(function=name, file="/src/" + name)
    made["modules"][0]["path"] = "/opt/" + name
    made["threads"][0]["name"] = name[:15]
    made["streams"][0]["handle"] = name
    made["process"].update(program="/usr/bin/" + name, command_line=[name, name], host=name, environment={"CUDA_VISIBLE_DEVICES": name})
    made["settings"]["type"] = name
    made["reason"] = name[:40]
    made["marks"] = [{"kind": kind, "time_ns": 3000 + i, "thread": 0, "name": name[:71], "device": 0 if kind != "mark" else None,
                      "scope": 1 if kind != "mark" else None} for i, kind in enumerate(("mark", "begin", "end", name[:20]))]
    return made


class Names(pages.Case):
    def look_at_everything(self, page):
        self.assertEqual(page.evaluate("gpupoolPage.error"), "")
        size = page.evaluate("[innerWidth, innerHeight]")
        for view in VIEWS:
            self.show(page, view)
            for part in (0.2, 0.5, 0.8):  # what is under the mouse is named
                page.move(size[0] * part, size[1] * (0.5 + part / 3))
            page.click(size[0] * 0.5, size[1] * 0.7)
        for table in TABLES:
            self.table(page, table)
            page.evaluate("(row => row && row.click())(document.querySelector('.tables .table-row'))")
        page.settle()
        self.assertIsNone(page.evaluate("window.attacked"))
        self.assertEqual(page.evaluate("document.querySelectorAll('img, iframe, object, embed, a, form, base, meta[http-equiv=refresh]').length"), 0)
        self.assertEqual(page.evaluate("document.scripts.length"), 2)
        self.assertEqual(page.evaluate("[...document.querySelectorAll('*')].flatMap(each => each.getAttributeNames())"
                                       ".filter(name => name.startsWith('on'))"), [])
        self.assertLess(page.evaluate("document.documentElement.scrollWidth"), size[0] + 1)

    def check(self, kind):
        page = self.open(pages.write("named.json", snapshot(NAMES[kind])))
        self.look_at_everything(page)
        shown = page.evaluate("gpupoolPage.page.recordings[0].strings")
        if kind not in ("separators", "long", "directions"):  # as they are; what is no text for a terminal is cut, or replaced
            self.assertIn(NAMES[kind], [text for text in shown if text != " "] + ["   "])

    def test_of_pytorch(self):
        for kind, name in NAMES.items():
            made = test_import.torch_snapshot()
            for event in made["device_traces"][0]:
                for frame in event.get("frames", ()):
                    frame.update(name=name, filename=name + ".py")
                if "user_metadata" in event:
                    event["user_metadata"] = name
            with self.subTest(kind):
                self.look_at_everything(self.open(pages.write("named.pickle", pickle.dumps(made))))

    def test_no_utf8(self):
        """Bytes that are no character, and halves of one: readers refuse them, or they are replaced."""
        for bad in (b"\xff\xfe\xfd", b"\xc3", b"\xed\xa0\x80", b"\\ud800", b"\xf0\x9f\x92"):
            text = json.dumps(snapshot("NAME<b>")).encode().replace(b"NAME", bad)
            done = subprocess.run([pages.GPUPOOL, "html", pages.write("bytes.json", text), "-o", os.path.join(pages.folder, "none.html")],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", check=False)
            self.assertEqual((done.returncode, done.stdout, os.path.exists(os.path.join(pages.folder, "none.html"))), (3, "", False))
            self.assertRegex(done.stderr, "not UTF-8|an escape that does not exist")
        made = test_import.torch_snapshot()
        for event in made["device_traces"][0]:
            for frame in event.get("frames", ()):
                frame.update(name="NAMENAME<b>")
        for bad in (b"\xff\xfe\xfd\xfc<b>\xe9\x80", b"\xed\xa0\x80<b>\xed\xb0\x80x", b"\xf0\x9f\x92<i><b>\xc3"):
            content = pickle.dumps(made, protocol=4).replace(b"NAMENAME<b>", bad[:11].ljust(11, b"x"))
            path = pages.write("bytes.pickle", content)
            with self.subTest(bad):
                page = self.open(path)
                self.look_at_everything(page)
                shown = page.evaluate("gpupoolPage.page.recordings[0].strings.filter(text => text.includes('<'))")
                self.assertTrue(shown)

    def test_a_file_called_so(self):
        for kind in ("script end", "image", "quotes", "formula"):
            name = NAMES[kind].replace("/", "_") + ".json"
            with self.subTest(kind), open(pages.golden("leak"), "rb") as file:
                path = pages.write(name, file.read())
                page = self.open(path, pages.golden("oom-stacks"))
                self.look_at_everything(page)
                self.table(page, "snapshots")
                self.assertIn(os.path.basename(name), page.evaluate("document.querySelector('.tables .table').textContent"))
                self.assertIsNone(page.evaluate("window.attacked"))

    def test_copied_rows_are_no_formulas(self):
        page = self.open(pages.write("named.json", snapshot(NAMES["formula"])))
        self.table(page, "owners")
        cells = [row[0] for row in self.copied(page, ".tables button.copy")[1:]]
        self.assertTrue(any("cmd|" in cell for cell in cells), cells)
        self.assertEqual([cell for cell in cells if cell[:1] in "=+-@" and cell], [])

    def test_copied_rows_are_lines(self):
        page = self.open_page(pages.page_with_functions(pages.golden("leak")))
        self.assertEqual(page.evaluate("functions.tsvCell('a\\tb\\r\\nc\\u0085d')"), "a b c d")
        self.assertEqual(page.evaluate("[-1, '-1', '@x', 'x=1'].map(functions.tsvCell)"), ["-1", "'-1", "'@x", "x=1"])


def add(kind):
    def test(self):
        self.check(kind)
    setattr(Names, "test_" + kind.replace(" ", "_"), test)


for kind_of_name in NAMES:
    add(kind_of_name)

if __name__ == "__main__":
    pages.main(__doc__)
