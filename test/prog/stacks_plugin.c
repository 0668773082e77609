/*
 * A library that allocates. PLUGIN_FRAME makes the frames of two of them different: who walks the stack
 * through one by the rules of the other, at the same address, goes astray.
 */
#include "stacks_plugin.h"

#include <string.h>

#include <cuda_runtime_api.h>

#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)
#define ALLOCATE    JOIN(PLUGIN_NAME, _allocate)

__attribute__((noinline)) static int ALLOCATE(void)
{
  volatile char frame[PLUGIN_FRAME];
  void *pointer = NULL;
  memset((char *)frame, 0x5a, sizeof(frame));
  int error = cudaMalloc(&pointer, PLUGIN_BYTES);
  error |= cudaFree(pointer);
  error |= cudaDeviceSynchronize();
  return error | (frame[PLUGIN_FRAME - 1] != 0x5a);
}

int plugin_run(void)
{
  int error = ALLOCATE();
  __asm__ volatile("" : "+r"(error)); /* a call, no jump */
  return error;
}
