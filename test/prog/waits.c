/*
 * Memory of one context is freed while work on it is pending that another context knows of, or while another
 * context is current. Whoever gets it next must get it when that work is done: the result is what the work
 * saw.
 *
 * waits free           freed while another context is current: the wait has to be in the right one
 * waits push|push_v1|set|create|create_v3|create_v4
 *                      the work was submitted in a context that became current by that call and by no other.
 *                      A driver that frees waits for all contexts that reach the memory; the simulated one
 * waits for the context of the memory only, and notices such work: it runs these under a pool only waits
 * unseen likewise; it became current by a way that nothing stands in front of, and made a stream
 */
#include "calls.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#define BYTES (64u << 10)
#define WORK  400 /* operations in front of the one that matters: none of them is reached by chance */

static CUcontext first, second;
static CUdeviceptr freed, copied, scratch;
static CUstream stream;

/* In the current context, without end as yet: scratch is filled many times, then `freed` is copied. */
static int submit(bool in_own_stream)
{
  if (in_own_stream)
    CALL(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  for (int i = 0; i < WORK; i++)
    CALL(cuMemsetD8Async(scratch, (unsigned char)i, BYTES, stream));
  CALL(cuMemcpyDtoDAsync_v2(copied, freed, BYTES, stream));
  return 0;
}

static int allocate(void)
{
  CALL(cuMemAlloc_v2(&freed, BYTES));
  CALL(cuMemAlloc_v2(&copied, BYTES));
  CALL(cuMemAlloc_v2(&scratch, BYTES));
  CALL(cuMemsetD8_v2(freed, 1, BYTES));
  CALL(cuCtxSynchronize());
  return 0;
}

static int free_elsewhere(void)
{
  CUdeviceptr other;
  CALL(cuCtxCreate_v2(&second, 0, 0));
  CALL(cuCtxSetCurrent(first));
  if (allocate() || submit(true))
    return 1;
  CALL(cuCtxSetCurrent(second));
  CALL(cuMemFree_v2(freed));
  CALL(cuMemAlloc_v2(&other, BYTES));
  CALL(cuCtxSetCurrent(first));
  return 0;
}

/* Of the simulated driver */
static CUresult enter_unseen(void)
{
  int (*unseen)(void *context);
  *(void **)&unseen = dlsym(RTLD_DEFAULT, "simcuda_unseen_current");
  return unseen ? (CUresult)unseen(second) : CUDA_ERROR_NOT_FOUND;
}

static int enter(const char *how)
{
  if (strncmp(how, "create", 6) != 0)
    CALL(cuDevicePrimaryCtxRetain(&second, 0));
  if (strcmp(how, "push") == 0)
    CALL(cuCtxPushCurrent_v2(second));
  else if (strcmp(how, "push_v1") == 0)
    CALL(cuCtxPushCurrent(second));
  else if (strcmp(how, "set") == 0)
    CALL(cuCtxSetCurrent(second));
  else if (strcmp(how, "unseen") == 0)
    CALL(enter_unseen());
  else if (strcmp(how, "create") == 0)
    CALL(cuCtxCreate_v2(&second, 0, 0));
  else if (strcmp(how, "create_v3") == 0)
    CALL(cuCtxCreate_v3(&second, NULL, 0, 0, 0));
#if CUDA_VERSION >= 12050
  else if (strcmp(how, "create_v4") == 0)
    CALL(cuCtxCreate_v4(&second, NULL, 0, 0));
#endif
  else
    return 2;
  return 0;
}

/* The work is submitted in `second`, which is never current again before the memory is freed in `first`. */
static int submit_elsewhere(const char *how)
{
  CUcontext popped;
  if (allocate())
    return 1;
  int status = enter(how);
  if (status != 0)
    return status;
  if (submit(strcmp(how, "unseen") == 0))
    return 1;
  if (strcmp(how, "set") == 0 || strcmp(how, "unseen") == 0)
    CALL(cuCtxSetCurrent(first));
  else
    CALL(cuCtxPopCurrent_v2(&popped));
  CALL(cuMemFree_v2(freed));
  CALL(cuCtxSynchronize());
  return 0;
}

int main(int argc, char **argv)
{
  unsigned char host[64];
  CUdeviceptr next;

  if (argc != 2) {
    fprintf(stderr, "usage: waits free|push|push_v1|set|create|create_v3|create_v4|unseen\n");
    return 2;
  }
  CALL(cuInit(0));
  CALL(cuCtxCreate_v2(&first, 0, 0));
  int status = strcmp(argv[1], "free") == 0 ? free_elsewhere() : submit_elsewhere(argv[1]);
  if (status != 0)
    return status;
  CALL(cuMemAlloc_v2(&next, BYTES));
  CALL(cuMemsetD8_v2(next, 2, BYTES));
  CALL(cuCtxSetCurrent(strcmp(argv[1], "free") == 0 ? first : second));
  CALL(cuStreamSynchronize(stream));
  CALL(cuMemcpyDtoH_v2(host, copied, sizeof(host)));
  printf("the copy holds %d\n", host[0]);
  return host[0] != 1;
}
