/*
 * Shows the route of most CUDA programs: the runtime is linked statically into the executable, loads
 * libcuda.so.1 by itself and resolves the driver with one dlsym and cuGetProcAddress. No symbol of the
 * executable can be interposed on that route; only dlsym can.
 *
 * static_route [ROUNDS]: allocates, fills, reads back and frees in both ways, prints what was wrong.
 */
#include "calls.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned check(const void *device, int value, size_t bytes)
{
  static unsigned char host[65536];
  memset(host, 0, sizeof(host));
  CALL(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost));
  unsigned wrong = 0;
  for (size_t i = 0; i < bytes; i++)
    wrong += host[i] != (unsigned char)value;
  return wrong;
}

int main(int argc, char **argv)
{
  int rounds = argc > 1 ? atoi(argv[1]) : 100;
  unsigned wrong = 0;
  size_t largest = 0;
  for (int i = 0; i < rounds; i++) {
    size_t bytes = (size_t)(i * 7919) % 60000 + 1;
    largest = bytes > largest ? bytes : largest;
    void *plain, *ordered;
    CALL(cudaMalloc(&plain, bytes));
    CALL(cudaMemset(plain, i, bytes));
    CALL(cudaMallocAsync(&ordered, bytes, 0));
    CALL(cudaMemsetAsync(ordered, i + 1, bytes, 0));
    wrong += check(plain, i, bytes);
    wrong += check(ordered, i + 1, bytes);
    CALL(cudaFreeAsync(ordered, 0));
    CALL(cudaFree(plain));
  }
  CALL(cudaDeviceSynchronize());
  printf("static_route: rounds=%d largest=%zu wrong_bytes=%u\n", rounds, largest, wrong);
  return wrong > 0;
}
