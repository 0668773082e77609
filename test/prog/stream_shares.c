/*
 * Memory of cudaMallocAsync, and what other processes, devices and contexts may have to do with it. Natively
 * it is of a pool that belongs to no context, and no other process gets it by the older functions.
 *
 * stream_shares WAY
 *   attributes               what the driver says of it
 *   ipc, tokens, sync, file  it is made known outside the process, or marked, and freed
 *   access                   the pool is opened for a second device
 *   context                  it is asked for in the stream of a context that is not current, and ends
 *   refused                  there may be none
 *   pool                     what the pool says of itself as blocks come and go, in MiB
 */
#include <cuda.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BYTES ((size_t)4 << 20)

static CUcontext context;
static CUstream stream;
static CUmemoryPool pool;

static int failed(const char *what, CUresult result)
{
  if (result != CUDA_SUCCESS)
    printf("%s: %d\n", what, (int)result);
  return result != CUDA_SUCCESS;
}
#define FAILED(call) failed(#call, call)

static int take(CUdeviceptr *memory)
{
  return FAILED(cuMemAllocAsync(memory, BYTES, stream)) || FAILED(cuStreamSynchronize(stream));
}

static int give(CUdeviceptr memory)
{
  return FAILED(cuMemFreeAsync(memory, stream));
}

static void tell(const char *which, CUdeviceptr memory)
{
  CUmemoryPool of = NULL;
  CUcontext owner = NULL;
  unsigned is_capable = 0;
  int device = -1;
  (void)cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, memory);
  (void)cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, memory);
  (void)cuPointerGetAttribute(&is_capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, memory);
  (void)cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, memory);
  printf("%s: %s, %s, %s, device %d\n", which,
      !of          ? "no pool"
      : of == pool ? "the pool"
                   : "another pool",
      !owner             ? "no context"
      : owner == context ? "the current context"
                         : "another context",
      is_capable ? "for other processes" : "for this process", device);
}

static int show_attributes(void)
{
  CUdeviceptr memory;
  if (take(&memory))
    return 1;
  tell("memory", memory);
  return give(memory);
}

static int share(const char *way, CUdeviceptr memory)
{
  CUipcMemHandle handle;
  CUDA_POINTER_ATTRIBUTE_P2P_TOKENS tokens;
  unsigned on = 1;
  int fd = -1, result = 0;

  if (strcmp(way, "ipc") == 0)
    return (int)cuIpcGetMemHandle(&handle, memory + 512); /* an inner address stands for the whole */
  if (strcmp(way, "tokens") == 0)
    return (int)cuPointerGetAttribute(&tokens, CU_POINTER_ATTRIBUTE_P2P_TOKENS, memory);
  if (strcmp(way, "sync") == 0)
    return (int)cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory);
#if CUDA_VERSION >= 11070
  result = (int)cuMemGetHandleForAddressRange(&fd, memory, BYTES, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
#endif
  if (fd >= 0)
    close(fd);
  return result;
}

static int share_and_free(const char *way)
{
  CUdeviceptr memory;
  if (take(&memory))
    return 1;
  printf("%s: %d\n", way, share(way, memory));
  return give(memory) || FAILED(cuCtxSynchronize()) || take(&memory) || give(memory);
}

static int open_for_device(void)
{
  CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1},
      .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUdeviceptr before, after;
  if (take(&before))
    return 1;
  tell("before", before);
  access.location.id = 99;
  printf("no such device: %d\n", (int)cuMemPoolSetAccess(pool, &access, 1));
  if (give(before) || take(&before))
    return 1;
  tell("still", before);
  access.location.id = 1;
  if (FAILED(cuMemPoolSetAccess(pool, &access, 1)) || FAILED(cuMemPoolSetAccess(pool, &access, 1)) ||
      take(&after))
    return 1;
  tell("after", after);
  return give(before) || give(after);
}

static int end_context(void)
{
  CUcontext other, pushed;
  CUdeviceptr memory;
#if CUDA_VERSION >= 13000
  if (FAILED(cuCtxCreate(&other, NULL, 0, 0)))
#else
  if (FAILED(cuCtxCreate(&other, 0, 0)))
#endif
    return 1;
  if (FAILED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING)) || FAILED(cuCtxPopCurrent(&pushed)) ||
      FAILED(cuCtxSetCurrent(context)) || take(&memory))
    return 1;
  tell("memory", memory);
  if (FAILED(cuCtxDestroy(other)))
    return 1;
  printf("freed: %d\n", (int)cuMemFree(memory));
  return 0;
}

static int tell_pool(const char *when)
{
  static const CUmemPool_attribute asked[] = {CU_MEMPOOL_ATTR_USED_MEM_CURRENT, CU_MEMPOOL_ATTR_USED_MEM_HIGH,
      CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH};
  printf("%s:", when);
  for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
    cuuint64_t value = 0;
    if (FAILED(cuMemPoolGetAttribute(pool, asked[i], &value)))
      return 1;
    printf(" %d", (int)(value >> 20));
  }
  printf("\n");
  return 0;
}

static int show_pool(void)
{
  CUdeviceptr first, second, other;
  cuuint64_t most = UINT64_MAX, none = 0;

  if (FAILED(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &most)) || take(&first) ||
      take(&second) || tell_pool("taken") || give(first) || tell_pool("one is free") || give(second) ||
      FAILED(cuCtxSynchronize()) || tell_pool("both are") || FAILED(cuMemAlloc(&other, BYTES)) ||
      tell_pool("beside memory of cudaMalloc") || FAILED(cuMemPoolTrimTo(pool, 64 * BYTES)) ||
      tell_pool("trimmed to more") || FAILED(cuMemPoolTrimTo(pool, 0)) || tell_pool("trimmed") ||
      FAILED(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &none)) ||
      FAILED(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &none)) || tell_pool("set back"))
    return 1;
  return FAILED(cuMemFree(other));
}

static int ask(void)
{
  CUdeviceptr memory = 0;
  int result = (int)cuMemAllocAsync(&memory, BYTES, stream);
  printf("memory: %d\n", result);
  return result == CUDA_SUCCESS && give(memory);
}

int main(int argc, char **argv)
{
  CUdevice device;

  if (argc != 2 || cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device) ||
      cuCtxSetCurrent(context) || cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING))
    return 1;
  (void)cuDeviceGetDefaultMemPool(&pool, device);
  if (strcmp(argv[1], "attributes") == 0)
    return show_attributes();
  if (strcmp(argv[1], "access") == 0)
    return open_for_device();
  if (strcmp(argv[1], "pool") == 0)
    return show_pool();
  if (strcmp(argv[1], "context") == 0)
    return end_context();
  return strcmp(argv[1], "refused") == 0 ? ask() : share_and_free(argv[1]);
}
