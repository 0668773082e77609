"""What stacks and tables show, beside what the reports say of the same snapshots.

    test_views.py GPUPOOL [TEST ...]
"""

import collections
import json
import pickle
import re

import pages
import cli
import histories
import test_export
import test_import
from cli import MIB

ALL = "{...functions.selection.state}"
MEASURES = {"live": "live", "peak": "peak", "total": "total", "count": "total", "temporary": "temporary"}


def has_stacks(name):
    with open(pages.golden(name), encoding="utf-8") as file:
        return bool(json.load(file)["stacks"])


def by_name(sites, sort):
    """{name: (bytes, count)} of `gpupool sites --json`, of those that have something"""
    amounts = ((site["name"], site["flat"][MEASURES[sort]]) for site in sites["sites"])
    return {name: (amount["bytes"], amount["count"]) for name, amount in amounts if amount["count"]}


class Stacks(pages.Case):
    def functions(self, path):
        return self.open_page(pages.page_with_functions(path))

    def amounts(self, page, measure, state=ALL):
        """{owner: (bytes, count)} of the page"""
        rows = page.evaluate("""(() => { const recording = functions.recordings[0], sums = {};
            const amounts = functions.amountsOf(recording, %s, '%s');
            amounts.counts.forEach((count, group) => { if (!count) return;
              const owner = amounts.byStack ? (group < recording.stacks.count ? recording.stacks.owner[group] : recording.owners.length - 1) : group;
              const sum = sums[recording.owners[owner].name] ||= [0, 0]; sum[0] += amounts.bytes[group]; sum[1] += count; });
            return sums; })()""" % (state, measure))
        return {name: tuple(sum) for name, sum in rows.items()}

    def test_owners_are_those_of_sites(self):
        for name in pages.golden_names():
            path = pages.golden(name)
            page = self.functions(path)
            for sort in MEASURES:
                with self.subTest(name=name, sort=sort):
                    self.assertEqual(self.amounts(page, sort), by_name(pages.report("sites", path), sort))

    def test_a_device(self):
        path = pages.golden("oom-stacks")
        page = self.functions(path)
        for device in (0, 1, 3):
            for sort in MEASURES:
                with self.subTest(device=device, sort=sort):
                    self.assertEqual(self.amounts(page, sort, "{...functions.selection.state, device: %d}" % device),
                                     by_name(pages.report("sites", path, "--device", str(device)), sort))

    def test_a_moment(self):
        for name in ("growing-cache", "oom-cached", "pieces", "leak", "train"):
            path = pages.golden(name)
            page = self.functions(path)
            last = pages.report("summary", path)["events"]["count"] - 1
            for event in (0, last // 3, last):
                with self.subTest(name=name, event=event):
                    self.assertEqual(self.amounts(page, "live", "{...functions.selection.state, to: %d}" % (event + 1)),
                                     by_name(pages.report("sites", path, "--at", str(event)), "live"))

    def test_when_memory_ran_out(self):
        for name in ("growing-cache", "oom-stacks", "oom-busy", "oom-limit", "oom-cached"):
            path = pages.golden(name)
            page = self.functions(path)
            for state in (ALL, "{...functions.selection.state, from: 1}"):  # of the tool's sums, and of the allocations
                with self.subTest(name=name, state=state):
                    self.assertEqual(self.amounts(page, "oom", state), by_name(pages.report("sites", path, "--at", "oom"), "live"))

    def test_devices_without_times(self):
        """Their moments cannot be told apart: the peak is that of the device that held most."""
        first = [test_import.entry("alloc", (20 + i) * MIB, MIB, 0) for i in range(3)]
        second = [test_import.entry("alloc", 50 * MIB, 4 * MIB, 0), test_import.entry("free_requested", 50 * MIB, 4 * MIB, 0),
                  test_import.entry("free_completed", 50 * MIB, 4 * MIB, 0), test_import.entry("alloc", 60 * MIB, 2 * MIB, 0)]
        for frames in (None, [test_import.frame("step", 7)]):
            for event in first + second:
                event.pop("time_us", None)
                if frames and event["action"] == "alloc":
                    event["frames"] = frames
            path = pages.write("untimed.pickle", pickle.dumps({"segments": [], "device_traces": [first, second]}))
            page = self.functions(path)
            self.assertFalse(page.evaluate("functions.recordings[0].hasTimes"))
            for state in [ALL] + ["{...functions.selection.state, owner: 0}"] * bool(frames):  # of the tool's sums, and of allocations
                with self.subTest(frames=frames, state=state):
                    wanted = by_name(pages.report("sites", path), "peak")
                    self.assertLess(sum(bytes for bytes, _ in wanted.values()), 5 * MIB)
                    self.assertEqual(self.amounts(page, "peak", state), wanted)

    def test_no_peak_without_a_history(self):
        path = pages.write("no-history.pickle", histories.no_history())
        page = self.functions(path)
        self.assertEqual(page.evaluate("functions.measuresOf(functions.recordings[0]).map(measure => measure.id)"), ["live"])
        self.assertEqual(page.evaluate("functions.defaultMeasure(functions.recordings[0])"), "live")
        page = self.open(path)
        self.table(page, "owners")
        self.assertEqual(self.copied(page, ".tables button.copy")[0], ["Owner", "At the end", "Blocks"])

    def check_tree(self, path):
        def plain(nodes):
            return {node["name"]: (node["bytes"], node["count"], plain(node["callers"])) for node in nodes}
        page = self.functions(path)
        for sort in MEASURES:
            with self.subTest(path=path, sort=sort):
                tree = page.evaluate("""(() => { const recording = functions.recordings[0], by = functions.measureOf('%s').byCount;
                    const tree = functions.makeTree(recording, functions.amountsOf(recording, %s, '%s'),
                      {byCount: by, callers: true, frames: 'merged', allFrames: false});
                    return functions.listed(tree); })()""" % (sort, ALL, sort))
                self.assertEqual(plain(tree), plain(pages.report("sites", path, "--tree", "--sort", sort)["tree"]))
                amounts = [node["count" if sort in ("count", "temporary") else "bytes"] for node in tree]
                self.assertEqual(amounts, sorted(amounts, reverse=True))

    def test_the_tree_is_that_of_sites(self):
        for name in filter(has_stacks, pages.golden_names()):
            self.check_tree(pages.golden(name))
        self.check_tree(pages.write("torch.pickle", pickle.dumps(test_import.torch_snapshot())))

    def test_an_owner_that_calls_itself(self):
        """Of the user's frames the innermost is the owner, of a library's the outermost."""
        for frames in ([("forward", 7, "model.py"), ("forward", 30, "model.py"), ("main", 99, "train.py")],
                       [("at::add(int)", 7, "a.cpp"), ("at::mul(int)", 8, "a.cpp"), ("at::add(int)", 9, "a.cpp")]):
            snapshot = test_import.torch_snapshot()
            for event in snapshot["device_traces"][0]:
                if event.get("frames"):
                    event["frames"] = [test_import.frame(*each) for each in frames]
            self.check_tree(pages.write("itself.pickle", pickle.dumps(snapshot)))

    def test_a_layout_has_all_of_it(self):
        """Each box lies below its parent, children fill it as far as they have its amount, and nothing is drawn twice."""
        page = self.functions(pages.golden("wrappers-debug"))
        page.evaluate("""window.tree = (options, measure = 'peak') => functions.makeTree(functions.recordings[0],
            functions.amountsOf(functions.recordings[0], functions.selection.state, measure),
            {byCount: false, callers: false, frames: 'merged', allFrames: false, ...options})""")
        for options in ("{}", "{callers: true}", "{allFrames: true}", "{frames: 'python'}"):
            boxes = page.evaluate("""(() => { const made = tree(%s), boxes = functions.layoutIcicle(made, 1000, 0.01);
                const nodes = boxes.map(box => box.node); return boxes.map((box, i) => (
                {...box, node: i, parent: nodes.indexOf(box.node.parent), share: box.node.value / made.value})); })()""" % options)
            places = {box["node"]: box for box in boxes}
            self.assertEqual(len(places), page.evaluate("new Set(functions.layoutIcicle(tree(%s), 1000, 0.01).map(box => box.node)).size" % options))
            self.assertGreater(len(boxes), 2)
            for box in boxes:
                with self.subTest(options=options, box=box):
                    self.assertAlmostEqual(box["width"], 1000 * box["share"], 3)
                    parent = places.get(box["parent"])
                    if parent:
                        self.assertEqual(box["row"], parent["row"] + 1)
                        self.assertGreaterEqual(box["x"], parent["x"])
                        self.assertLessEqual(box["x"] + box["width"], parent["x"] + parent["width"] + 0.001)
            for row in range(max(box["row"] for box in boxes) + 1):
                of_row = sorted((box["x"], box["width"]) for box in boxes if box["row"] == row)
                for (x, width), (next_x, _) in zip(of_row, of_row[1:]):
                    self.assertLessEqual(x + width, next_x + 0.001)
        zoomed = page.evaluate("""(() => { const made = tree({}); const node = made.children()[1].children()[0];
            return functions.layoutIcicle(node, 1000, 0.01).map(box => [box.row, box.x, box.width]); })()""")
        self.assertEqual(zoomed[:3], [[0, 0, 1000], [1, 0, 1000], [2, 0, 1000]])

    def test_frames_of_a_language(self):
        snapshot = test_import.torch_snapshot()
        native = test_import.frame("at::native::add(int)", 0, "")
        for event in snapshot["device_traces"][0]:
            if event.get("frames"):
                event["frames"] = event["frames"][:1] + [native] + event["frames"][1:]
        page = self.functions(pages.write("mixed.pickle", pickle.dumps(snapshot)))
        names = {}
        for frames in ("merged", "python", "native"):
            names[frames] = set(page.evaluate("""(() => { const made = functions.makeTree(functions.recordings[0],
                functions.amountsOf(functions.recordings[0], functions.selection.state, 'total'),
                {byCount: false, callers: false, frames: '%s', allFrames: true}); const names = nodes => nodes.flatMap(node => [node.name, ...names(node.callers)]); return names(functions.listed(made)); })()""" % frames))
        self.assertIn("at::native::add", names["native"] | {name.split("(")[0] for name in names["native"]})
        self.assertNotIn("main train.py:99", names["native"])
        self.assertNotIn("conv train.py:7", names["native"])
        self.assertIn("main train.py:99", names["python"])
        self.assertEqual({name for name in names["python"] if name.startswith("at::")}, set())
        self.assertLessEqual(names["python"] | names["native"], names["merged"])

    def test_a_search_counts_each_stack_once(self):
        page = self.functions(pages.golden("wrappers-debug"))
        found = page.evaluate("""(() => { const recording = functions.recordings[0], {selection} = functions;
            const words = ['', 'WRAPPERS.cc', 'load_weights', 'load_weights wrappers.cc:48', 'arena::', 'nowhere'];
            return words.map(search => { selection.set({search});
              const amounts = functions.amountsOf(recording, selection.state, 'peak', selection.found());
              const made = functions.makeTree(recording, amounts, {byCount: false, callers: false, frames: 'merged', allFrames: false});
              const names = nodes => nodes.flatMap(node => [node.name, ...names(node.callers)]);
              return [made.value, [...new Set(names(functions.listed(made)).filter(functions.markedBy(search)))]]; }); })()""")
        whole, everything, weights, line, arena, nowhere = found
        self.assertEqual(everything[0], whole[0])
        self.assertEqual(weights[0], 160 << 20)
        self.assertEqual(weights[1], ["load_weights wrappers.cc:48"])
        self.assertEqual(line[0], weights[0])
        self.assertLess(weights[0], arena[0])
        self.assertEqual(len([name for name in everything[1] if "wrappers.cc" not in name]), 0)
        self.assertEqual((whole[1], nowhere), ([], [0, []]))


def with_operators(lines=8):
    """A function whose lines call operators of PyTorch, as a snapshot with the frames of both languages has them."""
    def stack(line, operator):
        return [test_import.frame("at::_ops::%s::call(at::Tensor const&, at::Tensor const&)" % operator, 0, "??"),
                test_import.frame("THPVariable_method(_object*, _object*)", 0, "??"),
                test_import.frame("attend", line, "/src/model.py"), test_import.frame("main", 99, "/src/train.py")]
    allocations = [(20 + i, "add_Tensor" if i else "convolution", (100 + 10 * i) * MIB, MIB if i else 8 * MIB) for i in range(lines)]
    trace = [test_import.entry("alloc", address, size, 1700000000000000 + line, stack(line, operator))
             for line, operator, address, size in allocations]
    trace.append(test_import.entry("oom", 12345, 1 << 40, 1700000000001000, stack(20, "convolution")))
    segments = [{"device": 0, "address": address, "total_size": size, "stream": 0, "segment_type": "large", "allocated_size": size,
                 "active_size": size, "requested_size": size, "frames": [],
                 "blocks": [{"size": size, "requested_size": size, "address": address, "state": "active_allocated", "frames": stack(line, operator)}]}
                for line, operator, address, size in allocations]
    return pages.write("operators.pickle", pickle.dumps({"segments": segments, "device_traces": [trace]}))


def small():
    """Pooled and other memory of two devices and of the host, the same stack on both devices."""
    story = test_export.Story()
    story.add("segment_alloc", 2 * MIB, 4 * MIB)
    story.add("alloc", 2 * MIB, 1000, 1, stack=0, rounded=MIB)
    story.add("alloc", 3 * MIB, MIB, 2, stack=1, stream=1)
    story.add("free_requested", 3 * MIB, MIB, 2, stack=1, stream=1)
    story.add("free_completed", 3 * MIB, MIB, 2, stack=1, stream=1)
    story.add("segment_alloc", 2 * MIB, 4 * MIB, device=1)
    story.add("alloc", 2 * MIB, 3000, 3, stack=0, rounded=MIB, device=1)
    story.add("passthrough_alloc", 64 * MIB, 8192, 4, "managed", stack=0)
    story.add("passthrough_alloc", 5, 1 << 30, 5, "pinned_host", stack=0)
    story.add("alloc", 3 * MIB, MIB, 6, rounded=MIB)
    held = [test_export.block_of(2 * MIB, MIB, 1000, 1, stack=0), test_export.block_of(3 * MIB, MIB, MIB, 6)]
    other = [test_export.block_of(2 * MIB, MIB, 3000, 3, stack=0)]
    unpooled = [{"device": 0, "address": address, "size": size, "kind": kind, "stream": -1, "block": block, "time_ns": 9, "stack": 0}
                for address, size, kind, block in ((64 * MIB, 8192, "managed", 4), (5, 1 << 30, "pinned_host", 5))]
    return test_export.story_snapshot(
        events=story.events(), devices=[cli.device_of(0), cli.device_of(1)], passthrough=unpooled,
        segments=[test_export.segment_of(2 * MIB, *held, size=4 * MIB), test_export.segment_of(2 * MIB, *other, device=1, size=4 * MIB)])


def all_paths():
    return [pages.golden(name) for name in pages.golden_names()] + [pages.write("small.json", small())]


class Operators(pages.Case):
    LINE = "attend model.py:20 (aten::convolution)"

    def test_beside_the_python_line(self):
        page = self.open(with_operators())
        self.show(page, "flame")
        rows = page.evaluate("[...document.querySelectorAll('.flame-table .table-row')].map(row => row.firstElementChild.innerText)")
        self.assertIn(self.LINE, rows[0])
        self.assertTrue(any("attend model.py:21 (aten::add" in row for row in rows), rows)
        box = page.evaluate("(b => [b.x, b.y])(document.querySelector('.flame canvas').getBoundingClientRect())")
        page.move(box[0] + 20, box[1] + 20 * 2 + 10)
        self.assertIn(self.LINE, page.evaluate("document.querySelector('.flame-status').textContent"))
        self.table(page, "held")
        page.click_on(".tables .table-row")
        page.settle()
        self.assertEqual(self.copied(page, ".tables button.copy")[1][0], self.LINE)
        self.assertIn(self.LINE, page.evaluate("document.querySelector('.details dl').innerText"))
        stack = page.evaluate("[...document.querySelectorAll('.details .stack li')].map(row => row.innerText)")
        self.assertTrue(any("aten::convolution" in row and "model.py:20" in row for row in stack), stack)

    def test_other_lines_are_counted_as_in_the_summary(self):
        path = with_operators(8)
        for name, wanted in (("growing-cache", "append growing_cache.cc:58 and 1 other line through allocate"),
                             ("leak", "work devices.c:33 and 1 other line"),
                             (path, "attend model.py:20 and 7 other lines (aten::convolution)")):
            snapshot = path if name == path else pages.golden(name)
            with self.subTest(name):
                self.assertIn(wanted, json.dumps(pages.report("summary", snapshot)))
                page = self.open(snapshot)
                self.table(page, "owners")
                self.assertIn(wanted, [row[0] for row in self.copied(page, ".tables button.copy")[1:]])


class Searched(pages.Case):
    """What is searched for is all that a view shows, and how much that is stands beside it."""

    def chip(self, page):
        return page.evaluate("document.querySelector('.top [role=status]').innerText")

    def test_in_every_view(self):
        page = self.open(with_operators())
        for search, count in (("aten::add", 7), ("ATEN::CONVOLUTION", 1), ("model.py:23", 1), ("/src/train", 8), ("nowhere", 0)):
            with self.subTest(search):
                page.evaluate("gpupoolPage.selection.set({search: %s})" % json.dumps(search))
                self.assertEqual(self.chip(page), "%d of 8 allocations" % count)
                for which, rows in (("owners", min(count, 1)), ("held", count), ("sizes", min(count, 2 if count == 8 else 1)), ("events", count)):
                    self.table(page, which)
                    self.assertEqual(len(self.copied(page, ".tables button.copy")) - 1, rows, which)
                self.table(page, "owners")
                blocks = [row[4] for row in self.copied(page, ".tables button.copy")[1:]]
                self.assertEqual(blocks, [str(count)] * min(count, 1))
                self.show(page, "bands")
                self.assertTrue(page.evaluate("document.querySelector('#view-bands .note').textContent").startswith("%d allocations as bands" % count))
                self.show(page, "flame")
                rows = page.evaluate("document.querySelectorAll('.flame-table .table-row[aria-level=\"1\"]').length")
                self.assertEqual(rows, count)
                size = pages.size_text((count + 7 * (count in (1, 8) and "23" not in search)) << 20)
                self.assertIn("%s in all, of what is selected" % size, page.evaluate("document.querySelector('.flame h2').textContent"))
                self.assertIn("found: %s, " % size, page.evaluate("document.querySelector('.flame-status').textContent"))

    def test_a_caller_that_is_chosen_is_found(self):
        page = self.open(with_operators())
        self.show(page, "flame")
        page.click_on(".flame-table .table-row[aria-level=\"2\"]")
        page.settle()
        self.assertEqual(page.evaluate("gpupoolPage.state().search"), "main train.py:99")
        self.assertEqual(self.chip(page), "8 of 8 allocations")


class Tables(pages.Case):
    def rows(self, page, which):
        """The table as it is copied, a list of rows without the head."""
        self.table(page, which)
        return self.copied(page, ".tables button.copy")[1:]

    def test_owners_sizes_and_what_is_held(self):
        for path in all_paths():
            page = self.open(path)
            for check in (self.check_owners, self.check_what_is_held, self.check_sizes):
                with self.subTest(path=path, check=check.__name__):
                    check(page, path)

    def check_owners(self, page, path):
        names = dict(page.evaluate("gpupoolPage.page.recordings[0].owners.map(owner => [owner.text, owner.name])"))
        found = {names[row[0]]: tuple(map(int, row[1:8])) for row in self.rows(page, "owners")}
        wanted = {}
        for site in pages.report("sites", path)["sites"]:
            flat = site["flat"]
            if flat["total"]["count"]:
                wanted[site["name"]] = (flat["peak"]["bytes"], flat["peak"]["count"], flat["live"]["bytes"], flat["live"]["count"],
                                        flat["total"]["bytes"], flat["total"]["count"], flat["temporary"]["count"])
        self.assertEqual(found, wanted)

    def test_what_grows_in_a_part_of_the_time(self):
        page = self.open(pages.golden("growing-cache"))
        page.evaluate("gpupoolPage.selection.set({from: 1000, to: 5000}); 1")
        found = {row[0].split()[0]: int(row[8]) for row in self.rows(page, "owners")}
        wanted = page.evaluate("""(() => { const {lives, owners} = gpupoolPage.page.recordings[0]; const sums = {};
            for (let i = 0; i < lives.count; i++) for (const [moment, sign] of [[5000, 1], [1000, -1]])
              if (lives.begin[i] <= moment && moment < lives.freed[i])
                sums[owners[lives.owner[i]].name.split(' ')[0]] = (sums[owners[lives.owner[i]].name.split(' ')[0]] || 0) + sign * lives.requested[i];
            return sums; })()""")
        self.assertGreater(wanted["append"], 100 << 20)
        self.assertEqual({name: bytes for name, bytes in found.items() if bytes}, {name: bytes for name, bytes in wanted.items() if bytes})

    def check_what_is_held(self, page, path):
        found = collections.Counter((int(row[1]), int(row[2]), int(row[3]), row[4]) for row in self.rows(page, "held"))
        leaks = pages.report("leaks", path)
        wanted = collections.Counter((leak["bytes"], leak["count"], leak["device"], leak["kind"] or "pooled") for leak in leaks["leaks"])
        self.assertEqual(found, wanted)

    def check_sizes(self, page, path):
        rows = [list(map(int, row[:-1])) for row in self.rows(page, "sizes")]
        found = collections.Counter()
        for size, total, calls, live, blocks, _, temporary in rows:
            name_of = pages.size_text(size)
            for column, value in (("total", total), ("calls", calls), ("live", live), ("blocks", blocks), ("temporary", temporary)):
                found[name_of, column] += value
        wanted = collections.Counter()
        for site in pages.report("sites", path, "--by", "size")["sites"]:
            flat = site["flat"]
            for column, value in (("total", flat["total"]["bytes"]), ("calls", flat["total"]["count"]), ("live", flat["live"]["bytes"]),
                                  ("blocks", flat["live"]["count"]), ("temporary", flat["temporary"]["count"])):
                wanted[site["name"], column] += value
        self.assertEqual(found, wanted)
        for device in pages.report("summary", path)["devices"][:1]:
            by_size = {size: rounded for size, _, _, _, _, rounded, _ in rows}
            self.assertTrue(all(each["bytes"] <= by_size[each["requested_size"]] for each in device["biggest_live"]))

    def test_threads_and_streams(self):
        """Each sums up to all."""
        for path in [pages.golden(name) for name in ("oom-stacks", "leak", "growing-cache")] + [pages.write("small.json", small())]:
            page = self.open(path)
            total = pages.report("sites", path)["sum"]
            for which in ("threads", "streams"):
                rows = self.rows(page, which)
                with self.subTest(path=path, which=which):
                    self.assertEqual([sum(int(row[i]) for row in rows) for i in (1, 2, 3, 4, 5)],
                                     [total["total"]["bytes"], total["total"]["count"], total["live"]["bytes"], total["live"]["count"],
                                      total["temporary"]["count"]])

    def test_events(self):
        for name in ("train", "oom-stacks", "no-events"):
            path = pages.golden(name)
            page = self.open(path)
            rows = self.rows(page, "events")
            with open(path, encoding="utf-8") as file:
                events = json.load(file)["events"]
            with self.subTest(name):
                self.assertEqual([int(row[0]) for row in rows], list(range(len(events["action"]))))
                words = {"alloc": "allocated", "free_requested": "freed", "free_completed": "no longer in use"}
                checked = 0
                for row, action, size in zip(rows, events["action"], events["size"]):
                    word = words.get(events["actions"][action])
                    if word and row[3]:
                        self.assertTrue(row[2].startswith(word), (row, word))
                        self.assertEqual(int(row[3]), size)
                        checked += 1
                self.assertGreaterEqual(checked, len(rows) // 2)

    def test_snapshots(self):
        """A row each; a click shows that file."""
        names = ("leak", "oom-stacks", "growing-cache")
        paths = list(map(pages.golden, names))
        page = self.open(*paths)
        rows = self.rows(page, "snapshots")
        self.assertEqual(len(rows), 3)
        for row, path in zip(rows, paths):
            devices = pages.report("summary", path)["devices"]
            self.assertEqual(row[0], path)
            for column, figure, part in ((6, "reserved", "peak"), (7, "allocated", "peak"), (8, "requested", "peak"), (9, "requested", "current")):
                self.assertEqual(int(row[column]), sum(device["stats"][figure + "_bytes"][part] for device in devices))
            self.assertEqual(int(row[10]), sum(device["stats"]["num_ooms"] for device in devices))
        page.click_on(".tables .table-row:nth-child(3)")
        self.assertEqual(page.evaluate("gpupoolPage.state().file"), 2)
        self.assertEqual(page.evaluate("document.querySelector('.tables .chosen').firstElementChild.textContent"), paths[2])

    def test_one_snapshot_needs_no_table_of_snapshots(self):
        page = self.open(pages.golden("leak"))
        self.show(page, "tables")
        self.assertFalse(page.evaluate("document.querySelector('.tables [data-id=snapshots]').checkVisibility()"))


if __name__ == "__main__":
    pages.main(__doc__)
