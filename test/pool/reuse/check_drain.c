/*
 * Facts touch no block; operations take covered blocks from the queue, a few at a time, and what needs the
 * exact state takes all. Over the fake driver.
 */
#include "pool/reuse/drain.h"

#include "pool/reuse/stamps.h"
#include "test/pool/check_main.h"
#include "test/pool/engine_fixture.h"

#define MANY   1000
#define SECOND UINT64_C(1000000000)

static uint64_t blocks[MANY];

/* The queue's length, as it is: gp_engine_stats would drain it. */
static int queued(void)
{
  int count = 0;
  gp_lock_take(&context->device->lock);
  GP_LIST_EACH(&context->deferred, const gp_block_t, order, block)
    count += block->state == GP_STATE_DEFERRED;
  gp_lock_release(&context->device->lock);
  return count;
}

/* `count` blocks of 4 KiB are queued, and one is live, which is returned. */
static uint64_t queue_blocks(const char *const *settings, int count)
{
  start(settings, GP_GIB, true);
  engine->has_heaps = false; /* else a heap keeps some */
  for (int i = 0; i < count; i++)
    blocks[i] = allocate(4096);
  uint64_t live = allocate(4096);
  for (int i = 0; i < count; i++)
    (void)free_code(blocks[i]);
  ck_assert_int_eq(queued(), count);
  return live;
}

START_TEST(test_a_synchronization_moves_no_block)
{
  (void)queue_blocks(NULL, MANY);
  synchronize();
  ck_assert_int_eq(queued(), MANY);
  ck_assert_uint_eq(stats().deferred_bytes.current, 0); /* a question does */
  ck_assert_int_eq(queued(), 0);
  stop();
}
END_TEST

START_TEST(test_an_operation_moves_a_few)
{
  const int few = (int)GP_DRAIN_SOME;
  uint64_t live = queue_blocks(NULL, MANY);
  (void)free_code(live);
  ck_assert_int_eq(queued(), MANY + 1); /* nothing is covered */
  synchronize();
  ck_assert_uint_eq(allocate(4096), blocks[0]); /* the one that it needs */
  ck_assert_int_eq(queued(), MANY);
  (void)free_code(blocks[0]);
  ck_assert_int_eq(queued(), MANY - few + 1);
  ck_assert_int_eq(driver.count[FAKE_ALLOC], MANY + 1);
  stop();
}
END_TEST

START_TEST(test_a_covered_block_goes_to_its_next_owner)
{
  (void)queue_blocks(NULL, 3);
  synchronize();
  for (int i = 0; i < 3; i++)
    ck_assert_uint_eq(allocate(4096), blocks[i]);
  ck_assert_int_eq(queued(), 0);
  ck_assert_uint_eq(stats().cached_bytes.allocated, 3 * 4096); /* as the events say */
  ck_assert_uint_eq(stats().cached_bytes.current, 0);
  ck_assert_uint_eq(stats().cache_hits, 3);
  stop();
}
END_TEST

/* 34 and 36 MiB are in one class, whose smaller blocks do not serve its larger requests. */
START_TEST(test_the_oldest_block_has_to_fit_as_well_as_any)
{
  start(NULL, GP_GIB, true);
  uint64_t smaller = allocate(34 * GP_MIB);
  uint64_t larger = allocate(36 * GP_MIB);
  (void)free_code(larger);
  (void)free_code(smaller);
  synchronize();
  ck_assert_uint_eq(allocate(34 * GP_MIB), smaller);
  (void)free_code(smaller);
  synchronize();
  ck_assert_uint_eq(allocate(36 * GP_MIB), larger);
  stop();
}
END_TEST

/* For another size it joins its neighbours first. */
START_TEST(test_a_part_of_a_segment_goes_to_an_owner_of_its_size)
{
  (void)queue_blocks((const char *const[]){"GPUPOOL_TYPE=segment", NULL}, 3);
  synchronize();
  ck_assert_uint_eq(allocate(4096), blocks[0]);
  ck_assert_int_eq(queued(), 2);
  ck_assert_uint_eq(allocate(2048), blocks[1]);
  ck_assert_int_eq(queued(), 0);
  stop();
}
END_TEST

/* Another part of it was exported. */
START_TEST(test_a_part_of_a_closed_segment_goes_to_none)
{
  uint64_t live = queue_blocks((const char *const[]){"GPUPOOL_TYPE=segment", NULL}, 3);
  gp_engine_taint(engine, live);
  gp_epoch_complete(context, gp_epoch_begin(engine)); /* a synchronization would drain after an export */
  gp_advance(engine);
  uint64_t other = allocate(4096);
  ck_assert(other < blocks[0] || other > live);
  stop();
}
END_TEST

START_TEST(test_a_miss_moves_all)
{
  start(NULL, GP_GIB, true);
  for (int i = 0; i < 20; i++)
    blocks[i] = allocate(4096);
  uint64_t last = allocate(GP_MIB);
  for (int i = 0; i < 20; i++)
    (void)free_code(blocks[i]);
  (void)free_code(last);
  synchronize();
  ck_assert_uint_eq(allocate(GP_MIB), last);
  ck_assert_int_eq(queued(), 0);
  ck_assert_int_eq(driver.count[FAKE_ALLOC], 21);
  stop();
}
END_TEST

START_TEST(test_what_is_not_covered_stays)
{
  (void)queue_blocks(NULL, 3);
  synchronize();
  uint64_t later = allocate(GP_MIB);
  fake_submit(&driver, 0, later);
  (void)free_code(later);
  gp_drain(engine, true);
  ck_assert_int_eq(queued(), 1);
  ck_assert_uint_ne(allocate(GP_MIB), later);
  stop();
}
END_TEST

START_TEST(test_covered_is_not_lowered)
{
  gp_driver_context_t other = fake_context(1, 1);
  (void)queue_blocks(NULL, 3);
  synchronize();
  uint64_t covered = gp_covered(engine);
  ck_assert_ptr_nonnull(gp_engine_context(engine, &other)); /* it has completed nothing */
  ck_assert_uint_eq(allocate(4096), blocks[0]);
  uint64_t next = allocate(4096);
  (void)free_code(next);
  synchronize();
  ck_assert_uint_eq(gp_covered(engine), covered);
  gp_drain(engine, true);
  ck_assert_int_eq(queued(), 1);
  stop();
}
END_TEST

/* A fact that no synchronization has looked at yet counts for the contexts of its time. */
START_TEST(test_a_new_context_loses_no_fact)
{
  gp_driver_context_t other = fake_context(1, 1);
  (void)queue_blocks(NULL, 3);
  gp_epoch_complete(context, gp_epoch_begin(engine));
  ck_assert_ptr_nonnull(gp_engine_context(engine, &other));
  gp_drain(engine, true);
  ck_assert_int_eq(queued(), 0);
  stop();
}
END_TEST

START_TEST(test_without_contexts_nothing_is_covered)
{
  gp_driver_context_t again = fake_context(2, 0);
  (void)queue_blocks(NULL, 3);
  uint64_t covered = gp_covered(engine);
  gp_engine_context_lost(engine, context);
  ck_assert_uint_eq(gp_covered(engine), covered);
  context = gp_engine_context(engine, &again);
  uint64_t address = allocate(4096);
  fake_submit(&driver, 2, address);
  (void)free_code(address);
  ck_assert_uint_ne(allocate(4096), address);
  stop();
}
END_TEST

START_TEST(test_surplus_is_drained_by_a_synchronization)
{
  (void)queue_blocks((const char *const[]){"GPUPOOL_MAX_CACHED=8KiB", NULL}, 12);
  synchronize();
  ck_assert_uint_eq(driver.used, 3 * UINT64_C(4096));
  stop();
}
END_TEST

/* The program frees, and from then on synchronizes only. */
START_TEST(test_what_is_queued_grows_old)
{
  (void)queue_blocks((const char *const[]){"GPUPOOL_IDLE_RELEASE=10", NULL}, 12);
  synchronize();
  driver.now_ns += 10 * SECOND - 1;
  synchronize();
  ck_assert_uint_gt(driver.used, 4096);
  driver.now_ns += 1;
  synchronize();
  ck_assert_uint_eq(driver.used, 4096);
  stop();
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("drain");
  TCase *tcase = tcase_create("drain");
  tcase_add_test(tcase, test_a_synchronization_moves_no_block);
  tcase_add_test(tcase, test_an_operation_moves_a_few);
  tcase_add_test(tcase, test_a_covered_block_goes_to_its_next_owner);
  tcase_add_test(tcase, test_the_oldest_block_has_to_fit_as_well_as_any);
  tcase_add_test(tcase, test_a_part_of_a_segment_goes_to_an_owner_of_its_size);
  tcase_add_test(tcase, test_a_part_of_a_closed_segment_goes_to_none);
  tcase_add_test(tcase, test_a_miss_moves_all);
  tcase_add_test(tcase, test_what_is_not_covered_stays);
  tcase_add_test(tcase, test_covered_is_not_lowered);
  tcase_add_test(tcase, test_a_new_context_loses_no_fact);
  tcase_add_test(tcase, test_without_contexts_nothing_is_covered);
  tcase_add_test(tcase, test_surplus_is_drained_by_a_synchronization);
  tcase_add_test(tcase, test_what_is_queued_grows_old);
  suite_add_tcase(suite, tcase);
  return gp_check_main(suite);
}
