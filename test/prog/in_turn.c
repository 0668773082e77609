/*
 * in_turn CONTEXTS ROUNDS: goes through its contexts in turn. In each it allocates, looks whose memory that
 * is, waits, and frees.
 */
#include "calls.h"

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#define MOST 64

static void visit(CUcontext context)
{
  CUdeviceptr memory;
  CUcontext owner = NULL;

  CALL(cuCtxSetCurrent(context));
  CALL(cuMemAlloc_v2(&memory, 1 << 20));
  CALL(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, memory));
  if (owner != context)
    printf("memory of another context\n");
  CALL(cuCtxSynchronize());
  CALL(cuMemFree_v2(memory));
}

int main(int argc, char **argv)
{
  CUcontext contexts[MOST];
  int count = argc == 3 ? atoi(argv[1]) : 0;
  int rounds = argc == 3 ? atoi(argv[2]) : 0;

  if (count < 1 || count > MOST)
    return 2;
  CALL(cuInit(0));
  for (int i = 0; i < count; i++)
    CALL(cuCtxCreate_v2(&contexts[i], 0, 0));
  for (int i = 0; i < count * rounds; i++)
    visit(contexts[i % count]);
  return 0;
}
