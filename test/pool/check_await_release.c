/*
 * A thread that is in the driver's free for long, since that waits for the device: what an allocation of
 * another thread, which could have that memory, makes of it. Over the fake driver.
 */
#include "pool/reuse/await_pending.h"

#include <sched.h>
#include <stdatomic.h>

#include "pool/engine_record.h"
#include "pool/reuse/wait.h"
#include "test/pool/check_main.h"
#include "test/pool/wait_fixture.h"

static atomic_bool in_free, may_return;
static int (*real_free)(void *self, const gp_driver_context_t *which, uint64_t address);

static int slow_free(void *self, const gp_driver_context_t *which, uint64_t address)
{
  atomic_store(&in_free, true);
  while (!atomic_load(&may_return))
    sched_yield();
  return real_free(self, which, address);
}

static uint64_t block;

/* Exported memory goes back to the driver when the program frees it. */
static void *free_exported(void *arg)
{
  int code = -1;
  (void)arg;
  (void)gp_engine_free(engine, block, &code);
  return NULL;
}

static pthread_t thread;

/* Another thread frees all there is, and the driver's free does not return. The clock is this thread's. */
static void begin_release(const char *setting, uint64_t capacity)
{
  begin(setting, capacity, true);
  driver.locked = true;
  block = allocate(GP_MIB);
  gp_engine_taint(engine, block);
  real_free = driver.ops.free;
  driver.ops.free = slow_free;
  atomic_store(&in_free, false);
  atomic_store(&may_return, false);
  ck_assert_int_eq(pthread_create(&thread, NULL, free_exported, NULL), 0);
  while (!atomic_load(&in_free))
    sched_yield();
}

static void end_release(void)
{
  atomic_store(&may_return, true);
  pthread_join(thread, NULL);
}

static const struct {
  const char *setting;
  uint64_t capacity;
} full[] = {{"GPUPOOL_LIMIT=2MiB", GP_GIB}, {NULL, GP_MIB}};

START_TEST(test_an_allocation_waits_no_longer_than_the_patience)
{
  begin_release(full[_i].setting, full[_i].capacity);
  refuse(GP_MIB);
  ck_assert_uint_ge(passed_ns(), 2 * SECOND);
  ck_assert_uint_le(passed_ns(), 2 * SECOND + 20 * MILLISECOND); /* a short wait comes before the long one */
  ck_assert_uint_ge(oom.waited_ns, 2 * SECOND);
  end_release();
  (void)allocate(GP_MIB);
  stop();
}
END_TEST

START_TEST(test_the_patience_is_spent_once)
{
  begin_release(full[_i].setting, full[_i].capacity);
  refuse(GP_MIB);
  uint64_t first_ns = passed_ns();
  for (int i = 0; i < 5; i++)
    refuse(GP_MIB);
  ck_assert_uint_eq(passed_ns(), first_ns);
  end_release();
  stop();
}
END_TEST

static int pauses;

static void return_in_the_50th_pause(void)
{
  if (++pauses == 50)
    end_release();
}

START_TEST(test_what_comes_back_meanwhile_serves_it)
{
  begin_release(full[_i].setting, full[_i].capacity);
  pauses = 0;
  driver.on_pause = return_in_the_50th_pause;
  (void)allocate(GP_MIB);
  ck_assert_int_ge(pauses, 50);
  ck_assert_int_lt(pauses, 60);
  ck_assert_uint_eq(oom.requested, 0);
  stop();
}
END_TEST

START_TEST(test_a_release_that_finished_gives_new_patience)
{
  gp_oom_attempts_t first = {.next_step = 0}, next = {.next_step = 0}, last = {.next_step = 0};

  begin_release(NULL, GP_GIB);
  ck_assert(!gp_await_release(engine, context->device, &first, engine->patience_ns));
  ck_assert(first.has_timed_out);
  ck_assert_uint_eq(first.later_ns, 2 * SECOND);
  ck_assert(!gp_await_release(engine, context->device, &next, engine->patience_ns));
  ck_assert_uint_eq(next.later_ns, 0);
  end_release();

  block = allocate(2 * GP_MIB);
  gp_engine_taint(engine, block);
  atomic_store(&in_free, false);
  atomic_store(&may_return, false);
  ck_assert_int_eq(pthread_create(&thread, NULL, free_exported, NULL), 0);
  while (!atomic_load(&in_free))
    sched_yield();
  ck_assert(!gp_await_release(engine, context->device, &last, engine->patience_ns));
  ck_assert_uint_eq(last.later_ns, 2 * SECOND);
  end_release();
  stop();
}
END_TEST

/* What a short wait has spent is not the patience. */
START_TEST(test_a_short_wait_leaves_the_patience)
{
  gp_oom_attempts_t brief = {.next_step = 0}, attempts = {.next_step = 0};

  begin_release(NULL, GP_GIB);
  ck_assert(!gp_await_release(engine, context->device, &brief, GP_WAIT_MISS_NS));
  ck_assert_uint_eq(brief.later_ns, GP_WAIT_MISS_NS);
  ck_assert(!gp_await_release(engine, context->device, &attempts, engine->patience_ns));
  ck_assert_uint_eq(attempts.later_ns, 2 * SECOND);
  end_release();
  stop();
}
END_TEST

/* Time that was spent on the device counts. */
START_TEST(test_the_patience_is_one_for_all_later_waits)
{
  gp_oom_attempts_t attempts = {.later_ns = 1500 * MILLISECOND};

  begin_release(NULL, GP_GIB);
  ck_assert(!gp_await_release(engine, context->device, &attempts, engine->patience_ns));
  ck_assert_uint_eq(passed_ns(), 500 * MILLISECOND);
  end_release();
  stop();
}
END_TEST

static bool was_clear;

static void look_at_what_is_held(void)
{
  pauses++;
  was_clear = was_clear && gp_locks_held() == 0 && atomic_load(&engine->own_calls) == 0 &&
              atomic_load(&engine->own_waits) == 0;
}

START_TEST(test_nothing_is_held_in_a_pause)
{
  gp_oom_attempts_t attempts = {.next_step = 0};

  begin_release(NULL, GP_GIB);
  pauses = 0;
  was_clear = true;
  driver.on_pause = look_at_what_is_held;
  ck_assert(!gp_await_release(engine, context->device, &attempts, engine->patience_ns));
  ck_assert_int_gt(pauses, 1000);
  ck_assert(was_clear);
  end_release();
  stop();
}
END_TEST

START_TEST(test_without_a_release_in_flight_nothing_is_waited_for)
{
  gp_oom_attempts_t attempts = {.next_step = 0};

  begin(NULL, GP_GIB, true);
  ck_assert(!gp_await_release(engine, context->device, &attempts, engine->patience_ns));
  ck_assert_uint_eq(passed_ns(), 0);
  ck_assert(!attempts.has_timed_out);
  stop();
}
END_TEST

static gp_release_t of_another;

/* One release has finished, and the next one is in flight. */
static void release_again(void)
{
  gp_device_t *device = context->device;
  gp_lock_take(&device->lock);
  if (pauses++ > 0)
    gp_releases_finish(&device->releases, &of_another);
  if (pauses < 100000)
    gp_releases_announce(&device->releases, &of_another);
  gp_lock_release(&device->lock);
}

START_TEST(test_releases_without_end_are_waited_for_once)
{
  begin("GPUPOOL_PATIENCE=0", GP_MIB, true);
  block = allocate(GP_MIB);
  pauses = 0;
  release_again();
  driver.on_pause = release_again;
  refuse(GP_MIB);
  ck_assert_uint_le(passed_ns(), GP_WAIT_MISS_NS + MILLISECOND);
  pauses = 100000;
  release_again();
  stop();
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("await_release");
  TCase *tests = tcase_create("await_release");
  tcase_add_loop_test(tests, test_an_allocation_waits_no_longer_than_the_patience, 0, 2);
  tcase_add_loop_test(tests, test_the_patience_is_spent_once, 0, 2);
  tcase_add_loop_test(tests, test_what_comes_back_meanwhile_serves_it, 0, 2);
  tcase_add_test(tests, test_a_release_that_finished_gives_new_patience);
  tcase_add_test(tests, test_a_short_wait_leaves_the_patience);
  tcase_add_test(tests, test_the_patience_is_one_for_all_later_waits);
  tcase_add_test(tests, test_nothing_is_held_in_a_pause);
  tcase_add_test(tests, test_releases_without_end_are_waited_for_once);
  tcase_add_test(tests, test_without_a_release_in_flight_nothing_is_waited_for);
  suite_add_tcase(suite, tests);
  return gp_check_main(suite);
}
