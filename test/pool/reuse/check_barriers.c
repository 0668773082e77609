/*
 * Operations of the program in the default stream tell what a context has completed, on drivers without
 * fences over contexts. Over the fake driver, with streams and fences of the test's own.
 */
#include "pool/reuse/barriers.h"

#include <string.h>

#include "pool/mode.h"
#include "pool/reuse/known_streams.h"
#include "pool/reuse/stamps.h"
#include "pool/reuse/known_record.h"
#include "test/pool/check_main.h"
#include "test/pool/ordered_fixture.h"

#define STREAM_A    UINT64_C(0x10000010) /* does not block */
#define STREAM_B    UINT64_C(0x10000020) /* blocks */
#define STREAM_SIDE UINT64_C(0x10000030) /* the library's own */
#define MOST_FENCES 8

enum { DEFAULT, A, B, STREAMS };

static struct {
  bool is_busy;
  int questions;
} streams[STREAMS];

/* By index: the stream in which each was recorded last, and whether it has passed since. */
static struct {
  uint64_t stream;
  bool has_passed;
} fences[MOST_FENCES];
static int fence_count, records;
static bool refuses_fences;
static gp_context_t *other;
static void (*on_question)(void);

static int answer(int i)
{
  void (*meanwhile)(void) = on_question;
  streams[i].questions++;
  on_question = NULL;
  if (meanwhile)
    meanwhile();
  return streams[i].is_busy ? FAKE_NOT_READY : 0;
}

static int ask_stream(void *self, const gp_driver_context_t *which, uint64_t stream)
{
  (void)self;
  if (which->id != 100 || stream == GP_STREAM_LAST_OF_DEFAULTS)
    return 0;
  return answer(stream == STREAM_A ? A : B);
}

static int ask_default(void *self, const gp_driver_context_t *which)
{
  (void)self;
  return which->id == 100 ? answer(DEFAULT) : 0;
}

static int make_side(void *self, const gp_driver_context_t *which, uint64_t *ret_stream)
{
  (void)self;
  (void)which;
  *ret_stream = STREAM_SIDE;
  return 0;
}

static int record(void *self, const gp_driver_context_t *which, uint64_t stream, void **fence)
{
  (void)self;
  (void)which;
  if (refuses_fences)
    return FAKE_INVALID_VALUE;
  ck_assert_int_lt(fence_count, MOST_FENCES);
  int i = *fence ? (int)((uintptr_t)*fence - 1) : fence_count++;
  *fence = (void *)(uintptr_t)(i + 1);
  fences[i].stream = stream;
  fences[i].has_passed = false;
  records++;
  return 0;
}

static int query(void *self, const gp_driver_context_t *which, void *fence)
{
  (void)self;
  (void)which;
  return fences[(uintptr_t)fence - 1].has_passed ? 0 : FAKE_NOT_READY;
}

static void pass(uint64_t stream)
{
  for (int i = 0; i < fence_count; i++)
    if (fences[i].stream == stream)
      fences[i].has_passed = true;
}

static void begin_with(const char *const *settings)
{
  memset(streams, 0, sizeof(streams));
  memset(fences, 0, sizeof(fences));
  fence_count = records = 0;
  refuses_fences = false;
  on_question = NULL;
  start(settings, GP_GIB, false);
  driver.ops.stream_query = ask_stream;
  driver.ops.default_query = ask_default;
  driver.ops.side_stream = make_side;
  driver.ops.stream_fence_record = record;
  driver.ops.fence_query = query;
  gp_known_stream_add(engine, context, STREAM_A, false);
  gp_known_stream_add(engine, context, STREAM_B, true);
}

static void begin(void)
{
  begin_with((const char *const[]){"GPUPOOL_RESERVE=0", NULL});
}

/* The program's operation in the default stream of the context, which the driver has. */
static void operate_in(gp_context_t *where)
{
  uint64_t epoch = gp_barrier_begin(engine, where);
  if (epoch != 0)
    gp_barrier_end(engine, where, epoch);
}

static void operate(void)
{
  operate_in(context);
}

static uint64_t freed(void)
{
  uint64_t block = allocate(4096);
  ck_assert_int_eq(free_code(block), 0);
  return block;
}

static bool is_known(uint64_t block)
{
  uint64_t again = allocate(4096);
  ck_assert_int_eq(driver.count[FAKE_WAIT], 0);
  return again == block;
}

START_TEST(test_an_operation_after_the_free_tells)
{
  begin();
  operate();
  uint64_t block = freed();
  ck_assert(!is_known(block)); /* the operation came before it */
  operate();
  ck_assert(is_known(block));
  ck_assert_int_eq(records, 0); /* no stream has work */
  stop();
}
END_TEST

/* What is freed between its begin and the driver's answer came after work that it may not wait for. */
START_TEST(test_a_free_during_the_operation_is_not_covered)
{
  begin();
  uint64_t before = freed();
  uint64_t meanwhile = allocate(8192);
  uint64_t epoch = gp_barrier_begin(engine, context);
  ck_assert_int_eq(free_code(meanwhile), 0);
  gp_barrier_end(engine, context, epoch);
  ck_assert(is_known(before));
  ck_assert_uint_ne(allocate(8192), meanwhile);
  stop();
}
END_TEST

START_TEST(test_without_frees_it_costs_no_epoch)
{
  begin();
  ck_assert(!gp_barriers_would_tell(engine));
  ck_assert_uint_eq(gp_barrier_begin(engine, context), 0);
  uint64_t block = freed();
  ck_assert(gp_barriers_would_tell(engine));
  operate();
  ck_assert_uint_eq(gp_barrier_begin(engine, context), 0);
  ck_assert(is_known(block));
  ck_assert(!gp_barriers_would_tell(engine));
  stop();
}
END_TEST

/* Until the operation is complete: a fence beside the default stream tells, which goes on working. */
START_TEST(test_the_operation_has_to_be_complete)
{
  begin();
  streams[DEFAULT].is_busy = true;
  uint64_t block = freed();
  operate();
  ck_assert(!is_known(block));
  ck_assert_int_eq(records, 1);
  ck_assert_uint_eq(fences[0].stream, STREAM_SIDE);
  ck_assert(!is_known(block));
  ck_assert_int_eq(records, 1);
  pass(STREAM_SIDE);
  ck_assert(is_known(block));
  stop();
}
END_TEST

START_TEST(test_streams_that_do_not_block_are_asked_each)
{
  begin();
  streams[A].is_busy = streams[B].is_busy = true;
  uint64_t block = freed();
  operate();
  ck_assert(!is_known(block));
  ck_assert_int_eq(records, 1);
  ck_assert_uint_eq(fences[0].stream, STREAM_A);
  ck_assert_int_eq(streams[B].questions, 0); /* the operation has waited for it */
  pass(STREAM_A);
  ck_assert(is_known(block));
  stop();
}
END_TEST

/* _i: 0 does not block, 1 blocks. CUDA does not document that the default stream waits for the work of a
 * stream that the program has destroyed. */
START_TEST(test_work_of_a_destroyed_stream_is_waited_for)
{
  begin();
  streams[A].is_busy = streams[B].is_busy = true;
  uint64_t block = freed();
  ck_assert_ptr_eq(gp_known_stream_remove(engine, _i ? STREAM_B : STREAM_A), context);
  ck_assert_int_eq(records, 1);
  streams[A].is_busy = false;
  operate();
  ck_assert(!is_known(block));
  pass(_i ? STREAM_B : STREAM_A);
  ck_assert(is_known(block));
  stop();
}
END_TEST

START_TEST(test_destroyed_while_it_is_waited_for)
{
  begin();
  streams[A].is_busy = true;
  uint64_t block = freed();
  operate();
  ck_assert(!is_known(block)); /* a fence in A */
  streams[A].is_busy = false;
  ck_assert_ptr_eq(gp_known_stream_remove(engine, STREAM_A), context);
  gp_known_stream_add(engine, context, STREAM_A, false); /* the record is used again */
  ck_assert(!is_known(block));
  pass(STREAM_A);
  ck_assert(is_known(block));
  stop();
}
END_TEST

/* Of whose work nothing tells: then only a synchronization of the context does. _i: the driver refuses the
 * fence, or is not asked. */
START_TEST(test_a_stream_that_was_destroyed_untold)
{
  begin();
  streams[A].is_busy = true;
  uint64_t block = freed();
  if (_i == 0)
    refuses_fences = true;
  else
    gp_engine_suspend(engine);
  ck_assert_ptr_eq(gp_known_stream_remove(engine, STREAM_A), context);
  if (_i != 0)
    gp_engine_resume(engine);
  refuses_fences = false;
  streams[A].is_busy = false;
  operate();
  ck_assert(!is_known(block));
  synchronize();
  uint64_t later = freed();
  operate();
  ck_assert(is_known(later));
  stop();
}
END_TEST

/* _i: the library missed one, or nothing is sure of what looks for the driver behind it. */
START_TEST(test_streams_that_may_be_unknown)
{
  begin();
  uint64_t block = freed();
  operate();
  if (_i == 0)
    gp_known_streams_miss(engine);
  else
    gp_mode_distrust();
  ck_assert(!gp_barriers_are_wanted(engine));
  ck_assert(!is_known(block));
  ck_assert(!gp_barriers_cover_all(engine));
  atomic_store(&gp_mode_distrusted, false);
  stop();
}
END_TEST

static uint64_t held;

static void miss_meanwhile(void)
{
  held = atomic_load(&context->completed);
  ck_assert(gp_barriers_poll(engine, true));
  held = atomic_load(&context->completed) - held;
}

/* A stream about which another thread asks just now. */
START_TEST(test_a_stream_that_another_thread_has)
{
  begin();
  uint64_t block = freed();
  operate();
  on_question = miss_meanwhile;
  held = 1;
  (void)gp_known_streams_ask(engine);
  ck_assert_uint_eq(held, 0);
  ck_assert(is_known(block));
  stop();
}
END_TEST

START_TEST(test_beside_a_capture_it_tells_nothing)
{
  begin();
  uint64_t block = freed();
  uint64_t epoch = gp_barrier_begin(engine, context);
  gp_suspension_t capture = gp_engine_suspend_in(engine, context, GP_REACH_THREADS);
  gp_barrier_end(engine, context, epoch);
  gp_engine_resume_in(engine, &capture);
  ck_assert(!is_known(block));
  operate();
  ck_assert(is_known(block));
  stop();
}
END_TEST

START_TEST(test_the_newest_is_waited_for_next)
{
  begin();
  streams[DEFAULT].is_busy = true;
  uint64_t first = allocate(4096);
  uint64_t second = allocate(8192);
  ck_assert_int_eq(free_code(first), 0);
  operate();
  ck_assert(gp_barriers_poll(engine, false));
  ck_assert_int_eq(free_code(second), 0);
  operate();
  pass(STREAM_SIDE);
  ck_assert(gp_barriers_poll(engine, false)); /* of the first, and the fence is recorded again */
  ck_assert_int_eq(records, 2);
  ck_assert_uint_ne(allocate(8192), second);
  ck_assert(is_known(first));
  pass(STREAM_SIDE);
  ck_assert_uint_eq(allocate(8192), second);
  stop();
}
END_TEST

START_TEST(test_each_context_needs_one)
{
  gp_driver_context_t second = fake_context(1, 0);

  begin();
  other = gp_engine_context(engine, &second);
  uint64_t block = freed();
  operate();
  ck_assert(!is_known(block));
  ck_assert(!gp_barriers_cover_all(engine));
  operate_in(other);
  ck_assert(gp_barriers_cover_all(engine));
  ck_assert(is_known(block));
  stop();
}
END_TEST

START_TEST(test_a_context_that_has_ended_is_asked_nothing_more)
{
  begin();
  streams[DEFAULT].is_busy = true;
  uint64_t block = freed();
  operate();
  ck_assert(!is_known(block));
  atomic_store(&context->gone, true);
  pass(STREAM_SIDE);
  uint64_t completed = atomic_load(&context->completed);
  int questions = streams[DEFAULT].questions;
  ck_assert(gp_barriers_poll(engine, true));
  ck_assert_uint_eq(atomic_load(&context->completed), completed);
  ck_assert_int_eq(streams[DEFAULT].questions, questions);
  atomic_store(&context->gone, false);
  stop();
}
END_TEST

static void finish_a(void)
{
  streams[A].is_busy = false;
  pass(STREAM_A);
}

/* Memory is short: it is polled for, as long as the operation may tell, and the host does not wait. */
START_TEST(test_real_need_polls)
{
  begin();
  streams[A].is_busy = true;
  uint64_t block = allocate(64 * GP_MIB);
  ck_assert_int_eq(free_code(block), 0);
  operate();
  driver.capacity = driver.used;
  driver.on_pause = finish_a;
  ck_assert_uint_eq(allocate(64 * GP_MIB), block);
  ck_assert_int_eq(driver.count[FAKE_WAIT], 0);
  stop();
}
END_TEST

/* Nowhere is it written that the default stream waits for allocations of the driver's pool in blocking ones,
 * or they for its. */
START_TEST(test_an_operation_comes_behind_an_allocation_in_order)
{
  begin();
  gp_identity_created(engine, context, STREAM_A, false);
  gp_identity_created(engine, context, STREAM_B, true);
  (void)allocate_in(order(STREAM_A), BYTES);
  ck_assert_int_eq(driver.count[FAKE_ENTER_STREAM], 0);
  (void)allocate_in(order(GP_STREAM_LEGACY), BYTES);
  ck_assert_uint_eq(driver.entered, GP_STREAM_LEGACY);
  (void)allocate_in(order(STREAM_B), BYTES);
  ck_assert_uint_eq(driver.entered, STREAM_B);
  (void)allocate_in(order(GP_STREAM_PER_THREAD), BYTES);
  ck_assert_uint_eq(driver.entered, GP_STREAM_PER_THREAD);
  (void)freed();
  operate();
  ck_assert(gp_barriers_cover_all(engine));
  stop();
}
END_TEST

/* Which is complete when the driver has returned. */
START_TEST(test_no_operation_comes_behind_an_allocation_of_plain_memory)
{
  begin_with((const char *const[]){"GPUPOOL_ASYNC=plain", NULL});
  gp_identity_created(engine, context, STREAM_B, true);
  (void)allocate_in(order(STREAM_B), BYTES);
  ck_assert_int_eq(driver.count[FAKE_ALLOC_IN], 1);
  ck_assert_int_eq(driver.count[FAKE_ENTER_STREAM], 0);
  stop();
}
END_TEST

START_TEST(test_without_that_operation_only_a_synchronization_tells)
{
  begin();
  gp_identity_created(engine, context, STREAM_B, true);
  driver.fail_code = FAKE_INVALID_VALUE;
  driver.fail_at = driver.calls + 2; /* behind the allocation */
  (void)allocate_in(order(STREAM_B), BYTES);
  (void)freed();
  operate();
  ck_assert(!gp_barriers_cover_all(engine));
  synchronize();
  (void)freed();
  operate();
  ck_assert(gp_barriers_cover_all(engine));
  stop();
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("barriers");
  TCase *facts = tcase_create("barriers");
  tcase_add_test(facts, test_an_operation_after_the_free_tells);
  tcase_add_test(facts, test_a_free_during_the_operation_is_not_covered);
  tcase_add_test(facts, test_without_frees_it_costs_no_epoch);
  tcase_add_test(facts, test_the_operation_has_to_be_complete);
  tcase_add_test(facts, test_streams_that_do_not_block_are_asked_each);
  tcase_add_loop_test(facts, test_work_of_a_destroyed_stream_is_waited_for, 0, 2);
  tcase_add_test(facts, test_destroyed_while_it_is_waited_for);
  tcase_add_loop_test(facts, test_a_stream_that_was_destroyed_untold, 0, 2);
  tcase_add_loop_test(facts, test_streams_that_may_be_unknown, 0, 2);
  tcase_add_test(facts, test_a_stream_that_another_thread_has);
  tcase_add_test(facts, test_beside_a_capture_it_tells_nothing);
  tcase_add_test(facts, test_the_newest_is_waited_for_next);
  tcase_add_test(facts, test_each_context_needs_one);
  tcase_add_test(facts, test_a_context_that_has_ended_is_asked_nothing_more);
  tcase_add_test(facts, test_real_need_polls);
  tcase_add_test(facts, test_an_operation_comes_behind_an_allocation_in_order);
  tcase_add_test(facts, test_no_operation_comes_behind_an_allocation_of_plain_memory);
  tcase_add_test(facts, test_without_that_operation_only_a_synchronization_tells);
  suite_add_tcase(suite, facts);
  return gp_check_main(suite);
}
