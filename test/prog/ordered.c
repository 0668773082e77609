/*
 * What programs with a pool of their own on top of cudaMallocAsync do with the API, a scenario each. The
 * first argument names one, or "all". Each checks what has to be true whoever serves the memory, and prints
 * what calls return where that is the point. Sizes are multiples of 2 MiB, which
 * neither the driver nor the library rounds.
 *
 *   framework   a threshold without bound, the high marks polled and reset, the largest workspace by trial
 *   cache       used and reserved memory, freed at once with a synchronization and a trim
 *   limits      what is free is the device's and what the pool holds and does not use
 *   determinism a large block to begin with, reuse attributes turned off
 *   own_pool    a pool of the program's, made the current one
 *   unifier     memory used in several streams, freed in one that waits for them
 *   pressure    a full device, relieved by a trim
 *   devices     a stream of another device than the current one
 *   errors      what refused calls return
 *
 * Not of "all", for they tell what is used again:
 *
 *   threshold   where the program sets no release threshold for the driver's pool, and where it sets 0
 *   points      what streams give to others beside one that never rests: to one that waits for an event, and
 *               once the host has waited for the stream
 */
#include "ordered_parts.h"

/* PyTorch's backend looks for the largest workspace by allocating what is free, then
 * half of it, and so on. */
static void try_workspace(cudaMemPool_t pool, size_t held)
{
  size_t free_bytes, total, guess;
  void *workspace;
  CALL(cudaMemGetInfo(&free_bytes, &total));
  CHECK(free_bytes + held <= total);
  for (guess = free_bytes; cudaMallocAsync(&workspace, guess, streams[1]) == cudaErrorMemoryAllocation;
       guess >>= 1)
    (void)cudaGetLastError();
  CHECK(guess >= free_bytes / 2);
  give(workspace, 1);
  expect(pool, held);
}

static void framework(void)
{
  cudaMemPool_t pool = default_pool(0);
  void *blocks[6];
  set(pool, cudaMemPoolAttrReleaseThreshold, UINT64_MAX);
  CHECK(get(pool, cudaMemPoolAttrReleaseThreshold) == UINT64_MAX);
  set_flag(pool, cudaMemPoolReuseFollowEventDependencies, 1);
  set_flag(pool, cudaMemPoolReuseAllowOpportunistic, 1);
  set_flag(pool, cudaMemPoolReuseAllowInternalDependencies, 1);
  reset_high_marks(pool);
  for (int step = 0; step < 3; step++) {
    for (int i = 0; i < 6; i++) {
      blocks[i] = take(BLOCK, i % 2);
      fill(blocks[i], 10 * step + i, i % 2);
      expect(pool, (size_t)(i + 1) * BLOCK);
    }
    for (int i = 0; i < 6; i++) {
      expect_value(blocks[i], 10 * step + i, i % 2);
      give(blocks[i], i % 2);
      expect(pool, (size_t)(5 - i) * BLOCK);
    }
    CHECK(get(pool, cudaMemPoolAttrUsedMemHigh) == 6 * BLOCK);
    reset_high_marks(pool);
    CHECK(get(pool, cudaMemPoolAttrUsedMemHigh) == 0);
  }
  blocks[0] = take(BLOCK, 0);
  try_workspace(pool, BLOCK);
  give(blocks[0], 0);
  expect_nothing(pool);
}

/* CuPy's pool: what is used, what is free in the pool, and all of that given back. */
static void cache(void)
{
  cudaMemPool_t pool = default_pool(0);
  void *blocks[3];
  set(pool, cudaMemPoolAttrReleaseThreshold, UINT64_MAX);
  for (int turn = 0; turn < 3; turn++) {
    for (int i = 0; i < 3; i++)
      blocks[i] = take(BLOCK, 0);
    fill(blocks[2], turn + 1, 0);
    give(blocks[0], 0);
    give(blocks[1], 0);
    expect(pool, BLOCK);
    CALL(cudaStreamSynchronize(streams[0]));
    CALL(cudaMemPoolTrimTo(pool, 0));
    expect(pool, BLOCK);
    expect_value(blocks[2], turn + 1, 0); /* a trim takes nothing that is in use */
    give(blocks[2], 0);
    expect(pool, 0);
    trim(pool);
    CHECK(get(pool, cudaMemPoolAttrReservedMemCurrent) <= LITTLE);
  }
  expect_nothing(pool);
}

/* CUDA.jl reckons what it may still use from what is free, and what the pool holds beyond what is used. */
static void limits(void)
{
  cudaMemPool_t pool = default_pool(0);
  size_t before, free_bytes, total;
  void *blocks[4];
  trim(pool);
  CALL(cudaMemGetInfo(&before, &total));
  set(pool, cudaMemPoolAttrReleaseThreshold, 16 * MIB);
  for (int i = 0; i < 4; i++)
    blocks[i] = take(BLOCK, 0);
  CALL(cudaMemGetInfo(&free_bytes, &total));
  CHECK(free_bytes <= before - 4 * BLOCK);
  for (int i = 0; i < 4; i++) {
    give(blocks[i], 0);
    CALL(cudaDeviceSynchronize());
    expect(pool, (size_t)(3 - i) * BLOCK);
    CALL(cudaMemGetInfo(&free_bytes, &total));
    uint64_t idle = get(pool, cudaMemPoolAttrReservedMemCurrent) - get(pool, cudaMemPoolAttrUsedMemCurrent);
    CHECK(free_bytes <= total);
    CHECK(free_bytes + idle + (size_t)(3 - i) * BLOCK >= before); /* nothing is lost */
  }
  trim(pool);
  CALL(cudaMemGetInfo(&free_bytes, &total));
  CHECK(free_bytes == before);
  expect_nothing(pool);
}

/* TensorFlow begins with a large block, and turns off what makes addresses depend on time. */
static void determinism(void)
{
  cudaMemPool_t pool = default_pool(0);
  void *blocks[STREAMS];
  set(pool, cudaMemPoolAttrReleaseThreshold, UINT64_MAX);
  set_flag(pool, cudaMemPoolReuseAllowOpportunistic, 0);
  set_flag(pool, cudaMemPoolReuseAllowInternalDependencies, 0);
  set_flag(pool, cudaMemPoolReuseFollowEventDependencies, 0);
  void *large = take(16 * BLOCK, 0);
  expect(pool, 16 * BLOCK);
  give(large, 0);
  expect(pool, 0);
  for (int turn = 0; turn < 3; turn++) {
    for (int i = 0; i < STREAMS; i++) {
      blocks[i] = take(BLOCK, i);
      fill(blocks[i], 20 * turn + i, i);
    }
    expect(pool, STREAMS * BLOCK);
    for (int i = 0; i < STREAMS; i++) {
      expect_value(blocks[i], 20 * turn + i, i);
      give(blocks[i], i);
    }
    expect(pool, 0);
  }
  expect_nothing(pool);
  set_flag(pool, cudaMemPoolReuseAllowOpportunistic, 1);
  set_flag(pool, cudaMemPoolReuseAllowInternalDependencies, 1);
  set_flag(pool, cudaMemPoolReuseFollowEventDependencies, 1);
}

/* RMM makes a pool, fills it by one allocation in the default stream, and gives it up in the end. */
static void own_pool(void)
{
  struct cudaMemPoolProps properties = {
      .allocType = cudaMemAllocationTypePinned, .location = {.type = cudaMemLocationTypeDevice, .id = 0}};
  cudaMemPool_t pool, current;
  void *first, *memory, *of_default;
  CALL(cudaMemPoolCreate(&pool, &properties));
  set(pool, cudaMemPoolAttrReleaseThreshold, UINT64_MAX);
  CHECK(cudaMallocFromPoolAsync(&first, BLOCK, NULL, NULL) == cudaErrorInvalidValue);
  (void)cudaGetLastError();
  CALL(cudaMallocFromPoolAsync(&first, 4 * BLOCK, pool, NULL));
  CALL(cudaFreeAsync(first, NULL));
  expect(pool, 0);
  of_default = take(BLOCK, 0);
  CALL(cudaDeviceSetMemPool(0, pool));
  CALL(cudaDeviceGetMemPool(&current, 0));
  CHECK(current == pool);
  memory = take(BLOCK, 0);
  fill(memory, 5, 0);
  expect(pool, BLOCK);
  expect(default_pool(0), BLOCK);
  CALL(cudaDeviceSetMemPool(0, default_pool(0)));
  expect_value(memory, 5, 0);
  give(memory, 0); /* goes where it came from */
  give(of_default, 0);
  expect(pool, 0);
  expect(default_pool(0), 0);
  trim(pool);
  CHECK(get(pool, cudaMemPoolAttrReservedMemCurrent) == 0);
  CALL(cudaMemPoolDestroy(pool));
  expect_nothing(default_pool(0));
}

/* PyTorch frees what was used in several streams in one that has waited for all of them. */
static void unifier(void)
{
  cudaMemPool_t pool = default_pool(0);
  void *next = NULL;
  set(pool, cudaMemPoolAttrReleaseThreshold, UINT64_MAX);
  for (int turn = 1; turn <= 8; turn++) {
    void *memory = take(BLOCK, 0);
    order(0, 1);
    order(0, 2);
    CALL(cudaMemsetAsync(memory, turn, BLOCK / 2, streams[1]));
    CALL(cudaMemsetAsync((char *)memory + BLOCK / 2, turn, BLOCK / 2, streams[2]));
    order(0, 3);
    order(1, 3);
    order(2, 3);
    if (turn % 2) {
      expect_value(memory, turn, 3);
    }
    give(memory, 3);
    next = take(BLOCK, 0); /* may be the same: then behind the free */
    fill(next, 100 + turn, 0);
    expect(pool, BLOCK);
    expect_value(next, 100 + turn, 0);
    give(next, 0);
  }
  /* The legacy stream's memory is for blocking streams, too. */
  for (int turn = 1; turn <= 4; turn++) {
    cudaStream_t blocking;
    unsigned char byte = 0;
    CALL(cudaStreamCreate(&blocking));
    CALL(cudaMallocAsync(&next, BLOCK, NULL));
    CALL(cudaMemsetAsync(next, turn, BLOCK, blocking));
    CALL(cudaMemcpyAsync(&byte, next, 1, cudaMemcpyDeviceToHost, NULL));
    CALL(cudaFreeAsync(next, NULL));
    CALL(cudaStreamDestroy(blocking));
    CALL(cudaStreamSynchronize(NULL));
    CHECK(byte == turn);
  }
  expect_nothing(pool);
}

/* A full device: what the pool keeps is for everybody after a trim. */
static void pressure(void)
{
  cudaMemPool_t pool = default_pool(0);
  size_t free_bytes, total, half;
  void *memory = NULL, *plain = NULL, *more = NULL;
  set(pool, cudaMemPoolAttrReleaseThreshold, UINT64_MAX);
  CALL(cudaMemGetInfo(&free_bytes, &total));
  half = free_bytes / 2 & ~(LITTLE - 1);
  memory = take(half + 2 * BLOCK, 0);
  ANSWER(cudaMallocAsync(&more, half, streams[0]));
  expect(pool, half + 2 * BLOCK);
  ANSWER(cudaMalloc(&plain, half));
  give(memory, 0);
  expect(pool, 0);
  trim(pool);
  ANSWER(cudaMalloc(&plain, half));
  CALL(cudaFree(plain));
  ANSWER(cudaMallocAsync(&more, half, streams[1])); /* and the other way round */
  give(more, 1);
  expect_nothing(pool);
}

static void devices(void)
{
  cudaStream_t there;
  cudaMemPool_t here_pool = default_pool(0), there_pool = default_pool(1);
  struct cudaPointerAttributes attributes;
  void *memory;
  CALL(cudaSetDevice(1));
  CALL(cudaStreamCreateWithFlags(&there, cudaStreamNonBlocking));
  CALL(cudaSetDevice(0));
  CALL(cudaMallocAsync(&memory, BLOCK, there));
  CALL(cudaPointerGetAttributes(&attributes, memory));
  CHECK(attributes.device == 1);
  expect(here_pool, 0);
  CHECK(get(there_pool, cudaMemPoolAttrUsedMemCurrent) == BLOCK);
  CALL(cudaFreeAsync(memory, there));
  CHECK(get(there_pool, cudaMemPoolAttrUsedMemCurrent) == 0);
  CALL(cudaStreamSynchronize(there));
  CALL(cudaMemPoolTrimTo(there_pool, 0));
  CHECK(get(there_pool, cudaMemPoolAttrReservedMemCurrent) <= LITTLE);
  CALL(cudaStreamDestroy(there));
  expect_nothing(here_pool);
}

static void errors(void)
{
  cudaMemPool_t pool = default_pool(0);
  cudaGraph_t graph;
  void *memory = NULL, *other = NULL, *plain = NULL;
  struct cudaPointerAttributes attributes;
  ANSWER(cudaMallocAsync(NULL, BLOCK, streams[0]));
  ANSWER(cudaMallocAsync(&other, 0, streams[0]));
  ANSWER(cudaMallocAsync(&other, SIZE_MAX / 2, streams[0]));
  memory = take(BLOCK, 0);
  ANSWER(cudaFreeAsync((char *)memory + 512, streams[0]));
  ANSWER(cudaFree((char *)memory + 512));
  ANSWER(cudaFreeAsync(&plain, streams[0])); /* an address of the host's */
  ANSWER(cudaPointerGetAttributes(&attributes, memory));
  printf("%s: type %d, device %d\n", scenario, (int)attributes.type, attributes.device);
  expect(pool, BLOCK);
  CALL(cudaMalloc(&plain, BLOCK));
  CALL(cudaStreamBeginCapture(streams[1], cudaStreamCaptureModeRelaxed));
  ANSWER(cudaFreeAsync(memory, streams[1])); /* no graph's */
  ANSWER(cudaFreeAsync(plain, streams[1]));
  ANSWER(cudaStreamEndCapture(streams[1], &graph));
  expect(pool, BLOCK);
  ANSWER(cudaFreeAsync(memory, streams[0]));
  ANSWER(cudaFreeAsync(memory, streams[0]));
  ANSWER(cudaFree(memory));
  ANSWER(cudaFreeAsync(plain, streams[0]));
  ANSWER(cudaFreeAsync(plain, streams[0]));
  ANSWER(cudaFree(plain));
  memory = take(BLOCK, 0);
  CALL(cudaStreamSynchronize(streams[0]));
  ANSWER(cudaFree(memory)); /* legal, and waits for nothing */
  ANSWER(cudaFree(memory));
  ANSWER(cudaFreeAsync(memory, streams[0]));
  ANSWER(cudaMemPoolDestroy(pool)); /* the device's own */
  ANSWER(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &(uint64_t){0}));
  ANSWER(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReservedMemHigh, &(uint64_t){1}));
  ANSWER(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemHigh, NULL));
  ANSWER(cudaMemPoolTrimTo(NULL, 0));
  expect_nothing(pool);
}

static void threshold(void)
{
  for (int device = 0; device < 2; device++) {
    cudaMemPool_t pool = default_pool(device);
    void *memory;
    CALL(cudaSetDevice(device));
    if (device == 1)
      set(pool, cudaMemPoolAttrReleaseThreshold, 0);
    printf("%llu ", (unsigned long long)get(pool, cudaMemPoolAttrReleaseThreshold));
    CALL(cudaMallocAsync(&memory, BLOCK, 0));
    CALL(cudaFreeAsync(memory, 0));
    CALL(cudaDeviceSynchronize());
    printf("%llu %llu; ", (unsigned long long)get(pool, cudaMemPoolAttrReleaseThreshold),
        (unsigned long long)get(pool, cudaMemPoolAttrReservedMemCurrent));
    CALL(cudaMemPoolTrimTo(pool, 0));
  }
  CALL(cudaSetDevice(0));
  printf("\n");
}

static void points(void)
{
  enum { BUSY, FROM, TO };
  void *memory, *kept = take(BLOCK, BUSY);
  fill(kept, 1, BUSY);
  for (int by_host = 0; by_host < 2; by_host++) {
    memory = take(BLOCK, FROM);
    fill(memory, 2, FROM);
    give(memory, FROM);
    if (by_host) {
      CALL(cudaStreamSynchronize(streams[FROM]));
    } else {
      order(FROM, TO);
    }
    fill(kept, 3, BUSY);
    void *next = take(BLOCK, TO);
    printf("%s; ", next == memory ? "the same" : "another");
    fill(next, 4, TO);
    give(next, TO);
    CALL(cudaDeviceSynchronize());
    CALL(cudaMemPoolTrimTo(default_pool(0), 0));
    fill(kept, 5, BUSY);
  }
  give(kept, BUSY);
  printf("\n");
}

static const prog_case_t scenarios[] = {
    CASE(framework),
    CASE(cache),
    CASE(limits),
    CASE(determinism),
    CASE(own_pool),
    CASE(unifier),
    CASE(pressure),
    CASE(devices),
    CASE(errors),
#define IN_ALL 9
    CASE(threshold),
    CASE(points),
};

int main(int argc, char **argv)
{
  int device_count = 0;
  bool is_all = argc == 2 && strcmp(argv[1], "all") == 0;
  size_t first = is_all ? 0 : CASE_OF(argv[1], scenarios), end = is_all ? IN_ALL : first + 1;
  scenario = "start";
  CALL(cudaGetDeviceCount(&device_count));
  for (int i = 0; i < STREAMS; i++)
    CALL(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
  for (size_t i = first; i < end; i++) {
    scenario = scenarios[i].name;
    if (scenarios[i].run == devices && device_count < 2)
      continue;
    scenarios[i].run();
    CHECK(cudaGetLastError() == cudaSuccess);
    printf("%s: done\n", scenario);
  }
  for (int i = 0; i < STREAMS; i++)
    CALL(cudaStreamDestroy(streams[i]));
  return failures > 0;
}
