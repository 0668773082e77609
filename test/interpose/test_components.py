"""Whose memory it is, by component, where libraries with the names of NVIDIA's and of PyTorch's are loaded."""

import glob
import json
import os
import re
import subprocess
import unittest

from harness import PROG, SANITIZED, SOURCE, PreloadCase

TOOL = os.environ.get("GP_TOOL")
HAS_NAMES = os.environ["GP_SYMBOLS"] == "1"
LIBRARIES = os.environ["GP_COMPONENTS"].split(":")
MIB = 1 << 20


def sizes():
    with open(os.path.join(SOURCE, "test", "prog", "components", "components.h"), encoding="utf-8") as file:
        return {name: int(number) * MIB for name, number in re.findall(r"(\w+)_BYTES +\((\d+) \* MIB\)", file.read())}


@unittest.skipIf(SANITIZED, "the sanitizers' frames and stacks are their own")
@unittest.skipIf(not TOOL, "the tool is not built")
class Components(PreloadCase):
    def take(self, how):
        run = self.run_program(os.path.join(PROG, "components", "components"), how, *LIBRARIES, STACKS="native",
                               TYPE="naive")
        self.assertEqual((run.status, run.out), (0, "done\n"), run.err)
        path, = run.snapshot_paths("exit")
        return path

    def test_the_line_of_an_out_of_memory_names_the_exported_function(self):
        """Of the innermost library that is neither CUDA's nor the system's."""
        sum_of = sizes()
        run = self.run_program(os.path.join(PROG, "components", "components"), "awake", *LIBRARIES, STACKS="native", TYPE="naive",
                               LIMIT=str(sum_of["WEIGHTS"]))
        self.assertRegex(run.err, r"requested \S+ MiB in tensor \(libtorch_cuda\.so\); the program uses")

    def report(self, *arguments):
        result = subprocess.run([TOOL, *arguments], check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                encoding="utf-8")
        return result.stdout

    def ends(self, path, *arguments):
        device, = json.loads(self.report("summary", "--json", path, *arguments))["snapshots"][0]["devices"]
        found = {item["name"]: item["end"]["bytes"] for item in device["components"]}
        return {name: found[name] for name in found if found[name]}, device["beside"]

    @unittest.skipIf(not HAS_NAMES, "no names are found in this build")
    def test_with_names(self):
        of = sizes()
        found, beside = self.ends(self.take("awake"))
        self.assertEqual(found, {
            "the program's own": of["WEIGHTS"] + of["TENSOR"], "PyTorch": of["GRADIENT"], "NCCL": of["NCCL"],
            "cuBLAS": of["CUBLAS"] + of["WORKSPACE"], "cuDNN": of["CUDNN"], "cuSOLVER": of["STATIC"],
            "CUDA graphs": of["GRAPH"]})
        self.assertEqual(beside["pinned_host"]["end"], {"bytes": of["HOST"], "count": 1})
        self.assertEqual(beside["contexts"], 0)  # those of the simulated device take nothing
        self.assertEqual(beside["pool"]["end"], 0)

    def test_by_modules_alone(self):
        """What names alone show is the program's then: it called."""
        of = sizes()
        found, _ = self.ends(self.take("awake"), "--no-symbols")
        self.assertEqual(found, {
            "the program's own": of["WEIGHTS"] + of["TENSOR"] + of["WORKSPACE"] + of["STATIC"], "PyTorch": of["GRADIENT"],
            "NCCL": of["NCCL"], "cuBLAS": of["CUBLAS"], "cuDNN": of["CUDNN"], "CUDA graphs": of["GRAPH"]})

    def test_what_stays_when_it_sleeps(self):
        of = sizes()
        paths = self.take("awake"), self.take("asleep")
        document = json.loads(self.report("diff", "--json", "--by", "component", *paths))
        rows = {site["name"]: (site["before"], site["after"]) for site in document["sites"]}
        own = of["WEIGHTS"] + of["TENSOR"]
        self.assertEqual(rows["the pool's (freed, rounding)"], (0, own))
        self.assertEqual(rows["NCCL"], (of["NCCL"], of["NCCL"]))
        self.assertEqual(rows["cuDNN"], (of["CUDNN"], of["CUDNN"]))
        self.assertEqual(rows["CUDA graphs"], (of["GRAPH"], of["GRAPH"]))
        self.assertEqual(rows["PyTorch"], (of["GRADIENT"], of["GRADIENT"]))
        text = " ".join(self.report("diff", "--by", "component", *paths).split())
        self.assertIn("the pool's (freed, rounding) 96 MiB, cuDNN 24 MiB, NCCL 16 MiB", text)


class Environment(PreloadCase):
    """What limits or selects device memory from outside is in the snapshot, and nothing else of the environment."""

    SET = {"CUDA_VISIBLE_DEVICES": "GPU-1,MIG-2", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=1G,1=512M",
           "CUDA_MPS_PIPE_DIRECTORY": "/run/with = and \\x", "NVIDIA_VISIBLE_DEVICES": ""}

    def run_with(self, *arguments):
        return self.run_program("exits", *arguments, prefix=["env", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50"] + [
            name + "=" + value for name, value in self.SET.items()], RECORD=self.folder)

    def test_variables(self):
        snapshot = self.run_with("normal").snapshot()
        self.expect_valid(snapshot)
        self.assertEqual(snapshot["process"]["environment"], self.SET)

    def test_the_rank(self):
        for value, rank in ((None, None), ("0", 0), ("12", 12), ("head", None)):
            run = self.run_program("exits", "normal", prefix=["env", "-u", "SLURM_PROCID"] + (["RANK=" + value] if value else []))
            self.assertEqual(run.snapshot()["process"]["rank"], rank)
            self.assertRegex(run.snapshot()["process"]["library_version"], r"^[0-9.]+$")

    def test_the_rank_of_each_launcher(self):
        """What a launcher inside of Slurm says goes before Slurm."""
        for name in ("OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "PALS_RANKID", "HOROVOD_RANK"):
            run = self.run_program("exits", "normal", prefix=["env", name + "=7", "SLURM_PROCID=0"])
            self.assertEqual(run.snapshot()["process"]["rank"], 7, name)

    @unittest.skipIf(not TOOL, "the tool is not built")
    def test_recovered(self):
        run = self.run_with("_exit")
        out = os.path.join(run.folder, "recovered.json")
        record, = glob.glob(os.path.join(self.folder, "gpupool.*", "*"))
        subprocess.run([TOOL, "recover", record, "-o", out], check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        with open(out, encoding="utf-8") as file:
            self.assertEqual(json.load(file)["process"]["environment"], self.SET)


if __name__ == "__main__":
    unittest.main()
