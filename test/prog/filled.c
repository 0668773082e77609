/*
 * What memory holds when the program gets it, by each way of asking for it. A block is read as soon as it is
 * there, in a stream that waits for no other, or in the stream that asked; then it is overwritten and freed.
 *
 *   filled             prints the names of the scenarios
 *   filled SCENARIO    prints for how many blocks each byte was 0x00, each was 0xff, or neither
 *
 * See waiting.h for the rest of the output.
 */
#include "waiting.h"

#define OWN     0x5a /* what the program writes */
#define THREADS 4

typedef struct counts {
  int zeros, ones, others;
} counts_t;

static const size_t sizes[] = {1, 512, 5000, 300000, 3 * MIB + 17};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static CUstream stream_of(unsigned flags)
{
  CUstream stream;
  CALL(cuStreamCreate(&stream, flags));
  return stream;
}

static void look(counts_t *counts, CUdeviceptr block, size_t bytes, CUstream stream)
{
  unsigned char *host = malloc(bytes);
  size_t same = 1;

  if (!host)
    exit(1);
  CALL(cuMemcpyDtoHAsync_v2(host, block, bytes, stream));
  CALL(cuStreamSynchronize(stream));
  while (same < bytes && host[same] == host[0])
    same++;
  if (same == bytes && host[0] == 0)
    counts->zeros++;
  else if (same == bytes && host[0] == 0xff)
    counts->ones++;
  else
    counts->others++;
  free(host);
}

static void tell(const char *what, const counts_t *counts)
{
  printf("%s: zeros=%d ones=%d others=%d\n", what, counts->zeros, counts->ones, counts->others);
}

/* New memory, then memory that was freed while the device used it. */
static void memory(char **arguments)
{
  (void)arguments;
  CUstream reader = stream_of(CU_STREAM_NON_BLOCKING);
  counts_t counts = {0, 0, 0};

  for (int round = 0; round < 3; round++) {
    CUdeviceptr blocks[SIZES];
    for (size_t i = 0; i < SIZES; i++) {
      blocks[i] = waiting_take(sizes[i]);
      look(&counts, blocks[i], sizes[i], reader);
      CALL(cuMemsetD8Async(blocks[i], OWN, sizes[i], waiting_work));
    }
    for (size_t i = 0; i < SIZES; i++)
      waiting_give(blocks[i]);
    CALL(cuCtxSynchronize());
  }
  tell("cuMemAlloc", &counts);
}

static void rows(char **arguments)
{
  (void)arguments;
  counts_t counts = {0, 0, 0};

  for (int i = 0; i < 3; i++) {
    CUdeviceptr block;
    size_t pitch;
    CALL(cuMemAllocPitch_v2(&block, &pitch, 1000, 100, 4));
    if (i > 0) /* the first one is the driver's */
      look(&counts, block, pitch * 100, waiting_work);
    CALL(cuMemsetD8_v2(block, OWN, pitch * 100));
    waiting_give(block);
    CALL(cuCtxSynchronize());
  }
  tell("cuMemAllocPitch", &counts);
}

static void use_in(CUstream stream, counts_t *counts)
{
  for (size_t i = 0; i < SIZES; i++) {
    CUdeviceptr block;
    CALL(cuMemAllocAsync(&block, sizes[i], stream));
    look(counts, block, sizes[i], stream);
    CALL(cuMemsetD8Async(block, OWN, sizes[i], stream));
    CALL(cuMemFreeAsync(block, stream));
  }
}

/* Memory that is used again at once, too, while the stream works on it. */
static void streams(char **arguments)
{
  (void)arguments;
  CUstream all[] = {stream_of(CU_STREAM_NON_BLOCKING), stream_of(CU_STREAM_DEFAULT), CU_STREAM_LEGACY,
      CU_STREAM_PER_THREAD};
  static const char *const names[] = {"non-blocking", "blocking", "legacy", "per-thread"};

  for (int i = 0; i < 4; i++) {
    counts_t counts = {0, 0, 0};
    for (int round = 0; round < 3; round++)
      use_in(all[i], &counts);
    tell(names[i], &counts);
  }
}

/* Other devices and contexts than the first one; a stream's device need not be current. */
static void devices(char **arguments)
{
  (void)arguments;
  counts_t counts = {0, 0, 0};
  CUcontext second, own;

  CALL(cuDevicePrimaryCtxRetain(&second, 1));
  CALL(cuCtxPushCurrent_v2(second));
  CUstream there = stream_of(CU_STREAM_NON_BLOCKING);
  CUdeviceptr block = waiting_take(5000);
  look(&counts, block, 5000, there);
  CALL(cuCtxPopCurrent_v2(&second));
  use_in(there, &counts);
  for (int i = 0; i < 3; i++) {
    CALL(cuCtxCreate_v2(&own, 0, 0));
    CUstream reader = stream_of(CU_STREAM_NON_BLOCKING);
    look(&counts, waiting_take(5000), 5000, reader);
    CALL(cuCtxDestroy_v2(own)); /* the memory goes with it */
  }
  tell("elsewhere", &counts);
}

/* Memory may be asked for beside a capture of this mode. */
static void capture(char **arguments)
{
  (void)arguments;
  counts_t counts = {0, 0, 0};
  CUstream captured = stream_of(CU_STREAM_NON_BLOCKING);
  CUgraph graph;

  waiting_leave_idle(5000, 2);
  CALL(cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_RELAXED));
  CUdeviceptr beside = waiting_take(5000);
  CALL(cuStreamEndCapture(captured, &graph));
  CALL(cuMemsetD8Async(beside, OWN, 5000, waiting_work));
  CUdeviceptr behind = waiting_take(5000);
  look(&counts, behind, 5000, waiting_work);
  tell("behind a capture", &counts);
}

/* A kernel may occupy the device until this thread goes on. What is written is not overwritten later. */
static void occupied(char **arguments)
{
  (void)arguments;
  static unsigned char bytes[5000];
  counts_t counts = {0, 0, 0};

  waiting_start();
  CUdeviceptr first = waiting_take(sizeof(bytes));
  waiting_step("the first allocation");
  CUdeviceptr second = waiting_take(sizeof(bytes));
  waiting_step("the second allocation");
  memset(bytes, OWN, sizeof(bytes));
  CALL(cuMemcpyHtoDAsync_v2(first, bytes, sizeof(bytes), waiting_work));
  CALL(cuMemcpyHtoDAsync_v2(second, bytes, sizeof(bytes), waiting_work));
  CALL(cuStreamSynchronize(waiting_work));
  waiting_stop();
  CALL(cuCtxSynchronize());
  look(&counts, first, sizeof(bytes), waiting_work);
  look(&counts, second, sizeof(bytes), waiting_work);
  tell("what was written", &counts);
  counts = (counts_t){0, 0, 0};
  for (int i = 0; i < 3; i++)
    look(&counts, waiting_take(sizeof(bytes)), sizeof(bytes), waiting_work);
  tell("afterwards", &counts);
}

/* The kernel is in a stream for which blocking streams wait. */
static void beside(char **arguments)
{
  (void)arguments;
  counts_t counts = {0, 0, 0};

  waiting_start_in(waiting_module, CU_STREAM_LEGACY);
  for (size_t i = 0; i < SIZES; i++)
    look(&counts, waiting_take(sizes[i]), sizes[i], waiting_work);
  tell("beside", &counts);
}

static void *one_of_many(void *arg)
{
  counts_t *counts = arg;

  CALL(cuCtxSetCurrent(waiting_context));
  CUstream reader = stream_of(CU_STREAM_NON_BLOCKING);
  for (int i = 0; i < 50; i++) {
    CUdeviceptr block = waiting_take(sizes[i % (int)SIZES]);
    look(counts, block, sizes[i % (int)SIZES], reader);
    CALL(cuMemsetD8Async(block, OWN, sizes[i % (int)SIZES], reader));
    waiting_give(block);
  }
  return NULL;
}

static void threads(char **arguments)
{
  (void)arguments;
  pthread_t all[THREADS];
  counts_t each[THREADS] = {{0, 0, 0}}, counts = {0, 0, 0};

  for (int i = 0; i < THREADS; i++)
    if (pthread_create(&all[i], NULL, one_of_many, &each[i]) != 0)
      exit(1);
  for (int i = 0; i < THREADS; i++) {
    (void)pthread_join(all[i], NULL);
    counts.zeros += each[i].zeros;
    counts.ones += each[i].ones;
    counts.others += each[i].others;
  }
  tell("threads", &counts);
}

int main(int argc, char **argv)
{
  static const waiting_scenario_t scenarios[] = {{"memory", memory, 0}, {"rows", rows, 0},
      {"streams", streams, 0}, {"devices", devices, 0}, {"capture", capture, 0}, {"occupied", occupied, 0},
      {"beside", beside, 0}, {"threads", threads, 0}};
  return waiting_main(argc, argv, scenarios, sizeof(scenarios) / sizeof(scenarios[0]));
}
