"""Numba of Debian: those of its own tests of the driver that launch no kernel, and inside/numba_memory.py."""

from program import Case, Program

# Numba 0.61 calls cuCtxGetDevice_v2 with the parameters of cuCtxGetDevice: no driver of CUDA 13. Before 12.5 the library
# has no types that cut memory.
DRIVER = "12050"
TESTS = """test_array_attr test_context_stack.TestContextStack test_context_stack.TestContextAPI test_cuda_auto_context
    test_cuda_memory test_deallocations test_detect test_emm_plugins test_events test_host_alloc test_pinned
    test_reset_device test_runtime test_select_device""".split()
NORMALIZE = [(r"^Ran (\d+ tests?) in .*", r"Ran \1"), (r"0x[0-9a-f]{6,}", "ADDRESS")]
LIMITS = {"full": "100GiB"}  # it takes all memory of the device


def cases(place):
    environment = {"LD_LIBRARY_PATH": place.driver(DRIVER), "PYTHONHASHSEED": "0"}
    own = [Case("its own %s" % test, ["python3", "-m", "numba.runtests", "-v", "numba.cuda.tests.cudadrv." + test], environment,
                normalize=NORMALIZE) for test in TESTS]
    script = place.home + "/inside/numba_memory.py"
    return own + [Case(case, ["python3", script, case], environment, normalize=NORMALIZE, limit=LIMITS.get(case, "")) for case in
                  ("copies", "streams", "managed", "views", "full", "closed")]


PROGRAM = Program(
    title="Numba",
    version=["python3", "-c", "import numba; print(numba.__version__)"],
    packages=["python3", "python3-numba"],
    cases=cases,
    note="its tests that launch kernels, or wait for a function of the host without a call, are left out",
)
