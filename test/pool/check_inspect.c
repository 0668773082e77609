/*
 * Reading the engine while others use it: a copy of the blocks shows what the events up to its moment add up
 * to.
 */
#include <string.h>

#include "test/pool/check_main.h"
#include "test/pool/engine_fixture.h"

#define BLOCKS 16

/* What the events add up to so far, and did at the moment of the last copy. */
typedef struct sums {
  int segments, owned, in_use; /* live; live or not yet completed */
} sums_t;

static sums_t now, then;
static gp_block_view_t views[BLOCKS];
static size_t view_count;
static gp_stats_t view_stats;

static uint64_t count_event(void *self, const gp_event_t *event)
{
  now.segments += (event->action == GP_ACTION_SEGMENT_ALLOC) - (event->action == GP_ACTION_SEGMENT_FREE);
  now.owned += (event->action == GP_ACTION_ALLOC) - (event->action == GP_ACTION_FREE_REQUESTED);
  now.in_use += (event->action == GP_ACTION_ALLOC) - (event->action == GP_ACTION_FREE_COMPLETED);
  return event->time_ns;
}

/* The caller at present, and the caller that the last event of each action named. */
static uint32_t asker;
static uint32_t named[GP_ACTION_COUNT];

static uint32_t tell_asker(void *self)
{
  return asker;
}

static uint64_t note_origin(void *self, const gp_event_t *event)
{
  named[event->action] = event->origin;
  return event->time_ns;
}

static void note_sums(void *arg, int device)
{
  ck_assert_int_eq(device, 0);
  *(sums_t *)arg = now;
}

static void copy(void)
{
  const gp_moment_t moment = {note_sums, &then};
  view_count = gp_engine_blocks(engine, 0, views, BLOCKS, &view_stats, &moment);
}

static int count_views(gp_block_state_t state)
{
  int count = 0;
  for (size_t i = 0; i < view_count; i++)
    count += views[i].state == state;
  return count;
}

static void expect_agreement(int live, int pending, int idle)
{
  for (size_t i = 0; i < view_count; i++) {
    ck_assert_uint_eq(views[i].segment_address, views[i].address);
    ck_assert_uint_eq(views[i].segment_size, views[i].size);
  }
  ck_assert_int_eq(count_views(GP_BLOCK_ALLOCATED), live);
  ck_assert_int_eq(count_views(GP_BLOCK_PENDING), pending);
  ck_assert_int_eq(count_views(GP_BLOCK_IDLE), idle);
  ck_assert_uint_eq(view_count, (size_t)then.segments);
  ck_assert_int_eq(then.owned, live);
  ck_assert_int_eq(then.in_use, live + pending);
  ck_assert_uint_eq(view_stats.segment.current, (uint64_t)then.segments);
}

static void start_counting(void)
{
  const gp_observer_t observer = {.event = count_event};
  gp_driver_context_t first = fake_context(0, 0);
  now = then = (sums_t){0};
  fake_driver_init(&driver, GP_GIB, true);
  engine = fake_engine(&driver, &observer, NULL);
  context = gp_engine_context(engine, &first);
  ck_assert_ptr_nonnull(context);
}

static int (*real_free)(void *self, const gp_driver_context_t *key, uint64_t address);

static int copy_and_free(void *self, const gp_driver_context_t *key, uint64_t address)
{
  copy();
  return real_free(self, key, address);
}

static _Atomic int interest;
static int heard[GP_ACTION_COUNT];
static uint32_t slot_to_set;

static uint64_t hear(void *self, const gp_event_t *event)
{
  heard[event->action]++;
  if (event->observer_cookie && slot_to_set)
    event->observer_cookie->slot = slot_to_set;
  return event->time_ns;
}

START_TEST(test_an_observer_without_interest_hears_of_what_it_marked_only)
{
  const gp_observer_t observer = {.event = hear, .interest = &interest};
  gp_driver_context_t first = fake_context(0, 0);
  fake_driver_init(&driver, GP_GIB, true);
  engine = fake_engine(&driver, &observer, NULL);
  context = gp_engine_context(engine, &first);
  memset(heard, 0, sizeof(heard));

  interest = 0;
  uint64_t unmarked = allocate(GP_MIB);
  fake_submit(&driver, 0, unmarked);
  ck_assert_int_eq(free_code(unmarked), 0);
  ck_assert_int_eq(
      heard[GP_ACTION_SEGMENT_ALLOC] + heard[GP_ACTION_ALLOC] + heard[GP_ACTION_FREE_REQUESTED], 0);

  interest = 1;
  slot_to_set = 5;
  uint64_t marked = allocate(GP_MIB);
  ck_assert_int_eq(heard[GP_ACTION_ALLOC], 1);
  interest = 0;
  ck_assert_int_eq(free_code(marked), 0);
  synchronize();
  (void)gp_engine_trim(engine, context, UINT64_MAX, GP_TRIM_REQUESTED);
  ck_assert_int_eq(heard[GP_ACTION_FREE_REQUESTED], 1);
  ck_assert_int_eq(heard[GP_ACTION_FREE_COMPLETED], 1);
  ck_assert_int_eq(heard[GP_ACTION_SEGMENT_FREE], 1);
  stop();
}
END_TEST

START_TEST(test_a_block_keeps_who_asked_until_its_next_owner)
{
  const gp_observer_t observer = {.event = note_origin, .origin = tell_asker};
  gp_driver_context_t first = fake_context(0, 0);
  gp_forwarded_t memory = {.address = 4096, .size = GP_MIB, .kind = GP_FORWARDED_MANAGED};
  gp_forwarded_t copy_of;
  fake_driver_init(&driver, GP_GIB, true);
  engine = fake_engine(&driver, &observer, NULL);
  context = gp_engine_context(engine, &first);
  asker = 7;
  uint64_t address = allocate(GP_MIB);
  ck_assert_uint_eq(named[GP_ACTION_SEGMENT_ALLOC], 7);
  ck_assert_uint_eq(named[GP_ACTION_ALLOC], 7);
  asker = 8;
  ck_assert_int_eq(free_code(address), 0);
  synchronize();
  ck_assert_uint_eq(named[GP_ACTION_FREE_REQUESTED], 7);
  ck_assert_uint_eq(stats().deferred_bytes.current, 0);
  ck_assert_uint_eq(named[GP_ACTION_FREE_COMPLETED], 7);
  copy();
  ck_assert_uint_eq(views[0].origin, 7);
  asker = 9;
  ck_assert_uint_eq(allocate(GP_MIB), address);
  copy();
  ck_assert_uint_eq(views[0].origin, 9);

  asker = 10;
  ck_assert(gp_engine_forwarded_reserve(engine, context, GP_MIB, memory.kind));
  gp_engine_forwarded_commit(engine, context, &memory, 0);
  ck_assert_uint_eq(named[GP_ACTION_FORWARDED_ALLOC], 10);
  ck_assert_uint_eq(gp_engine_forwarded_copy(engine, 0, &copy_of, 1), 1);
  ck_assert_uint_eq(copy_of.origin, 10);
  asker = 11;
  ck_assert_int_eq(free_code(address), 0);
  synchronize();
  ck_assert_uint_gt(gp_engine_trim(engine, context, UINT64_MAX, GP_TRIM_REQUESTED), 0);
  ck_assert_uint_eq(named[GP_ACTION_SEGMENT_FREE], 11);
  ck_assert_uint_eq(named[GP_ACTION_TRIM], 11);
  stop();
}
END_TEST

START_TEST(test_blocks_in_every_state)
{
  start_counting();
  uint64_t idle = allocate(GP_MIB);
  uint64_t held = allocate(2 * GP_MIB);
  uint64_t deferred = allocate(3 * GP_MIB);
  allocate(4 * GP_MIB);
  ck_assert_int_eq(free_code(idle), 0);
  synchronize();
  ck_assert(gp_engine_retain(engine, held));
  ck_assert_int_eq(free_code(held), 0);
  ck_assert_int_eq(free_code(deferred), 0);
  copy();
  expect_agreement(1, 2, 1);
  stop();
}
END_TEST

/* As another thread sees it while the driver has the block, and its address may be given anew. */
START_TEST(test_a_block_on_its_way_to_the_driver)
{
  start_counting();
  uint64_t idle = allocate(GP_MIB);
  uint64_t held = allocate(2 * GP_MIB);
  uint64_t live = allocate(4 * GP_MIB);
  ck_assert_int_eq(free_code(idle), 0);
  synchronize();
  real_free = driver.ops.free;
  driver.ops.free = copy_and_free;
  gp_engine_taint(engine, live);
  gp_engine_taint(engine, held);
  ck_assert(gp_engine_retain(engine, held));
  ck_assert_int_eq(free_code(held), 0);

  ck_assert_int_eq(free_code(live), 0);
  expect_agreement(1, 1, 1);
  ck_assert(gp_engine_release(engine, held));
  expect_agreement(0, 1, 1);
  gp_engine_trim(engine, context, UINT64_MAX, GP_TRIM_REQUESTED);
  expect_agreement(0, 0, 1);
  copy();
  expect_agreement(0, 0, 0);
  stop();
}
END_TEST

START_TEST(test_idle_memory_of_a_cut_segment_has_no_owner)
{
  const gp_observer_t observer = {.event = note_origin, .origin = tell_asker};
  gp_driver_context_t first = fake_context(0, 0);
  fake_driver_init(&driver, GP_GIB, true);
  engine = fake_engine(&driver, &observer, (const char *const[]){"GPUPOOL_TYPE=segment", NULL});
  context = gp_engine_context(engine, &first);
  asker = 7;
  uint64_t address[3];
  for (int i = 0; i < 3; i++)
    address[i] = allocate(100000);
  ck_assert_int_eq(free_code(address[1]), 0);
  synchronize();
  copy();
  ck_assert_uint_eq(view_count, 4);
  uint64_t end = views[0].segment_address;
  for (size_t i = 0; i < view_count; i++) {
    bool is_live = i == 0 || i == 2;
    ck_assert_uint_eq(views[i].address, end);
    ck_assert_uint_eq(views[i].segment_address, views[0].address);
    ck_assert_uint_eq(views[i].segment_size, view_stats.reserved_bytes.current);
    ck_assert_int_eq((int)views[i].state, (int)(is_live ? GP_BLOCK_ALLOCATED : GP_BLOCK_IDLE));
    ck_assert_uint_eq(views[i].requested, is_live ? 100000 : 0);
    ck_assert_uint_eq(views[i].block_id > 0, is_live);
    ck_assert_uint_eq(views[i].time_ns > 0, is_live);
    ck_assert_uint_eq(views[i].origin, is_live ? 7 : 0);
    end += views[i].size;
  }
  ck_assert_uint_eq(end, views[0].segment_address + views[0].segment_size);
  stop();
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("inspect");
  TCase *tcase = tcase_create("views");
  tcase_add_test(tcase, test_an_observer_without_interest_hears_of_what_it_marked_only);
  tcase_add_test(tcase, test_a_block_keeps_who_asked_until_its_next_owner);
  tcase_add_test(tcase, test_idle_memory_of_a_cut_segment_has_no_owner);
  tcase_add_test(tcase, test_blocks_in_every_state);
  tcase_add_test(tcase, test_a_block_on_its_way_to_the_driver);
  suite_add_tcase(suite, tcase);
  return gp_check_main(suite);
}
