/*
 * Which calls have a stack.
 */
#include <check.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake_engine.h"
#include "test/pool/check_main.h"
#include "trace/record/recorder_state.h"
#include "trace/snapshot/event_merge.h"
#include "trace/stacks/origin.h"
#include "trace/stacks/unwind.h"

static void setup(void)
{
  fake_reset();
  gp_unwind_set_own_range(0, 1); /* nothing here is the library's */
}

static uint32_t origin_of(const gp_observer_t *observer, gp_occasion_t occasion, uint64_t size)
{
  observer->find_origin(observer->self, occasion, size);
  return observer->origin(observer->self);
}

static gp_recorder_t *recorder_with(const char *mode, const char *trace, const char *frees)
{
  static gp_options_t options;
  options = *fake_options(NULL);
  ck_assert(gp_option_parse(GP_OPTION_trace, trace, &options, NULL, NULL));
  ck_assert(gp_option_parse(GP_OPTION_stacks, mode, &options, NULL, NULL));
  ck_assert(gp_option_parse(GP_OPTION_stacks_free, frees, &options, NULL, NULL));
  ck_assert(gp_option_parse(GP_OPTION_small_max, "1MiB", &options, NULL, NULL));
  gp_recorder_t *recorder = gp_recorder_create(&options, fake_clock, NULL);
  ck_assert_ptr_nonnull(recorder);
  gp_origin_begin_call();
  return recorder;
}

START_TEST(test_auto_is_for_the_driver_and_the_large)
{
  gp_recorder_t *recorder = recorder_with("auto", "all", "0");
  const gp_observer_t observer = gp_recorder_observer(recorder);

  ck_assert_uint_eq(origin_of(&observer, GP_OCCASION_ALLOC, 1 << 20), 0);
  ck_assert_uint_eq(origin_of(&observer, GP_OCCASION_FREE, 0), 0);
  ck_assert_uint_ne(origin_of(&observer, GP_OCCASION_DRIVER, 1), 0);
  gp_origin_begin_call();
  ck_assert_uint_eq(observer.origin(observer.self), 0); /* not that of the last call */
  ck_assert_uint_ne(origin_of(&observer, GP_OCCASION_ALLOC, (1 << 20) + 1), 0);
  gp_recorder_destroy(recorder);
}
END_TEST

START_TEST(test_native_is_for_all)
{
  static const char *const modes[] = {"native", "fp"};
  for (int i = 0; i < 2; i++) {
    gp_recorder_t *recorder = recorder_with(modes[i], "state", "0");
    const gp_observer_t observer = gp_recorder_observer(recorder);
    uint32_t origin = origin_of(&observer, GP_OCCASION_ALLOC, 1);
    ck_assert_uint_ne(origin, 0);
    ck_assert_uint_eq(origin_of(&observer, GP_OCCASION_DRIVER, 1), origin); /* once a call */
    gp_origin_begin_call();
    ck_assert_uint_eq(origin_of(&observer, GP_OCCASION_FREE, 0), 0);
    gp_recorder_destroy(recorder);
  }
}
END_TEST

START_TEST(test_off_is_for_none)
{
  gp_recorder_t *recorder = recorder_with("off", "all", "1");
  ck_assert_ptr_null(gp_recorder_observer(recorder).find_origin);
  ck_assert_ptr_null(gp_recorder_observer(recorder).origin);
  ck_assert_ptr_null(recorder->origins.stacks.log);
  gp_recorder_destroy(recorder);

  recorder = recorder_with("native", "off", "1");
  const gp_observer_t observer = gp_recorder_observer(recorder);
  ck_assert_uint_eq(origin_of(&observer, GP_OCCASION_DRIVER, 1), 0);
  gp_recorder_destroy(recorder);
}
END_TEST

static const gp_observer_t *asked_in_fork; /* NULL: by no thread */
static uint32_t origin_in_fork;

static void *ask_in_fork(void *unused)
{
  gp_origin_begin_call();
  origin_in_fork = origin_of(asked_in_fork, GP_OCCASION_ALLOC, 1);
  return unused;
}

static void before_fork(void)
{
  pthread_t thread;
  if (asked_in_fork && pthread_create(&thread, NULL, ask_in_fork, NULL) == 0)
    (void)pthread_join(thread, NULL);
}

/* Before the first walk of what is loaded, so that it runs after the library's handler. */
__attribute__((constructor)) static void watch_forks(void)
{
  (void)pthread_atfork(before_fork, NULL, NULL);
}

START_TEST(test_no_stack_while_another_thread_forks)
{
  static const char *const modes[] = {"native", "fp"};
  gp_recorder_t *recorder = recorder_with(modes[_i], "all", "0");
  const gp_observer_t observer = gp_recorder_observer(recorder);

  ck_assert_uint_ne(origin_of(&observer, GP_OCCASION_ALLOC, 1), 0);
  origin_in_fork = 1;
  asked_in_fork = &observer;
  pid_t pid = fork();
  if (pid == 0)
    _exit(0);
  asked_in_fork = NULL;
  ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
  ck_assert_uint_eq(origin_in_fork, 0);
  gp_origin_begin_call();
  ck_assert_uint_ne(origin_of(&observer, GP_OCCASION_ALLOC, 1), 0);
  gp_recorder_destroy(recorder);
}
END_TEST

static int32_t recorded_stack(gp_recorder_t *recorder, gp_action_t action, uint32_t origin)
{
  const gp_observer_t observer = gp_recorder_observer(recorder);
  const gp_event_t event = {.action = action, .origin = origin, .time_ns = ++fake_now_ns};
  const gp_event_moment_t moment = {NULL, 0};
  gp_event_merge_t history = {0};

  observer.event(observer.self, &event);
  ck_assert(gp_event_merge_take(&recorder->chunks, &moment, &history));
  int32_t stack = gp_event_merge_get(&history, history.count - 1).stack;
  gp_event_merge_fini(&history);
  return stack;
}

START_TEST(test_frees_have_the_stack_of_the_allocation_or_their_own)
{
  gp_recorder_t *recorder = recorder_with("auto", "all", "0");
  ck_assert_int_eq(recorded_stack(recorder, GP_ACTION_FREE_REQUESTED, 5), 4);
  gp_recorder_destroy(recorder);

  recorder = recorder_with("auto", "all", "1");
  const gp_observer_t observer = gp_recorder_observer(recorder);
  int32_t own = (int32_t)origin_of(&observer, GP_OCCASION_FREE, 0) - 1;
  ck_assert_int_ge(own, 0);
  ck_assert_int_eq(recorded_stack(recorder, GP_ACTION_FREE_REQUESTED, 5), own);
  ck_assert_int_eq(recorded_stack(recorder, GP_ACTION_FORWARDED_FREE, 5), own);
  ck_assert_int_eq(recorded_stack(recorder, GP_ACTION_FREE_COMPLETED, 5), 4);
  ck_assert_int_eq(recorded_stack(recorder, GP_ACTION_ALLOC, 5), 4);
  gp_recorder_destroy(recorder);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("origin");
  TCase *tcase = tcase_create("origin");

  tcase_add_checked_fixture(tcase, setup, NULL);
  tcase_add_test(tcase, test_auto_is_for_the_driver_and_the_large);
  tcase_add_test(tcase, test_native_is_for_all);
  tcase_add_test(tcase, test_off_is_for_none);
  tcase_add_loop_test(tcase, test_no_stack_while_another_thread_forks, 0, 2);
  tcase_add_test(tcase, test_frees_have_the_stack_of_the_allocation_or_their_own);
  suite_add_tcase(suite, tcase);
  return gp_check_main_apart(suite);
}
