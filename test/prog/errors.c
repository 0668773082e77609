/*
 * Shows every documented way in which allocation calls fail, and what is left in the runtime's error state.
 * Prints codes by name and no address, so that the output with and without a preloaded library can be
 * compared by line.
 */
#include "driver_table.h"

#include <cuda_runtime_api.h>
#include <stdint.h>
#include <stdio.h>

#define MIB (1024u * 1024)

static driver_table_t driver;
static const size_t huge_sizes[] = {
    (size_t)1 << 50, SIZE_MAX / 2, SIZE_MAX - 2 * MIB, SIZE_MAX - 511, SIZE_MAX};

static void show_driver(const char *what, CUresult result)
{
  printf("driver: %s: %s\n", what, driver_table_error(&driver, result));
}

/* The error state is read twice: reading clears an error that the context survives. */
static void show(const char *what, cudaError_t error)
{
  cudaError_t peeked = cudaPeekAtLastError(), first = cudaGetLastError(), second = cudaGetLastError();
  printf("runtime: %s: %s (peek %s, last %s, then %s)\n", what, cudaGetErrorName(error),
      cudaGetErrorName(peeked), cudaGetErrorName(first), cudaGetErrorName(second));
}

static const char *yes(int condition)
{
  return condition ? "yes" : "no";
}

static void driver_without_context(const char *when)
{
  char what[64];
  CUdeviceptr memory = 0;
  size_t available, total;
  snprintf(what, sizeof(what), "alloc %s", when);
  show_driver(what, driver.p_cuMemAlloc_v2(&memory, MIB));
  snprintf(what, sizeof(what), "alloc of 0 %s", when);
  show_driver(what, driver.p_cuMemAlloc_v2(&memory, 0));
  snprintf(what, sizeof(what), "free of an unknown pointer %s", when);
  show_driver(what, driver.p_cuMemFree_v2(0x10000));
  snprintf(what, sizeof(what), "memory info %s", when);
  show_driver(what, driver.p_cuMemGetInfo_v2(&available, &total));
}

static void driver_memory_info(void)
{
  size_t available = 0, total = 0, held = 0, after = 0;
  CUdeviceptr memory = 0;
  show_driver("memory info", driver.p_cuMemGetInfo_v2(&available, &total));
  printf("driver: free is not above total: %s\n", yes(available <= total && total > 0));
  show_driver("memory info without total", driver.p_cuMemGetInfo_v2(&available, NULL));
  show_driver("memory info without free", driver.p_cuMemGetInfo_v2(NULL, &total));
  show_driver("memory info without both", driver.p_cuMemGetInfo_v2(NULL, NULL));
  show_driver("alloc of 64 MiB", driver.p_cuMemAlloc_v2(&memory, 64 * MIB));
  show_driver("memory info", driver.p_cuMemGetInfo_v2(&held, &total));
  show_driver("free", driver.p_cuMemFree_v2(memory));
  show_driver("memory info", driver.p_cuMemGetInfo_v2(&after, &total));
  printf("driver: the block was counted: %s, and no longer: %s\n", yes(available - held >= 64 * MIB),
      yes(after >= available));
}

static void driver_errors(void)
{
  CUdeviceptr memory = 0;
  show_driver("alloc of 0", driver.p_cuMemAlloc_v2(&memory, 0));
  show_driver("alloc to NULL", driver.p_cuMemAlloc_v2(NULL, MIB));
  for (size_t i = 0; i < sizeof(huge_sizes) / sizeof(huge_sizes[0]); i++) {
    memory = 1;
    show_driver("alloc of a huge size", driver.p_cuMemAlloc_v2(&memory, huge_sizes[i]));
    show_driver(
        "stream-ordered alloc of a huge size", driver.p_cuMemAllocAsync(&memory, huge_sizes[i], NULL));
  }
  show_driver("stream-ordered alloc of 0", driver.p_cuMemAllocAsync(&memory, 0, NULL));
  show_driver("stream-ordered alloc to NULL", driver.p_cuMemAllocAsync(NULL, MIB, NULL));
  show_driver("free of 0", driver.p_cuMemFree_v2(0));
  show_driver("free of an unknown pointer", driver.p_cuMemFree_v2(0x10000));

  show_driver("alloc", driver.p_cuMemAlloc_v2(&memory, 4 * MIB));
  show_driver("free of an interior pointer", driver.p_cuMemFree_v2(memory + 2 * MIB));
  show_driver("free one byte in", driver.p_cuMemFree_v2(memory + 1));
  show_driver("free", driver.p_cuMemFree_v2(memory));
  show_driver("free again", driver.p_cuMemFree_v2(memory));
  show_driver("stream-ordered free after it", driver.p_cuMemFreeAsync(memory, NULL));
  driver_memory_info();
}

static void runtime_plain(void)
{
  void *memory = (void *)1;
  show("cudaFree(NULL)", cudaFree(NULL));
  cudaError_t error = cudaMalloc(&memory, 0);
  show("cudaMalloc of 0", error);
  if (error == cudaSuccess) {
    printf("runtime: it gave NULL: %s\n", yes(!memory));
    show("cudaFree of it", cudaFree(memory));
  }
  show("cudaMalloc to NULL", cudaMalloc(NULL, MIB));
  for (size_t i = 0; i < sizeof(huge_sizes) / sizeof(huge_sizes[0]); i++)
    show("cudaMalloc of a huge size", cudaMalloc(&memory, huge_sizes[i]));

  show("cudaMalloc", cudaMalloc(&memory, 4 * MIB));
  show("cudaFree of an interior pointer", cudaFree((char *)memory + 2 * MIB));
  show("cudaFree one byte in", cudaFree((char *)memory + 1));
  show("cudaMemset after that", cudaMemset(memory, 1, 4 * MIB));
  show("cudaFree", cudaFree(memory));
  show("cudaFree again", cudaFree(memory));
  show("cudaFree of an unknown pointer", cudaFree((void *)0x10000));
  static int host;
  show("cudaFree of host memory", cudaFree(&host));

  /* An error stays until it is read, whatever succeeds in between */
  (void)cudaMalloc(&memory, huge_sizes[0]);
  cudaError_t between = cudaMalloc(&memory, MIB);
  cudaError_t freed = cudaFree(memory);
  printf("runtime: after a failure cudaMalloc gives %s and cudaFree %s\n", cudaGetErrorName(between),
      cudaGetErrorName(freed));
  show("that failure", cudaSuccess);
}

static void runtime_ordered(void)
{
  void *memory = NULL;
  for (size_t i = 0; i < sizeof(huge_sizes) / sizeof(huge_sizes[0]); i++)
    show("cudaMallocAsync of a huge size", cudaMallocAsync(&memory, huge_sizes[i], 0));
  show("cudaMallocAsync to NULL", cudaMallocAsync(NULL, MIB, 0));
  show("cudaMallocAsync", cudaMallocAsync(&memory, MIB, 0));
  show("cudaFreeAsync", cudaFreeAsync(memory, 0));
  show("cudaFreeAsync again", cudaFreeAsync(memory, 0));
  show("cudaFreeAsync of an unknown pointer", cudaFreeAsync((void *)0x10000, 0));
  show("cudaMallocAsync", cudaMallocAsync(&memory, MIB, 0));
  show("cudaDeviceSynchronize", cudaDeviceSynchronize());
  show("cudaFree of it", cudaFree(memory));
  show("cudaFree of it again", cudaFree(memory));
  show("cudaMalloc", cudaMalloc(&memory, MIB));
  show("cudaFreeAsync of it", cudaFreeAsync(memory, 0));
  show("cudaDeviceSynchronize", cudaDeviceSynchronize());
}

int main(void)
{
  if (!driver_table_load(&driver, "errors"))
    return 1;
  driver_without_context("before cuInit");
  show_driver("cuInit", driver.p_cuInit(0));
  driver_without_context("without a context");

  CUdevice device = 0;
  CUcontext context = NULL;
  show_driver("cuDeviceGet", driver.p_cuDeviceGet(&device, 0));
  show_driver("cuDevicePrimaryCtxRetain", driver.p_cuDevicePrimaryCtxRetain(&context, device));
  show_driver("cuCtxSetCurrent", driver.p_cuCtxSetCurrent(context));
  driver_errors();
  runtime_plain();
  runtime_ordered();

  size_t available = 0, total = 0;
  show("cudaMemGetInfo", cudaMemGetInfo(&available, &total));
  printf("runtime: free is not above total: %s\n", yes(available <= total && total > 0));
  return 0;
}
