/*
 * Shows memory that is made known outside the process, or marked, before it is freed: a process that got it
 * must not find another owner's data there later, so it has to go back to the driver and must not be handed
 * out again.
 *
 * exports WAY [range]: ipc, tokens, token-list, sync, begin, file, retain, or none; range: from where the
 * driver says that the memory begins, after what was allocated before it was freed. Other ways: behind for
 * another process, small allocations that another one precedes, then new ones pieces [whole]  parts of a
 * block, and all of it ranges          where the driver says that memory begins and ends sharing whether the
 * driver says that memory can be shared
 */
#include <cuda.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BYTES ((size_t)4 << 20)
#define PART  (BYTES / 8 + 512) /* its neighbours begin within a page */

static int export_file(CUdeviceptr pointer)
{
  int fd = -1;
  int result = 0;

  /* As libraries do: whole pages, which begin before a small allocation. */
  pointer &= ~(CUdeviceptr)4095;

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
#if CUDA_VERSION >= 11000
  CUmemGenericAllocationHandle physical;
  if (strcmp(way, "retain") == 0) /* its physical memory, which memory of cudaMalloc has none of */
    return (int)cuMemRetainAllocationHandle(&physical, (void *)(uintptr_t)(pointer + 512));
#endif
  return 0;
}

#define SMALL ((size_t)512 << 10)
#define LARGE ((size_t)3 << 20)

/* Each address has to lie in an allocation that begins where the program's does. */
static int print_ranges(void)
{
  static const size_t sizes[] = {1000, 1000, 1000, SMALL, LARGE, LARGE};
  CUdeviceptr pointers[6], base, start;
  CUpointer_attribute list[] = {CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR};
  size_t size, listed;
  void *data[] = {&listed, &start};

  for (int i = 0; i < 6; i++)
    if (cuMemAlloc(&pointers[i], sizes[i]))
      return 1;
  for (int i = 0; i < 6; i++) {
    CUdeviceptr inside = pointers[i] + sizes[i] - 1;
    if (cuMemGetAddressRange(&base, &size, inside) || cuPointerGetAttributes(2, list, data, inside))
      return 1;
    printf("%zu bytes: begins at %lld, %s, listed %s\n", sizes[i], (long long)(base - pointers[i]),
        size < sizes[i]       ? "too small"
        : size < 2 * sizes[i] ? "fits"
                              : "too large",
        start == base && listed == size ? "alike" : "otherwise");
    if (cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, inside) || start != base ||
        cuPointerGetAttribute(&listed, CU_POINTER_ATTRIBUTE_RANGE_SIZE, inside) || listed != size)
      printf("asked by itself: otherwise\n");
  }
  for (int i = 0; i < 6; i++)
    if (cuMemFree(pointers[i]))
      return 1;
  return 0;
}

/* As libraries ask before they export: with the ways that there are (UCX), or by itself (NCCL). */
static void print_sharing(const char *what, CUdeviceptr pointer)
{
  CUpointer_attribute list[] = {
      CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES};
  unsigned with_types = 9, by_itself = 9;
  unsigned long long types;
  void *data[] = {&with_types, &types};

  if (cuPointerGetAttributes(2, list, data, pointer) ||
      cuPointerGetAttribute(&by_itself, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, pointer))
    with_types = 8;
  printf("%s: %u, by itself %u\n", what, with_types, by_itself);
}

static int ask_sharing(void)
{
  CUdeviceptr first, second, third;

  if (cuMemAlloc(&first, SMALL) || cuMemAlloc(&second, SMALL))
    return 1;
  print_sharing("first", first);
  print_sharing("second", second);
  if (cuMemAlloc(&third, SMALL))
    return 1;
  print_sharing("third", third);
  printf("export of the third: %d\n", export_memory("begin", third));
  return cuMemFree(first) || cuMemFree(second) || cuMemFree(third);
}

/* Whole pages at both ends of a block, which the pool may have mapped in pieces; is_whole: all of it, too. */
static int export_pieces(bool is_whole)
{
#if CUDA_VERSION >= 11070
  CUdeviceptr earlier[2], block, next;
  int fd = -1;

  if (cuMemAlloc(&earlier[0], 8 * LARGE) || cuMemAlloc(&earlier[1], 12 * LARGE) || cuMemFree(earlier[0]) ||
      cuMemFree(earlier[1]) || cuCtxSynchronize() || cuMemAlloc(&block, 20 * LARGE))
    return 1;
  const size_t offsets[] = {0, 20 * LARGE - 4096, 0}, bytes[] = {4096, 4096, 20 * LARGE};
  for (int i = 0; i < (is_whole ? 3 : 2); i++) {
    int result = (int)cuMemGetHandleForAddressRange(
        &fd, block + offsets[i], bytes[i], CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
    printf("%zu bytes at %zu: %d\n", bytes[i], offsets[i], result);
    if (result == 0)
      close(fd);
  }
  if (cuMemFree(block) || cuCtxSynchronize() || cuMemAlloc(&next, 20 * LARGE))
    return 1;
  fprintf(stderr, "the next one is %s\n", next == block ? "the exported one" : "another one");
  return cuMemFree(next);
#else
  (void)is_whole;
  return 0;
#endif
}

static int export_behind(const char *way)
{
  CUdeviceptr first, second, third, idle, large[2];

  if (cuMemAlloc(&idle, 3 * LARGE) || cuMemFree(idle) ||
      cuCtxSynchronize()) /* there would be room for both */
    return 1;
  if (cuMemAlloc(&first, SMALL) || cuMemAlloc(&second, SMALL))
    return 1;
  printf("small: %d\n", export_memory(way, second));
  printf("again: %d\n", export_memory(way, second));
  if (cuMemAlloc(&third, SMALL) || cuMemAlloc(&large[0], LARGE) || cuMemAlloc(&large[1], LARGE))
    return 1;
  printf("new: %d\n", export_memory(way, third));
  printf("large: %d\n", export_memory(way, large[1]));
  return cuMemFree(first) || cuMemFree(second) || cuMemFree(third) || cuMemFree(large[0]) ||
         cuMemFree(large[1]);
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
  if (strcmp(argv[1], "ranges") == 0)
    return print_ranges();
  if (strcmp(argv[1], "pieces") == 0)
    return export_pieces(argc == 3);
  if (strcmp(argv[1], "sharing") == 0)
    return ask_sharing();
  if (by_range && cuMemAlloc(&earlier, PART))
    return 1;
  if (cuMemAlloc(&pointer, by_range ? PART : BYTES))
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
