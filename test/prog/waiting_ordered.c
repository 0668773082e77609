/*
 * Memory in the order of streams beside a kernel that runs on. The device has 1 GiB (SIMCUDA_CAPACITY). Each
 * scenario takes memory, uses it, and frees it in the order of one of four streams in turn, and learns that
 * this stream is done. So natively no request is refused, whatever the kernel does.
 *
 * The arguments, but for by_event: the streams ("blocking", "free" of the default stream, the thread's
 * "own"), and how the program learns it ("stream", "query", "event").
 */
#include "waiting.h"

#define STREAMS 4
#define TURNS   60
#define SIZE    (300 * MIB)

static CUstream streams[STREAMS];
static CUevent event;

static void make_streams(const char *kind)
{
  CALL(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  for (int i = 0; i < STREAMS; i++) {
    if (strcmp(kind, "own") == 0)
      streams[i] = CU_STREAM_PER_THREAD;
    else
      CALL(cuStreamCreate(
          &streams[i], strcmp(kind, "blocking") == 0 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
  }
}

static void learn(const char *how, CUstream stream)
{
  if (strcmp(how, "stream") == 0) {
    CALL(cuStreamSynchronize(stream));
  } else if (strcmp(how, "query") == 0) {
    while (cuStreamQuery(stream) == CUDA_ERROR_NOT_READY)
      ;
  } else {
    CALL(cuEventRecord(event, stream));
    CALL(cuEventSynchronize(event));
  }
}

static int first_error;

static bool is_refused(CUresult result)
{
  if (result != CUDA_SUCCESS && first_error == 0)
    first_error = (int)result;
  return result != CUDA_SUCCESS;
}

static void tell(const char *name, int refused)
{
  printf("%s: %d of %d refused, code %d\n", name, refused, TURNS, first_error);
}

typedef enum turn {
  TURN_ORDERED,   /* taken and freed in the order of a stream */
  TURN_OF_MALLOC, /* memory of cuMemAlloc, freed in the order of a stream */
  TURN_BY_HOST,   /* freed by the host, which knows that its uses are over */
} turn_t;

static void take_turns(const char *name, char **arguments, turn_t turn, bool varied)
{
  int refused = 0;

  make_streams(arguments[0]);
  waiting_start();
  for (int i = 0; i < TURNS; i++) {
    CUdeviceptr block;
    CUstream stream = streams[i % STREAMS];
    size_t bytes = varied ? (size_t)(150 + 37 * i % 400) * MIB : SIZE;
    CUresult taken =
        turn == TURN_OF_MALLOC ? cuMemAlloc_v2(&block, bytes) : cuMemAllocAsync(&block, bytes, stream);
    if (is_refused(taken)) {
      refused++;
      continue;
    }
    CALL(cuMemsetD8Async(block, 1, 4096, stream));
    if (turn != TURN_BY_HOST)
      CALL(cuMemFreeAsync(block, stream));
    learn(arguments[1], stream);
    if (turn == TURN_BY_HOST)
      CALL(cuMemFree_v2(block));
  }
  tell(name, refused);
}

static void same_size(char **arguments)
{
  take_turns("same_size", arguments, TURN_ORDERED, false);
}

static void many_sizes(char **arguments)
{
  take_turns("many_sizes", arguments, TURN_ORDERED, true);
}

static void of_malloc(char **arguments)
{
  take_turns("of_malloc", arguments, TURN_OF_MALLOC, false);
}

static void by_host(char **arguments)
{
  take_turns("by_host", arguments, TURN_BY_HOST, false);
}

/* What was freed in a stream is asked for by cuMemAlloc. */
static void then_malloc(char **arguments)
{
  CUdeviceptr block, next;

  make_streams(arguments[0]);
  waiting_start();
  CALL(cuMemAllocAsync(&block, 600 * MIB, streams[0]));
  CALL(cuMemsetD8Async(block, 1, 4096, streams[0]));
  CALL(cuMemFreeAsync(block, streams[0]));
  learn(arguments[1], streams[0]);
  int refused = is_refused(cuMemAlloc_v2(&next, 700 * MIB));
  tell("then_malloc", refused);
}

/* The kernel is in another context, and the program waits for a whole one. */
static void other_context(char **arguments)
{
  int refused = 0;
  CUcontext other;
  CUmodule module;
  CUstream stream;
  static const unsigned char image[4] = {0};

  make_streams(arguments[0]);
  CALL(cuCtxCreate_v2(&other, 0, 0));
  CALL(cuModuleLoadData(&module, image));
  CALL(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  waiting_start_in(module, stream);
  CALL(cuCtxSetCurrent(waiting_context));
  for (int i = 0; i < TURNS; i++) {
    CUdeviceptr block;
    if (is_refused(cuMemAllocAsync(&block, SIZE, streams[i % STREAMS]))) {
      refused++;
      continue;
    }
    CALL(cuMemsetD8Async(block, 1, 4096, streams[i % STREAMS]));
    CALL(cuMemFreeAsync(block, streams[i % STREAMS]));
    CALL(cuCtxSynchronize());
  }
  tell("other_context", refused);
  waiting_stop();
  CALL(cuCtxDestroy_v2(other));
}

/* The legacy stream is given work behind the kernel, after memory was freed in another stream: that one's
 * work, the free included, does not wait for it. */
static void legacy_later(char **arguments)
{
  CUdeviceptr block, other = waiting_take(4096);

  make_streams(arguments[0]);
  waiting_start();
  CALL(cuMemAllocAsync(&block, SIZE, streams[0]));
  CALL(cuMemFreeAsync(block, streams[0]));
  waiting_record(event);
  CALL(cuStreamWaitEvent(CU_STREAM_LEGACY, event, 0));
  CALL(cuMemsetD8Async(other, 1, 64, CU_STREAM_LEGACY));
  waiting_step("synchronization of the stream");
  CALL(cuStreamSynchronize(streams[0]));
}

/* Whether one stream gets what another has freed, once an event of that one has been waited for. "graph": a
 * graph may record the event, too. */
static void by_event(char **arguments)
{
  CUdeviceptr block, next;
  CUgraph graph;
  CUgraphNode node;

  make_streams("free");
  waiting_start();
  CALL(cuGraphCreate(&graph, 0));
  if (strcmp(arguments[0], "graph") == 0)
    (void)cuGraphAddEventRecordNode(&node, graph, NULL, 0, event);
  CALL(cuMemAllocAsync(&block, SIZE, streams[0]));
  CALL(cuMemsetD8Async(block, 1, 4096, streams[0]));
  CALL(cuMemFreeAsync(block, streams[0]));
  learn("event", streams[0]);
  CALL(cuMemAllocAsync(&next, SIZE, streams[1]));
  printf("by_event: %s\n", next == block ? "the same" : "another");
}

/*
 * The device is full: a stream gets memory that another one, which the kernel holds up, has freed. It waits
 * for that free in stream order, not on the host, nor for the work behind the free: this waits for the host,
 * too. "by_host": its owner frees the memory unused, and the earlier owner's work is still pending.
 */
static void full(char **arguments)
{
  CUdeviceptr first, next, third;
  CUstream held;

  make_streams("free");
  CALL(cuStreamCreate(&held, CU_STREAM_NON_BLOCKING));
  CALL(cuMemAllocAsync(&first, 600 * MIB, held));
  waiting_start_in(waiting_module, held);
  CALL(cuMemsetD8Async(first, 1, 4096, held));
  CALL(cuMemFreeAsync(first, held));
  waiting_step("a request of another stream");
  CUresult result = cuMemAllocAsync(&next, 600 * MIB, streams[1]);
  printf("full: %d, %s\n", (int)result, result == CUDA_SUCCESS && next == first ? "the same" : "another");
  if (result != CUDA_SUCCESS)
    return;
  if (strcmp(arguments[0], "by_host") == 0) {
    CALL(cuMemFree_v2(next));
    result = cuMemAllocAsync(&third, 600 * MIB, streams[2]);
    printf("by_host: %d\n", (int)result);
    waiting_stop();
    CALL(cuCtxSynchronize());
    CALL(cuMemAllocAsync(&next, 600 * MIB, streams[1]));
  }
  CALL(cuMemsetD8Async(next, 2, 4096, streams[1]));
  waiting_stop();
  CALL(cuStreamSynchronize(streams[1]));
}

int main(int argc, char **argv)
{
  static const waiting_scenario_t scenarios[] = {
      {"same_size", same_size, 2},
      {"many_sizes", many_sizes, 2},
      {"of_malloc", of_malloc, 2},
      {"by_host", by_host, 2},
      {"then_malloc", then_malloc, 2},
      {"other_context", other_context, 1},
      {"by_event", by_event, 1},
      {"legacy_later", legacy_later, 1},
      {"full", full, 1},
  };
  return waiting_main(argc, argv, scenarios, sizeof(scenarios) / sizeof(scenarios[0]));
}
