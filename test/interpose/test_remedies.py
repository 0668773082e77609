"""Every remedy that `gpupool summary` prints is tried: a program meets what the finding is about, the remedy is taken out of
the finding's JSON and applied, and the program runs again. doc/findings.md names the test of each finding.

A setting is applied as it stands there; an action is an argument of test/prog/remedies.c that does what the word says.
Time is that of a virtual clock.
"""

import json
import os
import subprocess
import unittest

from harness import GIB, SIM, PreloadCase

TOOL = os.environ["GP_TOOL"]
MIB = 1 << 20
KIB = 1 << 10
SECOND = 10**9


class Remedies(PreloadCase):
    def summary(self, path, *options):
        result = subprocess.run([TOOL, "summary", "--json", path, *options], stdout=subprocess.PIPE, universal_newlines=True,
                                env=dict(os.environ, LD_LIBRARY_PATH=SIM), timeout=120)
        self.assertEqual(result.returncode, 0)
        return json.loads(result.stdout)["snapshots"][0]

    def meet(self, *steps, **settings):
        """Runs the program. Returns how often memory was refused, and its summaries by reason."""
        settings.setdefault("SIMCUDA_DEVICES", "2")
        run = self.run_program("remedies", *steps, virtual_clock=True, **settings)
        self.assertEqual(run.status, 0, run.out + run.err[-2000:])
        self.expect_clean(run)
        facts = {path.split(".")[-2]: self.summary(path) for path in run.snapshot_paths()}
        return run.field("refused"), facts

    def finding(self, facts, code, device=None):
        found = [one for one in facts["findings"] if one["code"] == code and device in (None, one["device"])]
        self.assertEqual(len(found), 1, facts["findings"])
        return found[0]

    def codes(self, facts):
        return [one["code"] for one in facts["findings"]]

    def settings_of(self, finding, *names):
        """Those of its remedy, without GPUPOOL_; names: which they are, and nothing else is to be done."""
        remedy = finding["remedy"]
        self.assertIsNotNone(remedy, finding)
        self.assertIsNone(remedy["action"])
        self.assertEqual(sorted(remedy["settings"]), sorted("GPUPOOL_" + name for name in names), finding)
        for name, value in remedy["settings"].items():
            self.assertIn("%s=%s" % (name, value), finding["advice"].replace("GPUPOOL_LIMIT is malformed",
                                                                              "GPUPOOL_LIMIT=none"))
        return {name[len("GPUPOOL_"):]: value for name, value in remedy["settings"].items()}

    def action_of(self, finding, owner=None):
        """The step that does what is to be done."""
        self.assertEqual((finding["remedy"]["settings"], finding["remedy"]["owner"]), ({}, owner))
        return finding["remedy"]["action"] + (":" + owner if owner else "")

    @staticmethod
    def stats(facts, device=0):
        (found,) = [one for one in facts["devices"] if one["device"] == device]
        return found["stats"]

    def rate(self, facts):
        stats = self.stats(facts)
        return stats["cache_hits"] / (stats["cache_hits"] + stats["cache_misses"])


class OutOfMemory(Remedies):
    """The finding `oom`: what the library advises, and what the tool makes of it."""

    def refused(self, *steps, **settings):
        count, facts = self.meet(*steps, **settings)
        self.assertGreater(count, 0)
        return self.finding(facts["oom"], "oom")

    def expect_served(self, *steps, **settings):
        self.assertEqual(self.meet(*steps, **settings)[0], 0)

    def test_a_larger_limit(self):
        """It has to hold for the block that was asked for, however sizes are rounded."""
        for last in (36 * MIB + 1, 64 * MIB + 1, 126 * MIB + 7, 300 * MIB + 1):
            for type in ("round", "naive", "segment"):
                steps = ("load:%d:2" % (32 * MIB), "pass:%d" % last)
                found = self.refused(*steps, LIMIT="100MiB", TYPE=type)
                self.expect_served(*steps, **dict(self.settings_of(found, "LIMIT"), TYPE=type))

    def test_a_larger_limit_beside_that_of_another_device(self):
        steps = ("device:1", "load:%d" % (400 * MIB), "device:0", "load:%d" % (130 * MIB))
        for limits in ("0=100MiB,1=500MiB", "1=500MiB,0=100MiB"):
            found = self.refused(*steps, LIMIT=limits)
            settings = self.settings_of(found, "LIMIT")
            self.expect_served(*steps, **settings)
            self.assertIn("1=500MiB", settings["LIMIT"])

    def test_a_larger_share(self):
        steps = ("device:1", "load:%d" % GIB, "device:0", "load:%d" % (130 * MIB))
        for limits in ("10%", "0=10%,1=2GiB"):
            found = self.refused(*steps, LIMIT=limits, SIMCUDA_CAPACITY="0=1GiB,1=20GiB")
            self.expect_served(*steps, SIMCUDA_CAPACITY="0=1GiB,1=20GiB", **self.settings_of(found, "LIMIT"))

    def test_no_limit_that_the_device_cannot_keep(self):
        found = self.refused("load:%d:12" % (100 * MIB), LIMIT="512MiB", SIMCUDA_CAPACITY="600MiB")
        self.assertIsNotNone(found["remedy"])  # the sixth block would have fitted
        found = self.refused("load:%d" % (2 * GIB), LIMIT="512MiB", SIMCUDA_CAPACITY="1GiB")
        self.assertIsNone(found["remedy"])
        self.assertIn("would not fit on the device", found["advice"])

    def test_no_malformed_limit(self):
        found = self.refused("load:%d" % MIB, LIMIT="8Q")
        self.expect_served("load:%d" % MIB, **self.settings_of(found, "LIMIT"))

    def test_a_longer_patience(self):
        short = {"SIMCUDA_CAPACITY": "1GiB", "RESERVE": "0", "PATIENCE": "1"}
        before = ("load:%d" % (600 * MIB), "use:load", "free:load", "busy:%d" % (5 * SECOND))
        found = self.refused(*before, "load:%d" % (700 * MIB), **short)
        self.expect_served(*before, "load:%d" % (700 * MIB), **dict(short, **self.settings_of(found, "PATIENCE")))

    def test_a_patience_that_leaves_pieces_is_not_advised(self):
        """Of cut memory the freed blocks have to lie together."""
        short = {"SIMCUDA_CAPACITY": "1GiB", "RESERVE": "0", "PATIENCE": "1", "TYPE": "segment"}
        apart = ("load:%d" % (32 * MIB), "pass:%d" % (32 * MIB)) * 15 + ("use:load", "free:load", "busy:%d" % (5 * SECOND))
        found = self.refused(*apart, "grow:%d" % (256 * MIB), **short)
        self.assertIsNone(found["remedy"], found)
        together = ("load:%d:15" % (32 * MIB), "pass:%d:15" % (32 * MIB), "use:load", "free:load", "busy:%d" % (5 * SECOND))
        found = self.refused(*together, "grow:%d" % (256 * MIB), **short)
        self.expect_served(*together, "grow:%d" % (256 * MIB), **dict(short, **self.settings_of(found, "PATIENCE")))

    def test_pieces(self):
        """As much is idle as is asked for: another type helps, and to free what lies between, if that is enough."""
        settings = {"SIMCUDA_CAPACITY": "1GiB", "RESERVE": "0", "STACKS": "native", "TYPE": "segment"}
        steps = ("load:%d" % (32 * MIB), "pass:%d" % (32 * MIB)) * 15 + ("free:pass", "synchronize")
        _, facts = self.meet(*steps, "grow:%d" % (256 * MIB), **settings)
        found = self.finding(facts["oom"], "oom")
        self.expect_served(*steps, "grow:%d" % (256 * MIB), **dict(settings, **self.settings_of(found, "TYPE")))
        _, facts = self.meet(*steps, "grow:%d" % (256 * MIB), TRACE="state", **settings)  # no requests to try
        found = self.finding(facts["oom"], "oom")
        self.assertIsNone(found["remedy"], found)
        self.assertIn("is idle, but in pieces between blocks in use", found["advice"])
        owners = self.finding(facts["oom"], "owners")
        self.assertIn("without it, its segments would have had enough room", owners["advice"])
        self.expect_served(*steps, self.action_of(owners, "load"), "grow:%d" % (256 * MIB), **settings)

    def test_another_type_where_rounding_took_the_memory(self):
        """Never the type in use, only where the bytes that it saves are enough, and not where nothing is ever freed."""
        size = 408 * KIB  # five in a page; of their class, four
        steps = ("turn:load:%d:4:0" % size, "load:%d:130" % size)
        found = self.refused(*steps, SIMCUDA_CAPACITY="64MiB")
        self.expect_served(*steps, SIMCUDA_CAPACITY="64MiB", **self.settings_of(found, "TYPE"))
        steps = ("load:%d:110" % size, "pass:%d" % (12 * MIB))  # in 56 MiB, where round takes 68
        found = self.refused(*steps, SIMCUDA_CAPACITY="64MiB")
        self.expect_served(*steps, SIMCUDA_CAPACITY="64MiB", **self.settings_of(found, "TYPE"))
        for steps, settings in ((("load:%d:165" % size,), {"TYPE": "naive"}), (("load:%d:65" % MIB,), {})):
            found = self.refused("turn:load:%d:4:0" % size, *steps, SIMCUDA_CAPACITY="64MiB", **settings)
            self.assertIsNone(found["remedy"])
            self.assertRegex(found["advice"], "^.* short, with no cached memory left to release.$")
        found = self.refused("load:%d:150" % size, SIMCUDA_CAPACITY="64MiB")
        self.assertIsNone(found["remedy"])
        self.assertEqual(found["advice"], "408 KiB more would satisfy this request but not the next one: the code that allocates here never frees.")


    def test_less_of_what_the_biggest_owner_holds(self):
        """The biggest one on the device where memory ran out, and only if it holds what was missing."""
        first = ("device:1", "grow:%d" % (900 * MIB), "device:0", "load:%d:2" % (200 * MIB), "pass:%d" % (100 * MIB))
        last = "pass:%d" % (700 * MIB)
        for settings in ({"SIMCUDA_CAPACITY": "1GiB"}, {"LIMIT": "1GiB", "SIMCUDA_CAPACITY": "1500MiB"}):
            settings["STACKS"] = "native"
            _, facts = self.meet(*first, last, **settings)
            found = self.finding(facts["oom"], "owners")
            step = self.action_of(found, "load")
            self.assertRegex(found["advice"], r"what load\b.* allocates: [0-9.]+ MiB less on device 0 would have been enough")
            self.expect_served(*first, step, last, **settings)
        _, facts = self.meet(*first[:-1], *["pass:%d" % (300 * MIB)], "pass:%d" % (900 * MIB), **settings)
        self.assertIsNone(self.finding(facts["oom"], "owners")["remedy"])

    def test_no_limit_for_what_grows(self):
        """A larger one would only be reached later: what is to be done is to free what grows."""
        def steps(*more):
            return ("load:%d" % (200 * MIB),) + ("grow:%d" % MIB, *more, "turn:pass:%d:1:0" % (2 * MIB)) * 400
        settings = {"LIMIT": "512MiB", "STACKS": "native"}
        found = self.refused(*steps(), **settings)
        self.assertIsNone(found["remedy"], found)
        self.assertIn("is too small for the next ones", found["advice"])
        _, facts = self.meet(*steps(), **settings)
        step = self.action_of(self.finding(facts["oom"], "growth"), "grow")
        self.assertIsNone(self.finding(facts["oom"], "owners")["advice"])
        self.expect_served(*steps(step), **settings)


class Settings(Remedies):
    """Findings of a run that went well enough."""

    def test_stacks_for_what_was_not_freed(self):
        _, facts = self.meet("load:4096:3", STACKS="off")
        found = self.finding(facts["exit"], "live_at_exit")
        self.assertEqual(self.settings_of(found, "STACKS"), {"STACKS": "native"})
        self.assertNotIn("load", json.dumps(facts["exit"]["findings"]))
        _, facts = self.meet("load:4096:3", STACKS="native")
        found = self.finding(facts["exit"], "live_at_exit")
        self.assertEqual((found["remedy"], found["advice"]), (None, "gpupool leaks lists them."))
        self.assertIn("load", self.finding(facts["exit"], "owners")["message"])

    def better_rate(self, name, *steps, **settings):
        _, facts = self.meet(*steps, **settings)
        found = self.finding(facts["exit"], "hit_rate")
        remedy = self.settings_of(found, name)
        _, after = self.meet(*steps, **dict(settings, **remedy))
        self.assertGreaterEqual(self.rate(after["exit"]), self.rate(facts["exit"]) + 0.1)
        return remedy, self.rate(after["exit"]), found

    def test_hit_rate_more_cached(self):
        steps = ("load:%d:10:%d" % (4 * MIB, MIB), "free:load", "synchronize") * 30
        _, rate, found = self.better_rate("MAX_CACHED", *steps, MAX_CACHED="8MiB")
        self.assertIn("would have served %.1f%% of them" % (100 * rate), found["advice"])

    def test_hit_rate_kept_longer(self):
        steps = ("load:%d:10" % (4 * MIB), "free:load", "synchronize", "sleep:2", "synchronize") * 30
        remedy, rate, found = self.better_rate("IDLE_RELEASE", *steps, IDLE_RELEASE="1")
        self.assertEqual(remedy, {"IDLE_RELEASE": "0"})
        self.assertIn("would have served %.1f%% of them" % (100 * rate), found["advice"])

    def test_hit_rate_other_type(self):
        steps = sum((("pass:%d:20:3000" % (300 * KIB + i * 60000), "free:pass", "synchronize") for i in range(10)), ())
        remedy, rate, found = self.better_rate("TYPE", *steps, TYPE="naive")
        self.assertEqual(remedy, {"TYPE": "round"})
        self.assertIn("would have served %.1f%% of them" % (100 * rate), found["advice"])

    def test_hit_rate_facts_of_older_drivers(self):
        """Before 12.5 the pool cannot ask what the device has finished; a driver since then is asked."""
        work = ("load:%d" % MIB, "use:load", "free:load") * 10
        _, facts = self.meet(*work * 12, driver="12040")
        found = self.finding(facts["exit"], "hit_rate")
        self.assertIn("The driver (12.4) has no fence over all streams", found["advice"])
        _, after = self.meet(*(work + (self.action_of(found),)) * 12, driver="12040")
        self.assertGreaterEqual(self.rate(after["exit"]), self.rate(facts["exit"]) + 0.5)
        _, newer = self.meet(*work * 12, SIMCUDA_PACE="at-once")  # else it is luck when work is over
        self.assertGreaterEqual(self.rate(newer["exit"]), 0.9)

    def test_hit_rate_sizes_that_no_class_brings_together(self):
        """Each size is asked for once, and twice as large as the one before: no setting helps."""
        steps = tuple("pass:%d" % (512 << i) for i in range(20)) * 6
        _, facts = self.meet(*steps, TYPE="naive")
        self.assertIsNone(self.finding(facts["exit"], "hit_rate")["remedy"])

    def test_type(self):
        """Sizes that no class brings together: cut memory holds less for them, and so it is."""
        steps = [step for size in range(40, 200, 8) for step in ("pass:%d:3" % (size * MIB), "load:%d" % (size * MIB),
                                                                 "free:pass", "synchronize")]
        _, facts = self.meet(*steps, SLACK="none")
        found = self.finding(facts["exit"], "type")
        _, after = self.meet(*steps, SLACK="none", **self.settings_of(found, "TYPE"))
        self.assertNotIn("type", self.codes(after["exit"]))
        was, now = (self.stats(one["exit"])["reserved_bytes"]["peak"] for one in (facts, after))
        self.assertLess(now, 0.9 * was)
        _, facts = self.meet(*steps, SLACK="none", TRACE="state")
        self.assertNotIn("type", self.codes(facts["exit"]))

    def test_rounding(self):
        """The finding states what rounding took; `type` has the remedy, which was tried."""
        for size, count, settings in ((512 * KIB + 1, 400, {"PAGE": "1MiB", "TYPE": "naive"}),
                                      (64 * MIB + 1, 20, {"TYPE": "naive", "LARGE_ROUND": "64MiB"})):
            steps = ("pass:%d:%d" % (size, count),)
            _, facts = self.meet(*steps, **settings)
            self.assertIsNone(self.finding(facts["exit"], "rounding")["remedy"])
            _, after = self.meet(*steps, **dict(settings, **self.settings_of(self.finding(facts["exit"], "type"), "TYPE")))
            self.assertNotIn("rounding", self.codes(after["exit"]))

    def test_rounding_is_that_of_one_moment(self):
        """Most was asked for when no size was rounded, and most was taken for a size that was: between the two peaks there
        are 320 MiB, and rounding never took more than 36 at once."""
        steps = ("load:%d:640" % (512 * KIB), "free:load", "synchronize", "pass:%d:576" % (512 * KIB + 1))
        _, facts = self.meet(*steps)
        stats = self.stats(facts["exit"])
        self.assertEqual(stats["requested_bytes"]["peak"], 320 * MIB)
        self.assertEqual(stats["allocated_bytes"]["peak"], 324 * MIB)
        self.assertIn("324 MiB at its peak for 288.0 MiB", self.finding(facts["exit"], "rounding")["message"])

    def test_cached(self):
        steps = ("load:%d:20" % (100 * MIB), "free:load", "synchronize", "pass:%d:10" % (90 * MIB), "free:pass", "synchronize",
                 "pass:%d:9" % (110 * MIB))
        _, facts = self.meet(*steps)
        remedy = self.settings_of(self.finding(facts["exit"], "cached"), "MAX_CACHED")
        _, after = self.meet(*steps, **remedy)
        self.assertNotIn("cached", self.codes(after["exit"]))
        stats = self.stats(after["exit"])
        self.assertLessEqual(stats["reserved_bytes"]["peak"],
                             self.stats(facts["exit"])["active_bytes"]["peak"] + int(remedy["MAX_CACHED"][:-3]) * MIB)

    # Sizes of two phases in turn
    phases = ("load:%d:10" % (30 * MIB), "free:load", "synchronize", "load:%d:3" % (130 * MIB), "free:load", "synchronize") * 30

    def test_hit_rate_beyond_the_budget(self):
        remedy, rate, found = self.better_rate("SLACK", *self.phases)
        self.assertEqual(remedy, {"SLACK": "none"})
        self.assertIn("would have served %.1f%% of them" % (100 * rate), found["advice"])

    def test_budget(self):
        _, facts = self.meet(*self.phases)
        found = self.finding(facts["exit"], "budget")
        blocks = self.stats(facts["exit"])["driver_frees"]
        self.assertIn("released %d idle blocks on device 0: " % blocks, found["message"])
        _, after = self.meet(*self.phases, **self.settings_of(found, "SLACK"))
        self.assertNotIn("budget", self.codes(after["exit"]))
        self.assertEqual(self.stats(after["exit"])["driver_frees"], 0)
        self.assertGreater(self.stats(after["exit"])["reserved_bytes"]["current"],
                           self.stats(facts["exit"])["reserved_bytes"]["current"])

    def test_surplus(self):
        steps = ("load:%d:12" % (4 * MIB), "use:load", "free:load", "pass:%d" % (2 * MIB), "stream", "busy:%d" % (9 * SECOND),
                 "pass:%d" % (4 * MIB), "free:pass")
        settings = {"MAX_CACHED": "8MiB", "MAX_DEFERRED": "none"}  # else a cudaFree waits, and gives it back
        _, facts = self.meet(*steps, **settings)
        found = self.finding(facts["exit"], "surplus")
        self.assertGreater(self.stats(facts["exit"])["surplus_bytes"]["current"], 0)
        _, after = self.meet(*steps, self.action_of(found), **settings)
        self.assertEqual(self.stats(after["exit"])["surplus_bytes"]["current"], 0)
        self.assertLess(self.stats(after["exit"])["reserved_bytes"]["current"],
                        self.stats(facts["exit"])["reserved_bytes"]["current"])

    def test_waits(self):
        work = ("load:%d:4" % (30 * MIB), "use:load", "busy:3000000", "free:load", "load:%d:2" % (40 * MIB), "use:load",
                "free:load")
        steps = (work * 2 + ("synchronize",)) * 15
        _, facts = self.meet(*steps)
        found = self.finding(facts["exit"], "waits")
        _, after = self.meet(*steps, **self.settings_of(found, "MAX_DEFERRED"))
        self.assertNotIn("waits", self.codes(after["exit"]))
        self.assertLess(self.stats(after["exit"])["host_waits"], self.stats(facts["exit"])["host_waits"])

    def test_events(self):
        _, facts = self.meet("load:4096:2", TRACE="state")
        remedy = self.settings_of(self.finding(facts["exit"], "no_events"), "TRACE")
        _, facts = self.meet("load:4096:2", **remedy)
        self.assertNotIn("no_events", self.codes(facts["exit"]))
        steps = ("turn:pass:4096:6000:0",)
        _, facts = self.meet(*steps, TRACE_EVENTS="1024")
        remedy = self.settings_of(self.finding(facts["exit"], "dropped_events"), "TRACE_EVENTS")
        _, facts = self.meet(*steps, **remedy)
        self.assertEqual((facts["exit"]["dropped_events"], facts["exit"]["partial"]), (0, False))


class PageLocked(Remedies):
    """Page-locked memory of the host."""

    def facts(self, run, reason):
        (path,) = run.snapshot_paths(reason)
        return self.summary(path)

    def test_a_larger_limit_of_the_host(self):
        steps = "host:%d:13" % (8 * MIB)
        for limit in "100MiB", "half":
            run = self.run_program("memory_kinds", steps, HOST_LIMIT=limit)
            self.assertNotIn("13 of 13", run.out)
            found = self.finding(self.facts(run, "host_oom"), "host_oom")
            self.assertEqual(found["severity"], "error")
            settings = found["remedy"]["settings"]
            self.assertEqual(settings, {"GPUPOOL_HOST_LIMIT": "104MiB" if limit == "100MiB" else "none"})
            run = self.run_program("memory_kinds", steps, HOST_LIMIT=settings["GPUPOOL_HOST_LIMIT"])
            self.assertIn("13 of 13", run.out)
            self.assertEqual(run.snapshot_paths("host_oom"), [])
            self.assertNotIn("host_oom", self.codes(self.facts(run, "exit")))

    def test_a_refusal_of_the_hosts_limit_is_none_of_the_device(self):
        run = self.run_program("memory_kinds", "plain:%d:2" % MIB, "host:%d:13" % (8 * MIB), HOST_LIMIT="100MiB")
        facts = self.facts(run, "host_oom")
        self.assertIn("1 time: the program requested 8 MiB while using 96 MiB of 100 MiB.", self.finding(facts, "host_oom")["message"])
        self.assertFalse({"oom", "ooms"} & set(self.codes(facts)))
        self.assertEqual(self.finding(self.facts(run, "exit"), "host_oom")["severity"], "warning")

    def test_buffers_that_come_again(self):
        """Their calls take all of the time here; one buffer that is kept takes one."""
        steps = ("host:%d:1" % (100 * KIB), "host:%d:4" % KIB, "free", "free")
        found = self.finding(self.facts(self.run_program("memory_kinds", *steps * 60), "exit"), "pinned")
        self.assertIn("was allocated 300 times", found["message"])
        self.assertIn("295 of these requests were for a size that the program had freed before.", found["message"])
        self.assertNotIn("Small ones", found["message"])
        self.assertIn("keep such buffers", found["advice"])
        run = self.run_program("memory_kinds", "host:%d:300" % KIB, "free")
        self.assertNotIn("pinned", self.codes(self.facts(run, "exit")))
        run = self.run_program("memory_kinds", *("host:%d:600" % KIB, "free") * 2)
        self.assertIn("Small blocks take a page each: at most 600 KiB were in use, which is 2.3 MiB in pages of 4 KiB.",
                      self.finding(self.facts(run, "exit"), "pinned")["message"])


if __name__ == "__main__":
    unittest.main()
