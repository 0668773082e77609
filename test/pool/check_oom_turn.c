/*
 * Threads that make room on one device: which of them has the turn, and what is reserved for it. Over the
 * fake driver. The clock moves in pauses only; where a test says so, it stands still, so that no wait is
 * given up.
 */
#include "pool/limits/oom_turn.h"

#include <sched.h>
#include <stdatomic.h>

#include "pool/engine_record.h"
#include "pool/limits/limit.h"
#include "pool/reuse/wait.h"
#include "test/pool/check_main.h"
#include "test/pool/wait_fixture.h"

static gp_device_t *device;

static void begin_turns(const char *setting, uint64_t capacity)
{
  begin(setting, capacity, true);
  driver.locked = true;
  device = context->device;
}

static void stand_still(void)
{
  __atomic_store_n(&driver.now_ns, began_ns, __ATOMIC_RELAXED);
  sched_yield();
}

static uintptr_t holder(void)
{
  gp_lock_take(&device->lock);
  uintptr_t thread = device->oom_turn.holder;
  gp_lock_release(&device->lock);
  return thread;
}

/* Another thread, which carries out orders. */
static struct {
  pthread_t thread;
  atomic_int async_context, done;
  gp_oom_attempts_t attempts;
} other;

enum { TAKE_AND_RESERVE = 1, ATTEMPT, LEAVE, END };

static void *follow(void *arg)
{
  (void)arg;
  for (int order = 0; order != END;) {
    while ((order = atomic_load(&other.async_context)) == atomic_load(&other.done))
      sched_yield();
    if (order == TAKE_AND_RESERVE) {
      (void)gp_oom_turn_take(engine, device, &other.attempts);
      gp_oom_turn_reserve(device);
    } else if (order == ATTEMPT) {
      gp_oom_turn_attempted(device);
    } else if (order == LEAVE) {
      gp_oom_turn_leave(device);
    }
    atomic_store(&other.done, order);
  }
  return NULL;
}

static void give(int order)
{
  atomic_store(&other.async_context, order);
  while (atomic_load(&other.done) != order)
    sched_yield();
}

static void begin_other(void)
{
  memset(&other.attempts, 0, sizeof(other.attempts));
  atomic_store(&other.async_context, 0);
  atomic_store(&other.done, 0);
  ck_assert_int_eq(pthread_create(&other.thread, NULL, follow, NULL), 0);
  give(TAKE_AND_RESERVE);
  began_ns = driver.now_ns;
}

static void end_other(void)
{
  give(END);
  ck_assert_int_eq(pthread_join(other.thread, NULL), 0);
}

START_TEST(test_a_turn_that_is_free_is_had_at_once)
{
  gp_oom_attempts_t attempts = {.next_step = 0};

  begin_turns(NULL, GP_GIB);
  ck_assert(!gp_oom_turn_take(engine, device, &attempts));
  ck_assert(!gp_oom_turn_take(engine, device, &attempts)); /* it has it already */
  ck_assert_uint_eq(holder(), gp_this_thread());
  gp_oom_turn_leave(device);
  ck_assert_uint_eq(holder(), 0);
  ck_assert_uint_eq(passed_ns(), 0);
  stop();
}
END_TEST

START_TEST(test_a_thread_without_progress_loses_its_turn)
{
  gp_oom_attempts_t attempts = {.next_step = 0};

  begin_turns(NULL, GP_GIB);
  begin_other();
  ck_assert(gp_oom_turn_take(engine, device, &attempts));
  ck_assert_uint_ge(passed_ns(), GP_OOM_STALL_NS);
  ck_assert_uint_le(passed_ns(), GP_OOM_STALL_NS + 2 * MILLISECOND);
  ck_assert_uint_eq(holder(), gp_this_thread());
  give(LEAVE); /* what it has no more */
  ck_assert_uint_eq(holder(), gp_this_thread());
  gp_oom_turn_leave(device);
  end_other();
  stop();
}
END_TEST

static int pauses;

static void leave_in_the_fifth_pause(void)
{
  stand_still();
  if (++pauses == 5)
    give(LEAVE);
}

START_TEST(test_a_thread_waits_for_its_turn)
{
  gp_oom_attempts_t attempts = {.next_step = 0};

  begin_turns(NULL, GP_GIB);
  begin_other();
  pauses = 0;
  driver.on_pause = leave_in_the_fifth_pause;
  ck_assert(gp_oom_turn_take(engine, device, &attempts));
  ck_assert_int_eq(pauses, 5);
  ck_assert_uint_gt(attempts.ticket, other.attempts.ticket);
  gp_oom_turn_leave(device);
  driver.on_pause = NULL;
  end_other();
  stop();
}
END_TEST

/* Requests by tickets, and in which order they had their turns. */
static struct {
  pthread_t thread;
  gp_oom_attempts_t attempts;
} queue[3];
static atomic_int turns_had;
static uint64_t order_had[3];

static void *queue_up(void *arg)
{
  gp_oom_attempts_t *attempts = arg;
  (void)gp_oom_turn_take(engine, device, attempts);
  order_had[atomic_fetch_add(&turns_had, 1)] = attempts->ticket;
  gp_oom_turn_leave(device);
  return NULL;
}

static int count_waiting(void)
{
  int count = 0;
  gp_lock_take(&device->lock);
  for (const gp_list_t *link = device->oom_turn.waiting.next; link != &device->oom_turn.waiting;
       link = link->next)
    count++;
  gp_lock_release(&device->lock);
  return count;
}

START_TEST(test_the_oldest_request_has_the_next_turn)
{
  static const uint64_t tickets[] = {30, 10, 20};
  gp_oom_attempts_t attempts = {.next_step = 0};

  begin_turns(NULL, GP_GIB);
  driver.on_pause = stand_still;
  atomic_store(&turns_had, 0);
  (void)gp_oom_turn_take(engine, device, &attempts);
  for (int i = 0; i < 3; i++) {
    queue[i].attempts = (gp_oom_attempts_t){.ticket = tickets[i]};
    ck_assert_int_eq(pthread_create(&queue[i].thread, NULL, queue_up, &queue[i].attempts), 0);
    while (count_waiting() <= i)
      sched_yield();
  }
  gp_oom_turn_leave(device);
  for (int i = 0; i < 3; i++)
    ck_assert_int_eq(pthread_join(queue[i].thread, NULL), 0);
  for (int i = 0; i < 3; i++)
    ck_assert_uint_eq(order_had[i], 10 * (uint64_t)(i + 1));
  driver.on_pause = NULL;
  stop();
}
END_TEST

static void attempt_in_the_fifth_pause(void)
{
  stand_still();
  if (++pauses == 5)
    give(ATTEMPT);
}

START_TEST(test_a_request_leaves_what_is_reserved_for_another)
{
  begin_turns(NULL, GP_GIB);
  begin_other();
  pauses = 0;
  driver.on_pause = attempt_in_the_fifth_pause;
  (void)allocate(GP_MIB);
  ck_assert_int_eq(pauses, 5);
  (void)allocate(2 * GP_MIB); /* the turn alone holds no request up that finds memory */
  ck_assert_int_eq(pauses, 5);
  driver.on_pause = NULL;
  end_other();
  stop();
}
END_TEST

START_TEST(test_a_request_takes_what_is_reserved_for_a_thread_without_progress)
{
  begin_turns(NULL, GP_MIB);
  begin_other();
  (void)allocate(GP_MIB);
  ck_assert_uint_ge(passed_ns(), GP_OOM_STALL_NS);
  ck_assert_uint_le(passed_ns(), GP_OOM_STALL_NS + 2 * MILLISECOND);
  end_other();
  stop();
}
END_TEST

static void expect_no_holder(void)
{
  pauses++;
  ck_assert_uint_eq(holder(), 0);
}

START_TEST(test_a_thread_that_waits_for_the_device_has_no_turn)
{
  begin_turns(NULL, LARGE);
  uint64_t block = allocate(LARGE);
  free_busy(block);
  pauses = 0;
  driver.on_pause = expect_no_holder;
  refuse(LARGE);
  ck_assert_int_gt(pauses, 0);
  ck_assert_uint_eq(holder(), 0);
  driver.on_pause = NULL;
  stop();
}
END_TEST

START_TEST(test_a_turn_ends_with_the_request)
{
  begin_turns(NULL, 4 * GP_MIB);
  uint64_t small = allocate(GP_MIB);
  ck_assert_int_eq(free_code(small), 0);
  synchronize();
  (void)allocate(4 * GP_MIB); /* the small one goes back for it */
  ck_assert_uint_eq(holder(), 0);
  refuse(GP_MIB);
  ck_assert_uint_eq(holder(), 0);
  stop();
}
END_TEST

static uint64_t held_by_program;

/* Another thread frees what stands in the way, when the steps are over. */
static void *free_held(void *arg)
{
  int code = -1;
  (void)arg;
  (void)gp_engine_free(engine, held_by_program, &code);
  return NULL;
}

/* The program holds little, so a request for half of the device is not hopeless; but what is free is in
 * pieces until another thread frees memory. */
static bool is_in_pieces;

static void free_in_the_first_pause(void)
{
  pthread_t thread;
  if (pauses++ > 0)
    return;
  is_in_pieces = false;
  ck_assert_int_eq(pthread_create(&thread, NULL, free_held, NULL), 0);
  ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

static void *allocate_a_little(void *arg)
{
  (void)arg;
  (void)allocate(GP_BLOCK_GRANULE);
  return NULL;
}

static int (*real_alloc)(void *self, const gp_driver_context_t *which, uint64_t bytes, uint64_t *ret_address);

static int alloc_in_pieces(
    void *self, const gp_driver_context_t *which, uint64_t bytes, uint64_t *ret_address)
{
  return bytes > 4 * GP_MIB && is_in_pieces ? FAKE_OUT_OF_MEMORY
                                            : real_alloc(self, which, bytes, ret_address);
}

static void begin_in_pieces(void)
{
  begin_turns(NULL, 32 * GP_MIB);
  held_by_program = allocate(4 * GP_MIB);
  real_alloc = driver.ops.alloc;
  driver.ops.alloc = alloc_in_pieces;
  is_in_pieces = true;
  pauses = 0;
  driver.on_pause = free_in_the_first_pause;
}

START_TEST(test_what_another_thread_frees_is_a_reason_to_try_again)
{
  pthread_t thread;

  begin_in_pieces();
  ck_assert_int_eq(pthread_create(&thread, NULL, allocate_a_little, NULL), 0);
  ck_assert_int_eq(pthread_join(thread, NULL), 0);
  (void)allocate(16 * GP_MIB);
  ck_assert_int_gt(pauses, 0);
  ck_assert_uint_eq(oom.requested, 0);
  driver.on_pause = NULL;
  stop();
}
END_TEST

static void count_pause(void)
{
  pauses++;
}

START_TEST(test_a_wait_in_vain_for_other_threads_is_not_repeated)
{
  pthread_t thread;

  begin_in_pieces();
  ck_assert_int_eq(pthread_create(&thread, NULL, allocate_a_little, NULL), 0);
  ck_assert_int_eq(pthread_join(thread, NULL), 0);
  driver.on_pause = count_pause;
  refuse(8 * GP_MIB);
  int first = pauses;
  ck_assert_int_gt(first, 0);
  refuse(8 * GP_MIB);
  ck_assert_int_eq(pauses, first);
  driver.on_pause = NULL;
  stop();
}
END_TEST

START_TEST(test_with_one_thread_nothing_is_waited_for)
{
  begin_in_pieces();
  refuse(16 * GP_MIB);
  ck_assert_int_eq(pauses, 0);
  driver.on_pause = NULL;
  stop();
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("oom_turn");
  TCase *tests = tcase_create("oom_turn");
  tcase_add_test(tests, test_a_turn_that_is_free_is_had_at_once);
  tcase_add_test(tests, test_a_thread_without_progress_loses_its_turn);
  tcase_add_test(tests, test_a_thread_waits_for_its_turn);
  tcase_add_test(tests, test_the_oldest_request_has_the_next_turn);
  tcase_add_test(tests, test_a_request_leaves_what_is_reserved_for_another);
  tcase_add_test(tests, test_a_request_takes_what_is_reserved_for_a_thread_without_progress);
  tcase_add_test(tests, test_a_thread_that_waits_for_the_device_has_no_turn);
  tcase_add_test(tests, test_a_turn_ends_with_the_request);
  tcase_add_test(tests, test_what_another_thread_frees_is_a_reason_to_try_again);
  tcase_add_test(tests, test_a_wait_in_vain_for_other_threads_is_not_repeated);
  tcase_add_test(tests, test_with_one_thread_nothing_is_waited_for);
  suite_add_tcase(suite, tests);
  return gp_check_main(suite);
}
