#!/usr/bin/env python3
"""Whose memory it is, by component: the table of tools/model/component.def, row by row, and what goes before what.

    test_component.py GPUPOOL PRELOAD_STUB COMPONENT_DEF
"""

import json
import re
import sys
import unittest

import cli
import report_case
from cli import MIB
from report_case import Program, Reports

TABLE = None


def rows(macro):
    with open(TABLE, encoding="utf-8") as file:
        return re.findall(r"^%s\((.*?)\)$" % macro, file.read(), re.M)


def row(macro):
    """[(component, pattern)] of that macro."""
    return [re.fullmatch(r'(\w+), "(.*)"', text).groups() for text in rows(macro)]


NAMES = {}  # of components, by enumerator


class Component(Reports):
    command = "sites"

    def setUp(self):
        super().setUp()
        self.frames, self.modules, self.stacks = [], [], []
        self.program = Program()

    def stack(self, *frames):
        """Of frames "function", "function@module" or "function file.py", the innermost first."""
        stack = []
        for text in frames:
            module, file = -1, ""
            if "@" in text:
                text, path = text.split("@")
                self.modules.append({"path": path, "build_id": "", "bias": 0, "start": 4096, "end": 8192})
                module = len(self.modules) - 1
            elif text.endswith(".py"):
                text, file = text.rsplit(" ", 1)
            self.frames.append({"address": 4096 + len(self.frames), "module": module, "function": text, "file": file,
                                "line": 1 if file else 0, "inline": False})
            stack.append(len(self.frames) - 1)
        self.stacks.append(stack)
        return len(self.stacks) - 1

    def shares(self, *arguments, measure="live", which="flat"):
        snapshot = self.program.snapshot(stacks=self.stacks, frames=self.frames, modules=self.modules)
        facts = self.facts(snapshot, "--by", "component", *arguments)
        self.assertEqual(facts["by"], "component")
        return {site["name"]: site[which][measure]["bytes"] for site in facts["sites"] if site[which][measure]["bytes"]}

    def expect(self, component, *frames):
        """Memory of that stack is the component's."""
        self.frames, self.modules, self.stacks, self.program = [], [], [], Program()
        self.program.alloc(MIB, stack=self.stack(*frames))
        self.assertEqual(self.shares(), {component: MIB}, frames)


class Framework(Component):
    """The finding about a framework's own cache."""

    def found(self, *sizes, stack=("cudaMalloc@libcudart.so.13", "c10::cuda::f()@/x/libc10_cuda.so", "main@/usr/bin/app"), own=MIB):
        self.frames, self.modules, self.stacks, self.program = [], [], [], Program()
        cache, program = self.stack(*stack), self.stack("main@/usr/bin/app")
        for size in sizes:
            self.program.alloc(size, stack=cache)
        self.program.alloc(own, stack=program)
        snapshot = self.program.snapshot(stacks=self.stacks, frames=self.frames, modules=self.modules)
        document = json.loads(self.report(snapshot, "--json", command="summary").stdout)
        return [finding for finding in document["snapshots"][0]["findings"] if finding["code"] == "framework"]

    def test_its_pieces(self):
        (finding,) = self.found(2 * MIB, 20 * MIB, 60 * MIB)
        self.assertIn("Of the 83 MiB in use on device 0 at its peak, PyTorch has 82 MiB in blocks of 2 MiB and more", finding["message"])
        self.assertIn("PYTORCH_NO_CUDA_MEMORY_CACHING=1", finding["advice"])
        self.assertIsNone(finding["remedy"])

    def test_not_of_tensors(self):
        self.assertEqual(self.found(*[(3 * MIB) + 512 * i for i in range(30)]), [])
        self.assertEqual(self.found(64 * MIB, 32 * MIB, 4096), [])

    def test_not_of_little(self):
        self.assertEqual(self.found(20 * MIB, 20 * MIB), [])
        self.assertEqual(self.found(20 * MIB, 60 * MIB, own=100 * MIB), [])

    def test_not_of_programs(self):
        self.assertEqual(self.found(20 * MIB, 60 * MIB, stack=("main@/usr/bin/app",)), [])
        self.assertEqual(self.found(20 * MIB, 60 * MIB, stack=("f@libnccl.so.2", "main@/usr/bin/app")), [])


class Table(Component):
    """Each row decides a stack that nothing else would."""

    def expect_all(self, rows_of, frame_of):
        self.assertGreater(len(rows_of), 3)
        wanted = {}
        for number, (component, pattern) in enumerate(rows_of):
            size = MIB + number
            self.program.alloc(size, stack=self.stack(frame_of(pattern), "main@/usr/bin/app"))
            name = NAMES[component]
            wanted[name] = wanted.get(name, 0) + size
        return wanted

    def is_decided(self, macro, frame_of):
        rows_of = [(component, pattern) for component, pattern in row(macro)]
        wanted = self.expect_all(rows_of, frame_of)
        frameworks = [NAMES[text.split(",")[0]] for text in rows("COMPONENT") if text.endswith("true")]
        # What a framework got for the program is the program's, and the framework's in its cumulative sum.
        own = {name: size for name, size in wanted.items() if name not in frameworks}
        shares = self.shares()
        self.assertEqual({name: size for name, size in shares.items() if name != "the program's own"}, own)
        through = self.shares(which="cumulative")
        self.assertEqual({name: through[name] for name in wanted}, wanted)

    def test_functions(self):
        self.is_decided("FUNCTION", lambda pattern: pattern + ("x" if pattern[-1] in ":_" else "Create(int)"))

    def test_results_of_templates(self):
        self.is_decided("FUNCTION", lambda pattern: "void " + pattern + ("x" if pattern[-1] in ":_" else "Get<int>(int)"))

    def test_modules(self):
        self.is_decided("MODULE", lambda pattern: "f@/usr/lib/python3/dist" + pattern + "x.so" if "/" in pattern else
                        "f@/usr/lib/" + pattern + ("x" if pattern[-1] == "_" else "") + ".so.2")

    def test_files_of_python(self):
        self.frames = []
        for component, pattern in row("SOURCE"):
            path = pattern if pattern[0] == "t" else "/usr/lib/python3/dist" + pattern
            self.expect(NAMES[component], "f %sx.py" % path)

    def test_longer_words_are_others(self):
        for name in ("libtorchvision.so", "libncclient.so", "libcublasters.so.1"):
            self.expect("the program's own", "f@/usr/lib/" + name)
        for name in ("ncclient()", "cublas_of_ours(int)", "cudnn_wrapper"):
            self.expect("the program's own", name)

    def test_kinds(self):
        """Whatever their stacks: who made a graph does not hold what it needs."""
        self.stack("cudaGraphInstantiate", "f@/usr/lib/libnccl.so.2", "main@/usr/bin/app")
        for kind in ("graph", "capture"):
            self.program = Program()
            report_case.DETAILS.append(kind)
            self.addCleanup(report_case.DETAILS.remove, kind)
            self.program.managed(MIB, stack=0, kind=kind)
            self.assertEqual(self.shares(), {"CUDA graphs": MIB})


class Precedence(Component):
    LIBC = "__libc_start_main@/lib/libc.so.6"

    def test_the_innermost_library_that_is_known(self):
        self.expect("NCCL", "cudaMalloc@/x/libcudart.so.13", "ncclCudaCalloc@/x/libnccl.so.2",
                    "c10d::start()@/x/libtorch_cuda.so", "main@/usr/bin/app", self.LIBC)
        self.expect("cuBLAS", "a@/x/libcublasLt.so.13", "b@/x/libcudnn_engines_precompiled.so.9", "main@/usr/bin/app")
        self.expect("cuDNN", "b@/x/libcudnn.so.9", "a@/x/libcublas.so.13", "main@/usr/bin/app")

    def test_a_callback_of_the_program_is_its_own(self):
        self.expect("the program's own", "cudaMalloc", "gpu_alloc(unsigned long)@/usr/bin/app", "x@/x/libnvinfer.so.10",
                    "main@/usr/bin/app")

    def test_without_names(self):
        self.expect("NCCL", "@/x/libcudart.so.13", "@/x/libnccl.so.2.27.3", "@/usr/bin/app")
        self.expect("cuBLAS", "@/x/libcudart-d0da41ae.so.11.0", "@/x/libcublas-ae12.so.11", "@/usr/bin/app")

    def test_a_tensor_is_the_programs(self):
        allocator = ["c10::cuda::CUDACachingAllocator::malloc(void**)@/x/libc10_cuda.so",
                     "at::detail::empty_cuda(long)@/x/libtorch_cuda.so"]
        self.expect("the program's own", *allocator, "load()@/usr/bin/app")
        self.expect("the program's own", *allocator, "_PyEval_EvalFrameDefault", "_call_impl /x/site-packages/torch/nn/m.py",
                    "forward /home/me/model.py", "main@/usr/bin/python3", self.LIBC)
        # No lines of Python were recorded; whatever they are, the program runs them.
        self.expect("the program's own", *allocator, "f@/usr/lib/libpython3.13.so.1", "main@/usr/bin/python3", self.LIBC)

    def test_what_only_the_framework_explains_is_its(self):
        allocator = ["c10::cuda::CUDACachingAllocator::malloc(void**)@/x/libc10_cuda.so",
                     "at::native::add(at::Tensor const&)@/x/libtorch_cuda.so"]
        self.expect("PyTorch", *allocator, "torch::autograd::Engine::thread_main()@/x/libtorch_cpu.so",
                    "execute_native_thread_routine@/lib/libstdc++.so.6", "start_thread@/lib/libc.so.6")
        self.expect("PyTorch", "at::empty()", "slot_tp_call", "loop /x/site-packages/torch/utils/data/_utils.py",
                    "clone3")

    def test_how_threads_begin_is_passed_over(self):
        """Libraries without symbols show the name of a neighbour instead."""
        for begin in ("clone", "__clone", "__xmknodat", "__clone3"):
            self.expect("PyTorch", "c10::cuda::CUDACachingAllocator::Native::malloc(unsigned long)",
                        "torch::autograd::generated::DivBackward0::apply(std::vector<at::Tensor>&&)",
                        "torch::autograd::Engine::thread_main(std::shared_ptr<torch::autograd::GraphTask> const&)",
                        "std::error_code::default_error_condition() const", "pthread_condattr_setpshared", begin)

    def test_workspaces_of_libraries_in_pytorchs_allocator(self):
        for component, function in (
                ("cuBLAS", "at::cuda::getNewWorkspace()"), ("cuBLAS", "void at::cuda::blas::gemm_and_bias<float>(bool)"),
                ("cuDNN", "at::native::raw_cudnn_convolution_forward_out(at::Tensor const&)"),
                ("cuSOLVER", "void at::cuda::solver::getrf<float>(cusolverDnContext*)")):
            self.expect(component, "c10::cuda::CUDACachingAllocator::Native::malloc(unsigned long)", function,
                        "at::native::addmm(at::Tensor const&)", "forward /x/site-packages/torch/nn/linear.py",
                        "train /home/me/train.py")

    def test_what_nothing_shows(self):
        self.expect("(not known)", "cudaMalloc@/x/libcudart.so.13", "rmm::mr::allocate()", "clone3@/lib/libc.so.6")
        self.program = Program()
        self.program.alloc(MIB)
        self.assertEqual(self.shares(), {"(no stack recorded)": MIB})


class Columns(Component):
    def test_flat_and_cumulative(self):
        self.program.alloc(3 * MIB, stack=self.stack("x@/x/libnccl.so.2", "c10d::f()@/x/libtorch_cuda.so",
                                                     "main@/usr/bin/app"))
        self.program.free(self.program.alloc(5 * MIB, stack=self.stack("main@/usr/bin/app")))
        self.assertEqual(self.shares(), {"NCCL": 3 * MIB})
        self.assertEqual(self.shares(measure="peak"), {"NCCL": 3 * MIB, "the program's own": 5 * MIB})
        self.assertEqual(self.shares(measure="peak", which="cumulative"),
                         {"NCCL": 3 * MIB, "PyTorch": 3 * MIB, "the program's own": 8 * MIB})
        self.assertEqual(self.shares("--focus", "libtorch"), {"NCCL": 3 * MIB})

    def test_text(self):
        self.program.alloc(3 * MIB, stack=self.stack("x@/x/libnccl.so.2", "main@/usr/bin/app"))
        snapshot = self.program.snapshot(stacks=self.stacks, frames=self.frames, modules=self.modules)
        text = self.report(snapshot, "--by", "component").stdout
        self.assertRegex(text, r"(?m)^ *3 MiB +100% +3 MiB +100% +1 +none  NCCL$")
        self.narrow(text)


class Finding(Component):
    """What is not the program's own is said on the first screen, where it is much."""

    def findings(self, **changes):
        snapshot = self.program.snapshot(stacks=self.stacks, frames=self.frames, modules=self.modules, **changes)
        facts = cli.json.loads(self.report(snapshot, "--json", command="summary").stdout)["snapshots"][0]
        return [(item["device"], item["message"]) for item in facts["findings"] if item["code"] == "components"]

    def hold(self, nccl, own):
        self.frames, self.modules, self.stacks, self.program = [], [], [], Program()
        stacks = [self.stack("x@/x/libnccl.so.2", "main@/usr/bin/app"), self.stack("main@/usr/bin/app"),
                  self.stack("x@/x/libcudnn.so.9", "main@/usr/bin/app")]
        held = [self.program.alloc(nccl, stack=stacks[0]), self.program.alloc(own, stack=stacks[1])]
        return stacks, held

    def test_at_the_peak(self):
        stacks, held = self.hold(40 * MIB, 260 * MIB)
        self.program.alloc(100 * MIB, stack=stacks[2])
        self.program.free(held[1])
        self.assertEqual(self.findings(), [(0, "Of the 400 MiB in use on device 0 at its peak, 35.0% was not requested by the "
                                            "program's own code but by cuDNN 100 MiB, by NCCL 40 MiB.")])

    def test_when_memory_ran_out(self):
        """And not as of the end, when nothing is left, nor as of another device's peak."""
        stacks, held = self.hold(40 * MIB, 60 * MIB)
        other = self.program.alloc(500 * MIB, stack=stacks[1], device=1)
        self.program.event("oom", size=MIB)
        for block in (*held, other):
            self.program.free(block)
        self.program.alloc(500 * MIB, stack=stacks[1])
        self.assertEqual(self.findings(), [(0, "Of the 100 MiB in use on device 0 when memory ran out, 40.0% was not requested "
                                            "by the program's own code but by NCCL 40 MiB.")])

    def test_not_where_it_is_little(self):
        self.hold(31 * MIB, MIB)
        self.assertEqual(self.findings(), [])
        self.hold(40 * MIB, 400 * MIB)
        self.assertEqual(self.findings(), [])
        self.hold(40 * MIB, 300 * MIB)
        self.assertEqual(len(self.findings()), 1)


class Beside(Component):
    """What is in no component: the pool's own, what the device reports beside, memory of the host."""

    def snapshot(self, keeps=True):
        """Of what a server holds: at work 8 MiB of its own, and NCCL's 3 MiB; the first are gone when it sleeps."""
        self.frames, self.modules, self.stacks = [], [], []
        program = self.program = Program()
        program.alloc(3 * MIB, stack=self.stack("x@/x/libnccl.so.2", "main@/usr/bin/app"))
        own = program.alloc(8 * MIB, 10 * MIB, stack=self.stack("main@/usr/bin/app"))
        program.managed(5 * MIB, stack=1, kind="pinned_host")
        if not keeps:
            program.free(own)
        device = cli.device_of(0, reserved_bytes=cli.gauge(13 * MIB), requested_bytes=cli.gauge((11 if keeps else 3) * MIB))
        device["use"] = {"time_ns": 7000, "total": 80 << 30, "free": 70 << 30, "accounted": 13 * MIB,
                         "unaccounted": 600 * MIB}
        return program.snapshot(stacks=self.stacks, frames=self.frames, modules=self.modules, devices=[device])

    BESIDE = {"pool": {"end": 2 * MIB, "peak": 2 * MIB}, "contexts": 600 * MIB,
              "pinned_host": {"end": {"bytes": 5 * MIB, "count": 1}, "peak": {"bytes": 0, "count": 0}}}

    def test_sites(self):
        self.assertEqual(self.facts(self.snapshot(), "--by", "component")["beside"], self.BESIDE)
        self.assertNotIn("beside", self.facts(self.snapshot()))
        text = self.report(self.snapshot(), "--by", "component", "--sort", "live").stdout
        self.assertRegex(text, r"(?m)^ +2 MiB +in addition:  the pool's \(freed, rounding\)$")
        self.assertRegex(text, r"(?m)^ +600 MiB +in addition:  contexts, code, other processes$")
        self.assertRegex(text, r"(?m)^ +5 MiB +in addition:  pinned memory of the host$")
        self.assertNotIn("pinned", self.report(self.snapshot(), "--by", "component").stdout)  # got after the peak
        self.assertNotIn("beside", self.report(self.snapshot(), "--by", "component", "--sort", "total").stdout)

    def test_at_a_moment(self):
        facts = self.facts(self.snapshot(keeps=False), "--by", "component", "--at", "peak")
        self.assertEqual([(site["name"], site["flat"]["live"]["bytes"]) for site in facts["sites"]],
                         [("the program's own", 8 * MIB), ("NCCL", 3 * MIB)])
        self.assertEqual(facts["beside"]["pool"], {"end": 2 * MIB, "peak": 2 * MIB})
        facts = self.facts(self.snapshot(keeps=False), "--by", "component", "--at", "exit")
        self.assertEqual(facts["beside"]["pool"], {"end": 10 * MIB, "peak": 2 * MIB})

    def test_summary(self):
        text = self.report(self.snapshot(keeps=False), command="summary").stdout
        section = text[text.index("  by component"):text.index("Events:")]
        self.assertEqual([line.split("  ")[1:] for line in re.sub("  +", "  ", section).splitlines() if line], [
            ["by component", "at the end", "at the peak", "share"],
            ["the program's own", "0 B", "8 MiB", "72.7%"],
            ["NCCL", "3 MiB", "3 MiB", "27.3%"],
            ["the pool's (freed, rounding)", "10 MiB", "2 MiB"],
            ["contexts, code, other processes", "600 MiB", "600 MiB"],
            ["pinned memory of the host", "5 MiB", "0 B"]])
        self.narrow(text)
        result = self.report(self.snapshot(), "--json", command="summary")
        device, = cli.json.loads(result.stdout)["snapshots"][0]["devices"]
        self.expect_valid(cli.json.loads(result.stdout), "summary")
        self.assertEqual(device["beside"], self.BESIDE)
        self.assertEqual(device["components"], [
            {"name": "the program's own", "end": {"bytes": 8 * MIB, "count": 1}, "peak": {"bytes": 8 * MIB, "count": 1}},
            {"name": "NCCL", "end": {"bytes": 3 * MIB, "count": 1}, "peak": {"bytes": 3 * MIB, "count": 1}}])

    def test_no_section_where_all_is_the_programs(self):
        self.assertNotIn("by component", self.report(report_case.ordinary(), command="summary").stdout)
        self.assertNotIn("by component", self.report(report_case.ordinary(with_stacks=False), command="summary").stdout)

    def test_each_device_for_itself(self):
        program = Program()
        stacks = [self.stack("x@/x/libnccl.so.2"), self.stack("main@/usr/bin/app")]
        program.alloc(3 * MIB, stack=stacks[0])
        program.alloc(4 * MIB, stack=stacks[1], device=1)
        snapshot = program.snapshot(stacks=self.stacks, frames=self.frames, modules=self.modules)
        facts = cli.json.loads(self.report(snapshot, "--json", command="summary").stdout)["snapshots"][0]
        self.assertEqual([[(item["name"], item["peak"]["bytes"]) for item in device["components"]]
                          for device in facts["devices"]], [[("NCCL", 3 * MIB)], [("the program's own", 4 * MIB)]])

    def diff(self, *arguments):
        paths = [self.write("awake.json", self.snapshot()), self.write("asleep.json", self.snapshot(keeps=False))]
        return self.run_tool("diff", "--by", "component", *paths, *arguments).stdout

    def test_what_stays(self):
        document = cli.json.loads(self.diff("--json"))
        self.expect_valid(document, "diff")
        self.assertEqual((document["by"], document["sort"]), ("component", "live"))
        self.assertEqual([(site["name"], site["before"] // MIB, site["after"] // MIB) for site in document["sites"]], [
            ("the pool's (freed, rounding)", 2, 10), ("the program's own", 8, 0),
            ("contexts, code, other processes", 600, 600), ("pinned memory of the host", 5, 5), ("NCCL", 3, 3)])
        text = self.diff()
        self.assertIn("Device memory in use at the end: 613 MiB before, 613 MiB after. What stays: contexts, code, "
                      "other processes 600 MiB, the pool's (freed, rounding) 10 MiB, NCCL 3 MiB.",
                      " ".join(text.split()))
        self.assertRegex(text, r"(?m)^ +3 MiB +3 MiB +0  NCCL$")
        self.narrow(text)

    def test_other_sorts(self):
        self.assertNotIn("in use at the end", self.diff("--sort", "total"))
        paths = self.path("work", "asleep.json"), self.path("work", "empty.json")
        self.write("empty.json", Program().snapshot())
        self.assertIn("in use at the end: 613 MiB before, 0 B after.\n", self.run_tool("diff", "--by", "component", *paths).stdout)
        self.assertIn("0 B before, 613 MiB after. After: contexts",
                      " ".join(self.run_tool("diff", "--by", "component", *reversed(paths)).stdout.split()))
        self.assertNotIn("contexts", self.diff("--sort", "total").split("By component")[1])
        self.assertIn("the pool's", self.diff("--sort", "peak"))
        plain = self.run_tool("diff", self.path("work", "awake.json"), self.path("work", "asleep.json")).stdout
        self.assertIn("By function, peak\n  no difference", plain)


if __name__ == "__main__":
    cli.GPUPOOL, cli.STUB, TABLE = sys.argv[1:4]
    for fields in rows("COMPONENT"):
        enumerator, name, _ = re.fullmatch(r'(\w+), "(.*)", (true|false)', fields).groups()
        NAMES[enumerator] = name
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
