/*
 * Shows every way in which a stream capture ends, or does not: by cuStreamEndCapture with each of its
 * answers, with its stream, its context or its thread. Prints codes and no address.
 *
 * capture_ends CASE; a case is a function below. "probe" allocates while the capture runs (relaxed mode: it
 * may); when it has ended main allocates three times the same, so that a pool, if there is one, shows whether
 * it is at work.
 */
#include "calls.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#define BYTES (256u << 10)

static CUcontext context;
static CUstream stream, second;
static CUevent event;
static CUgraph graph;

static void probe(void)
{
  CUdeviceptr block = 0;
  if (SAY(cuMemAlloc_v2(&block, BYTES)) == CUDA_SUCCESS)
    SAY(cuMemFree_v2(block));
}

static void begin(CUstream in)
{
  SAY(cuStreamBeginCapture_v2(in, CU_STREAM_CAPTURE_MODE_RELAXED));
}

/* Brings the second stream into the capture of the first. */
static void fork_capture(void)
{
  SAY(cuEventRecord(event, stream));
  SAY(cuStreamWaitEvent(second, event, 0));
}

static void ended(void)
{
  begin(stream);
  probe();
  SAY(cuStreamEndCapture(stream, &graph));
}

static void destroyed(void)
{
  begin(stream);
  probe();
  SAY(cuStreamDestroy_v2(stream));
}

static void destroyed_v1(void)
{
  begin(stream);
  SAY(cuStreamDestroy(stream));
}

/* A stream that gets the handle of the destroyed one captures, too. */
static void destroyed_and_made_again(void)
{
  begin(stream);
  SAY(cuStreamDestroy_v2(stream));
  SAY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  begin(stream);
  probe();
  SAY(cuStreamEndCapture(stream, &graph));
}

static void destroy_refused(void)
{
  begin(stream);
  SAY(cuStreamDestroy_v2(CU_STREAM_PER_THREAD));
  probe();
  SAY(cuStreamEndCapture(stream, &graph));
}

static void context_destroyed(void)
{
  CUcontext other;
  SAY(cuCtxCreate_v2(&other, 0, 0));
  SAY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  begin(stream);
  probe();
  SAY(cuCtxDestroy_v2(other));
  SAY(cuCtxSetCurrent(context));
}

/* The context of the capture is not the current one. */
static void context_destroyed_elsewhere(void)
{
  CUcontext other;
  SAY(cuCtxCreate_v2(&other, 0, 0));
  SAY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  SAY(cuCtxSetCurrent(context));
  begin(stream);
  probe();
  SAY(cuCtxDestroy_v2(other));
}

static void primary_begins(void)
{
  CUcontext primary;
  SAY(cuDevicePrimaryCtxRetain(&primary, 0));
  SAY(cuCtxSetCurrent(primary));
  SAY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  begin(stream);
  probe();
}

static void primary_reset(void)
{
  primary_begins();
  SAY(cuDevicePrimaryCtxReset_v2(0));
  SAY(cuCtxSetCurrent(context));
}

static void primary_released(void)
{
  primary_begins();
  SAY(cuDevicePrimaryCtxRelease_v2(0));
  SAY(cuCtxSetCurrent(context));
}

/* Not the last reference: the capture goes on. */
static void primary_released_once(void)
{
  CUcontext primary;
  SAY(cuDevicePrimaryCtxRetain(&primary, 0));
  primary_begins();
  SAY(cuDevicePrimaryCtxRelease_v2(0));
  probe();
  SAY(cuStreamEndCapture(stream, &graph));
  SAY(cuDevicePrimaryCtxRelease_v2(0));
  SAY(cuCtxSetCurrent(context));
}

static void unjoined(void)
{
  begin(stream);
  fork_capture();
  SAY(cuStreamEndCapture(stream, &graph));
}

static void unmatched(void)
{
  begin(stream);
  fork_capture();
  SAY(cuStreamEndCapture(second, &graph));
  probe();
  SAY(cuStreamEndCapture(stream, &graph));
}

static void member_destroyed(void)
{
  begin(stream);
  fork_capture();
  SAY(cuStreamDestroy_v2(second));
  probe();
  SAY(cuStreamEndCapture(stream, &graph));
}

static void invalidated(void)
{
  CUdeviceptr block;
  SAY(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  SAY(cuMemAlloc_v2(&block, BYTES));
  SAY(cuStreamEndCapture(stream, &graph));
}

static void two_captures(void)
{
  begin(stream);
  begin(second);
  SAY(cuStreamEndCapture(stream, &graph));
  probe();
  SAY(cuStreamDestroy_v2(second));
}

static void begun_twice(void)
{
  begin(stream);
  begin(stream);
  probe();
  SAY(cuStreamEndCapture(stream, &graph));
  SAY(cuStreamEndCapture(stream, &graph));
}

static void never_begun(void)
{
  SAY(cuStreamEndCapture(stream, &graph));
  begin(CU_STREAM_LEGACY);
}

static void without_graph(void)
{
  begin(stream);
  SAY(cuStreamEndCapture(stream, NULL));
  probe();
  SAY(cuStreamEndCapture(stream, &graph));
}

/* Run by another thread, in the same context. */
static void in_thread(void *(*function)(void *))
{
  pthread_t thread;
  fflush(stdout);
  if (pthread_create(&thread, NULL, function, NULL) != 0 || pthread_join(thread, NULL) != 0)
    printf("no thread\n");
}

static void *end_here(void *unused)
{
  SAY(cuCtxSetCurrent(context));
  SAY(cuStreamEndCapture(stream, &graph));
  return unused;
}

static void wrong_thread(void)
{
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  SAY(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  in_thread(end_here);
  SAY(cuThreadExchangeStreamCaptureMode(&mode));
  probe();
  SAY(cuStreamEndCapture(stream, &graph));
}

static void ended_by_another_thread(void)
{
  begin(stream);
  probe();
  in_thread(end_here);
}

static void *begin_own(void *unused)
{
  SAY(cuCtxSetCurrent(context));
  SAY(cuStreamBeginCapture_v2_ptsz(NULL, CU_STREAM_CAPTURE_MODE_RELAXED));
  probe();
  return unused;
}

static void thread_ended(void)
{
  in_thread(begin_own);
}

static void *end_own(void *unused)
{
  SAY(cuCtxSetCurrent(context));
  SAY(cuStreamEndCapture_ptsz(NULL, &graph)); /* has begun nothing: its stream is another of the same name */
  SAY(cuStreamEndCapture(CU_STREAM_PER_THREAD, &graph));
  return unused;
}

static void per_thread(void)
{
  (void)begin_own(NULL);
  in_thread(end_own);
  probe();
  SAY(cuStreamEndCapture(CU_STREAM_PER_THREAD, &graph));
}

/* The per-thread stream of the one context captures, that of the other does not. */
static void per_context(void)
{
  CUcontext other;
  (void)begin_own(NULL);
  SAY(cuCtxCreate_v2(&other, 0, 0));
  SAY(cuStreamEndCapture_ptsz(NULL, &graph));
  SAY(cuCtxSetCurrent(context));
  probe();
  SAY(cuStreamEndCapture_ptsz(NULL, &graph));
  SAY(cuCtxDestroy_v2(other));
}

/* The legacy stream cannot be captured: what is refused there does not touch the
 * capture of the own stream. */
static void legacy(void)
{
  (void)begin_own(NULL);
  SAY(cuStreamBeginCapture_v2(NULL, CU_STREAM_CAPTURE_MODE_RELAXED));
  SAY(cuStreamEndCapture(NULL, &graph));
  SAY(cuStreamDestroy_v2(NULL));
  probe();
  SAY(cuStreamEndCapture_ptsz(NULL, &graph));
}

static const prog_case_t cases[] = {
    CASE(ended),
    CASE(destroyed),
    CASE(destroyed_v1),
    CASE(destroyed_and_made_again),
    CASE(destroy_refused),
    CASE(context_destroyed),
    CASE(context_destroyed_elsewhere),
    CASE(primary_reset),
    CASE(primary_released),
    CASE(primary_released_once),
    CASE(unjoined),
    CASE(unmatched),
    CASE(member_destroyed),
    CASE(invalidated),
    CASE(two_captures),
    CASE(begun_twice),
    CASE(never_begun),
    CASE(without_graph),
    CASE(wrong_thread),
    CASE(ended_by_another_thread),
    CASE(thread_ended),
    CASE(per_thread),
    CASE(per_context),
    CASE(legacy),
};

int main(int argc, char **argv)
{
  const size_t chosen = CASE_OF(argv[1], cases);
  SAY(cuInit(0));
  SAY(cuCtxCreate_v2(&context, 0, 0));
  SAY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  SAY(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
  SAY(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  cases[chosen].run();
  for (int i = 0; i < 3; i++) {
    CUdeviceptr block = 0;
    SAY(cuMemAlloc_v2(&block, BYTES));
    SAY(cuMemFree_v2(block));
    SAY(cuCtxSynchronize());
  }
  return 0;
}
