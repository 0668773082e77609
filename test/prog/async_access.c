/*
 * Who may use memory of cudaMallocAsync: contexts of its device, and devices that its pool gives access to.
 * The memory outlives the context in whose stream it was asked for. Each case has a kernel that uses the
 * memory; the simulated driver reports one that has no access. Prints nothing but failed calls.
 *
 * async_access CASE
 */
#include "calls.h"

#include <cuda.h>

#define BYTES ((size_t)4 << 20)

static CUcontext contexts[2]; /* the primary ones of two devices */
static CUstream streams[2];
static CUdeviceptr memory;

static CUcontext create_context(void)
{
  CUcontext context;
#if CUDA_VERSION >= 13000
  CALL(cuCtxCreate(&context, NULL, 0, 0));
#else
  CALL(cuCtxCreate(&context, 0, 0));
#endif
  return context;
}

static void take(CUstream stream)
{
  CALL(cuMemAllocAsync(&memory, BYTES, stream));
  CALL(cuStreamSynchronize(stream));
}

/* By a kernel in the default stream of a context. */
static void use_in(CUcontext context)
{
  CUmodule module;
  CUfunction fill;
  size_t words = BYTES / sizeof(uint64_t);
  uint64_t value = 7;
  void *params[] = {&memory, &words, &value};

  CALL(cuCtxSetCurrent(context));
  CALL(cuModuleLoadData(&module, "simcuda"));
  CALL(cuModuleGetFunction(&fill, module, "simcuda_fill"));
  CALL(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
  CALL(cuCtxSynchronize());
}

static void give(void)
{
  CALL(cuCtxSetCurrent(contexts[0]));
  CALL(cuMemFreeAsync(memory, streams[0]));
  CALL(cuStreamSynchronize(streams[0]));
}

static void let_peer(void)
{
  CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1},
      .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUmemoryPool pool;

  CALL(cuDeviceGetDefaultMemPool(&pool, 0));
  CALL(cuMemPoolSetAccess(pool, &access, 1));
}

static void peer_without(void)
{
  take(streams[0]);
  use_in(contexts[1]);
  give();
}

static void peer_before(void)
{
  let_peer();
  peer_without();
}

static void peer_after(void)
{
  take(streams[0]);
  let_peer();
  use_in(contexts[1]);
  give();
}

/* Of memory that was freed before, too. */
static void peer_again(void)
{
  take(streams[0]);
  give();
  peer_after();
  peer_without();
}

static void another_context(void)
{
  CUcontext other = create_context();

  CALL(cuCtxSetCurrent(contexts[0]));
  take(streams[0]);
  use_in(other);
  give();
}

static void an_earlier_context(void)
{
  take(streams[0]);
  use_in(create_context());
  give();
}

static void ended(void)
{
  CUcontext other = create_context();
  CUstream stream;

  CALL(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  take(stream);
  CALL(cuCtxDestroy(other));
  use_in(contexts[0]);
  give();
}

static const prog_case_t cases[] = {CASE(peer_before), CASE(peer_after), CASE(peer_again), CASE(peer_without),
    CASE(another_context), CASE(an_earlier_context), CASE(ended)};

int main(int argc, char **argv)
{
  size_t chosen = CASE_OF(argc > 1 ? argv[1] : NULL, cases);

  CALL(cuInit(0));
  for (int device = 0; device < 2; device++) {
    CALL(cuDevicePrimaryCtxRetain(&contexts[device], device));
    CALL(cuCtxSetCurrent(contexts[device]));
    CALL(cuStreamCreate(&streams[device], CU_STREAM_NON_BLOCKING));
  }
  CALL(cuCtxSetCurrent(contexts[0]));
  cases[chosen].run();
  return 0;
}
