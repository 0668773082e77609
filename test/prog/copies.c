/*
 * Copies synchronously in the ways that a program has and takes memory again that was freed before: copies
 * CASE [ROUNDS].
 *
 * Each round fills a block in the default stream, frees it with that work pending, copies with cuMemcpyDtoH,
 * allocates a block of that size and fills it in a non-blocking stream. Prints in how many rounds the new
 * block was the old one, and, on the simulated GPU with SIMCUDA_ORACLE=1, how many accesses came too early.
 * CASE: pageable, pinned, registered (the targets that CUDA documents as synchronous), managed, device, io
 * (registered memory of another device), pool (stream-ordered memory), or from_ and one of pinned, registered
 * and managed: to pageable memory from that. own_MODE: as MODE, but the copied memory itself is what is freed
 * and used again.
 */
#include <string.h>

#include "owned_blocks.h"

static unsigned char pageable[BYTES], registered[BYTES] __attribute__((aligned(4096)));

static CUdeviceptr address_of(void *memory)
{
  return (CUdeviceptr)(uintptr_t)memory;
}

static CUdeviceptr place(const char *kind)
{
  CUdeviceptr address = 0;
  void *memory = NULL;

  if (strcmp(kind, "pageable") == 0)
    return address_of(pageable);
  if (strcmp(kind, "pinned") == 0) {
    MUST(cuMemHostAlloc(&memory, BYTES, CU_MEMHOSTALLOC_DEVICEMAP));
    return address_of(memory);
  }
  if (strcmp(kind, "registered") == 0 || strcmp(kind, "io") == 0) {
    unsigned flags = strcmp(kind, "io") == 0 ? CU_MEMHOSTREGISTER_IOMEMORY : 0;
    MUST(cuMemHostRegister_v2(registered, BYTES, flags));
    return address_of(registered);
  }
  if (strcmp(kind, "managed") == 0)
    MUST(cuMemAllocManaged(&address, BYTES, CU_MEM_ATTACH_GLOBAL));
  else if (strcmp(kind, "pool") == 0)
    MUST(cuMemAllocAsync(&address, BYTES, NULL));
  else
    MUST(cuMemAlloc_v2(&address, BYTES));
  return address;
}

int main(int argc, char **argv)
{
  const char *name = argc > 1 ? argv[1] : "pageable";
  int rounds = argc > 2 ? atoi(argv[2]) : 40, same = 0;
  int copies_own = strncmp(name, "own_", 4) == 0;
  int copies_from = strncmp(name, "from_", 5) == 0;
  CUcontext context;
  CUstream stream;

  MUST(cuInit(0));
  MUST(cuCtxCreate_v2(&context, 0, 0));
  MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  find_oracle();
  CUdeviceptr target = place(copies_own ? name + 4 : copies_from ? "pageable" : name);
  CUdeviceptr source = copies_own ? 0 : place(copies_from ? name + 5 : "device");
  for (int i = 0; i < rounds; i++) {
    CUdeviceptr first = take(2 * (uint64_t)i + 1);
    MUST(cuMemsetD8Async(first, 1, BYTES, NULL));
    if (copies_own) {
      MUST(cuStreamSynchronize(NULL)); /* nothing is pending but the copy */
      MUST(cuMemcpyDtoH_v2((void *)(uintptr_t)target, first, BYTES));
      give(first);
    } else {
      give(first);
      MUST(cuMemcpyDtoH_v2((void *)(uintptr_t)target, source, BYTES));
    }
    CUdeviceptr second = take(2 * (uint64_t)i + 2);
    same += second == first;
    MUST(cuMemsetD8Async(second, 2, BYTES, stream));
    MUST(cuCtxSynchronize());
    give(second);
  }
  int early = early_reuses();
  printf("copies: %s: %d of %d again at once, %d too early\n", name, same, rounds, early);
  return early > 0;
}
