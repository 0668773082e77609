"""Links to a page: the fragment of its address holds what is shown; one that is damaged, or of another file, harms nothing.

    test_link.py GPUPOOL [TEST ...]
"""

import json
import os
import pickle

import pages
import test_import

KEYS = ("file", "view", "device", "owner", "life", "from", "to", "at", "search", "axis", "frames", "allFrames")
NO_CLIPBOARD = "Object.defineProperty(navigator, 'clipboard', {value: undefined}); document.execCommand = () => false; 1"


class Link(pages.Case):
    def state(self, page):
        page.settle()
        return {key: page.evaluate("gpupoolPage.state()[%r]" % key) for key in KEYS}

    def select(self, page, **what):
        page.evaluate("gpupoolPage.selection.set(%s); 1" % json.dumps(what))

    def copied(self, page):
        """What the button copies."""
        page.evaluate("window.copied = ''; navigator.clipboard.writeText = text => { window.copied = text; return Promise.resolve(); };"
                      "document.querySelector('.top button.copy').click()")
        return page.wait_for("window.copied")

    def said(self, page):
        return page.evaluate("document.querySelector('.notice').innerText")

    def test_a_link_opens_what_was_shown(self):
        for names, what in ((["growing-cache"], {"view": "bands", "owner": 1, "from": 1000, "to": 5000, "at": 4000, "life": 120, "search": "app & #end=1"}),
                            (["growing-cache"], {"view": "state", "at": 0, "axis": "time"}),
                            (["leak"], {"view": "tables", "device": 2, "frames": "native", "allFrames": True}),
                            (["growing-cache", "leak"], {"view": "flame", "from": 3})):
            path = pages.make(*map(pages.golden, names))
            with self.subTest(what):
                page = self.open_page(path)
                self.assertNotIn("#", self.copied(page))
                if len(names) > 1:
                    page.evaluate("gpupoolPage.selection.open(1); 1")
                self.select(page, **what)
                wanted = self.state(page)
                address = self.copied(page)
                self.assertLess(len(address) - len(path), 200)
                page.wait_for("location.href === %s" % json.dumps(address), "the address to follow")
                other = self.open_page(address[len("file://"):])
                self.assertEqual(self.state(other), wanted)
                self.assertEqual(self.said(other), "")
                self.assertEqual(other.evaluate("document.querySelector('input[type=search]').value"), what.get("search", ""))

    def test_another_link_in_the_same_page(self):
        page = self.open(pages.golden("growing-cache"))
        opened = self.state(page)
        page.evaluate("location.hash = '#view=tables&search=append&at=17'; 1")
        page.wait_for("gpupoolPage.state().view === 'tables'")
        self.assertEqual(self.state(page), {**opened, "view": "tables", "search": "append", "at": 18})
        page.evaluate("location.hash = ''; 1")
        page.wait_for("gpupoolPage.state().view === 'findings'")
        self.assertEqual(self.state(page), opened)

    def test_it_fits_a_page_of_a_part(self):
        path = os.path.join(pages.folder, "part.html")
        pages.tool("html", pages.golden("growing-cache"), "--range", "100..2000", "-o", path, "--force")
        page = self.open_page(path + "#at=1500&from=1000&life=321")
        self.assertEqual(page.evaluate("gpupoolPage.context.recording().lives.block[gpupoolPage.state().life]"), 321)
        self.assertNotEqual(page.evaluate("gpupoolPage.state().life"), 320)  # where the whole page has it
        self.assertIn("event 1,500", page.evaluate("document.querySelector('.legend .moment').textContent"))
        self.assertEqual(page.evaluate("gpupoolPage.context.recording().eventOf(gpupoolPage.state().from)"), 1000)
        self.assertIn("at=1500", self.copied(page))

    def test_what_is_not_in_the_file_is_ignored(self):
        path = pages.make(pages.golden("growing-cache"))
        opened = self.state(self.open_page(path))
        parts = ("view=nowhere", "device=7", "device=-1", "owner=nobody", "life=99999999", "life=-1", "life=1e3", "at=7017", "at=-2", "at=x", "at=",
                 "at=99999999999999999999", "from=NaN", "file=1", "file=x", "axis=sideways", "frames=__proto__", "allFrames=yes", "__proto__=1",
                 "constructor", "nonsense", "%", "%zz%%", "%ff%fe=%00", "<img src=x onerror=alert(1)>", "owner=" + "x" * 100000, "from=500&to=20",
                 "=", "toString=1", "at=1.5", "\u202e=\u2028")
        for part in parts:
            with self.subTest(part[:40]):
                page = self.open_page(path + "#" + part)
                self.assertEqual(page.evaluate("gpupoolPage.error"), "")
                self.assertEqual(self.state(page), opened)
                self.assertIn("not in this page", self.said(page))
                self.assertLess(len(self.said(page)), 300)
                self.assertEqual(page.evaluate("document.querySelectorAll('img').length"), 0)
        page = self.open_page(path + "#view=tables&device=9&search=append&" + "&".join("x%d" % i for i in range(50)))
        self.assertEqual(self.state(page), {**opened, "view": "tables", "search": "append"})  # the rest of it counts
        self.assertIn("device=9", self.said(page))
        self.assertIn("and 47 more", self.said(page))
        page.click_on(".notice button")
        self.assertEqual(self.said(page), "")

    def test_without_a_clipboard_the_link_is_selected(self):
        page = self.open(pages.golden("growing-cache"))
        self.select(page, view="bands", search="append")
        address = self.copied(page)
        page.evaluate(NO_CLIPBOARD)
        page.click_on(".top button.copy")
        page.wait_for("document.activeElement.matches('.notice input')", "a field")
        self.assertEqual(page.evaluate("getSelection().toString() || document.activeElement.value.slice(document.activeElement.selectionStart, document.activeElement.selectionEnd)"), address)
        page.key("Escape")
        self.assertEqual((self.said(page), page.evaluate("gpupoolPage.state().search")), ("", "append"))

    def test_names_that_are_hostile(self):
        for name in ("</script><script>window.attacked = 1</script>", "#&=%", "\u202e\u2028\x7f", "x" * 900):
            with open(pages.golden("leak"), encoding="utf-8") as file:
                snapshot = json.load(file)
            for frame in snapshot["frames"]:
                if frame.get("function") == "work":
                    frame["function"] = name
            path = pages.make(pages.write("named.json", snapshot))
            with self.subTest(name[:30]):
                page = self.open_page(path)
                self.select(page, owner=0, view="tables", search=name)
                other = self.open_page(self.copied(page)[len("file://"):])
                self.assertEqual(self.state(other)["owner"], 0)
                self.assertEqual(self.said(other), "")
                self.assertIsNone(other.evaluate("window.attacked"))

    def test_play_does_not_flood_the_address(self):
        """Browsers refuse more than some 100 changes in 30 seconds."""
        page = self.open(pages.golden("growing-cache"))
        page.evaluate("window.written = 0; history.replaceState = () => { window.written++; }; 1")
        written = page.evaluate("new Promise(done => { for (let i = 1; i < 500; i++) gpupoolPage.selection.set({at: i});"
                                "setTimeout(() => done(window.written), 400); })")  # behind the last that the page set
        self.assertEqual(written, 1)


class Title(pages.Case):
    def test_it_begins_with_the_file(self):
        page = self.open(pages.golden("growing-cache"), pages.golden("leak"))
        self.assertEqual(page.evaluate("document.title"), "growing-cache.json: growing_cache, pid 4711, rank 0, written when memory ran out - gpupool")
        page.evaluate("gpupoolPage.selection.open(1); 1")
        self.assertTrue(page.evaluate("document.title").startswith("leak.json: "))
        page = self.open(pages.write("torch.pickle", pickle.dumps(test_import.torch_snapshot())))
        self.assertEqual(page.evaluate("document.title"), "torch.pickle, written by PyTorch - gpupool")


if __name__ == "__main__":
    pages.main(__doc__)
