"""Pages as a reader uses them: by keyboard alone, by mouse, with very many rows; what is selected in one view is in the others.

    test_use.py GPUPOOL [TEST ...]
"""

import json

import pages


def focused(page):
    return page.evaluate("(e => e.tagName.toLowerCase() + (e.className ? '.' + e.className.split(' ')[0] : '') + (e.id ? '#' + e.id : ''))"
                         "(document.activeElement)")


class Use(pages.Case):
    def tab_to(self, page, selector):
        """By the key alone: it has to be reached."""
        for _ in range(80):
            page.key("Tab")
            if page.evaluate("document.activeElement.matches(%r)" % selector):
                return
        self.fail("Tab does not reach %s, but %s" % (selector, focused(page)))

    def text(self, page, selector):
        return page.evaluate("(e => e && e.textContent)(document.querySelector(%r))" % selector)

    def state(self, page, name):
        return page.evaluate("gpupoolPage.state().%s" % name)


class Keyboard(Use):
    def test_stacks(self):
        page = self.open(pages.golden("wrappers-debug"))
        page.key("5")
        self.assertEqual(self.state(page, "view"), "flame")
        page.settle()
        self.tab_to(page, ".flame canvas")
        page.key("ArrowDown")
        self.assertIn("main wrappers.cc:59", self.text(page, ".flame-status"))
        page.key("ArrowRight")
        self.assertIn("main wrappers.cc:60", self.text(page, ".flame-status"))
        page.key("ArrowDown")
        self.assertIn("grow_cache wrappers.cc:54", self.text(page, ".flame-status"))
        page.key("Enter")
        page.settle()
        self.assertTrue(self.text(page, ".crumbs").endswith("grow_cache wrappers.cc:54"))
        page.key("Escape")
        self.assertTrue(self.text(page, ".crumbs").endswith("main wrappers.cc:60"))
        page.key("Home")
        page.key("Enter")
        self.assertTrue(page.evaluate("document.querySelector('.crumbs').hidden"))

    def test_a_tree(self):
        page = self.open(pages.golden("wrappers-debug"))
        page.key("5")
        page.settle()
        self.tab_to(page, ".flame-table .table")

        def rows():
            return page.evaluate("[...document.querySelectorAll('.flame-table .table-row')].map(row => row.getAttribute('aria-level') + ' ' +"
                                 "row.firstElementChild.textContent.slice(0, 12))")
        before = rows()
        page.key("ArrowLeft")  # the largest is unfolded
        folded = rows()
        self.assertLess(len(folded), len(before))
        page.key("ArrowRight")
        self.assertEqual(rows(), before)
        page.key("ArrowRight")  # to its first caller
        page.key("ArrowLeft")  # and back to it
        page.key("Enter")
        self.assertEqual(page.evaluate("gpupoolPage.page.recordings[0].owners[gpupoolPage.state().owner].name"), "load_weights")
        page.key("Enter")
        self.assertEqual(self.state(page, "owner"), -1)

    def test_a_table(self):
        page = self.open(pages.golden("growing-cache"))
        page.key("6")
        page.settle()
        self.tab_to(page, ".tables .table")
        page.key("ArrowDown")
        page.key("Enter")
        owner = self.state(page, "owner")
        self.assertGreaterEqual(owner, 0)
        chosen = page.evaluate("document.querySelector('.tables .table-row[aria-selected=true]').id")
        self.assertEqual(page.evaluate("document.querySelector('.tables .table').getAttribute('aria-activedescendant')"), chosen)
        page.key("Escape")
        self.assertEqual(self.state(page, "owner"), -1)

    def test_rows_are_sorted_by_a_key(self):
        page = self.open(pages.golden("train"))
        self.table(page, "sizes")
        page.evaluate("document.querySelector('.tables .table').focus()")
        self.tab_to(page, ".tables [role=columnheader] button")
        head = ".tables [role=columnheader][aria-sort]"
        page.key("Enter")
        self.assertEqual(page.evaluate("document.querySelector(%r).getAttribute('aria-sort')" % head), "descending")
        self.assertTrue(self.text(page, head).startswith("Size"))
        sizes = [int(row[0]) for row in self.copied(page, ".tables button.copy")[1:]]
        self.assertEqual(sizes, sorted(sizes, reverse=True))
        page.key("Enter")
        self.assertEqual(page.evaluate("document.querySelector(%r).getAttribute('aria-sort')" % head), "ascending")
        self.assertEqual([int(row[0]) for row in self.copied(page, ".tables button.copy")[1:]], sizes[::-1])

    def test_events_are_walked_through(self):
        page = self.open(pages.golden("oom-stacks"))
        self.table(page, "events")
        page.evaluate("document.querySelector('.tables .table').focus()")
        page.key("Home")
        page.key("Enter")
        self.assertEqual(self.state(page, "at"), 1)
        page.key("PageDown")
        page.key("Enter")
        self.assertGreater(self.state(page, "at"), 5)
        page.key("End")
        page.key("Enter")
        self.assertEqual(self.state(page, "at"), page.evaluate("gpupoolPage.page.recordings[0].end"))
        page.settle()
        self.assertIn("462", self.text(page, ".tables .table-row.active"))
        page.key("[")
        page.settle()
        self.assertIn("461", self.text(page, ".tables .table-row[aria-selected=true]"))

    def test_everything_is_reached(self):
        """Each thing that can be pressed or moved has the focus once, in the order in which it stands."""
        page = self.open(pages.golden("wrappers-debug"), size=(1366, 768))
        for view in ("flame", "tables"):
            self.show(page, view)
            page.evaluate("document.activeElement.blur()")
            wanted = page.evaluate("[...document.querySelectorAll('#view-%s :is(button, select, input, [tabindex=\"0\"])')]"
                                   ".filter(each => each.checkVisibility() && !each.disabled).length" % view)
            seen = []
            for _ in range(100):
                page.key("Tab")
                place = page.evaluate("(() => { const all = [...document.querySelectorAll('#view-%s *')]; return all.indexOf(document.activeElement); })()" % view)
                if place >= 0:
                    if place in seen:
                        break
                    seen.append(place)
            self.assertEqual(seen, sorted(seen))
            self.assertEqual(len(seen), wanted, view)


class Names(Use):
    VIEWS = ("findings", "bands", "addresses", "state", "flame", "tables")
    ROLES = {"application", "button", "checkbox", "combobox", "grid", "treegrid", "listbox", "region", "searchbox", "slider", "tab", "textbox"}

    def test_what_takes_keys_says_what_it_is(self):
        """As the browser tells a screen reader."""
        page = self.open(pages.golden("growing-cache"), pages.golden("leak"))
        page.call("Accessibility.enable")
        page.evaluate("gpupoolPage.selection.set({life: 120, owner: 1}); location.hash = 'no=such'; 1")
        page.wait_for("document.querySelector('.notice button')")
        page.evaluate("gpupoolPage.selection.set({life: 120, owner: 1}); 1")
        for view in self.VIEWS:
            self.show(page, view)
            nodes = page.call("Accessibility.getFullAXTree")["nodes"]
            names = []
            for node in nodes:
                properties = {each["name"]: each["value"].get("value") for each in node.get("properties", ())}
                role, name = node.get("role", {}).get("value"), node.get("name", {}).get("value", "")
                if node["ignored"] or not properties.get("focusable") or role in ("RootWebArea", "option", "menuListOption", "MenuListPopup"):
                    continue
                with self.subTest(view=view, role=role, name=name):
                    self.assertIn(role, self.ROLES)
                    self.assertRegex(name, "[A-Za-z]{2}")
                if role in ("application", "slider", "grid", "treegrid"):
                    self.assertNotIn(name, names)  # two of a name cannot be told apart
                    names.append(name)
            with self.subTest(view):
                self.assertGreater(len(names), 0)
                found = page.evaluate("[...document.querySelectorAll('#page *')].filter(each => each.checkVisibility() && each.tabIndex >= 0 && !each.closest('[role=tablist]')).length")
                self.assertGreater(found, 10)
        # Keys go nowhere else: what listens to them can have the focus.
        self.assertEqual(page.evaluate("[...document.querySelectorAll('canvas, .table')].filter(each => each.tabIndex < 0).length"), 0)

    def test_the_curve_is_a_slider(self):
        page = self.open(pages.golden("growing-cache"))
        end = page.evaluate("gpupoolPage.context.recording().end")
        value = "['min', 'max', 'now', 'text'].map(name => document.querySelector('.curve canvas').getAttribute('aria-value' + name))"
        self.assertEqual(page.evaluate(value)[:3], ["0", str(end), str(end)])
        self.tab_to(page, ".curve canvas")
        page.key("ArrowLeft")
        page.settle()
        at, text = page.evaluate(value)[2:]
        self.assertEqual(at, str(end - 1))
        self.assertRegex(text, "event 7,014, allocated 2 GiB")

    def test_tabs_name_their_panels(self):
        page = self.open(pages.golden("growing-cache"))
        self.assertEqual(page.evaluate("[...document.querySelectorAll('[role=tab]')].filter(each => document.getElementById(each.getAttribute('aria-controls'))"
                                       ".getAttribute('aria-labelledby') !== each.id).length"), 0)


class Mouse(Use):
    def box(self, page, row, part):
        """A place in the picture of stacks."""
        left, top, width = page.evaluate("(b => [b.x, b.y, b.width])(document.querySelector('.flame canvas').getBoundingClientRect())")
        return left + width * part, top + 20 * row + 10

    def test_stacks(self):
        page = self.open(pages.golden("wrappers-debug"))
        self.show(page, "flame")
        page.move(*self.box(page, 2, 0.1))
        self.assertIn("load_weights wrappers.cc:48", self.text(page, ".flame-status"))
        self.assertIn("160 MiB, 76.2% of all", self.text(page, ".flame-status"))
        page.click(*self.box(page, 2, 0.85))
        page.settle()
        self.assertTrue(self.text(page, ".crumbs").endswith("grow_cache wrappers.cc:54"))
        page.move(*self.box(page, 3, 0.05))
        self.assertIn("hand_out", self.text(page, ".flame-status"))
        page.click(*self.box(page, 0, 0.5))
        page.settle()
        self.assertTrue(page.evaluate("document.querySelector('.crumbs').hidden"))

    def test_a_search_is_marked(self):
        page = self.open(pages.golden("wrappers-debug"))
        self.show(page, "flame")
        page.key("/")
        page.type("grow")
        page.wait_for("gpupoolPage.state().search === 'grow'")
        self.assertIn("found: 48 MiB, 22.9%", self.text(page, ".flame-status"))

    def test_the_other_direction_and_measure(self):
        page = self.open(pages.golden("wrappers-debug"))
        self.show(page, "flame")
        page.click_on(".flame [data-id=up]")
        page.settle()
        page.move(*self.box(page, 1, 0.1))
        self.assertIn("load_weights", self.text(page, ".flame-status"))
        page.click_on(".flame [data-id=count]")
        page.settle()
        count = pages.report("sites", pages.golden("wrappers-debug"))["sum"]["total"]["count"]
        self.assertIn("allocations: %d in all" % count, self.text(page, ".flame h2"))

    def test_a_selection_is_in_all_views(self):
        """An owner that is chosen in a table, and a part of the time, are what the stacks are of."""
        path = pages.golden("growing-cache")
        page = self.open(path)
        self.table(page, "owners")
        page.click_on(".tables .table-row:nth-child(2)")
        name = page.evaluate("gpupoolPage.page.recordings[0].owners[gpupoolPage.state().owner].name")
        flat = {site["name"]: site["flat"] for site in pages.report("sites", path)["sites"]}[name]
        self.show(page, "flame")
        page.click_on(".flame [data-id=total]")
        page.settle()
        self.assertEqual(self.text(page, ".flame h2"), "ever requested: %s in all, of what is selected" % pages.size_text(flat["total"]["bytes"]))
        page.evaluate("gpupoolPage.selection.set({owner: -1})")
        page.settle()
        whole = pages.report("sites", path)["sum"]["total"]["bytes"]
        self.assertEqual(self.text(page, ".flame h2"), "ever requested: %s in all" % pages.size_text(whole))
        page.click_on(".flame [data-id=live]")
        page.evaluate("gpupoolPage.selection.set({to: 101})")
        page.settle()
        held = pages.report("sites", path, "--at", "100")["sum"]["live"]["bytes"]
        self.assertIn(": %s in all, of what is selected" % pages.size_text(held), self.text(page, ".flame h2"))

    def test_a_row_shows_its_allocation(self):
        page = self.open(pages.golden("leak"))
        self.table(page, "held")
        page.click_on(".tables .table-row")
        life = self.state(page, "life")
        self.assertGreaterEqual(life, 0)
        self.assertEqual(self.state(page, "at"), page.evaluate("gpupoolPage.page.recordings[0].lives.begin[%d]" % life))
        self.assertIn("work", self.text(page, ".details"))


    def test_a_recursion_is_one_line(self):
        for count, told in ((1, 1), (2, 2), (30, 2)):
            with open(pages.golden("leak"), encoding="utf-8") as file:
                snapshot = json.load(file)
            snapshot["stacks"] = [stack[:2] + stack[2:3] * count + stack[3:] for stack in snapshot["stacks"]]  # work() is the third
            page = self.open(pages.write("recursion.json", snapshot))
            self.table(page, "held")
            page.click_on(".tables .table-row")
            rows = page.evaluate("[...document.querySelectorAll('.details .stack > li:not(:first-child):not(:last-child)')]"
                                 ".map(row => row.textContent)")
            self.assertEqual((len(rows), rows[-1] == "the same 29 times more"), (told, count == 30))


class ManyRows(Use):
    COUNT = 500000

    def test_only_what_is_seen_is_there(self):
        page = self.open_page(pages.page_with_functions(pages.golden("leak")))
        page.evaluate("""(() => {
            const table = window.table = new functions.Table({label: 'many'});
            document.body.append(table.element);
            Object.assign(table.element.style, {height: '500px', width: '900px'});
            table.setColumns([{id: 'row', label: 'Row', width: '20ch', isNumber: true, text: row => String(row), value: row => row},
              {id: 'hash', label: 'Hash', width: '20ch', isNumber: true, text: row => String(row * 7919 %% %d), value: row => row * 7919 %% %d}], {column: 'row', isDescending: true});
            table.setRows(Uint32Array.from({length: %d}, (_, row) => row)); })()""" % (self.COUNT, self.COUNT, self.COUNT))
        page.settle()
        shown = "[...document.querySelectorAll('.table-row')].map(row => Number(row.firstElementChild.textContent))"
        self.assertEqual(page.evaluate(shown)[:3], [self.COUNT - 1, self.COUNT - 2, self.COUNT - 3])
        self.assertLess(page.evaluate("document.querySelectorAll('.table-row').length"), 60)
        self.assertEqual(page.evaluate("table.element.getAttribute('aria-rowcount')"), str(self.COUNT + 1))
        page.evaluate("table.element.focus()")
        page.key("End")
        page.settle()
        self.assertIn(0, page.evaluate(shown))
        place = page.evaluate("(row => [row.getAttribute('aria-rowindex'), row.getBoundingClientRect().bottom <="
                              " table.element.getBoundingClientRect().bottom + 1])(document.querySelector('.table-row.active'))")
        self.assertEqual(place, [str(self.COUNT + 1), True])
        page.evaluate("document.querySelectorAll('[role=columnheader] button')[1].click()")
        page.settle()
        hashes = page.evaluate("[...document.querySelectorAll('.table-row')].map(row => Number(row.lastElementChild.textContent))")
        self.assertEqual(hashes[:3], [self.COUNT - 1, self.COUNT - 2, self.COUNT - 3])
        self.assertEqual(page.evaluate("table.tsv().split('\\n').length"), self.COUNT + 2)
        page.evaluate("table.element.scrollTop = 6000000")
        page.settle()
        first = page.evaluate("Number(document.querySelector('.table-row').getAttribute('aria-rowindex'))")
        self.assertTrue(249000 < first < 251000, first)
        # What has the focus is named only while it is an element.
        self.assertIsNone(page.evaluate("table.element.getAttribute('aria-activedescendant')"))


if __name__ == "__main__":
    pages.main(__doc__)
