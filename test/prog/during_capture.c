/*
 * Allocates in one thread while another captures a stream, or while it captures one itself. Prints codes and
 * no address: a pool changes none of them.
 *
 * during_capture CASE; a case is a row of the table below. Main captures. Four blocks come and go before the
 * capture, so that a pool has them, six of the same size while it runs, and four afterwards.
 */
#include "calls.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

#include <cuda.h>

#define BYTES  (256u << 10)
#define MAPPED (2u << 20) /* a block in stream order: all that is mapped for it */
#define BLOCKS 4
#define BESIDE 6

typedef enum order {
  NONE,   /* cuMemAlloc, cuMemFree */
  OTHER,  /* in the order of another stream */
  JOINED, /* which is part of the capture */
  LEGACY, /* of the legacy default stream */
} order_t;

typedef struct scene {
  const char *name;
  CUstreamCaptureMode mode; /* of the capture */
  CUstreamCaptureMode own;  /* of the thread that allocates */
  bool by_main;             /* it is the one that captures */
  order_t order;
} scene_t;

static const scene_t scenes[] = {
    {"relaxed", CU_STREAM_CAPTURE_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_GLOBAL, false, NONE},
    {"relaxed_own", CU_STREAM_CAPTURE_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_GLOBAL, true, NONE},
    {"thread", CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_GLOBAL, false, NONE},
    {"thread_own", CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_GLOBAL, true, NONE},
    {"thread_own_exempt", CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_RELAXED, true, NONE},
    {"global", CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_GLOBAL, false, NONE},
    {"global_exempt", CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, false, NONE},
    {"global_own", CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_GLOBAL, true, NONE},
    {"other_relaxed", CU_STREAM_CAPTURE_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_GLOBAL, false, OTHER},
    {"other_thread", CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_GLOBAL, true, OTHER},
    {"other_global", CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_GLOBAL, false, OTHER},
    {"joined", CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_GLOBAL, true, JOINED},
    {"legacy", CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_GLOBAL, false, LEGACY},
};

static CUcontext context;
static CUstream stream, other;
static CUdeviceptr early; /* from before the capture */
static const scene_t *scene;

static void say(const char *what, int i, CUresult result)
{
  printf("%s %d: %d\n", what, i, (int)result);
}

static CUresult take(CUdeviceptr *block)
{
  if (scene->order == NONE)
    return cuMemAlloc(block, BYTES);
  return cuMemAllocAsync(block, MAPPED, scene->order == LEGACY ? CU_STREAM_LEGACY : other);
}

static CUresult give(CUdeviceptr block)
{
  if (scene->order == NONE)
    return cuMemFree(block);
  return cuMemFreeAsync(block, scene->order == LEGACY ? CU_STREAM_LEGACY : other);
}

static void come_and_go(const char *when, int count)
{
  CUdeviceptr blocks[BESIDE] = {0};

  for (int i = 0; i < count; i++)
    say(when, i, take(&blocks[i]));
  for (int i = 0; i < count; i++)
    if (blocks[i] != 0)
      say("free", i, give(blocks[i]));
}

static void *beside(void *unused)
{
  CUstreamCaptureMode mode = scene->own;

  say("current", 0, cuCtxSetCurrent(context));
  say("exchange", 0, cuThreadExchangeStreamCaptureMode(&mode));
  come_and_go("beside", BESIDE);
  say("exchange", 1, cuThreadExchangeStreamCaptureMode(&mode));
  return unused;
}

static void run_beside(void)
{
  pthread_t thread;

  if (scene->by_main)
    (void)beside(NULL);
  else if (pthread_create(&thread, NULL, beside, NULL) != 0 || pthread_join(thread, NULL) != 0)
    printf("no thread\n");
}

/* Brings the other stream into the capture, and back. A capture can only free what it has allocated. */
static void run_joined(void)
{
  CUevent event;

  say("event", 0, cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  say("record", 0, cuEventRecord(event, stream));
  say("wait", 0, cuStreamWaitEvent(other, event, 0));
  run_beside();
  say("early", 0, give(early));
  say("record", 1, cuEventRecord(event, other));
  say("wait", 1, cuStreamWaitEvent(stream, event, 0));
}

static void run(void)
{
  CUdevice device;
  CUgraph graph;

  say("init", 0, cuInit(0));
  say("device", 0, cuDeviceGet(&device, 0));
  say("primary", 0, cuDevicePrimaryCtxRetain(&context, device));
  say("current", 0, cuCtxSetCurrent(context));
  say("stream", 0, cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  say("stream", 1, cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  say("early", 0, take(&early));
  come_and_go("before", BLOCKS);
  say("synchronize", 0, cuCtxSynchronize());
  say("begin", 0, cuStreamBeginCapture(stream, scene->mode));
  if (scene->order == JOINED)
    run_joined();
  else
    run_beside();
  say("end", 0, cuStreamEndCapture(stream, &graph));
  say("synchronize", 1, cuCtxSynchronize());
  come_and_go("after", BLOCKS);
  say("early", 1, give(early));
}

int main(int argc, char **argv)
{
  scene = &scenes[CASE_OF(argv[1], scenes)];
  run();
  return 0;
}
