#!/usr/bin/env python3
"""What grows, as gpupool summary finds it in one snapshot; and what looks alike and does not grow.

    cli_growth.py GPUPOOL PRELOAD_STUB [TEST ...]
"""

import csv
import json
import os
import pickle
import random
import sys
import unittest

import cli
from cli import MIB, device_of, gauge
from report_case import Program, Reports

KIB = 1024
LOAD, GROW, OTHER = 0, 1, 3  # stacks of report_case: Model::load, Cache::grow, another


class Grower(Program):
    """A program with weights that stay and work that comes and goes."""

    def load(self, count=4, size=512 * MIB, **columns):
        for _ in range(count):
            self.alloc(size, stack=LOAD, **columns)

    def work(self, step=0, blocks=2, stack=OTHER, **columns):
        for block in [self.alloc((step % 5 + 1) * MIB, stack=stack, address=7 << 50 | i << 40, **columns) for i in range(blocks)]:
            self.free(block)

    def reason_oom(self, **changes):
        oom = {"time_ns": self.time, "device": changes.pop("device", 0), "requested": changes.pop("requested", 8 * MIB),
               "largest_free": 0}
        return self.snapshot(reason="oom", oom=oom, **changes)


def cache(steps=200, size=4 * MIB, with_stacks=True, stack=GROW, device=0, **work):
    program = Grower(with_stacks)
    program.load(device=device)
    for step in range(steps):
        program.work(step, device=device, **work)
        program.alloc(size, stack=stack, device=device)
    return program


class Growth(Reports):
    command = "summary"
    known = None

    def facts(self, program, *arguments):
        """Once for each."""
        if not self.known or self.known[0] is not program or self.known[1] != arguments:
            self.known = (program, arguments, super().facts(program, *arguments))
        return self.known[2]

    def finding(self, snapshot, code="growth"):
        found = [finding for finding in self.facts(snapshot)["findings"] if finding["code"] == code]
        self.assertLessEqual(len(found), 1)
        return found[0] if found else None

    def grows(self, snapshot, *owners):
        growth = self.facts(snapshot)["growth"]
        self.assertEqual([one["owner"] for one in growth], list(owners))
        self.assertIsNotNone(self.finding(snapshot))
        return growth[0]

    def nothing_grows(self, snapshot):
        self.assertEqual(self.facts(snapshot)["growth"], [])
        self.assertIsNone(self.finding(snapshot))

    def test_a_cache_beside_constant_weights(self):
        program = cache()
        growth = self.grows(program, "Cache::grow()")
        self.assertEqual((growth["file"], growth["line"], growth["device"]), ("/src/cache.cu", 33, 0))
        self.assertEqual([growth[name] for name in ("bytes", "bytes_before", "blocks", "size_least", "size_most", "freed")],
                         [800 * MIB, 0, 200, 4 * MIB, 4 * MIB, 0])
        first = next(row for row in program.rows if row["size"] == 4 * MIB and row["stack"] == GROW and row["action"] == 0)
        self.assertEqual((growth["since_ns"], growth["until_ns"]), (first["time_ns"], program.time))
        self.assertAlmostEqual(growth["bytes_per_second"], 800 * MIB / (program.time - first["time_ns"]) * 1e9, delta=2e10)
        finding = self.finding(program)
        self.assertEqual((finding["severity"], finding["device"]), ("warning", 0))
        self.assertRegex(finding["message"], r"^Memory on device 0 grows: Cache::grow\(\) cache.cu:33 keeps 800 MiB in 200 blocks of "
                                             r"4 MiB, none freed, since \S+ us\.$")
        self.assertEqual(finding["advice"], "free what it no longer needs, or limit how much it keeps. Other lines keep 2 GiB.")
        self.assertEqual(finding["remedy"]["action"], "free")

    def test_it_is_said_before_what_is_merely_large(self):
        findings = self.facts(cache().reason_oom())["findings"]
        codes = [finding["code"] for finding in findings]
        self.assertLess(codes.index("growth"), codes.index("owners"))
        self.assertEqual(findings[codes.index("growth")]["severity"], "error")
        self.assertIsNone(findings[codes.index("owners")]["advice"])  # nothing about the weights
        still = Grower()
        still.load()
        for step in range(50):
            still.work(step)
        self.assertIn("Model::load", self.finding(still.reason_oom(), "owners")["advice"])

    def test_memory_that_ran_out_elsewhere_is_not_explained(self):
        program = cache(device=1)
        program.load(device=0)
        self.assertEqual(self.finding(program.reason_oom(device=0))["severity"], "note")
        self.assertEqual(self.finding(program.reason_oom(device=1))["severity"], "error")
        self.assertEqual(self.finding(program.reason_oom(device=1, requested=900 * MIB))["severity"], "note")

    def test_no_limit_for_what_grows(self):
        """Also where the requests cannot be served again, since earlier ones are missing."""
        snapshot = cache(400).reason_oom(keep=1500)
        snapshot["oom"].update(advice="It is the limit", remedy={"settings": {"GPUPOOL_LIMIT": "4GiB"}, "action": None})
        found = self.finding(snapshot, "oom")
        self.assertIsNone(found["remedy"])
        self.assertEqual(found["advice"], "the limit was reached, and a larger one would only delay that: see what grows.")

    def test_what_is_worth_a_warning(self):
        """A twentieth of what the device held, in 32 blocks, at the end of the program."""
        self.assertEqual(self.finding(cache(32, 32 * MIB))["severity"], "warning")
        for note in (cache(31, 32 * MIB), cache(100, MIB)):
            found = self.finding(note)
            self.assertEqual((found["severity"], found["advice"]), ("note", None))
            self.assertNotIn("may be intended", found["message"])
        self.assertEqual(self.finding(cache().snapshot(reason="recovered"))["severity"], "warning")
        running = self.finding(cache().snapshot(reason="request"))
        self.assertEqual(running["severity"], "note")
        self.assertIn("This may be intended: activations kept for a backward pass look the same.", running["message"])

    def test_five_of_seven_windows(self):
        """The floor rises in five of the seven steps from window to window, whatever comes and goes; the rest is no growth."""
        def program(*windows):
            program = Grower()
            program.alloc(MIB, stack=GROW)
            for takes in windows:
                for step in range(40):
                    if step == 20 and takes:
                        program.alloc(MIB, stack=GROW)
                    program.work(step)
            return program
        self.grows(program(0, 1, 1, 1, 1, 1, 0, 0), "Cache::grow()")
        self.grows(program(0, 1, 0, 1, 1, 1, 1, 0), "Cache::grow()")
        self.nothing_grows(program(0, 1, 1, 1, 1, 0, 0, 0))
        self.nothing_grows(program(0, 0, 0, 0, 0, 0, 0, 0))

    def test_little_is_nothing(self):
        self.grows(cache(1000, KIB), "Cache::grow()")
        self.nothing_grows(cache(1000, 32))  # 32 KB in all

    def test_each_line_and_each_size_are_judged(self):
        """What one line takes in two sizes is one line of the report; two lines of a function are two."""
        program = Grower()
        program.load()
        for step in range(150):
            program.work(step, blocks=10)
            program.alloc(2 * MIB, stack=GROW)
            program.alloc(16 * MIB, stack=GROW)
            program.free(program.alloc(64 * MIB, stack=GROW))
            program.alloc(MIB, stack=LOAD)
        growth = self.facts(program)["growth"]
        self.assertEqual([(one["bytes"], one["blocks"], one["size_least"], one["size_most"], one["freed"]) for one in growth],
                         [(2700 * MIB, 300, 2 * MIB, 16 * MIB, 150), (150 * MIB, 150, MIB, MIB, 0)])
        frames = [{"function": "Cache::grow()", "file": "/src/cache.cu", "line": 33 + line, "module": -1, "address": 4096 + line,
                   "inline": False} for line in range(2)]
        snapshot = program.snapshot(frames=frames, stacks=[[0], [1], [0], [0]], modules=[])
        self.assertEqual([(one["line"], one["blocks"]) for one in self.facts(snapshot)["growth"]], [(34, 300), (33, 150)])

    def test_three_lines_are_named_and_others_counted(self):
        program = Grower()
        for step in range(100):
            for stack in range(5):
                program.alloc((stack + 1) * MIB, stack=stack)
        frames = [{"function": "f", "file": "/src/app.cu", "line": line, "module": -1, "address": 4096 + line, "inline": False}
                  for line in range(1, 6)]
        snapshot = program.snapshot(frames=frames, stacks=[[at] for at in range(5)], modules=[])
        self.assertEqual([one["line"] for one in self.facts(snapshot)["growth"]], [5, 4, 3])
        self.assertIn("; and 2 other lines.", self.finding(snapshot)["message"])
        self.assertEqual(self.finding(snapshot)["advice"], "free what they no longer need, or limit how much they keep.")
        self.assertEqual(self.finding(snapshot)["message"].count("f app.cu:"), 3)
        alike = [dict(frame, line=33) if frame["line"] == 5 else dict(frame, line=331 if frame["line"] == 4 else frame["line"])
                 for frame in frames]
        self.assertIn("f app.cu:331", self.finding(program.snapshot(frames=alike, stacks=[[at] for at in range(5)],
                                                                    modules=[]))["message"])
        limited = device_of(0, reserved_bytes=gauge(1500 * MIB))
        growth = self.facts(program.snapshot(frames=frames, stacks=[[at] for at in range(5)], modules=[],
                                             devices=[dict(limited, limit=3000 * MIB)]))["growth"][0]
        self.assertAlmostEqual(growth["exhausted_in_ns"], program.time, delta=program.time / 50)  # as much again as all five took

    def test_a_line_whose_buffers_become_larger(self):
        """They leave one size class after the other, so none of these grows all along; the line does."""
        program = Grower()
        program.load()
        for step in range(120):
            program.work(step)
            program.alloc(int(MIB * 1.06 ** step), stack=GROW)
        growth = self.grows(program, "Cache::grow()")
        self.assertEqual((growth["blocks"], growth["freed"], growth["size_least"]), (120, 0, MIB))
        self.assertEqual(self.finding(program.reason_oom())["severity"], "error")

    def test_buffers_that_are_replaced_by_larger_ones(self):
        """All are freed, so no path frees nothing; frees of sizes that the line has left count."""
        program = Grower()
        program.load(1)
        held = {}
        for step in range(30):
            for buffer in range(10):
                new = program.alloc((step + 1) * MIB, stack=GROW)
                if buffer in held:
                    program.free(held[buffer])
                held[buffer] = new
        growth = self.grows(program, "Cache::grow()")
        self.assertEqual((growth["blocks"], growth["freed"]), (11, 289))  # at its last allocation
        self.assertNotIn("early return", str(self.finding(program)["advice"]))

    def test_weights_of_a_line_that_grows_do_not_count(self):
        """They came first. What grows is in another size class."""
        program = Grower()
        program.load(4, 512 * MIB)
        for step in range(120):
            program.work(step)
            program.alloc(MIB, stack=LOAD)
        self.assertEqual(self.grows(program, "Model::load(std::string const&)")["blocks"], 120)

    def test_a_path_that_frees_nothing(self):
        program = Grower()
        program.load()
        for step in range(400):
            block = program.alloc(10 * MIB, stack=GROW)
            if step % 7:
                program.free(block)
        self.assertEqual(self.finding(program)["advice"], "it frees most of what it allocates: look for the path that does "
                         "not free, such as an early return or an exception. Other lines keep 2 GiB.")

    def test_page_locked_memory_grows_too(self):
        """Until the end a note; it is not the device's."""
        program = Grower()
        program.load(1)
        for step in range(100):
            program.work(step)
            program.managed(MIB, kind="pinned_host", stack=GROW)
        found = self.finding(program)
        self.assertEqual((found["severity"], found["device"]), ("warning", None))
        self.assertRegex(found["message"], r"^Page-locked host memory grows: Cache::grow\(\) cache.cu:33 keeps 100 MiB in 100 "
                                           r"blocks of 1 MiB, none freed, since \S+ \S+\.$")
        self.assertEqual(found["advice"], "free what it no longer needs, or limit how much it keeps.")
        self.assertEqual(self.finding(program.snapshot(reason="request"))["severity"], "note")

    def test_each_device_has_its_finding(self):
        program = Grower()
        for device in (0, 1):
            program.load(1, device=device)
        for step in range(60):
            program.work(step, device=0)
            program.alloc(MIB, stack=GROW)
            program.alloc(2 * MIB, stack=GROW, device=1)
        self.assertEqual([(one["device"], one["bytes"]) for one in self.facts(program)["growth"]],
                         [(0, 60 * MIB), (1, 120 * MIB)])
        found = [finding for finding in self.facts(program)["findings"] if finding["code"] == "growth"]
        self.assertEqual(sorted((finding["device"], "120 MiB" in finding["message"]) for finding in found), [(0, False), (1, True)])
        self.assertEqual([one["device"] for one in self.facts(program, "--device", "1")["growth"]], [1])

    def test_a_buffer_that_is_reallocated_larger_and_larger(self):
        program = Grower()
        program.load()
        old = None
        for step in range(120):
            new = program.alloc((step + 130) * MIB, stack=GROW)
            if old:
                program.free(old)
            old = new
            program.work(step)
        growth = self.grows(program, "Cache::grow()")
        self.assertEqual((growth["bytes"], growth["blocks"], growth["freed"]), (249 * MIB, 1, 119))
        self.assertEqual(self.finding(program)["severity"], "note")

    def test_events_that_begin_late(self):
        program = cache(400)
        snapshot = program.snapshot(keep=1500)
        growth = self.grows(snapshot, "Cache::grow()")
        self.assertGreater(growth["bytes_before"], 0)
        self.assertEqual((growth["bytes"], growth["freed"]), (1600 * MIB, None))
        self.assertIn(" of it from before the first event", self.finding(snapshot)["message"])
        whole = self.grows(program, "Cache::grow()")
        self.assertAlmostEqual(growth["bytes_per_second"], whole["bytes_per_second"], delta=whole["bytes_per_second"] / 20)
        self.nothing_grows(Grower().snapshot())

    def test_without_stacks_it_is_the_size(self):
        growth = self.grows(cache(with_stacks=False, blocks=1), None)
        self.assertEqual((growth["file"], growth["line"], growth["through"]), (None, None, None))
        self.assertIn(": code without a call stack keeps 8", self.finding(cache(with_stacks=False))["message"])
        advice = self.finding(cache(with_stacks=False).snapshot(settings={"type": "round", "stacks": "auto"}))["advice"]
        self.assertIn("GPUPOOL_STACKS=native names the code that keeps them. Free what it no longer needs, or", advice)

    def test_the_memory_of_a_script_is_told_apart_by_size(self):
        program = Grower()
        program.load(20, 16 * MIB)
        for _ in range(700):
            program.free(program.alloc(4 * MIB, stack=LOAD, address=7 << 50))
            program.alloc(MIB, stack=LOAD)
        interpreter = {"address": 4096, "module": 0, "function": "_PyEval_EvalFrameDefault", "file": "", "line": 0,
                       "inline": False}
        snapshot = program.reason_oom(stacks=[[0]], frames=[interpreter], modules=[
            {"path": "/usr/bin/python3", "build_id": "", "bias": 0, "start": 4096, "end": 8192}], process={
                "pid": 1, "program": "/usr/bin/python3", "command_line": ["python3", "t.py"]})
        growth = self.grows(snapshot, "python3 t.py")
        self.assertEqual((growth["bytes"], growth["size_least"], growth["size_most"]), (700 * MIB, MIB, MIB))
        self.assertNotIn("GPUPOOL_LIMIT", " ".join(str(one["advice"]) for one in self.facts(snapshot)["findings"]))

    def test_when_memory_will_be_exhausted(self):
        def snapshot(program=None, reason="exit", **device):
            program = program or cache()
            used = 2800 * MIB
            stats = device_of(0, allocation=gauge(204), reserved_bytes=gauge(used + 5 * MIB), cached_bytes=gauge(5 * MIB))
            return program.snapshot(devices=[dict(stats, **device)], reason=reason)
        def slow():
            program = cache()
            for row in program.rows:
                row["time_ns"] *= 10000
            return program
        growth = self.grows(snapshot(limit=3600 * MIB), "Cache::grow()")
        self.assertEqual(growth["room"], 800 * MIB)
        self.assertAlmostEqual(growth["exhausted_in_ns"], 800 * MIB / growth["bytes_per_second"] * 1e9, delta=100)
        self.assertNotIn("At this rate", self.finding(snapshot(limit=3600 * MIB))["message"])  # not of a moment's growth
        self.assertRegex(self.finding(snapshot(slow(), limit=3600 * MIB))["message"],
                         r"since \S+ ms, [0-9.]+ MiB a second\. At this rate the limit \(3.5 GiB\) would be full in another 1\d\.\d s\.")
        use = {"total": 80 << 30, "free": 79 << 30, "unaccounted": 1 << 30, "use_ns": 5}
        self.grows(snapshot(memory=use, **use), "Cache::grow()")
        self.assertIsNone(self.grows(snapshot(), "Cache::grow()")["exhausted_in_ns"])
        self.assertIsNone(self.grows(snapshot(reason="oom", limit=3600 * MIB), "Cache::grow()")["exhausted_in_ns"])
        run_out = snapshot(limit=3600 * MIB)
        run_out["devices"][0]["stats"]["num_ooms"] = 1
        self.assertIsNone(self.grows(run_out, "Cache::grow()")["exhausted_in_ns"])

    def test_what_was_freed_at_the_end(self):
        program = cache()
        for block in [number for number, row in program.live.items() if row["stack"] == GROW]:
            program.free(block)
        self.nothing_grows(program)

    def test_saw_teeth(self):
        program = Grower()
        program.load()
        for step in range(20):
            teeth = [program.alloc(MIB, stack=GROW) for _ in range(30)]
            program.work(step)
            for block in teeth:
                program.free(block)
        self.nothing_grows(program)
        for _ in range(30):  # up again, and there the snapshot is written
            program.alloc(MIB, stack=GROW)
        self.nothing_grows(program)

    def test_a_load_before_all_else(self):
        program = Grower()
        program.load(200, 4 * MIB)
        for step in range(400):
            program.work(step)
        self.nothing_grows(program)

    def test_a_cache_that_is_full(self):
        program = Grower()
        program.load()
        held = []
        for step in range(400):
            program.work(step)
            held.append(program.alloc(MIB, stack=GROW))
            if step > 150:  # as much as it will hold
                program.free(held.pop(0))
        self.nothing_grows(program)

    def test_a_jump(self):
        program = Grower()
        program.load()
        for step in range(400):
            program.work(step)
            if step in (100, 200, 300):
                program.alloc(100 * MIB, stack=GROW)
        self.nothing_grows(program)

    def train(self, program, steps, layers=12, leak=0):
        """Steps forward and backward over layers, as a framework performs them."""
        for _ in range(3 * layers):
            program.alloc(8 * MIB, stack=LOAD)
        for _ in range(steps):
            kept = []
            for _ in range(layers):
                kept += [program.alloc((part + 1) * 4 * MIB, stack=OTHER) for part in range(4)]
                program.work()
            gradients = []
            for _ in range(layers):
                for _ in range(4):
                    program.free(kept.pop())
                gradients += [program.alloc(8 * MIB, stack=OTHER) for _ in range(3)]
                program.work()
            for block in gradients:
                program.free(block)
            if leak:
                program.alloc(leak, stack=GROW)
        return program

    def test_steps_of_a_training(self):
        for steps in (2, 5, 20):
            program = self.train(Grower(), steps)
            self.nothing_grows(program)
            for block in range(40):  # and it ends in a pass forward
                program.alloc(2 * MIB, stack=OTHER)
                program.work()
            self.nothing_grows(program)

    def test_a_leak_of_each_step_of_a_training(self):
        for steps in (24, 60):
            self.assertEqual(self.grows(self.train(Grower(), steps, leak=MIB), "Cache::grow()")["blocks"], steps)
            self.grows(self.train(Grower(False), steps, leak=300 * KIB), None)

    def serve(self, leak=0):
        """Requests that are answered at the same time, of many sizes, in no order."""
        program, number = Grower(), random.Random(4711)
        program.load()
        live = []
        for _ in range(500):
            size = int(number.paretovariate(1.5) * 100 * KIB)
            live.append(program.alloc(size, stack=OTHER))
            program.work(number.randrange(5))
            if len(live) > number.randrange(1, 20):
                program.free(live.pop(number.randrange(len(live))))
            if leak and number.random() < 0.4:
                program.alloc(leak, stack=GROW)
        return program

    def test_requests_of_many_sizes(self):
        self.nothing_grows(self.serve())
        self.assertGreater(self.grows(self.serve(KIB), "Cache::grow()")["blocks"], 128)

    def test_snapshots_of_pytorch(self):
        self.write("s.json", cache().snapshot())
        self.run_tool("export", "--to", "pytorch", "-o", "s.pickle", "s.json", "--force")
        with open(self.path("work/s.pickle"), "rb") as file:
            snapshot = pickle.load(file)
        for with_times in (True, False):
            for trace in snapshot["device_traces"] if not with_times else []:
                for event in trace:
                    event.pop("time_us", None)
            with open(self.path("work/torch.pickle"), "wb") as file:
                pickle.dump(snapshot, file)
            document = json.loads(self.run_tool("summary", "--json", "torch.pickle").stdout)["snapshots"][0]
            growth = document["growth"][0]
            self.assertEqual((growth["owner"], growth["file"], growth["line"]), ("Cache::grow()", "/src/cache.cu", 33))
            self.assertEqual(growth["bytes"], 800 * MIB)
            self.assertEqual(growth["bytes_per_second"] is not None, with_times)
            finding = next(finding for finding in document["findings"] if finding["code"] == "growth")
            self.assertEqual("since event" in finding["message"], not with_times)

    def test_workloads(self):
        training, growing_cache = cli.workloads()
        for path, grows in ((training, False), (growing_cache, True)):
            program, blocks = Program(False), {}
            with open(path, encoding="utf-8") as file:
                for operation, number, size, _ in csv.reader(file):
                    if operation == "A":
                        blocks[number] = program.alloc(int(size))
                    elif operation == "F":
                        program.free(blocks.pop(number))
            self.assertEqual(self.finding(program)["severity"], "warning" if grows else "note", path)  # small weights and moments


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    cli.GPUPOOL, cli.STUB = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])
