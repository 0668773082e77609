"""work.def against the toolkit's headers: where each function has its stream."""

import re
import subprocess
import sys
import unittest

from tables import INCLUDE, WORK_DEF, classes, came_by, cuda_version, parts, works

COMPILER = sys.argv[1:] or ["cc"]
KINDS = {"WORK_STREAM", "WORK_DEFAULT"}
REGISTERS = 6  # arguments that are passed in registers (System V ABI, AMD64); later ones are on the stack


def declarations():
    """symbol -> [type and name of each parameter]"""
    done = subprocess.run(COMPILER + ["-isystem", INCLUDE, "-x", "c", "-E", "-P", "-"], check=True,
                          input="#define __CUDA_API_VERSION_INTERNAL\n#include <cuda.h>\n",
                          stdout=subprocess.PIPE, universal_newlines=True).stdout
    found = re.findall(r"\bCUresult (cu[A-Z]\w*) ?\(((?:[^()]|\([^()]*\))*)\) ?;", " ".join(done.split()))
    return {symbol: [parameter.strip() for parameter in parameters.split(",")] for symbol, parameters in found}


class WorkTable(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.works = works()
        self.classes = {entry.symbol: entry for entry in classes()}

    def test_each_class_of_work_is_there(self):
        wanted = [entry.symbol for entry in self.classes.values() if entry.kind in KINDS]
        self.assertEqual([work.symbol for work in self.works], wanted, "the order is that of classes.def, too")
        self.assertEqual([work.symbol for work in self.works if work.since != self.classes[work.symbol].since], [])

    def test_names(self):
        wrong = [work.symbol for work in self.works if parts(work.symbol).base != work.base
                 or bool(parts(work.symbol).suffix) != work.per_thread]
        self.assertEqual(wrong, [])

    def test_where_the_stream_is(self):
        declared = declarations()
        wrong = []
        for work in self.works:
            if work.symbol not in declared:
                if came_by(work.since, cuda_version()):
                    wrong.append("%s: not declared" % work.symbol)
                continue
            parameters = declared[work.symbol]
            places = [number for number, parameter in enumerate(parameters, 1)
                      if re.match(r"CUstream\b(?! ?\*)", parameter)]
            if places:
                expected = "ARGUMENT_%d" % places[0]
            elif "CUDA_LAUNCH_PARAMS" in parameters[0]:
                expected = "MANY"
            else:
                expected = "DEFAULT"
            if len(places) > 1 or work.where != expected:
                wrong.append("%s: %s, in the header %s" % (work.symbol, work.where, ", ".join(parameters)))
            # Structures by value take a register each only up to 8 bytes, and floating point takes none.
            for parameter in parameters:
                if re.match(r"(float|double|CU\w*(Location|_st|DESC))\b(?! ?\*)", parameter) \
                        and not parameter.startswith("CUmemLocation"):
                    wrong.append("%s: how is %s passed?" % (work.symbol, parameter))
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
