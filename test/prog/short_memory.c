/*
 * Programs that always have enough memory natively, on a device that they fill. A library that keeps freed
 * memory has to give it back in time: short_memory CASE. Prints the calls that failed, and how many.
 *
 *   pinned KIND   small freed blocks lie in most pages of the device; then 44 MiB are asked for by a call of
 *                 that kind. The device has 64 MiB.
 *   parked        threads that sleep have freed small blocks; the main thread needs most of the 64 MiB.
 *   race N KIB    N threads allocate and free one block of up to KIB at a time.
 *   work          four threads hold up to 8 MiB each in blocks of up to 1 MiB, some of which kernels write;
 * one asks for 16 MiB now and then. The device has 64 MiB. halves        two threads hold 24 of 64 MiB each
 * and ask for 32 more at the same time: both must be refused, and the program ends.
 */
#include "calls.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#define KIB         ((size_t)1 << 10)
#define MIB         ((size_t)1 << 20)
#define MOST        16 /* threads */
#define MOST_BLOCKS 64 /* of one thread */

static CUcontext context;
static CUfunction fill;
static const char *arguments[2];
static atomic_uint failed;
static pthread_barrier_t barrier;

static uint32_t next_random(uint32_t *state)
{
  *state = *state * 1103515245u + 12345u;
  return *state >> 10;
}

/* Counts a failure. 0: it failed. */
static CUdeviceptr ask(size_t bytes)
{
  CUdeviceptr block;
  if (cuMemAlloc_v2(&block, bytes) == CUDA_SUCCESS)
    return block;
  atomic_fetch_add(&failed, 1);
  return 0;
}

static void with_threads(unsigned count, void *(*run)(void *))
{
  pthread_t threads[MOST];
  for (unsigned i = 0; i < count; i++)
    CALL(pthread_create(&threads[i], NULL, run, (void *)(uintptr_t)(i + 1)));
  for (unsigned i = 0; i < count; i++)
    CALL(pthread_join(threads[i], NULL));
}

/* Allocates bytes by a call of that kind. */
static int ask_for(const char *kind, size_t bytes)
{
  const CUmemAllocationProp physical = {
      .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
  const CUmemPoolProps props = {
      .allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
  const CUDA_ARRAY_DESCRIPTOR shape = {
      .Width = 44 * KIB, .Height = bytes / (4 * 44 * KIB), .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
  CUmemGenericAllocationHandle handle;
  CUmemoryPool pool;
  CUdeviceptr block;
  CUarray array;
  size_t pitch;

  if (!strcmp(kind, "plain"))
    return cuMemAlloc_v2(&block, bytes);
  if (!strcmp(kind, "ordered"))
    return cuMemAllocAsync(&block, bytes, CU_STREAM_LEGACY);
  if (!strcmp(kind, "managed"))
    return cuMemAllocManaged(&block, bytes, CU_MEM_ATTACH_GLOBAL);
  if (!strcmp(kind, "physical"))
    return cuMemCreate(&handle, bytes, &physical, 0);
  if (!strcmp(kind, "array"))
    return cuArrayCreate_v2(&array, &shape);
  if (!strcmp(kind, "pitched"))
    return cuMemAllocPitch_v2(&block, &pitch, MIB, bytes / MIB, 4);
  CALL(cuMemPoolCreate(&pool, &props));
  return cuMemAllocFromPoolAsync(&block, bytes, pool, CU_STREAM_LEGACY);
}

static void pinned(void)
{
  enum { GROUPS = 26 };
  CUdeviceptr small[GROUPS], large[GROUPS][2], last;

  for (int i = 0; i < GROUPS; i++) {
    small[i] = ask(64 * KIB);
    large[i][0] = ask(960 * KIB);
    large[i][1] = ask(960 * KIB);
  }
  for (int i = 0; i < GROUPS; i++) {
    CALL(cuMemFree_v2(large[i][0]));
    CALL(cuMemFree_v2(large[i][1]));
  }
  last = ask(4 * KIB);
  CALL(cuCtxSynchronize());
  CALL(cuCtxSynchronize()); /* what is too much goes back: the large ones */
  for (int i = 0; i < GROUPS; i++)
    CALL(cuMemFree_v2(small[i]));
  CALL(cuMemFree_v2(last));
  atomic_fetch_add(&failed, ask_for(arguments[0], 44 * MIB) != CUDA_SUCCESS);
}

static void *park(void *number)
{
  enum { ROUNDS = 5, BLOCKS = 60 };
  CUdeviceptr blocks[BLOCKS];

  (void)number;
  CALL(cuCtxSetCurrent(context));
  for (int round = 0; round < ROUNDS; round++) {
    for (int turn = 0; turn < 4; turn++) {
      for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = ask(64 * KIB + i % 3 * 4 * KIB);
      for (size_t i = 0; i < BLOCKS; i++)
        CALL(cuMemFree_v2(blocks[i]));
    }
    (void)pthread_barrier_wait(&barrier); /* it cannot fail */
    (void)pthread_barrier_wait(&barrier);
  }
  return NULL;
}

static void *need_most(void *number)
{
  enum { ROUNDS = 5, BLOCKS = 90 };
  CUdeviceptr blocks[BLOCKS];

  if ((uintptr_t)number > 1)
    return park(number);
  CALL(cuCtxSetCurrent(context));
  for (int round = 0; round < ROUNDS; round++) {
    (void)pthread_barrier_wait(&barrier);
    CUdeviceptr most = ask(44 * MIB);
    CALL(most ? cuMemFree_v2(most) : CUDA_SUCCESS);
    for (int i = 0; i < BLOCKS; i++)
      blocks[i] = ask(480 * KIB);
    for (int i = 0; i < BLOCKS; i++)
      CALL(blocks[i] ? cuMemFree_v2(blocks[i]) : CUDA_SUCCESS);
    (void)pthread_barrier_wait(&barrier);
  }
  return NULL;
}

static void parked(void)
{
  enum { THREADS = 7 };
  CALL(pthread_barrier_init(&barrier, NULL, THREADS));
  with_threads(THREADS, need_most);
}

static void *one_at_a_time(void *number)
{
  uint32_t state = 77 * (uint32_t)(uintptr_t)number;
  size_t most = strtoul(arguments[1], NULL, 10);

  CALL(cuCtxSetCurrent(context));
  for (int i = 0; i < 6000; i++) {
    CUdeviceptr block = ask((next_random(&state) % most + 1) * KIB);
    CALL(block ? cuMemFree_v2(block) : CUDA_SUCCESS);
  }
  return NULL;
}

static void race(void)
{
  with_threads((unsigned)atoi(arguments[0]), one_at_a_time);
}

static CUresult write_to(CUdeviceptr block, size_t bytes, CUstream stream)
{
  uint64_t words = bytes / 8, value = 3;
  void *params[] = {&block, &words, &value};
  return cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
}

static void *hold_eight(void *number)
{
  struct {
    CUdeviceptr address;
    size_t bytes;
  } blocks[MOST_BLOCKS];
  uint32_t state = 77 * (uint32_t)(uintptr_t)number;
  size_t count = 0, held = 0;
  CUstream stream;

  CALL(cuCtxSetCurrent(context));
  CALL(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  for (int i = 0; i < 3000; i++) {
    size_t bytes = (next_random(&state) % 16 + 1) * 64 * KIB;
    if (count < 40 && held + bytes <= 8 * MIB && next_random(&state) % 2) {
      CUdeviceptr address = ask(bytes);
      if (!address)
        continue;
      CALL(next_random(&state) % 16 == 0 ? write_to(address, bytes, stream) : CUDA_SUCCESS);
      blocks[count].address = address;
      blocks[count++].bytes = bytes;
      held += bytes;
    } else if (count > 0) {
      size_t victim = next_random(&state) % count;
      CALL(cuMemFree_v2(blocks[victim].address));
      held -= blocks[victim].bytes;
      blocks[victim] = blocks[--count];
    }
    if ((uintptr_t)number == 1 && i % 50 == 0) {
      CUdeviceptr large = ask(16 * MIB);
      CALL(large ? cuMemFree_v2(large) : CUDA_SUCCESS);
    }
  }
  while (count > 0)
    CALL(cuMemFree_v2(blocks[--count].address));
  return NULL;
}

static void work(void)
{
  with_threads(4, hold_eight);
}

static void *want_too_much(void *number)
{
  (void)number;
  CALL(cuCtxSetCurrent(context));
  CUdeviceptr half = ask(24 * MIB);
  for (int i = 0; i < 20; i++) {
    (void)pthread_barrier_wait(&barrier);
    CUdeviceptr rest = ask(32 * MIB);
    CALL(rest ? cuMemFree_v2(rest) : CUDA_SUCCESS);
  }
  (void)pthread_barrier_wait(&barrier);
  CALL(cuMemFree_v2(half));
  return NULL;
}

static void halves(void)
{
  CALL(pthread_barrier_init(&barrier, NULL, 2));
  with_threads(2, want_too_much);
}

int main(int argc, char **argv)
{
  static const prog_case_t cases[] = {CASE(pinned), CASE(parked), CASE(race), CASE(work), CASE(halves)};
  static char image[] = "no image";
  CUmodule module;
  CUdevice device;

  size_t chosen = CASE_OF(argv[1], cases);
  arguments[0] = argc > 2 ? argv[2] : "plain";
  arguments[1] = argc > 3 ? argv[3] : "1";
  CALL(cuInit(0));
  CALL(cuDeviceGet(&device, 0));
  CALL(cuDevicePrimaryCtxRetain(&context, device));
  CALL(cuCtxSetCurrent(context));
  CALL(cuModuleLoadData(&module, image));
  CALL(cuModuleGetFunction(&fill, module, "simcuda_fill"));
  cases[chosen].run();
  CALL(cuCtxSynchronize());
  printf("failed=%u\n", atomic_load(&failed));
  return 0;
}
