"""Who asked for memory: which events have a stack, and whether it is the right one."""

import json
import os
import subprocess
import unittest

from harness import LIBRARY, PROG, SANITIZED, SIM, PreloadCase

TOOL = os.environ.get("GP_TOOL")
HAS_NAMES = TOOL and os.environ["GP_SYMBOLS"] == "1"
HAS_CPP = os.path.exists(os.path.join(PROG, "throws"))
PLUGINS = os.environ["GP_PLUGINS"].split(":")


class Snapshot:
    """A snapshot, and the events of it as rows."""

    def __init__(self, document):
        self.document = document
        events = document["events"]
        self.events = [
            {name: events[name][i] for name in ("size", "hit", "stack", "thread")} | {"action": events["actions"][action]}
            for i, action in enumerate(events["action"])]

    def of(self, action, size=None):
        return [event for event in self.events if event["action"] == action and size in (None, event["size"])]

    def frames(self, stack):
        return [self.document["frames"][i] for i in self.document["stacks"][stack]]

    def names(self, stack):
        return [frame.get("function", "?") for frame in self.frames(stack)]

    def modules(self, stack):
        return [os.path.basename(self.document["modules"][frame["module"]]["path"]) for frame in self.frames(stack)]


class Descriptors(PreloadCase):
    def test_files_of_the_program_stay_its_own(self):
        """libunwind has a pipe, and knows it by number only."""
        for stacks in ("off", "auto", "native", "fp"):
            run = self.run_program("closes", ".", STACKS=stacks)
            self.assertEqual((run.status, run.out), (0, ""), stacks)
            found = Snapshot(run.snapshot()).of("alloc", 4 << 20)
            self.assertGreaterEqual(len(found), 100)
            self.assertEqual({event["stack"] >= 0 for event in found}, {stacks != "off"}, stacks)


class Stacks(PreloadCase):
    def take(self, run, name=True):
        self.assertEqual(run.status, 0, run.err)
        if run.snapshot()["settings"]["trace"] == "all":
            self.expect_valid(run.snapshot())
        path, = run.snapshot_paths("exit")
        if name and HAS_NAMES:
            out = os.path.join(run.folder, "named.json")
            subprocess.run([TOOL, "symbolize", path, "-o", out], check=True, stderr=subprocess.PIPE)
            with open(out) as file:
                document = json.load(file)
            if document["settings"]["trace"] == "all":
                self.expect_valid(document)
            return Snapshot(document)
        return Snapshot(run.snapshot())

    def stacks(self, *args, **settings):
        return self.take(self.run_program("stacks", *args, **settings))

    def expect_names(self, snapshot, stack, *wanted):
        """These functions are in the stack, in this order, the innermost first."""
        self.assertGreaterEqual(stack, 0)
        names = snapshot.names(stack)
        self.assertNotIn("libgpupool.so", snapshot.modules(stack))
        if not HAS_NAMES:
            return
        at = -1
        for name in wanted:
            self.assertIn(name, names[at + 1:], names)
            at = names.index(name, at + 1)


@unittest.skipIf(SANITIZED, "the sanitizers' frames and stacks are their own")
class Policy(Stacks):
    def having(self, snapshot):
        """Which of the events of `stacks policy` have a stack."""
        found = set()
        for event in snapshot.events:
            if event["stack"] >= 0 and event["action"] in ("alloc", "passthrough_alloc", "segment_alloc"):
                found.add((event["action"], event["size"]))
        return found

    ALLOCS = {("alloc", 1000), ("alloc", 1001), ("alloc", 4000000), ("alloc", 4000001), ("passthrough_alloc", 70000),
              ("alloc", 70001), ("alloc", 5000000)}  # the last two in stream order

    def test_auto(self):
        snapshot = self.stacks("policy")
        segments = {("segment_alloc", event["size"]) for event in snapshot.of("segment_alloc")}
        self.assertEqual(len(segments), 3)  # one of small blocks is as large as what is mapped
        # A hit of a small block costs no stack.
        self.assertEqual(snapshot.of("alloc", 1001)[0]["hit"], 1)
        self.assertEqual(snapshot.of("alloc", 4000001)[0]["hit"], 1)
        self.assertEqual(self.having(snapshot), (self.ALLOCS - {("alloc", 1001)}) | segments)
        self.expect_names(snapshot, snapshot.of("alloc", 1000)[0]["stack"],
                          "cudaMalloc", "allocate", "small_from_driver", "main")
        self.expect_names(snapshot, snapshot.of("alloc", 4000000)[0]["stack"], "allocate", "large_from_driver", "main")
        self.expect_names(snapshot, snapshot.of("alloc", 4000001)[0]["stack"], "allocate", "large_from_pool", "main")
        self.expect_names(snapshot, snapshot.of("passthrough_alloc", 70000)[0]["stack"], "managed", "main")
        self.expect_names(snapshot, snapshot.of("alloc", 5000000)[0]["stack"], "ordered", "policy", "main")
        # A free has the stack of its allocation.
        for size in (1000, 1001, 4000000):
            self.assertEqual(snapshot.of("free_requested", size)[0]["stack"], snapshot.of("alloc", size)[0]["stack"])
        live, = [block for segment in snapshot.document["segments"] for block in segment["blocks"]
                 if block["state"] == "active_allocated"]
        self.assertEqual(live["stack"], snapshot.of("alloc", 4000001)[0]["stack"])

    def test_small_max(self):
        snapshot = self.stacks("policy", SMALL_MAX="1000")
        self.assertIn(("alloc", 1001), self.having(snapshot))
        snapshot = self.stacks("policy", SMALL_MAX="8MiB")
        self.assertNotIn(("alloc", 4000001), self.having(snapshot))

    def test_native_and_fp(self):
        for mode in ("native", "fp"):
            snapshot = self.stacks("policy", STACKS=mode)
            self.assertLessEqual(self.ALLOCS, self.having(snapshot))
            self.expect_names(snapshot, snapshot.of("alloc", 1001)[0]["stack"],
                              "cudaMalloc", "allocate", "small_from_pool", "main")

    def test_off(self):
        for settings in ({"STACKS": "off"}, {"STACKS": "native", "TRACE": "off"}):
            run = self.run_program("stacks", "policy", **settings)
            snapshot = self.take(run, name=False)
            self.assertEqual(snapshot.document["stacks"], [])
            self.assertEqual(snapshot.document["modules"], [])
            self.assertEqual(self.having(snapshot), set())

    def test_state_keeps_those_of_live_blocks(self):
        snapshot = self.stacks("policy", STACKS="native", TRACE="state")
        self.assertEqual(snapshot.events, [])
        live, = [block for segment in snapshot.document["segments"] for block in segment["blocks"]
                 if block["state"] == "active_allocated"]
        self.expect_names(snapshot, live["stack"], "large_from_pool", "main")

    def test_stacks_of_frees(self):
        snapshot = self.stacks("policy", STACKS_FREE="1")
        for action in ("free_requested", "passthrough_free"):
            self.assertTrue(snapshot.of(action), action)
            for event in snapshot.of(action):
                self.expect_names(snapshot, event["stack"], "cudaFree", "release", "main")

    def test_a_double_free_has_the_stacks_of_both(self):
        """The remedy that the summary names is tried: then both functions are there."""
        settings, seen = {}, []
        for _ in range(2):
            run = self.run_program("freed_twice", STACKS="native", **settings)
            snapshot = self.take(run)
            event, = snapshot.of("free_refused")
            self.expect_names(snapshot, event["stack"], "cudaFree", "give_back_again", "main")
            if not TOOL:
                return
            result = subprocess.run([TOOL, "summary", "--json", *run.snapshot_paths("exit")], check=True,
                                    stdout=subprocess.PIPE)
            facts, = json.loads(result.stdout)["snapshots"]
            found, = [finding for finding in facts["findings"] if finding["code"] == "double_free"]
            seen.append((found["message"], facts["double_frees"][0]["first_stack"]))
            settings = {"STACKS_FREE": "1"}
        self.assertIsNone(seen[0][1])
        if HAS_NAMES:
            again = r"and again (at \S+ \S+|\S+ \S+ later) by give_back_again "
            self.assertRegex(seen[0][0], again)
            self.assertRegex(seen[1][0], r"was freed at \S+ \S+ by give_back .*, " + again)

    def test_out_of_memory_tells_who_asked(self):
        run = self.run_program("stacks", "policy", LIMIT="3MiB")
        self.assertEqual(run.status, 1)
        snapshot = Snapshot(run.snapshot("oom"))
        event, = snapshot.of("oom")
        self.assertIn("stacks", snapshot.modules(event["stack"]))
        frames = [snapshot.document["frames"][number] for number in snapshot.document["stacks"][event["stack"]]]
        bias, address = next((module["bias"], frame["address"]) for frame in frames
                             for module in [snapshot.document["modules"][frame["module"]]]
                             if os.path.basename(module["path"]) == "stacks")
        self.assertIn(": requested 3.8 MiB in allocate (stacks); the program uses", run.err)
        stripped = os.path.join(self.folder, "stripped")
        subprocess.run(["strip", "-o", stripped, os.path.join(PROG, "stacks")], check=True)
        run = self.run_program(stripped, "policy", LIMIT="3MiB")
        self.assertIn(": requested 3.8 MiB in stripped+0x%x; the program uses" % (address - bias), run.err)
        run = self.run_program("stacks", "policy", LIMIT="3MiB", STACKS="off")
        self.assertIn(": requested 3.8 MiB; the program uses", run.err)

    def test_depth(self):
        snapshot = self.stacks("deep", "300", STACK_DEPTH="16")
        stack = snapshot.of("alloc", 1000)[0]["stack"]
        self.assertEqual(len(snapshot.document["stacks"]), 1)
        self.assertEqual(len(run_frames(self, "deep", "300", STACK_DEPTH="16")), 16)
        self.expect_names(snapshot, stack, "allocate", "deep", "deep")
        self.assertEqual(len(run_frames(self, "deep", "300", STACK_DEPTH="256")), 256)


def run_frames(case, *args, **settings):
    """The frames of the one allocation, before inlined functions got frames of their own."""
    snapshot = case.take(case.run_program("stacks", *args, **settings), name=False)
    return snapshot.frames(snapshot.of("alloc", 1000)[0]["stack"])


@unittest.skipIf(SANITIZED, "the sanitizers' frames and stacks are their own")
class Hazards(Stacks):
    def expect_one_site(self, run, action="alloc"):
        """All allocations of 1000 bytes come from one place in the program, whatever unwinder found it."""
        snapshot = self.take(run)
        sites = {event["stack"] for event in snapshot.of(action, 1000)}
        self.assertTrue(sites)
        self.assertNotIn(-1, sites)
        return snapshot, sites

    def test_many_threads_with_small_stacks(self):
        """More threads than may have a cache of libunwind's, more captures than glibc is used for at first."""
        run = self.run_program("stacks", "threads", "80", "64", STACKS="native")
        snapshot, sites = self.expect_one_site(run)
        self.assertEqual(len(snapshot.of("alloc", 1000)), 80 * 48 + 1)
        self.assertEqual(len(sites), 2, [snapshot.names(site) for site in sites])  # main, and the threads
        for site in sites:
            self.expect_names(snapshot, site, "cudaMalloc", "allocate")

    def test_too_little_stack_is_no_stack(self):
        run = self.run_program("stacks", "threads", "2", "16", STACKS="native")
        snapshot = self.take(run)
        self.assertEqual(sum(event["stack"] >= 0 for event in snapshot.of("alloc", 1000)), 1)

    def test_signal_handler(self):
        """None on an alternate stack; the program goes on as it was."""
        for mode in ("native", "fp", "auto"):
            snapshot = self.stacks("handler", STACKS=mode)
            self.assertEqual([event["stack"] for event in snapshot.of("alloc", 5000)], [-1])
            self.assertEqual(len(snapshot.of("alloc", 9000)), 1)
            self.expect_names(snapshot, snapshot.of("alloc", 1000)[0]["stack"], "allocate", "main")

    def test_code_that_is_unloaded(self):
        """Libraries in turns at one address: each allocation has its own one's stack, or fewer frames of it."""
        snapshot = self.stacks("unload", *PLUGINS, STACKS="native")
        for path, size in zip(PLUGINS, (5000, 90000)):
            events = snapshot.of("alloc", size)
            self.assertEqual(len(events), 24)
            for event in events:
                modules = snapshot.modules(event["stack"])
                self.assertIn(os.path.basename(path), modules)
                for other in set(PLUGINS) - {path}:
                    self.assertNotIn(os.path.basename(other), modules)
                self.expect_names(snapshot, event["stack"], "cudaMalloc", "plugin_run", "unload", "main")
            self.assertEqual(len({event["stack"] for event in events}), 1)
        places = [module["start"] for module in snapshot.document["modules"]
                  if os.path.basename(module["path"]).startswith("libplugin")]
        self.assertEqual(len(places), 2)

    def test_program_with_its_own_unwinder(self):
        run = self.run_program("own_unwinder", STACKS="native", VERBOSE="2")
        self.assertIn("stacks: glibc", run.err)
        snapshot, sites = self.expect_one_site(run)
        self.assertEqual(len(sites), 1)
        self.expect_names(snapshot, sites.pop(), "cudaMalloc", "main")

    def without(self, *names):
        """A folder in which these libraries are files that cannot be loaded."""
        folder = os.path.join(self.folder, "broken")
        os.makedirs(folder, exist_ok=True)
        for name in names:
            with open(os.path.join(folder, name), "w") as file:
                file.write("no library\n" * 100)
        return ["/usr/bin/env", "LD_LIBRARY_PATH=%s:%s" % (folder, SIM)]

    def test_without_libunwind(self):
        with_it = self.run_program("stacks", "policy", STACKS="native", VERBOSE="2")
        self.assertRegex(with_it.err, "stacks: (libunwind and )?glibc")
        run = self.run_program("stacks", "policy", STACKS="native", VERBOSE="2",
                               prefix=self.without("libunwind.so.8"))
        self.assertIn("stacks: glibc", run.err)
        snapshot = self.take(run)
        self.expect_names(snapshot, snapshot.of("alloc", 1001)[0]["stack"], "allocate", "small_from_pool", "main")

    @unittest.skipUnless(os.uname().machine == "x86_64", "libunwind is for x86-64 only")
    def test_libunwind_with_other_addresses_than_glibc(self):
        """Else the stacks that a thread captures by the one would not be those by the other."""
        self.assertIn("libunwind is no longer used: its addresses are not those of glibc", self.walk_with("GP_OLD_UNWINDER"))

    @unittest.skipUnless(os.uname().machine == "x86_64", "libunwind is for x86-64 only")
    def test_libunwind_that_opens_its_pipe_late(self):
        said = self.walk_with("GP_NEW_UNWINDER")
        self.assertIn("stacks: libunwind and glibc", said)
        self.assertNotIn("libunwind is no longer used", said)

    def walk_with(self, unwinder):
        folder = os.path.dirname(os.environ[unwinder])
        run = self.run_program("stacks", "depths", "200", STACKS="native", VERBOSE="2",
                               prefix=["/usr/bin/env", "LD_LIBRARY_PATH=%s:%s" % (folder, SIM)])
        self.assertEqual(run.status, 0, run.err)
        return run.err

    def test_without_any_unwinder(self):
        run = self.run_program("stacks", "policy", STACKS="native", VERBOSE="2",
                               prefix=self.without("libunwind.so.8", "libgcc_s.so.1"))
        self.assertIn("stacks: none", run.err)
        snapshot = self.take(run, name=False)
        self.assertEqual(snapshot.document["stacks"], [])

    def test_fork(self):
        plain = self.run_program("fork", preload=None)
        run = self.run_program("fork", STACKS="native", STACKS_FREE="1")
        self.assertEqual((run.status, run.out), (0, plain.out))
        self.assertTrue(plain.out)
        self.assertEqual(len(run.snapshot_paths("exit")), 1)
        found = self.take(run).of("alloc")
        self.assertTrue(found)
        self.assertNotIn(-1, {event["stack"] for event in found})


@unittest.skipUnless(HAS_CPP, "there is no C++ compiler")
@unittest.skipIf(SANITIZED, "the sanitizers' frames and stacks are their own")
class Cpp(Stacks):
    def test_exceptions_pass(self):
        for mode in ("native", "fp", "auto"):
            run = self.run_program("throws", STACKS=mode, STACKS_FREE="1")
            self.assertEqual(run.status, 0, run.err)
            self.assertEqual(run.out, "40 exceptions were caught\n")

    @unittest.skipUnless(HAS_NAMES, "the tool is built without names")
    def test_inlined_functions_have_names(self):
        snapshot = self.take(self.run_program("throws", STACKS="native"))
        deepest = max((event["stack"] for event in snapshot.of("alloc")), key=lambda s: len(snapshot.names(s)))
        frames = snapshot.frames(deepest)
        names = snapshot.names(deepest)
        forward, step = "model::Layer<double>::forward(int)", "model::Layer<double>::step(int)"
        self.assertEqual(names.count(step), 4, names)
        self.assertEqual(names.count(forward), 5, names)
        self.assertIn("model::Buffer::Buffer(unsigned long)", names)
        for frame, name in zip(frames, names):
            if name == forward or name.startswith("model::Buffer"):
                self.assertTrue(frame["inline"], frame)
            elif name in (step, "main"):
                self.assertFalse(frame["inline"], frame)
            if name.startswith(("model::", "main")):
                self.assertTrue(frame["file"].endswith("/test/prog/throws.cc"), frame)
                self.assertGreater(frame["line"], 0)


class Needed(unittest.TestCase):
    def test_nothing_is_linked(self):
        """libunwind in front of libgcc would take the program's exceptions over."""
        result = subprocess.run(["readelf", "-d", LIBRARY], check=True, stdout=subprocess.PIPE, universal_newlines=True)
        needed = [line for line in result.stdout.splitlines() if "(NEEDED)" in line]
        self.assertTrue(needed, result.stdout)
        for line in needed:
            if not SANITIZED:
                self.assertRegex(line, r"\[(libc|libdl|libpthread|ld-linux[-a-z0-9_]*)\.so\.[0-9]+\]")


if __name__ == "__main__":
    unittest.main(verbosity=2)
