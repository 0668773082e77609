/*
 * A starter of doc/cookbook.md: takes a share of what the device says is free, 90% or as many as its argument
 * says, as inference servers do, and keeps it for some seconds.
 *
 *   cc -g starter.c -lcudart -o starter
 *   ./starter 90 60
 */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int count, char **arguments)
{
  size_t percent = count > 1 ? strtoul(arguments[1], NULL, 10) : 90;
  size_t free_bytes, total_bytes;
  void *memory;
  cudaError_t error = cudaMemGetInfo(&free_bytes, &total_bytes);
  if (error == cudaSuccess) {
    printf("the device has %.1f GiB, of which %.1f are free\n", total_bytes / 0x1p30, free_bytes / 0x1p30);
    error = cudaMalloc(&memory, free_bytes / 100 * percent);
  }
  if (error == cudaSuccess)
    printf("got %.1f GiB\n", free_bytes / 100 * percent / 0x1p30);
  else
    puts(cudaGetErrorString(error));
  fflush(stdout);
  if (error == cudaSuccess && count > 2)
    sleep((unsigned)strtoul(arguments[2], NULL, 10));
  return error != cudaSuccess;
}
