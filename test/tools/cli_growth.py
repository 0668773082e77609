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
from report_case import FRAMES, Program, Reports

KIB = 1024
LOAD, GROW, OTHER = 0, 1, 3  # stacks of report_case: Model::load, Cache::grow, another
HELPER = {"stacks": [[3, 4, 1, 0], [3, 4, 2, 0], [3, 4, 0], [3, 0]]}  # one function that asks for all


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

    def test_memory_that_rises_and_is_freed_at_the_end(self):
        """In so few steps that they may have been the program's way; where all is freed, nothing else would tell of it."""
        def program(kept, steps=300, every=25, works=True):
            program = Grower()
            weights = [program.alloc(64 * MIB, stack=LOAD) for _ in range(8)]
            blocks = []
            for step in range(steps):
                if works:
                    program.work(step)
                if step % every == 0:
                    blocks.append(program.alloc(50 * MIB, stack=GROW))
                if len(blocks) > kept:
                    program.free(blocks.pop(0))
            for block in weights + blocks:
                program.free(block)
            return program
        rises = program(kept=12)
        self.nothing_grows(rises.snapshot())
        found = self.finding(rises.snapshot(), "rise")
        self.assertRegex(found["message"], r"rose to the end: 612 MiB at \S+ us, and 1\.1 GiB with the last allocation, before it was freed\.")
        self.assertEqual((found["remedy"], found["severity"]), (None, "note"))
        self.assertIsNone(self.finding(program(kept=3).snapshot(), "rise"))  # as much is freed as is kept
        self.assertIsNone(self.finding(program(kept=12, works=False).snapshot(), "rise"))  # it only loads
        held = device_of(0, requested_bytes=gauge(1100 * MIB))
        self.assertIsNone(self.finding(rises.snapshot(devices=[held]), "rise"))

    def test_a_cache_beside_constant_weights(self):
        program = cache()
        growth = self.grows(program, "Cache::grow()")
        self.assertEqual((growth["file"], growth["line"], growth["device"]), ("/src/cache.cu", 33, 0))
        self.assertEqual((growth["bytes_from"], growth["bytes_to"], growth["count_to"]), (0, 800 * MIB, 200))
        self.assertEqual((growth["steps"], growth["least_size"], growth["most_size"]), (200, 4 * MIB, 4 * MIB))
        first = next(row for row in program.rows if row["size"] == 4 * MIB and row["stack"] == GROW and row["action"] == 0)
        self.assertEqual((growth["since_ns"], growth["until_ns"]), (first["time_ns"], program.time))
        self.assertAlmostEqual(growth["bytes_per_second"], 800 * MIB / (program.time - first["time_ns"]) * 1e9, delta=2e10)
        finding = self.finding(program)
        self.assertEqual((finding["severity"], finding["device"]), ("warning", 0))
        self.assertIn("Cache::grow() cache.cu:33 holds 800 MiB, all of it since", finding["message"])
        self.assertIn("in 200 steps of 4 MiB", finding["message"])
        self.assertIn("free what Cache::grow() no longer needs", finding["advice"])
        self.assertIn("The rest, 2 GiB, does not grow.", finding["advice"])

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
        self.assertEqual(self.finding(program.reason_oom(device=0))["severity"], "warning")
        self.assertEqual(self.finding(program.reason_oom(device=1))["severity"], "error")
        self.assertEqual(self.finding(program.reason_oom(device=1, requested=900 * MIB))["severity"], "warning")

    def test_a_slow_leak(self):
        growth = self.grows(cache(1000, KIB), "Cache::grow()")
        self.assertEqual((growth["bytes_to"], growth["steps"]), (1000 * KIB, 1000))
        finding = self.finding(cache(1000, KIB))
        self.assertEqual((finding["severity"], finding["advice"]), ("note", None))
        self.nothing_grows(cache(1000, 32))  # 32 KB in all

    def test_a_buffer_that_is_reallocated_larger_and_larger(self):
        program = Grower()
        program.load()
        old = None
        for step in range(60):
            new = program.alloc((step + 1) * MIB, stack=GROW)
            if old:
                program.free(old)
            old = new
            program.work(step)
        growth = self.grows(program, "Cache::grow()")
        self.assertTrue(growth["replaced"])
        self.assertEqual((growth["bytes_to"], growth["count_to"]), (60 * MIB, 1))
        self.assertIn("steps to larger blocks", self.finding(program)["message"])

    def test_a_buffer_that_is_copied_into_a_larger_one_in_each_step(self):
        program = Grower()
        program.load()
        old = None
        for step in range(300):
            work = program.alloc(MIB, stack=OTHER)
            new = program.alloc((step + 1) * MIB, stack=GROW)
            if old:
                program.free(old)
            old = new
            program.free(work)
        growth = self.grows(program, "Cache::grow()")
        self.assertTrue(growth["replaced"])
        self.assertEqual((growth["bytes_to"], growth["steps"]), (300 * MIB, 300))

    def test_one_device_of_two(self):
        program = Grower()
        program.load(device=0)
        program.load(device=1)
        for step in range(100):
            program.work(step, device=0)
            program.work(step, device=1)
            program.alloc(MIB, stack=GROW, device=1)
        self.assertEqual(self.grows(program, "Cache::grow()")["device"], 1)
        self.assertEqual(self.finding(program)["device"], 1)
        self.assertEqual(self.facts(program, "--device", "0")["growth"], [])

    def test_two_owners(self):
        program = Grower()
        program.load()
        for step in range(150):
            program.work(step, blocks=10)
            program.alloc(2 * MIB, stack=GROW)
            program.alloc(MIB, stack=OTHER)
        growth = self.facts(program)["growth"]
        self.assertEqual([one["bytes_to"] for one in growth], [300 * MIB, 150 * MIB])
        self.assertIn("limit how much it keeps", self.finding(program)["advice"])

    def test_the_larger_grower_comes_first(self):
        for sizes in ((2, 1), (1, 2)):
            program = Grower()
            program.load(1)
            for step in range(60):
                program.work(step, blocks=5, stack=2)
                program.alloc(sizes[0] * MIB, stack=GROW)
                program.alloc(sizes[1] * MIB, stack=OTHER)
            growth = self.facts(program)["growth"]
            self.assertEqual([one["bytes_to"] for one in growth], [120 * MIB, 60 * MIB])
            self.assertEqual(growth[sizes.index(2)]["owner"], "Cache::grow()")

    def test_two_devices(self):
        """Each has its finding. What a helper asks for on one is divided by callers without losing the other's."""
        program = Grower()
        for device in (0, 1):
            program.load(1, device=device)
        for step in range(60):
            program.work(step, device=0, stack=2)
            program.work(step, device=1, stack=2)
            program.alloc(MIB, stack=GROW)
            program.alloc(2 * MIB, stack=1, device=1)
        for row in program.rows:  # as of test_a_function_through_which_all_ask_gives_way
            row["stack"] = 3 if row["device"] == 0 and row["stack"] == GROW else row["stack"]
        snapshot = program.snapshot(stacks=HELPER["stacks"][:3] + [[3, 2, 0]])
        self.assertEqual([(one["device"], one["owner"], one["bytes_to"], one["through"] is None)
                          for one in sorted(self.facts(snapshot)["growth"], key=lambda one: one["device"])],
                         [(0, "Cache::grow()", 60 * MIB, True), (1, "Cache::grow()", 120 * MIB, False)])
        found = [finding for finding in self.facts(snapshot)["findings"] if finding["code"] == "growth"]
        self.assertEqual(sorted((finding["device"], "120 MiB" in finding["message"], "60 MiB" in finding["message"])
                                for finding in found), [(0, False, True), (1, True, False)])

    def test_events_that_begin_late(self):
        program = cache(400)
        growth = self.grows(program.snapshot(keep=1500), "Cache::grow()")
        self.assertGreater(growth["bytes_from"], 0)
        self.assertEqual(growth["bytes_to"], 1600 * MIB)
        self.nothing_grows(Grower().snapshot())

    def test_without_stacks_it_is_the_size(self):
        growth = self.grows(cache(with_stacks=False, blocks=1), None)
        self.assertEqual((growth["file"], growth["line"], growth["through"]), (None, None, None))
        self.assertIn(": blocks of 4 MiB hold 8", self.finding(cache(with_stacks=False))["message"])
        advice = self.finding(cache(with_stacks=False).snapshot(settings={"type": "round", "stacks": "auto"}))["advice"]
        self.assertIn("GPUPOOL_STACKS=native names the code that keeps them. Free what it no longer needs, or", advice)

    def test_a_function_through_which_all_ask_gives_way(self):
        program = cache(60)
        for row in program.rows:
            row["stack"] = min(row["stack"], 2)
        growth = self.grows(program.snapshot(**HELPER), "Cache::grow()")
        self.assertIn("a::very::long::name", growth["through"])
        self.assertIn("through a::very", self.finding(program.snapshot(**HELPER))["message"])

    def test_lines_of_main_are_told_apart(self):
        """As owners are: also where a function that main calls in each of them gives way."""
        for stacks in ([[3, 0], [3, 1], [3, 2], [3, 2]], [[3, 4, 0], [3, 4, 1], [3, 4, 2], [3, 4, 2]]):
            snapshot = cache().snapshot(stacks=stacks)
            for number, frame in enumerate(snapshot["frames"][:3]):
                frame.update(function="main", file="/src/app.cu", line=90 + number)
            growth = self.grows(snapshot, "main")
            self.assertEqual((growth["file"], growth["line"], growth["bytes_from"]), ("/src/app.cu", 91, 0))
            finding = self.finding(snapshot)
            self.assertIn("main app.cu:91 ", finding["message"])
            self.assertIn("free what main app.cu:91 no longer needs", finding["advice"])

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
        self.assertEqual((growth["file"], growth["line"], growth["bytes_from"], growth["bytes_to"]),
                         (None, None, 0, 700 * MIB))
        finding = self.finding(snapshot)
        self.assertEqual(finding["severity"], "error")
        self.assertIn(": blocks of 1 MiB of python3 t.py (Python frames are not recorded) hold 700 MiB,", finding["message"])
        self.assertIn("blocks of 1 MiB of python3 t.py. The rest, 320 MiB, does not grow.", finding["advice"])
        self.assertNotIn("GPUPOOL_LIMIT", " ".join(str(one["advice"]) for one in self.facts(snapshot)["findings"]))

    def test_what_is_in_use_at_the_end_is_no_step(self):
        program = Grower()
        program.load()
        for _ in range(150):
            work = [program.alloc(MIB, stack=GROW) for _ in range(6)]
            program.alloc(MIB, stack=GROW)
            for block in work:
                program.free(block)
        self.assertEqual(self.grows(program, "Cache::grow()")["steps"], 150)

    def test_a_name_is_written_in_one_way(self):
        snapshot = cache().snapshot()
        snapshot["frames"][2]["function"] = (
            "LruCache<int, std::allocator<char> >::insert(std::__cxx11::basic_string<char, std::char_traits<char>, "
            "std::allocator<char> >)")
        finding = self.finding(snapshot)
        name = finding["message"].split("step by step: ")[1].split(" cache.cu:33")[0]
        self.assertLess(len(name), 80)
        self.assertIn("free what %s no longer needs" % name, finding["advice"])
        self.assertIn(name + " cache.cu:33", self.finding(snapshot, "owners")["message"])

    def test_a_load_of_the_same_owner_before_is_left_out(self):
        for weights in (8, 30):
            program = Grower()
            for _ in range(weights):
                program.alloc(64 * MIB, stack=GROW)
            for step in range(300):
                program.work(step)
                program.alloc(MIB, stack=GROW)
            growth = self.grows(program, "Cache::grow()")
            self.assertGreaterEqual(growth["bytes_from"], weights * 64 * MIB)
            self.assertEqual(growth["bytes_to"], (weights * 64 + 300) * MIB)

    def test_it_began_later(self):
        program = Grower()
        program.load()
        for step in range(100):
            program.work(step)
        for step in range(150):
            program.work(step)
            program.alloc(MIB, stack=GROW)
        began = [row["time_ns"] for row in program.rows if row["stack"] == GROW and row["action"] == 0][0]
        self.assertEqual(self.grows(program, "Cache::grow()")["since_ns"], began)

    def test_what_comes_and_goes_in_the_same_owner(self):
        growth = self.grows(cache(200, 512 * KIB, stack=OTHER), FRAMES[4]["function"])
        self.assertEqual(growth["bytes_to"], 100 * MIB)

    def test_when_memory_will_be_exhausted(self):
        def snapshot(program=None, reason="exit", **device):
            program = program or cache()
            used = 2800 * MIB
            stats = device_of(0, allocation=gauge(204), reserved_bytes=gauge(used + 5 * MIB), cached_bytes=gauge(5 * MIB))
            return program.snapshot(devices=[dict(stats, **device)], reason=reason)
        growth = self.grows(snapshot(limit=3600 * MIB), "Cache::grow()")
        self.assertEqual(growth["room"], 800 * MIB)
        self.assertAlmostEqual(growth["exhausted_in_ns"], 800 * MIB / growth["bytes_per_second"] * 1e9, delta=100)
        self.assertRegex(self.finding(snapshot(limit=3600 * MIB))["message"],
                         r"At this rate the limit of 3.5 GiB would be reached after another 1\.59 ms\.")
        use = {"total": 80 << 30, "free": 79 << 30, "unaccounted": 1 << 30, "use_ns": 5}
        growth = self.grows(snapshot(memory=use, **use), "Cache::grow()")
        self.assertIsNone(self.grows(snapshot(), "Cache::grow()")["exhausted_in_ns"])
        self.assertNotIn("At this rate", self.finding(snapshot())["message"])
        self.assertNotIn("At this rate", self.finding(snapshot(reason="oom", limit=3600 * MIB))["message"])
        run_out = snapshot(limit=3600 * MIB)
        run_out["devices"][0]["stats"]["num_ooms"] = 1
        self.assertNotIn("At this rate", self.finding(run_out)["message"])
        freed = cache()
        for block in [number for number, row in freed.live.items() if row["stack"] == GROW]:
            freed.free(block)
        self.assertNotIn("At this rate", self.finding(snapshot(freed, limit=3600 * MIB))["message"])

    def test_what_was_freed_at_the_end(self):
        program = cache()
        for block in [number for number, row in program.live.items() if row["stack"] == GROW]:
            program.free(block)
        growth = self.grows(program, "Cache::grow()")
        self.assertFalse(growth["held"])
        finding = self.finding(program)
        self.assertEqual((finding["severity"], finding["advice"]), ("note", None))
        self.assertIn("held 800 MiB", finding["message"])
        self.assertIn("before it was freed at the end", finding["message"])

    def test_a_program_that_only_loads(self):
        program = Grower()
        program.load(1000, MIB)
        self.nothing_grows(program)
        self.nothing_grows(program.snapshot(keep=800))
        for step in range(200):
            program.work(step)
        self.nothing_grows(program)

    def test_a_load_through_staging_memory(self):
        program = Grower()
        for step in range(60):
            staging = program.alloc(16 * MIB, stack=OTHER, address=5 << 50)
            program.alloc(16 * MIB, stack=LOAD)
            program.free(staging)
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

    def test_the_last_tooth_of_few(self):
        program = Grower()
        program.load()
        for tooth in range(4):
            held = []
            for step in range(60):
                program.work(step)
                held.append(program.alloc(MIB, stack=GROW))
            if tooth < 3:
                for block in held:
                    program.free(block)
        self.nothing_grows(program)

    def test_a_program_that_ends_with_something_else(self):
        program = Grower()
        program.load()
        for step in range(200):
            for _ in range(6):
                program.free(program.alloc(50 * KIB if step > 160 else 2 * MIB, stack=OTHER))
            program.alloc(4 * MIB, stack=GROW)
        self.nothing_grows(program)

    def test_a_slow_start(self):
        program = Grower()
        program.load()
        for step in range(400):
            program.work(step)
            if step < 200:
                program.alloc(MIB, stack=GROW)
        self.nothing_grows(program)

    def test_a_jump(self):
        program = Grower()
        program.load()
        for step in range(400):
            program.work(step)
            if step in (100, 200, 300):
                program.alloc(100 * MIB, stack=GROW)
        self.nothing_grows(program)

    def test_one_owner_takes_over_what_another_gives_back(self):
        program = Grower()
        program.load()
        given = [program.alloc(4 * MIB, stack=LOAD) for _ in range(200)]
        for step, block in enumerate(given):
            program.work(step)
            program.free(block)
            program.alloc(4 * MIB, stack=GROW)
        self.nothing_grows(program)

    def test_a_cache_that_is_full_after_most_of_the_time(self):
        for most in (280, 350):
            program = Grower()
            program.load()
            held = []
            for step in range(400):
                program.work(step)
                held.append(program.alloc(MIB, stack=GROW))
                if step > most:  # as much as it will hold
                    program.free(held.pop(0))
            self.nothing_grows(program)

    def test_few_steps_are_no_growth(self):
        self.nothing_grows(cache(12, 20 * MIB, stack=OTHER))

    def test_the_last_steps_of_many(self):
        program = Grower()
        program.load()
        for step in range(700):
            program.work(step)
        for step in range(24):
            program.work(step)
            program.alloc(MIB, stack=GROW)
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
        for steps in (1, 2, 5, 20):
            program = self.train(Grower(), steps)
            self.nothing_grows(program)
            for block in range(40):  # and it ends in a pass forward
                program.alloc(2 * MIB, stack=OTHER)
                program.work()
            self.nothing_grows(program)

    def test_a_leak_of_each_step_of_a_training(self):
        for steps in (24, 60):
            self.assertEqual(self.grows(self.train(Grower(), steps, leak=MIB), "Cache::grow()")["steps"], steps)
            self.grows(self.train(Grower(False), steps, leak=300 * KIB), None)

    def test_a_pass_over_layers(self):
        program = Grower()
        program.load()
        for layer in range(80):
            for part in range(6):
                program.work(part)
            program.alloc(8 * MIB, stack=GROW)
        self.nothing_grows(program)

    def test_a_pass_that_keeps_many_sizes(self):
        program = Grower()
        program.load()
        for layer in range(200):
            program.work(layer)
            program.alloc((layer % 3 + 1) * MIB, stack=GROW)
        self.nothing_grows(program)

    def test_methods_of_one_name_are_told_apart_by_their_files(self):
        snapshot = cache().snapshot()
        for frame in snapshot["frames"][1:3]:
            frame["function"] = "forward"
        growth = self.grows(snapshot, "forward")
        self.assertEqual((growth["file"], growth["bytes_from"], growth["through"]), ("/src/cache.cu", 0, None))

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
        self.assertGreater(self.grows(self.serve(KIB), "Cache::grow()")["steps"], 128)

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
            self.assertEqual(growth["bytes_to"], 800 * MIB)
            self.assertEqual(growth["bytes_per_second"] is not None, with_times)
            message = next(finding["message"] for finding in document["findings"] if finding["code"] == "growth")
            self.assertEqual("all of it since event" in message, not with_times)
            self.assertEqual("a second" in message, with_times)

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
            if grows:
                self.assertTrue(self.grows(program, None)["replaced"])
            else:
                self.nothing_grows(program)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    cli.GPUPOOL, cli.STUB = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])
