/*
 * Frees memory twice, from two functions, and expects the error that the driver has for that.
 */
#include <cuda_runtime_api.h>
#include <stdio.h>

#define BYTES ((size_t)4 << 20)

__attribute__((noinline)) static int give_back(void *memory)
{
  int code = (int)cudaFree(memory);
  __asm__ volatile(""); /* the call is not the last thing, or its frame would be gone */
  return code;
}

__attribute__((noinline)) static int give_back_again(void *memory)
{
  int code = (int)cudaFree(memory);
  __asm__ volatile("nop");
  return code;
}

int main(void)
{
  void *memory = NULL;
  if (cudaMalloc(&memory, BYTES) != cudaSuccess)
    return 1;
  int first = give_back(memory), second = give_back_again(memory);
  printf("first: %d, second: %d\n", first, second);
  return first != 0 || second == 0;
}
