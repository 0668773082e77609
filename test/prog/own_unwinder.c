/*
 * A program that brings an unwinder of its own, whose functions have the names of libunwind's and are visible
 * to every library: one that is only good for what this program does with it.
 */
#include <stdio.h>
#include <stdlib.h>

#include <cuda_runtime_api.h>

#define NAMES                                                                                                \
  NAME(backtrace)                                                                                            \
  NAME(unw_backtrace)                                                                                        \
  NAME(_ULx86_64_step)                                                                                       \
  NAME(_ULx86_64_init_local)                                                                                 \
  NAME(_ULx86_64_set_caching_policy)                                                                         \
  NAME(_Ux86_64_getcontext)

#define NAME(name)                                                                                           \
  int name(void);                                                                                            \
  int name(void)                                                                                             \
  {                                                                                                          \
    fprintf(stderr, "a module calls " #name "\n");                                                           \
    abort();                                                                                                 \
  }
NAMES
#undef NAME

int main(void)
{
  for (int i = 0; i < 100; i++) {
    void *pointer = NULL;
    if (cudaMalloc(&pointer, 1000) != cudaSuccess || cudaFree(pointer) != cudaSuccess ||
        cudaDeviceSynchronize() != cudaSuccess)
      return 1;
  }
  printf("done\n");
  return 0;
}
