/*
 * Shows in which stream both forms of cuLaunchKernelEx submit work when they name none: launch_forms
 * legacy|own. A kernel runs there until the program stops it. Memory that was freed behind it is asked for
 * again once the other of the two streams is known to be complete.
 *
 * early: how often that memory was handed out while the kernel was pending.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#define BYTES  (1u << 16)
#define ROUNDS 20

#define CALL(call)                                                                                           \
  do {                                                                                                       \
    CUresult result_ = (call);                                                                               \
    if (result_ != CUDA_SUCCESS) {                                                                           \
      printf("%s: %d\n", #call, (int)result_);                                                               \
      exit(1);                                                                                               \
    }                                                                                                        \
  } while (0)

static CUdeviceptr take(void)
{
  CUdeviceptr block;
  CALL(cuMemAlloc_v2(&block, BYTES));
  return block;
}

int main(int argc, char **argv)
{
  static const unsigned char image[4] = {0};
  bool is_own = argc == 2 && strcmp(argv[1], "own") == 0;
  int early = 0;
  CUcontext context;
  CUmodule module;
  CUfunction waiting;
  void *host;

  if (argc != 2 || (!is_own && strcmp(argv[1], "legacy") != 0)) {
    fputs("usage: launch_forms legacy|own\n", stderr);
    return 2;
  }
  CALL(cuInit(0));
  CALL(cuDevicePrimaryCtxRetain(&context, 0));
  CALL(cuCtxSetCurrent(context));
  CALL(cuModuleLoadData(&module, image));
  CALL(cuModuleGetFunction(&waiting, module, "simcuda_wait"));
  CALL(cuMemHostAlloc(&host, 4096, 0));
  volatile uint32_t *flag = host;
  for (int i = 0; i < ROUNDS; i++) {
    CUdeviceptr used = take();
    void *parameters[] = {(void *)&flag};
    CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, NULL, NULL, 0};
    *flag = 0;
    CALL(is_own ? cuLaunchKernelEx_ptsz(&config, waiting, parameters, NULL)
                : cuLaunchKernelEx(&config, waiting, parameters, NULL));
    CALL(cuMemFree_v2(used));
    CALL(cuStreamQuery(is_own ? CU_STREAM_LEGACY : CU_STREAM_PER_THREAD));
    CUdeviceptr next = take();
    early += next == used;
    *flag = 1;
    CALL(cuCtxSynchronize());
    CALL(cuMemFree_v2(next));
    CALL(cuCtxSynchronize());
  }
  printf("early=%d\n", early);
  return 0;
}
