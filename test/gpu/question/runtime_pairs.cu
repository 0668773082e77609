// G21: what a pair of cudaMalloc and cudaFree costs, and what a program can see of the calls that do not go through
// the runtime: run without the library, with all calls through the runtime, and as it is.
#include "../common/measure.h"

#include <thread>

static const size_t BYTES = 4096;

static void *take(size_t bytes)
{
  void *block;
  CHECK(cudaMalloc(&block, bytes));
  return block;
}

// What is freed can be handed out again.
static void warm(size_t bytes)
{
  void *blocks[] = {take(bytes), take(bytes)};
  CHECK(cudaFree(blocks[0]));
  CHECK(cudaFree(blocks[1]));
  CHECK(cudaDeviceSynchronize());
}

static void pairs(size_t bytes)
{
  std::vector<double> samples;
  warm(bytes);
  for (int i = 0; i < 201; i++) {
    double begin = now_ns();
    for (int k = 0; k < 16; k++)
      CHECK(cudaFree(take(bytes)));
    samples.push_back((now_ns() - begin) / 16);
    CHECK(cudaDeviceSynchronize());
  }
  report_samples("a pair of " + size_name(bytes) + ", 16 between synchronizations", samples, "ns");
}

static bool is_of(const void *block, CUcontext context)
{
  CUcontext owner = NULL;
  CHECK_CU(DRIVER(cuPointerGetAttribute)(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, (CUdeviceptr)block));
  return owner == context;
}

static void contexts()
{
  CUcontext primary, own, current = NULL;
  warm(BYTES);
  CHECK_CU(DRIVER(cuCtxGetCurrent)(&primary));
  typedef CUresult (*create_fn)(CUcontext * context, unsigned flags, CUdevice device);
  CHECK_CU(reinterpret_cast<create_fn>(driver_need("cuCtxCreate_v2", __FILE__, __LINE__))(&own, 0, 0));
  warm(BYTES);
  void *block = take(BYTES);
  report_assumed("cudaMalloc uses a context that the program made current", is_of(block, own), true,
      "what is served there would be elsewhere");
  CHECK_CU(DRIVER(cuCtxSetCurrent)(primary));
  void *other = take(BYTES);
  report_assumed("and the primary one after it", is_of(other, primary), true, "the same");
  CHECK(cudaFree(block));
  CHECK(cudaFree(other));
  CHECK_CU(DRIVER(cuCtxSetCurrent)(own));
  CHECK(cudaSetDevice(0));
  CHECK_CU(DRIVER(cuCtxGetCurrent)(&current));
  report_assumed("cudaSetDevice makes the primary context current", current == primary, true,
      "a call of the runtime would choose another context than the driver's current one");
  CHECK_CU(DRIVER(cuCtxDestroy)(own));
}

static void errors()
{
  warm(BYTES);
  bool refused = cudaMalloc(NULL, BYTES) == cudaErrorInvalidValue;
  CHECK(cudaFree(take(BYTES)));
  report_assumed("a pair leaves the last error as it is", refused && cudaGetLastError() == cudaErrorInvalidValue, true,
      "a call that is served does not touch it");
  void *block = take(BYTES);
  CHECK(cudaFree(block));
  report_assumed("a second free is an invalid value, and the last error",
      cudaFree(block) == cudaErrorInvalidValue && cudaGetLastError() == cudaErrorInvalidValue, true,
      "it has to come to the runtime");
}

// In a thread whose context the driver was given, before it calls the runtime.
static void threads()
{
  CUcontext primary;
  bool is_there = false;
  warm(BYTES);
  CHECK_CU(DRIVER(cuCtxGetCurrent)(&primary));
  std::thread([&] {
    CHECK_CU(DRIVER(cuCtxSetCurrent)(primary));
    void *block = take(BYTES);
    is_there = is_of(block, primary);
    CHECK(cudaFree(block));
  }).join();
  report_assumed("a thread that brings its context allocates in it", is_there, true, "what is served is there");
}

int main()
{
  start("runtime_pairs", 60);
  CHECK(cudaFree(0));
  measure_clock();
  for (size_t bytes : {size_t(1024), size_t(1) << 20, size_t(64) << 20})
    pairs(bytes);
  contexts();
  errors();
  threads();
  return report_finish();
}
