"""The phases of the program in a page: the band below the curve, and their table.

    test_phases.py GPUPOOL [TEST ...]
"""

import json

import pages
from cli import MIB
from cli_phases import Phased, training
from test_narrow import BEYOND, CUT, SIZES

SIZE = (1180, 640)
ROW = 14  # tools/html/page/phases.js
AXIS = 20


def spans_of(snapshot):
    """[(begin, end, depth, name)] of the only thread: the numbers of events up to where each range begins and ends."""
    times = snapshot["events"]["time_ns"]
    stack, spans = [], []
    for mark in snapshot["marks"]:
        moment = sum(time <= mark["time_ns"] for time in times)
        if mark["kind"] == "push":
            stack.append((moment, len(stack), mark["name"]))
        else:
            begin, depth, name = stack.pop()
            spans.append((begin, moment, depth, name))
    return sorted(spans, key=lambda span: (span[0], span[2]))


class Phases(pages.Case):
    def opened(self, snapshot=None, **options):
        path = pages.write("phases.json", snapshot or training())
        return self.open(path, **dict({"size": SIZE}, **options))

    def found(self, page):
        return [tuple(span) for span in page.evaluate("gpupoolPage.page.recordings[0].phases.map(({begin, end, depth, name}) => [begin, end, depth, name])")]

    def chosen(self, page):
        page.settle()
        return tuple(page.evaluate("(({from, to}) => [from, to])(gpupoolPage.state())"))

    def place(self, page, part, row):
        """A place in a row of the band; -1: in the curve."""
        left, top, width, height = page.evaluate("(b => [b.left, b.top, b.width, b.height])(document.querySelector('.curve canvas').getBoundingClientRect())")
        return left + width * part, top + height - AXIS - 2 * ROW + row * ROW + ROW / 2

    def part_of(self, page, moment):
        return page.evaluate("(r => (r.timeOf(%d) - r.timeOf(0)) / (r.timeOf(r.end) - r.timeOf(0)))(gpupoolPage.page.recordings[0])" % moment)

    def test_spans_are_those_of_the_marks(self):
        page = self.opened()
        self.assertEqual(self.found(page), spans_of(training()))

    def test_ranges_of_the_process_and_marks(self):
        program = Phased()
        program.mark("mark", "warm")
        program.alloc(MIB)
        program.mark("begin", "epoch", scope=1)
        program.alloc(MIB)
        program.mark("mark", "step")
        program.alloc(MIB)
        program.mark("mark", "step")
        program.alloc(MIB)
        program.mark("mark", "empty")
        program.mark("end", scope=1)
        program.alloc(MIB)
        self.assertEqual(self.found(self.opened(program.snapshot())), [(0, 2, 0, "warm"), (2, 4, 0, "epoch"), (4, 6, 0, "step"), (6, 8, 0, "step"), (8, 10, 0, "warm")])

    def test_a_part_of_the_time(self):
        """Phases are cut where the part begins and ends."""
        path = pages.write("phases.json", training())
        part = pages.os.path.join(pages.folder, "part.html")
        pages.tool("html", "--range", "30..60", path, "-o", part, "--force")
        page = self.open_page(part)
        first, last = 31, 61
        wanted = [(max(begin, first) - first, min(end, last) - first, depth, name) for begin, end, depth, name in spans_of(training()) if end > first and begin < last]
        self.assertEqual(self.found(page), sorted(wanted, key=lambda span: (span[0], span[2])))

    def test_a_click_selects_the_time_of_a_phase(self):
        page = self.opened()
        end = page.evaluate("gpupoolPage.page.recordings[0].end")
        steps = [span for span in spans_of(training()) if span[3] == "step"]
        backward = [span for span in spans_of(training()) if span[3] == "backward"]
        for row, (begin, until, _, name) in ((0, steps[1]), (1, backward[4])):
            middle = (self.part_of(page, begin) + self.part_of(page, until)) / 2
            with self.subTest(name):
                page.move(*self.place(page, middle, row))
                page.settle()
                self.assertEqual(page.evaluate("document.querySelector('.curve .hint div').textContent"), name)
                page.click(*self.place(page, middle, row))
                self.assertEqual(self.chosen(page), (begin, until))
                page.click(*self.place(page, middle, row))
                self.assertEqual(self.chosen(page), (0, end))
        at = page.evaluate("gpupoolPage.state().at")
        page.click(*self.place(page, 0.5, -1))
        self.assertEqual(self.chosen(page), (0, end))
        self.assertNotEqual(page.evaluate("gpupoolPage.state().at"), at)
        save = spans_of(training())[-1]
        page.click(*self.place(page, (self.part_of(page, save[0]) + self.part_of(page, save[1])) / 2, 1))
        self.assertEqual(self.chosen(page), save[:2])  # nothing is inside it: its own row is above

    def test_long_names_on_narrow_screens(self):
        program = Phased()
        program.push(*("range_%d_" % i + "x" * 60 for i in range(6)))  # more than the band has rows
        program.alloc(MIB)
        page = self.opened(program.snapshot())
        self.table(page, "phases")
        for name, size in SIZES.items():
            page.resize(size)
            page.settle()
            with self.subTest(screen=name):
                self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), size[0])
                self.assertEqual(page.evaluate(BEYOND), [])
                self.assertEqual(page.evaluate(CUT), [])
        self.assertLess(len(page.evaluate("document.querySelector('.curve .moment').textContent")), 300)
        page.click(*self.place(page, 0.5, 1))  # the fourth row
        self.assertEqual(self.chosen(page)[0], 0)

    def test_keys(self):
        """Enter selects the innermost phase of the moment, then those around it."""
        page = self.opened()
        forward = [span for span in spans_of(training()) if span[3] == "forward"][1]
        step = [span for span in spans_of(training()) if span[3] == "step"][1]
        page.evaluate("gpupoolPage.selection.set({at: %d}); document.querySelector('.curve canvas').focus(); 1" % (forward[0] + 1))
        page.settle()
        self.assertIn(", in step, forward", page.evaluate("document.querySelector('.curve .moment').textContent"))
        self.assertIn(", in step, forward, allocated", page.evaluate("document.querySelector('.curve canvas').getAttribute('aria-valuetext')"))
        self.assertIn("Enter selects", page.evaluate("document.querySelector('.curve canvas').getAttribute('aria-description')"))
        for wanted in (forward[:2], step[:2], (0, page.evaluate("gpupoolPage.page.recordings[0].end"))):
            page.key("Enter")
            self.assertEqual(self.chosen(page), wanted)
        page.evaluate("gpupoolPage.selection.set({at: 0}); 1")
        page.key("Enter")
        self.assertEqual(self.chosen(page), wanted)

    def test_the_table_is_that_of_the_summary(self):
        page = self.opened()
        self.table(page, "phases")
        rows = {row[0]: tuple(map(int, row[1:])) for row in self.copied(page, ".tables button.copy")[1:]}
        wanted = {phase["name"]: tuple(phase[name] for name in ("times", "peak", "left", "first_end", "last_end", "most_end"))
                  for phase in pages.report("summary", pages.os.path.join(pages.folder, "phases.json"))["phases"]}
        self.assertEqual(rows, wanted)
        self.assertEqual(rows["step"][0], 6)
        end = page.evaluate("gpupoolPage.page.recordings[0].end")
        steps = [span for span in spans_of(training()) if span[3] == "step"]
        page.evaluate("document.querySelector('.tables .table').focus()")
        page.key("Home")
        page.key("Enter")
        self.assertEqual(self.chosen(page), (steps[0][0], steps[-1][1]))
        self.assertTrue(page.evaluate("document.querySelector('.tables [data-id=phases]').getAttribute('aria-pressed') === 'true'"))
        page.key("Enter")
        self.assertEqual(self.chosen(page), (0, end))

    def test_a_recording_without_phases(self):
        """Beside one that has some."""
        with_phases = pages.write("phases.json", training())
        page = self.open(with_phases, pages.golden("leak"))
        self.table(page, "phases")
        height = "document.querySelector('.curve .plot').clientHeight"
        self.assertEqual(page.evaluate(height), 128 + 2 * ROW)
        page.evaluate("gpupoolPage.selection.open(1); 1")
        page.settle()
        self.assertEqual(page.evaluate(height), 128)
        self.assertFalse(page.evaluate("document.querySelector('.tables [data-id=phases]').checkVisibility()"))
        self.assertEqual(page.evaluate("document.querySelector('.tables [aria-pressed=true]').dataset.id"), "owners")
        self.assertNotIn(" in ", page.evaluate("document.querySelector('.curve .moment').textContent"))
        page.evaluate("document.querySelector('.curve canvas').focus()")
        page.key("Enter")
        self.assertEqual(json.loads(page.evaluate("JSON.stringify(gpupoolPage.page.recordings[1].phases)")), [])


if __name__ == "__main__":
    pages.main(__doc__)
