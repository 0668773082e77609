/*
 * Shows memory that is made known outside the process, or marked, before it is freed: a process that got it
 * must not find another owner's data there later, so it has to go back to the driver and must not be handed
 * out again.
 *
 * exports WAY [range]: ipc, tokens, token-list, sync, begin, file, or none; behind: for another process, a
 * small allocation that another one precedes, and then a large one; range: from where the driver says that
 * the memory begins, after what was allocated before it was freed
 */
#include <cuda.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BYTES ((size_t)4 << 20)

static int export_file(CUdeviceptr pointer)
{
  int fd = -1;
  int result = 0;

#if CUDA_VERSION >= 11070
  result = (int)cuMemGetHandleForAddressRange(&fd, pointer, 65536, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
#endif
  if (fd >= 0)
    close(fd);
  return result;
}

static int export_memory(const char *way, CUdeviceptr pointer)
{
  CUipcMemHandle handle;
  CUDA_POINTER_ATTRIBUTE_P2P_TOKENS tokens;
  CUpointer_attribute list[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_P2P_TOKENS};
  unsigned type, on = 1;
  void *data[] = {&type, &tokens};

  if (strcmp(way, "behind") == 0 || strcmp(way, "begin") == 0)
    return (int)cuIpcGetMemHandle(&handle, pointer);
  if (strcmp(way, "ipc") == 0)
    return (int)cuIpcGetMemHandle(&handle, pointer + 512); /* an inner address stands for the whole */
  if (strcmp(way, "tokens") == 0)
    return (int)cuPointerGetAttribute(&tokens, CU_POINTER_ATTRIBUTE_P2P_TOKENS, pointer);
  if (strcmp(way, "token-list") == 0)
    return (int)cuPointerGetAttributes(2, list, data, pointer);
  if (strcmp(way, "sync") == 0)
    return (int)cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, pointer);
  if (strcmp(way, "file") == 0)
    return export_file(pointer);
  return 0;
}

#define SMALL ((size_t)512 << 10)
#define LARGE ((size_t)3 << 20)

static int export_behind(const char *way)
{
  CUdeviceptr first, second, idle, large[2];

  if (cuMemAlloc(&idle, 3 * LARGE) || cuMemFree(idle) ||
      cuCtxSynchronize()) /* there would be room for both */
    return 1;
  if (cuMemAlloc(&first, SMALL) || cuMemAlloc(&second, SMALL))
    return 1;
  printf("small: %d\n", export_memory(way, second));
  if (cuMemAlloc(&large[0], LARGE) || cuMemAlloc(&large[1], LARGE))
    return 1;
  printf("large: %d\n", export_memory(way, large[1]));
  return cuMemFree(first) || cuMemFree(second) || cuMemFree(large[0]) || cuMemFree(large[1]);
}

int main(int argc, char **argv)
{
  CUdevice device;
  CUcontext context;
  CUdeviceptr earlier, pointer, begin;
  size_t size;
  bool by_range = argc == 3 && strcmp(argv[2], "range") == 0;

  if (argc < 2 || cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device) ||
      cuCtxSetCurrent(context))
    return 1;
  if (strcmp(argv[1], "behind") == 0)
    return export_behind(argv[1]);
  if (by_range && cuMemAlloc(&earlier, BYTES / 8))
    return 1;
  if (cuMemAlloc(&pointer, by_range ? BYTES / 8 : BYTES))
    return 1;
  begin = pointer;
  if (by_range && (cuMemFree(earlier) || cuCtxSynchronize() || cuMemGetAddressRange(&begin, &size, pointer)))
    return 1;
  int result = export_memory(argv[1], begin);
  printf("%s: %d\n", argv[1], result);
  if (cuMemFree(pointer) || cuCtxSynchronize() || cuMemAlloc(&pointer, BYTES) || cuMemFree(pointer))
    return 1;
  return 0;
}
