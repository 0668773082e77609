/*
 * Frees memory with work pending, submits an operation that may or may not be one of the default stream, and
 * takes memory again: barriers OPERATION STREAM [ROUNDS].
 *
 * Each round fills a block in the stream, frees it with that work pending, does the operation, allocates a
 * block of that size and fills it in a stream that does not block. Prints in how many rounds the new block
 * was the old one, and, on the simulated GPU with SIMCUDA_ORACLE=1, how many accesses came too early.
 * OPERATION: copy (to the host), copy_own (by the function for the thread's own stream), copy_later and
 * copy_later_own (the same, asynchronous), copy_pinned (from memory of the host), event, event_own (by the
 * function for the thread's own stream), event_handle (by its handle), refused (an event that is none), none.
 * STREAM: own (the thread's), blocking, free (does not block), gone (that was destroyed).
 */
#include <string.h>

#include "owned_blocks.h"

static CUdeviceptr source;
static void *pinned;
static CUevent event;

static void operate(const char *name)
{
  static unsigned char host[BYTES];

  if (strcmp(name, "copy") == 0)
    CALL(cuMemcpyDtoH_v2(host, source, BYTES));
  else if (strcmp(name, "copy_own") == 0)
    CALL(cuMemcpyDtoH_v2_ptds(host, source, BYTES));
  else if (strcmp(name, "copy_later") == 0)
    CALL(cuMemcpyDtoHAsync_v2(host, source, BYTES, NULL));
  else if (strcmp(name, "copy_later_own") == 0)
    CALL(cuMemcpyDtoHAsync_v2_ptsz(host, source, BYTES, NULL));
  else if (strcmp(name, "copy_pinned") == 0)
    CALL(cuMemcpyDtoH_v2(host, (CUdeviceptr)(uintptr_t)pinned, BYTES));
  else if (strcmp(name, "event") == 0)
    CALL(cuEventRecord(event, NULL));
  else if (strcmp(name, "event_own") == 0)
    CALL(cuEventRecord_ptsz(event, NULL));
  else if (strcmp(name, "event_handle") == 0)
    CALL(cuEventRecord(event, CU_STREAM_PER_THREAD));
  else if (strcmp(name, "refused") == 0 && cuEventRecord(NULL, NULL) == CUDA_SUCCESS)
    exit(1);
}

int main(int argc, char **argv)
{
  const char *operation = argc > 1 ? argv[1] : "copy";
  const char *kind = argc > 2 ? argv[2] : "own";
  int rounds = argc > 3 ? atoi(argv[3]) : 40, same = 0;
  int is_gone = strcmp(kind, "gone") == 0;
  unsigned flags = strcmp(kind, "blocking") == 0 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING;
  CUcontext context;
  CUstream stream = CU_STREAM_PER_THREAD, later;

  CALL(cuInit(0));
  CALL(cuCtxCreate_v2(&context, 0, 0));
  CALL(cuStreamCreate(&later, CU_STREAM_NON_BLOCKING));
  CALL(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  CALL(cuMemAlloc_v2(&source, 2 * BYTES));
  CALL(cuMemHostAlloc(&pinned, BYTES, CU_MEMHOSTALLOC_DEVICEMAP));
  if (strcmp(kind, "own") != 0 && !is_gone)
    CALL(cuStreamCreate(&stream, flags));
  find_oracle();
  for (int i = 0; i < rounds; i++) {
    CUdeviceptr first = take(2 * (uint64_t)i + 1);
    if (is_gone)
      CALL(cuStreamCreate(&stream, flags));
    CALL(cuMemsetD8Async(first, 1, BYTES, stream));
    give(first);
    if (is_gone)
      CALL(cuStreamDestroy_v2(stream));
    operate(operation);
    CUdeviceptr second = take(2 * (uint64_t)i + 2);
    same += second == first;
    CALL(cuMemsetD8Async(second, 2, BYTES, later));
    CALL(cuCtxSynchronize());
    give(second);
  }
  int early = early_reuses();
  printf("barriers: %s %s: %d of %d again at once, %d too early\n", operation, kind, same, rounds, early);
  return early > 0;
}
