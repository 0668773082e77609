/*
 * Shows memory that ends with its context: blocks of a destroyed context are gone without a free, those of
 * another context stay, a new context may get the handle of the old one, and after cudaDeviceReset a program
 * starts afresh. Prints codes by name and no address.
 */
#include "driver_table.h"

#include <cuda_runtime_api.h>
#include <stdio.h>

#define BLOCKS 8
#define WORDS  4096

static driver_table_t driver;

static void show(const char *what, CUresult result)
{
  printf("contexts: %s: %s\n", what, driver_table_error(&driver, result));
}

static void show_runtime(const char *what, cudaError_t error)
{
  printf("contexts: %s: %s\n", what, cudaGetErrorName(error));
  (void)cudaGetLastError(); /* shown already */
}

static void fill(const char *what, CUdeviceptr *blocks, unsigned value)
{
  CUresult result = CUDA_SUCCESS;
  for (int i = 0; i < BLOCKS && result == CUDA_SUCCESS; i++) {
    result = driver.p_cuMemAlloc_v2(&blocks[i], WORDS * sizeof(unsigned));
    if (result == CUDA_SUCCESS)
      result = driver.p_cuMemsetD32_v2(blocks[i], value, WORDS);
  }
  if (result == CUDA_SUCCESS)
    result = driver.p_cuCtxSynchronize(); /* streams of different contexts are not ordered */
  show(what, result);
}

static void check(const char *what, const CUdeviceptr *blocks, unsigned value)
{
  static unsigned host[WORDS];
  unsigned wrong = 0;
  CUresult result = CUDA_SUCCESS;
  for (int i = 0; i < BLOCKS && result == CUDA_SUCCESS; i++) {
    result = driver.p_cuMemcpyDtoH_v2(host, blocks[i], sizeof(host));
    for (int k = 0; k < WORDS; k++)
      wrong += host[k] != value;
  }
  printf("contexts: %s: %s, %u words wrong\n", what, driver_table_error(&driver, result), wrong);
}

static void free_all(const char *what, const CUdeviceptr *blocks)
{
  CUresult result = CUDA_SUCCESS;
  for (int i = 0; i < BLOCKS && result == CUDA_SUCCESS; i++)
    result = driver.p_cuMemFree_v2(blocks[i]);
  show(what, result);
}

static void user_contexts(CUdevice device)
{
  CUcontext a = NULL, b = NULL;
  CUdeviceptr in_a[BLOCKS], in_b[BLOCKS], spare[BLOCKS];
  show("create context a", driver.p_cuCtxCreate_v2(&a, 0, device));
  fill("allocate in a", in_a, 1);
  fill("allocate more in a", spare, 2);
  show("create context b", driver.p_cuCtxCreate_v2(&b, 0, device));
  fill("allocate in b", in_b, 3);
  check("read a's blocks while b is current", in_a, 1);
  free_all("free some of a's blocks while b is current", spare);
  fill("allocate in b again", spare, 4); /* must not be the blocks that belong to a */

  show("destroy a with live blocks", driver.p_cuCtxDestroy_v2(a));
  check("read b's blocks", in_b, 3);
  check("read b's other blocks", spare, 4);
  show("free of a block that went with a", driver.p_cuMemFree_v2(in_a[0]));
  /* Handles and addresses are used again; what the names meant before must not matter */
  for (unsigned i = 0; i < 4; i++) {
    CUcontext again = NULL;
    CUdeviceptr blocks[BLOCKS];
    show("create another context", driver.p_cuCtxCreate_v2(&again, 0, device));
    fill("allocate in it", blocks, 10 + i);
    check("read them", blocks, 10 + i);
    if (i % 2)
      free_all("free them", blocks);
    show("destroy it", driver.p_cuCtxDestroy_v2(again));
  }
  show("make b current", driver.p_cuCtxSetCurrent(b));
  check("read b's blocks", in_b, 3);
  free_all("free b's blocks", in_b);
  show("destroy b with live blocks", driver.p_cuCtxDestroy_v2(b));
  show("make no context current", driver.p_cuCtxSetCurrent(NULL));
}

static void device_reset(void)
{
  void *block = NULL;
  unsigned char byte;
  for (int i = 1; i <= 3; i++) {
    show_runtime("cudaMalloc", cudaMalloc(&block, WORDS));
    show_runtime("cudaMemset", cudaMemset(block, i, WORDS));
    byte = 0;
    show_runtime("cudaMemcpy", cudaMemcpy(&byte, block, 1, cudaMemcpyDeviceToHost));
    printf("contexts: the byte is %d\n", byte);
    if (i == 2)
      show_runtime("cudaFree", cudaFree(block)); /* cached by a pool, if there is one, when the reset comes */
    show_runtime("cudaDeviceReset", cudaDeviceReset());
    show_runtime("cudaFree of a block from before the reset", cudaFree(block));
  }
  show_runtime("cudaMalloc after the last reset", cudaMalloc(&block, WORDS));
  show_runtime("cudaFree", cudaFree(block));
}

int main(void)
{
  CUdevice device = 0;
  if (!driver_table_load(&driver, "contexts"))
    return 1;
  show("cuInit", driver.p_cuInit(0));
  show("cuDeviceGet", driver.p_cuDeviceGet(&device, 0));
  user_contexts(device);
  device_reset();
  return 0;
}
