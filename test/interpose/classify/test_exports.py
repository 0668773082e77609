"""classes.def against the libcuda of the installed toolkit: the stub that programs are linked to."""

import glob
import os
import re
import subprocess
import sys
import unittest

from tables import (CLASSES_DEF, FUNCTIONS_DEF, INCLUDE, SKIP, came_by, classes, cuda_version, kinds, parts,
                    typedef_versions)

# What a name lets expect; the first match is the guess.
LIKELY = [
    (r"GetProcAddress", "RESOLVE"),
    (r"ExportTable", "OPAQUE"),
    (r"BeginCapture|EndCapture", "CAPTURE"),
    (r"^cu(Ctx|GreenCtx|DevicePrimaryCtx)\w*(Destroy|Detach|Reset$|Release)", "CONTEXT_END"),
    (r"^cu(Ctx|GreenCtx)\w*(Create|SetCurrent|PushCurrent)", "CONTEXT_IN_USE"),
    (r"PeerAccess|OpenMemHandle", "PEER"),
    (r"^cu(Ctx|Device|GreenCtx)\w*Synchronize", "SYNC_CONTEXT"),
    (r"^cuStream(Synchronize|Query)", "SYNC_STREAM"),
    (r"^cuEvent(Synchronize|Query|ElapsedTime)", "SYNC_EVENT"),
    (r"^cuMemPool", "POOL"),
    (r"^cuGraph\w*Mem(Alloc|Free)", "GRAPH_MEMORY"),
    (r"^cuGraphInstantiate|^cu(Module|Library)Load", "ALLOC_HIDDEN"),
    (r"GetMemHandle|HandleForAddressRange|^cuPointerSet|BindAddr", "EXPORT"),
    (r"^cuMem(Host|AllocHost|FreeHost)", "HOST_MEMORY"),
    (r"^cuMem\w*Alloc\w*Async", "ALLOC_ASYNC"),
    (r"^cuMemFree\w*Async", "FREE_ASYNC"),
    (r"^cuMem(Alloc|Create)|Array\w*Create", "ALLOC_PASS"),
    (r"^cuMem(Free|Release)|ArrayDestroy", "FREE_PASS"),
    (r"^cuMem(GetInfo)", "MEMORY_INFO"),
    (r"^cu(Memcpy|Memset)(?!\w*Async)", "WORK_DEFAULT"),
    (r"Launch|Async", "WORK_STREAM"),
    (r"^cuStream\w*(Create|Destroy)", "STREAM_LIFE"),
    (r"^cuMem(Address|Map|Unmap|SetAccess|Export|Import|Retain)|^cuMulticast", "VMM"),
    (r"Event", "EVENT"),
    (r"^cuStream(Wait|Write|Batch|Attach|AddCallback)", "WORK_STREAM"),
    (r"^cu(Ctx|GreenCtx|DevicePrimaryCtx)", "CONTEXT_OTHER"),
]


def find_stub():
    """The toolkit's libcuda.so to link with; it lies beside the headers' folder, which may be a link."""
    places = ["../lib64/stubs", "../lib/stubs", "../targets/*/lib/stubs", "../lib/*/stubs"]
    for include in (os.path.abspath(INCLUDE), os.path.realpath(INCLUDE)):
        for place in places:
            for path in sorted(glob.glob(os.path.join(os.path.normpath(os.path.join(include, place)), "libcuda.so"))):
                return path
    return None


def exports(path):
    output = subprocess.run(["nm", "-D", "--defined-only", path], stdout=subprocess.PIPE, universal_newlines=True,
                            check=True).stdout
    names = {line.split()[-1].split("@")[0] for line in output.splitlines() if line.strip()}
    return {name for name in names if re.match(r"cu[A-Z]", name)}


class Exports(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.exported = exports(STUB)
        cls.version = cuda_version()
        cls.kinds = kinds()
        cls.list = classes()
        cls.classes = {entry.symbol: entry for entry in cls.list}
        cls.versions = typedef_versions()
        print("%s, CUDA %d: %d exports" % (STUB, cls.version, len(cls.exported)))

    def likely(self, symbol):
        name = parts(symbol)
        family = [entry for entry in self.list if parts(entry.symbol).base == name.base and entry.kind != "ABI32"]
        if family:
            other = max(family, key=lambda entry: entry.since)
            return other.kind, "a variant of %s" % other.symbol
        for pattern, kind in LIKELY:
            if re.search(pattern, name.base):
                return kind, "by its name"
        return "PLAIN", "nothing in its name speaks for another"

    def advice(self, symbol):
        kind, why = self.likely(symbol)
        name = parts(symbol)
        family = [entry for entry in self.list if parts(entry.symbol)[::2] == (name.base, name.suffix)]
        declared = self.versions.get((name.base, name.suffix), {})
        since = max(set(declared) - {entry.since for entry in family}, default=self.version)
        modes = self.kinds[kind].modes if kind in self.kinds else {"EVERY"}
        text = ("%s is not in %s. It is likely %s (%s). Read in cuda.h what it does, and file it: CLASS(%s, %d, %s)"
                % (symbol, CLASSES_DEF, kind, why, symbol, since, kind))
        if modes & {"EVERY", "CONTEXT"}:
            text += "; functions of that class need a HOOK in %s" % FUNCTIONS_DEF
        return text

    def test_every_export_has_a_class(self):
        self.assertGreater(len(self.exported), 400)
        unknown = sorted(self.exported - set(self.classes))
        self.assertEqual(unknown, [], "\n" + "\n".join(self.advice(symbol) for symbol in unknown))

    def test_every_name_exists(self):
        absent = [entry for entry in self.list if entry.since <= self.version and entry.symbol not in self.exported]
        gone = [entry.symbol for entry in absent if came_by(entry.since, self.version)]
        print("brought by an update of this version (%d), it seems: %s"
              % (self.version, ", ".join(entry.symbol for entry in absent if entry.symbol not in gone) or "none"))
        self.assertEqual(gone, [], "in %s as older than this toolkit (%d), whose libcuda does not export it: the name "
                                   "or its version is wrong, or CUDA has dropped it" % (CLASSES_DEF, self.version))

    def test_no_name_came_earlier(self):
        early = ["%s: %d" % (entry.symbol, entry.since) for entry in self.list
                 if entry.since > self.version and entry.symbol in self.exported]
        self.assertEqual(early, [], "exported by this toolkit (%d) already" % self.version)

    def test_versions_are_those_of_the_typedefs(self):
        """cudaTypedefs.h has a type for each version of a function: those of the variants, in order, are the same."""
        if not self.versions:
            self.skipTest("no cudaTypedefs.h beside cuda.h")
        table = {}
        for entry in self.list:
            name = parts(entry.symbol)
            table.setdefault((name.base, name.suffix), []).append((name.variant, entry.since))
        without = []
        for key, variants in sorted(table.items()):
            ours = [since for _, since in sorted(variants)
                    if came_by(since, self.version) or since in self.versions.get(key, {})]
            if key not in self.versions:
                without += ["".join(key)] if ours else []
                continue
            with self.subTest(function="".join(key)):
                self.assertEqual(ours, sorted(self.versions[key]), "versions, here and in cudaTypedefs.h")
        print("without a type in cudaTypedefs.h: %s" % (", ".join(without) or "none"))

    def test_list_is_sorted_and_names_known_classes(self):
        symbols = [entry.symbol for entry in self.list]
        self.assertEqual([b for a, b in zip(symbols, symbols[1:]) if a >= b], [],
                         "not after the entry before it, by bytes, or there twice")
        self.assertEqual(sorted({entry.kind for entry in self.list} ^ set(self.kinds)), [],
                         "a class without KIND, or without function")

    def test_guesses_are_classes(self):
        self.assertEqual([kind for _, kind in LIKELY if kind not in self.kinds], [])


if __name__ == "__main__":
    STUB = find_stub()
    if not STUB:
        print("skipped: no stubs/libcuda.so beside %s; the toolkit's driver-dev package has it" % INCLUDE)
        sys.exit(SKIP)
    unittest.main(verbosity=2)
