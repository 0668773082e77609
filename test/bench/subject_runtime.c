/*
 * What the simulated CUDA runtime and driver cost by themselves: the runtime's allocation and free lead to an
 * allocator that does nothing. The preloaded pair is reported less this. With BENCH_CONTEXT_CALLS=N each
 * allocation also asks the driver N times for the current context and for an id, as the library does in a
 * pair, once each.
 */
#include <stdlib.h>

#include "subject.h"
#include "test/sim/rt.h"

const uint32_t subject_largest = 8u << 20;

static _Thread_local uint64_t next_address = UINT64_C(0x100000000000);
static int context_calls;
static CUresult (*get_id)(CUcontext context, unsigned long long *id);

static CUresult null_alloc(CUdeviceptr *ret_address, size_t bytes)
{
  for (int i = 0; i < context_calls; i++) {
    CUcontext context;
    unsigned long long id;
    if (rt_driver.cuCtxGetCurrent(&context) != CUDA_SUCCESS || get_id(context, &id) != CUDA_SUCCESS)
      abort();
  }
  *ret_address = next_address;
  next_address += (bytes + 511) / 512 * 512;
  return CUDA_SUCCESS;
}

static CUresult null_free(CUdeviceptr address)
{
  (void)address;
  return CUDA_SUCCESS;
}

void subject_start(bool is_counted)
{
  const char *calls = getenv("BENCH_CONTEXT_CALLS");
  void *found = NULL;

  (void)is_counted;
  if (cudaFree(NULL) != cudaSuccess || cudaGetDriverEntryPoint("cuCtxGetId", &found, 0, NULL) != cudaSuccess)
    abort();
  get_id = (CUresult(*)(CUcontext, unsigned long long *))found;
  context_calls = calls ? atoi(calls) : 0;
  rt_driver.cuMemAlloc = null_alloc;
  rt_driver.cuMemFree = null_free;
}
