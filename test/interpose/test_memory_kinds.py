"""Every kind of memory that a program can get: counted, within the limit, recorded, tried again after a trim."""

import itertools
import os
import re
import unittest

from harness import PreloadCase, count_actions, rows_of, stats_of

MIB = 1 << 20
# Kinds of test/prog/memory_kinds.c -> the kind that the snapshot shows, None: pooled. Stream-ordered memory is left to
# the driver here: test_ordered.py has what is pooled of it.
DEVICE_KINDS = {
    "plain": None, "pitch": "pitch", "managed": "managed", "async": "async", "mempool": "mempool",
    "current_pool": "async", "array": "array", "array3d": "array", "mipmap": "array", "external": "external",
    "vmm": "vmm", "graph": "graph", "captured": "graph",
}
HOST_KINDS = ("host", "registered", "host_pool", "host_default", "vmm_host")
IN_POOLS = ("async", "mempool", "current_pool", "graph", "captured")  # the driver's pools grow by 32 MiB
# Functions by which the driver takes memory for itself, of test/prog/hidden_memory.c
HIDDEN = ("cuModuleLoad", "cuModuleLoadData", "cuModuleLoadDataEx", "cuModuleLoadFatBinary", "cuLibraryLoadData",
          "cuLibraryLoadFromFile", "cuFuncLoad", "cuCtxSetLimit", "cuGraphInstantiate", "cuGraphInstantiate_v2",
          "cuGraphInstantiateWithFlags", "cuGraphInstantiateWithParams", "cuGraphInstantiateWithParams_ptsz")
SUCCESS = "CUDA_SUCCESS"
OUT_OF_MEMORY = "CUDA_ERROR_OUT_OF_MEMORY"


def details(snapshot, action):
    events = snapshot["events"]
    return {events["details"][detail] for index, detail in zip(events["action"], events["detail"])
            if events["actions"][index] == action}


class MemoryKinds(PreloadCase):
    def run_kinds(self, *commands, **settings):
        run = self.run_program("memory_kinds", *commands, **{"ASYNC": "driver", **settings})
        self.assertEqual(run.status, 0, run.out + run.err)
        run.got = [(match[0], int(match[1]), match[2])
                   for match in re.findall(r"^(\w+): (\d+) of \d+, (\w+)$", run.out, re.M)]
        return run

    def test_each_is_counted_and_recorded(self):
        for kind, shown in DEVICE_KINDS.items():
            with self.subTest(kind=kind):
                run = self.run_kinds("%s:%d:3" % (kind, 8 * MIB))
                self.assertEqual(run.got, [(kind, 3, SUCCESS)])
                snapshot = run.snapshot()
                self.expect_valid(snapshot)
                gauge = stats_of(snapshot)["passthrough_bytes" if shown else "requested_bytes"]
                self.assertEqual(gauge["current"], 24 * MIB)
                if shown:
                    self.assertEqual([memory["kind"] for memory in snapshot["passthrough"]], [shown] * 3)
                    self.assertEqual(details(snapshot, "passthrough_alloc"), {shown})
                self.assertEqual(stats_of(snapshot)["pinned_host_bytes"]["peak"], 0)

                run = self.run_kinds("%s:%d:3" % (kind, 8 * MIB), "free")
                snapshot = run.snapshot()
                self.expect_valid(snapshot)
                self.assertEqual(stats_of(snapshot)["passthrough_bytes"]["current"], 0)
                self.assertEqual(stats_of(snapshot)["passthrough_bytes"]["peak"], 24 * MIB if shown else 0)
                self.assertEqual(snapshot["passthrough"], [])
                self.assertEqual(count_actions(snapshot).get("passthrough_free", 0), 3 if shown else 0)
                self.expect_clean(run)

    def test_each_meets_the_limit(self):
        for kind in DEVICE_KINDS:
            with self.subTest(kind=kind):
                size = 32 * MIB if kind in IN_POOLS else 8 * MIB
                run = self.run_kinds("%s:%d:20" % (kind, size), "free", "%s:%d:20" % (kind, size), LIMIT="100MiB")
                many = 100 * MIB // size
                self.assertEqual(run.got, [(kind, many, OUT_OF_MEMORY)] * 2)
                self.assertLessEqual(run.sim["peak_bytes"][0], 100 * MIB)
                self.assertEqual(stats_of(run.snapshot("exit"))["num_ooms"], 2)
                self.assertEqual(run.snapshot("oom")["oom"]["by_limit"], True)

    def test_the_limit_holds_over_the_sum(self):
        kinds = list(DEVICE_KINDS)
        for turn in range(len(kinds)):
            order = kinds[turn:] + kinds[:turn]
            with self.subTest(first=order[0]):
                run = self.run_kinds(*["%s:%d:2" % (kind, 12 * MIB) for kind in order],
                                     "free-all", *["%s:%d:3" % (kind, 10 * MIB) for kind in reversed(order)],
                                     LIMIT="150MiB")
                self.assertLessEqual(run.sim["peak_bytes"][0], 150 * MIB)
                self.assertEqual({result for _, _, result in run.got}, {SUCCESS, OUT_OF_MEMORY})
                self.expect_valid(run.snapshot("exit"))

    def test_the_cache_makes_room_for_each(self):
        """60 of 64 MiB lie idle here; without the library they were the driver's again."""
        for kind in DEVICE_KINDS:
            with self.subTest(kind=kind):
                run = self.run_kinds("plain:%d:60" % MIB, "free", "%s:%d:1" % (kind, 32 * MIB),
                                     SIMCUDA_CAPACITY="64MiB", RESERVE="0")
                self.assertEqual(run.got[-1], (kind, 1, SUCCESS))
                self.assertEqual(stats_of(run.snapshot())["num_ooms"], 0)

    def test_out_of_memory_is_the_drivers(self):
        for kind, shown in DEVICE_KINDS.items():
            with self.subTest(kind=kind):
                commands = ("plain:%d:20" % MIB, "%s:%d:9" % (kind, 16 * MIB), "free", "%s:%d:9" % (kind, 16 * MIB))
                plain = self.run_kinds(*commands, preload=None, SIMCUDA_CAPACITY="128MiB")
                run = self.run_kinds(*commands, SIMCUDA_CAPACITY="128MiB", RESERVE="0")
                self.assertEqual(run.got, plain.got)
                if shown != "graph":  # memory of graphs that are not running is the driver's to use again
                    self.assertGreater(stats_of(run.snapshot("exit"))["num_ooms"], 0)

    def test_what_holds_nothing_is_not_counted(self):
        run = self.run_kinds("plain:%d:1" % MIB, "sparse:%d:20" % (8 * MIB), "free", LIMIT="16MiB")
        self.assertEqual(run.got, [("plain", 1, SUCCESS), ("sparse", 20, SUCCESS)])
        self.assertEqual(stats_of(run.snapshot())["passthrough_bytes"]["allocated"], 0)

    def test_all_levels_of_a_mipmap(self):
        run = self.run_kinds("mipmaps:%d:1" % (16 * MIB))
        levels = sum(max(1, 4096 >> level) * max(1, 4096 >> level) for level in range(13))
        self.assertEqual(stats_of(run.snapshot())["passthrough_bytes"]["current"], levels)

    def count_arrays(self, *arrays):
        """Each is recorded with as many bytes as the driver takes for it, to 512 bytes, above 1 MiB to 2 MiB."""
        run = self.run_program("arrays", *arrays, SIMCUDA_CAPACITY="64GiB")
        self.assertEqual(run.status, 0, run.out + run.err)
        taken = [(text, int(result), int(held)) for text, result, held in
                 re.findall(r"^(\S+): (\d+), (\d+) bytes$", run.out, re.M)]
        made = (event for event in rows_of(run.snapshot()) if event["action"] == "passthrough_alloc")
        for text, result, held in taken:
            counted = 0 if result or not held else next(made)["size"]
            unit = 2 * MIB if counted > MIB else 512
            self.assertEqual((counted + unit - 1) // unit * unit, held, text)
        self.assertEqual(list(made), [])
        return [text for text, result, _ in taken if result == 0]

    def test_arrays_of_each_format(self):
        arrays = ["%d,%d,64,32,0,0,-" % (number, channels) for number in range(256) for channels in (1, 2, 4)]
        made = self.count_arrays(*arrays)
        self.assertEqual(len({text.split(",")[0] for text in made}), 51)  # those of CUDA 13.0

    def test_arrays_of_each_shape(self):
        layered, cubemap, sparse, deferred = 0x01, 0x04, 0x40, 0x80
        self.count_arrays(*["1,1," + shape for shape in (
            "4096,0,0,0,-", "4096,16,0,0,-", "256,16,3,0,-", "4096,0,5,%d,-" % layered, "256,16,5,%d,-" % layered,
            "64,64,6,%d,-" % cubemap, "64,64,12,%d,-" % (layered | cubemap), "4096,16,0,%d,-" % sparse,
            "4096,16,0,%d,-" % deferred)])
        self.count_arrays(*["1,1,%s,%d" % (shape, levels) for levels in (0, 1, 2, 7, 64, 100) for shape in (
            "4096,0,0,0", "4096,16,0,0", "16,4096,0,0", "256,16,1024,0", "4096,0,5,%d" % layered,
            "256,16,5,%d" % layered, "64,64,6,%d" % cubemap, "64,64,12,%d" % (layered | cubemap))])

    def test_a_context_takes_its_memory_along(self):
        run = self.run_program("contexts")
        self.assertEqual(run.status, 0)
        self.assertEqual(stats_of(run.snapshot())["passthrough_bytes"]["current"], 0)

    #
    # Virtual memory management: memory lives as long as a handle or a mapping
    #

    def expect_held(self, held, *commands):
        """After the commands on 40 MiB, 40 more fit into 64 or they do not."""
        run = self.run_kinds("vmm:%d:1" % (40 * MIB), *commands, "vmm:%d:1" % (40 * MIB), LIMIT="64MiB")
        self.assertEqual(run.got[-1][1:], (0, OUT_OF_MEMORY) if held else (1, SUCCESS), commands)
        self.assertLessEqual(run.sim["peak_bytes"][0], 64 * MIB)

    def test_physical_memory_lives_by_handles_and_mappings(self):
        self.expect_held(True)
        self.expect_held(True, "release")
        self.expect_held(True, "unmap")
        self.expect_held(True, "retain", "release")
        self.expect_held(True, "retain", "unmap", "release")
        self.expect_held(True, "map", "release")
        self.expect_held(True, "release", "retain", "unmap")
        self.expect_held(False, "release", "unmap")
        self.expect_held(False, "unmap", "release")
        self.expect_held(False, "map", "unmap", "release")
        self.expect_held(False, "release", "retain", "unmap", "release")

    def test_physical_memory_of_a_device_without_context(self):
        run = self.run_kinds("vmm_elsewhere:%d:9" % (8 * MIB), "plain:%d:9" % (8 * MIB), "free-all",
                             LIMIT="1=20MiB", SIMCUDA_DEVICES="2")
        self.assertEqual(run.got, [("vmm_elsewhere", 2, OUT_OF_MEMORY), ("plain", 9, SUCCESS)])
        devices = {device["device"]: device["stats"] for device in run.snapshot("exit")["devices"]}
        self.assertEqual(devices[1]["passthrough_bytes"]["peak"], 16 * MIB)
        self.assertEqual(devices[0]["passthrough_bytes"]["peak"], 0)
        run = self.run_kinds("vmm_elsewhere:%d:9" % (8 * MIB), LIMIT="1=25%", SIMCUDA_DEVICES="2",
                             SIMCUDA_CAPACITY="80MiB")
        self.assertEqual(run.got, [("vmm_elsewhere", 2, OUT_OF_MEMORY)])

    #
    # The program's own memory pools
    #

    def test_a_pool_that_goes_before_its_memory(self):
        for kind in ("mempool", "current_pool"):
            with self.subTest(kind=kind):
                run = self.run_kinds("%s:%d:2" % (kind, 32 * MIB), "forget-pools", "plain:%d:20" % (8 * MIB), "free",
                                     "free", "plain:%d:20" % (8 * MIB), LIMIT="128MiB")
                self.assertEqual(run.got, [(kind, 2, SUCCESS), ("plain", 8, OUT_OF_MEMORY),
                                           ("plain", 16, OUT_OF_MEMORY)])
                self.assertLessEqual(run.sim["peak_bytes"][0], 128 * MIB)

    #
    # Memory of the host
    #

    def test_pinned_memory_is_counted_apart(self):
        for kind in HOST_KINDS:
            with self.subTest(kind=kind):
                run = self.run_kinds("%s:%d:3" % (kind, 8 * MIB), "plain:%d:1" % MIB, LIMIT="2MiB")
                self.assertEqual(run.got, [(kind, 3, SUCCESS), ("plain", 1, SUCCESS)])
                stats = stats_of(run.snapshot())
                self.assertEqual(stats["pinned_host_bytes"]["current"], 24 * MIB)
                self.assertEqual(stats["passthrough_bytes"]["peak"], 0)
                run = self.run_kinds("%s:%d:3" % (kind, 8 * MIB), "free", "plain:%d:1" % MIB)
                self.assertEqual(stats_of(run.snapshot())["pinned_host_bytes"]["peak"], 24 * MIB)
                self.assertEqual(stats_of(run.snapshot())["pinned_host_bytes"]["current"], 0)

    def test_each_kind_of_the_host_meets_its_limit(self):
        for kind in HOST_KINDS:
            with self.subTest(kind=kind):
                run = self.run_kinds("%s:%d:20" % (kind, 8 * MIB), "free", "%s:%d:20" % (kind, 8 * MIB), HOST_LIMIT="100MiB")
                self.assertEqual(run.got, [(kind, 12, OUT_OF_MEMORY)] * 2)
                snapshot = run.snapshot("host_oom")
                self.expect_valid(snapshot)
                oom = snapshot["host_oom"]
                self.assertEqual([oom[name] for name in ("requested", "live", "limit")], [8 * MIB, 96 * MIB, 100 * MIB])
                self.assertEqual(oom["remedy"]["settings"], {"GPUPOOL_HOST_LIMIT": "104MiB"})
                self.assertEqual(oom["message"], "out of page-locked host memory: requested 8 MiB; the program uses 96 MiB; "
                                                 "limit 100 MiB; largest groups: 12 x 8 MiB")
                line, again = (line for line in run.messages if "out of" in line)
                self.assertIn("memory ran out again, out of page-locked host memory: requested 8 MiB in ", again)
                self.assertIn("out of page-locked host memory: requested 8 MiB in ", line)
                self.assertTrue(line.endswith(oom["advice"]), line)
                last = run.snapshot("exit")
                self.assertEqual(count_actions(last)["host_oom"], 2)
                self.assertEqual(stats_of(last)["num_ooms"], 0)  # the device has memory
                self.expect_clean(run)

    def test_the_hosts_limit_holds_over_the_sum_and_leaves_the_device_alone(self):
        run = self.run_kinds(*["%s:%d:2" % (kind, 12 * MIB) for kind in HOST_KINDS], "plain:%d:4" % (64 * MIB), "free",
                             "free-all", "host:%d:20" % (8 * MIB), HOST_LIMIT="100MiB")
        self.assertEqual([got for _, got, _ in run.got], [2, 2, 2, 2, 0, 4, 12])
        self.assertEqual(stats_of(run.snapshot("exit"))["pinned_host_bytes"]["peak"], 96 * MIB)

    def test_a_pool_of_the_host_that_goes_before_its_memory(self):
        """Its memory counts for the host, and nothing of it for the device."""
        run = self.run_kinds("mempool:%d:1" % (32 * MIB), "host_pool:%d:2" % (8 * MIB), "forget-pools", "host:%d:2" % (8 * MIB),
                             "free", "plain:%d:20" % (8 * MIB), "free", "free", "free", "plain:%d:20" % (8 * MIB),
                             HOST_LIMIT="24MiB", LIMIT="128MiB")
        self.assertEqual([got for _, got, _ in run.got], [1, 2, 1, 12, 16])
        self.assertEqual(stats_of(run.snapshot("exit"))["pinned_host_bytes"]["current"], 0)

    def test_the_hosts_limit_counts_whole_pages(self):
        page = os.sysconf("SC_PAGESIZE")
        for kind, size, pages in (("host", 1, 1), ("host", page + 1, 2), ("registered", page, 1), ("across", page, 2),
                                  ("host_pool", 1, 1), ("host_pool", page + 1, 2), ("host_default", page - 1, 1)):
            with self.subTest(kind=kind, size=size):
                run = self.run_kinds("%s:%d:50" % (kind, size), HOST_LIMIT=str(20 * page))
                self.assertEqual(run.got, [(kind, 20 // pages, OUT_OF_MEMORY)])

    def test_a_malformed_limit_of_the_host_refuses_its_memory(self):
        for kind in HOST_KINDS:
            with self.subTest(kind=kind):
                run = self.run_kinds("%s:%d:1" % (kind, 8 * MIB), "plain:%d:1" % MIB, HOST_LIMIT="half")
                self.assertEqual(run.got, [(kind, 0, OUT_OF_MEMORY), ("plain", 1, SUCCESS)])
                self.assertEqual(len([line for line in run.messages if "GPUPOOL_HOST_LIMIT=half is malformed" in line]), 1)
                self.assertIn("GPUPOOL_HOST_LIMIT is malformed", run.snapshot("host_oom")["host_oom"]["advice"])

    def test_memory_of_host_and_device_that_runs_out_is_said_of_each(self):
        run = self.run_kinds("host:%d:2" % MIB, "plain:%d:2" % MIB, HOST_LIMIT="1MiB", LIMIT="2MiB")
        self.assertEqual([re.search("out of [^:]*", line).group() for line in run.messages if "out of" in line],
                         ["out of page-locked host memory", "out of memory on device 0"])

    #
    # What the driver takes for itself
    #

    def test_code_is_loaded_again_after_the_cache_made_room(self):
        plain = self.run_kinds("module", preload=None)
        fault = {"SIMCUDA_FAIL": "cuModuleLoadData:2@1"}
        run = self.run_kinds("plain:%d:1" % MIB, "free", "module", **fault)
        self.assertEqual(run.out.splitlines()[-1], plain.out.splitlines()[-1])
        self.assertEqual(run.calls()["cuModuleLoadData"], 2)
        self.assertEqual(stats_of(run.snapshot())["cached_bytes"]["current"], 0)
        run = self.run_kinds("plain:%d:1" % MIB, "module", **fault)  # nothing idle: nothing to try again for
        self.assertEqual(run.out.splitlines()[-1], "module: " + OUT_OF_MEMORY)
        self.assertEqual(run.calls()["cuModuleLoadData"], 1)

    def test_a_context_is_made_again_after_the_cache_made_room(self):
        plain = self.run_kinds("context", preload=None)
        fault = {"SIMCUDA_FAIL": "%s:2@1" % [name for name in plain.calls() if name.startswith("cuCtxCreate")][0]}
        run = self.run_kinds("plain:%d:1" % MIB, "free", "context", **fault)
        self.assertEqual(run.out.splitlines()[-1], plain.out.splitlines()[-1])
        self.assertEqual(stats_of(run.snapshot())["cached_bytes"]["current"], 0)
        run = self.run_kinds("plain:%d:1" % MIB, "context", **fault)  # nothing idle: nothing to try again for
        self.assertEqual(run.out.splitlines()[-1], "context: " + OUT_OF_MEMORY)

    def logged(self, run, name):
        """The arguments and the result of each call of that function."""
        with open(run.log) as file:
            return re.findall(r"^%s (.*)=(\d+)$" % name, file.read(), re.M)

    def test_every_way_to_take_memory_unseen(self):
        for name in HIDDEN:
            with self.subTest(name=name):
                plain = self.run_program("hidden_memory", name, preload=None, log=True)
                self.assertEqual((plain.status, plain.out), (0, name + ": 0\n"))
                run = self.run_program("hidden_memory", name, SIMCUDA_FAIL=name + ":2@1", log=True)
                self.assertEqual((run.status, run.out), (0, plain.out))
                natively, seen = self.logged(plain, name), self.logged(run, name)
                self.assertEqual(seen, [(arguments, code) for arguments, _ in natively for code in ("2", "0")])
                self.assertEqual(stats_of(run.snapshot())["cached_bytes"]["current"], 0)
        for name in ("cuGraphInstantiateWithFlags",):
            with self.subTest(name=name):
                run = self.run_kinds("plain:%d:1" % MIB, "free", "graph:%d:1" % MIB, SIMCUDA_FAIL=name + ":2@1")
                self.assertEqual(run.got[-1], ("graph", 1, SUCCESS))

    #
    # What cannot be accounted for
    #

    def test_figures_of_the_device(self):
        run = self.run_kinds("plain:%d:1" % (8 * MIB), "array:%d:1" % (8 * MIB), "info", SIMCUDA_CAPACITY="1GiB")
        use = run.snapshot()["devices"][0]["use"]
        self.assertEqual((use["total"], use["free"], use["accounted"], use["unaccounted"]),
                         (1024 * MIB, 1008 * MIB, 16 * MIB, 0))
        run = self.run_kinds("plain:%d:1" % (8 * MIB), "info", SIMCUDA_CAPACITY="1GiB", STATS="1")
        self.assertIn("of 1 GiB, 1016 MiB was free at the last query, and 0 B was used by other processes", run.err)

    def test_what_the_drivers_pools_keep(self):
        for mode, kept in (("driver", 8 * MIB), ("pool", 0)):  # there the library keeps it
            with self.subTest(mode):
                run = self.run_kinds("async:%d:1" % (8 * MIB), "free", "info", SIMCUDA_CAPACITY="1GiB", ASYNC=mode)
                use = run.snapshot()["devices"][0]["use"]
                self.assertEqual((use["in_pools"], use["unaccounted"]), (kept, 0))

    def test_freed_in_stream_order(self):
        """Parts of segments too, of which the driver does not know: all but the memory is as without the library."""
        plain = self.run_program("free_in_stream", preload=None)
        self.assertEqual(plain.out.splitlines()[-1], "end", plain.err)
        for settings in itertools.product(("round", "segment", "vmm"), ("context", "strict")):
            with self.subTest(settings):
                run = self.run_program("free_in_stream", **dict(zip(("TYPE", "REUSE"), settings)))
                self.assertEqual(run.out, plain.out)
                self.expect_clean(run)
                self.expect_history(run.snapshot())


if __name__ == "__main__":
    unittest.main()
