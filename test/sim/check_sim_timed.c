/*
 * Kernels that take time by themselves, or wait for each other: when they are complete, and that a thread
 * that waits for them keeps no other out of the driver.
 */
#include "oracle.h"
#include "sim_test.h"

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#define HOUR_NS 3600000000000u

static CUmodule module;
static CUcontext ctx;

static void start(int seed, const char *free_waits)
{
  char text[16];
  snprintf(text, sizeof text, "%d", seed);
  setenv("SIMCUDA_SEED", text, 1);
  setenv("SIMCUDA_DEVICES", "2", 1);
  setenv("SIMCUDA_FREE_WAITS", free_waits, 1);
  ctx = test_start();
  OK(cuModuleLoadData(&module, ""));
}

static CUstream new_stream(void)
{
  CUstream stream;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  return stream;
}

static void launch(const char *name, CUstream stream, void **params)
{
  CUfunction function;
  OK(cuModuleGetFunction(&function, module, name));
  OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

static void busy(CUstream stream, uint64_t ns)
{
  launch("simcuda_busy", stream, (void *[]){&ns});
}

static void meet(CUstream stream, volatile uint32_t *cell, uint32_t parties)
{
  launch("_Z12simcuda_meetPVjj", stream, (void *[]){(void *)&cell, &parties});
}

static uint64_t now_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

START_TEST(test_busy_ends_by_the_clock)
{
  start(_i, "1");
  CUstream stream = new_stream();
  uint64_t before = now_ns();
  busy(stream, 20000000);
  busy(stream, 10000000);
  OK(cuStreamSynchronize(stream));
  ck_assert_uint_ge(now_ns() - before, 30000000);
}
END_TEST

/* It keeps its stream and what is behind it, and nothing else. */
START_TEST(test_busy_keeps_its_stream)
{
  CUevent behind;
  start(_i, "1");
  CUstream stream = new_stream(), other = new_stream();
  OK(cuEventCreate(&behind, 0));
  busy(stream, HOUR_NS);
  OK(cuCtxRecordEvent(ctx, behind));
  for (int i = 0; i < 200; i++) {
    ck_assert_int_eq(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    ck_assert_int_eq(cuEventQuery(behind), CUDA_ERROR_NOT_READY);
  }
  busy(other, 1);
  OK(cuStreamSynchronize(other));
}
END_TEST

/* Noticed by the next call, whatever it is about. */
START_TEST(test_busy_is_noticed)
{
  CUdeviceptr p;
  start(_i, "1");
  CUstream stream = new_stream();
  OK(cuMemAlloc(&p, 512));
  busy(stream, 1);
  OK(cuStreamQuery(stream));
}
END_TEST

START_TEST(test_free_beside_busy)
{
  CUdeviceptr p;
  start(_i, "0");
  OK(cuMemAlloc(&p, 512));
  busy(new_stream(), HOUR_NS);
  OK(cuMemFree(p));
}
END_TEST

START_TEST(test_free_waits_for_busy)
{
  CUdeviceptr p;
  start(_i, "1");
  CUstream stream = new_stream();
  OK(cuMemAlloc(&p, 512));
  uint64_t before = now_ns();
  busy(stream, 10000000);
  OK(cuMemFree(p));
  ck_assert_uint_ge(now_ns() - before, 10000000);
}
END_TEST

/* In streams, contexts and devices that differ. One that is behind other work has not come yet. */
/* Beside a kernel that has the whole device no memset begins, in no stream; on the other device it does. */
START_TEST(test_an_occupied_device)
{
  static volatile uint32_t flag;
  const volatile uint32_t *place = &flag;
  CUdeviceptr memory;
  CUcontext other;
  setenv("SIMCUDA_OCCUPIED", "1", 1);
  start(_i, "1");
  CUstream waiting = new_stream(), filling = new_stream();
  OK(cuMemAlloc(&memory, 8));
  launch("simcuda_wait", waiting, (void *[]){&place});
  OK(cuMemsetD8Async(memory, 1, 8, filling));
  for (int i = 0; i < 1000; i++)
    ck_assert_int_eq(cuStreamQuery(filling), CUDA_ERROR_NOT_READY);
  OK(cuDevicePrimaryCtxRetain(&other, 1));
  OK(cuCtxPushCurrent(other));
  CUstream elsewhere = new_stream();
  OK(cuMemAlloc(&memory, 8));
  OK(cuMemsetD8Async(memory, 1, 8, elsewhere));
  OK(cuStreamSynchronize(elsewhere));
  OK(cuCtxPopCurrent(&other));
  flag = 1;
  OK(cuStreamSynchronize(filling));
}
END_TEST

START_TEST(test_meet)
{
  CUcontext second;
  CUevent events[3];
  volatile uint32_t cell = 0, flag = 0, *waited = &flag;
  start(_i, "1");
  CUstream streams[3] = {new_stream(), new_stream(), NULL};
  OK(cuDevicePrimaryCtxRetain(&second, 1));
  for (int i = 0; i < 3; i++) {
    if (i == 2) {
      OK(cuCtxSetCurrent(second));
      streams[2] = new_stream();
      launch("simcuda_wait", streams[2], (void *[]){(void *)&waited});
    }
    meet(streams[i], &cell, 3);
    OK(cuEventCreate(&events[i], 0));
    OK(cuEventRecord(events[i], streams[i]));
  }
  for (int i = 0; i < 600; i++)
    ck_assert_int_eq(cuEventQuery(events[i % 3]), CUDA_ERROR_NOT_READY);
  flag = 1;
  OK(cuStreamSynchronize(streams[2]));
  for (int i = 0; i < 3; i++)
    OK(cuEventSynchronize(events[i]));
}
END_TEST

/* Kernels with another cell are no parties, and those that have met are none of the next ones. */
START_TEST(test_meet_again)
{
  volatile uint32_t cell = 0, other = 0;
  start(_i, "1");
  CUstream a = new_stream(), b = new_stream(), c = new_stream();
  meet(a, &cell, 2);
  meet(b, &other, 2);
  ck_assert_int_eq(cuStreamQuery(a), CUDA_ERROR_NOT_READY);
  meet(c, &cell, 2);
  OK(cuStreamQuery(a));
  OK(cuStreamQuery(c));
  meet(a, &cell, 2);
  ck_assert_int_eq(cuStreamQuery(a), CUDA_ERROR_NOT_READY);
  meet(c, &other, 2);
  OK(cuStreamQuery(b));
  OK(cuStreamQuery(c));
  ck_assert_int_eq(cuStreamQuery(a), CUDA_ERROR_NOT_READY);
}
END_TEST

/* ---- a thread that waits ---- */

static bool entered; /* the other thread's call is on its way */
static pthread_t waiter;
static CUdeviceptr freed;
static CUstream waited_for;

static void on_call(int entering)
{
  if (entering && pthread_equal(pthread_self(), waiter))
    __atomic_store_n(&entered, true, __ATOMIC_RELEASE);
}

static void *wait_in(void *data)
{
  OK(cuCtxSetCurrent(ctx));
  waiter = pthread_self();
  simcuda_on_call(on_call);
  if (strcmp(data, "free") == 0)
    OK(cuMemFree(freed));
  else if (strcmp(data, "stream") == 0)
    OK(cuStreamSynchronize(waited_for));
  else
    OK(cuCtxSynchronize_v2(ctx));
  return NULL;
}

/* While one thread waits for a kernel, another launches the one that it meets, or lets it end. */
START_TEST(test_waits_let_others_in)
{
  static const char *const ways[] = {"free", "stream", "context"};
  volatile uint32_t cell = 0, flag = 0, *set = &flag;
  pthread_t thread;
  CUdeviceptr p;
  start(_i, "1");
  OK(cuMemAlloc(&freed, 512));
  waited_for = new_stream();
  CUstream other = new_stream();
  meet(waited_for, &cell, 2);
  launch("simcuda_wait", waited_for, (void *[]){(void *)&set});
  ck_assert_int_eq(pthread_create(&thread, NULL, wait_in, (void *)(uintptr_t)ways[_i % 3]), 0);
  while (!__atomic_load_n(&entered, __ATOMIC_ACQUIRE))
    sched_yield();
  OK(cuMemAlloc(&p, 512));
  meet(other, &cell, 2);
  OK(cuStreamSynchronize(other));
  ck_assert_int_eq(cuStreamQuery(waited_for), CUDA_ERROR_NOT_READY);
  __atomic_store_n(&flag, 1, __ATOMIC_RELEASE); /* no call of the driver follows */
  ck_assert_int_eq(pthread_join(thread, NULL), 0);
}
END_TEST

/* ---- graphs ---- */

START_TEST(test_captured)
{
  CUgraph graph;
  CUgraphExec exec;
  start(_i, "1");
  CUstream stream = new_stream();
  OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  busy(stream, 5000000);
  OK(cuStreamEndCapture(stream, &graph));
  OK(cuGraphInstantiate(&exec, graph, 0));
  uint64_t before = now_ns();
  OK(cuGraphLaunch(exec, stream));
  OK(cuGraphLaunch(exec, stream));
  OK(cuStreamSynchronize(stream));
  ck_assert_uint_ge(now_ns() - before, 10000000);
}
END_TEST

static void CUDA_CB do_nothing(void *unused)
{
  (void)unused;
}

/* The host only asks about the first; the second is behind a function of the program. */
START_TEST(test_meet_behind_a_host_function)
{
  static volatile uint32_t cell;
  start(_i, "1");
  CUstream first = new_stream(), second = new_stream();
  meet(first, &cell, 2);
  OK(cuLaunchHostFunc(second, do_nothing, NULL));
  meet(second, &cell, 2);
  for (int i = 0; cuStreamQuery(first) == CUDA_ERROR_NOT_READY; i++)
    ck_assert_int_lt(i, 10000);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("sim_timed");
  TCase *tests = tcase_create("timed");
  tcase_set_timeout(tests, 60);
  tcase_add_loop_test(tests, test_busy_ends_by_the_clock, 0, 3);
  tcase_add_loop_test(tests, test_busy_keeps_its_stream, 0, 5);
  tcase_add_loop_test(tests, test_busy_is_noticed, 0, 10);
  tcase_add_loop_test(tests, test_free_beside_busy, 0, 5);
  tcase_add_loop_test(tests, test_free_waits_for_busy, 0, 3);
  tcase_add_loop_test(tests, test_an_occupied_device, 1, 9);
  tcase_add_loop_test(tests, test_meet, 0, 10);
  tcase_add_loop_test(tests, test_meet_again, 0, 10);
  tcase_add_loop_test(tests, test_meet_behind_a_host_function, 0, 10);
  tcase_add_loop_test(tests, test_waits_let_others_in, 0, 12);
  tcase_add_test(tests, test_captured);
  suite_add_tcase(suite, tests);
  return gp_check_main_apart(suite);
}
