/*
 * Does what its arguments say, one step each, and goes on where memory is refused: a remedy that is a change
 * of the program is another argument. Who holds memory is a function of its own: load, grow or pass.
 *
 *   OWNER:BYTES[:COUNT[:MORE]]  allocates COUNT blocks, each MORE bytes larger than the one before
 *   free:OWNER[:COUNT]          frees the newest of its blocks; without COUNT all
 *   turn:OWNER:BYTES:COUNT:MORE the same as OWNER, and frees each block before the next
 *   device:N                    what follows is on that device
 *   use:OWNER                   work in a stream uses its blocks
 *   busy:NS                     a kernel in that stream runs so long
 *   synchronize                 the current device; stream: only that stream
 *   capture, end                captures that stream, relaxed
 *   sleep:SECONDS
 *
 * The last line is "refused=N": how many allocations failed.
 */
#include <unistd.h>

#include "waiting.h"

#define BLOCKS  4096
#define OWNERS  3
#define DEVICES 16

typedef struct owner {
  const char *name;
  CUdeviceptr (*allocate)(size_t bytes);
  CUdeviceptr blocks[BLOCKS];
  int count;
} owner_t;

static int refused;

static CUdeviceptr given(CUresult result, CUdeviceptr block)
{
  if (result == CUDA_ERROR_OUT_OF_MEMORY)
    refused++;
  else
    CALL(result);
  return result == CUDA_SUCCESS ? block : 0;
}

/* Each asks the driver itself, so that it is the frame of a stack that differs. */
#define ALLOCATES(name)                                                                                      \
  static __attribute__((noinline)) CUdeviceptr name(size_t bytes)                                            \
  {                                                                                                          \
    CUdeviceptr block = 0;                                                                                   \
    CUresult result = cuMemAlloc_v2(&block, bytes);                                                          \
    return given(result, block);                                                                             \
  }
ALLOCATES(load)
ALLOCATES(grow)
ALLOCATES(pass)

static owner_t owners[OWNERS] = {{.name = "load", .allocate = load}, {.name = "grow", .allocate = grow},
    {.name = "pass", .allocate = pass}};

static owner_t *owner_of(const char *name)
{
  return &owners[CASE_OF(name, owners)];
}

static void allocate(owner_t *owner, size_t bytes, int count, size_t more)
{
  for (int i = 0; i < count && owner->count < BLOCKS; i++) {
    CUdeviceptr block = owner->allocate(bytes + (size_t)i * more);
    if (block)
      owner->blocks[owner->count++] = block;
  }
}

static void release(owner_t *owner, int count)
{
  for (; owner->count > 0 && count > 0; count--)
    CALL(cuMemFree_v2(owner->blocks[--owner->count]));
}

static void use(const owner_t *owner)
{
  for (int i = 0; i < owner->count; i++)
    CALL(cuMemsetD8Async(owner->blocks[i], 1, 4096, waiting_work));
}

/* Streams and kernels are of device 0. */
static void change_device(int device)
{
  static CUcontext contexts[DEVICES];
  if (device == 0)
    contexts[0] = waiting_context;
  if (!contexts[device])
    CALL(cuDevicePrimaryCtxRetain(&contexts[device], device));
  CALL(cuCtxSetCurrent(contexts[device]));
}

static void step(char *text)
{
  char *words[5] = {NULL};
  unsigned long long numbers[5] = {0};
  CUgraph graph;
  int count = 0;

  for (char *save, *word = strtok_r(text, ":", &save); word && count < 5; word = strtok_r(NULL, ":", &save)) {
    numbers[count] = strtoull(word, NULL, 10);
    words[count++] = word;
  }
  if (strcmp(words[0], "free") == 0)
    release(owner_of(words[1]), count > 2 ? (int)numbers[2] : BLOCKS);
  else if (strcmp(words[0], "turn") == 0)
    for (unsigned long long i = 0; i < numbers[3]; i++) {
      allocate(owner_of(words[1]), numbers[2] + i * numbers[4], 1, 0);
      release(owner_of(words[1]), 1);
    }
  else if (strcmp(words[0], "device") == 0)
    change_device((int)numbers[1] % DEVICES);
  else if (strcmp(words[0], "use") == 0)
    use(owner_of(words[1]));
  else if (strcmp(words[0], "busy") == 0)
    waiting_busy(waiting_work, numbers[1]);
  else if (strcmp(words[0], "synchronize") == 0)
    CALL(cuCtxSynchronize());
  else if (strcmp(words[0], "stream") == 0)
    CALL(cuStreamSynchronize(waiting_work));
  else if (strcmp(words[0], "capture") == 0)
    CALL(cuStreamBeginCapture_v2(waiting_work, CU_STREAM_CAPTURE_MODE_RELAXED));
  else if (strcmp(words[0], "end") == 0)
    CALL(cuStreamEndCapture(waiting_work, &graph));
  else if (strcmp(words[0], "sleep") == 0)
    (void)sleep((unsigned)numbers[1]);
  else
    allocate(owner_of(words[0]), numbers[1], count > 2 ? (int)numbers[2] : 1, numbers[3]);
}

int main(int argc, char **argv)
{
  waiting_setup();
  for (int i = 1; i < argc; i++)
    step(argv[i]);
  printf("refused=%d\n", refused);
  return 0;
}
