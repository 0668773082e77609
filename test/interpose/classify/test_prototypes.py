"""
functions.def against the toolkit's headers: parameters, and which CUDA version introduced a variant.

The driver is called through pointers of the table's types, so nothing else compares them with the header's. Here the
compiler does, with static assertions: test_prototypes.py COMPILER [ARGUMENT...]. Nothing is linked or run.
"""

import re
import subprocess
import sys
import unittest

from tables import (CLASSES_DEF, FUNCTIONS_DEF, INCLUDE, SOURCE, calls, came_by, classes, cuda_version, hooks, parts,
                    typedef_versions)

# Parameters whose type in functions.def is not the header's: symbol, parameter there, type in the header, and why. Only
# void * (for the address of a type) or an integer of the same size can stand in for it, and that is checked too.
NEWER = "the type is newer than CUDA 11.4: "
LOOSE = [
    ("cuGetProcAddress_v2", "void *status", "CUdriverProcAddressQueryResult *", NEWER + "12.0"),
    ("cuCtxCreate_v3", "void *affinity", "CUexecAffinityParam *", "handed on without a look at it"),
    ("cuCtxCreate_v4", "void *parameters", "CUctxCreateParams *", NEWER + "12.5"),
    ("cuCtxFromGreenCtx", "void *green", "struct CUgreenCtx_st *", NEWER + "12.4"),
    ("cuGreenCtxCreate", "void **green", "CUgreenCtx *", NEWER + "12.4"),
    ("cuGreenCtxCreate", "void *description", "struct CUdevResourceDesc_st *", NEWER + "12.4"),
    ("cuGreenCtxDestroy", "void *green", "struct CUgreenCtx_st *", NEWER + "12.4"),
    ("cuGreenCtxStreamCreate", "void *green", "struct CUgreenCtx_st *", NEWER + "12.4"),
    ("cuMemGetHandleForAddressRange", "int type", "CUmemRangeHandleType", NEWER + "11.7; an enumeration"),
    ("cuGreenCtxRecordEvent", "void *green", "struct CUgreenCtx_st *", NEWER + "12.4"),
    ("cuLaunchKernelEx", "const void *config", "const CUlaunchConfig *", NEWER + "11.6"),
    ("cuLaunchKernelEx_ptsz", "const void *config", "const CUlaunchConfig *", NEWER + "11.6"),
    ("cuGraphAddNode", "void *parameters", "CUgraphNodeParams *", NEWER + "12.2"),
    ("cuGraphAddNode_v2", "const void *edges", "const CUgraphEdgeData *", NEWER + "12.3"),
    ("cuGraphAddNode_v2", "void *parameters", "CUgraphNodeParams *", NEWER + "12.2"),
    ("cuGraphNodeSetParams", "void *parameters", "CUgraphNodeParams *", NEWER + "12.2"),
    ("cuGraphExecNodeSetParams", "void *parameters", "CUgraphNodeParams *", NEWER + "12.2"),
    ("cuGraphInstantiateWithParams", "void *parameters", "CUDA_GRAPH_INSTANTIATE_PARAMS *", NEWER + "12.0"),
    ("cuGraphInstantiateWithParams_ptsz", "void *parameters", "CUDA_GRAPH_INSTANTIATE_PARAMS *", NEWER + "12.0"),
    ("cuLibraryLoadData", "void **library", "CUlibrary *", NEWER + "12.0"),
    ("cuLibraryLoadData", "void *options", "CUlibraryOption *", NEWER + "12.0"),
    ("cuLibraryLoadFromFile", "void **library", "CUlibrary *", NEWER + "12.0"),
    ("cuLibraryLoadFromFile", "void *options", "CUlibraryOption *", NEWER + "12.0"),
    ("cuStreamBeginCaptureToGraph", "const void *edges", "const CUgraphEdgeData *", NEWER + "12.3"),
    ("cuStreamBeginCaptureToGraph_ptsz", "const void *edges", "const CUgraphEdgeData *", NEWER + "12.3"),
]

COMPILER = sys.argv[1:] or ["cc"]


def compile_c(text, *options):
    return subprocess.run(
        COMPILER + ["-std=c11", "-D_GNU_SOURCE", "-I", SOURCE, "-isystem", INCLUDE, "-x", "c"] + list(options) + ["-"],
        input=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)


def declarations():
    """symbol -> its parameters as the header writes them"""
    done = compile_c('#include "interpose/cuda_abi.h"\n', "-E", "-P")
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    flat = " ".join(done.stdout.split())
    return dict(re.findall(r"\bCUresult (cu[A-Z]\w*) ?\(((?:[^()]|\([^()]*\))*)\) ?;", flat))


def same(left, right, message):
    return '_Static_assert(__builtin_types_compatible_p(%s, %s),\n  "%s");\n' % (left, right, message)


class Prototypes(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.declared = declarations()
        cls.version = cuda_version()
        cls.hooks = hooks()
        cls.functions = {hook.symbol: hook.parameters for hook in cls.hooks}
        cls.functions.update(calls())

    def assert_compiles(self, text, meaning):
        done = compile_c('#include "interpose/routes/real.h"\n' + text, "-fsyntax-only")
        if done.returncode != 0:
            wrong = re.findall(r'error: static[_ ]assert[^"]*"(.*)"', done.stderr)
            self.fail("%s\n%s" % (meaning, "\n".join(sorted(set(wrong))) if wrong else done.stderr))

    def test_reading(self):
        """That what is compared is all there is."""
        text = '#include "interpose/routes/real.h"\n_Static_assert(GP_HOOK_COUNT == %d && GP_FUNCTION_COUNT == %d, "%s");\n'
        counts = (len(self.hooks), len(self.functions), "this test reads other lines of the table than the compiler")
        self.assert_compiles(text % counts, FUNCTIONS_DEF)
        self.assertGreater(len(self.declared), 400, "declarations found in cuda.h")

    def test_parameters(self):
        loose = {}
        for symbol, parameter, theirs, _ in LOOSE:
            self.assertIn(parameter, self.functions.get(symbol, ""), "LOOSE names what is not in functions.def")
            loose.setdefault(symbol, []).append((parameter, theirs))
        text = ""
        for symbol, parameters in sorted(self.functions.items()):
            if symbol not in self.declared:
                continue  # test_declared speaks of it
            expected = parameters
            for parameter, theirs in loose.get(symbol, []):
                ours = re.sub(r"\w+$", "", parameter)
                expected = expected.replace(parameter, theirs)
                text += same("gp_fn_" + symbol, "CUresult(CUDAAPI *)(%s)" % parameters, symbol + ": read otherwise")
                text += ('_Static_assert(sizeof(%s) == sizeof(%s),\n  "%s: size of %s, in the header %s");\n'
                         % (ours, theirs, symbol, parameter, theirs))
                if "*" in ours or "*" in theirs:
                    text += ('_Static_assert(%d, "%s: %s stands for %s");\n'
                             % ("void *" in ours and "*" in theirs, symbol, parameter, theirs))
            text += same("CUresult(CUDAAPI *)(%s)" % expected, "__typeof__(&%s)" % symbol,
                         "%s(%s), in the header (%s)" % (symbol, expected, self.declared[symbol]))
        self.assert_compiles(text, "parameters in functions.def that are not those of cuda.h (a type that headers of "
                                   "CUDA 11.4 lack is void *, and then listed in LOOSE of this test):")

    def test_declared(self):
        """A name that a header lacks, though it should have it, would not be compared."""
        absent = [symbol for symbol in self.functions if symbol not in self.declared]
        since = {entry.symbol: entry.since for entry in classes()}
        print("not compared, unknown to these headers (%d): %s" % (self.version, ", ".join(absent) or "none"))
        wrong = [symbol for symbol in absent if came_by(since.get(symbol, 0), self.version)]
        self.assertEqual(wrong, [], "older than these headers (%d), but not declared there; or in no class"
                         % self.version)

    def test_names(self):
        """Symbol, base and per_thread say the same thing."""
        wrong = [hook.symbol for hook in self.hooks
                 if parts(hook.symbol).base != hook.base or bool(parts(hook.symbol).suffix) != hook.per_thread]
        self.assertEqual(wrong, [], "base is the symbol without _v2 and _ptsz, and per_thread is 1 with _ptsz or _ptds")

    def test_since(self):
        """cuGetProcAddress hands out the variant that these numbers promise."""
        versions = typedef_versions()
        if not versions:
            self.skipTest("no cudaTypedefs.h beside cuda.h")
        wrong, unknown, text = [], [], "#include <cudaTypedefs.h>\n"
        for hook in self.hooks:
            suffix = parts(hook.symbol).suffix
            declared = versions.get((hook.base, suffix), {})
            if hook.since > self.version or not declared:
                unknown.append(hook.symbol)
            elif hook.since not in declared:
                wrong.append("%s: %d, declared are %s" % (hook.symbol, hook.since, sorted(declared)))
            elif hook.symbol in self.declared:
                name = declared[hook.since]
                text += same(name, "__typeof__(&%s)" % hook.symbol, "%s is not of type %s" % (hook.symbol, name))
        print("versions not compared, newer than these headers (%d) or without a type in cudaTypedefs.h: %s"
              % (self.version, ", ".join(unknown) or "none"))
        self.assertEqual(wrong, [], "since in functions.def is not a version of cudaTypedefs.h")
        self.assert_compiles(text, "since in functions.def is that of another variant:")

    def test_variants_are_in_order(self):
        """_v2 is newer than the variant without number: two of the same type cannot be told apart otherwise."""
        variants = {}
        for hook in self.hooks:
            name = parts(hook.symbol)
            variants.setdefault((name.base, name.suffix), []).append((name.variant, hook.since))
        wrong = {key: found for key, found in variants.items()
                 if [since for _, since in sorted(found)] != sorted({since for _, since in found})}
        self.assertEqual(wrong, {})

    def test_classes_can_be_included(self):
        text = ("enum {\n#define KIND(kind, modes, effect) KIND_##kind,\n#include \"%s\"\n};\n"
                "enum {\n#define CLASS(symbol, since, kind) CLASS_##symbol = (since) + 0 * KIND_##kind,\n"
                "#include \"%s\"\n};\n" % (CLASSES_DEF, CLASSES_DEF))
        self.assert_compiles(text, CLASSES_DEF)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
