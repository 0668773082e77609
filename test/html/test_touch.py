"""Pages on narrow or enlarged screens, and moved by fingers.

    test_touch.py GPUPOOL [TEST ...]
"""

import pages

VIEWS = ("findings", "bands", "addresses", "state", "flame", "tables")
SIZES = {"a phone": (390, 844), "a small phone": (320, 568), "a screen at 200%": (683, 384), "a tablet": (768, 1024)}

# What is beyond the left or right edge, or cut off. Tables scroll by themselves, and cut what is too long for a column.
BEYOND = """[...document.querySelectorAll('#page *')].filter(each => each.checkVisibility() && !each.closest('.table, .hint'))
  .filter(each => { const box = each.getBoundingClientRect(); return box.width && (box.left < -1 || box.right > innerWidth + 1); })
  .map(each => each.className || each.tagName)"""
CUT = """[...document.querySelectorAll('#page :is(button, label, h1, h2, h3, p, dt, dd, li, output, .note, .event, .key, .chip, .figure, .moment, .notice)')]
  .filter(each => each.checkVisibility() && !each.closest('.table, .crumbs') && (each.scrollWidth > each.clientWidth + 1 || each.scrollHeight > each.clientHeight + 3)
    && each.clientWidth).map(each => each.className + ' ' + each.textContent)"""
# Controls that cannot be brought to where a finger gets them.
HIDDEN = """[...document.querySelectorAll('#page :is(button, select, input)')].filter(each => each.checkVisibility() && !each.disabled)
  .filter(each => { each.scrollIntoView({block: 'center', inline: 'center'}); const box = each.getBoundingClientRect();
    const found = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2); return !found || !(each.contains(found) || found.contains(each)); })
  .map(each => each.outerHTML.slice(0, 200))"""


class Narrow(pages.Case):
    def test_nothing_is_cut_off(self):
        page = self.open(pages.golden("growing-cache"), pages.golden("leak"))
        for name, size in SIZES.items():
            page.resize(size)
            for view in VIEWS:
                for life in (-1, 120):
                    page.evaluate("gpupoolPage.selection.set({life: %d, owner: %d, search: '%s'}); 1" % (life, min(life, 0), "grow" * (life > 0)))
                    self.show(page, view)
                    with self.subTest(screen=name, view=view, life=life):
                        self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), size[0])
                        self.assertEqual(page.evaluate(BEYOND), [])
                        self.assertEqual(page.evaluate(CUT), [])
                        self.assertEqual(page.evaluate(HIDDEN), [])
                        for box in page.evaluate("[...document.querySelectorAll('.panel:not([hidden]) .plot')].map(each => [each.clientWidth, each.clientHeight])"):
                            self.assertGreater(box[0], size[0] * 0.4)
                            self.assertGreater(box[1], 75)


class Fingers(pages.Case):
    def box(self, page, view):
        """left, top, width, height of the picture, which is brought into the window"""
        return page.evaluate("(e => { e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; })"
                             "(document.querySelector('%s canvas'))" % view)

    def shown(self, page):
        page.settle()
        return page.evaluate("(({from, to}) => [from, to])(gpupoolPage.state())")

    def opened(self, view, **options):
        page = self.open(pages.golden("growing-cache"), size=SIZES["a phone"], **options)
        page.evaluate("gpupoolPage.selection.set({axis: 'event'}); 1")
        self.show(page, view)
        return page, page.evaluate("gpupoolPage.context.recording().end")

    def test_a_pinch_zooms_and_a_drag_moves(self):
        for view in ("bands", "addresses"):
            page, end = self.opened(view)
            left, top, width, height = self.box(page, "#view-" + view)
            x, y = left + width / 2, top + height / 2
            page.fingers([(x - 40, y), (x + 40, y)], [(x - 120, y + 30), (x + 120, y + 30)])
            first = self.shown(page)
            with self.subTest(view):
                self.assertAlmostEqual((first[1] - first[0]) / end, 1 / 3, delta=0.02)
                self.assertAlmostEqual((first[0] + first[1]) / 2 / end, 0.5, delta=0.02)
                page.fingers([(x, y)], [(x - 100, y)])
                second = self.shown(page)
                self.assertAlmostEqual((second[0] - first[0]) / (first[1] - first[0]), 100 / width, delta=0.03)
                self.assertAlmostEqual(second[1] - second[0], first[1] - first[0], delta=3)
                page.fingers([(x - 150, y), (x + 150, y)], [(x - 20, y), (x + 20, y)])
                self.assertEqual(self.shown(page), [0, end])

    def test_a_pinch_on_end_zooms_addresses(self):
        page, end = self.opened("addresses")
        left, top, width, height = self.box(page, "#view-addresses")
        x, y = left + width / 2, top + height / 2
        text = "document.querySelector('#view-addresses .note').textContent"
        whole = page.evaluate(text)
        page.fingers([(x, y - 30), (x + 5, y + 30)], [(x, y - 120), (x + 5, y + 120)])
        self.assertEqual(self.shown(page), [0, end])
        self.assertNotEqual(page.evaluate(text), whole)
        page.evaluate("[...document.querySelectorAll('#view-addresses button')].find(each => each.textContent === 'all addresses').click()")
        page.settle()
        self.assertEqual(page.evaluate(text), whole)

    def test_a_tap_selects(self):
        for view in ("bands", "addresses", "state"):
            page, _ = self.opened(view)
            left, top, width, height = self.box(page, "#view-" + view)
            page.tap(left + width * 0.6, top + (8 if view == "state" else height - 60))
            page.settle()
            with self.subTest(view):
                life = page.evaluate("gpupoolPage.state().life")
                self.assertGreaterEqual(life, 0)
                self.assertFalse(page.evaluate("document.querySelector('.details').hidden"))
        page, end = self.opened("bands")
        left, top, width, _ = self.box(page, ".curve")
        page.tap(left + width / 2, top + 40)
        page.settle()
        self.assertAlmostEqual(page.evaluate("gpupoolPage.state().at") / end, 0.5, delta=0.02)

    def test_the_curve(self):
        page, end = self.opened("bands")
        left, top, width, _ = self.box(page, ".curve")
        y = top + 40
        page.fingers([(left + width * 0.2, y)], [(left + width * 0.4, y)])  # all is selected: this selects a part
        first = [moment / end for moment in self.shown(page)]
        self.assertAlmostEqual(first[0], 0.2, delta=0.02)
        self.assertAlmostEqual(first[1], 0.4, delta=0.02)
        page.fingers([(left + width * 0.3, y)], [(left + width * 0.6, y)])  # which is then moved
        second = [moment / end for moment in self.shown(page)]
        self.assertAlmostEqual(second[0], 0.5, delta=0.03)
        self.assertAlmostEqual(second[1], 0.7, delta=0.03)
        page.fingers([(left + width * 0.4, y), (left + width * 0.6, y)], [(left + width * 0.3, y), (left + width * 0.8, y)])
        third = [moment / end for moment in self.shown(page)]
        self.assertAlmostEqual(third[0], 0.3, delta=0.02)
        self.assertAlmostEqual(third[1], 0.8, delta=0.02)

    def test_a_finger_that_goes_up_scrolls_the_page(self):
        page, end = self.opened("bands")
        left, top, width, _ = self.box(page, "#view-bands")
        top += page.evaluate("scrollY")
        page.evaluate("scrollTo(0, 0)")
        page.fingers([(left + width / 2, top + 200)], [(left + width / 2 + 3, top + 20)], 12)
        page.wait_for("scrollY > 20")
        self.assertEqual(self.shown(page), [0, end])
        self.assertEqual(page.evaluate("gpupoolPage.state().life"), -1)


if __name__ == "__main__":
    pages.main(__doc__)
