#!/usr/bin/env python3
"""The pictures of memory: the curve, bands, addresses and the state of the pool, against the reports; and how they are moved.

    test_memory.py GPUPOOL [unittest arguments]
"""

import json
import pickle

import pages
import test_expandable
import test_import

SERIES = "(() => { const s = gpupoolPage.context.series(%d); return Object.fromEntries(Object.keys(s).map(name => [name, s[name].values[%d]])); })()"


class Memory(pages.Case):
    def state(self, page):
        page.settle()
        return json.loads(page.evaluate("document.querySelector('.figures').dataset.state"))

    def select(self, page, **what):
        page.evaluate("gpupoolPage.selection.set(%s); 1" % json.dumps(what))
        page.settle()

    def test_the_state_is_that_of_frag(self):
        expandable = pages.write("expandable.pickle", pickle.dumps(test_expandable.Allocator(3).run(200).snapshot()))
        for path in (*map(pages.golden, ("pieces", "oom-cached", "train", "leak")), expandable):
            page = self.open(path)
            end = page.evaluate("gpupoolPage.context.recording().end")
            for event in (0, end // 3, end // 2, end - 1):
                report = pages.report("frag", path, "--at", str(event))
                for device in report["devices"]:
                    with self.subTest(snapshot=path, event=event, device=device["device"]):
                        self.select(page, view="state", at=event + 1, device=device["device"])
                        found = self.state(page)
                        self.assertEqual(found["reserved"], device["reserved"])
                        self.assertEqual(found["allocated"], device["live"]["bytes"])
                        self.assertEqual(found["requested"], device["requested"])
                        self.assertEqual(found["pending"], device["pending_free"]["bytes"])
                        self.assertEqual(found["idle"], device["idle"]["bytes"])
                        self.assertEqual(found["largest_idle"], device["largest_idle"])

    def test_what_was_reserved_may_not_be_known(self):
        """A map of what is there already: an unmap is missing."""
        program = test_expandable.Allocator(3).run(60)
        snapshot = program.snapshot()
        snapshot["device_traces"][0] += [dict(event) for event in program.trace if event["action"] == "segment_map"]
        page = self.open(pages.write("contradiction.pickle", pickle.dumps(snapshot)))
        end = page.evaluate("gpupoolPage.context.recording().end")
        for moment, is_known in ((end // 2, False), (end, True)):
            self.select(page, view="state", at=moment, device=0)
            for place in (".legend", ".figures"):
                self.assertEqual("not known" in page.evaluate("document.querySelector('%s').innerText" % place), not is_known)

    def test_the_curve_goes_through_the_state(self):
        for name in ("pieces", "oom-cached", "leak"):
            page = self.open(pages.golden(name))
            end = page.evaluate("gpupoolPage.context.recording().end")
            device = page.evaluate("gpupoolPage.context.recording().devices[0]")
            for moment in (0, 1, end // 4, end // 2, end):
                with self.subTest(snapshot=name, moment=moment):
                    self.select(page, view="state", at=moment, device=device)
                    found = self.state(page)
                    values = page.evaluate(SERIES % (device, moment))
                    self.assertEqual({key: values[key] for key in ("reserved", "allocated", "requested", "pending", "forwarded")},
                                     {key: found[key] for key in ("reserved", "allocated", "requested", "pending", "forwarded")})

    def test_the_most_of_a_part_is_the_most_of_its_moments(self):
        page = self.open(pages.golden("growing-cache"))
        wrong = page.evaluate("""(() => { const s = gpupoolPage.context.series(-1).allocated; const end = s.values.length - 1; let wrong = 0;
            for (let i = 0; i < 3000; i++) { const a = (i * 7919) % (end + 1), b = Math.min(end, a + (i * 104729) % (i % 3 ? 40 : 5000));
              let most = 0; for (let k = a; k <= b; k++) most = Math.max(most, s.values[k]);
              wrong += s.most(a, b) !== most; }
            return wrong; })()""")
        self.assertEqual(wrong, 0)

    def test_bands_are_as_high_as_the_curve(self):
        for name in ("train", "growing-cache", "leak"):
            page = self.open(pages.golden(name))
            self.select(page, view="bands")
            differences, bands = page.evaluate("""(() => { const g = gpupoolPage; const {axis, total, columns, chosenCount, others} = g.views.bands.layout();
                const s = g.context.series(-1); const places = axis.columns(); let differences = 0, moment = 0;
                for (let x = 0; x < columns; x++) { /* after the last moment of each column */
                  while (moment < places.length - 2 && places[moment + 1] <= x) moment++;
                  differences += total[x] !== s.allocated.values[moment] + s.forwarded.values[moment]; }
                return [differences, chosenCount + others]; })()""")
            with self.subTest(snapshot=name):
                self.assertEqual(differences, 0)
                self.assertGreater(bands, 60)

    def test_a_click_on_a_band_selects_it(self):
        page = self.open(pages.golden("leak"))
        self.select(page, view="bands")
        box = page.evaluate("(() => { const b = document.querySelector('#view-bands canvas').getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; })()")
        page.click(box[0] + box[2] * 0.8, box[1] + box[3] - 26)
        page.settle()
        life = page.evaluate("gpupoolPage.selection.state.life")
        self.assertGreaterEqual(life, 0)
        at, begin, freed = page.evaluate("(() => { const {lives} = gpupoolPage.context.recording(); const l = %d; return [gpupoolPage.selection.state.at, lives.begin[l], lives.freed[l]]; })()" % life)
        self.assertTrue(begin <= at < freed, (begin, at, freed))
        self.assertIn("devices.c", page.evaluate("document.querySelector('.details').textContent"))
        page.key("Escape")
        page.settle()
        self.assertEqual(page.evaluate("[gpupoolPage.selection.state.life, document.querySelector('.details').hidden]"), [-1, True])

    def test_a_click_on_addresses_selects_what_is_there(self):
        page = self.open(pages.golden("oom-cached"))
        self.select(page, view="addresses")
        box = page.evaluate("(() => { const b = document.querySelector('#view-addresses canvas').getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; })()")
        page.click(box[0] + box[2] * 0.5, box[1] + box[3] - 60)  # the block of 501 MiB is the lowest of note
        page.settle()
        requested = page.evaluate("(() => { const r = gpupoolPage.context.recording(); return r.lives.requested[gpupoolPage.selection.state.life]; })()")
        self.assertEqual(round(requested / 2 ** 20), 501)

    def test_the_wheel_zooms_and_a_drag_moves(self):
        page = self.open(pages.golden("growing-cache"))
        self.select(page, view="bands")
        end = page.evaluate("gpupoolPage.context.recording().end")
        box = page.evaluate("(() => { const b = document.querySelector('#view-bands canvas').getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; })()")
        x, y = box[0] + box[2] / 2, box[1] + box[3] / 2
        for _ in range(6):
            page.wheel(x, y, delta_y=-100)
        page.settle()
        first = page.evaluate("[gpupoolPage.selection.state.from, gpupoolPage.selection.state.to]")
        self.assertTrue(0 < first[0] < end / 2 < first[1] < end, first)
        self.assertLess(first[1] - first[0], end / 4)
        page.drag((x, y), (x - 200, y))
        page.settle()
        second = page.evaluate("[gpupoolPage.selection.state.from, gpupoolPage.selection.state.to]")
        self.assertGreater(second[0], first[0])
        self.assertAlmostEqual(second[1] - second[0], first[1] - first[0], delta=3)
        page.key("f")
        page.settle()
        self.assertEqual(page.evaluate("[gpupoolPage.selection.state.from, gpupoolPage.selection.state.to]"), [0, end])

    def test_a_drag_over_the_curve_chooses_the_time(self):
        page = self.open(pages.golden("growing-cache"))
        end = page.evaluate("gpupoolPage.context.recording().end")
        box = page.evaluate("(() => { const b = document.querySelector('.curve canvas').getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; })()")
        page.drag((box[0] + box[2] * 0.25, box[1] + 40), (box[0] + box[2] * 0.5, box[1] + 40))
        page.settle()
        begin, last = page.evaluate("[gpupoolPage.selection.state.from, gpupoolPage.selection.state.to]")
        self.assertAlmostEqual(begin / end, 0.25, delta=0.01)
        self.assertAlmostEqual(last / end, 0.5, delta=0.01)

    def test_steps_go_from_event_to_event(self):
        page = self.open(pages.golden("leak"))
        self.select(page, view="state", at=10)
        page.key("]")
        page.key("]")
        page.key("[")
        page.settle()
        self.assertEqual(page.evaluate("gpupoolPage.selection.state.at"), 11)
        text = page.evaluate("document.querySelector('#view-state .event').textContent")
        self.assertIn("event 10", text)
        page.key("1")
        page.settle()
        self.assertEqual(page.evaluate("gpupoolPage.selection.state.view"), "findings")

    def test_words_for_events_are_those_of_the_record(self):
        with open(pages.golden("leak"), encoding="utf-8") as file:
            events = json.load(file)["events"]
        words = {"alloc": "allocated: ", "free_requested": "freed: ", "free_completed": "no longer in use by the device: ",
                 "segment_alloc": "from the driver: ", "segment_free": "back to the driver: ", "mode": "the reuse rule changed"}
        page = self.open(pages.golden("leak"))
        self.select(page, view="state")
        seen = set()
        for number in range(0, len(events["action"]), 7):
            action = events["action"][number]
            action = action if isinstance(action, str) else events["actions"][action]
            self.select(page, at=number + 1)
            text = page.evaluate("document.querySelector('#view-state .event').textContent")
            with self.subTest(event=number):
                self.assertIn("event %s: %s" % ("{:,}".format(number), words[action]), text)
            seen.add(action)
        self.assertGreaterEqual(len(seen), 4)

    def test_a_search_selects_by_stack_thread_and_address(self):
        page = self.open(pages.golden("growing-cache"))
        lives = page.evaluate("(() => { const r = gpupoolPage.context.recording(); return [...r.lives.owner].map((owner, i) => [r.owners[owner].name, r.lives.address[i], r.lives.rounded[i]]); })()")
        for words, wanted in (("APPEND", sum(life[0].startswith("append") for life in lives)), ("growing_cache.cc", len(lives)),
                              ("no such function", 0),
                              ("0x%x" % lives[3][1], sum(life[1] <= lives[3][1] < life[1] + life[2] for life in lives))):
            with self.subTest(words=words):
                self.select(page, search=words)
                found = page.evaluate("gpupoolPage.selection.matches().reduce((sum, each) => sum + each, 0)")
                self.assertEqual(found, wanted)
        self.assertGreater(len(lives), 1000)

    def test_a_device_has_its_own_curve(self):
        page = self.open(pages.golden("leak"))
        end = page.evaluate("gpupoolPage.context.recording().end")
        every = page.evaluate(SERIES % (-1, end))
        each = [page.evaluate(SERIES % (device, end)) for device in range(4)]
        for name, value in every.items():
            self.assertEqual(sum(one[name] for one in each), value)

    def test_what_is_left_out_is_said(self):
        page = self.open(pages.golden("growing-cache"))
        page.evaluate("gpupoolPage.context.recording().leftOut = {count: 54321, largest: 4096}; 1")
        for view, selector, says in (("bands", "#view-bands .note", True), ("flame", "#view-flame", False), ("tables", "#view-tables", False)):
            with self.subTest(view=view):
                self.select(page, view=view, **{"from": 0})
                self.assertEqual("54,321" in page.evaluate("document.querySelector('%s').innerText" % selector), says)
                self.select(page, **{"from": 100})  # of a part what the tool counted does not help
                self.assertIn("54,321", page.evaluate("document.querySelector('%s').innerText" % selector))

    def test_without_times_the_axis_is_of_events(self):
        page = self.open(pages.write("streams.json", test_import.ten_streams()))
        self.assertEqual(page.evaluate("[gpupoolPage.context.recording().hasTimes, gpupoolPage.selection.state.axis]"), [False, "event"])
        self.assertTrue(page.evaluate("document.querySelector('select[aria-label=\"Horizontal axis\"]').hidden"))


class Questions(pages.Case):
    """doc/html.md, "Three questions": with the clicks that it says."""

    def click_text(self, page, text):
        page.evaluate("[...document.querySelectorAll('button')].find(each => !each.disabled && each.offsetParent && each.textContent === %s)"
                      ".setAttribute('data-click', ''); 1" % json.dumps(text))
        page.click_on("[data-click]")
        page.evaluate("document.querySelectorAll('[data-click]').forEach(each => each.removeAttribute('data-click')); 1")
        page.settle()

    def test_who_held_most(self):
        path = pages.golden("growing-cache")
        page = self.open(path)
        owner = pages.report("summary", path)["owners"][0]
        text = page.evaluate("document.querySelector('.findings').innerText")
        self.assertIn("the biggest owners are %s" % owner["function"], text)
        self.click_text(page, "Stacks")
        self.assertIn("llocated when memory ran out", page.evaluate("document.querySelector('#view-flame').innerText"))

    def test_what_is_in_the_way(self):
        page = self.open(pages.golden("pieces"))
        self.click_text(page, "the memory at that moment")
        self.click_text(page, "what is beside it")
        found = page.evaluate("""(() => { const g = gpupoolPage; const {life, at} = g.selection.state; const {lives} = g.context.recording();
            const s = g.views.state.state(); const piece = s.segments.flatMap(each => each.pieces.map((p, i) => [p, each.pieces[i - 1], each.pieces[i + 1]]))
              .filter(([p]) => p.life < 0 && p.size === s.largestIdle); return [life, lives.freed[life] > at, piece.some(([, a, b]) => (a && a.life === life) || (b && b.life === life))]; })()""")
        self.assertGreaterEqual(found[0], 0)
        self.assertEqual(found[1:], [True, True])
        self.assertFalse(page.evaluate("document.querySelector('.details').hidden"))

    def test_what_grows(self):
        page = self.open(pages.golden("growing-cache"))
        box = page.evaluate("(() => { const b = document.querySelector('.curve canvas').getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; })()")
        page.drag((box[0] + box[2] * 0.3, box[1] + 40), (box[0] + box[2] * 0.6, box[1] + 40))
        self.click_text(page, "Tables")
        self.click_text(page, "Grown by")
        first = page.evaluate("document.querySelector('#view-tables [role=row][aria-rowindex=\"2\"]').innerText")
        self.assertTrue(first.startswith("append"), first)


if __name__ == "__main__":
    pages.main(__doc__)
