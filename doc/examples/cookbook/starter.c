/*
 * A starter of doc/cookbook.md: takes 90% of what the device says is free, as inference servers do.
 *
 *   cc -g starter.c -lcudart -o starter
 *   ./starter
 */
#include <cuda_runtime_api.h>
#include <stdio.h>

int main(void)
{
  size_t free_bytes, total_bytes;
  void *memory;
  cudaError_t error = cudaMemGetInfo(&free_bytes, &total_bytes);
  if (error == cudaSuccess) {
    printf("the device has %.1f GiB, of which %.1f are free\n", total_bytes / 0x1p30, free_bytes / 0x1p30);
    error = cudaMalloc(&memory, free_bytes / 10 * 9);
  }
  puts(cudaGetErrorString(error));
  return error != cudaSuccess;
}
