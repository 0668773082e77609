"""Pages on narrow or enlarged screens.

    test_narrow.py GPUPOOL [TEST ...]
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
# Controls that cannot be brought to where they can be pressed.
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


if __name__ == "__main__":
    pages.main(__doc__)
