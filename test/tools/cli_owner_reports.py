#!/usr/bin/env python3
"""The same owner in every report, and what changes it: --skip, --skip-file, --all-frames.

    cli_owner_reports.py GPUPOOL PRELOAD_STUB [TEST ...]
"""

import json
import os
import pickle
import sys
import unittest

import cli
from cli import INPUT, MIB, USAGE
from report_case import FRAMES, Program, Reports, ordinary

TORCH = "/opt/conda/lib/python3.11/site-packages/torch/"
UNWINDER = [("torch::unwind::unwind()", "??", 0), ("torch::CapturedTraceback::gather(bool, bool, bool)", "??", 0),
            ("torch::cuda::(anonymous namespace)::gather_with_cpp()", "memory_snapshot.cpp", 0)]
ALLOCATOR = [("c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::malloc(int, unsigned long, CUstream_st*)",
              "CUDACachingAllocator.cpp", 0),
             ("at::TensorBase at::detail::_empty_generic<long>(c10::ArrayRef<long>, c10::Allocator*)", "", 0),
             ("at::detail::empty_cuda(c10::ArrayRef<long>, c10::ScalarType)", "??", 0)]
START = [("Py_BytesMain", "??", 0), ("__libc_init_first", "??", 0), ("_start", "??", 0)]


def dispatched(*names):
    """What calls an operator of PyTorch, the innermost first."""
    frames = []
    for name in names:
        frames += [("at::(anonymous namespace)::wrapper_CUDA_%s(at::Tensor const&)" % name, "RegisterCUDA.cpp", 0),
                   ("c10::impl::wrap_kernel_functor_unboxed_<c10::impl::detail::WrapFunctionIntoFunctor_<int> >", "", 0),
                   ("at::_ops::%s::call(at::Tensor const&)" % name, "??", 0), ("at::native::%s(at::Tensor const&)" % name, "??", 0)]
    return frames


def python(*lines):
    """Lines of Python with the interpreter between them, whose exported names are neighbours' ones."""
    frames = [("torch::autograd::THPVariable_conv2d(_object*, _object*, _object*)", "python_torch_functions_0.cpp", 0)]
    for line in lines:
        frames += [line, ("_PyObject_Call_Prepend", "??", 0), ("PyMethod_New", "??", 0)]
    return frames


FORWARD = UNWINDER + ALLOCATOR + dispatched("cudnn_convolution", "conv2d") + python(
    ("_conv_forward", TORCH + "nn/modules/conv.py", 456), ("_call_impl", TORCH + "nn/modules/module.py", 1501),
    ("encode", "/home/me/model.py", 41), ("<module>", "/home/me/train.py", 90)) + START
BACKWARD = UNWINDER + ALLOCATOR + dispatched("mm") + [
    ("torch::autograd::generated::MmBackward0::apply(std::vector<at::Tensor, std::allocator<at::Tensor> >&&)", "??", 0),
    ("torch::autograd::Engine::evaluate_function(int)", "??", 0),
    ("torch::autograd::python::PythonEngine::thread_init(int)", "??", 0),
    ("execute_native_thread_routine", "thread48.o", 0), ("pthread_condattr_setpshared", "??", 0), ("__xmknodat", "??", 0)]
OPTIMIZER = UNWINDER + ALLOCATOR + dispatched("zeros_like") + python(
    ("_init_group", TORCH + "optim/adam.py", 180), ("wrapper", TORCH + "optim/optimizer.py", 460),
    ("_fn", "/opt/conda/lib/python3.11/contextlib.py", 81), ("<module>", "/home/me/train.py", 93)) + START


def on_windows(file):
    for folder, there in ((TORCH, "C:/conda/Lib/site-packages/torch/"), ("/opt/conda/lib/python3.11/", "C:/conda/Lib/"),
                          ("/home/me/", "C:/Users/me/my app/")):
        if file.startswith(folder):
            return (there + file[len(folder):]).replace("/", "\\")
    return file


def torch_pickle(named=lambda file: file):
    """A history as PyTorch writes it with stacks="all"."""
    stacks = [[{"name": name, "filename": named(file), "line": line} for name, file, line in frames]
              for frames in (FORWARD, BACKWARD, OPTIMIZER)]
    sizes = (600 * MIB, 200 * MIB, 400 * MIB)
    blocks, trace, at = [], [], 1 << 40
    for i, (size, frames) in enumerate(zip(sizes, stacks)):
        trace.append({"action": "segment_alloc", "addr": at, "size": size, "stream": 0, "time_us": 10 + i, "frames": frames})
        trace.append({"action": "alloc", "addr": at, "size": size, "stream": 0, "time_us": 10 + i, "frames": frames})
        blocks.append({"device": 0, "address": at, "total_size": size, "allocated_size": size, "active_size": size,
                       "requested_size": size, "stream": 0, "segment_type": "large", "is_expandable": False,
                       "frames": frames, "blocks": [{"address": at, "size": size, "requested_size": size,
                                                     "state": "active_allocated", "frames": frames}]})
        at += size
    return pickle.dumps({"segments": blocks, "device_traces": [trace], "allocator_settings": {}, "external_annotations": []})


class Owners(Reports):
    command = "leaks"

    def test_leaks_show_the_users_part_first(self):
        text = self.report(ordinary().snapshot(reason="exit")).stdout
        self.narrow(text)
        self.assertIn(":\n    #1  Model::load(std::string const&) model.cu:12\n    #2  main app.cu:90\n"
                      "    1 frame of CUDA; --all-frames shows it\n", text)
        text = self.report(ordinary().snapshot(reason="exit"), "--all-frames").stdout
        self.assertIn(":\n    #0  cudaMalloc\n    #1  Model::load(std::string const&) model.cu:12\n    #2  main app.cu:90\n\n", text)

    def test_json_has_the_owner_and_the_whole_stack(self):
        for arguments, function, frame in (((), "Model::load(std::string const&)", 1), (("--all-frames",), "cudaMalloc", 0)):
            leak = self.document(ordinary().snapshot(reason="exit"), *arguments)["leaks"][0]
            self.assertEqual((leak["owner"]["function"], leak["owner"]["frame"]), (function, frame))
            self.assertEqual(len(leak["stack"]), 3)
        self.assertIsNone(self.document(ordinary(False).snapshot(reason="exit"))["leaks"][0]["owner"])

    def owners(self, *arguments):
        path = self.write("s.json", ordinary().snapshot())
        summary = json.loads(self.run_tool("summary", path, "--json", *arguments).stdout)["snapshots"][0]["owners"]
        sites = json.loads(self.run_tool("sites", path, "--json", "--sort=peak", *arguments).stdout)["snapshots"][0]["sites"]
        held = {owner["function"]: owner["bytes"] for owner in summary}
        flat = {site["name"]: site["flat"]["peak"]["bytes"] for site in sites}
        self.assertEqual(held, {name: flat[name] for name in held})  # the same in both
        return held

    def test_frames_that_the_user_names_own_nothing(self):
        self.assertEqual(list(self.owners())[0], "Cache::grow()")
        self.write("skip.txt", "# ours\n\n  ^Cache::\n^a::very\n")
        for arguments in (("--skip", "^Cache::", "--skip=/src/long.cu"), ("--skip-file=" + self.path("work/skip.txt"),)):
            held = self.owners(*arguments)
            self.assertEqual(held, {"main": 31 * MIB, "Model::load(std::string const&)": 25 * MIB})
        self.assertEqual(self.owners("--all-frames"), {"cudaMalloc": 56 * MIB})

    def test_the_tree_has_owners_and_who_called_them(self):
        path = self.write("s.json", ordinary().snapshot())
        text = self.run_tool("sites", path, "--tree").stdout
        self.narrow(text)
        self.assertRegex(text, r"\nallocated at [^\n]*: 56 MiB in all\n")
        self.assertIn("""
    35 MiB  62.5%  Cache::grow() cache.cu:33
    30 MiB  53.6%    main app.cu:90
     5 MiB   8.9%    Model::load(std::string const&) model.cu:12
     5 MiB   8.9%      main app.cu:90
    20 MiB  35.7%  Model::load(std::string const&) model.cu:12
    20 MiB  35.7%    main app.cu:90
""", text)
        document = json.loads(self.run_tool("sites", path, "--tree", "--json").stdout)
        self.expect_valid(document, "sites")
        (grow, *_) = document["snapshots"][0]["tree"]
        self.assertEqual((grow["name"], grow["bytes"], grow["count"]), ("Cache::grow() cache.cu:33", 35 * MIB, 2))
        self.assertEqual([(caller["bytes"], len(caller["callers"])) for caller in grow["callers"]], [(30 * MIB, 0), (5 * MIB, 1)])
        # What --skip names is no caller either, and without stacks there is no tree.
        self.assertNotIn("main", self.run_tool("sites", path, "--tree", "--skip=^main$").stdout)
        self.assertIn("No stacks were recorded", self.report(ordinary(False), "--tree", command="sites").stdout)
        program = ordinary()
        program.alloc(1 << 30)
        text = self.report(program, "--tree", command="sites").stdout
        self.assertRegex(text, r"\n +1 GiB +[0-9.]+%  \(no stack recorded\)\n")
        result = self.report(program, "--tree", "--by=size", command="sites", status=USAGE)
        self.assertIn("it cannot be combined with --by", result.stderr)

    def test_a_function_without_lines_is_one_owner(self):
        """main and the like are added up by line, where there are lines."""
        frames = [{"function": name, "file": "", "line": 0, "module": -1, "address": 4096 + i, "inline": False}
                  for i, name in enumerate(["main", "main", "cudaMalloc"])]
        program = Program()
        program.alloc(30 * MIB, stack=0)
        program.alloc(20 * MIB, stack=1)
        facts = json.loads(self.report(program.snapshot(frames=frames, stacks=[[2, 0], [2, 1]], modules=[]), "--json",
                                       command="summary").stdout)["snapshots"][0]
        (found,) = [finding for finding in facts["findings"] if finding["code"] == "owners"]
        self.assertIn("the biggest owner is main 50 MiB (100%)", found["message"])

    def test_what_hands_on_is_found_by_what_is_held_too(self):
        """take() is called by hold() and, for far more bytes that are freed at once, by tmp()."""
        names = ["main", "a()", "b()", "hold()", "take()", "tmp()", "cudaMalloc"]
        frames = [{"function": name, "file": "", "line": 0, "module": -1, "address": 4096 + i, "inline": False}
                  for i, name in enumerate(names)]
        program = Program()
        for stack, size in ((0, 40), (1, 30)):
            program.alloc(size * MIB, stack=stack)
        for _ in range(20):
            program.free(program.alloc(50 * MIB, stack=2, address=9 << 40))
        facts = json.loads(self.report(program.snapshot(
            reason="oom", frames=frames, stacks=[[6, 4, 3, 1, 0], [6, 4, 3, 2, 0], [6, 4, 5, 0]], modules=[]),
            "--json", command="summary").stdout)["snapshots"][0]
        (found,) = [finding for finding in facts["findings"] if finding["code"] == "owners"]
        self.assertIn("the biggest owners are a() through hold 40 MiB (57.1%) in 1 block; b() through hold 30 MiB", found["message"])

    def test_leaks_that_are_alike_are_in_order(self):
        """As many bytes each: the oldest first, and what is older than the events by device and size."""
        program = Program()
        for stack in (0, 3, 1):
            program.alloc(6 * MIB, stack=stack)
        leaks = self.document(program.snapshot(reason="exit"))["leaks"]
        self.assertEqual([leak["owner"]["function"] for leak in leaks],
                         ["Model::load(std::string const&)", FRAMES[4]["function"], "Cache::grow()"])
        program = Program(with_stacks=False)
        for device in (2, 0, 1):
            program.alloc(6 * MIB, device=device)
        program.event("snapshot")
        for reverse in (False, True):
            snapshot = program.snapshot(keep=1, reason="exit")
            snapshot["segments"].sort(key=lambda segment: segment["device"], reverse=reverse)
            for segment in snapshot["segments"]:
                segment["blocks"][0]["time_ns"] = 0
            self.assertEqual([leak["device"] for leak in self.document(snapshot)["leaks"]], [0, 1, 2])

    def test_wrong_patterns_are_one_line(self):
        path = self.write("s.json", ordinary().snapshot())
        self.write("all.txt", "grow\n*\n")
        for command in (("summary",), ("export", "--to=csv")):
            for option, status, part in (
                    ("--skip=*", USAGE, "--skip=* is malformed"), ("--skip-file=none", INPUT, "none: No such file"),
                    ("--skip-file=all.txt", INPUT, "all.txt: line 2: a pattern that matches everything")):
                result = self.run_tool(*command, path, option, status=status)
                self.one_line(result.stderr)
                self.assertIn(part, result.stderr)

    def test_memory_without_stacks_is_said_before_the_biggest_owner(self):
        program = Program()
        program.alloc(325 * MIB, stack=0)
        program.alloc(675 * MIB)
        summary = self.run_tool("summary", self.write("s.json", program.snapshot())).stdout
        self.assertIn("Of the 1000 MiB in use at its peak, 675 MiB (67.5%) have no call stack, and of the rest "
                      "the biggest owner is Model::load(std::string const&) model.cu:12 325 MiB (32.5%) in 1 block.",
                      " ".join(summary.split()))


class PyTorch(cli.Case):
    def setUp(self):
        super().setUp()
        self.file = self.path("work", "s.pickle")
        with open(self.file, "wb") as file:
            file.write(torch_pickle())

    def run_on(self, command, *arguments):
        return self.run_tool(command, self.file, *arguments).stdout

    def test_the_first_screen_names_the_lines(self):
        first = " ".join(self.run_on("summary").split())
        self.assertIn("the biggest owners are encode model.py:41 (aten::conv2d) 600 MiB (50.0%) in 1 block; <module> "
                      "train.py:93 (aten::zeros_like) 400 MiB (33.3%) in 1 block; "
                      "torch::autograd::generated::MmBackward0::apply (aten::mm) 200 MiB (16.7%) in 1 block.", first)
        self.assertNotIn("unwind", first)

    def test_paths_of_another_system(self):
        """`\\` separates like `/`: owners, what is folded, a search."""
        here = {command: self.run_on(command) for command in ("summary", "leaks", "sites")}
        with open(self.file, "wb") as file:
            file.write(torch_pickle(on_windows))
        self.assertEqual({command: self.run_on(command) for command in here}, here)
        self.assertIn("encode model.py", self.run_on("sites", "--focus=my app/model.py"))

    def test_leaks_and_sites_name_the_same(self):
        text = self.run_on("leaks")
        self.assertIn(" encode model.py:41 (aten::conv2d)\n", text)
        self.assertRegex(text, r"\n    \d+ frames of the unwinder, PyTorch, Python and the C library;")
        flat = {site["name"]: site["flat"]["live"]["bytes"] // MIB
                for site in json.loads(self.run_on("sites", "--json", "--sort=live"))["snapshots"][0]["sites"]}
        self.assertEqual({name: size for name, size in flat.items() if size},
                         {"encode model.py": 600, "<module> train.py": 400, "torch::autograd::generated::MmBackward0::apply": 200})
        self.assertNotIn("_PyObject_Call_Prepend", flat)  # interpreters and dispatchers would fill the list
        whole = json.loads(self.run_on("sites", "--json", "--all-frames"))["snapshots"][0]["sites"]
        self.assertIn("_PyObject_Call_Prepend", [site["name"] for site in whole])

    def test_the_same_with_json(self):
        (first, *_) = json.loads(self.run_on("summary", "--json"))["snapshots"][0]["owners"]
        self.assertEqual(first, {"function": "encode", "file": "/home/me/model.py", "line": 41, "through": first["through"],
                                 "operation": "aten::conv2d", "bytes": 600 * MIB, "blocks": 1, "size_least": 600 * MIB,
                                 "size_most": 600 * MIB, "freed": 0})
        self.assertIn("torch::unwind::unwind()", self.run_on("summary", "--all-frames"))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    cli.GPUPOOL, cli.STUB = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])
