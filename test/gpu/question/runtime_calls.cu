// G3: which driver calls does the runtime make for its own calls, and does gpupool see them? Run under the
// call trace, with the shared and with the static runtime.
#include "../common/calls.h"

#include <functional>

static void *p;
static cudaStream_t stream;
static cudaEvent_t event;

static std::string ask(const char *name, std::function<cudaError_t()> call)
{
  (void)take_calls();
  cudaError_t error = call();
  std::string calls = take_calls();
  if (error != cudaSuccess)
    calls += std::string(calls.empty() ? "" : "; ") + "it answers " + cudaGetErrorName(error);
  report_text(name, calls.empty() ? "none seen" : calls);
  return calls;
}

static void expect(const std::string &calls, const char *name, const char *prefix, const char *matters)
{
  report_assumed(std::string(name) + " is seen as " + prefix, count_calls(calls, prefix) > 0, true, matters);
}

int main()
{
  report_program = "runtime_calls";
  alarm(30);
  (void)take_calls();
  int count = 0;
  CHECK(cudaGetDeviceCount(&count));
  std::string calls;

  ask("cudaSetDevice, the first", [] { return cudaSetDevice(0); });
  calls = ask("cudaMalloc, the first", [] { return cudaMalloc(&p, 4096); });
  ask("cudaFree", [] { return cudaFree(p); });
  calls = ask("cudaMalloc of 1 MiB", [] { return cudaMalloc(&p, 1u << 20); });
  expect(calls, "cudaMalloc", "cuMemAlloc_v2", "gpupool pools what comes by this call");
  calls = ask("cudaMemset", [] { return cudaMemset(p, 0, 4096); });
  calls = ask("cudaFree of 1 MiB", [] { return cudaFree(p); });
  expect(calls, "cudaFree", "cuMemFree_v2", "gpupool gets blocks back by this call");
  ask("cudaFree(NULL)", [] { return cudaFree(NULL); });
  calls = ask("cudaDeviceSynchronize", [] { return cudaDeviceSynchronize(); });
  expect(calls, "cudaDeviceSynchronize", "cuCtxSynchronize", "the fact by which freed memory is used again");
  ask("cudaStreamSynchronize(0)", [] { return cudaStreamSynchronize(0); });
  ask("cudaStreamSynchronize(per-thread)", [] { return cudaStreamSynchronize(cudaStreamPerThread); });
  calls = ask(
      "cudaStreamCreateWithFlags", [] { return cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking); });
  expect(calls, "cudaStreamCreate", "cuStreamCreate", "facts about single streams need to see every stream");
  ask("cudaEventCreate", [] { return cudaEventCreateWithFlags(&event, cudaEventDisableTiming); });
  ask("cudaEventRecord", [] { return cudaEventRecord(event, stream); });
  calls = ask("cudaEventSynchronize", [] { return cudaEventSynchronize(event); });
  expect(calls, "cudaEventSynchronize", "cuEventSynchronize", "facts about single streams need to see it");
  ask("cudaStreamQuery", [] { return cudaStreamQuery(stream); });
  size_t pitch, available, total;
  ask("cudaMallocPitch", [&] { return cudaMallocPitch(&p, &pitch, 100, 100); });
  ask("cudaFree of cudaMallocPitch memory", [] { return cudaFree(p); });
  cudaPitchedPtr pitched = {};
  ask("cudaMalloc3D", [&] { return cudaMalloc3D(&pitched, make_cudaExtent(64, 8, 8)); });
  ask("cudaFree of cudaMalloc3D memory", [&] { return cudaFree(pitched.ptr); });
  ask("cudaMallocManaged", [] { return cudaMallocManaged(&p, 4096); });
  ask("cudaFree of managed memory", [] { return cudaFree(p); });
  calls = ask("cudaMallocAsync", [] { return cudaMallocAsync(&p, 4096, stream); });
  expect(calls, "cudaMallocAsync", "cuMemAllocAsync", "gpupool counts what comes by this call");
  ask("cudaFreeAsync", [] { return cudaFreeAsync(p, stream); });
  ask("cudaMallocHost", [] { return cudaMallocHost(&p, 4096); });
  ask("cudaFreeHost", [] { return cudaFreeHost(p); });
  calls = ask("cudaMemGetInfo", [&] { return cudaMemGetInfo(&available, &total); });
  expect(calls, "cudaMemGetInfo", "cuMemGetInfo_v2", "gpupool adds what it keeps to the free memory");
  ask("cudaStreamDestroy", [] { return cudaStreamDestroy(stream); });
  ask("cudaMalloc before the reset", [] { return cudaMalloc(&p, 4096); });
  calls = ask("cudaDeviceReset", [] { return cudaDeviceReset(); });
  report_assumed("cudaDeviceReset is seen",
      count_calls(calls, "cuDevicePrimaryCtxReset") + count_calls(calls, "cuDevicePrimaryCtxRelease") > 0,
      true, "else blocks of a context that is gone have to be found out by its id");
  ask("cudaMalloc after the reset", [] { return cudaMalloc(&p, 4096); });
  ask("cudaFree after the reset", [] { return cudaFree(p); });
  return report_finish();
}
