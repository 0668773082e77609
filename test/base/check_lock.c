/*
 * Locks: what a debug build asserts of them, which is their order, and that none is held across a call of the
 * driver (the fake driver requires that of every call that any test of the engine makes); threads that wait
 * for one, by looking and asleep.
 */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pool/space/driver_calls.h"
#include "pool/engine_record.h"
#include "base/lock.h"
#include "test/pool/check_main.h"
#include "test/pool/engine_fixture.h"
#include "test/pool/run_together.h"

static void begin(void)
{
  start(NULL, GP_GIB, true);
  gp_lock_take(&engine->devices[0].lock);
}

static void wait_with_a_lock(void)
{
  begin();
  (void)gp_driver_wait(engine, &context->driver);
}

static void alloc_with_a_lock(void)
{
  uint64_t address;
  begin();
  (void)gp_driver_alloc(engine, &context->driver, 512, &address);
}

static void free_with_a_lock(void)
{
  begin();
  (void)gp_driver_free(engine, &context->driver, 512);
}

static void info_with_a_lock(void)
{
  uint64_t bytes;
  begin();
  (void)gp_driver_memory_info(engine, &context->driver, &bytes, &bytes);
}

static void fence_with_a_lock(void)
{
  void *fence = NULL;
  begin();
  (void)gp_driver_fence_record(engine, &context->driver, &fence);
}

static void query_with_a_lock(void)
{
  begin();
  (void)gp_driver_fence_query(engine, &context->driver, NULL);
}

static void locks_in_the_wrong_order(void)
{
  begin();
  gp_lock_take(&engine->contexts_lock);
}

/* What ends a process that breaks a rule of the locks, which is the assert of that rule and no other. */
static const struct {
  void (*body)(void);
  const char *condition;
  const char *function;
} broken_rules[] = {
    {wait_with_a_lock, "gp_locks_held() == 0", "gp_driver_wait"},
    {alloc_with_a_lock, "gp_locks_held() == 0", "gp_driver_alloc"},
    {free_with_a_lock, "gp_locks_held() == 0", "gp_driver_free"},
    {info_with_a_lock, "gp_locks_held() == 0", "gp_driver_memory_info"},
    {fence_with_a_lock, "gp_locks_held() == 0", "gp_driver_fence_record"},
    {query_with_a_lock, "gp_locks_held() == 0", "gp_driver_fence_query"},
    {locks_in_the_wrong_order, "held >> rank == 0", ""},
};

START_TEST(test_a_broken_rule_ends_the_process)
{
  int ends[2];
  char said[512];
  char wanted[128];
  ssize_t length = 0;
  ssize_t got;
  int status;

  ck_assert_int_eq(pipe(ends), 0);
  pid_t child = fork();
  ck_assert_int_ge(child, 0);
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    broken_rules[_i].body();
    _exit(0);
  }
  close(ends[1]);
  while ((got = read(ends[0], said + length, sizeof(said) - 1 - (size_t)length)) > 0)
    length += got;
  said[length] = '\0';
  close(ends[0]);
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "%d: status %d: %s", _i, status, said);
  snprintf(wanted, sizeof(wanted), "assertion failed: %s (", broken_rules[_i].condition);
  ck_assert_msg(strstr(said, wanted) && strstr(said, broken_rules[_i].function), "%d: %s", _i, said);
}
END_TEST

START_TEST(test_locks_in_the_right_order)
{
  start(NULL, GP_GIB, true);
  gp_lock_take(&engine->contexts_lock);
  gp_lock_take(&engine->devices[0].lock);
  gp_lock_release(&engine->devices[0].lock);
  gp_lock_release(&engine->contexts_lock);
  ck_assert_uint_eq(gp_locks_held(), 0);
  ck_assert_int_eq(gp_driver_wait(engine, &context->driver), 0);
  stop();
}
END_TEST

/*
 * Waiting threads
 */
#define SLEEPERS 4
#define ROUNDS   20000

static gp_lock_t a_lock = GP_LOCK_INIT(GP_RANK_DEVICE);
static gp_condition_t a_condition;
static bool is_told;
static long uses; /* under the lock */

typedef struct helper {
  pthread_t thread;
  _Atomic pid_t tid; /* 0: it has not begun */
  int errno_after;
} helper_t;

static void *use_once(void *arg)
{
  helper_t *helper = arg;

  errno = EDOM;
  helper->tid = (pid_t)syscall(SYS_gettid);
  gp_lock_take(&a_lock);
  uses++;
  gp_lock_release(&a_lock);
  helper->errno_after = errno;
  return NULL;
}

static void use_often(uintptr_t number)
{
  (void)number;
  for (long i = 0; i < ROUNDS; i++) {
    gp_lock_take(&a_lock);
    uses++;
    gp_lock_release(&a_lock);
  }
}

static void *wait_until_told(void *arg)
{
  gp_lock_take(&a_lock);
  while (!is_told)
    gp_lock_wait(&a_lock, &a_condition);
  uses++;
  gp_lock_release(&a_lock);
  return arg;
}

static void start_helper(helper_t *helper, void *(*body)(void *arg))
{
  *helper = (helper_t){.tid = 0};
  ck_assert_int_eq(pthread_create(&helper->thread, NULL, body, helper), 0);
}

/* The kernel says that the thread sleeps: there is nothing but the lock that it could wait for. */
static bool is_asleep(const helper_t *helper)
{
  char path[64];
  char text[256] = "";

  snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)helper->tid);
  FILE *file = fopen(path, "r");
  ck_assert_ptr_nonnull(file);
  (void)fread(text, 1, sizeof(text) - 1, file);
  fclose(file);
  const char *name_end = strrchr(text, ')');
  return name_end && strncmp(name_end, ") S", 3) == 0;
}

static void await_sleep(const helper_t *helper)
{
  while (helper->tid == 0 || !is_asleep(helper))
    sched_yield();
}

/* One release wakes one sleeper, which sees to the next, and so on. */
START_TEST(test_all_that_sleep_get_the_lock)
{
  helper_t helpers[SLEEPERS];

  gp_lock_take(&a_lock);
  for (int i = 0; i < SLEEPERS; i++)
    start_helper(&helpers[i], use_once);
  for (int i = 0; i < SLEEPERS; i++)
    await_sleep(&helpers[i]);
  ck_assert_int_eq(uses, 0);
  gp_lock_release(&a_lock);
  for (int i = 0; i < SLEEPERS; i++) {
    pthread_join(helpers[i].thread, NULL);
    ck_assert_int_eq(helpers[i].errno_after, EDOM);
  }
  ck_assert_int_eq(uses, SLEEPERS);
  ck_assert(gp_lock_is_free(&a_lock));
}
END_TEST

START_TEST(test_one_thread_has_the_lock_at_a_time)
{
  gp_run_together(SLEEPERS, use_often);
  ck_assert_int_eq(uses, SLEEPERS * (long)ROUNDS);
}
END_TEST

START_TEST(test_all_that_wait_are_told)
{
  helper_t helpers[SLEEPERS];

  for (int i = 0; i < SLEEPERS; i++)
    start_helper(&helpers[i], wait_until_told);
  while (!is_told) {
    gp_lock_take(&a_lock);
    is_told = a_condition.waiting == SLEEPERS;
    if (is_told)
      gp_condition_tell(&a_condition);
    gp_lock_release(&a_lock);
    sched_yield();
  }
  for (int i = 0; i < SLEEPERS; i++)
    pthread_join(helpers[i].thread, NULL);
  ck_assert_int_eq(uses, SLEEPERS);
  ck_assert_uint_eq(a_condition.waiting, 0);
}
END_TEST

#if GP_DEBUG_LEVEL >= 1
/* In place of the C library's */
static _Thread_local unsigned yields;

int sched_yield(void)
{
  yields++;
  return (int)syscall(SYS_sched_yield);
}

static unsigned yields_in_gaps(unsigned one_in)
{
  yields = 0;
  gp_lock_leave_gaps(one_in);
  for (int i = 0; i < 1000; i++) {
    gp_lock_take(&a_lock);
    gp_lock_release(&a_lock);
  }
  gp_lock_leave_gaps(0);
  return yields;
}

/* Two places of a pair, and every other gap is a yield. */
START_TEST(test_gaps_are_left_as_often_as_asked)
{
  ck_assert_uint_eq(yields_in_gaps(0), 0);
  unsigned all = yields_in_gaps(1), tenth = yields_in_gaps(10);
  ck_assert_msg(all >= 800 && all <= 1200, "%u", all);
  ck_assert_msg(tenth >= 50 && tenth <= 150, "%u", tenth);
  ck_assert_uint_eq(yields_in_gaps(0), 0);
}
END_TEST
#endif

static void *take_within_no_time(void *arg)
{
  *(bool *)arg = gp_lock_take_within(&a_lock, 0);
  if (*(bool *)arg)
    gp_lock_release(&a_lock);
  return NULL;
}

static bool is_to_be_had(void)
{
  pthread_t thread;
  bool was_had;

  ck_assert_int_eq(pthread_create(&thread, NULL, take_within_no_time, &was_had), 0);
  pthread_join(thread, NULL);
  return was_had;
}

START_TEST(test_a_wait_with_an_end_ends)
{
  gp_lock_take(&a_lock);
  ck_assert(!is_to_be_had());
  gp_lock_release(&a_lock); /* no thread sleeps any more */
  ck_assert(is_to_be_had());
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("lock");
  TCase *locks = tcase_create("locks");
  if (GP_DEBUG_LEVEL >= 1)
    tcase_add_loop_test(
        locks, test_a_broken_rule_ends_the_process, 0, (int)(sizeof(broken_rules) / sizeof(broken_rules[0])));
  tcase_add_test(locks, test_locks_in_the_right_order);
  tcase_add_test(locks, test_all_that_sleep_get_the_lock);
  tcase_add_test(locks, test_one_thread_has_the_lock_at_a_time);
  tcase_add_test(locks, test_all_that_wait_are_told);
#if GP_DEBUG_LEVEL >= 1
  tcase_add_test(locks, test_gaps_are_left_as_often_as_asked);
#endif
  tcase_add_test(locks, test_a_wait_with_an_end_ends);
  suite_add_tcase(suite, locks);
  return gp_check_main_apart(suite);
}
