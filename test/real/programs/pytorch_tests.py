"""PyTorch's own tests in C++, as Debian builds them. Those whose judgement needs what a kernel computes are left out."""

from program import Case, Program
from programs import pytorch

# By program, what is left out of it
TESTS = {
    "cuda_allocatorTraceTracker_test": "",
    "cuda_allocator_test": "AllocatorTestCUDA.test_clone",
    "cuda_apply_test": "",
    "cuda_caching_host_allocator_test": "CachingHostAllocatorTest.check_empty_cache",  # fails alone, too
    "cuda_complex_math_test": "",
    "cuda_complex_test": "",
    "cuda_cub_test": "InclusiveScanSplit.*:ExclusiveScanSplit.*",
    "cuda_cudnn_test": "",
    "cuda_device_test": "",
    "cuda_distributions_test": "RandomPermutationTest.TestIslandShuffle",
    "cuda_generator_test": "",
    "cuda_half_test": "",
    "cuda_optional_test": "",
    "cuda_reportMemoryUsage_test": "",
    "cuda_stream_test": "",
    "cuda_vectorized_test": "TestVectorizedMemoryAccess.CopyKernel",
    "c10_cuda_CUDATest": "",
    "atest": "",
    "basic": "BasicTest.BasicTestCUDA",
    "native_test": "TestNative.NativeTestGPU",
    "reportMemoryUsage_test": "",
    "scalar_tensor_test": "TestScalarTensor.TestScalarTensorCUDA",
    "tensor_iterator_test": "",
}
TIMES = [(r" \(\d+ ms( total)?\)", ""), (r"^ +\d+ ms$", ""), (r"^\[W[\d .:]+", "[W "),
         (r"^(throw: call|Didn't throw, call).*\n", "")]  # of threads, whichever comes first

PROGRAM = Program(
    title="PyTorch, tests in C++",
    version=pytorch.PROGRAM.version,
    packages=pytorch.PROGRAM.packages,
    unpacked=pytorch.PROGRAM.unpacked + ["libtorch-cuda-test"],
    prepare=pytorch.prepare,
    environment=pytorch.PROGRAM.environment,
    cases=[Case(name, ["/usr/lib/libtorch-cuda-test/" + name] + (["--gtest_filter=-" + left_out] if left_out else []),
                normalize=TIMES) for name, left_out in TESTS.items()],
    note="without what needs a kernel's result: all of cuda_atomic_ops_test, cuda_dlconvertor_test, cuda_integer_divider_test and "
         "cuda_packedtensoraccessor_test, single tests of eight others",
)
