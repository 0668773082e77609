/*
 * Which idle memory is surplus, how much, and which block goes back next. Over the fake driver.
 */
#include "pool/engine_record.h"
#include "pool/space/surplus.h"

#include "pool/space/block.h"
#include "test/pool/check_main.h"
#include "test/pool/engine_fixture.h"

#define SECOND UINT64_C(1000000000)

static gp_context_t *second;
static gp_device_t *device;

/* Idle, oldest first and a second apart: 1 MiB of the second context, 2 MiB and 4 MiB of the first. */
static void begin(const char *setting)
{
  gp_driver_context_t other = fake_context(1, 0);
  uint64_t address = 0;

  start((const char *const[]){"GPUPOOL_RESERVE=0", NULL}, GP_GIB, true);
  second = gp_engine_context(engine, &other);
  device = context->device;
  ck_assert_int_eq(gp_engine_alloc(engine, second, GP_MIB, &address), 0);
  uint64_t middle = allocate(2 * GP_MIB);
  uint64_t last = allocate(4 * GP_MIB);
  const uint64_t blocks[] = {address, middle, last};
  for (int i = 0; i < 3; i++) {
    ck_assert_int_eq(free_code(blocks[i]), 0);
    gp_engine_sync_end(engine, second, gp_engine_sync_begin(engine));
    synchronize();
    (void)stats(); /* it is idle from now on, not from the next look */
    driver.now_ns += SECOND;
  }
  ck_assert_uint_eq(stats().cached_bytes.current, 7 * GP_MIB);
  gp_options_t options; /* only now, or they would be surplus on the way */
  fake_options(&options, (const char *const[]){setting, NULL});
  engine->max_cached = gp_option_number(&options, GP_OPTION_max_cached);
  uint64_t idle_seconds = gp_option_number(&options, GP_OPTION_idle_release);
  engine->idle_release_ns = idle_seconds > 0 ? idle_seconds * SECOND : UINT64_MAX;
}

static bool is_due(void)
{
  gp_lock_take(&device->lock);
  bool due = gp_surplus_is_due(engine, device, driver.now_ns);
  gp_lock_release(&device->lock);
  return due;
}

static uint64_t surplus(void)
{
  gp_lock_take(&device->lock);
  uint64_t bytes = gp_surplus_bytes(engine, device, driver.now_ns);
  gp_lock_release(&device->lock);
  return bytes;
}

static void want(uint64_t bytes, gp_trim_reason_t reason)
{
  gp_lock_take(&device->lock);
  gp_surplus_want(device, bytes, reason);
  gp_lock_release(&device->lock);
}

/* Bytes of the block of the context that would go next; 0: none. */
static uint64_t next_of(gp_context_t *which, gp_trim_reason_t *ret_reason)
{
  gp_lock_take(&device->lock);
  const gp_block_t *block = gp_surplus_next(engine, which, driver.now_ns, 0, ret_reason);
  uint64_t size = block ? block->size : 0;
  gp_lock_release(&device->lock);
  return size;
}

static uint64_t next(void)
{
  gp_trim_reason_t reason;
  return next_of(context, &reason);
}

START_TEST(test_nothing_is_surplus_at_first)
{
  begin("GPUPOOL_IDLE_RELEASE=0");
  driver.now_ns += 1000000 * SECOND;
  ck_assert(!is_due());
  ck_assert_uint_eq(surplus(), 0);
  ck_assert_uint_eq(next(), 0);
  stop();
}
END_TEST

START_TEST(test_more_than_max_cached)
{
  gp_trim_reason_t reason;
  begin("GPUPOOL_MAX_CACHED=5MiB");
  ck_assert(is_due());
  ck_assert_uint_eq(surplus(), 2 * GP_MIB);
  ck_assert_uint_eq(next_of(context, &reason), 2 * GP_MIB); /* the oldest of this context */
  ck_assert_int_eq(reason, GP_TRIM_MAX_CACHED);
  ck_assert_uint_eq(next_of(second, &reason), GP_MIB);
  engine->max_cached = 7 * GP_MIB;
  ck_assert(!is_due());
  ck_assert_uint_eq(surplus(), 0);
  ck_assert_uint_eq(next(), 0);
  stop();
}
END_TEST

/* The blocks became idle 3, 2 and 1 seconds ago. */
START_TEST(test_idle_for_too_long)
{
  gp_trim_reason_t reason;
  begin("GPUPOOL_IDLE_RELEASE=4");
  ck_assert(!is_due());
  driver.now_ns += SECOND;
  ck_assert(is_due());
  ck_assert_uint_eq(surplus(), GP_MIB);
  ck_assert_uint_eq(next(), 0);
  ck_assert_uint_eq(next_of(second, &reason), GP_MIB);
  ck_assert_int_eq(reason, GP_TRIM_IDLE);
  driver.now_ns += SECOND;
  ck_assert_uint_eq(surplus(), 3 * GP_MIB);
  ck_assert_uint_eq(next(), 2 * GP_MIB);
  driver.now_ns += SECOND;
  ck_assert_uint_eq(surplus(), 7 * GP_MIB);
  stop();
}
END_TEST

START_TEST(test_above_a_limit_that_was_lowered)
{
  gp_trim_reason_t reason;
  gp_options_t options;
  begin("GPUPOOL_IDLE_RELEASE=0");
  uint64_t busy = allocate(8 * GP_MIB);
  fake_submit(&driver, 0, busy); /* so that nothing goes back at once */
  fake_options(&options, (const char *const[]){"GPUPOOL_LIMIT=12MiB", NULL});
  ck_assert_uint_eq(gp_engine_set_limits(engine, options.limits), 0);
  gp_lock_take(&device->lock);
  gp_surplus_went(device, UINT64_MAX); /* what the request itself wants back */
  gp_lock_release(&device->lock);
  ck_assert(is_due());
  ck_assert_uint_eq(surplus(), 4 * GP_MIB); /* 16 are counted: 1 is in a page */
  ck_assert_uint_eq(next_of(context, &reason), 2 * GP_MIB);
  ck_assert_int_eq(reason, GP_TRIM_REQUESTED);
  fake_options(&options, (const char *const[]){"GPUPOOL_LIMIT=1MiB", NULL});
  ck_assert_uint_eq(gp_engine_set_limits(engine, options.limits), 0);
  ck_assert_uint_eq(surplus(), 7 * GP_MIB); /* no more than is idle */
  fake_complete(&driver, 0);
  stop();
}
END_TEST

START_TEST(test_wanted_back)
{
  gp_trim_reason_t reason;
  begin("GPUPOOL_IDLE_RELEASE=0");
  want(GP_MIB, GP_TRIM_RESERVE);
  ck_assert(is_due());
  ck_assert_uint_eq(surplus(), GP_MIB);
  ck_assert_uint_eq(next_of(context, &reason), 2 * GP_MIB);
  ck_assert_int_eq(reason, GP_TRIM_RESERVE);
  want(3 * GP_MIB, GP_TRIM_REQUESTED); /* of two reasons the one that wants more */
  ck_assert_uint_eq(surplus(), 3 * GP_MIB);
  (void)next_of(context, &reason);
  ck_assert_int_eq(reason, GP_TRIM_REQUESTED);
  want(2 * GP_MIB, GP_TRIM_RESERVE);
  ck_assert_uint_eq(surplus(), 3 * GP_MIB);
  (void)next_of(context, &reason);
  ck_assert_int_eq(reason, GP_TRIM_REQUESTED);
  want(2 * GP_MIB, GP_TRIM_REQUESTED); /* a later request takes nothing back */
  ck_assert_uint_eq(surplus(), 3 * GP_MIB);
  gp_lock_take(&device->lock);
  gp_surplus_went(device, 2 * GP_MIB);
  gp_lock_release(&device->lock);
  ck_assert_uint_eq(surplus(), GP_MIB);
  gp_lock_take(&device->lock);
  gp_surplus_went(device, 2 * GP_MIB); /* a block is larger than what was wanted */
  gp_lock_release(&device->lock);
  ck_assert(!is_due());
  ck_assert_uint_eq(surplus(), 0);
  want(100 * GP_MIB, GP_TRIM_RESERVE);
  ck_assert_uint_eq(surplus(), 7 * GP_MIB);
  want(GP_MIB, GP_TRIM_RESERVE); /* the device has more room now */
  ck_assert_uint_eq(surplus(), GP_MIB);
  stop();
}
END_TEST

/* Several reasons ask for the same memory. */
START_TEST(test_reasons_are_not_added_up)
{
  gp_trim_reason_t reason;
  begin("GPUPOOL_IDLE_RELEASE=4");
  engine->max_cached = 4 * GP_MIB; /* 3 MiB too many */
  driver.now_ns += SECOND;         /* 1 MiB is too old */
  want(2 * GP_MIB, GP_TRIM_RESERVE);
  ck_assert_uint_eq(surplus(), 3 * GP_MIB);
  (void)next_of(context, &reason);
  ck_assert_int_eq(reason, GP_TRIM_MAX_CACHED);
  driver.now_ns += 2 * SECOND;
  ck_assert_uint_eq(surplus(), 7 * GP_MIB);
  stop();
}
END_TEST

START_TEST(test_only_idle_memory_is_surplus)
{
  start((const char *const[]){"GPUPOOL_RESERVE=0", NULL}, GP_GIB, true);
  device = context->device;
  uint64_t block = allocate(GP_MIB);
  want(GP_MIB, GP_TRIM_REQUESTED);
  ck_assert(!is_due());
  ck_assert_uint_eq(surplus(), 0);
  fake_submit(&driver, 0, block);
  ck_assert_int_eq(free_code(block), 0);
  ck_assert(!is_due());
  ck_assert_uint_eq(next(), 0);
  ck_assert_int_eq(driver.count[FAKE_FREE], 0);
  fake_complete(&driver, 0);
  stop();
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("surplus");
  TCase *reasons = tcase_create("reasons");
  tcase_add_test(reasons, test_nothing_is_surplus_at_first);
  tcase_add_test(reasons, test_more_than_max_cached);
  tcase_add_test(reasons, test_idle_for_too_long);
  tcase_add_test(reasons, test_above_a_limit_that_was_lowered);
  tcase_add_test(reasons, test_wanted_back);
  tcase_add_test(reasons, test_reasons_are_not_added_up);
  tcase_add_test(reasons, test_only_idle_memory_is_surplus);
  suite_add_tcase(suite, reasons);
  return gp_check_main(suite);
}
