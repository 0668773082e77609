/*
 * A program, or with ROUTE_PLUGIN a plug-in, that uses the CUDA runtime: shared (its versions differ in how
 * they find the driver) or static. It also asks the runtime for a function of the driver, and uses that.
 */
#ifdef ROUTE_PER_THREAD
#define CUDA_API_PER_THREAD_DEFAULT_STREAM 1
#endif
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

#define ROUNDS 8
#define BLOCKS 6
#define BYTES  16384

static unsigned char host[BYTES];

static unsigned wrong_bytes(const void *device, int value)
{
  unsigned wrong = 0;
  if (cudaMemcpy(host, device, BYTES, cudaMemcpyDeviceToHost) != cudaSuccess)
    return BYTES;
  for (size_t i = 0; i < BYTES; i++)
    wrong += host[i] != (unsigned char)value;
  return wrong;
}

/* cuMemAlloc by cudaGetDriverEntryPoint, which came with CUDA 11.3; CUDA 13 kept only
 * the one with a version. */
static unsigned work_by_entry_point(unsigned *allocations)
{
  int (*alloc)(unsigned long long *pointer, size_t bytes) = NULL;
  enum cudaDriverEntryPointQueryResult status;
  unsigned long long pointer;
  int version = 0;

  if (cudaDriverGetVersion(&version) != cudaSuccess || version < 11030)
    return 0;
#if CUDART_VERSION >= 13000
  if (cudaGetDriverEntryPointByVersion("cuMemAlloc", (void **)&alloc, 11030, cudaEnableDefault, &status) !=
      cudaSuccess)
    return 1;
#else
  if (cudaGetDriverEntryPoint("cuMemAlloc", (void **)&alloc, cudaEnableDefault, &status) != cudaSuccess)
    return 1;
#endif
  if (!alloc || alloc(&pointer, BYTES) != 0)
    return 1;
  ++*allocations;
  return cudaFree((void *)(size_t)pointer) != cudaSuccess;
}

#ifdef ROUTE_PLUGIN
int route_main(void);
int route_main(void)
#else
int main(void)
#endif
{
  unsigned allocations = 0, wrong = 0;
  void *plain[BLOCKS], *ordered;
  cudaError_t error = cudaFree(NULL);

  if (error != cudaSuccess) {
    printf("route_runtime: %s\n", cudaGetErrorName(error));
    return 3;
  }
  for (int round = 0; round < ROUNDS; round++) {
    for (int i = 0; i < BLOCKS; i++) {
      if (cudaMalloc(&plain[i], (size_t)(i + 1) << 20) != cudaSuccess)
        return 1;
      allocations++;
      wrong += cudaMemsetAsync(plain[i], round * 10 + i, BYTES, 0) != cudaSuccess;
    }
    if (cudaMallocAsync(&ordered, BYTES, 0) != cudaSuccess)
      return 1;
    allocations++;
    wrong += cudaMemsetAsync(ordered, round + 100, BYTES, 0) != cudaSuccess;
    wrong += wrong_bytes(ordered, round + 100);
    wrong += cudaFreeAsync(ordered, 0) != cudaSuccess;
    for (int i = 0; i < BLOCKS; i++) {
      wrong += wrong_bytes(plain[i], round * 10 + i);
      wrong += cudaFree(plain[i]) != cudaSuccess;
    }
    wrong += cudaDeviceSynchronize() != cudaSuccess;
  }
  wrong += work_by_entry_point(&allocations);
  printf("route_runtime: allocations=%u wrong=%u\n", allocations, wrong);
  return wrong > 0;
}
