"""What must be hooked for each reuse mode is hooked, and nothing is hooked that no mode asks for."""

import collections
import unittest

from tables import CLASSES_DEF, FUNCTIONS_DEF, classes, hooks, kinds, parts

# Reuse modes of GPUPOOL_REUSE -> the words of classes.def that ask for hooks in it.
MODES = {
    "strict": {"EVERY", "STREAM"},
    "context": {"EVERY", "CONTEXT", "STREAM"},
}
WORDS = {"EVERY", "CONTEXT", "STREAM", "NONE"}

# Asked for by its class, and not hooked yet: why that may wait. An entry that is hooked meanwhile has to go.
IPC = ("may enable peer access for the current context; that one is known already, unless it became current by a way "
       "that no hook sees (doc/design.md)")
WAITS = ("what a whole context waits for is no work, and completes nothing. That its streams are ordered behind it would "
         "only let them have each other's memory earlier (pool/reuse/stream_points.h)")
EVENTS = "an event that was made and not recorded stands for nothing"
ELAPSED = "both events were waited for or asked before: nothing new"
LATER = {
    "cuCtxWaitEvent": WAITS,
    "cuGreenCtxWaitEvent": WAITS,
    "cuEventCreate": EVENTS,
    "cuGraphEventRecordNodeGetEvent": EVENTS,
    "cuEventElapsedTime": ELAPSED,
    "cuEventElapsedTime_v2": ELAPSED,
    "cuIpcOpenMemHandle": IPC,
    "cuIpcOpenMemHandle_v2": IPC,
}


class Modes(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.kinds = kinds()
        cls.classes = {entry.symbol: entry for entry in classes()}
        cls.hooks = {hook.symbol: hook for hook in hooks()}

    def required(self, mode):
        return {symbol: entry.kind for symbol, entry in self.classes.items()
                if self.kinds[entry.kind].modes & MODES[mode]}

    def test_words_are_known(self):
        words = set().union(*(kind.modes for kind in self.kinds.values()))
        self.assertEqual(words - WORDS, set())
        mixed = [kind.name for kind in self.kinds.values() if "NONE" in kind.modes and len(kind.modes) > 1]
        self.assertEqual(mixed, [])

    def test_each_mode_is_hooked(self):
        missing = []
        for mode in sorted(MODES):
            required = self.required(mode)
            by_kind = collections.Counter(required.values())
            hooked = collections.Counter(kind for symbol, kind in required.items() if symbol in self.hooks)
            print("%s: %s" % (mode, ", ".join("%s %d/%d" % (kind, hooked[kind], by_kind[kind]) for kind in self.kinds
                                              if kind in by_kind)))
            missing += ["%s (%s) for mode %s" % (symbol, kind, mode) for symbol, kind in sorted(required.items())
                        if symbol not in self.hooks and symbol not in LATER]
        self.assertEqual(missing, [], "not a HOOK of %s, though its class asks for it; hook it, or list it in LATER of "
                                      "this test with the reason why it can wait" % FUNCTIONS_DEF)

    def test_what_is_left_to_later(self):
        required = set().union(*(self.required(mode) for mode in MODES))
        reasons = collections.defaultdict(list)
        for symbol, reason in LATER.items():
            reasons[reason].append(symbol)
        for reason, symbols in reasons.items():
            print("not hooked yet, %s: %s" % (", ".join(symbols), reason))
        self.assertEqual(sorted(set(LATER) - required), [], "listed in LATER, but no class asks for it")
        self.assertEqual(sorted(set(LATER) & set(self.hooks)), [], "listed in LATER, but hooked")

    def test_each_hook_has_a_reason(self):
        required = set().union(*(self.required(mode) for mode in MODES))
        idle = ["%s (%s)" % (symbol, self.classes[symbol].kind if symbol in self.classes else "not in " + CLASSES_DEF)
                for symbol in self.hooks if symbol not in required]
        self.assertEqual(idle, [], "hooked, though no class asks for it in any mode that there is")

    def test_all_variants_of_a_hook(self):
        """A program may use any variant, so those of one name are hooked together; ABI32 is left alone on purpose."""
        hooked = {hook.base for hook in self.hooks.values()}
        left = [symbol for symbol, entry in self.classes.items()
                if symbol not in self.hooks and symbol not in LATER and entry.kind not in ("ABI32", "UNSURE")
                and parts(symbol).base in hooked]
        self.assertEqual(left, [], "another variant of it is hooked")

    def test_since_is_that_of_the_hook(self):
        wrong = ["%s: %d in %s, %d in %s" % (hook.symbol, hook.since, FUNCTIONS_DEF, entry.since, CLASSES_DEF)
                 for hook in self.hooks.values()
                 for entry in [self.classes.get(hook.symbol)] if entry and entry.since != hook.since]
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
