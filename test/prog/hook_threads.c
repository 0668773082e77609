/*
 * Threads that make the same calls at the same time, each for things of its own: hook_threads CASE. What one
 * does must not show in what another sees; prints how often it did.
 */
#include "calls.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cuda.h>
#include <dlfcn.h>

#define THREADS 3
#define BYTES   ((size_t)1 << 16)

static CUcontext context; /* of device 0, current in all threads */
static unsigned long wrong[THREADS];

/* Pools of the second device, used by threads that work on the first. */
static void pools(int number)
{
  enum { POOLS = 4, ROUNDS = 60 };
  const CUmemPoolProps props = {
      .allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1}};
  CUmemoryPool pool[POOLS];
  CUdeviceptr memory[POOLS];
  CUstream stream;

  CALL(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  for (int round = 0; round < ROUNDS; round++) {
    for (int i = 0; i < POOLS; i++)
      CALL(cuMemPoolCreate(&pool[i], &props));
    for (int i = 0; i < POOLS; i++)
      CALL(cuMemAllocFromPoolAsync(&memory[i], BYTES, pool[i], stream));
    for (int i = 0; i < POOLS; i++)
      CALL(cuMemFreeAsync(memory[i], stream));
    CALL(cuStreamSynchronize(stream));
    for (int i = 0; i < POOLS; i++)
      CALL(cuMemPoolDestroy(pool[(i * 3 + number) % POOLS]));
  }
  CALL(cuStreamDestroy(stream));
}

/* Captures of streams that are created, and of the thread's own; every thread leaves one of those behind. */
static void captures(int number)
{
  enum { STREAMS = 4, ROUNDS = 100 };
  CUstream stream[STREAMS];
  CUstreamCaptureStatus status;
  CUgraph graph;

  for (int round = 0; round < ROUNDS; round++) {
    for (int i = 0; i < STREAMS; i++) {
      CALL(cuStreamCreate(&stream[i], CU_STREAM_NON_BLOCKING));
      CALL(cuStreamBeginCapture(stream[i], CU_STREAM_CAPTURE_MODE_RELAXED));
    }
    CALL(cuStreamBeginCapture(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_RELAXED));
    for (int i = 0; i < STREAMS; i++) {
      CUstream ended = stream[(i * 3 + number) % STREAMS];
      CALL(cuStreamIsCapturing(ended, &status));
      wrong[number] += status != CU_STREAM_CAPTURE_STATUS_ACTIVE;
      if (i % 2 == 0) {
        CALL(cuStreamEndCapture(ended, &graph));
        CALL(cuGraphDestroy(graph));
      }
      CALL(cuStreamDestroy(ended));
    }
    if (round < ROUNDS - 1) {
      CALL(cuStreamEndCapture(CU_STREAM_PER_THREAD, &graph));
      CALL(cuGraphDestroy(graph));
    }
  }
}

/* More widths than a library could keep, so that what it knows is replaced all the time. */
#define WIDTHS 3000

static size_t pitches[WIDTHS];

static size_t pitch_of(int index)
{
  CUdeviceptr memory;
  size_t pitch;

  CALL(cuMemAllocPitch(&memory, &pitch, (size_t)index + 1, 2, 4));
  CALL(cuMemFree(memory));
  return pitch;
}

static void pitched(int number)
{
  uint32_t state = (uint32_t)number + 1;

  for (int round = 0; round < 10000; round++) {
    state = state * 1664525u + 1013904223u;
    int index = (int)((state >> 8) % WIDTHS);
    size_t pitch = pitch_of(index);
    wrong[number] += pitch != pitches[index];
    wrong[number] += pitch_of(index) != pitch;
  }
}

static void learn_pitches(void)
{
  for (int i = 0; i < WIDTHS; i++)
    pitches[i] = pitch_of(i);
}

static void green(int number)
{
#if CUDA_VERSION >= 12050
  enum { CONTEXTS = 3, ROUNDS = 60 };
  CUgreenCtx greens[CONTEXTS];
  CUcontext converted;
  CUdevResource resource;
  CUdevResourceDesc desc;
  CUstream stream;
  CUdeviceptr memory;

  for (int round = 0; round < ROUNDS; round++) {
    for (int i = 0; i < CONTEXTS; i++) {
      CALL(cuDeviceGetDevResource(0, &resource, CU_DEV_RESOURCE_TYPE_SM));
      CALL(cuDevResourceGenerateDesc(&desc, &resource, 1));
      CALL(cuGreenCtxCreate(&greens[i], desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
      CALL(cuCtxFromGreenCtx(&converted, greens[i]));
    }
    for (int i = 0; i < CONTEXTS; i++) {
      CUgreenCtx ended = greens[(i * 2 + number) % CONTEXTS];
      CALL(cuGreenCtxStreamCreate(&stream, ended, CU_STREAM_NON_BLOCKING, 0));
      CALL(cuStreamDestroy(stream));
      CALL(cuCtxFromGreenCtx(&converted, ended));
      CALL(cuCtxSetCurrent(converted));
      CALL(cuMemAlloc(&memory, BYTES));
      CALL(cuMemFree(memory));
      CALL(cuCtxSetCurrent(context));
      CALL(cuGreenCtxDestroy(ended));
    }
  }
#endif
}

/* As PyTorch's pluggable allocator: memory of one stream that others use is freed, and allocated again. */
static void *(*torch_alloc)(size_t size, int device, CUstream stream);
static void (*torch_free)(void *pointer, size_t size, int device, CUstream stream);
static void (*torch_record_stream)(void *pointer, CUstream stream);

static void find_torch(void)
{
  *(void **)&torch_alloc = dlsym(RTLD_DEFAULT, "gpupool_torch_alloc");
  *(void **)&torch_free = dlsym(RTLD_DEFAULT, "gpupool_torch_free");
  *(void **)&torch_record_stream = dlsym(RTLD_DEFAULT, "gpupool_torch_record_stream");
  if (!torch_alloc || !torch_free || !torch_record_stream) {
    fprintf(stderr, "hook_threads: the library is not there\n");
    exit(1);
  }
}

static void torch(int number)
{
  enum { BLOCKS = 64, ROUNDS = 60, SIZE = 4096 };
  CUstream own, other;
  CUevent written;
  unsigned char *copies;
  void *blocks[BLOCKS];

  CALL(cuStreamCreate(&own, CU_STREAM_NON_BLOCKING));
  CALL(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  CALL(cuEventCreate(&written, CU_EVENT_DISABLE_TIMING));
  CALL(cuMemHostAlloc((void **)&copies, (size_t)BLOCKS * SIZE, 0));
  for (int round = 0; round < ROUNDS; round++) {
    for (int i = 0; i < BLOCKS; i++) {
      blocks[i] = torch_alloc(SIZE, 0, own);
      CALL(cuMemsetD8Async((CUdeviceptr)(uintptr_t)blocks[i], (unsigned char)(i + 1), SIZE, own));
    }
    CALL(cuEventRecord(written, own));
    CALL(cuStreamWaitEvent(other, written, 0));
    for (int i = 0; i < BLOCKS; i++)
      CALL(cuMemcpyDtoHAsync(copies + i * SIZE, (CUdeviceptr)(uintptr_t)blocks[i], SIZE, other));
    for (int i = 0; i < BLOCKS; i++)
      torch_record_stream(blocks[i], other);
    for (int i = 0; i < BLOCKS; i++) {
      torch_free(blocks[i], SIZE, 0, own);
      blocks[i] = torch_alloc(SIZE, 0, own);
      CALL(cuMemsetD8Async((CUdeviceptr)(uintptr_t)blocks[i], 200, SIZE, own));
    }
    CALL(cuStreamSynchronize(own));
    CALL(cuStreamSynchronize(other));
    for (int i = 0; i < BLOCKS; i++) {
      wrong[number] += copies[i * SIZE] != i + 1 || copies[(i + 1) * SIZE - 1] != i + 1;
      torch_free(blocks[i], SIZE, 0, own);
    }
  }
  CALL(cuMemFreeHost(copies));
}

static const struct {
  const char *name;
  void (*prepare)(void);
  void (*work)(int number);
} cases[] = {
    {"pools", NULL, pools},
    {"captures", NULL, captures},
    {"pitched", learn_pitches, pitched},
    {"green", NULL, green},
    {"torch", find_torch, torch},
};

static void (*work)(int number);
static pthread_barrier_t begin;

static void *run(void *number)
{
  CALL(cuCtxSetCurrent(context));
  pthread_barrier_wait(&begin);
  work((int)(intptr_t)number);
  return NULL;
}

/*
 * Plain memory, which a library may keep: what it thinks is still going on shows in how it does. After each
 * wait all work is known to be complete, so that no fence is needed: those depend on how fast the machine is.
 */
static void use_plain_memory(void)
{
  CUdeviceptr memory;

  for (int i = 0; i < 20; i++) {
    CALL(cuMemAlloc(&memory, BYTES));
    CALL(cuMemFree(memory));
    CALL(cuCtxSynchronize());
  }
}

int main(int argc, char **argv)
{
  pthread_t threads[THREADS];
  unsigned long sum = 0;
  const size_t chosen = CASE_OF(argv[1], cases);

  CALL(cuInit(0));
  CALL(cuDevicePrimaryCtxRetain(&context, 0));
  CALL(cuCtxSetCurrent(context));
  if (cases[chosen].prepare)
    cases[chosen].prepare();
  work = cases[chosen].work;
  pthread_barrier_init(&begin, NULL, THREADS);
  for (intptr_t i = 0; i < THREADS; i++)
    if (pthread_create(&threads[i], NULL, run, (void *)i) != 0)
      abort();
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    sum += wrong[i];
  }
  use_plain_memory();
  printf("wrong=%lu\n", sum);
  return 0;
}
