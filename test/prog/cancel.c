/*
 * Shows what becomes of a process whose threads are cancelled (pthread_cancel, deferred) while they use CUDA.
 *
 *   cancel pending STEP   a thread asks for its own end first, and then takes the step. A driver without
 * cancellation points lets it return from each call. cancel driver STEP    a thread ends at the N-th time
 * that the simulated driver is entered or left during the step, for N from 1 until the step comes to its end.
 * As a driver that calls poll() would do it.
 *
 * After each thread the main one uses the process: memory, a capture, a second context. It prints how often
 * that went well. Steps are in the table below. No address, and nothing that depends on time.
 */
#include "calls.h"

#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB      ((size_t)1 << 20)
#define BYTES    (8 * MIB)
#define ENDLESS  ((size_t)1 << 50)
#define HELD_MAX 8

static CUdeviceptr held[HELD_MAX]; /* by the thread that may end: the main one frees them */
static CUstream held_stream;       /* likewise: what it captures is ended, too */
static CUcontext primary;

static bool is_ok(const char *what, CUresult result)
{
  if (result != CUDA_SUCCESS)
    printf("%s: %d\n", what, (int)result);
  return result == CUDA_SUCCESS;
}

static void use_device(void)
{
  is_ok("cuInit", cuInit(0));
  is_ok("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain(&primary, 0));
  is_ok("cuCtxSetCurrent", cuCtxSetCurrent(primary));
}

/* ---- steps ---- */

static void memory(void)
{
  for (int i = 0; i < 4; i++)
    (void)cuMemAlloc(&held[i], BYTES << (i & 1));
  (void)cuMemFree(held[0]);
  (void)cuMemFree(held[1]);
  (void)cuCtxSynchronize();
  for (int i = 4; i < 6; i++)
    (void)cuMemAlloc(&held[i], BYTES << (i & 1));
  size_t free_bytes, total_bytes;
  (void)cuMemGetInfo(&free_bytes, &total_bytes);
}

/* Freed memory is in the way of what is asked for: it has to go back first. */
static void pressure(void)
{
  for (int i = 0; i < 4; i++)
    (void)cuMemAlloc(&held[i], BYTES);
  for (int i = 0; i < 4; i++)
    (void)cuMemFree(held[i]);
  (void)cuMemAlloc(&held[4], 4 * BYTES + MIB);
  (void)cuMemFree(held[4]);
}

static void too_much(void)
{
  (void)cuMemAlloc(&held[0], ENDLESS);
  (void)cuMemAllocManaged(&held[1], ENDLESS, CU_MEM_ATTACH_GLOBAL);
}

static void unpooled(void)
{
  void *host = NULL;
  CUarray array = NULL;
  size_t pitch;
  const CUDA_ARRAY_DESCRIPTOR descriptor = {256, 256, CU_AD_FORMAT_UNSIGNED_INT8, 1};

  (void)cuMemAllocManaged(&held[0], BYTES, CU_MEM_ATTACH_GLOBAL);
  (void)cuMemFree(held[0]);
  (void)cuMemAllocPitch(&held[1], &pitch, 100, 100, 4);
  (void)cuMemFree(held[1]);
  (void)cuMemHostAlloc(&host, MIB, 0);
  (void)cuMemFreeHost(host);
  (void)cuArrayCreate(&array, &descriptor);
  (void)cuArrayDestroy(array);
  (void)cuMemAllocAsync(&held[2], BYTES, 0);
  (void)cuMemFreeAsync(held[2], 0);
}

static void mapped(void)
{
  CUmemGenericAllocationHandle handle;
  CUdeviceptr address = 0;
  const CUmemAllocationProp property = {
      .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};

  (void)cuMemCreate(&handle, 2 * MIB, &property, 0);
  (void)cuMemAddressReserve(&address, 2 * MIB, 0, 0, 0);
  (void)cuMemMap(address, 2 * MIB, 0, handle, 0);
  (void)cuMemRelease(handle);
  (void)cuMemUnmap(address, 2 * MIB);
  (void)cuMemAddressFree(address, 2 * MIB);
}

static void streams(void)
{
  CUstream stream = NULL;
  CUgraph graph = NULL;
  CUevent event = NULL;

  (void)cuStreamCreate(&held_stream, CU_STREAM_NON_BLOCKING);
  stream = held_stream;
  (void)cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
  (void)cuEventRecord(event, stream);
  (void)cuEventQuery(event);
  (void)cuStreamQuery(stream);
  (void)cuStreamSynchronize(stream);
  (void)cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  (void)cuStreamEndCapture(stream, &graph);
  (void)cuGraphDestroy(graph);
  (void)cuEventDestroy(event);
  (void)cuStreamDestroy(stream);
}

static void contexts(void)
{
  CUcontext context = NULL;

#if CUDA_VERSION >= 13000
  (void)cuCtxCreate(&context, NULL, 0, 0);
#else
  (void)cuCtxCreate(&context, 0, 0);
#endif
  (void)cuMemAlloc(&held[0], BYTES);
  (void)cuCtxSynchronize();
  (void)cuCtxDestroy(context);
  held[0] = 0; /* went with it */
}

static void start(void)
{
  use_device();
  memory();
}

static void look_up(void)
{
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  printf("found: %d\n", library && dlsym(library, "cuMemAlloc_v2") && dlsym(RTLD_DEFAULT, "cuMemFree_v2"));
  start();
}

static void end_process(void)
{
  start();
  fflush(stdout);
  exit(0);
}

static void make_child(void)
{
  start();
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0)
    _exit((int)cuMemAlloc(&held[6], BYTES) == CUDA_SUCCESS); /* CUDA does not work in it */
  int status = -1, before;
  (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
  (void)waitpid(pid, &status, 0);
  (void)pthread_setcancelstate(before, NULL);
  printf("child: %d\n", status);
}

static const struct {
  const char *name;
  void (*take)(void);
  bool is_first;  /* uses of the device, of this process */
  bool just_ends; /* the thread returns, with the cancellation pending still */
} steps[] = {
    {"start", start, true, false},
    {"start_and_return", start, true, true},
    {"look_up", look_up, true, false},
    {"end_process", end_process, true, false},
    {"make_child", make_child, true, false},
    {"memory", memory, false, false},
    {"memory_and_return", memory, false, true},
    {"pressure", pressure, false, false},
    {"too_much", too_much, false, false},
    {"unpooled", unpooled, false, false},
    {"mapped", mapped, false, false},
    {"streams", streams, false, false},
    {"contexts", contexts, false, false},
};

/* ---- the thread that ends ---- */

static _Thread_local unsigned until; /* passages of the driver until the end; 0: none */

static void on_passage(int entering)
{
  (void)entering;
  if (until > 0 && --until == 0)
    (void)pthread_cancel(pthread_self());
  pthread_testcancel();
}

typedef struct plan {
  void (*take)(void);
  unsigned passage; /* at which to end; 0: from the start on */
  bool is_first;
  bool just_ends;
  atomic_bool has_returned;
} plan_t;

static void *end_on_the_way(void *arg)
{
  plan_t *plan = arg;

  if (!plan->is_first)
    (void)cuCtxSetCurrent(primary);
  if (plan->passage == 0)
    (void)pthread_cancel(pthread_self());
  until = plan->passage;
  plan->take();
  until = 0;
  atomic_store(&plan->has_returned, true);
  if (!plan->just_ends)
    pthread_testcancel();
  return NULL;
}

/* Returns whether the step came to its end. */
static bool take_in_thread(plan_t *plan)
{
  pthread_t thread;
  void *result;

  atomic_init(&plan->has_returned, false);
  if (pthread_create(&thread, NULL, end_on_the_way, plan) != 0 || pthread_join(thread, &result) != 0)
    abort();
  return atomic_load(&plan->has_returned);
}

/* ---- the process afterwards ---- */

static bool works(void)
{
  CUdeviceptr block = 0;
  CUcontext second = NULL;
  CUstream stream = NULL;
  CUgraph graph = NULL;
  bool ok = true;

  for (int i = 0; i < HELD_MAX; i++) {
    if (held[i])
      (void)cuMemFree(held[i]); /* it may be free already */
    held[i] = 0;
  }
  if (held_stream) { /* it may be gone, or capture nothing */
    if (cuStreamEndCapture(held_stream, &graph) == CUDA_SUCCESS)
      (void)cuGraphDestroy(graph);
    (void)cuStreamDestroy(held_stream);
  }
  held_stream = NULL;
  for (int i = 0; i < 2; i++) {
    ok &= is_ok("cuMemAlloc", cuMemAlloc(&block, 3 * BYTES));
    ok &= is_ok("cuMemFree", cuMemFree(block));
    ok &= is_ok("cuCtxSynchronize", cuCtxSynchronize());
  }
  ok &= is_ok("cuStreamCreate", cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  ok &= is_ok("cuStreamBeginCapture", cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  ok &= is_ok("cuStreamEndCapture", cuStreamEndCapture(stream, &graph));
  ok &= is_ok("cuGraphDestroy", cuGraphDestroy(graph));
  ok &= is_ok("cuStreamDestroy", cuStreamDestroy(stream));
#if CUDA_VERSION >= 13000
  ok &= is_ok("cuCtxCreate", cuCtxCreate(&second, NULL, 0, 0));
#else
  ok &= is_ok("cuCtxCreate", cuCtxCreate(&second, 0, 0));
#endif
  ok &= is_ok("cuCtxDestroy", cuCtxDestroy(second));
  return ok && is_ok("cuCtxSetCurrent", cuCtxSetCurrent(primary));
}

int main(int argc, char **argv)
{
  int rounds = 0, good = 0;

  bool by_driver = argc == 3 && strcmp(argv[1], "driver") == 0;
  if (argc != 3 || (!by_driver && strcmp(argv[1], "pending") != 0)) {
    fprintf(stderr, "usage: cancel pending|driver STEP\n");
    return 2;
  }
  const size_t step = CASE_OF(argv[2], steps);
  plan_t plan = {
      .take = steps[step].take, .is_first = steps[step].is_first, .just_ends = steps[step].just_ends};
  bool returned = false;
  if (!plan.is_first)
    use_device();
  if (by_driver) {
    void (*on_call)(void (*fn)(int entering));
    *(void **)&on_call = dlsym(RTLD_DEFAULT, "simcuda_on_call");
    if (!on_call)
      return 3;
    on_call(on_passage);
  }
  do {
    plan.passage += by_driver;
    returned = take_in_thread(&plan);
    if (!by_driver)
      printf("the thread %s\n", returned ? "returned" : "ended on the way");
    if (plan.is_first)
      use_device();
    rounds++;
    good += works();
  } while (by_driver && !returned && rounds < 1000);
  if (by_driver && rounds < 3)
    printf("the driver was not entered\n");
  printf("%s\n", good == rounds ? "the process works" : "the process does not work");
  fprintf(stderr, "rounds=%d\n", rounds);
  return good == rounds ? 0 : 1;
}
