/*
 * legacy_order alloc|free: two threads that use one buffer in their own streams, and whose only order is one
 * of the two calls for stream-ordered memory, in the legacy stream. The thread of main writes the buffer,
 * main or the other thread makes the call, and the other reads: the legacy stream and threads' own wait for
 * each other. Nothing else here asks for memory in the order of a stream. The simulated driver counts what
 * was read wrong (corrupt_stamps).
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

#define ROUNDS 40
#define WORDS  64u

static CUcontext context;
static CUdeviceptr buffer, passing; /* passing: of the call, which no work touches */
static bool is_free;
static uint64_t value;

static void take(void)
{
  CALL(cuMemAllocAsync(&passing, 4096, CU_STREAM_LEGACY));
}

static void give(void)
{
  CALL(cuMemFreeAsync(passing, CU_STREAM_LEGACY));
}

static void order(void)
{
  if (is_free)
    give();
  else
    take();
}

static void launch(CUfunction function)
{
  uint64_t words = WORDS;
  void *parameters[] = {&buffer, &words, &value};
  CALL(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, CU_STREAM_PER_THREAD, parameters, NULL));
}

/* ---- the other thread: one step after each arrival of main ---- */

static pthread_barrier_t barrier;
static CUfunction expect;

static void *read_in_turn(void *ignored)
{
  CALL(cuCtxSetCurrent(context));
  for (int i = 0; i < ROUNDS; i++) {
    pthread_barrier_wait(&barrier);
    if (i % 2)
      order();
    launch(expect);
    CALL(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    pthread_barrier_wait(&barrier);
  }
  return ignored;
}

int main(int argc, char **argv)
{
  static const unsigned char image[4] = {0};
  CUmodule module;
  CUfunction fill;
  pthread_t other;

  if (argc != 2 || (strcmp(argv[1], "alloc") != 0 && strcmp(argv[1], "free") != 0)) {
    fputs("usage: legacy_order alloc|free\n", stderr);
    return 2;
  }
  is_free = strcmp(argv[1], "free") == 0;
  CALL(cuInit(0));
  CALL(cuDevicePrimaryCtxRetain(&context, 0));
  CALL(cuCtxSetCurrent(context));
  CALL(cuModuleLoadData(&module, image));
  CALL(cuModuleGetFunction(&fill, module, "simcuda_fill"));
  CALL(cuModuleGetFunction(&expect, module, "simcuda_expect"));
  CALL(cuMemAlloc_v2(&buffer, WORDS * 8));
  (void)pthread_barrier_init(&barrier, NULL, 2);
  if (pthread_create(&other, NULL, read_in_turn, NULL) != 0)
    abort();
  for (int i = 0; i < ROUNDS; i++) {
    if (is_free)
      take();
    value++;
    launch(fill);
    if (i % 2 == 0)
      order();
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier); /* the other has read */
    CALL(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    if (!is_free)
      give();
  }
  pthread_join(other, NULL);
  CALL(cuMemFree_v2(buffer));
  printf("%d rounds\n", ROUNDS);
  return 0;
}
