/*
 * What the driver still has although the program freed it in the order of a stream, over the fake driver.
 */
#include "pool/limits/limit.h"
#include "pool/reuse/pending_frees.h"
#include "pool/reuse/stream_points.h"
#include "test/pool/check_main.h"
#include "test/pool/async_fixture.h"

#define ADDRESS UINT64_C(0x40000000)

static gp_device_t *device;
static const gp_stream_order_t unknown = {.context = NULL};

static void start_limited(const char *limit, const char *patience)
{
  start_streams((const char *const[]){limit, patience, NULL}, GP_GIB);
  device = context->device;
}

static void take(uint64_t address, uint64_t bytes, gp_forwarded_kind_t kind)
{
  const gp_forwarded_t memory = {.address = address, .size = bytes, .kind = kind, .pool = 1};
  ck_assert(gp_engine_forwarded_reserve(engine, context, bytes, kind));
  gp_engine_forwarded_commit(engine, context, &memory, 0);
}

static void free_forwarded(uint64_t address, const gp_stream_order_t *in)
{
  gp_forwarded_t memory;
  ck_assert(gp_engine_forwarded_take(engine, GP_SPACE_POINTER, address, &memory));
  memory.is_freed_in_order = in != NULL;
  memory.freed_in = in ? *in : unknown;
  gp_engine_forwarded_freed(engine, &memory, 0, 0);
}

static uint64_t committed(void)
{
  gp_limit_settle(engine, context);
  return device->committed_bytes;
}

static void work(int index)
{
  fake_submit_on(&driver, index, 1, 1);
}

static int ask_for(uint64_t bytes)
{
  uint64_t address = 0;
  int code = gp_engine_alloc(engine, context, bytes, &address);
  if (code == 0)
    ck_assert_int_eq(free_code(address), 0);
  return code;
}

START_TEST(test_it_counts_until_the_context_has_completed_the_free)
{
  start_limited("GPUPOOL_LIMIT=8MiB", "GPUPOOL_PATIENCE=0");
  take(ADDRESS, 6 * GP_MIB, GP_FORWARDED_PITCH);
  work(0);
  free_forwarded(ADDRESS, &unknown);
  ck_assert_uint_eq(committed(), 6 * GP_MIB);
  ck_assert_int_eq(ask_for(4 * GP_MIB), FAKE_OUT_OF_MEMORY);
  ck_assert_int_eq(ask_for(2 * GP_MIB), 0);
  fake_complete(&driver, 0);
  ck_assert_int_eq(ask_for(6 * GP_MIB), 0);
  stop();
}
END_TEST

START_TEST(test_a_request_waits_for_it)
{
  start_limited("GPUPOOL_LIMIT=8MiB", "GPUPOOL_PATIENCE=2");
  take(ADDRESS, 6 * GP_MIB, GP_FORWARDED_PITCH);
  work(0);
  free_forwarded(ADDRESS, &unknown);
  fake_complete_in(&driver, 0, 1000000000);
  uint64_t begin_ns = driver.now_ns;
  ck_assert_int_eq(ask_for(4 * GP_MIB), 0);
  ck_assert_uint_ge(driver.now_ns - begin_ns, 1000000000);
  ck_assert_uint_lt(driver.now_ns - begin_ns, 1100000000);
  ck_assert_int_eq(driver.count[FAKE_WAIT], 0);
  stop();
}
END_TEST

START_TEST(test_a_vain_wait_is_not_repeated)
{
  start_limited("GPUPOOL_LIMIT=8MiB", "GPUPOOL_PATIENCE=2");
  take(ADDRESS, 6 * GP_MIB, GP_FORWARDED_PITCH);
  work(0);
  free_forwarded(ADDRESS, &unknown);
  uint64_t begin_ns = driver.now_ns;
  ck_assert_int_eq(ask_for(4 * GP_MIB), FAKE_OUT_OF_MEMORY);
  uint64_t waited_ns = driver.now_ns - begin_ns;
  ck_assert_uint_ge(waited_ns, UINT64_C(2000000000));
  ck_assert_uint_lt(waited_ns, UINT64_C(2100000000));
  begin_ns = driver.now_ns;
  ck_assert_int_eq(ask_for(4 * GP_MIB), FAKE_OUT_OF_MEMORY);
  ck_assert_uint_lt(driver.now_ns - begin_ns, UINT64_C(10000000));
  fake_complete(&driver, 0);
  ck_assert_int_eq(ask_for(4 * GP_MIB), 0);
  stop();
}
END_TEST

/* The synchronization of a stream proves nothing about others, and is enough for what was freed in it. */
START_TEST(test_a_point_of_the_stream_proves_that_it_is_back)
{
  start_limited("GPUPOOL_LIMIT=16MiB", "GPUPOOL_PATIENCE=0");
  const gp_stream_order_t first = order(FIRST), second = order(SECOND);
  for (int i = 0; i < 3; i++)
    take(ADDRESS + (uint64_t)i * 4 * GP_MIB, 4 * GP_MIB, GP_FORWARDED_CAPTURE);
  work(0);
  free_forwarded(ADDRESS, &first);
  free_forwarded(ADDRESS + 4 * GP_MIB, &second);
  gp_stream_point_t point = gp_stream_record_point(first.stream_record, false);
  free_forwarded(ADDRESS + 8 * GP_MIB, &first);
  ck_assert_uint_eq(committed(), 12 * GP_MIB);
  gp_stream_point_passed(&point);
  ck_assert_uint_eq(committed(), 8 * GP_MIB);
  gp_stream_record_end(engine, FIRST); /* it may have work */
  ck_assert_uint_eq(committed(), 8 * GP_MIB);
  synchronize();
  ck_assert_uint_eq(committed(), 0);
  stop();
}
END_TEST

START_TEST(test_a_stream_without_work_has_passed_what_was_freed_before_the_question)
{
  start_limited("GPUPOOL_LIMIT=16MiB", "GPUPOOL_PATIENCE=0");
  const gp_stream_order_t first = order(FIRST);
  uint64_t id = atomic_load(&first.stream_record->id);
  take(ADDRESS, 4 * GP_MIB, GP_FORWARDED_CAPTURE);
  take(ADDRESS + 4 * GP_MIB, 4 * GP_MIB, GP_FORWARDED_CAPTURE);
  free_forwarded(ADDRESS, &first);
  uint64_t epoch = gp_epoch_begin(engine);
  free_forwarded(ADDRESS + 4 * GP_MIB, &first);
  gp_lock_take(&device->lock);
  gp_pending_frees_passed(engine, device, first.stream_record, id + 1, epoch);
  ck_assert_uint_eq(gp_locked(device)->committed_bytes, 8 * GP_MIB);
  gp_pending_frees_passed(engine, device, first.stream_record, id, epoch);
  ck_assert_uint_eq(device->committed_bytes, 4 * GP_MIB);
  gp_lock_release(&device->lock);
  stop();
}
END_TEST

/* The record may be another stream's by the time of the answer. */
START_TEST(test_an_answer_about_an_ended_stream_proves_nothing)
{
  start_limited("GPUPOOL_LIMIT=16MiB", "GPUPOOL_PATIENCE=0");
  const gp_stream_order_t first = order(FIRST);
  uint64_t id = atomic_load(&first.stream_record->id);
  take(ADDRESS, 4 * GP_MIB, GP_FORWARDED_CAPTURE);
  free_forwarded(ADDRESS, &first);
  uint64_t epoch = gp_epoch_begin(engine);
  gp_stream_record_end(engine, FIRST); /* it may have work */
  gp_stream_record_begin(engine, context, FIRST, false);
  gp_lock_take(&device->lock);
  gp_pending_frees_passed(engine, device, first.stream_record, id, epoch);
  ck_assert_uint_eq(gp_locked(device)->committed_bytes, 4 * GP_MIB);
  gp_lock_release(&device->lock);
  stop();
}
END_TEST

/* Of an unknown stream every context has to be past the free; of a known one its own. */
START_TEST(test_the_streams_own_context_is_enough)
{
  start_limited("GPUPOOL_LIMIT=16MiB", "GPUPOOL_PATIENCE=0");
  gp_driver_context_t key = fake_context(1, 0);
  gp_context_t *other = gp_engine_context(engine, &key);
  const gp_stream_order_t own = {.context = context}, others = {.context = other};
  for (int i = 0; i < 3; i++)
    take(ADDRESS + (uint64_t)i * 4 * GP_MIB, 4 * GP_MIB, GP_FORWARDED_CAPTURE);
  work(0);
  work(1);
  free_forwarded(ADDRESS, &own);
  free_forwarded(ADDRESS + 4 * GP_MIB, &others);
  free_forwarded(ADDRESS + 8 * GP_MIB, &unknown);
  synchronize();
  ck_assert_uint_eq(committed(), 8 * GP_MIB);
  gp_engine_context_lost(engine, other); /* the only one left has completed all */
  ck_assert_uint_eq(committed(), 0);
  stop();
}
END_TEST

START_TEST(test_it_goes_with_its_context)
{
  start_limited("GPUPOOL_LIMIT=16MiB", "GPUPOOL_PATIENCE=0");
  take(ADDRESS, 4 * GP_MIB, GP_FORWARDED_CAPTURE);
  work(0);
  free_forwarded(ADDRESS, &unknown);
  ck_assert_uint_eq(committed(), 4 * GP_MIB);
  gp_engine_context_lost(engine, context);
  ck_assert_uint_eq(committed(), 0);
  stop();
}
END_TEST

START_TEST(test_small_memory_keeps_its_page)
{
  start_limited("GPUPOOL_LIMIT=16MiB", "GPUPOOL_PATIENCE=0");
  take(ADDRESS, 4096, GP_FORWARDED_PITCH);
  take(ADDRESS + 4096, 4096, GP_FORWARDED_PITCH);
  work(0);
  free_forwarded(ADDRESS, &unknown);
  ck_assert(gp_engine_check(engine));
  free_forwarded(ADDRESS + 4096, NULL);
  ck_assert_uint_eq(committed(), GP_DRIVER_PAGE);
  synchronize();
  ck_assert_uint_eq(committed(), 0);
  stop();
}
END_TEST

/* The driver's, which has the memory until the stream gets there. */
static int free_later(void *arg, bool is_cut)
{
  ck_assert(!is_cut);
  ++*(int *)arg;
  return 0;
}

START_TEST(test_a_block_that_goes_to_the_driver_counts)
{
  int calls = 0, code = -1;
  start_limited("GPUPOOL_LIMIT=8MiB", "GPUPOOL_PATIENCE=0");
  uint64_t block = allocate(6 * GP_MIB);
  const gp_stream_order_t first = order(FIRST);
  gp_engine_taint(engine, block);
  work(0);
  ck_assert_int_eq(gp_engine_free_async(engine, &first, block, free_later, &calls, &code), GP_FREE_DONE);
  ck_assert_int_eq(code, 0);
  ck_assert_int_eq(calls, 1);
  ck_assert_uint_eq(committed(), 6 * GP_MIB);
  ck_assert_int_eq(ask_for(4 * GP_MIB), FAKE_OUT_OF_MEMORY);
  synchronize();
  ck_assert_int_eq(ask_for(4 * GP_MIB), 0);
  stop();
}
END_TEST

START_TEST(test_without_a_limit_nothing_is_kept)
{
  start_streams(NULL, GP_GIB);
  take(ADDRESS, 6 * GP_MIB, GP_FORWARDED_PITCH);
  work(0);
  free_forwarded(ADDRESS, &unknown);
  ck_assert_uint_eq(context->device->committed_bytes, 0);
  ck_assert(gp_list_is_empty(&context->device->pending_frees));
  stop();
}
END_TEST

static uint64_t reserved_by_pools;

static int tell_reserved(void *self, const gp_driver_context_t *key, uint64_t *ret_bytes, uint64_t *ret_used)
{
  *ret_bytes = reserved_by_pools;
  *ret_used = 0;
  return 0;
}

/* A pool that has 32 MiB, 12 of which the program has, one allocation of 4 and one of 8; it freed 20. */
static void destroy_pool(void)
{
  start_limited("GPUPOOL_LIMIT=96MiB", "GPUPOOL_PATIENCE=0");
  driver.ops.async_reserved = tell_reserved;
  reserved_by_pools = 0;
  take(ADDRESS, 4 * GP_MIB, GP_FORWARDED_MEMPOOL);
  take(ADDRESS + 4 * GP_MIB, 8 * GP_MIB, GP_FORWARDED_MEMPOOL);
  reserved_by_pools = 32 * GP_MIB;
  ck_assert_uint_eq(committed(), 32 * GP_MIB);
  work(0);
  end_mempool(1, 0, 32 * GP_MIB);
  reserved_by_pools = 0;
  ck_assert_uint_eq(committed(), 32 * GP_MIB);
}

START_TEST(test_what_a_destroyed_pool_had_counts_until_its_last_allocation_is_back)
{
  destroy_pool();
  synchronize();
  ck_assert_uint_eq(committed(), 32 * GP_MIB);
  free_forwarded(ADDRESS, &unknown);
  synchronize();
  ck_assert_uint_eq(committed(), 32 * GP_MIB); /* it is part of a piece */
  work(0);
  free_forwarded(ADDRESS + 4 * GP_MIB, &unknown);
  ck_assert_uint_eq(committed(), 32 * GP_MIB);
  synchronize();
  ck_assert_uint_eq(committed(), 0);
  stop();
}
END_TEST

START_TEST(test_what_an_empty_destroyed_pool_had_counts_until_its_frees_are_complete)
{
  start_limited("GPUPOOL_LIMIT=96MiB", "GPUPOOL_PATIENCE=0");
  driver.ops.async_reserved = tell_reserved;
  reserved_by_pools = 0;
  take(ADDRESS, 4 * GP_MIB, GP_FORWARDED_MEMPOOL);
  reserved_by_pools = 32 * GP_MIB;
  work(0);
  free_forwarded(ADDRESS, &unknown);
  ck_assert_uint_eq(committed(), 32 * GP_MIB);
  end_mempool(1, 0, 32 * GP_MIB);
  reserved_by_pools = 0;
  ck_assert_uint_eq(committed(), 32 * GP_MIB);
  synchronize();
  ck_assert_uint_eq(committed(), 0);
  stop();
}
END_TEST

/* Another thread may learn meanwhile that all work is complete: the driver still has the pool. */
START_TEST(test_a_pool_counts_until_the_driver_has_ended_it)
{
  start_limited("GPUPOOL_LIMIT=96MiB", "GPUPOOL_PATIENCE=0");
  driver.ops.async_reserved = tell_reserved;
  for (int has_orphans = 0; has_orphans < 2; has_orphans++) {
    reserved_by_pools = 0;
    if (has_orphans)
      take(ADDRESS, 4 * GP_MIB, GP_FORWARDED_MEMPOOL);
    gp_ending_pool_t ending = gp_engine_mempool_ends(engine, 1, 0, 32 * GP_MIB);
    if (has_orphans)
      free_forwarded(ADDRESS, NULL);
    synchronize();
    ck_assert_uint_eq(committed(), 32 * GP_MIB);
    gp_engine_mempool_ended(engine, &ending);
    ck_assert_uint_eq(committed(), 32 * GP_MIB);
    synchronize();
    ck_assert_uint_eq(committed(), 0);
  }
  stop();
}
END_TEST

/* The next request is counted with as much. */
START_TEST(test_pools_with_larger_pieces_are_noticed)
{
  start_limited("GPUPOOL_LIMIT=96MiB", "GPUPOOL_PATIENCE=0");
  driver.ops.async_reserved = tell_reserved;
  reserved_by_pools = 48 * GP_MIB;
  take(ADDRESS, 4 * GP_MIB, GP_FORWARDED_MEMPOOL);
  ck_assert_uint_eq(committed(), 48 * GP_MIB);
  ck_assert(gp_engine_forwarded_reserve(engine, context, 4 * GP_MIB, GP_FORWARDED_MEMPOOL));
  ck_assert_uint_eq(committed(), 96 * GP_MIB);
  gp_engine_forwarded_cancel(engine, context, 4 * GP_MIB, GP_FORWARDED_MEMPOOL);
  ck_assert(gp_engine_forwarded_reserve(engine, context, 46 * GP_MIB, GP_FORWARDED_MEMPOOL));
  ck_assert(!gp_engine_forwarded_reserve(engine, context, 4 * GP_MIB, GP_FORWARDED_MEMPOOL));
  gp_engine_forwarded_cancel(engine, context, 46 * GP_MIB, GP_FORWARDED_MEMPOOL);
  free_forwarded(ADDRESS, NULL);
  reserved_by_pools = 0;
  stop();
}
END_TEST

/* The figure of a pool that ends may be older than what the driver said of all pools since. */
START_TEST(test_a_destroyed_pool_takes_nothing_from_others)
{
  start_limited("GPUPOOL_LIMIT=96MiB", "GPUPOOL_PATIENCE=0");
  driver.ops.async_reserved = tell_reserved;
  reserved_by_pools = 0;
  take(ADDRESS, 16 * GP_MIB, GP_FORWARDED_MEMPOOL);
  reserved_by_pools = 16 * GP_MIB;
  free_forwarded(ADDRESS, NULL);
  ck_assert_uint_eq(committed(), 16 * GP_MIB); /* its pool keeps it */
  work(0);
  end_mempool(2, 0, 20 * GP_MIB);
  ck_assert_uint_eq(committed(), 36 * GP_MIB);
  synchronize();
  ck_assert_uint_eq(committed(), 16 * GP_MIB);
  stop();
}
END_TEST

/* What an empty pool had does not wait for the allocations of another one. */
START_TEST(test_destroyed_pools_go_one_by_one)
{
  destroy_pool();
  end_mempool(2, 0, 16 * GP_MIB);
  ck_assert_uint_eq(committed(), 48 * GP_MIB);
  synchronize();
  ck_assert_uint_eq(committed(), 32 * GP_MIB);
  free_forwarded(ADDRESS, NULL);
  free_forwarded(ADDRESS + 4 * GP_MIB, NULL);
  synchronize();
  ck_assert_uint_eq(committed(), 0);
  stop();
}
END_TEST

START_TEST(test_memory_of_the_host_counts_and_is_awaited)
{
  start_limited("GPUPOOL_HOST_LIMIT=8MiB", "GPUPOOL_PATIENCE=2");
  take(ADDRESS, 6 * GP_MIB, GP_FORWARDED_HOST);
  work(0);
  free_forwarded(ADDRESS, &unknown);
  ck_assert_uint_eq(atomic_load(&engine->host_limit.used), 6 * GP_MIB);
  ck_assert(!gp_engine_forwarded_reserve(engine, context, 4 * GP_MIB, GP_FORWARDED_HOST));
  fake_complete(&driver, 0);
  take(ADDRESS, 4 * GP_MIB, GP_FORWARDED_HOST);
  ck_assert_uint_eq(atomic_load(&engine->host_limit.used), 4 * GP_MIB);
  stop();
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("pending frees");
  TCase *tests = tcase_create("pending frees");

  tcase_add_test(tests, test_it_counts_until_the_context_has_completed_the_free);
  tcase_add_test(tests, test_a_request_waits_for_it);
  tcase_add_test(tests, test_a_vain_wait_is_not_repeated);
  tcase_add_test(tests, test_a_point_of_the_stream_proves_that_it_is_back);
  tcase_add_test(tests, test_a_stream_without_work_has_passed_what_was_freed_before_the_question);
  tcase_add_test(tests, test_an_answer_about_an_ended_stream_proves_nothing);
  tcase_add_test(tests, test_the_streams_own_context_is_enough);
  tcase_add_test(tests, test_it_goes_with_its_context);
  tcase_add_test(tests, test_small_memory_keeps_its_page);
  tcase_add_test(tests, test_a_block_that_goes_to_the_driver_counts);
  tcase_add_test(tests, test_without_a_limit_nothing_is_kept);
  tcase_add_test(tests, test_what_a_destroyed_pool_had_counts_until_its_last_allocation_is_back);
  tcase_add_test(tests, test_what_an_empty_destroyed_pool_had_counts_until_its_frees_are_complete);
  tcase_add_test(tests, test_a_destroyed_pool_takes_nothing_from_others);
  tcase_add_test(tests, test_a_pool_counts_until_the_driver_has_ended_it);
  tcase_add_test(tests, test_pools_with_larger_pieces_are_noticed);
  tcase_add_test(tests, test_destroyed_pools_go_one_by_one);
  tcase_add_test(tests, test_memory_of_the_host_counts_and_is_awaited);
  suite_add_tcase(suite, tests);
  return gp_check_main(suite);
}
