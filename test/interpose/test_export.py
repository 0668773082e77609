"""`gpupool export` on snapshots of real programs: what other tools demand of each format, and that nothing is lost."""

import json
import os
import subprocess
import unittest

from harness import PreloadCase, QUICK, SANITIZED, Trace, count_actions, stats_of, trace_files, trace_shapes
import export_formats as formats  # harness says where it is

TOOL = os.environ["GP_TOOL"]


class Export(PreloadCase):
    def export(self, path, *args):
        result = subprocess.run([TOOL, "export", path, "--to", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                timeout=120)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn(b"left out", result.stderr)
        return result.stdout

    def check_all(self, path, snapshot):
        """Every format, and the sums of the snapshot in each."""
        stats = stats_of(snapshot)
        counts = count_actions(snapshot, but=("pinned_host",))
        document = formats.load_pickle(self.export(path, "pytorch"))
        formats.check_pytorch(document)
        self.assertEqual(formats.load_json(self.export(path, "pytorch-json")), formats.plain(document))
        (trace,) = document["device_traces"]
        said = {}
        for entry in trace:
            said[entry["action"]] = said.get(entry["action"], 0) + 1
        unpooled, gone = counts.get("passthrough_alloc", 0), counts.get("passthrough_free", 0)
        mapped = "segment_map" in said
        said["segment_alloc"] = said.get("segment_alloc", 0) + said.pop("segment_map", 0)
        said["segment_free"] = said.get("segment_free", 0) + said.pop("segment_unmap", 0)
        for action, more in (("alloc", unpooled), ("segment_alloc", unpooled), ("free_requested", gone),
                             ("free_completed", gone), ("segment_free", gone), ("oom", 0)):
            self.assertEqual(said.get(action, 0), counts.get(action, 0) + more, action)
        self.assertEqual(sum(s["total_size"] for s in document["segments"]),
                         stats["reserved_bytes"]["current"] + stats["passthrough_bytes"]["current"])

        timeline = formats.load_json(self.export(path, "perfetto"))
        left = formats.check_perfetto(timeline)
        self.assertEqual(sum(key[1] == "block" for key in left), stats["allocation"]["current"])
        last = {event["name"]: event["args"]["bytes"] for event in timeline["traceEvents"] if event["ph"] == "C"}
        for name in ("allocated", "active", "reserved", "passthrough"):
            self.assertEqual(last.get("device 0 " + name, 0), stats[name + "_bytes"]["current"], name)

        graph = formats.load_json(self.export(path, "speedscope"))
        formats.check_speedscope(graph)
        for profile, metric in zip(graph["profiles"], ("live", "peak", "total")):
            folded = formats.read_folded(self.export(path, "folded", "--metric", metric).decode())
            self.assertEqual(sum(folded.values()), profile["endValue"], metric)
        held = stats["allocated_bytes"], stats["passthrough_bytes"]
        self.assertEqual(graph["profiles"][0]["endValue"], sum(gauge["current"] for gauge in held))
        self.assertEqual(graph["profiles"][2]["endValue"], sum(gauge["allocated"] for gauge in held))
        if not stats["passthrough_bytes"]["allocated"]:
            self.assertEqual(graph["profiles"][1]["endValue"], stats["allocated_bytes"]["peak"])
        self.check_import(path, stats, unpooled, mapped)
        return document

    def summary(self, path):
        result = subprocess.run([TOOL, "summary", "--json", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                timeout=120)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)["snapshots"][0]

    def check_import(self, path, stats, unpooled, mapped):
        """Both forms of PyTorch's snapshot, read again, have the figures of the original."""
        original = self.summary(path)
        for name in ("pytorch", "pytorch-json"):
            exported = os.path.join(self.folder, name)
            self.export(path, name, "-o", exported, "--force")
            facts = self.summary(exported)
            self.assertFalse(facts["partial"], facts["missing"])
            for key in ("program", "host", "pid", "start_time_us"):
                self.assertEqual(facts["process"][key], original["process"][key])
            again = facts["devices"][0]["stats"]
            if unpooled:  # PyTorch knows no memory that is not pooled: it is in the same sums
                self.assertEqual(again["allocated_bytes"]["allocated"],
                                 stats["allocated_bytes"]["allocated"] + stats["passthrough_bytes"]["allocated"])
                continue
            same = ["allocation", "allocated_bytes", "requested_bytes", "active_bytes", "deferred_bytes", "num_ooms"]
            if mapped:  # a part that moves goes and comes; its segment is one, of any number of parts
                for key in ("reserved_bytes", "cached_bytes"):
                    self.assertEqual([again[key][part] for part in ("current", "peak")],
                                     [stats[key][part] for part in ("current", "peak")], key)
            else:
                same += ["segment", "reserved_bytes", "cached_bytes", "cache_hits", "cache_misses", "driver_allocs", "driver_frees"]
            for key in same:
                self.assertEqual(again[key], stats[key], key)

    def test_traces(self):
        for i, path in enumerate(trace_shapes()):
            for args in ((), ("--async",), ("--streams", "3"))[:1 if i > 0 or QUICK else 3]:
                with self.subTest(trace=os.path.basename(path), args=args):
                    run = self.run_program("replay", *args, path)
                    self.check_all(run.snapshot_paths("exit")[0], run.snapshot())

    def test_mapped_memory(self):
        """Blocks span its pieces: PyTorch's tools have to take them for parts of a segment."""
        for args, settings in ((("--async",), {}), ((), {}), ((), {"LIMIT": "1GiB"})):
            with self.subTest(args=args, **settings):
                run = self.run_program("replay", *args, trace_shapes()[1], TYPE="vmm", **settings)
                for path in run.snapshot_paths("oom" if settings else "exit"):
                    with open(path) as file:
                        self.check_all(path, json.load(file))
                document = formats.load_pickle(self.export(path, "pytorch"))
                actions = {entry["action"] for entry in document["device_traces"][0]}
                self.assertLessEqual({"segment_map"} if settings else {"segment_map", "segment_unmap"}, actions)
                self.assertTrue([segment for segment in document["segments"] if segment["is_expandable"]])

    def test_cut_memory(self):
        """Segments of many blocks, with idle memory between them: at the exit, and where memory ran out."""
        run = self.run_program("replay", "--streams", "3", trace_files()[0], TYPE="segment")
        self.check_all(run.snapshot_paths("exit")[0], run.snapshot())
        run = self.run_program("replay", trace_files()[0], TYPE="segment", LIMIT="1GiB")
        snapshot = run.snapshot("oom")
        self.expect_valid(snapshot)
        self.assertGreater(max(len(segment["blocks"]) for segment in snapshot["segments"]), 10)
        self.check_all(run.snapshot_paths("oom")[0], snapshot)

    def test_every_kind_of_memory(self):
        for program in ("scenario", "errors", "two_contexts"):
            with self.subTest(program=program):
                run = self.run_program(program)
                (path,) = run.snapshot_paths("exit")
                self.check_all(path, run.snapshot())

    @unittest.skipIf(SANITIZED, "the sanitizers' frames and stacks are their own")
    def test_frames_have_names(self):
        run = self.run_program("scenario", STACKS="native")
        (path,) = run.snapshot_paths("exit")
        document = formats.load_pickle(self.export(path, "pytorch"))
        formats.check_pytorch(document)
        formats.check_speedscope(formats.load_json(self.export(path, "speedscope")))
        folded = formats.read_folded(self.export(path, "folded").decode())
        if os.environ["GP_SYMBOLS"] == "1":
            self.assertTrue([stack for stack in folded if ";main;" in stack], folded)
            names = [frame["name"] for entry in document["device_traces"][0] for frame in entry.get("frames", [])]
            self.assertIn("main", names)

    def test_out_of_memory(self):
        run = self.run_program("replay", trace_files()[0], LIMIT="1GiB")
        (path,) = run.snapshot_paths("oom")[:1]
        document = formats.load_pickle(self.export(path, "pytorch"))
        formats.check_pytorch(document)
        self.assertEqual([e["size"] for e in document["device_traces"][0] if e["action"] == "oom"][:1],
                         [run.snapshot("oom")["oom"]["requested"]])

    def test_history_that_has_lost_its_beginning(self):
        run = self.run_program("replay", "--streams", "3", trace_files()[0], TRACE_EVENTS="2048")
        (path,) = run.snapshot_paths("exit")
        self.assertGreater(run.snapshot()["dropped_events"], 0)
        document = formats.load_pickle(self.export(path, "pytorch"))
        formats.check_pytorch(document)
        formats.check_perfetto(formats.load_json(self.export(path, "perfetto")))
        rows = formats.read_csv(self.export(path, "csv").decode())
        first_free = [row[0] for row in rows].index("F")
        self.assertGreater(first_free, 100)  # what was live already comes first

    def test_requests_can_be_replayed(self):
        """The same program again, from its own snapshot: the same requests, so the same figures."""
        for i, path in enumerate(trace_files()):
            for args in ((), ("--async", "--streams", "2"))[:1 if i > 0 else 2]:
                with self.subTest(trace=os.path.basename(path), args=args):
                    trace = Trace(path)
                    run = self.run_program("replay", *args, path)
                    exported = os.path.join(self.folder, "again%d.csv" % self.runs)
                    self.export(run.snapshot_paths("exit")[0], "csv", "-o", exported)
                    with open(exported, encoding="utf-8") as file:
                        rows = formats.read_csv(file.read())
                    with open(path, encoding="utf-8") as file:
                        sizes = [int(line.split(",")[2]) for line in file if line.startswith("A,")]
                    self.assertEqual([row[2] for row in rows if row[0] == "A"], sizes)
                    again = self.run_program("replay", "--check", exported)
                    self.assertEqual(again.status, 0, again.err)
                    self.assertEqual(stats_of(again.snapshot())["requested_bytes"]["peak"], trace.peak)


if __name__ == "__main__":
    unittest.main()
