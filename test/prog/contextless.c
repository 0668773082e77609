/*
 * A thread without a context asks for memory by a call that needs none (cuMemCreate), so much that a pool has
 * to find out whether memory that was freed before is still in use: contextless record|query. The first time
 * it is asked in that thread, or it was asked before in one with a context. Run with a limit of 64 MiB. One
 * block is live at the end.
 */
#include "calls.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#define MIB ((size_t)1 << 20)

static CUresult result;

static void *create(void *unused)
{
  CUmemAllocationProp properties = {
      .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
  CUmemGenericAllocationHandle handle;
  (void)unused;
  result = cuMemCreate(&handle, 32 * MIB, &properties, 0);
  return NULL;
}

int main(int argc, char **argv)
{
  CUcontext context;
  CUdeviceptr live, freed, other;
  pthread_t thread;

  CALL(cuInit(0));
  CALL(cuCtxCreate_v2(&context, 0, 0));
  CALL(cuMemAlloc_v2(&live, 16 * MIB));
  CALL(cuMemAlloc_v2(&freed, 30 * MIB));
  CALL(cuMemsetD8Async(freed, 1, 30 * MIB, NULL));
  CALL(cuMemFree_v2(freed));
  if (argc > 1 && strcmp(argv[1], "query") == 0) {
    CALL(cuMemAlloc_v2(&other, 20 * MIB)); /* too much beside the others: it has to be found out */
    CALL(cuMemFree_v2(other));
  }
  if (pthread_create(&thread, NULL, create, NULL) != 0)
    return 1;
  pthread_join(thread, NULL);
  printf("physical memory: %d\n", (int)result);
  return result != CUDA_SUCCESS;
}
