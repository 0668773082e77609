#include "work.h"

#include <stdio.h>

#define WORDS 4096

static unsigned wrong_words(const route_t *route, CUdeviceptr block, unsigned value)
{
  static unsigned host[WORDS];
  unsigned wrong = 0;

  if (route->read(host, block, sizeof(host)) != CUDA_SUCCESS)
    return WORDS;
  for (size_t i = 0; i < WORDS; i++)
    wrong += host[i] != value;
  return wrong;
}

int route_work(const route_t *route, const char *name)
{
  CUdevice device;
  CUcontext context;
  CUdeviceptr plain[ROUTE_BLOCKS], ordered;
  size_t before = 0, during = 0, total = 0;
  unsigned allocations = 0, wrong = 0;

  if (route->init(0) || route->device(&device, 0) || route->retain(&context, device) || route->set(context)) {
    printf("%s: no device\n", name);
    return 1;
  }
  for (unsigned round = 0; round < ROUTE_ROUNDS; round++) {
    wrong += route->info(&before, &total) != CUDA_SUCCESS;
    for (unsigned i = 0; i < ROUTE_BLOCKS; i++) {
      if (route->alloc(&plain[i], (size_t)(i + 1) << 20) != CUDA_SUCCESS)
        return 1;
      allocations++;
      wrong += route->fill(plain[i], round * 100 + i, WORDS, NULL) != CUDA_SUCCESS;
    }
    if (route->alloc_async(&ordered, sizeof(unsigned) * WORDS, NULL) != CUDA_SUCCESS)
      return 1;
    allocations++;
    wrong += route->fill(ordered, round + 7, WORDS, NULL) != CUDA_SUCCESS;
    wrong += route->info(&during, &total) != CUDA_SUCCESS || during >= before || before > total;
    wrong += wrong_words(route, ordered, round + 7);
    wrong += route->free_async(ordered, NULL) != CUDA_SUCCESS;
    for (unsigned i = 0; i < ROUTE_BLOCKS; i++) {
      wrong += wrong_words(route, plain[i], round * 100 + i);
      wrong += route->free(plain[i]) != CUDA_SUCCESS;
    }
    wrong += route->synchronize() != CUDA_SUCCESS;
  }
  wrong += route->free(1 << 12) == CUDA_SUCCESS; /* never allocated: the driver's error */
  printf("%s: allocations=%u wrong=%u\n", name, allocations, wrong);
  return wrong > 0;
}
