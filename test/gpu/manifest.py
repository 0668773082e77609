"""What the hardware check consists of: one table of programs and one of checks.

The build, the list, the runner and the report all come from here. To add a question: write the program, add a line to
PROGRAMS and one to CHECKS.
"""

from collections import namedtuple

#
# Programs that nvcc builds. static: with the runtime inside, else libcudart.so. per_thread: compiled for per-thread
# default streams. needs: libraries of the toolkit, without which the program is left out. define: macros.
#
Program = namedtuple("Program", "source static per_thread needs define")


def program(source, static=False, per_thread=False, needs=(), define=()):
    return Program(source, static, per_thread, needs, define)


PROGRAMS = {
    "coverage": program("question/coverage.cu"),
    "waits": program("question/waits.cu"),
    "entry_points": program("question/entry_points.cu"),
    "capture_matrix": program("question/capture_matrix.cu"),
    "costs": program("question/costs.cu"),
    "layout": program("question/layout.cu"),
    "operations": program("question/operations.cu"),
    "pages": program("question/pages.cu"),
    "kinds": program("question/kinds.cu"),
    "calls": program("question/calls.cu"),
    "runtime_pairs": program("question/runtime_pairs.cu"),
    "pdl": program("question/pdl.cu"),
    "mixed_free": program("question/mixed_free.cu"),
    "pool_order": program("question/pool_order.cu"),
    "free_in_order": program("question/free_in_order.cu"),
    "wait_only": program("question/wait_only.cu"),
    "pool_holds": program("question/pool_holds.cu"),
    "lives_on": program("question/lives_on.cu"),
    "beside": program("question/beside.cu"),
    "overrun": program("question/overrun.cu", static=True),
    "runtime_calls": program("question/runtime_calls.cu"),
    "runtime_calls-static": program("question/runtime_calls.cu", static=True),
    "streams-runtime": program("question/library_streams.cu"),
    "streams-cublas": program("question/library_streams.cu", needs=("cublas",), define=("USE_CUBLAS",)),
    "streams-cublaslt": program("question/library_streams.cu", needs=("cublasLt",), define=("USE_CUBLASLT",)),
    "streams-cudnn": program("question/library_streams.cu", needs=("cudnn",), define=("USE_CUDNN",)),
    "streams-cufft": program("question/library_streams.cu", needs=("cufft",), define=("USE_CUFFT",)),
    "streams-cusparse": program("question/library_streams.cu", needs=("cusparse",), define=("USE_CUSPARSE",)),
    "streams-nccl": program("question/library_streams.cu", needs=("nccl",), define=("USE_NCCL",)),
    "pooled": program("preload/pooled.cu"),
    "pooled-static": program("preload/pooled.cu", static=True),
    "pooled-per-thread": program("preload/pooled.cu", per_thread=True),
    "pooled-static-per-thread": program("preload/pooled.cu", static=True, per_thread=True),
    "full": program("preload/full.cu"),
    "graphs": program("preload/graphs.cu"),
    "graphs-per-thread": program("preload/graphs.cu", per_thread=True),
    "ipc": program("preload/ipc.cu"),
    "reset": program("preload/reset.cu"),
    "reset-static": program("preload/reset.cu", static=True),
    "integrity": program("integrity/integrity.cu"),
    "integrity-static-per-thread": program("integrity/integrity.cu", static=True, per_thread=True),
    "thrust": program("real/thrust.cu", static=True),
    "solver": program("real/solver.cu", static=True),
    "launches": program("real/launches.cu"),
    "blas_fft": program("real/blas_fft.cu", static=True, needs=("cublas", "cufft")),
}

#
# Checks. program: a name of PROGRAMS, "prog:NAME" of test/prog, or "python:FILE". runs: how it is run, one after the
# other. judge: a function of judge.py, and expect: what the statistics of the device in the exit snapshot must satisfy
# (of each run under the pool). limit: seconds for one run. sim: also run on the simulated GPU, with sim_args in place
# of args where they are given. rounds: how many --programs makes at least, where the usual three cannot tell.
#
# In args {programs}/NAME is a program of PROGRAMS, {pool} the library, and {workloads} the folder of recorded programs.
#
Check = namedtuple("Check", "name part shows program args runs judge expect limit sim sim_args rounds")


def built_by_nvcc(check):
    """Names of PROGRAMS that the check needs."""
    names = [check.program] if ":" not in check.program else []
    return names + [arg[len("{programs}/"):] for arg in check.args if arg.startswith("{programs}/")]


# under: driver (no preload), pool, unsafe (a pool without its reuse rules), trace (the call trace). settings: the
# environment; a name without a prefix is a GPUPOOL_ variable. label: what a comparison calls it, where that is no type.
Run = namedtuple("Run", "under settings label")


def run(under, label="", **settings):
    return Run(under, settings, label)


PARTS = {
    "question": "What only hardware can tell",
    "preload": "Programs under the pool",
    "integrity": "Data integrity",
    "real": "Real programs, with and without the pool",
}

DRIVER = (run("driver"),)
TRACE = (run("trace"),)
POOL = (run("pool"),)
BOTH = (run("driver"), run("pool"))
# The driver; the pool with each type, whose snapshot says what it kept; and what the driver would have held, as recorded.
COMPARE = (run("driver"), run("pool"), run("pool", TYPE="segment"), run("pool", TYPE="vmm"),
           run("pool", TYPE="unpooled"))
RECORDED = (run("driver"), run("pool", TYPE="unpooled"))
PLUGGED = {"env:GPU_CHECK_ALLOCATOR": "gpupool"}
VARYING = (run("driver"), run("driver", "expandable segments", **{"env:PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}),
           run("pool", **PLUGGED), run("pool", TYPE="segment", **PLUGGED), run("pool", TYPE="vmm", **PLUGGED),
           run("pool", TYPE="unpooled"))
REUSED = (("cache_hits", ">", 0), ("allocation.current", "==", 0))
EMPTY = (("allocation.current", "==", 0),)


def check(name, part, shows, program, args=(), runs=DRIVER, judge="facts", expect=(), limit=60, sim=False,
          sim_args=None, rounds=0):
    return Check(name, part, shows, program, args, runs, judge, expect, limit, sim, sim_args, rounds)


def question(name, shows, program, **more):
    return check(name, "question", shows, program, **more)


def replay(name, shows, *args, runs=POOL, trace="llm-inference-growing-cache", **more):
    command = ("{workloads}/%s.csv" % trace, "--check", "--strict") + args
    return check(name, "preload", shows, "prog:replay", args=command, runs=runs, judge="passes", expect=EMPTY, **more)


def same(name, shows, *args):
    return check(name, "preload", shows, "prog:" + name, args=args, runs=BOTH, judge="same", sim=True)


def integrity(name, shows, program="integrity", judge="clean", args=(), **settings):
    unsafe = settings.pop("unsafe", False)
    return check(name, "integrity", shows, program, args=("--seconds", "3") + args,
                 runs=(run("unsafe" if unsafe else "pool", **settings),), judge=judge, limit=40,
                 sim="static" not in program, sim_args=("--rounds", "60") + args)


def real(name, shows, program, args, settings=None, runs=COMPARE, **more):
    runs = tuple(r._replace(settings=dict(settings or {}, **r.settings)) for r in runs)
    return check(name, "real", shows, program, args=args, runs=runs, judge="equal", limit=100, **more)


TORCH = {"env:PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
JAX = {"env:XLA_PYTHON_CLIENT_ALLOCATOR": "platform", "env:XLA_PYTHON_CLIENT_PREALLOCATE": "false"}

CHECKS = [
    question("G1-coverage", "does cuCtxRecordEvent wait for work in every kind of stream", "coverage", sim=True),
    question("G1-G7-G9-costs", "what calls cost: fences, queries, cuMemAlloc and cuMemFree by size, cuMemAllocAsync",
             "costs", sim=True),
    question("G9-costs-pooled", "what cudaMalloc and cudaFree cost under the pool", "costs", runs=POOL, sim=True),
    question("G2-entry-points", "are the pointers of cuGetProcAddress the exports", "entry_points", sim=True),
    question("G3-runtime-calls", "which driver calls the shared runtime makes", "runtime_calls", runs=TRACE, sim=True),
    question("G3-runtime-calls-static", "which driver calls the static runtime makes", "runtime_calls-static",
             runs=TRACE),
    question("G4-waits-free", "which calls that allocate and free wait, and for whom", "waits", args=("free",),
             sim=True),
    question("G5-waits-sync", "which work synchronizing calls cover", "waits", args=("sync",), sim=True),
    question("G6-capture", "which calls end a capture", "capture_matrix", sim=True),
    question("G8-layout", "granularity, alignment and address ranges", "layout", sim=True),
    question("G10-pdl", "reuse behind programmatic dependent launches", "pdl", sim=True),
    question("G11-streams-runtime", "control: the call trace sees the runtime's streams", "streams-runtime",
             runs=TRACE, sim=True),
    question("G11-streams-cublas", "streams that cuBLAS creates by itself", "streams-cublas", runs=TRACE),
    question("G11-streams-cublaslt", "streams that cuBLASLt creates by itself", "streams-cublaslt", runs=TRACE),
    question("G11-streams-cudnn", "streams that cuDNN creates by itself", "streams-cudnn", runs=TRACE),
    question("G11-streams-cufft", "streams that cuFFT creates by itself", "streams-cufft", runs=TRACE),
    question("G11-streams-cusparse", "streams that cuSPARSE creates by itself", "streams-cusparse", runs=TRACE),
    question("G11-streams-nccl", "streams that NCCL creates by itself", "streams-nccl", runs=TRACE),
    question("G12-mixed-free", "memory of one kind freed by the call for another", "mixed_free", sim=True),
    question("G12-mixed-free-pooled", "the same under the pool: nothing differs", "mixed_free", runs=BOTH,
             judge="same_facts", sim=True),

    question("G13-beside", "which calls wait for a kernel that runs, and what they cost beside it", "beside", limit=120,
             runs=(run("driver", **{"env:SIMCUDA_DEVICES": "2"}),), sim=True),
    question("G14-G15-G16-operations", "what giving back, mapping, fences and the current context cost", "operations",
             limit=100, sim=True),
    question("G17-G18-pages", "small allocations in a 2 MiB page, ranges of rounded sizes", "pages", sim=True),

    question("G19-calls", "what the library adds to calls, each run twice", "calls", limit=60,
             runs=(run("driver"), run("pool"), run("driver"), run("pool"), run("pool", TRACE="off"),
                   run("pool", TYPE="segment")), sim=True),

    question("G20-pool-order", "whether operations of the driver's pool order streams, and what cudaMallocAsync costs with the pool",
             "pool_order", runs=BOTH, sim=True),

    question("G21-runtime-pairs", "what a pair costs that does not go through the runtime, and what a program sees of it",
             "runtime_pairs", limit=60,
             runs=(run("driver"), run("pool", RUNTIME_HOOKS="0"), run("pool", RUNTIME_HOOKS="1"),
                   run("pool", RUNTIME_HOOKS="0", STACKS="off"), run("pool", RUNTIME_HOOKS="1", STACKS="off")), sim=True),

    question("G22-free-in-order", "when memory of cuMemAlloc is free again that cuMemFreeAsync frees", "free_in_order",
             limit=100, sim=True),
    question("G23-wait-only", "whether facts cover a stream that holds nothing but a wait", "wait_only", sim=True),
    question("G24-kinds", "what each kind of memory takes from the device", "kinds", sim=True),

    question("G26-pool-holds", "how much more the driver's own pool holds than it has handed out", "pool_holds", sim=True),
    question("G28-lives-on", "which memory the device has not back although the program has given it up", "lives_on", sim=True),
    question("G25-tools", "what NVIDIA's tools find in a program, without the library and with it", "python:nvidia_tools.py",
             args=("{programs}/overrun", "{pool}"), limit=150),

    check("pooled", "preload", "threads and streams, shared runtime", "pooled", runs=BOTH, judge="counted",
          expect=REUSED, sim=True, sim_args=("2", "8")),
    check("pooled-static", "preload", "the same, static runtime", "pooled-static", runs=POOL, judge="counted",
          expect=REUSED),
    check("pooled-per-thread", "preload", "the same, per-thread default streams", "pooled-per-thread", runs=POOL,
          judge="counted", expect=REUSED, sim=True, sim_args=("2", "8")),
    check("pooled-static-per-thread", "preload", "the same, both", "pooled-static-per-thread", runs=POOL,
          judge="counted", expect=REUSED),
    check("pooled-strict", "preload", "the same, GPUPOOL_REUSE=strict", "pooled", judge="counted",
          runs=(run("pool", REUSE="strict"),), expect=REUSED, sim=True, sim_args=("2", "8")),
    check("pooled-naive", "preload", "the same, GPUPOOL_TYPE=naive", "pooled", judge="counted",
          runs=(run("pool", TYPE="naive"),), expect=REUSED, sim=True, sim_args=("2", "8")),
    check("pooled-segment", "preload", "the same, GPUPOOL_TYPE=segment", "pooled", judge="counted",
          runs=(run("pool", TYPE="segment"),), expect=REUSED, sim=True, sim_args=("2", "8")),
    check("pooled-vmm", "preload", "the same, GPUPOOL_TYPE=vmm", "pooled", judge="counted",
          runs=(run("pool", TYPE="vmm"),), expect=REUSED, sim=True, sim_args=("2", "8")),
    check("pooled-unpooled", "preload", "the same, GPUPOOL_TYPE=unpooled: recorded only", "pooled", judge="counted",
          runs=(run("pool", TYPE="unpooled"),), expect=EMPTY + (("cache_hits", "==", 0),), sim=True,
          sim_args=("2", "8")),
    check("full", "preload", "the device is full: what is cached goes back to the driver", "full", runs=BOTH,
          judge="full", expect=EMPTY + (("num_ooms", ">=", 2),), sim=True),
    check("full-limit", "preload", "the same at GPUPOOL_LIMIT=2GiB", "full", runs=(run("pool", LIMIT="2GiB"),),
          judge="full", expect=EMPTY + (("reserved_bytes.peak", "<=", 2 << 30),), sim=True),
    check("full-segment", "preload", "the same, GPUPOOL_TYPE=segment", "full",
          runs=(run("driver"), run("pool", TYPE="segment")), judge="full", expect=EMPTY + (("num_ooms", ">=", 2),),
          sim=True),
    # Free is what is free as a whole chunk, of 512 MiB here: 78% beside blocks of 2 GiB.
    check("full-vmm", "preload", "the same, GPUPOOL_TYPE=vmm", "full", args=("70",),
          runs=(run("driver"), run("pool", TYPE="vmm")), judge="full", expect=EMPTY + (("num_ooms", ">=", 2),), sim=True),
    check("graphs", "preload", "capture and graphs, with another thread that allocates", "graphs", runs=BOTH,
          judge="clean", expect=EMPTY, sim=True),
    check("graphs-per-thread", "preload", "the same, per-thread default streams", "graphs-per-thread", runs=POOL,
          judge="clean", expect=EMPTY, sim=True),
    check("ipc", "preload", "memory shared with a second process", "ipc", runs=BOTH, judge="clean"),
    check("reset", "preload", "cudaDeviceReset with live and cached blocks", "reset", runs=BOTH, judge="same_facts",
          sim=True),
    check("reset-static", "preload", "the same, static runtime", "reset-static", runs=BOTH, judge="same_facts"),
    replay("replay", "the allocations of an inference, with work on every block", runs=BOTH, sim=True),
    replay("replay-streams", "the same on four streams", "--streams", "4", sim=True),
    replay("replay-threads", "the same by four threads", "--threads", "4", sim=True),
    replay("replay-async", "the same stream-ordered", "--async", "--streams", "3", sim=True),
    replay("replay-driver", "the same through the driver API", "--api", "driver", "--streams", "2", sim=True),
    replay("replay-train", "three steps of a training, 11 GiB", "--repeat", "3", runs=BOTH,
           trace="gpt2-medium-train"),
    replay("replay-train-segment", "the same, GPUPOOL_TYPE=segment", "--repeat", "3",
           runs=(run("pool", TYPE="segment"),), trace="gpt2-medium-train"),
    replay("replay-train-vmm", "the same, GPUPOOL_TYPE=vmm", "--repeat", "3",
           runs=(run("pool", TYPE="vmm"),), trace="gpt2-medium-train"),
    same("errors", "what calls return when they must fail"),
    same("capture", "allocations during a capture"),
    same("contexts", "memory ends with its context"),
    same("fork", "a child after fork"),
    same("driver_linked", "a program linked to the driver"),
    same("two_contexts", "two contexts"),
    same("exits", "the end of a process", "normal"),

    integrity("integrity-unsafe", "control: a pool without its rules is caught", judge="caught", unsafe=True),
    check("integrity-driver", "integrity", "control: the driver alone", "integrity", args=("--seconds", "2"),
          judge="clean", limit=40, sim=True, sim_args=("--rounds", "60")),
    integrity("integrity-auto", "GPUPOOL_REUSE=auto"),
    integrity("integrity-context", "GPUPOOL_REUSE=context", REUSE="context"),
    integrity("integrity-strict", "GPUPOOL_REUSE=strict", REUSE="strict"),
    integrity("integrity-deferred", "hardly any deferred memory: fences and waits all the time", MAX_DEFERRED="1MiB"),
    integrity("integrity-async", "half of the blocks stream-ordered", args=("--async",)),
    integrity("integrity-naive", "GPUPOOL_TYPE=naive", TYPE="naive"),
    integrity("integrity-segment", "GPUPOOL_TYPE=segment", TYPE="segment"),
    integrity("integrity-segment-many", "the same, eight threads of eight streams",
              args=("--threads", "8", "--streams", "8"), TYPE="segment"),
    integrity("integrity-vmm", "GPUPOOL_TYPE=vmm", TYPE="vmm"),
    integrity("integrity-vmm-many", "the same, eight threads of eight streams",
              args=("--threads", "8", "--streams", "8"), TYPE="vmm"),
    integrity("integrity-unpooled", "GPUPOOL_TYPE=unpooled", TYPE="unpooled"),
    integrity("integrity-many", "eight threads of eight streams", args=("--threads", "8", "--streams", "8")),
    integrity("integrity-per-thread", "static runtime, per-thread default streams", "integrity-static-per-thread"),

    real("solver", "a solver that allocates in each iteration", "solver", ()),
    real("thrust", "sort, scan and reduce_by_key", "thrust", ()),
    real("blas_fft", "cuBLAS handles and cuFFT plans anew each time", "blas_fft", ()),
    real("torch-transformer", "PyTorch without its cache: a transformer", "python:torch_train.py",
         ("transformer", "30"), TORCH),
    real("torch-convnet", "PyTorch without its cache: a convolution net", "python:torch_train.py", ("convnet", "30"),
         TORCH),
    real("torch-recorded", "PyTorch with its own cache, recorded only", "python:torch_train.py", ("transformer", "30"),
         runs=RECORDED * 2),
    real("torch-varying", "PyTorch whose batch and length vary: its own cache, and the pool in place of it",
         "python:torch_varying.py", ("40",), runs=VARYING),
    real("torch-async", "PyTorch with backend:cudaMallocAsync", "python:torch_train.py", ("transformer", "30"),
         {"env:PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}),
    real("torch-graphs", "PyTorch with its own cache: a CUDA graph, replayed", "python:torch_graphs.py", ("30",), runs=RECORDED),
    # vmm has no such handles (doc/memory-types.md).
    real("torch-ipc", "torch.multiprocessing: a tensor that another process reads", "python:torch_ipc.py", ("20",),
         runs=tuple(run for run in COMPARE if run.settings.get("TYPE") != "vmm")),
    real("torch-nccl", "NCCL on one device, by torch.distributed", "python:torch_nccl.py", ("20",), TORCH),
    real("cupy", "CuPy without its pool", "python:cupy_arrays.py", ("200",)),
    real("cupy-pool", "CuPy with its own pool, recorded only", "python:cupy_arrays.py", ("200", "pool"), runs=RECORDED),
    real("jax", "JAX with the platform allocator", "python:jax_steps.py", ("40",), JAX),
    real("jax-async", "JAX with cuda_async", "python:jax_steps.py", ("40",),
         dict(JAX, **{"env:XLA_PYTHON_CLIENT_ALLOCATOR": "cuda_async"})),
    real("numba", "Numba's arrays", "python:numba_arrays.py", ("200",)),
    real("triton", "a kernel of Triton on tensors without PyTorch's cache", "python:triton_add.py", ("100",), TORCH),
    real("onnx", "ONNX Runtime", "python:onnx_run.py", ("50",)),
    real("launches", "a program that only launches: what the hooks cost it", "launches", (), runs=(run("driver"), run("pool")),
         sim=True, sim_args=("2000",), rounds=10),
]
