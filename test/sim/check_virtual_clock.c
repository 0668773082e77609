/*
 * The virtual clock, preloaded: what sleeps, and kernels that take time, cost by it; and that threads see it
 * go on in the order of their sleeps. The time limit of each test is real.
 */
#include "sim_test.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <time.h>

#define SECOND_NS 1000000000u

static uint64_t now_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

static void expect_elapsed(uint64_t since_ns, uint64_t ns)
{
  uint64_t elapsed = now_ns() - since_ns;
  ck_assert_uint_ge(elapsed, ns);
  ck_assert_uint_lt(elapsed, ns + SECOND_NS);
}

START_TEST(test_sleeps)
{
  struct timespec minutes = {.tv_sec = 300}, at;
  uint64_t begin = now_ns();
  ck_assert_int_eq(nanosleep(&minutes, NULL), 0);
  ck_assert_int_eq(clock_nanosleep(CLOCK_REALTIME, 0, &minutes, NULL), 0);
  clock_gettime(CLOCK_MONOTONIC, &at);
  at.tv_sec += 300;
  ck_assert_int_eq(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL), 0);
  ck_assert_int_eq(usleep(500000), 0);
  ck_assert_uint_eq(sleep(300), 0);
  expect_elapsed(begin, 1200ull * SECOND_NS + SECOND_NS / 2);
}
END_TEST

/* A loop around either ends by itself. */
START_TEST(test_loops_end)
{
  uint64_t begin = now_ns();
  while (now_ns() - begin < SECOND_NS / 10)
    ;
  begin = now_ns();
  while (now_ns() - begin < 10ull * SECOND_NS)
    sched_yield();
}
END_TEST

static void launch_busy(uint64_t ns, CUstream stream)
{
  CUmodule module;
  CUfunction function;
  void *params[] = {&ns};
  OK(cuModuleLoadData(&module, ""));
  OK(cuModuleGetFunction(&function, module, "simcuda_busy"));
  OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

START_TEST(test_busy_kernel)
{
  test_start();
  uint64_t begin = now_ns();
  launch_busy(5ull * SECOND_NS, NULL);
  ck_assert_uint_lt(now_ns() - begin, SECOND_NS);
  OK(cuCtxSynchronize());
  expect_elapsed(begin, 5ull * SECOND_NS);
}
END_TEST

/* One begins when the one in front ends, also if no call notices that. */
START_TEST(test_busy_kernels_in_a_row)
{
  CUstream stream;
  test_start();
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  for (int i = 0; i < 3; i++)
    launch_busy(20ull * SECOND_NS, stream);
  sleep(59);
  ck_assert_int_eq(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
  sleep(1);
  OK(cuStreamQuery(stream));
}
END_TEST

/* ---- threads ---- */

static bool woken;

static void *sleep_long(void *unused)
{
  (void)unused;
  sleep(100);
  __atomic_store_n(&woken, true, __ATOMIC_SEQ_CST);
  return NULL;
}

/* One thread sleeps long and another one often. */
START_TEST(test_sleeps_end_in_order)
{
  pthread_t thread;
  uint64_t begin = now_ns();
  ck_assert_int_eq(pthread_create(&thread, NULL, sleep_long, NULL), 0);
  for (int i = 0; i < 999; i++) {
    usleep(99000);
    ck_assert(!__atomic_load_n(&woken, __ATOMIC_SEQ_CST));
  }
  ck_assert_int_eq(pthread_join(thread, NULL), 0);
  expect_elapsed(begin, 100ull * SECOND_NS);
}
END_TEST

static bool started;

static void *work(void *ret)
{
  uint64_t begin = now_ns();
  __atomic_store_n(&started, true, __ATOMIC_SEQ_CST);
  for (unsigned i = 0; i < 20000000; i++)
    __asm__ volatile("" : "+r"(i));
  *(uint64_t *)ret = now_ns() - begin;
  return NULL;
}

static bool work_takes_no_time(void)
{
  pthread_t thread;
  uint64_t took;
  __atomic_store_n(&started, false, __ATOMIC_SEQ_CST);
  if (pthread_create(&thread, NULL, work, &took) != 0)
    return false;
  while (!__atomic_load_n(&started, __ATOMIC_SEQ_CST))
    ;
  sleep(300);
  return pthread_join(thread, NULL) == 0 && took < SECOND_NS;
}

/* The clock stands still for a thread that computes while another one sleeps. */
START_TEST(test_work_takes_no_time)
{
  ck_assert(work_takes_no_time());
}
END_TEST

static void *lock(void *mutex)
{
  pthread_mutex_lock(mutex);
  return NULL;
}

/* A thread that waits for another one's lock lets time go on. */
START_TEST(test_blocked_thread)
{
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_t thread;
  uint64_t begin = now_ns();
  pthread_mutex_lock(&mutex);
  ck_assert_int_eq(pthread_create(&thread, NULL, lock, &mutex), 0);
  sleep(300);
  pthread_mutex_unlock(&mutex);
  ck_assert_int_eq(pthread_join(thread, NULL), 0);
  expect_elapsed(begin, 300ull * SECOND_NS);
}
END_TEST

/* Also for one that begins after a sleep, that takes the place of one that was seen, and in a child. */
START_TEST(test_threads_that_come_and_go)
{
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_t thread;
  int status;
  sleep(1);
  ck_assert(work_takes_no_time());
  pthread_mutex_lock(&mutex);
  ck_assert_int_eq(pthread_create(&thread, NULL, lock, &mutex), 0);
  sleep(1);
  pthread_mutex_unlock(&mutex);
  ck_assert_int_eq(pthread_join(thread, NULL), 0);
  ck_assert(work_takes_no_time());
  pid_t pid = fork();
  ck_assert_int_ge(pid, 0);
  if (pid == 0)
    exit(!work_takes_no_time());
  ck_assert_int_eq(waitpid(pid, &status, 0), pid);
  ck_assert_int_eq(status, 0);
}
END_TEST

static void *synchronize(void *ctx)
{
  OK(cuCtxSetCurrent(ctx));
  OK(cuCtxSynchronize());
  return NULL;
}

/* A thread in the driver waits for a kernel, and its sleeps there count as others. */
START_TEST(test_thread_in_the_driver)
{
  pthread_t thread;
  CUcontext ctx = test_start();
  uint64_t begin = now_ns();
  launch_busy(60ull * SECOND_NS, NULL);
  ck_assert_int_eq(pthread_create(&thread, NULL, synchronize, ctx), 0);
  sleep(59);
  ck_assert_int_eq(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
  ck_assert_int_eq(pthread_join(thread, NULL), 0);
  expect_elapsed(begin, 60ull * SECOND_NS);
}
END_TEST

START_TEST(test_forked_child)
{
  int status;
  pthread_t thread;
  ck_assert_int_eq(pthread_create(&thread, NULL, sleep_long, NULL), 0);
  uint64_t begin = now_ns();
  pid_t pid = fork();
  ck_assert_int_ge(pid, 0);
  if (pid == 0) {
    sleep(50);
    exit(now_ns() - begin < 50ull * SECOND_NS);
  }
  ck_assert_int_eq(waitpid(pid, &status, 0), pid);
  ck_assert_int_eq(status, 0);
  ck_assert_int_eq(pthread_join(thread, NULL), 0);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("virtual_clock");
  TCase *tests = tcase_create("clock");
  tcase_set_timeout(tests, 60);
  tcase_add_test(tests, test_sleeps);
  tcase_add_test(tests, test_loops_end);
  tcase_add_test(tests, test_busy_kernel);
  tcase_add_test(tests, test_busy_kernels_in_a_row);
  tcase_add_loop_test(tests, test_sleeps_end_in_order, 0, 5);
  tcase_add_test(tests, test_work_takes_no_time);
  tcase_add_test(tests, test_threads_that_come_and_go);
  tcase_add_test(tests, test_blocked_thread);
  tcase_add_test(tests, test_thread_in_the_driver);
  tcase_add_test(tests, test_forked_child);
  suite_add_tcase(suite, tests);
  return gp_check_main_apart(suite);
}
