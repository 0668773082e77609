/*
 * Limits, what goes back to the driver when, and running out of memory, over the fake driver.
 */
#include "pool/engine_record.h"
#include "test/pool/check_main.h"
#include "test/pool/engine_fixture.h"

START_TEST(test_limit_is_never_exceeded_and_idle_memory_makes_room)
{
  const char *const settings[] = {"GPUPOOL_LIMIT=8MiB", NULL};
  uint64_t address = 0;
  start(settings, GP_GIB, true);
  uint64_t block = allocate(6 * GP_MIB);
  ck_assert_int_eq(gp_engine_alloc(engine, context, 4 * GP_MIB, &address), FAKE_OUT_OF_MEMORY);
  ck_assert_int_eq(free_code(block), 0);
  fake_submit(&driver, 0, block);
  driver.complete_at_ns[0] = driver.now_ns + 1000000000;
  allocate(4 * GP_MIB); /* waits for the freed block and gives it back */
  ck_assert_int_eq(driver.count[FAKE_WAIT] + driver.busy_frees, 0);
  ck_assert_uint_le(driver.peak, 8 * GP_MIB);
  ck_assert_int_eq(gp_engine_alloc(engine, context, 9 * GP_MIB, &address), FAKE_OUT_OF_MEMORY);
  stop();
}
END_TEST

START_TEST(test_limit_as_share_and_per_device)
{
  const char *const settings[] = {"GPUPOOL_LIMIT=0=25%,1=2MiB,3=100%", NULL};
  uint64_t address = 0;
  start(settings, 16 * GP_MIB, true);
  gp_driver_context_t other = fake_context(1, 1);
  gp_context_t *second = gp_engine_context(engine, &other);
  ck_assert_uint_eq(gp_engine_limit(engine, 0), 4 * GP_MIB);
  ck_assert_uint_eq(gp_engine_limit(engine, 1), 2 * GP_MIB);
  ck_assert_uint_eq(gp_engine_limit(engine, 2), 0);
  ck_assert_uint_eq(gp_engine_limit(engine, 3), 0); /* a share of what is not known yet */
  allocate(4 * GP_MIB);
  ck_assert_int_eq(gp_engine_alloc(engine, context, 1, &address), FAKE_OUT_OF_MEMORY);
  ck_assert_int_eq(gp_engine_alloc(engine, second, GP_MIB, &address), 0);
  stop();
}
END_TEST

START_TEST(test_no_limit_is_above_the_ceiling)
{
  static gp_options_t options;
  const gp_amount_t more = {.number = 12 * GP_MIB}, none = {.is_none = true}, less = {.number = 2 * GP_MIB};
  gp_driver_context_t first = fake_context(0, 0);
  uint64_t address = 0;
  fake_driver_init(&driver, 16 * GP_MIB, true);
  gp_driver_t table = fake_driver_table(&driver);
  fake_options(&options, (const char *const[]){"GPUPOOL_LIMIT=6MiB", NULL});
  options.ceilings[0] = (gp_amount_t){.number = 25, .is_share = true};
  engine = gp_engine_create(&table, NULL, &options);
  ck_assert_ptr_nonnull(engine);
  driver.fail_code = FAKE_OUT_OF_MEMORY; /* so the size of the device is unknown at first */
  driver.fail_at = driver.calls + 1;
  driver.fail_stays = true;
  context = gp_engine_context(engine, &first);
  driver.fail_at = 0;
  allocate(4 * GP_MIB);
  ck_assert_uint_eq(gp_engine_limit(engine, 0), 4 * GP_MIB);
  ck_assert_int_eq(gp_engine_alloc(engine, context, 1, &address), FAKE_OUT_OF_MEMORY);
  (void)gp_engine_set_limit(engine, 0, &more);
  ck_assert_uint_eq(gp_engine_limit(engine, 0), 4 * GP_MIB);
  (void)gp_engine_set_limit(engine, 0, &none);
  ck_assert_uint_eq(gp_engine_limit(engine, 0), 4 * GP_MIB);
  (void)gp_engine_set_limit(engine, 0, &less);
  ck_assert_uint_eq(gp_engine_limit(engine, 0), 2 * GP_MIB);
  stop();
}
END_TEST

START_TEST(test_rounding_does_not_cause_out_of_memory)
{
  const uint64_t odd = 600 * 1024 + 512; /* a class of type round is 640 KiB */
  start(NULL, odd, true);
  uint64_t block = allocate(odd);
  ck_assert_uint_eq(driver.used, odd);
  ck_assert_int_eq(free_code(block), 0); /* not of a class: back to the driver */
  ck_assert_uint_eq(driver.used, 0);
  stop();
}
END_TEST

START_TEST(test_out_of_memory_gives_back_the_largest_first)
{
  start((const char *const[]){"GPUPOOL_RESERVE=0", NULL}, 16 * GP_MIB, true);
  uint64_t small = allocate(2 * GP_MIB);
  uint64_t large = allocate(8 * GP_MIB);
  ck_assert_int_eq(free_code(small), 0);
  ck_assert_int_eq(free_code(large), 0);
  synchronize();
  allocate(12 * GP_MIB);
  ck_assert_int_eq(driver.count[FAKE_FREE], 1);
  ck_assert_uint_eq(stats().cached_bytes.current, 2 * GP_MIB);
  ck_assert_uint_eq(stats().num_alloc_retries, 1);
  stop();
}
END_TEST

START_TEST(test_hopeless_request_leaves_the_cache_alone)
{
  uint64_t address;
  start((const char *const[]){"GPUPOOL_RESERVE=0", NULL}, 16 * GP_MIB, true);
  uint64_t block = allocate(8 * GP_MIB);
  allocate(4 * GP_MIB);
  free_code(block);
  synchronize();
  ck_assert_int_eq(gp_engine_alloc(engine, context, 13 * GP_MIB, &address), FAKE_OUT_OF_MEMORY);
  ck_assert_uint_eq(stats().cached_bytes.current, 8 * GP_MIB);
  ck_assert_uint_eq(stats().num_ooms, 1);
  allocate(12 * GP_MIB); /* this one fits if everything goes back */
  stop();
}
END_TEST

START_TEST(test_reserve_gives_idle_memory_back)
{
  start((const char *const[]){"GPUPOOL_RESERVE=4MiB", NULL}, 16 * GP_MIB, true);
  uint64_t block = allocate(8 * GP_MIB);
  ck_assert_int_eq(free_code(block), 0);
  synchronize();
  allocate(6 * GP_MIB);                         /* 2 MiB are left free */
  ck_assert_int_eq(driver.count[FAKE_FREE], 0); /* the driver's free may wait, its allocation would not */
  ck_assert_uint_eq(stats().cached_bytes.current, 8 * GP_MIB);
  synchronize();
  ck_assert_uint_eq(stats().cached_bytes.current, 0);
  allocate(8 * GP_MIB); /* but it is never a reason to refuse */
  stop();
}
END_TEST

static uint64_t host_has;

static uint64_t tell_host(void *self, const gp_driver_context_t *key)
{
  return host_has;
}

/* An integrated device: what its driver calls used may be page cache of the host. */
START_TEST(test_reserve_does_not_count_page_cache)
{
  start((const char *const[]){"GPUPOOL_RESERVE=4MiB", NULL}, 16 * GP_MIB, true);
  driver.ops.host_available = tell_host;
  host_has = 10 * GP_MIB;
  uint64_t block = allocate(8 * GP_MIB);
  ck_assert_int_eq(free_code(block), 0);
  synchronize();
  allocate(6 * GP_MIB);
  synchronize();
  ck_assert_uint_eq(stats().cached_bytes.current, 8 * GP_MIB);
  host_has = 0; /* as a device with memory of its own */
  allocate(GP_MIB);
  synchronize();
  ck_assert_uint_eq(stats().cached_bytes.current, 0);
  stop();
}
END_TEST

START_TEST(test_max_cached_gives_the_oldest_back)
{
  start((const char *const[]){"GPUPOOL_MAX_CACHED=6MiB", NULL}, GP_GIB, true);
  uint64_t a = allocate(2 * GP_MIB);
  uint64_t b = allocate(4 * GP_MIB);
  uint64_t c = allocate(2 * GP_MIB);
  free_code(a);
  free_code(b);
  free_code(c);
  synchronize();
  ck_assert_uint_eq(stats().cached_bytes.current, 6 * GP_MIB);
  ck_assert_uint_eq(allocate(2 * GP_MIB), c); /* a, the oldest, went back */
  stop();
}
END_TEST

START_TEST(test_idle_memory_goes_back_after_a_while)
{
  start((const char *const[]){"GPUPOOL_IDLE_RELEASE=10", NULL}, GP_GIB, true);
  uint64_t block = allocate(2 * GP_MIB);
  free_code(block);
  synchronize();
  driver.now_ns += UINT64_C(9999999999);
  allocate(4096);
  ck_assert_uint_eq(stats().cached_bytes.current, 2 * GP_MIB);
  driver.now_ns += 1;
  free_code(allocate(4096));
  synchronize();
  ck_assert_uint_eq(stats().cached_bytes.current, 4096);
  stop();
}
END_TEST

START_TEST(test_memory_info_counts_cached_as_free_and_knows_the_limit)
{
  uint64_t free_bytes = 90 * GP_MIB;
  uint64_t total = 100 * GP_MIB;
  start((const char *const[]){"GPUPOOL_LIMIT=20MiB", NULL}, GP_GIB, true);
  uint64_t block = allocate(8 * GP_MIB);
  allocate(4 * GP_MIB);
  gp_engine_translate_info(engine, context, &free_bytes, &total);
  ck_assert_uint_eq(total, 20 * GP_MIB);
  ck_assert_uint_eq(free_bytes, 8 * GP_MIB);
  free_code(block);
  free_bytes = 2 * GP_MIB; /* others hold the rest */
  total = 100 * GP_MIB;
  gp_engine_translate_info(engine, context, &free_bytes, &total);
  ck_assert_uint_eq(free_bytes, 10 * GP_MIB);
  stop();
}
END_TEST

static int host_asked;

static uint64_t count_and_tell_host(void *self, const gp_driver_context_t *key)
{
  host_asked++;
  return tell_host(self, key);
}

static void expect_info(uint64_t free_expected, uint64_t total_expected)
{
  uint64_t free_bytes = GP_MIB, total = 100 * GP_MIB; /* as the driver says */

  host_asked = 0;
  gp_engine_translate_info(engine, context, &free_bytes, &total);
  ck_assert_uint_eq(free_bytes, free_expected);
  ck_assert_uint_eq(total, total_expected);
}

START_TEST(test_memory_info_of_an_integrated_device_is_the_hosts)
{
  const char *const settings[] = {"GPUPOOL_INTEGRATED=available", "GPUPOOL_RESERVE=2MiB", NULL};

  start(settings, GP_GIB, true);
  driver.ops.host_available = count_and_tell_host;
  uint64_t block = allocate(8 * GP_MIB);
  host_has = 50 * GP_MIB;
  expect_info(48 * GP_MIB, 100 * GP_MIB);
  ck_assert_int_eq(host_asked, 1);
  ck_assert_int_eq(free_code(block), 0);
  expect_info(56 * GP_MIB, 100 * GP_MIB); /* what the pool keeps is not in the host's figure */
  host_has = 200 * GP_MIB;
  expect_info(100 * GP_MIB, 100 * GP_MIB);
  host_has = GP_MIB; /* less than the reserve */
  expect_info(8 * GP_MIB, 100 * GP_MIB);
  host_has = 0; /* a device with memory of its own */
  expect_info(9 * GP_MIB, 100 * GP_MIB);
  stop();
}
END_TEST

START_TEST(test_memory_info_of_an_integrated_device_keeps_the_limit)
{
  const char *const settings[] = {
      "GPUPOOL_INTEGRATED=available", "GPUPOOL_RESERVE=2MiB", "GPUPOOL_LIMIT=20MiB", NULL};

  start(settings, GP_GIB, true);
  driver.ops.host_available = tell_host;
  allocate(8 * GP_MIB);
  host_has = 50 * GP_MIB;
  expect_info(12 * GP_MIB, 20 * GP_MIB);
  host_has = 10 * GP_MIB;
  expect_info(8 * GP_MIB, 20 * GP_MIB);
  stop();
}
END_TEST

START_TEST(test_memory_info_of_an_integrated_device_is_the_drivers)
{
  start((const char *const[]){"GPUPOOL_RESERVE=2MiB", NULL}, GP_GIB, true);
  driver.ops.host_available = count_and_tell_host;
  host_has = 50 * GP_MIB;
  expect_info(GP_MIB, 100 * GP_MIB);
  ck_assert_int_eq(host_asked, 0);
  stop();
}
END_TEST

static uint64_t free_as_told(uint64_t by_driver)
{
  uint64_t free_bytes = by_driver, total = GP_GIB;
  gp_engine_translate_info(engine, context, &free_bytes, &total);
  return free_bytes - by_driver;
}

/* Their pages are shared, and go back with the last block that is in use. */
START_TEST(test_small_cached_memory_is_free_once_none_is_in_use)
{
  start(NULL, GP_GIB, true);
  uint64_t kept = allocate(4096), small = allocate(4096), large = allocate(4 * GP_MIB);
  free_code(small);
  free_code(large);
  ck_assert_uint_eq(free_as_told(500 * GP_MIB), 4 * GP_MIB);
  free_code(kept);
  uint64_t pages = gp_engine_check(engine) ? engine->devices[0].shared_pages : 0;
  ck_assert_uint_gt(pages, 0);
  ck_assert_uint_eq(free_as_told(500 * GP_MIB), 4 * GP_MIB + pages * GP_DRIVER_PAGE);
  stop();
}
END_TEST

/* The driver's word and ours are of different moments: another thread may just have given memory back. */
START_TEST(test_free_memory_is_never_more_than_there_is)
{
  start(NULL, 100 * GP_MIB, true);
  free_code(allocate(40 * GP_MIB));
  synchronize();
  uint64_t total = 100 * GP_MIB;
  uint64_t free_bytes = 60 * GP_MIB;
  gp_engine_translate_info(engine, context, &free_bytes, &total);
  ck_assert_uint_eq(free_bytes, 100 * GP_MIB);
  free_bytes = 90 * GP_MIB;
  gp_engine_translate_info(engine, context, &free_bytes, &total);
  ck_assert_uint_eq(free_bytes, 100 * GP_MIB);
  free_bytes = total = 20 * GP_MIB; /* less than we hold */
  gp_engine_translate_info(engine, context, &free_bytes, &total);
  ck_assert_uint_eq(free_bytes, 20 * GP_MIB);
  ck_assert_uint_eq(total, 20 * GP_MIB);
  stop();
}
END_TEST

static uint64_t reserved_by_pools;

static int tell_reserved(
    void *self, const gp_driver_context_t *key, uint64_t *ret_reserved, uint64_t *ret_used)
{
  *ret_reserved = *ret_used = reserved_by_pools;
  return 0;
}

static void take_from_pool(uint64_t pool, uint64_t bytes)
{
  const gp_forwarded_t memory = {
      .address = 0x1000000 * pool, .size = bytes, .pool = pool, .kind = GP_FORWARDED_MEMPOOL};
  ck_assert(gp_engine_forwarded_reserve(engine, context, bytes, memory.kind));
  reserved_by_pools += 32 * GP_MIB; /* the piece by which it grows */
  gp_engine_forwarded_commit(engine, context, &memory, 0);
}

/* Memory lives on without its pool; what another pool holds beyond what is in use is counted nevertheless. */
START_TEST(test_a_pool_that_went_hides_nothing_of_another)
{
  uint64_t address = 0;
  start((const char *const[]){"GPUPOOL_LIMIT=96MiB", NULL}, GP_GIB, true);
  reserved_by_pools = 0;
  driver.ops.async_reserved = tell_reserved;
  take_from_pool(1, 32 * GP_MIB);
  take_from_pool(2, GP_MIB);
  end_mempool(1, 0, 32 * GP_MIB);
  reserved_by_pools -= 32 * GP_MIB; /* its pool cannot be asked any more */
  allocate(32 * GP_MIB);
  ck_assert_int_eq(gp_engine_alloc(engine, context, 8 * GP_MIB, &address), FAKE_OUT_OF_MEMORY);
  gp_engine_destroy(engine);
  fake_driver_fini(&driver);
}
END_TEST

/* Freed in stream order, it may still be with the driver's pool: another limit goes on counting it, none does
 * not. */
START_TEST(test_what_a_pool_may_still_hold_counts_under_a_limit_only)
{
  static const gp_amount_t lower = {.number = 64 * GP_MIB}, none = {.is_none = true};
  gp_forwarded_t memory;
  start((const char *const[]){"GPUPOOL_LIMIT=96MiB", NULL}, GP_GIB, true);
  const gp_device_t *device = context->device;
  reserved_by_pools = 0;
  driver.ops.async_reserved = tell_reserved;
  take_from_pool(1, GP_MIB);
  ck_assert(gp_engine_forwarded_take(engine, GP_SPACE_POINTER, 0x1000000, &memory));
  gp_engine_forwarded_freed(engine, &memory, 0, 0);
  ck_assert_uint_eq(device->draining, 32 * GP_MIB);
  gp_engine_set_limit(engine, 0, &lower);
  ck_assert_uint_eq(device->draining, 32 * GP_MIB);
  ck_assert_uint_eq(device->committed_bytes, 32 * GP_MIB);
  gp_engine_set_limit(engine, 0, &none);
  ck_assert_uint_eq(device->draining, 0);
  ck_assert_uint_eq(device->committed_bytes, 0);
  stop();
}
END_TEST

/* The device is busy and has 2 MiB free; the cache has 8 MiB. */
static void fill_beside_work(void)
{
  start((const char *const[]){"GPUPOOL_RESERVE=0", "GPUPOOL_PATIENCE=0", NULL}, 50 * GP_MIB, true);
  uint64_t block = allocate(8 * GP_MIB);
  uint64_t busy = allocate(40 * GP_MIB);
  ck_assert_int_eq(free_code(block), 0);
  synchronize();
  fake_submit(&driver, 0, busy);
  ck_assert(!gp_engine_forwarded_reserve(engine, context, 4 * GP_MIB, GP_FORWARDED_MEMPOOL));
}

static void expect_passed_on(void)
{
  ck_assert(gp_engine_forwarded_reserve(engine, context, 4 * GP_MIB, GP_FORWARDED_MEMPOOL));
  ck_assert_uint_eq(stats().cached_bytes.current, 8 * GP_MIB);
  gp_engine_forwarded_cancel(engine, context, 4 * GP_MIB, GP_FORWARDED_MEMPOOL);
  fake_complete(&driver, 0);
  stop();
}

START_TEST(test_page_cache_is_room_for_stream_ordered_memory)
{
  fill_beside_work();
  driver.ops.host_available = tell_host;
  host_has = 4 * GP_MIB;
  expect_passed_on();
}
END_TEST

static int refuse_to_tell(
    void *self, const gp_driver_context_t *key, uint64_t *ret_reserved, uint64_t *ret_used)
{
  return FAKE_INVALID_VALUE;
}

/* They may have what was freed in stream order. */
START_TEST(test_pools_of_which_the_driver_tells_nothing_may_have_room)
{
  fill_beside_work();
  driver.ops.async_reserved = refuse_to_tell;
  ck_assert(gp_engine_forwarded_reserve(engine, context, GP_MIB, GP_FORWARDED_MEMPOOL));
  gp_engine_forwarded_cancel(engine, context, GP_MIB, GP_FORWARDED_MEMPOOL);
  expect_passed_on();
}
END_TEST

static int refuse_in_pieces(void *self, const gp_driver_context_t *key, uint64_t bytes, uint64_t *ret_address)
{
  driver.count[FAKE_ALLOC]++;
  return FAKE_OUT_OF_MEMORY;
}

static long trims;

static void count_trim(void *self, const gp_driver_context_t *key)
{
  trims++;
}

/* How often a driver whose memory is in pieces is asked for what it refuses. */
static long count_attempts(void)
{
  uint64_t address;
  long before = driver.count[FAKE_ALLOC];
  ck_assert_int_eq(gp_engine_alloc(engine, context, GP_MIB, &address), FAKE_OUT_OF_MEMORY);
  return driver.count[FAKE_ALLOC] - before;
}

/* One that has no pools, or nothing in them, is not asked again for their sake. */
START_TEST(test_only_pools_that_hold_something_are_trimmed)
{
  start((const char *const[]){"GPUPOOL_RESERVE=0", NULL}, GP_GIB, true);
  driver.ops.alloc = refuse_in_pieces;
  trims = 0;
  long without = count_attempts();
  driver.ops.trim_async = count_trim;
  driver.ops.async_reserved = tell_reserved;
  reserved_by_pools = 0;
  ck_assert_int_eq(count_attempts(), without);
  ck_assert_int_eq(trims, 0);
  reserved_by_pools = GP_MIB;
  ck_assert_int_eq(count_attempts(), without + 1);
  ck_assert_int_eq(trims, 1);
  stop();
}
END_TEST

START_TEST(test_malformed_limit_refuses_everything)
{
  gp_options_t options;
  gp_driver_t table;
  uint64_t address = 0;
  fake_driver_init(&driver, GP_GIB, true);
  table = fake_driver_table(&driver);
  fake_options(&options, NULL);
  options.limit_malformed = true;
  engine = gp_engine_create(&table, NULL, &options);
  gp_driver_context_t first = fake_context(0, 0);
  context = gp_engine_context(engine, &first);
  ck_assert_int_eq(gp_engine_alloc(engine, context, 1, &address), FAKE_OUT_OF_MEMORY);
  ck_assert(!gp_engine_forwarded_reserve(engine, context, 1, GP_FORWARDED_MANAGED));
  ck_assert_int_eq(driver.count[FAKE_ALLOC], 0);
  stop();
}
END_TEST

START_TEST(test_passthrough_counts_against_the_limit)
{
  start((const char *const[]){"GPUPOOL_LIMIT=8MiB", NULL}, GP_GIB, true);
  uint64_t block = allocate(4 * GP_MIB);
  free_code(block);
  ck_assert(gp_engine_forwarded_reserve(
      engine, context, 6 * GP_MIB, GP_FORWARDED_MANAGED)); /* the idle block makes room */
  gp_forwarded_t memory = {.address = 0x1000, .size = 6 * GP_MIB, .kind = GP_FORWARDED_MANAGED};
  gp_engine_forwarded_commit(engine, context, &memory, 5);
  ck_assert(!gp_engine_forwarded_reserve(engine, context, 4 * GP_MIB, GP_FORWARDED_MANAGED));
  ck_assert_uint_eq(stats().num_ooms, 1);
  ck_assert_uint_eq(stats().passthrough_bytes.current, 6 * GP_MIB);
  ck_assert_uint_eq(gp_engine_forwarded_copy(engine, 0, NULL, 0), 1);
  gp_forwarded_t taken;
  ck_assert(gp_engine_forwarded_take(engine, GP_SPACE_POINTER, 0x1000, &taken));
  gp_engine_forwarded_restore(engine, &taken); /* the driver refused */
  ck_assert(gp_engine_forwarded_take(engine, GP_SPACE_POINTER, 0x1000, &taken));
  gp_engine_forwarded_freed(engine, &taken, 0, 0);
  ck_assert(!gp_engine_forwarded_take(engine, GP_SPACE_POINTER, 0x1000, &taken));
  stop();
}
END_TEST

static gp_oom_t last_oom;
static int oom_count;

static void note_oom(void *self, const gp_oom_t *oom)
{
  (void)self;
  last_oom = *oom;
  oom_count++;
}

START_TEST(test_out_of_memory_report_names_the_owners)
{
  const gp_observer_t observer = {.out_of_memory = note_oom};
  uint64_t address;
  gp_driver_context_t first = fake_context(0, 0);
  oom_count = 0;
  fake_driver_init(&driver, 64 * GP_MIB, true);
  engine = fake_engine(&driver, &observer, (const char *const[]){"GPUPOOL_RESERVE=0", NULL});
  context = gp_engine_context(engine, &first);
  for (int i = 0; i < 4; i++)
    allocate(10 * GP_MIB);
  allocate(14 * GP_MIB);
  for (int i = 0; i < 3; i++)
    allocate(GP_MIB);
  uint64_t idle = allocate(4 * GP_MIB);
  free_code(idle);
  synchronize();
  ck_assert_int_eq(gp_engine_alloc(engine, context, 20 * GP_MIB, &address), FAKE_OUT_OF_MEMORY);
  ck_assert_int_eq(oom_count, 1);
  ck_assert_uint_eq(last_oom.requested, 20 * GP_MIB);
  ck_assert_uint_eq(last_oom.live, 57 * GP_MIB);
  ck_assert_uint_eq(last_oom.cached, 4 * GP_MIB); /* giving it back would not have helped */
  ck_assert_uint_eq(last_oom.largest_free, 4 * GP_MIB);
  ck_assert_uint_eq(last_oom.device_total, 64 * GP_MIB);
  ck_assert(!last_oom.by_limit);
  ck_assert_uint_eq(last_oom.owners[0].size, 10 * GP_MIB);
  ck_assert_uint_eq(last_oom.owners[0].count, 4);
  ck_assert_uint_eq(last_oom.owners[1].size, 14 * GP_MIB);
  ck_assert_uint_eq(last_oom.owners[2].count, 3);
  stop();
}
END_TEST

/* Memory of contexts, code and other processes is in use on the device and in no sum of the pool. */
START_TEST(test_unaccounted_memory_is_reported)
{
  const char *const settings[] = {"GPUPOOL_RESERVE=0", NULL};
  const gp_observer_t observer = {.out_of_memory = note_oom};
  gp_driver_context_t first = fake_context(0, 0);
  gp_device_use_t use;
  uint64_t address;

  fake_driver_init(&driver, 100 * GP_MIB, true);
  driver.used = 10 * GP_MIB;
  engine = fake_engine(&driver, &observer, settings);
  ck_assert(!gp_engine_device_use(engine, 0, &use)); /* the driver has not been asked */
  context = gp_engine_context(engine, &first);
  ck_assert(gp_engine_device_use(engine, 0, &use));
  ck_assert_uint_eq(use.total, 100 * GP_MIB);
  ck_assert_uint_eq(use.free, 90 * GP_MIB);
  ck_assert_uint_eq(use.accounted, 0);
  ck_assert_uint_eq(use.unaccounted, 10 * GP_MIB);

  allocate(4 * GP_MIB);
  ck_assert(gp_engine_forwarded_reserve(engine, context, 6 * GP_MIB, GP_FORWARDED_ARRAY));
  gp_engine_forwarded_commit(engine, context,
      &(gp_forwarded_t){.address = 0x1000, .size = 6 * GP_MIB, .kind = GP_FORWARDED_ARRAY}, 1);
  driver.used += 6 * GP_MIB;
  driver.used += 20 * GP_MIB; /* another process */
  ck_assert_int_eq(gp_engine_alloc(engine, context, 80 * GP_MIB, &address), FAKE_OUT_OF_MEMORY);
  ck_assert_uint_eq(last_oom.unaccounted, 30 * GP_MIB);
  ck_assert(gp_engine_device_use(engine, 0, &use));
  ck_assert_uint_eq(use.accounted, 10 * GP_MIB);
  ck_assert_uint_eq(use.unaccounted, 30 * GP_MIB);
  driver.used -= 36 * GP_MIB; /* so that the fixture's sums agree */
  stop();
}
END_TEST

/* A device on which the program has no context can hold memory of cuMemCreate, and has a limit like any
 * other. */
START_TEST(test_a_device_without_context)
{
  const char *const settings[] = {"GPUPOOL_LIMIT=3=8MiB", NULL};
  start(settings, GP_GIB, true);
  gp_context_t *stand_in = gp_engine_device_context(engine, 3);
  ck_assert_ptr_nonnull(stand_in);
  ck_assert_int_eq(gp_context_device(stand_in), 3);
  ck_assert_ptr_eq(gp_engine_device_context(engine, 0), context);
  ck_assert_ptr_null(gp_engine_device_context(engine, GP_MAX_DEVICES));
  ck_assert_ptr_null(gp_engine_device_context(engine, -1));
  ck_assert(gp_engine_forwarded_reserve(engine, stand_in, 6 * GP_MIB, GP_FORWARDED_PHYSICAL));
  ck_assert(!gp_engine_forwarded_reserve(engine, stand_in, 4 * GP_MIB, GP_FORWARDED_PHYSICAL));
  gp_engine_forwarded_cancel(engine, stand_in, 6 * GP_MIB, GP_FORWARDED_PHYSICAL);
  ck_assert(gp_engine_forwarded_reserve(engine, stand_in, 8 * GP_MIB, GP_FORWARDED_PHYSICAL));
  gp_engine_forwarded_cancel(engine, stand_in, 8 * GP_MIB, GP_FORWARDED_PHYSICAL);
  ck_assert_uint_eq(gp_engine_devices(engine), 1 << 0 | 1 << 3);
  stop();
}
END_TEST

/* The same number can be an address, a handle of an array and one of a graph. */
START_TEST(test_names_of_different_kinds_are_apart)
{
  const gp_forwarded_kind_t kinds[] = {GP_FORWARDED_MANAGED, GP_FORWARDED_ARRAY, GP_FORWARDED_PHYSICAL,
      GP_FORWARDED_EXTERNAL, GP_FORWARDED_GRAPH};
  gp_forwarded_t memory;

  start(NULL, GP_GIB, true);
  for (int i = 0; i < 5; i++) {
    ck_assert(gp_engine_forwarded_reserve(engine, context, GP_MIB, kinds[i]));
    gp_engine_forwarded_commit(
        engine, context, &(gp_forwarded_t){.address = 0x1000, .size = GP_MIB, .kind = kinds[i]}, 1);
  }
  ck_assert_uint_eq(stats().passthrough_bytes.current, 5 * GP_MIB);
  ck_assert_uint_eq(gp_engine_forwarded_copy(engine, 0, NULL, 0), 5);
  for (int i = 0; i < 5; i++) {
    ck_assert(gp_engine_forwarded_take(engine, gp_forwarded_space(kinds[i]), 0x1000, &memory));
    ck_assert_int_eq(memory.kind, kinds[i]);
    gp_engine_forwarded_freed(engine, &memory, 0, 1);
  }
  ck_assert_uint_eq(stats().passthrough_bytes.current, 0);
  stop();
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("limit");
  TCase *limits = tcase_create("limits");
  tcase_add_test(limits, test_limit_is_never_exceeded_and_idle_memory_makes_room);
  tcase_add_test(limits, test_limit_as_share_and_per_device);
  tcase_add_test(limits, test_no_limit_is_above_the_ceiling);
  tcase_add_test(limits, test_rounding_does_not_cause_out_of_memory);
  tcase_add_test(limits, test_out_of_memory_gives_back_the_largest_first);
  tcase_add_test(limits, test_hopeless_request_leaves_the_cache_alone);
  tcase_add_test(limits, test_reserve_gives_idle_memory_back);
  tcase_add_test(limits, test_reserve_does_not_count_page_cache);
  tcase_add_test(limits, test_max_cached_gives_the_oldest_back);
  tcase_add_test(limits, test_idle_memory_goes_back_after_a_while);
  tcase_add_test(limits, test_memory_info_counts_cached_as_free_and_knows_the_limit);
  tcase_add_test(limits, test_memory_info_of_an_integrated_device_is_the_hosts);
  tcase_add_test(limits, test_memory_info_of_an_integrated_device_keeps_the_limit);
  tcase_add_test(limits, test_memory_info_of_an_integrated_device_is_the_drivers);
  tcase_add_test(limits, test_free_memory_is_never_more_than_there_is);
  tcase_add_test(limits, test_small_cached_memory_is_free_once_none_is_in_use);
  tcase_add_test(limits, test_a_pool_that_went_hides_nothing_of_another);
  tcase_add_test(limits, test_what_a_pool_may_still_hold_counts_under_a_limit_only);
  tcase_add_test(limits, test_page_cache_is_room_for_stream_ordered_memory);
  tcase_add_test(limits, test_pools_of_which_the_driver_tells_nothing_may_have_room);
  tcase_add_test(limits, test_only_pools_that_hold_something_are_trimmed);
  tcase_add_test(limits, test_malformed_limit_refuses_everything);
  tcase_add_test(limits, test_passthrough_counts_against_the_limit);
  tcase_add_test(limits, test_out_of_memory_report_names_the_owners);
  tcase_add_test(limits, test_unaccounted_memory_is_reported);
  tcase_add_test(limits, test_a_device_without_context);
  tcase_add_test(limits, test_names_of_different_kinds_are_apart);
  suite_add_tcase(suite, limits);
  return gp_check_main(suite);
}
