/*
 * A little of everything that a program does with GPU memory, each step with its result, so that it can be
 * compared line by line when one call in it fails. It goes on after a failure, and what it could not free it
 * tries to free once more: one failed call leaves nothing behind. Prints codes and no address.
 *
 * scenario [FAIL_AT]   with a size: an allocation of it is attempted and expected to fail
 */
#include "calls.h"

#include <stdio.h>
#include <stdlib.h>

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#define KIB 1024u
#define MIB (1024u * KIB)

/* Twice: the second time is not the call that was to fail. */
#define END(call) ((void)(SAY(call) != CUDA_SUCCESS && SAY(call)))

typedef struct block {
  CUdeviceptr address;
  int held;
} block_t;

#define UNTOUCHED 7

static block_t hold(const char *what, CUresult result, CUdeviceptr address)
{
  if (result != CUDA_SUCCESS && address != UNTOUCHED)
    printf("a call that failed stored a pointer\n");
  return (block_t){address, say_result(what, result) == CUDA_SUCCESS};
}

static block_t allocate(size_t bytes)
{
  CUdeviceptr address = UNTOUCHED;
  CUresult result = cuMemAlloc_v2(&address, bytes);
  return hold("cuMemAlloc", result, address);
}

static void release(block_t *block)
{
  if (block->held)
    END(cuMemFree_v2(block->address));
  block->held = 0;
}

static void release_async(block_t *block, CUstream stream)
{
  if (block->held)
    END(cuMemFreeAsync(block->address, stream));
  block->held = 0;
}

/* Misses, hits, deferred memory under work, a double free, pointers that nothing owns. */
static void pooled(CUstream stream)
{
  static const size_t sizes[] = {1, 4 * KIB, 100 * KIB, 1 * MIB, 3 * MIB, 100 * KIB};
  enum { COUNT = sizeof(sizes) / sizeof(sizes[0]) };
  for (int round = 0; round < 3; round++) {
    block_t blocks[COUNT];
    for (int i = 0; i < COUNT; i++) {
      /* In a run of thousands, and touching it all took most of each */
      size_t used = sizes[i] < 64 * KIB ? sizes[i] : 64 * KIB;
      blocks[i] = allocate(sizes[i]);
      if (blocks[i].held)
        SAY(cuMemsetD8Async(blocks[i].address, 1, used, stream));
    }
    for (int i = 0; i < COUNT; i++)
      release(&blocks[i]);
    if (round != 1)
      SAY(cuCtxSynchronize());
  }
  block_t twice = allocate(64 * KIB);
  block_t again = twice;
  release(&twice);
  if (again.held)
    SAY(cuMemFree_v2(again.address));
  SAY(cuMemFree_v2(0x10000));
  SAY(cuMemFree_v2(0));
  (void)allocate(0);
}

static void not_pooled(CUstream stream)
{
  CUdeviceptr address = UNTOUCHED;
  size_t pitch;
  CUresult result = cuMemAllocManaged(&address, 1 * MIB, CU_MEM_ATTACH_GLOBAL);
  block_t managed = hold("cuMemAllocManaged", result, address);
  address = UNTOUCHED;
  result = cuMemAllocPitch_v2(&address, &pitch, 1000, 100, 4);
  block_t pitched = hold("cuMemAllocPitch", result, address);
  address = UNTOUCHED;
  result = cuMemAllocAsync(&address, 2 * MIB, stream);
  block_t ordered = hold("cuMemAllocAsync", result, address);
  address = UNTOUCHED;
  result = cuMemAllocAsync_ptsz(&address, 1 * MIB, NULL);
  block_t own = hold("cuMemAllocAsync_ptsz", result, address);
  block_t plain = allocate(200 * KIB);
  release(&managed);
  release(&pitched);
  release_async(&ordered, stream);
  release_async(&own, CU_STREAM_PER_THREAD);
  SAY(cuStreamSynchronize(stream));
  release_async(&plain, stream);
  SAY(cuCtxSynchronize());
}

static void exported(void)
{
  CUipcMemHandle handle;
  unsigned on = 1;
  block_t shared = allocate(2 * MIB), marked = allocate(2 * MIB);
  if (shared.held)
    SAY(cuIpcGetMemHandle(&handle, shared.address));
  if (marked.held)
    SAY(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, marked.address));
  release(&shared);
  release(&marked);
}

static void captured(CUstream stream)
{
  CUgraph graph = NULL;
  block_t before = allocate(100 * KIB);
  if (SAY(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED)) == CUDA_SUCCESS) {
    block_t during = allocate(100 * KIB);
    release(&before);
    END(cuStreamEndCapture(stream, &graph));
    release(&during);
  }
  release(&before);
  if (graph)
    END(cuGraphDestroy(graph));
  CUstream gone = NULL;
  if (SAY(cuStreamCreate(&gone, CU_STREAM_NON_BLOCKING)) == CUDA_SUCCESS) {
    SAY(cuStreamBeginCapture_v2(gone, CU_STREAM_CAPTURE_MODE_RELAXED));
    END(cuStreamDestroy_v2(gone));
  }
}

/* Another context of its own with live memory, and the device's primary one twice. */
static void contexts(CUcontext first)
{
  CUcontext other = NULL;
  if (SAY(cuCtxCreate_v2(&other, 0, 0)) == CUDA_SUCCESS) {
    block_t left = allocate(300 * KIB), freed = allocate(300 * KIB);
    (void)left; /* goes with its context */
    release(&freed);
    END(cuCtxDestroy_v2(other));
    SAY(cuCtxSetCurrent(first));
  }
  for (int i = 0; i < 2; i++) {
    if (SAY(cuDevicePrimaryCtxRetain(&other, 0)) != CUDA_SUCCESS)
      continue;
    if (SAY(cuCtxPushCurrent_v2(other)) == CUDA_SUCCESS) {
      block_t left = allocate(500 * KIB);
      (void)left; /* likewise */
      END(cuCtxPopCurrent_v2(&other));
    }
    END(cuDevicePrimaryCtxRelease_v2(0));
  }
}

/* Memory that is found by a handle. */
static void with_handles(void)
{
  CUDA_ARRAY_DESCRIPTOR flat = {.Width = 256, .Height = 256, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
  CUDA_ARRAY3D_DESCRIPTOR deep = {
      .Width = 64, .Height = 64, .Depth = 16, .Format = CU_AD_FORMAT_HALF, .NumChannels = 2};
  CUarray array = NULL;
  CUmipmappedArray mipmap = NULL;
  if (SAY(cuArrayCreate_v2(&array, &flat)) == CUDA_SUCCESS)
    END(cuArrayDestroy(array));
  if (SAY(cuArray3DCreate_v2(&array, &deep)) == CUDA_SUCCESS)
    END(cuArrayDestroy(array));
  if (SAY(cuMipmappedArrayCreate(&mipmap, &deep, 3)) == CUDA_SUCCESS)
    END(cuMipmappedArrayDestroy(mipmap));
}

/* Memory that is released while it is mapped. */
static void mapped(void)
{
  const size_t bytes = 2 * MIB;
  CUmemAllocationProp properties = {
      .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
  CUmemGenericAllocationHandle handle = 0, again = 0;
  CUdeviceptr address = 0;
  int is_mapped = 0;
  if (SAY(cuMemCreate(&handle, bytes, &properties, 0)) != CUDA_SUCCESS)
    return;
  if (SAY(cuMemAddressReserve(&address, bytes, 0, 0, 0)) == CUDA_SUCCESS)
    is_mapped = SAY(cuMemMap(address, bytes, 0, handle, 0)) == CUDA_SUCCESS;
  END(cuMemRelease(handle));
  if (is_mapped && SAY(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)address)) == CUDA_SUCCESS)
    END(cuMemRelease(again));
  if (is_mapped)
    END(cuMemUnmap(address, bytes));
  if (address)
    END(cuMemAddressFree(address, bytes));
}

/* A memory pool of the program's, which goes before its last memory. */
static void own_pool(CUstream stream)
{
  CUmemPoolProps properties = {
      .allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
  CUmemoryPool pool = NULL;
  CUdeviceptr address = UNTOUCHED;
  if (SAY(cuMemPoolCreate(&pool, &properties)) != CUDA_SUCCESS)
    return;
  CUresult result = cuMemAllocFromPoolAsync(&address, 1 * MIB, pool, stream);
  block_t block = hold("cuMemAllocFromPoolAsync", result, address);
  END(cuMemPoolDestroy(pool));
  release_async(&block, stream);
  SAY(cuStreamSynchronize(stream));
}

static void of_the_host(void)
{
  static char own[64 * KIB] __attribute__((aligned(4096)));
  void *memory = NULL;
  if (SAY(cuMemHostAlloc(&memory, 1 * MIB, 0)) == CUDA_SUCCESS)
    END(cuMemFreeHost(memory));
  if (SAY(cuMemHostRegister_v2(own, sizeof(own), 0)) == CUDA_SUCCESS)
    END(cuMemHostUnregister(own));
}

/* A graph that allocates and frees, launched twice. */
static void graph_memory(CUstream stream)
{
  CUgraph graph = NULL;
  CUgraphExec exec = NULL;
  CUgraphNode alloc, end;
  CUDA_MEM_ALLOC_NODE_PARAMS parameters = {.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                               .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}},
      .bytesize = 1 * MIB};
  if (SAY(cuGraphCreate(&graph, 0)) != CUDA_SUCCESS)
    return;
  if (SAY(cuGraphAddMemAllocNode(&alloc, graph, NULL, 0, &parameters)) == CUDA_SUCCESS &&
      SAY(cuGraphAddMemFreeNode(&end, graph, &alloc, 1, parameters.dptr)) == CUDA_SUCCESS &&
      SAY(cuGraphInstantiateWithFlags(&exec, graph, 0)) == CUDA_SUCCESS) {
    SAY(cuGraphLaunch(exec, stream));
    SAY(cuGraphLaunch(exec, stream));
    SAY(cuStreamSynchronize(stream));
    END(cuGraphExecDestroy(exec));
  }
  END(cuGraphDestroy(graph));
  END(cuDeviceGraphMemTrim(0));
}

/* Facts about single streams. */
static void facts(CUstream stream)
{
  CUevent event = NULL;
  unsigned char byte;
  block_t block = allocate(100 * KIB);
  if (SAY(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING)) == CUDA_SUCCESS) {
    if (block.held)
      SAY(cuMemsetD8Async(block.address, 2, 100 * KIB, stream));
    /* A question before the wait has succeeded has no certain answer. */
    if (SAY(cuEventRecord(event, stream)) == CUDA_SUCCESS && SAY(cuEventSynchronize(event)) == CUDA_SUCCESS)
      SAY(cuEventQuery(event));
    END(cuEventDestroy_v2(event));
  }
  if (SAY(cuStreamSynchronize(stream)) == CUDA_SUCCESS)
    SAY(cuStreamQuery(stream));
  if (block.held)
    SAY(cuMemcpyDtoH_v2(&byte, block.address, 1));
  release(&block);
  block_t next = allocate(100 * KIB);
  release(&next);
}

static void out_of_memory(size_t bytes)
{
  size_t available, total;
  block_t held = allocate(4 * MIB);
  SAY(cuMemGetInfo_v2(&available, &total));
  if (bytes) {
    block_t too_much = allocate(bytes);
    release(&too_much);
  }
  release(&held);
  SAY(cuMemGetInfo_v2(&available, NULL));
}

int main(int argc, char **argv)
{
  CUcontext context = NULL;
  CUstream stream = NULL;
  if (SAY(cuInit(0)) != CUDA_SUCCESS && SAY(cuInit(0)) != CUDA_SUCCESS)
    return 1;
  if (SAY(cuCtxCreate_v2(&context, 0, 0)) != CUDA_SUCCESS &&
      SAY(cuCtxCreate_v2(&context, 0, 0)) != CUDA_SUCCESS)
    return 1;
  SAY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  pooled(stream);
  not_pooled(stream);
  with_handles();
  mapped();
  own_pool(stream);
  of_the_host();
  graph_memory(stream);
  facts(stream);
  exported();
  captured(stream);
  contexts(context);
  out_of_memory(argc > 1 ? strtoull(argv[1], NULL, 10) : 0);
  pooled(NULL);
  END(cuCtxDestroy_v2(context));
  return 0;
}
