// G22: memory of cuMemAlloc that cuMemFreeAsync frees. When is it free again, by cuMemGetInfo and for a cuMemAlloc
// on a full device, in the same and in another context; which call pays; does a trim beside a kernel wait. cuda.h
// says that cuMemFreeAsync frees "memory", and does not name the kinds.
#include "../common/streams.h"

static cudaStream_t freed_in, busy;
static size_t large;

static size_t available()
{
  size_t bytes, total;
  CHECK_CU(DRIVER(cuMemGetInfo)(&bytes, &total));
  return bytes;
}

static CUdeviceptr take(size_t bytes)
{
  CUdeviceptr p = 0;
  return DRIVER(cuMemAlloc)(&p, bytes) == CUDA_SUCCESS ? p : 0;
}

// After each of the steps: whether as much is free as before the allocation.
static void ask_when(const std::string &name, bool beside)
{
  Gate gate;
  size_t before = available();
  CUdeviceptr p = take(large);
  CHECK(cudaDeviceSynchronize());
  if (beside) {
    gate.close();
    CHECK(gate.launch(busy));
  }
  auto is_free = [&](const char *when) { report_bool(name + ": free after " + when, available() + (1u << 20) >= before); };
  auto step = [&](const char *what, CUresult result, double began) {
    report_number(name + ": " + what, (now_ns() - began) / 1e3, "us");
    if (result != CUDA_SUCCESS)
      report_text(name + ": " + what + " said", driver_error(result));
  };
  double began = now_ns();
  step("cuMemFreeAsync", DRIVER(cuMemFreeAsync)(p, freed_in), began);
  is_free("cuMemFreeAsync");
  began = now_ns();
  step("cuStreamSynchronize of its stream", DRIVER(cuStreamSynchronize)(freed_in), began);
  is_free("a synchronization of its stream");
  began = now_ns();
  p = take(1u << 20);
  step("the next cuMemAlloc", p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY, began);
  if (beside)
    report_bool(name + ": none of these waited", !gate.has_expired());
  gate.open();
  CHECK(cudaDeviceSynchronize());
  is_free("a synchronization of the device, less what was taken since");
  CHECK_CU(DRIVER(cuMemFree)(p));
}

// The device is full, a part is freed in the order of an idle stream, and as much is asked for, beside a kernel.
static void ask_full(const std::string &name, CUcontext by, bool from_pool)
{
  Gate gate;
  std::vector<CUdeviceptr> blocks;
  CUcontext own = current_context();
  CUdeviceptr p = 0;
  if (from_pool)
    CHECK(cudaMallocAsync((void **)&p, large, freed_in));
  else
    p = take(large);
  CHECK(cudaDeviceSynchronize());
  for (size_t bytes = large; bytes >= (16u << 20); bytes /= 2)
    while (CUdeviceptr block = take(bytes))
      blocks.push_back(block);
  gate.close();
  CHECK(gate.launch(busy));
  CHECK_CU(DRIVER(cuMemFreeAsync)(p, freed_in));
  CHECK(cudaStreamSynchronize(freed_in));
  if (by)
    CHECK_CU(DRIVER(cuCtxSetCurrent)(by));
  CUdeviceptr next = 0;
  Outcome outcome = call_against(gate, [&] {
    if (by)
      CHECK_CU(DRIVER(cuCtxSetCurrent)(by));
    next = take(large);
  });
  report_bool(name + ": cuMemAlloc on a full device gets it", next != 0);
  report_bool(name + ": and waits for the kernel", outcome.waited);
  if (next)
    CHECK_CU(DRIVER(cuMemFree)(next));
  CHECK_CU(DRIVER(cuCtxSetCurrent)(own));
  CHECK(cudaDeviceSynchronize());
  for (CUdeviceptr block : blocks)
    CHECK_CU(DRIVER(cuMemFree)(block));
}

static void ask_trim()
{
  Gate gate;
  void *p;
  cudaMemPool_t pool;
  CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
  CHECK(cudaMallocAsync(&p, large, freed_in));
  CHECK(cudaDeviceSynchronize());
  gate.close();
  CHECK(gate.launch(busy));
  CHECK(cudaFreeAsync(p, freed_in));
  CHECK(cudaStreamSynchronize(freed_in));
  Outcome outcome = call_against(gate, [&] { CHECK(cudaMemPoolTrimTo(pool, 0)); });
  report_assumed("cuMemPoolTrimTo waits for a kernel of another stream", outcome.waited, false,
      "then memory of the pool cannot be had beside a kernel");
  CHECK(cudaDeviceSynchronize());
}

int main()
{
  start("free_in_order", 60);
  CHECK(cudaStreamCreateWithFlags(&freed_in, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&busy, cudaStreamNonBlocking));
  large = available() / 8 & ~((size_t(2) << 20) - 1);
  ask_when("idle", false);
  ask_when("beside a kernel", true);
  StreamKind other = foreign_stream();
  ask_full("same context", NULL, false);
  if (other.context)
    ask_full("another context", other.context, false);
  ask_full("memory of the pool", NULL, true);
  ask_trim();
  return report_finish();
}
