/*
 * Learns in one way that the work of a default stream is complete: facts FORM. In each round memory is freed
 * behind work in that stream, and asked for again when FORM has told that the work is complete. FORM ends
 * with _ptsz where function and work are of the thread's own stream, else they are of the legacy one.
 *
 * again: how often the same memory came back.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#define BYTES  (1u << 16)
#define ROUNDS 20

#define CALL(call)                                                                                           \
  do {                                                                                                       \
    CUresult result_ = (call);                                                                               \
    if (result_ != CUDA_SUCCESS) {                                                                           \
      printf("%s: %d\n", #call, (int)result_);                                                               \
      exit(1);                                                                                               \
    }                                                                                                        \
  } while (0)

static CUevent event;
static CUcontext context;

/* The headers have it by no name: it is what cuCtxSynchronize became with 13.0. */
CUresult CUDAAPI cuCtxSynchronize_v2(CUcontext context);

static void until_done(CUresult (*query)(void))
{
  CUresult result;
  do
    result = query();
  while (result == CUDA_ERROR_NOT_READY);
  CALL(result);
}

static CUresult ask_event(void)
{
  return cuEventQuery(event);
}

static CUresult ask_stream(void)
{
  return cuStreamQuery(NULL);
}

static CUresult ask_stream_ptsz(void)
{
  return cuStreamQuery_ptsz(NULL);
}

static void record(void)
{
  CALL(cuEventRecord(event, NULL));
  CALL(cuEventSynchronize(event));
}

static void record_ptsz(void)
{
  CALL(cuEventRecord_ptsz(event, NULL));
  CALL(cuEventSynchronize(event));
}

static void flags(void)
{
  CALL(cuEventRecordWithFlags(event, NULL, CU_EVENT_RECORD_DEFAULT));
  until_done(ask_event);
}

static void flags_ptsz(void)
{
  CALL(cuEventRecordWithFlags_ptsz(event, NULL, CU_EVENT_RECORD_DEFAULT));
  until_done(ask_event);
}

/* A graph may record it at each of its launches. */
static void external(void)
{
  CALL(cuEventRecordWithFlags(event, NULL, CU_EVENT_RECORD_EXTERNAL));
  CALL(cuEventSynchronize(event));
}

static void external_ptsz(void)
{
  CALL(cuEventRecordWithFlags_ptsz(event, NULL, CU_EVENT_RECORD_EXTERNAL));
  CALL(cuEventSynchronize(event));
}

static void query(void)
{
  until_done(ask_stream);
}

static void query_ptsz(void)
{
  until_done(ask_stream_ptsz);
}

static void synchronize(void)
{
  CALL(cuStreamSynchronize(NULL));
}

static void synchronize_ptsz(void)
{
  CALL(cuStreamSynchronize_ptsz(NULL));
}

static void device(void)
{
  CALL(cuCtxSynchronize());
}

static void device_v2(void)
{
  CALL(cuCtxSynchronize_v2(context));
}

static const struct {
  const char *name;
  void (*learn)(void);
} forms[] = {{"record", record}, {"record_ptsz", record_ptsz}, {"flags", flags}, {"flags_ptsz", flags_ptsz},
    {"external", external}, {"external_ptsz", external_ptsz}, {"query", query}, {"query_ptsz", query_ptsz},
    {"synchronize", synchronize}, {"synchronize_ptsz", synchronize_ptsz}, {"device", device},
    {"device_v2", device_v2}};

int main(int argc, char **argv)
{
  size_t form = 0, count = sizeof(forms) / sizeof(forms[0]);
  int again = 0;

  while (argc == 2 && form < count && strcmp(forms[form].name, argv[1]) != 0)
    form++;
  if (argc != 2 || form == count) {
    fputs("usage: facts FORM\n", stderr);
    for (size_t i = 0; i < count; i++)
      puts(forms[i].name);
    return 2;
  }
  bool is_own = strstr(argv[1], "_ptsz") != NULL;
  CALL(cuInit(0));
  CALL(cuCtxCreate_v2(&context, 0, 0));
  for (int i = 0; i < ROUNDS; i++) {
    CUdeviceptr used, next;
    CALL(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CALL(cuMemAlloc_v2(&used, BYTES));
    CALL(is_own ? cuMemsetD8Async_ptsz(used, 1, BYTES, NULL) : cuMemsetD8Async(used, 1, BYTES, NULL));
    CALL(cuMemFree_v2(used));
    forms[form].learn();
    CALL(cuMemAlloc_v2(&next, BYTES));
    again += next == used;
    CALL(cuCtxSynchronize());
    CALL(cuMemFree_v2(next));
    CALL(cuEventDestroy_v2(event));
    CALL(cuCtxSynchronize());
  }
  printf("again=%d\n", again);
  return 0;
}
