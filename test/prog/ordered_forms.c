/*
 * Stream-ordered memory in the stream that goes without saying: ordered_forms FORM. A kernel runs in that
 * stream until the program stops it, so that only the order of the stream lets memory that was freed there be
 * used again. FORM ends with _ptsz where all functions are of the thread's own stream, else they are of the
 * legacy one; with _own where functions of the legacy one are given CU_STREAM_PER_THREAD, with _legacy where
 * they are given CU_STREAM_LEGACY.
 *
 * again: how often the same memory came back in that stream; elsewhere: in a stream beside it, where it must
 * not; thread: in the stream that goes without saying in another thread, which is another one if it is the
 * thread's own; behind: that of the stream beside it came back in that stream, which waits for an event
 * behind the free.
 */
#include "calls.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#define BYTES  (1u << 16)
#define ROUNDS 20

static bool is_own, has_pool; /* is_own: by the function */
static CUstream named;        /* in place of NULL */
static CUmemoryPool pool;

static CUdeviceptr take(void)
{
  CUdeviceptr block;
  if (has_pool)
    CALL(is_own ? cuMemAllocFromPoolAsync_ptsz(&block, BYTES, pool, NULL)
                : cuMemAllocFromPoolAsync(&block, BYTES, pool, named));
  else
    CALL(is_own ? cuMemAllocAsync_ptsz(&block, BYTES, NULL) : cuMemAllocAsync(&block, BYTES, named));
  return block;
}

static void give(CUdeviceptr block)
{
  CALL(is_own ? cuMemFreeAsync_ptsz(block, NULL) : cuMemFreeAsync(block, named));
}

static CUfunction waiting;
static CUstream beside;
static volatile uint32_t *flag;

/* True: memory that was freed in the stream beside comes back in the other, which
 * waits for an event of it. */
static bool comes_behind_event(CUevent event)
{
  void *parameters[] = {(void *)&flag};
  CUdeviceptr used, next;

  *flag = 0;
  CALL(cuMemAllocAsync(&used, BYTES, beside));
  CALL(cuLaunchKernel(waiting, 1, 1, 1, 1, 1, 1, 0, beside, parameters, NULL));
  CALL(cuMemFreeAsync(used, beside));
  CALL(cuEventRecord(event, beside));
  CALL(is_own ? cuStreamWaitEvent_ptsz(NULL, event, 0) : cuStreamWaitEvent(named, event, 0));
  next = take();
  *flag = 1;
  give(next);
  CALL(cuCtxSynchronize());
  return next == used;
}

static CUcontext context;
static CUdeviceptr freed;

/* True: it gets the memory that was freed. */
static void *take_in_thread(void *ret_got)
{
  CALL(cuCtxSetCurrent(context));
  CUdeviceptr block = take();
  *(bool *)ret_got = block == freed;
  give(block);
  return NULL;
}

static bool comes_in_thread(CUdeviceptr used)
{
  pthread_t thread;
  bool got;

  freed = used;
  if (pthread_create(&thread, NULL, take_in_thread, &got) != 0)
    abort();
  pthread_join(thread, NULL);
  return got;
}

int main(int argc, char **argv)
{
  static const unsigned char image[4] = {0};
  int again = 0, elsewhere = 0, in_thread = 0, behind = 0;
  CUmodule module;
  CUevent event;
  void *host;

  if (argc != 2) {
    fputs("usage: ordered_forms async|pool[_ptsz|_own|_legacy]\n", stderr);
    return 2;
  }
  is_own = strstr(argv[1], "_ptsz") != NULL;
  named = strstr(argv[1], "_own")      ? CU_STREAM_PER_THREAD
          : strstr(argv[1], "_legacy") ? CU_STREAM_LEGACY
                                       : NULL;
  has_pool = strncmp(argv[1], "pool", 4) == 0;
  CALL(cuInit(0));
  CALL(cuDevicePrimaryCtxRetain(&context, 0));
  CALL(cuCtxSetCurrent(context));
  CALL(cuDeviceGetDefaultMemPool(&pool, 0));
  CALL(cuStreamCreate(&beside, CU_STREAM_NON_BLOCKING));
  CALL(cuModuleLoadData(&module, image));
  CALL(cuModuleGetFunction(&waiting, module, "simcuda_wait"));
  CALL(cuMemHostAlloc(&host, 4096, 0));
  CALL(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  flag = host;
  for (int i = 0; i < ROUNDS; i++) {
    void *parameters[] = {(void *)&flag};
    CUdeviceptr used = take(), next;
    *flag = 0;
    CALL(is_own ? cuLaunchKernel_ptsz(waiting, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL)
                : cuLaunchKernel(waiting, 1, 1, 1, 1, 1, 1, 0, named, parameters, NULL));
    give(used);
    CALL(cuMemAllocAsync(&next, BYTES, beside));
    elsewhere += next == used;
    in_thread += comes_in_thread(used);
    CUdeviceptr own = take();
    again += own == used;
    *flag = 1;
    give(own);
    CALL(cuMemFreeAsync(next, beside));
    CALL(cuCtxSynchronize());
    behind += comes_behind_event(event);
  }
  printf("again=%d elsewhere=%d thread=%d behind=%d\n", again, elsewhere, in_thread, behind);
  return 0;
}
