#include "ordered_parts.h"

const char *scenario;
int failures;
cudaStream_t streams[STREAMS];

void check(const char *what, bool is_true)
{
  if (is_true)
    return;
  printf("ordered: %s: not so: %s\n", scenario, what);
  failures++;
}

void answer(const char *what, cudaError_t code)
{
  printf("%s: %s: %s\n", scenario, what, cudaGetErrorName(code));
  (void)cudaGetLastError(); /* the caller has the code */
}

uint64_t get(cudaMemPool_t pool, enum cudaMemPoolAttr attribute)
{
  uint64_t value = 0;
  CALL(cudaMemPoolGetAttribute(pool, attribute, &value));
  return value;
}

void set(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, uint64_t value)
{
  CALL(cudaMemPoolSetAttribute(pool, attribute, &value));
}

void set_flag(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, int value)
{
  int told = -1;
  CALL(cudaMemPoolSetAttribute(pool, attribute, &value));
  CALL(cudaMemPoolGetAttribute(pool, attribute, &told));
  CHECK(told == value);
}

cudaMemPool_t default_pool(int device)
{
  cudaMemPool_t pool;
  CALL(cudaDeviceGetDefaultMemPool(&pool, device));
  return pool;
}

void expect(cudaMemPool_t pool, size_t held)
{
  size_t free_bytes, total;
  uint64_t used = get(pool, cudaMemPoolAttrUsedMemCurrent);
  uint64_t reserved = get(pool, cudaMemPoolAttrReservedMemCurrent);
  CALL(cudaMemGetInfo(&free_bytes, &total));
  CHECK(used == held);
  CHECK(reserved >= used);
  CHECK(get(pool, cudaMemPoolAttrUsedMemHigh) >= used);
  CHECK(get(pool, cudaMemPoolAttrReservedMemHigh) >= reserved);
  CHECK(free_bytes + used <= total);
}

void reset_high_marks(cudaMemPool_t pool)
{
  set(pool, cudaMemPoolAttrReservedMemHigh, 0);
  set(pool, cudaMemPoolAttrUsedMemHigh, 0);
  CHECK(get(pool, cudaMemPoolAttrUsedMemHigh) == get(pool, cudaMemPoolAttrUsedMemCurrent));
  CHECK(get(pool, cudaMemPoolAttrReservedMemHigh) >= get(pool, cudaMemPoolAttrReservedMemCurrent));
}

void trim(cudaMemPool_t pool)
{
  CALL(cudaDeviceSynchronize());
  CALL(cudaMemPoolTrimTo(pool, 0));
}

void expect_nothing(cudaMemPool_t pool)
{
  trim(pool);
  expect(pool, 0);
  CHECK(get(pool, cudaMemPoolAttrReservedMemCurrent) <= LITTLE);
  reset_high_marks(pool);
  set(pool, cudaMemPoolAttrReleaseThreshold, 0);
}

void *take(size_t bytes, int stream)
{
  void *memory = NULL;
  CALL(cudaMallocAsync(&memory, bytes, streams[stream]));
  CHECK(memory != NULL);
  return memory;
}

void give(void *memory, int stream)
{
  CALL(cudaFreeAsync(memory, streams[stream]));
}

void fill(void *memory, int value, int stream)
{
  CALL(cudaMemsetAsync(memory, value, BLOCK, streams[stream]));
}

void expect_value(const void *memory, int value, int stream)
{
  unsigned char bytes[2] = {0};
  CALL(cudaMemcpyAsync(&bytes[0], memory, 1, cudaMemcpyDeviceToHost, streams[stream]));
  CALL(cudaMemcpyAsync(
      &bytes[1], (const char *)memory + BLOCK - 1, 1, cudaMemcpyDeviceToHost, streams[stream]));
  CALL(cudaStreamSynchronize(streams[stream]));
  CHECK(bytes[0] == value && bytes[1] == value);
}

void order(int before, int after)
{
  cudaEvent_t event;
  CALL(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  CALL(cudaEventRecord(event, streams[before]));
  CALL(cudaStreamWaitEvent(streams[after], event, 0));
  CALL(cudaEventDestroy(event));
}
