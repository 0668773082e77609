/*
 * Shows what the driver answers about memory that was freed, and frees without a context and in one that has
 * ended. Prints codes and attributes, no address.
 */
#include <cuda.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BYTES ((size_t)4 << 20)

static CUcontext context;

/* about lies in the block that begins at start. */
static void ask(const char *when, CUdeviceptr about, CUdeviceptr start)
{
  CUdeviceptr base = 0;
  size_t size = 0;
  unsigned type = 77, many_type = 77;
  int ordinal = 77;
  CUcontext owner = NULL;
  CUpointer_attribute list[] = {
      CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_CONTEXT};
  void *data[] = {&many_type, &ordinal, &owner};

  printf("%s:\n", when);
  int code = (int)cuMemGetAddressRange(&base, &size, about);
  printf("  range: %d, %s, %zu bytes\n", code,
      base == start ? "its start"
      : base        ? "another start"
                    : "no start",
      size);
  printf("  range, only asked whether: %d\n", (int)cuMemGetAddressRange(NULL, NULL, about));
  printf("  type: %d", (int)cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, about));
  printf(", %u\n", type);
  printf("  attributes: %d", (int)cuPointerGetAttributes(3, list, data, about));
  printf(", %u, %d, %s\n", many_type, ordinal, owner == context ? "ours" : owner ? "another's" : "none");
}

/* Of freed memory only: of other memory these change how it is treated. */
static void export_freed(CUdeviceptr about)
{
  unsigned on = 1;
  int fd = -1;
  CUipcMemHandle handle;
  CUDA_POINTER_ATTRIBUTE_P2P_TOKENS tokens;

  memset(&tokens, 0, sizeof(tokens));
  printf("  handle: %d\n", (int)cuIpcGetMemHandle(&handle, about));
#if CUDA_VERSION >= 11070
  printf("  file: %d\n",
      (int)cuMemGetHandleForAddressRange(&fd, about, 65536, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
#endif
  if (fd >= 0)
    close(fd);
  printf("  synchronous: %d\n", (int)cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, about));
  printf("  tokens: %d\n", (int)cuPointerGetAttribute(&tokens, CU_POINTER_ATTRIBUTE_P2P_TOKENS, about));
  printf("  free: %d\n", (int)cuMemFree(about));
}

/* The driver finds memory by its address: a free needs no context. */
static void without_context(CUdeviceptr freed)
{
  CUcontext popped;
  CUdeviceptr memory, small;
  void *host;

  printf("alloc: %d\n", (int)cuMemAlloc(&memory, BYTES));
  printf("alloc: %d\n", (int)cuMemAlloc(&small, 1000));
  printf("alloc of the host: %d\n", (int)cuMemAllocHost(&host, BYTES));
  printf("pop: %d\n", (int)cuCtxPopCurrent(&popped));
  printf("without a context: free %d\n", (int)cuMemFree(memory));
  printf("without a context: free of a small block %d\n", (int)cuMemFree(small));
  printf("without a context: free again %d\n", (int)cuMemFree(memory));
  printf("without a context: free of the host %d\n", (int)cuMemFreeHost(host));
  printf("without a context: of freed memory %d\n", (int)cuMemFree(freed));
  printf("without a context: of nothing %d, of no memory %d\n", (int)cuMemFree(0), (int)cuMemFree(4096));
  printf("push: %d\n", (int)cuCtxPushCurrent(popped));
}

/* A context that has ended stays current in threads that used it. */
static void in_ended_context(CUdeviceptr freed)
{
  CUcontext ending = NULL;
  CUdeviceptr memory;

  printf("alloc: %d\n", (int)cuMemAlloc(&memory, BYTES));

#if CUDA_VERSION >= 13000
  int code = (int)cuCtxCreate(&ending, NULL, 0, 0);
#else
  int code = (int)cuCtxCreate(&ending, 0, 0);
#endif
  printf("a second context: %d\n", code);
  printf("pushed again: %d\n", (int)cuCtxPushCurrent(ending));
  printf("ended: %d\n", (int)cuCtxDestroy(ending));
  printf("in an ended context: free %d\n", (int)cuMemFree(memory));
  printf("in an ended context: free of freed memory %d\n", (int)cuMemFree(freed));
  printf("back: %d\n", (int)cuCtxSetCurrent(context));
}

int main(void)
{
  CUdeviceptr live, freed;

  if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) ||
      cuMemAlloc(&live, BYTES) || cuMemAlloc(&freed, 2 * BYTES))
    return 1;
  ask("in use", live, live);
  ask("inside what is in use", live + 512, live);
  printf("free: %d\n", (int)cuMemFree(freed));
  ask("freed", freed, freed);
  export_freed(freed);
  ask("inside what is freed", freed + 512, freed);
  export_freed(freed + 512);
  printf("synchronize: %d\n", (int)cuCtxSynchronize());
  ask("freed, and complete", freed, freed);
  export_freed(freed);
  without_context(freed);
  in_ended_context(freed);
  ask("in use still", live, live);
  printf("free: %d\n", (int)cuMemFree(live));
  printf("free again: %d\n", (int)cuMemFree(live));
  return 0;
}
