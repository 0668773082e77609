/*
 * Shows what is left of memory when contexts come and go by the calls that few programs use: references,
 * green contexts, a reset beside contexts of the program's own. Prints codes and no address.
 *
 * context_life CASE; a case is a function below.
 */
#include "calls.h"

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#define BYTES (2u << 20) /* whole pages: what the device gives is what was asked for */

static CUcontext context;

/* Allocates and frees three times: a pool, if there is one, is asked for the same again. Leaves one block
 * behind. */
static CUdeviceptr use(void)
{
  CUdeviceptr block = 0, left = 0;
  SAY(cuMemAlloc_v2(&left, 2 * BYTES));
  for (int i = 0; i < 3; i++) {
    SAY(cuMemAlloc_v2(&block, BYTES));
    SAY(cuMemFree_v2(block));
    SAY(cuCtxSynchronize());
  }
  return left;
}

static void created_v1(void)
{
  SAY(cuCtxCreate(&context, 0, 0));
  CUdeviceptr left = use();
  SAY(cuCtxDestroy(context));
  SAY(cuMemFree_v2(left));
  SAY(cuCtxCreate(&context, 0, 0));
  (void)use();
}

/* No call comes after it by which anyone would learn of the end. */
static void destroyed(void)
{
  SAY(cuCtxCreate_v2(&context, 0, 0));
  (void)use();
  SAY(cuCtxDestroy_v2(context));
}

static void detached_last(void)
{
  SAY(cuCtxCreate_v2(&context, 0, 0));
  CUdeviceptr left = use();
  SAY(cuCtxDetach(context));
  SAY(cuMemFree_v2(left));
  SAY(cuCtxCreate_v2(&context, 0, 0)); /* may well get the handle of the one before */
  (void)use();
}

static void detached_first(void)
{
  SAY(cuCtxCreate_v2(&context, 0, 0));
  CUdeviceptr left = use();
  CUcontext again;
  SAY(cuCtxAttach(&again, 0));
  SAY(cuCtxDetach(context));
  SAY(cuMemFree_v2(left));
  (void)use();
}

/* A reset ends the primary context and no other. */
static void reset_beside(void)
{
  CUcontext primary;
  SAY(cuCtxCreate_v2(&context, 0, 0));
  CUdeviceptr left = use();
  SAY(cuDevicePrimaryCtxRetain(&primary, 0));
  SAY(cuCtxPushCurrent_v2(primary));
  CUdeviceptr gone = use();
  SAY(cuDevicePrimaryCtxReset(0));
  SAY(cuCtxSetCurrent(context));
  SAY(cuMemFree_v2(gone));
  SAY(cuMemFree_v2(left));
  (void)use();
}

/* The same handle, another context: the old one's memory is gone. */
static void primary_again(void)
{
  for (int i = 0; i < 3; i++) {
    SAY(cuDevicePrimaryCtxRetain(&context, 0));
    SAY(cuDevicePrimaryCtxRetain(&context, 0));
    SAY(cuCtxSetCurrent(context));
    CUdeviceptr left = use();
    SAY(cuDevicePrimaryCtxRelease(0));
    (void)use();
    SAY(cuDevicePrimaryCtxRelease_v2(0));
    SAY(cuMemFree_v2(left));
  }
}

/* Destroying fails and changes nothing. */
static void destroy_refused(void)
{
  CUcontext primary;
  SAY(cuDevicePrimaryCtxRetain(&primary, 0));
  SAY(cuCtxSetCurrent(primary));
  CUdeviceptr left = use();
  SAY(cuCtxDestroy_v2(primary)); /* not for primary contexts */
  SAY(cuCtxDetach(primary));
  SAY(cuCtxDestroy_v2(NULL));
  (void)use();
  SAY(cuMemFree_v2(left));
}

/* Resets by a way that no preloaded library sees, if the environment names one. */
CUresult unseen_reset(CUdevice device) __attribute__((weak));

static void reset_unseen(void)
{
  SAY(cuDevicePrimaryCtxRetain(&context, 0));
  SAY(cuCtxSetCurrent(context));
  CUdeviceptr left = use();
  if (unseen_reset)
    SAY(unseen_reset(0));
  else
    SAY(cuDevicePrimaryCtxReset_v2(0));
  SAY(cuDevicePrimaryCtxRetain(&context, 0));
  SAY(cuCtxSetCurrent(context));
  (void)use();
  SAY(cuMemFree_v2(left));
}

#if CUDA_VERSION >= 12050
static CUgreenCtx green;

static void make_green(void)
{
  CUdevResource resource;
  CUdevResourceDesc desc;
  SAY(cuDeviceGetDevResource(0, &resource, CU_DEV_RESOURCE_TYPE_SM));
  SAY(cuDevResourceGenerateDesc(&desc, &resource, 1));
  SAY(cuGreenCtxCreate(&green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
}

/* Memory of a green context is its primary context's and outlives it. */
static void green_current(void)
{
  CUcontext primary;
  SAY(cuDevicePrimaryCtxRetain(&primary, 0));
  SAY(cuCtxSetCurrent(primary));
  (void)use();
  make_green();
  SAY(cuCtxFromGreenCtx(&context, green));
  SAY(cuCtxSetCurrent(context));
  CUdeviceptr left = use();
  CUevent event;
  SAY(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  SAY(cuGreenCtxRecordEvent(green, event));
  SAY(cuEventDestroy_v2(event));
  SAY(cuCtxSetCurrent(primary));
  SAY(cuGreenCtxDestroy(green));
  SAY(cuMemFree_v2(left));
}

static void green_stream(void)
{
  CUstream stream;
  CUcontext primary;
  SAY(cuDevicePrimaryCtxRetain(&primary, 0));
  SAY(cuCtxSetCurrent(primary));
  (void)use();
  make_green();
  SAY(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
  (void)use();
  SAY(cuStreamDestroy_v2(stream));
  SAY(cuGreenCtxDestroy(green));
}

/* The green context holds the last reference to the primary one. */
static void green_last(void)
{
  CUcontext primary;
  SAY(cuDevicePrimaryCtxRetain(&primary, 0));
  SAY(cuCtxSetCurrent(primary));
  CUdeviceptr left = use();
  make_green();
  SAY(cuDevicePrimaryCtxRelease_v2(0));
  SAY(cuMemFree_v2(left));
  left = use();
  SAY(cuGreenCtxDestroy(green));
  SAY(cuDevicePrimaryCtxRetain(&primary, 0));
  SAY(cuMemFree_v2(left));
  (void)use();
}
#endif

static const prog_case_t cases[] = {
    CASE(created_v1),
    CASE(destroyed),
    CASE(detached_last),
    CASE(detached_first),
    CASE(reset_beside),
    CASE(primary_again),
    CASE(destroy_refused),
    CASE(reset_unseen),
#if CUDA_VERSION >= 12050
    CASE(green_current),
    CASE(green_stream),
    CASE(green_last),
#endif
};

int main(int argc, char **argv)
{
  const size_t chosen = CASE_OF(argv[1], cases);
  SAY(cuInit(0));
  cases[chosen].run();
  return 0;
}
