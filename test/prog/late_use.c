/*
 * late_use MEMORY GATE: memory of cuMemAlloc ("plain") or cuMemAllocAsync ("ordered") is freed by
 * cuMemFreeAsync in a stream that waits for the host, and used in another stream until the host lets it go
 * on. "The allocation must not be accessed after stream execution reaches the free" (cuda.h): that is legal.
 * What the stream waits for: a kernel in it ("kernel"), an event behind such a kernel ("event"), or one that
 * another process has recorded ("process"), so that nothing of this process is in front of the free.
 *
 * Meanwhile memory of that size is asked for: in that stream, where it may be the same memory, since its use
 * is ordered behind the free; and elsewhere, where it must not be. Prints which it was. The simulated
 * driver's oracle judges.
 */
#include "waiting.h"

#include <dlfcn.h>

enum { BYTES = 4 << 20, ROUNDS = 3, FREED = 1 };

static void (*own)(uint64_t address, uint64_t bytes, uint64_t owner);
static void (*disown)(uint64_t address);
static void (*late)(uint64_t owner);
static void (*writes)(const volatile void *flag);
static int (*unseen_event)(void **event, const volatile void *flag);

static volatile uint32_t *flag;
static CUfunction fill;
static CUstream freeing, other;
static uint64_t owners = FREED;
static bool is_async;

static void use(CUdeviceptr block, CUstream stream)
{
  uint64_t words = 64, value = 7;
  void *parameters[] = {&block, &words, &value};
  CALL(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
}

static void use_late(CUdeviceptr block)
{
  late(FREED);
  use(block, waiting_work);
  late(UINT64_MAX);
  CALL(cuStreamSynchronize(waiting_work));
}

static void launch_wait(CUstream stream)
{
  void *parameters[] = {(void *)&flag};
  CALL(cuLaunchKernel(waiting_function("simcuda_wait"), 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
}

static void hold_up(const char *gate)
{
  CUstream waiting = freeing;
  CUevent event;

  if (strcmp(gate, "process") == 0)
    CALL((CUresult)unseen_event((void **)&event, flag));
  else if (strcmp(gate, "event") == 0)
    CALL(cuStreamCreate(&waiting, CU_STREAM_NON_BLOCKING));
  if (strcmp(gate, "process") != 0)
    launch_wait(waiting);
  if (strcmp(gate, "event") == 0) {
    CALL(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CALL(cuEventRecord(event, waiting));
  }
  if (strcmp(gate, "kernel") != 0)
    CALL(cuStreamWaitEvent(freeing, event, 0));
}

/* stream NULL: of cuMemAlloc, used in `other`. */
static CUdeviceptr take(CUstream stream)
{
  CUdeviceptr block;
  if (stream)
    CALL(cuMemAllocAsync(&block, BYTES, stream));
  else
    CALL(cuMemAlloc_v2(&block, BYTES));
  own(block, BYTES, ++owners);
  use(block, stream ? stream : other);
  return block;
}

static void find(void)
{
  *(void **)&own = dlsym(RTLD_DEFAULT, "simcuda_own");
  *(void **)&disown = dlsym(RTLD_DEFAULT, "simcuda_disown");
  *(void **)&late = dlsym(RTLD_DEFAULT, "simcuda_late");
  *(void **)&writes = dlsym(RTLD_DEFAULT, "simcuda_writes");
  *(void **)&unseen_event = dlsym(RTLD_DEFAULT, "simcuda_unseen_event");
  if (!own || !disown || !late || !writes || !unseen_event) {
    puts("not the simulated driver");
    exit(1);
  }
}

int main(int argc, char **argv)
{
  CUdeviceptr block, again[ROUNDS][3];
  bool in_order = false, elsewhere = false;
  void *page;

  if (argc != 3)
    return 2;
  find();
  waiting_setup();
  is_async = strcmp(argv[1], "ordered") == 0;
  fill = waiting_function("simcuda_fill");
  CALL(cuMemHostAlloc(&page, 4096, 0));
  flag = page;
  *flag = 0;
  CALL(cuStreamCreate(&freeing, CU_STREAM_NON_BLOCKING));
  CALL(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  if (is_async)
    CALL(cuMemAllocAsync(&block, BYTES, waiting_work));
  else
    block = waiting_take(BYTES);
  own(block, BYTES, FREED);
  use(block, waiting_work);
  CALL(cuStreamSynchronize(waiting_work));
  hold_up(argv[2]);
  disown(block);
  CALL(cuMemFreeAsync(block, freeing));
  for (int i = 0; i < ROUNDS; i++) {
    use_late(block);
    again[i][0] = take(NULL);
    again[i][1] = take(other);
    again[i][2] = take(freeing);
    CALL(cuStreamSynchronize(other));
    elsewhere |= again[i][0] == block || again[i][1] == block;
    in_order |= again[i][2] == block;
  }
  use_late(block);
  writes(flag);
  *flag = 1;
  CALL(cuCtxSynchronize());
  for (int i = 0; i < 3 * ROUNDS; i++) {
    disown(again[i / 3][i % 3]);
    CALL(cuMemFree_v2(again[i / 3][i % 3]));
  }
  printf(
      "in order: %s; elsewhere: %s\n", in_order ? "the same" : "another", elsewhere ? "the same" : "another");
  return 0;
}
