#!/usr/bin/env python3
"""What `gpupool html` puts into a page is what the other reports say.

    test_payload.py GPUPOOL [unittest arguments]
"""

import json
import lzma
import os
import pickle
import re
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "..", "golden")
sys.path.insert(0, os.path.join(HERE, "..", "tools"))
import test_import  # noqa: E402
from page_data import PageData  # noqa: E402
from terminal import open_terminal  # noqa: E402

GPUPOOL = None
MEASURES = ("live", "peak", "total", "temporary")


def golden_names():
    return sorted(name[:-len(".json.xz")] for name in os.listdir(GOLDEN) if name.endswith(".json.xz"))


class Payload(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        for name in golden_names():
            with lzma.open(os.path.join(GOLDEN, name + ".json.xz")) as source:
                cls.write(name + ".json", source.read())
        cls.write("torch.pickle", pickle.dumps(test_import.torch_snapshot()))
        cls.write("streams.json", json.dumps(test_import.ten_streams()).encode())
        cls.inputs = [name + ".json" for name in golden_names()] + ["torch.pickle", "streams.json"]

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def write(cls, name, data):
        with open(os.path.join(cls.folder.name, name), "wb") as file:
            file.write(data)

    def run_tool(self, *args, status=0):
        result = subprocess.run([GPUPOOL] + list(args), cwd=self.folder.name, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
        self.assertEqual(result.returncode, status, result.stderr.decode())
        return result

    def page(self, *args):
        return PageData(self.run_tool("html", *args, "-o", "-").stdout.decode())

    def report(self, *args, exact=False):
        text = self.run_tool(args[0], *args[1:], "--json").stdout.decode()
        return json.loads(text, parse_int=str, parse_float=str) if exact else json.loads(text)

    def test_the_summary_is_that_of_the_report_digit_by_digit(self):
        for name in self.inputs:
            with self.subTest(input=name):
                page = self.page(name)
                self.assertEqual(page.exact["files"][0]["summary"], self.report("summary", name, exact=True)["snapshots"][0])

    def test_a_page_that_cannot_be_written(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("there is no /dev/full")
        result = self.run_tool("html", "leak.json", "-o", "/dev/full", "--force", status=3)
        self.assertIn(b"/dev/full: No space left on device", result.stderr)

    def test_several_files_are_in_one_page(self):
        page = self.page("leak.json", "oom-stacks.json")
        self.assertEqual([file.entry["name"] for file in page.files], ["leak.json", "oom-stacks.json"])

    def test_two_files_are_compared_by_diff(self):
        two = self.run_tool("html", "leak.json", "oom-stacks.json", "-o", "two.html", "--force").stdout
        self.assertIn(b"gpupool diff leak.json oom-stacks.json compares them", two)
        three = self.run_tool("html", "leak.json", "oom-stacks.json", "train.json", "-o", "three.html", "--force").stdout
        self.assertNotIn(b"gpupool diff", three)

    def test_frames_are_those_of_the_snapshot(self):
        compared = 0
        for name in golden_names():
            with lzma.open(os.path.join(GOLDEN, name + ".json.xz")) as source:
                snapshot = json.load(source)
            file = self.page(name + ".json").files[0]
            modules = [module["path"] for module in snapshot["modules"]]
            found = [(file.string(file["frame.module"][i]), file.string(file["frame.file"][i]), file["frame.line"][i])
                     for i in range(len(file["frame.module"])) if file["frame.module"][i] >= 0]
            expected = [(modules[frame["module"]], frame.get("file") or "", frame.get("line") or 0)
                        for frame in snapshot["frames"] if frame["module"] >= 0]
            self.assertEqual(found, expected, name)
            compared += sum(frame["module"] == 0 for frame in snapshot["frames"])
        self.assertGreater(compared, 0)

    def owners_of(self, file, measure):
        """Bytes and allocations by the name of the owner, as stacks add up."""
        sums = {}
        for stack, (size, count) in enumerate(zip(file["stack.%s_bytes" % measure], file["stack.%s_count" % measure])):
            if count:
                owner = "(no stack recorded)" if stack == len(file["stack.owner"]) else file.entry["owners"][file["stack.owner"][stack]]["name"]
                old = sums.get(owner, (0, 0))
                sums[owner] = (old[0] + size, old[1] + count)
        return sums

    def test_owners_ask_for_what_sites_says(self):
        compared = 0
        for name in self.inputs:
            file = self.page(name).files[0]
            report = self.report("sites", name)["snapshots"][0]
            if report["by"] != "function":
                continue
            for measure in MEASURES:
                with self.subTest(input=name, measure=measure):
                    flat = {site["name"]: (site["flat"][measure]["bytes"], site["flat"][measure]["count"])
                            for site in report["sites"] if site["flat"][measure]["count"]}
                    self.assertEqual(self.owners_of(file, measure), flat)
                    compared += len(flat)
        self.assertGreater(compared, 40)

    def test_lives_add_up_to_what_sites_counts(self):
        for name in self.inputs:
            with self.subTest(input=name):
                file = self.page(name).files[0]
                sites = self.report("sites", name)["snapshots"][0]["sites"]
                sums = {measure: {part: sum(site["flat"][measure][part] for site in sites) for part in ("bytes", "count")}
                        for measure in MEASURES}
                lives = [life for life in file.rows("life") if life["kind"] != 2]
                self.assertEqual(sum(life["requested"] for life in lives), sums["total"]["bytes"])
                self.assertEqual(len(lives), sums["total"]["count"])
                held = [life for life in lives if life["flags"] & 2]
                self.assertEqual((sum(life["requested"] for life in held), len(held)), (sums["live"]["bytes"], sums["live"]["count"]))
                brief = [life for life in lives if life["flags"] & 1]
                self.assertEqual((sum(life["requested"] for life in brief), len(brief)), (sums["temporary"]["bytes"], sums["temporary"]["count"]))

    def reserved_at(self, file, device, moment):
        return sum(row["size"] for row in file.rows("segment") if row["device"] == device and row["begin"] <= moment < row["end"])

    def test_segments_add_up_to_what_frag_maps(self):
        for name in ("pieces.json", "train.json", "oom-cached.json"):
            with self.subTest(input=name):
                file = self.page(name).files[0]
                for at in ("exit", "peak"):
                    report = self.report("frag", name, "--at", at)["snapshots"][0]
                    moment = file.entry["end"] if at == "exit" else report["at"]["event"] + 1
                    for device in report["devices"]:
                        self.assertEqual(self.reserved_at(file, device["device"], moment), device["reserved"])

    def test_lives_are_sorted_and_end_in_order(self):
        for name in self.inputs:
            with self.subTest(input=name):
                file = self.page(name).files[0]
                end = file.entry["end"]
                begins = file["life.begin"]
                self.assertEqual(begins, sorted(begins))
                for life in file.rows("life"):
                    self.assertLessEqual(life["begin"], life["freed"])
                    self.assertLessEqual(life["freed"], life["done"])
                    self.assertLessEqual(life["done"], end + 1)
                if file.entry["has_times"]:
                    self.assertEqual(len(file["moment.time"]), end + 1)
                    self.assertEqual(file["moment.time"], sorted(file["moment.time"]))
                else:
                    self.assertNotIn("moment.time", file.columns)

    def test_marks_are_where_memory_ran_out(self):
        for name, count in (("oom-stacks.json", 1), ("oom-cached.json", 1), ("leak.json", 0), ("torch.pickle", 1)):
            with self.subTest(input=name):
                file = self.page(name).files[0]
                ooms = self.report("summary", name)["snapshots"][0]["ooms"]
                marks = [mark for mark in file.rows("mark") if file.string(mark["kind"]) == "oom"]
                self.assertEqual([(mark["moment"] - 1, mark["device"], mark["size"]) for mark in marks],
                                 [(oom["event"], oom["device"], oom["requested"]) for oom in ooms])
                self.assertEqual(len(marks), count)

    def changed(self, name):
        with open(os.path.join(self.folder.name, name), encoding="utf-8") as file:
            return json.load(file)

    def test_marks_of_the_program_are_where_they_were(self):
        """More than the first table of names holds; of a device that there cannot be, none."""
        snapshot = self.changed("train.json")
        times = snapshot["events"]["time_ns"]
        after = sorted(set(times))[:100]
        snapshot["marks"] = [
            {"kind": kind, "time_ns": after[i // 3], "thread": 0, "device": device, "scope": None if kind == "mark" else i, "name": "step %d" % i}
            for i, (kind, device) in enumerate([("mark", None), ("begin", 0), ("end", 64)] * 100)]
        self.write("marks.json", json.dumps(snapshot).encode())
        file = self.page("marks.json").files[0]
        marks = [mark for mark in file.rows("mark") if file.string(mark["detail"]).startswith("step ")]
        self.assertEqual([(file.string(mark["kind"]), file.string(mark["detail"]), mark["device"], mark["size"]) for mark in marks],
                         [(mark["kind"], mark["name"], 0 if mark["device"] == 0 else -1, 0) for mark in snapshot["marks"]])
        self.assertEqual([mark["moment"] for mark in marks], [sum(one <= mark["time_ns"] for one in times) for mark in snapshot["marks"]])
        file = self.page("marks.json", "--range", "..50").files[0]
        left = [mark for mark in file.rows("mark") if file.string(mark["detail"]).startswith("step ")]
        self.assertEqual([file.string(mark["detail"]) for mark in left],
                         [mark["name"] for mark in snapshot["marks"] if sum(one <= mark["time_ns"] for one in times) <= 51])
        snapshot["devices"].append(dict(snapshot["devices"][0], device=1))
        self.write("marks.json", json.dumps(snapshot).encode())
        file = self.page("marks.json", "--device", "1").files[0]
        self.assertEqual({mark["device"] for mark in file.rows("mark")}, {-1})
        self.assertEqual(len(file.rows("mark")), 200)

    def test_an_empty_stack_has_an_owner(self):
        snapshot = self.changed("oom-stacks.json")
        for stack in snapshot["stacks"]:
            stack.clear()
        self.write("empty.json", json.dumps(snapshot).encode())
        file = self.page("empty.json").files[0]
        self.assertIn({"name": "(empty stack)", "text": "(empty stack)"}, file.entry["owners"])
        report = {site["name"]: site["flat"]["total"]["bytes"] for site in self.report("sites", "empty.json")["snapshots"][0]["sites"]}
        self.assertEqual(self.owners_of(file, "total")["(empty stack)"][0], report["(empty stack)"])

    def test_no_page_comes_on_a_terminal(self):
        own, other = open_terminal()
        result = subprocess.run([GPUPOOL, "html", "leak.json", "-o", "-"], cwd=self.folder.name, stdout=other, stderr=subprocess.PIPE,
                                timeout=20, check=False)
        os.close(other)
        os.close(own)
        self.assertEqual((result.returncode, result.stderr.decode()),
                         (2, "gpupool: html: a page cannot go to a terminal; name a file with -o; try gpupool html --help\n"))
        text = self.run_tool("html", "--help").stdout.decode()
        self.assertTrue(text.startswith("usage: gpupool html "), text)

    def test_a_range_has_what_was_there_then(self):
        whole = self.page("train.json").files[0]
        file = self.page("train.json", "--range", "100..200").files[0]
        self.assertEqual(file.entry["range"], {"from": 101, "to": 201})
        self.assertEqual(file["moment.event"], list(range(100, 201)))
        self.assertEqual(file["moment.time"], whole["moment.time"][101:202])
        there = [life for life in whole.rows("life") if life["begin"] <= 201 and life["done"] > 101]
        rows = file.rows("life")
        self.assertEqual([row["block"] for row in rows], [life["block"] for life in there])
        for row, life in zip(rows, there):
            self.assertEqual(row["begin"], max(0, life["begin"] - 101))
            self.assertEqual(row["freed"], life["freed"] - 101 if 101 < life["freed"] <= 201 else 0 if life["freed"] <= 101 else 101)
            self.assertEqual(row["flags"] & 2, 2 if life["begin"] <= 201 < life["freed"] else 0)
        self.assertNotIn("stack.total_bytes", file.columns)
        self.assertEqual(file.entry["summary"], whole.entry["summary"])

    def test_ranges_are_read(self):
        end = self.page("oom-stacks.json").files[0].entry["end"]
        for text, expected in (("..", None), ("0..", {"from": 1, "to": end}), ("..oom", None), ("peak..", True), ("33ms..34ms", True)):
            with self.subTest(range=text):
                entry = self.page("oom-stacks.json", "--range", text).files[0].entry
                if expected is True:
                    self.assertLess(entry["range"]["from"], entry["range"]["to"])
                else:
                    self.assertEqual(entry["range"], expected)
        for text in ("5", "5...9", "a..b", "1.5.s..2s", "x" * 70 + ".."):
            with self.subTest(range=text):
                error = self.run_tool("html", "oom-stacks.json", "--range", text, "-o", "never.html", status=2).stderr.decode()
                self.assertRegex(error, r"--range=.* is malformed; accepted: A\.\.B")
        error = self.run_tool("html", "oom-stacks.json", "--range", "9..5", "-o", "never.html", status=2).stderr.decode()
        self.assertIn("the range ends before it begins", error)
        error = self.run_tool("html", "oom-stacks.json", "--range", "9..500000", "-o", "never.html", status=2).stderr.decode()
        self.assertIn("numbered from 0", error)
        self.assertFalse(os.path.exists(os.path.join(self.folder.name, "never.html")))

    def test_a_device_alone(self):
        file = self.page("leak.json", "--device", "2").files[0]
        self.assertEqual(set(file["life.device"]), {2})
        self.assertEqual(set(file["segment.device"]), {2})
        self.assertEqual([device["device"] for device in file.entry["summary"]["devices"]], [2])

    def test_the_file_is_beside_the_snapshot(self):
        folder = os.path.join(self.folder.name, "runs")
        os.makedirs(folder)
        os.rename(os.path.join(self.folder.name, "no-events.json"), os.path.join(folder, "run.1.json"))
        try:
            said = self.run_tool("html", "runs/run.1.json").stdout.decode()
            self.assertRegex(said, r"^runs/run\.1\.html: [\d.]+ KiB; open it in a browser\n$")
            with open(os.path.join(folder, "run.1.html"), encoding="utf-8") as file:
                text = file.read()
            PageData(text)
            error = self.run_tool("html", "runs/run.1.json", status=2).stderr.decode()
            self.assertIn("runs/run.1.html exists; --force overwrites it", error)
            self.run_tool("html", "runs/run.1.json", "--force")
        finally:
            os.rename(os.path.join(folder, "run.1.json"), os.path.join(self.folder.name, "no-events.json"))

    def test_what_cannot_be_read_leaves_no_page(self):
        self.write("bad.json", b'{"format":"gpupool-snapshot","version":1,')
        self.run_tool("html", "leak.json", "bad.json", "-o", "bad.html", status=3)
        self.run_tool("html", "none.json", status=3)
        self.run_tool("html", "leak.json", "--device", "9", "-o", "bad.html", status=2)
        self.run_tool("html", "leak.json", "-o", "no/folder.html", status=3)
        self.run_tool("html", status=2)
        self.assertFalse(os.path.exists(os.path.join(self.folder.name, "bad.html")))

    def test_strict_says_what_lacks(self):
        with open(os.path.join(self.folder.name, "train.json"), encoding="utf-8") as file:
            snapshot = json.load(file)
        snapshot["dropped_events"] = 5
        self.write("cut.json", json.dumps(snapshot).encode())
        self.run_tool("html", "cut.json", "--strict", "-o", "cut.html", status=4)
        self.assertTrue(os.path.exists(os.path.join(self.folder.name, "cut.html")))

    def test_names_can_be_anything_and_the_page_is_plain(self):
        evil = '</script><img src=x onerror="alert(1)">\u2028\x00\x1b[31m' + "x" * 100000
        with open(os.path.join(self.folder.name, "oom-stacks.json"), encoding="utf-8") as file:
            snapshot = json.load(file)
        snapshot["process"]["program"] = evil
        for frame in snapshot["frames"]:
            frame["function"] = frame["file"] = evil
        for thread in snapshot["threads"]:
            thread["name"] = evil
        self.write("evil.json", json.dumps(snapshot).replace("\\u0000", "").encode())
        html = self.run_tool("html", "evil.json", "-o", "-").stdout.decode()
        self.assertRegex(PageData(html).text, r"^[A-Za-z0-9+/]+=*$")
        self.assertEqual(len(re.findall("</script", html)), 2)
        self.assertNotIn("onerror", html)


if __name__ == "__main__":
    GPUPOOL = os.path.abspath(sys.argv.pop(1))
    unittest.main()
