/*
 * Allocates in one thread while another captures a stream, or while it captures one itself. Prints codes and
 * no address: a pool changes none of them.
 *
 * capture_beside CASE; a case is a row of the table below. Main captures; "ordered" cases allocate in stream
 * order. Four blocks come and go before the capture, so that a pool has them, six of the same size while it
 * runs, and four afterwards.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <cuda.h>

#define BYTES  (256u << 10)
#define BLOCKS 4
#define BESIDE 6

typedef struct scene {
  const char *name;
  CUstreamCaptureMode mode; /* of the capture */
  CUstreamCaptureMode own;  /* of the thread that allocates */
  bool by_main;             /* it is the one that captures */
} scene_t;

static const scene_t scenes[] = {
    {"relaxed", CU_STREAM_CAPTURE_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_GLOBAL, false},
    {"relaxed_own", CU_STREAM_CAPTURE_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_GLOBAL, true},
    {"thread", CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_GLOBAL, false},
    {"thread_own", CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_GLOBAL, true},
    {"thread_own_exempt", CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_RELAXED, true},
    {"global", CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_GLOBAL, false},
    {"global_exempt", CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, false},
    {"global_own", CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_GLOBAL, true},
};

static CUcontext context;
static const scene_t *scene;

static void say(const char *what, int i, CUresult result)
{
  printf("%s %d: %d\n", what, i, (int)result);
}

static void come_and_go(const char *when, int count)
{
  CUdeviceptr blocks[BESIDE] = {0};

  for (int i = 0; i < count; i++)
    say(when, i, cuMemAlloc(&blocks[i], BYTES));
  for (int i = 0; i < count; i++)
    if (blocks[i] != 0)
      say("free", i, cuMemFree(blocks[i]));
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

static void run(void)
{
  CUdevice device;
  CUstream stream;
  CUgraph graph;

  say("init", 0, cuInit(0));
  say("device", 0, cuDeviceGet(&device, 0));
  say("primary", 0, cuDevicePrimaryCtxRetain(&context, device));
  say("current", 0, cuCtxSetCurrent(context));
  say("stream", 0, cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  come_and_go("before", BLOCKS);
  say("synchronize", 0, cuCtxSynchronize());
  say("begin", 0, cuStreamBeginCapture(stream, scene->mode));
  run_beside();
  say("end", 0, cuStreamEndCapture(stream, &graph));
  say("synchronize", 1, cuCtxSynchronize());
  come_and_go("after", BLOCKS);
}

int main(int argc, char **argv)
{
  for (size_t i = 0; argc == 2 && i < sizeof(scenes) / sizeof(scenes[0]); i++)
    if (strcmp(scenes[i].name, argv[1]) == 0)
      scene = &scenes[i];
  if (!scene) {
    fprintf(stderr, "usage: capture_beside CASE\n");
    for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++)
      printf("%s\n", scenes[i].name);
    return 2;
  }
  run();
  return 0;
}
