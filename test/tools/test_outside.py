#!/usr/bin/env python3
"""What limits memory from outside, where an out of memory is explained: MPS, MIG, other processes.

    test_outside.py GPUPOOL PRELOAD_STUB
"""

import sys
import unittest

import cli
from cli import MIB, snapshot_of
from report_case import Reports

GIB = 1 << 30
LIMIT = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"


class Outside(Reports):
    command = "summary"

    def oom(self, environment=None, devices=1, **figures):
        """Of 80 GiB; the program held 900 MiB and asked for 200."""
        oom = {"time_ns": 3000, "device": 0, "requested": 200 * MIB, "live": 900 * MIB, "deferred": 0, "cached": 0,
               "passthrough": 0, "limit": None, "by_limit": False, "largest_free": 0, "device_free": 100 * MIB,
               "device_total": 80 * GIB, "unaccounted": 500 * MIB, "waited_ns": 0, "busy_context": None, "busy_ns": None,
               "owners": [], "message": "out of memory on device 0: asked for 200 MiB",
               "advice": "No cached memory is left to release", "remedy": {"settings": {}, "action": None}}
        oom.update(figures)
        snapshot = snapshot_of(reason="oom", oom=oom, devices=[cli.device_of(i) for i in range(devices)])
        snapshot["settings"]["type"] = "naive"
        if environment is not None:
            snapshot["process"]["environment"] = environment
        return snapshot

    def findings(self, snapshot):
        return {finding["code"]: finding for finding in self.facts(snapshot)["findings"]}

    def expect(self, code, *parts, severity="note", **arguments):
        finding = self.findings(self.oom(**arguments))[code]
        self.assertEqual((finding["severity"], finding["device"]), (severity, arguments.get("device", 0)))
        for part in parts:
            self.assertIn(part, finding["message"])

    def test_nothing_of_it(self):
        for snapshot in (self.oom(), self.oom({}), self.oom({"CUDA_VISIBLE_DEVICES": "0,1"}),
                         snapshot_of(reason="exit")):
            self.assertFalse({"mps_limit", "mig", "others"} & set(self.findings(snapshot)))

    def test_mps_limit_that_explains_it(self):
        for value, devices in (("0=1G", 1), ("0=1024M", 1), ("1=64G,0=1G", 2), ("GPU-89f4ffc2-d72c=1G", 1)):
            self.expect("mps_limit", "MPS limits this process to 1 GiB on device 0 (%s=%s)" % (LIMIT, value),
                        "it used 900 MiB and requested 200 MiB, which together exceed the limit.", severity="error",
                        environment={LIMIT: value}, devices=devices)
        self.expect("mps_limit", "MPS limits this process to 512 MiB on device 1", severity="error", environment={LIMIT: "0=1G,1=512M"},
                    device=1, devices=2)
        for part in ("deferred", "cached", "passthrough"):
            self.expect("mps_limit", "which together exceed the limit", severity="error", environment={LIMIT: "0=1G"},
                        live=0, **{part: 900 * MIB})

    def test_no_advice_from_what_mps_makes_of_the_device(self):
        """Under its limit the driver tells of what the limit leaves: the rest is no other process's."""
        advice = "1 GiB short, with no cached memory left to release: other processes and CUDA itself use 79 GiB of the device (gpupool ps)"
        found = self.findings(self.oom({LIMIT: "0=1G"}, unaccounted=79 * GIB, advice=advice))
        self.assertIsNone(found["oom"]["advice"])
        self.assertNotIn("others", found)
        found = self.findings(self.oom({}, unaccounted=79 * GIB, advice=advice))
        self.assertEqual(found["oom"]["advice"], advice + ".")

    def test_mps_limit_that_does_not(self):
        self.expect("mps_limit", "MPS limits this process to 2 GiB", "which together are below the limit.", environment={LIMIT: "0=2G"})
        self.expect("mps_limit", "GPUPOOL_LIMIT was reached first.", environment={LIMIT: "0=1G"}, by_limit=True)
        self.assertIsNotNone(self.findings(self.oom({LIMIT: "0=2G"}))["oom"]["advice"])

    def test_mps_limits_that_are_of_no_device_or_malformed(self):
        for value in ("1=1G", "0=1", "0=G", "0=1T", "0=1Gx", "1G", "=1G", "0=", "0=9999999999G"):
            self.expect("mps_limit", "memory of this process (%s=%s); the limit on device 0 is unknown." % (LIMIT, value),
                        environment={LIMIT: value})
        self.expect("mps_limit", "is unknown", environment={LIMIT: "GPU-1=1G"}, devices=2)

    def test_without_a_report(self):
        """The snapshot was written at the exit: memory ran out on one of two devices, and the program went on."""
        device = cli.device_of(1, num_ooms=2)
        device["use"] = {"time_ns": 1, "total": 10020 * MIB, "free": 0, "accounted": 0, "unaccounted": 0}
        snapshot = snapshot_of(reason="exit", devices=[cli.device_of(0), device])
        snapshot["process"]["environment"] = {LIMIT: "0=1G,1=512M", "CUDA_VISIBLE_DEVICES": "MIG-1,MIG-2"}
        found = [finding for finding in self.facts(snapshot)["findings"] if finding["code"] in ("mps_limit", "mig")]
        self.assertEqual([(finding["device"], finding["severity"]) for finding in found], [(1, "note")] * 2)
        self.assertEqual(found[0]["message"], "MPS limits this process to 512 MiB on device 1 (%s=0=1G,1=512M)." % LIMIT)
        self.assertIn("9.8 GiB is all it has", found[1]["message"])

    def test_mig(self):
        for name in ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"):
            value = "MIG-GPU-8932f937-d72c-4106-c12f-20bd9faed9f6/1/2"
            self.expect("mig", "Device 0 is a MIG instance (%s=%s): 9.8 GiB is all" % (name, value),
                        environment={name: value}, device_total=10020 * MIB)
            self.expect("mig", "with part of the GPU's memory", environment={name: value}, device_total=None)

    def test_other_processes(self):
        self.expect("others", "30 GiB of the 80 GiB of device 0 are not accounted for by this process's allocations",
                    severity="warning", unaccounted=30 * GIB)
        self.assertIn("others", self.findings(self.oom(unaccounted=15 * GIB, requested=20 * GIB, device_free=8 * GIB)))
        for figures in ({"unaccounted": 10 * GIB}, {"unaccounted": 30 * GIB, "requested": 31 * GIB},
                        {"unaccounted": 30 * GIB, "by_limit": True}):
            self.assertNotIn("others", self.findings(self.oom(**figures)), figures)

        self.assertIn("another device (CUDA_VISIBLE_DEVICES)", self.findings(self.oom(unaccounted=30 * GIB))["others"]["advice"])

    def test_a_device_that_others_use(self):
        """Also where memory did not run out: the program may have looked how much was free."""
        for unaccounted, in_pools, codes in ((41 * GIB, 0, {"others"}), (40 * GIB, 0, set()), (0, 5 * GIB, {"driver_pools"}), (0, 4 * GIB, set())):
            snapshot = snapshot_of(reason="exit")
            snapshot["devices"][0]["use"] = {"time_ns": 5, "total": 80 * GIB, "free": 0, "in_pools": in_pools, "unaccounted": unaccounted}
            found = self.findings(snapshot)
            self.assertEqual({"others", "driver_pools"} & set(found), codes)
            for code in codes:
                self.assertEqual(found[code]["severity"], "note")
        self.assertIn("41 GiB of the 80 GiB of device 0 are not accounted for", self.findings(self.used(41 * GIB))["others"]["message"])
        self.assertNotIn("others", self.findings(self.used(41 * GIB, {LIMIT: "0=40G"})), "under MPS it may be the limit")

    def test_each_device_that_others_use(self):
        snapshot = snapshot_of(reason="exit", devices=[cli.device_of(i) for i in range(2)])
        for device in snapshot["devices"]:
            device["use"] = {"time_ns": 5, "total": 80 * GIB, "free": 0, "in_pools": 0, "unaccounted": 60 * GIB}
        self.assertEqual([finding["device"] for finding in self.facts(snapshot)["findings"] if finding["code"] == "others"], [0, 1])

    def used(self, unaccounted, environment=None):
        snapshot = snapshot_of(reason="exit")
        snapshot["devices"][0]["use"] = {"time_ns": 5, "total": 80 * GIB, "free": 0, "in_pools": 0, "unaccounted": unaccounted}
        snapshot["process"]["environment"] = environment or {}
        return snapshot

    def test_text(self):
        text = self.report(self.oom({LIMIT: "0=1G", "CUDA_VISIBLE_DEVICES": "0"})).stdout
        self.assertIn("  variables  %s=0=1G CUDA_VISIBLE_DEVICES=0\n" % LIMIT, text)
        self.narrow(text)
        self.assertNotIn("variables", self.report(self.oom({})).stdout)
        self.assertEqual(self.facts(self.oom({LIMIT: "0=1G"}))["process"]["environment"], {LIMIT: "0=1G"})

    def test_what_could_steer_a_terminal(self):
        text = self.report(self.oom({LIMIT: "0=1G\x1b[31m", "CUDA_VISIBLE_DEVICES": "\x1b]0;MIG-\x07"})).stdout
        self.assertNotIn("\x1b", text)
        self.assertNotIn("\x07", text)


if __name__ == "__main__":
    cli.GPUPOOL, cli.STUB = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
