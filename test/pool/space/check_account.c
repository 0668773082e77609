/*
 * The account that limits are held against: pages that small allocations share, whole pages for the rest, and
 * what the driver's pools may grow by while they are asked.
 */
#include "pool/space/account.h"
#include "test/pool/check_main.h"
#include "test/pool/engine_fixture.h"

#define PAGE GP_DRIVER_PAGE

static uint64_t counted(void)
{
  return context->device->committed_bytes;
}

START_TEST(test_small_allocations_share_pages)
{
  uint64_t blocks[8];
  start((const char *const[]){"GPUPOOL_TYPE=unpooled", NULL}, GP_GIB, true);
  driver.next_address = 512 * PAGE;
  for (int i = 0; i < 8; i++)
    blocks[i] = allocate(i < 4 ? GP_MIB : 100);
  ck_assert_uint_eq(counted(), 3 * PAGE); /* as they lie: 2 of 1 MiB in each, then the rest */
  ck_assert_uint_eq(gp_account_slack(context->device), 3 * PAGE - 4 * GP_MIB - 400);
  ck_assert(gp_engine_check(engine));
  for (int i = 1; i < 8; i += 2)
    ck_assert_int_eq(free_code(blocks[i]), 0);
  ck_assert_uint_eq(counted(), 3 * PAGE); /* one that is left keeps the page */
  for (int i = 0; i < 8; i += 2)
    ck_assert_int_eq(free_code(blocks[i]), 0);
  ck_assert_uint_eq(counted(), 0);
  stop();
}
END_TEST

START_TEST(test_a_small_allocation_may_need_a_page)
{
  uint64_t address;
  start((const char *const[]){"GPUPOOL_TYPE=unpooled", "GPUPOOL_LIMIT=4MiB", NULL}, GP_GIB, true);
  driver.next_address = 512 * PAGE;
  allocate(1);
  allocate(1);
  ck_assert_uint_eq(counted(), PAGE);
  allocate(PAGE);
  ck_assert_int_eq(gp_engine_alloc(engine, context, 1, &address), FAKE_OUT_OF_MEMORY);
  stop();
}
END_TEST

/* The driver, the one of the tests too, has no small allocation in two pages. */
START_TEST(test_small_allocations_keep_within_the_limit)
{
  start((const char *const[]){"GPUPOOL_TYPE=unpooled", "GPUPOOL_LIMIT=8MiB", NULL}, GP_GIB, true);
  for (uint64_t i = 0; i < 2; i++) {
    driver.next_address = (512 + 8 * i) * PAGE;
    allocate(700 << 10);
    allocate(700 << 10);
    allocate(GP_MIB); /* in the next page */
    ck_assert_uint_eq(counted(), 2 * (i + 1) * PAGE);
  }
  ck_assert_uint_le(driver.peak, counted());
  stop();
}
END_TEST

static const gp_forwarded_kind_t apart[] = {GP_FORWARDED_MANAGED, GP_FORWARDED_ARRAY, GP_FORWARDED_PHYSICAL,
    GP_FORWARDED_EXTERNAL, GP_FORWARDED_PITCH, GP_FORWARDED_CAPTURE};

START_TEST(test_each_kind_counts_whole_pages)
{
  gp_forwarded_t memory = {.size = GP_MIB + 1, .kind = apart[_i]};
  gp_forwarded_t freed;
  start((const char *const[]){"GPUPOOL_LIMIT=20MiB", NULL}, GP_GIB, true);
  for (uint64_t i = 1; i <= 10; i++) {
    memory.address = i * 16 * PAGE;
    ck_assert(gp_engine_forwarded_reserve(engine, context, memory.size, memory.kind));
    gp_engine_forwarded_commit(engine, context, &memory, 0);
    ck_assert_uint_eq(counted(), i * PAGE);
  }
  ck_assert(!gp_engine_forwarded_reserve(engine, context, 1, memory.kind));
  ck_assert_uint_eq(stats().passthrough_bytes.current, 10 * memory.size); /* as asked */
  ck_assert(gp_engine_check(engine));
  for (uint64_t i = 1; i <= 10; i++) {
    ck_assert(gp_engine_forwarded_take(engine, gp_forwarded_space(memory.kind), i * 16 * PAGE, &freed));
    gp_engine_forwarded_freed(engine, &freed, 0, 0);
  }
  ck_assert_uint_eq(counted(), 0);
  stop();
}
END_TEST

static uint64_t pools_have;
static void (*on_question)(void); /* called once, when the driver has its answer */

static int tell_reserved(
    void *self, const gp_driver_context_t *key, uint64_t *ret_reserved, uint64_t *ret_used)
{
  void (*then)(void) = on_question;
  (void)self;
  (void)key;
  *ret_reserved = *ret_used = pools_have;
  on_question = NULL;
  if (then)
    then();
  return 0;
}

static void begin_pools(const char *limit)
{
  start((const char *const[]){limit, NULL}, GP_GIB, true);
  driver.ops.async_reserved = tell_reserved;
  pools_have = 0;
  on_question = NULL;
}

static bool ask(void)
{
  return gp_engine_forwarded_reserve(engine, context, 3 * GP_MIB, GP_FORWARDED_MEMPOOL);
}

static void got(uint64_t address)
{
  const gp_forwarded_t memory = {.address = address, .size = 3 * GP_MIB, .kind = GP_FORWARDED_MEMPOOL};
  pools_have += 32 * GP_MIB;
  gp_engine_forwarded_commit(engine, context, &memory, 0);
}

/* Each may make the driver's pools grow by a piece, while none has answered. */
START_TEST(test_pools_grow_in_calls_in_flight)
{
  begin_pools("GPUPOOL_LIMIT=64MiB");
  ck_assert(ask() && ask());
  ck_assert_uint_eq(counted(), 64 * GP_MIB);
  ck_assert(!ask());
  got(PAGE);
  ck_assert(!ask());
  gp_engine_forwarded_cancel(engine, context, 3 * GP_MIB, GP_FORWARDED_MEMPOOL);
  ck_assert(ask());
  got(2 * PAGE);
  ck_assert_uint_eq(counted(), 64 * GP_MIB);
  ck_assert_uint_eq(counted() - context->device->draining, 8 * GP_MIB);
  stop();
}
END_TEST

/* What the pools hold idle may not serve a call in flight. */
START_TEST(test_pools_that_hold_something_grow)
{
  begin_pools("GPUPOOL_LIMIT=96MiB");
  ck_assert(ask());
  got(PAGE);
  ck_assert(ask() && ask());
  ck_assert_uint_eq(counted(), 96 * GP_MIB);
  gp_engine_forwarded_cancel(engine, context, 3 * GP_MIB, GP_FORWARDED_MEMPOOL);
  gp_engine_forwarded_cancel(engine, context, 3 * GP_MIB, GP_FORWARDED_MEMPOOL);
  ck_assert_uint_eq(counted(), 32 * GP_MIB);
  stop();
}
END_TEST

static void get_meanwhile(void)
{
  got(PAGE);
}

/* The driver's answer is older than what another thread got. */
START_TEST(test_an_answer_that_came_before_a_growth)
{
  begin_pools("GPUPOOL_LIMIT=64MiB");
  ck_assert(ask());
  on_question = get_meanwhile;
  ck_assert(ask());
  ck_assert_uint_eq(counted(), 64 * GP_MIB);
  gp_engine_forwarded_cancel(engine, context, 3 * GP_MIB, GP_FORWARDED_MEMPOOL);
  pools_have = 4 * GP_MIB;
  ck_assert(ask()); /* this answer is newer */
  ck_assert_uint_eq(counted(), 36 * GP_MIB);
  gp_engine_forwarded_cancel(engine, context, 3 * GP_MIB, GP_FORWARDED_MEMPOOL);
  stop();
}
END_TEST

START_TEST(test_without_a_limit_what_pools_keep_does_not_count)
{
  gp_forwarded_t freed;
  begin_pools("GPUPOOL_LIMIT=none");
  ck_assert(ask());
  got(PAGE);
  ck_assert_uint_eq(counted(), 4 * GP_MIB);
  ck_assert(gp_engine_forwarded_take(engine, GP_SPACE_POINTER, PAGE, &freed));
  gp_engine_forwarded_freed(engine, &freed, 0, 0);
  ck_assert_uint_eq(counted(), 0);
  stop();
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("account");
  TCase *tests = tcase_create("account");
  tcase_add_test(tests, test_small_allocations_share_pages);
  tcase_add_test(tests, test_a_small_allocation_may_need_a_page);
  tcase_add_test(tests, test_small_allocations_keep_within_the_limit);
  tcase_add_loop_test(tests, test_each_kind_counts_whole_pages, 0, (int)(sizeof(apart) / sizeof(apart[0])));
  tcase_add_test(tests, test_pools_grow_in_calls_in_flight);
  tcase_add_test(tests, test_pools_that_hold_something_grow);
  tcase_add_test(tests, test_an_answer_that_came_before_a_growth);
  tcase_add_test(tests, test_without_a_limit_what_pools_keep_does_not_count);
  suite_add_tcase(suite, tests);
  return gp_check_main(suite);
}
