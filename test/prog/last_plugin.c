/*
 * A library of last.c: what it allocates it frees when it ends.
 */
#include <cuda.h>

static CUdeviceptr pointer;

__attribute__((visibility("default"))) int last_allocate(void);
__attribute__((visibility("default"))) void (*last_at_end)(void);

int last_allocate(void)
{
  return cuMemAlloc(&pointer, (size_t)3 << 20) != CUDA_SUCCESS;
}

__attribute__((destructor)) static void release(void)
{
  if (pointer)
    (void)cuMemFree(pointer); /* CUDA may be gone already */
  if (last_at_end)
    last_at_end();
}
