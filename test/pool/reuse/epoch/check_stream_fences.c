/*
 * Reuse mode `epoch` on drivers without a fence over contexts: streams are asked one by one, at a free ahead
 * of need and by a miss that could use what they hold back.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "pool/mode.h"
#include "pool/reuse/stream_calls.h"
#include "test/pool/check_main.h"
#include "test/pool/ordered_fixture.h"

#define STREAM_A UINT64_C(0x10000010)
#define STREAM_B UINT64_C(0x10000020)

/* Without a reserve, near which frees ask about streams for another reason. */
static const char *const settings[] = {
    "GPUPOOL_REUSE=epoch", "GPUPOOL_MAX_DEFERRED=2MiB", "GPUPOOL_RESERVE=0", NULL};

/* Fences by stream: passed says whether the driver is through; each has at most one. */
static struct {
  uint64_t stream;
  int records, queries;
  bool passed;
} fences[2];
static bool passes_at_once; /* what is recorded */
static int default_queries;
static bool default_is_idle;
static bool has_ended; /* the context, unseen */

static int record(void *self, const gp_driver_context_t *which, uint64_t stream, void **fence)
{
  int i = stream == STREAM_A ? 0 : 1;
  (void)self;
  (void)which;
  ck_assert(stream == STREAM_A || stream == STREAM_B);
  fences[i].stream = stream;
  fences[i].records++;
  fences[i].passed = passes_at_once;
  *fence = &fences[i];
  return 0;
}

static int query(void *self, const gp_driver_context_t *which, void *fence)
{
  int i = fence == &fences[0] ? 0 : 1;
  (void)self;
  (void)which;
  fences[i].queries++;
  if (has_ended)
    return FAKE_GONE;
  return fences[i].passed ? 0 : FAKE_NOT_READY;
}

static int query_default(void *self, const gp_driver_context_t *which)
{
  (void)self;
  (void)which;
  default_queries++;
  return default_is_idle ? 0 : FAKE_NOT_READY;
}

static void begin(void)
{
  gp_driver_context_t first = fake_context(0, 0);
  fake_driver_init(&driver, GP_GIB, false);
  driver.ops.stream_fence_record = record;
  driver.ops.fence_query = query;
  driver.ops.default_query = query_default;
  memset(fences, 0, sizeof(fences));
  passes_at_once = false;
  default_queries = 0;
  default_is_idle = false;
  has_ended = false;
  engine = fake_engine(&driver, NULL, settings);
  context = gp_engine_context(engine, &first);
  gp_stream_created(engine, context, STREAM_A);
  gp_stream_created(engine, context, STREAM_B);
}

static void work(uint64_t stream)
{
  gp_stream_mark(engine, gp_stream_find(engine, stream));
}

/* Freed with work of the stream pending. */
static uint64_t used_block(uint64_t bytes, uint64_t stream)
{
  uint64_t block = allocate(bytes);
  work(stream);
  ck_assert_int_eq(free_code(block), 0);
  return block;
}

START_TEST(test_streams_with_work_are_asked)
{
  begin();
  uint64_t block = used_block(2 * GP_MIB, STREAM_A);
  ck_assert_int_eq(fences[0].records, 1); /* ahead of need */
  ck_assert_uint_ne(allocate(2 * GP_MIB), block);
  ck_assert_int_eq(fences[0].records, 1);
  ck_assert_int_eq(fences[1].records, 0); /* B has no work */
  ck_assert_uint_ne(allocate(2 * GP_MIB), block);
  ck_assert_int_eq(fences[0].records, 1); /* one outstanding */
  fences[0].passed = true;
  ck_assert_uint_eq(allocate(2 * GP_MIB), block);
  ck_assert_int_eq(fences[0].records, 1);
  ck_assert_int_eq(driver.count[FAKE_WAIT], 0);
  stop();
}
END_TEST

/* A small free records nothing; the miss that wants the memory does, and asks what it has recorded. */
START_TEST(test_a_miss_asks_what_it_has_recorded)
{
  begin();
  uint64_t block = used_block(4096, STREAM_A);
  ck_assert_int_eq(fences[0].records, 0);
  passes_at_once = true;
  ck_assert_uint_eq(allocate(4096), block);
  ck_assert_int_eq(fences[0].records, 1);
  ck_assert_int_eq(driver.count[FAKE_WAIT], 0);
  stop();
}
END_TEST

START_TEST(test_a_context_that_has_ended_is_asked_nothing_more)
{
  begin();
  (void)used_block(2 * GP_MIB, STREAM_A);
  (void)used_block(2 * GP_MIB, STREAM_B);
  uint64_t address = 0;
  ck_assert_int_eq(gp_engine_alloc(engine, context, 4 * GP_MIB, &address), 0);
  ck_assert_int_eq(fences[0].records, 1);
  ck_assert_int_eq(fences[1].records, 1);
  int queries = fences[0].queries + fences[1].queries;
  has_ended = true;
  (void)gp_engine_empty_cache(engine);
  ck_assert(gp_context_is_lost(context));
  ck_assert_int_eq(fences[0].queries + fences[1].queries, queries + 1);
  ck_assert_int_eq(fences[0].records, 1);
  ck_assert_int_eq(fences[1].records, 1);
  stop();
}
END_TEST

START_TEST(test_what_comes_after_the_record_is_not_covered)
{
  begin();
  uint64_t first = used_block(2 * GP_MIB, STREAM_A);
  uint64_t second = allocate(2 * GP_MIB);
  ck_assert_int_eq(fences[0].records, 1);
  work(STREAM_A);
  ck_assert_int_eq(free_code(second), 0);
  fences[0].passed = true; /* until the next record */
  ck_assert_uint_eq(allocate(2 * GP_MIB), first);
  ck_assert_uint_ne(allocate(2 * GP_MIB), second);
  ck_assert_int_eq(fences[0].records, 2);
  fences[0].passed = true;
  ck_assert_uint_eq(allocate(2 * GP_MIB), second);
  stop();
}
END_TEST

/* As by another thread, when the driver has recorded and has not returned. */
static uint64_t freed_meanwhile;
static bool in_default;

static void work_and_free(void)
{
  uint64_t block = freed_meanwhile;
  freed_meanwhile = 0;
  if (!block)
    return;
  gp_stream_mark(engine, in_default ? gp_stream_default(context) : gp_stream_find(engine, STREAM_A));
  ck_assert_int_eq(free_code(block), 0);
}

static int record_then_work(void *self, const gp_driver_context_t *which, uint64_t stream, void **fence)
{
  int code = record(self, which, stream, fence);
  work_and_free();
  return code;
}

static int query_then_work(void *self, const gp_driver_context_t *which)
{
  int code = query_default(self, which);
  work_and_free();
  return code;
}

START_TEST(test_what_comes_during_the_record_is_not_covered)
{
  begin();
  driver.ops.stream_fence_record = record_then_work;
  in_default = false;
  uint64_t meanwhile = allocate(GP_MIB);
  freed_meanwhile = meanwhile;
  uint64_t before = used_block(2 * GP_MIB, STREAM_A);
  ck_assert_uint_eq(freed_meanwhile, 0);
  fences[0].passed = true;
  ck_assert_uint_eq(allocate(2 * GP_MIB), before);
  ck_assert_uint_ne(allocate(GP_MIB), meanwhile);
  stop();
}
END_TEST

START_TEST(test_what_comes_during_the_question_is_not_covered)
{
  begin();
  driver.ops.default_query = query_then_work;
  in_default = true;
  uint64_t meanwhile = allocate(GP_MIB);
  uint64_t before = allocate(2 * GP_MIB);
  gp_stream_mark(engine, gp_stream_default(context));
  default_is_idle = true;
  freed_meanwhile = meanwhile;
  ck_assert_int_eq(free_code(before), 0);
  ck_assert_uint_eq(freed_meanwhile, 0);
  ck_assert_uint_eq(allocate(2 * GP_MIB), before);
  default_is_idle = false;
  ck_assert_uint_ne(allocate(GP_MIB), meanwhile);
  stop();
}
END_TEST

START_TEST(test_the_default_stream_is_asked_and_not_recorded_in)
{
  begin();
  uint64_t block = allocate(4096);
  gp_stream_mark(engine, gp_stream_default(context));
  ck_assert_int_eq(free_code(block), 0);
  ck_assert_uint_ne(allocate(4096), block);
  ck_assert_int_eq(default_queries, 2); /* a miss asks twice */
  default_is_idle = true;
  ck_assert_uint_eq(allocate(4096), block);
  ck_assert_int_eq(fences[0].records + fences[1].records, 0);
  stop();
}
END_TEST

static int sides;

static int make_side(void *self, const gp_driver_context_t *which, uint64_t *ret_stream)
{
  (void)self;
  (void)which;
  sides++;
  *ret_stream = STREAM_A; /* so that its fences are those of A, which has no work here */
  return 0;
}

/* Where it is never idle a fence beside it tells how far it has got. */
START_TEST(test_a_default_stream_that_is_always_busy)
{
  begin();
  driver.ops.side_stream = make_side;
  sides = 0;
  uint64_t first = allocate(2 * GP_MIB);
  uint64_t second = allocate(2 * GP_MIB);
  gp_stream_mark(engine, gp_stream_default(context));
  ck_assert_int_eq(free_code(first), 0);
  ck_assert_int_eq(fences[0].records, 1);
  gp_stream_mark(engine, gp_stream_default(context)); /* after the record */
  ck_assert_int_eq(free_code(second), 0);
  ck_assert_int_eq(fences[0].records, 1); /* one outstanding */
  fences[0].passed = true;                /* until the next record */
  ck_assert_uint_eq(allocate(2 * GP_MIB), first);
  ck_assert_int_eq(fences[0].records, 2);
  ck_assert_uint_ne(allocate(2 * GP_MIB), second);
  fences[0].passed = true;
  ck_assert_uint_eq(allocate(2 * GP_MIB), second);
  ck_assert_int_eq(sides, 1);
  ck_assert_int_eq(fences[1].records, 0);
  stop();
}
END_TEST

static void *use_own_stream(void *arg)
{
  (void)arg;
  gp_stream_mark(engine, gp_stream_of_thread(engine, context));
  return NULL;
}

/* The driver cannot be asked about another thread's stream, or about one that is gone: the pool grows, also
 * beyond the allowance, and where it cannot grow the host waits. */
START_TEST(test_streams_that_cannot_be_asked)
{
  pthread_t thread;

  begin();
  default_is_idle = true;
  uint64_t block = allocate(2 * GP_MIB);
  ck_assert_int_eq(pthread_create(&thread, NULL, use_own_stream, NULL), 0);
  pthread_join(thread, NULL);
  ck_assert_int_eq(free_code(block), 0);
  ck_assert_uint_ne(allocate(2 * GP_MIB), block);
  ck_assert_int_eq(driver.count[FAKE_WAIT], 0); /* not beyond it */
  uint64_t large = allocate(3 * GP_MIB);
  ck_assert_int_eq(free_code(large), 0);
  uint64_t other = allocate(3 * GP_MIB);
  ck_assert_uint_ne(other, large);
  ck_assert_int_eq(driver.count[FAKE_WAIT], 0);
  driver.capacity = driver.used;
  uint64_t begin_ns = driver.now_ns;
  ck_assert_uint_eq(allocate(3 * GP_MIB), large);
  ck_assert_int_eq(driver.count[FAKE_WAIT], 1);
  ck_assert_uint_eq(driver.now_ns, begin_ns); /* polls would tell nothing */
  driver.capacity = GP_GIB;
  large = used_block(5 * GP_MIB, STREAM_A);
  gp_stream_destroyed(engine, gp_stream_take(engine, STREAM_A));
  other = allocate(5 * GP_MIB);
  ck_assert_uint_ne(other, large);
  ck_assert_int_eq(driver.count[FAKE_WAIT], 1);
  driver.capacity = driver.used;
  ck_assert_uint_eq(allocate(5 * GP_MIB), large);
  ck_assert_int_eq(driver.count[FAKE_WAIT], 2);
  stop();
}
END_TEST

START_TEST(test_beyond_the_allowance_streams_are_asked_again)
{
  begin();
  uint64_t block = used_block(5 * GP_MIB, STREAM_A);
  fences[0].passed = true; /* by the time that it is asked */
  ck_assert_uint_eq(allocate(5 * GP_MIB), block);
  ck_assert_int_eq(driver.count[FAKE_WAIT], 0);
  stop();
}
END_TEST

START_TEST(test_not_while_suspended)
{
  begin();
  (void)used_block(GP_MIB, STREAM_A);
  gp_engine_suspend(engine);
  (void)gp_engine_make_room(engine, context);
  ck_assert_int_eq(fences[0].records, 0);
  gp_engine_resume(engine);
  stop();
}
END_TEST

static atomic_bool in_call, call_is_over, taken;

static int slow_record(void *self, const gp_driver_context_t *which, uint64_t stream, void **fence)
{
  atomic_store(&in_call, true);
  for (int i = 0; i < 100000 && !atomic_load(&taken); i++)
    sched_yield();
  atomic_store(&call_is_over, true);
  return record(self, which, stream, fence);
}

static void *miss(void *arg)
{
  (void)arg;
  (void)allocate(4096);
  return NULL;
}

/* The driver must not be asked about a stream that it has been told to destroy. */
START_TEST(test_a_stream_is_not_destroyed_while_it_is_asked_about)
{
  pthread_t thread;

  begin();
  driver.ops.stream_fence_record = slow_record;
  (void)used_block(4096, STREAM_A); /* which asks nothing */
  ck_assert_int_eq(pthread_create(&thread, NULL, miss, NULL), 0);
  while (!atomic_load(&in_call))
    sched_yield();
  gp_stream_t *stream = gp_stream_take(engine, STREAM_A);
  bool over = atomic_load(&call_is_over);
  atomic_store(&taken, true);
  pthread_join(thread, NULL);
  ck_assert(over);
  gp_stream_destroyed(engine, stream);
  stop();
}
END_TEST

/* Its fence is recorded in a side stream, of which it is nowhere written that it waits for allocations there.
 */
START_TEST(test_an_operation_comes_behind_an_allocation_in_the_default_stream)
{
  begin();
  driver.ops.side_stream = make_side;
  (void)allocate_in(order(GP_STREAM_LEGACY), BYTES);
  ck_assert(gp_mode_follows_streams(engine));
  ck_assert_int_eq(driver.count[FAKE_ENTER_STREAM], 2); /* the first one in the place of the call */
  ck_assert_uint_eq(driver.entered, GP_STREAM_LEGACY);
  stop();
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("stream fences");
  TCase *fence = tcase_create("stream fences");
  tcase_add_test(fence, test_streams_with_work_are_asked);
  tcase_add_test(fence, test_a_miss_asks_what_it_has_recorded);
  tcase_add_test(fence, test_a_context_that_has_ended_is_asked_nothing_more);
  tcase_add_test(fence, test_what_comes_after_the_record_is_not_covered);
  tcase_add_test(fence, test_what_comes_during_the_record_is_not_covered);
  tcase_add_test(fence, test_what_comes_during_the_question_is_not_covered);
  tcase_add_test(fence, test_the_default_stream_is_asked_and_not_recorded_in);
  tcase_add_test(fence, test_a_default_stream_that_is_always_busy);
  tcase_add_test(fence, test_streams_that_cannot_be_asked);
  tcase_add_test(fence, test_beyond_the_allowance_streams_are_asked_again);
  tcase_add_test(fence, test_not_while_suspended);
  tcase_add_test(fence, test_a_stream_is_not_destroyed_while_it_is_asked_about);
  tcase_add_test(fence, test_an_operation_comes_behind_an_allocation_in_the_default_stream);
  suite_add_tcase(suite, fence);
  return gp_check_main(suite);
}
