/*
 * Memory that threads take without the device's lock: the same answers as without it, and whoever looks at
 * the device finds all of it. Over the fake driver.
 */
#include "pool/stripes.h"

#include "pool/mode.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "test/pool/check_main.h"
#include "test/pool/engine_fixture.h"

#define TINY  UINT64_C(512)
#define SMALL UINT64_C(1024)
#define LARGE (GP_STRIPE_MOST * 2)
#define MANY  3000

static const char *const plain[] = {"GPUPOOL_REUSE=context", NULL};
static uint64_t blocks[MANY];

static gp_device_t *device(void)
{
  return context->device;
}

/* As threads that wait for the lock would have it. */
static void stripe(void)
{
  gp_device_take_beside(device());
  gp_stripes_begin(device());
  gp_lock_release(&device()->lock);
}

static gp_block_t *block_at(uint64_t address)
{
  gp_block_t *block = gp_address_map_find(&engine->blocks, address);
  ck_assert_ptr_nonnull(block);
  return block;
}

/* It is a stripe's. */
static bool is_homed(uint64_t address)
{
  uint64_t home = block_at(address)->home;
  if (home == 0)
    return false;
  gp_stripe_t *stripe = gp_stripe_of(engine, home);
  gp_lock_take(&stripe->lock);
  bool is_own = home == gp_stripe_home(device(), stripe);
  gp_lock_release(&stripe->lock);
  return is_own;
}

/* Live blocks of a stripe; the pool has no others. */
static void enter(uint64_t bytes, int count)
{
  for (int i = 0; i < count; i++)
    blocks[i] = allocate(bytes);
  for (int i = 0; i < count; i++)
    ck_assert_int_eq(free_code(blocks[i]), 0);
  synchronize();
  stripe();
  for (int i = 0; i < count; i++) {
    blocks[i] = allocate(bytes);
    ck_assert(is_homed(blocks[i]));
  }
}

static void begin_test(void)
{
  start(plain, GP_GIB, true);
}

/* Runs in a thread of its own, which has another stripe than this one. */
typedef struct errand {
  uint64_t bytes;   /* to allocate; 0: nothing */
  uint64_t address; /* to free, else what was allocated */
  int code;
} errand_t;

static void *run(void *arg)
{
  errand_t *errand = arg;
  errand->code = -1;
  if (errand->bytes > 0)
    errand->code = gp_engine_alloc(engine, context, errand->bytes, &errand->address);
  else
    (void)gp_engine_free(engine, errand->address, &errand->code);
  return NULL;
}

static uint64_t elsewhere(uint64_t bytes, uint64_t address)
{
  pthread_t thread;
  errand_t errand = {.bytes = bytes, .address = address};
  ck_assert_int_eq(pthread_create(&thread, NULL, run, &errand), 0);
  ck_assert_int_eq(pthread_join(thread, NULL), 0);
  ck_assert_int_eq(errand.code, 0);
  return errand.address;
}

static void new_epoch(void)
{
  (void)gp_engine_sync_begin(engine, context); /* which never ends */
}

START_TEST(test_a_pair_does_without_the_device)
{
  begin_test();
  enter(SMALL, 1);
  uint64_t address = blocks[0];
  gp_stats_t before = *device()->stats;
  ck_assert_int_eq(free_code(address), 0);
  synchronize();
  ck_assert_uint_eq(allocate(SMALL), address);
  ck_assert(gp_device_is_striped(device()));
  ck_assert_mem_eq(&before, device()->stats, sizeof(before)); /* it has heard of neither */
  ck_assert_uint_eq(stats().cache_hits, before.cache_hits + 1);
  stop();
}
END_TEST

static void forget_peaks(void)
{
  gp_device_take_beside(device());
  gp_stats_t *known = gp_device_stats(device());
  known->allocation.peak = known->allocation.current;
  known->allocated_bytes.peak = known->allocated_bytes.current;
  known->requested_bytes.peak = known->requested_bytes.current;
  gp_lock_release(&device()->lock);
}

/* That of blocks of which the device has heard nothing. */
START_TEST(test_the_most_of_a_stripe_is_known)
{
  begin_test();
  ck_assert_int_eq(free_code(allocate(TINY)), 0);
  enter(SMALL, 3);
  for (int i = 0; i < 3; i++)
    ck_assert_int_eq(free_code(blocks[i]), 0);
  synchronize();
  uint64_t tiny = allocate(TINY); /* with which the device hears of the frees */
  ck_assert(is_homed(tiny));
  forget_peaks();
  for (int i = 0; i < 3; i++)
    blocks[i] = allocate(SMALL);
  for (int i = 0; i < 3; i++)
    ck_assert_int_eq(free_code(blocks[i]), 0);
  ck_assert(gp_device_is_striped(device()));
  ck_assert_uint_eq(device()->stats->allocation.peak, 1);
  gp_stats_t after = stats();
  ck_assert_uint_eq(after.allocation.current, 1);
  ck_assert_uint_eq(after.allocation.peak, 4);
  ck_assert_uint_eq(after.allocated_bytes.peak, 3 * block_at(blocks[0])->size + block_at(tiny)->size);
  ck_assert_uint_eq(after.requested_bytes.peak, 3 * SMALL + TINY);
  stop();
}
END_TEST

START_TEST(test_calls_for_what_is_kept_do_too)
{
  uint64_t address = 0;

  begin_test();
  enter(SMALL, 1);
  gp_stats_t before = *device()->stats;
  ck_assert(gp_engine_free_kept(engine, blocks[0]));
  ck_assert(is_homed(blocks[0]));
  ck_assert(!gp_engine_free_kept(engine, blocks[0]));
  synchronize();
  ck_assert(gp_engine_alloc_kept(engine, context, SMALL, &address));
  ck_assert_uint_eq(address, blocks[0]);
  ck_assert_uint_eq(stats().cache_hits, before.cache_hits + 1);
  ck_assert_uint_eq(stats().allocation.current, 1);
  stop();
}
END_TEST

START_TEST(test_what_is_freed_waits_for_its_fact)
{
  begin_test();
  enter(SMALL, 2);
  fake_submit(&driver, 0, blocks[0]);
  new_epoch();
  ck_assert_int_eq(free_code(blocks[0]), 0);
  long before = driver.count[FAKE_ALLOC];
  uint64_t other = allocate(SMALL);
  ck_assert_uint_ne(other, blocks[0]);
  ck_assert_int_eq(driver.count[FAKE_ALLOC], before + 1);
  ck_assert(fake_is_in_use(&driver, blocks[0]));
  synchronize();
  ck_assert_uint_eq(allocate(SMALL), blocks[0]);
  stop();
}
END_TEST

/* A sequence of calls; what the statistics say at the end, peaks included. */
static gp_stats_t sums_of(bool with_stripes)
{
  begin_test();
  for (int i = 0; i < 100; i++)
    blocks[i] = allocate(SMALL * (1 + (uint64_t)i % 3));
  for (int i = 0; i < 100; i++)
    ck_assert_int_eq(free_code(blocks[i]), 0);
  synchronize();
  (void)stats();
  if (with_stripes)
    stripe();
  for (int round = 0; round < 6; round++) {
    for (int i = 0; i < 100 - 10 * round; i++)
      blocks[i] = allocate(SMALL * (1 + (uint64_t)i % 3) - (uint64_t)i);
    for (int i = 0; i < 100 - 10 * round; i++)
      ck_assert_int_eq(free_code(blocks[i]), 0);
    synchronize();
  }
  ck_assert(gp_device_is_striped(device()) == with_stripes);
  for (int i = 0; i < 50; i++)
    blocks[i] = allocate(SMALL * (1 + (uint64_t)i % 3));
  gp_stats_t sums = stats();
  stop();
  return sums;
}

START_TEST(test_statistics_are_exact)
{
  gp_stats_t without = sums_of(false);
  gp_stats_t with = sums_of(true);
#define GAUGE(name, unit, what)                                                                              \
  ck_assert_uint_eq(with.name.current, without.name.current);                                                \
  ck_assert_uint_eq(with.name.peak, without.name.peak);
#define COUNTER(name, what) ck_assert_uint_eq(with.name, without.name);
#include "trace/format/stats.def"
  ck_assert_uint_eq(with.allocation.allocated, without.allocation.allocated);
  ck_assert_uint_eq(with.allocated_bytes.freed, without.allocated_bytes.freed);
  ck_assert_uint_eq(with.deferred_bytes.allocated, without.deferred_bytes.allocated);
  ck_assert_uint_eq(with.requested_bytes.allocated, without.requested_bytes.allocated);
}
END_TEST

START_TEST(test_a_second_free_is_refused)
{
  begin_test();
  enter(SMALL, 2);
  ck_assert_int_eq(free_code(blocks[0]), 0);
  ck_assert(gp_device_is_striped(device()));
  ck_assert_int_eq(free_code(blocks[0]), FAKE_INVALID_VALUE);
  ck_assert_int_eq(free_code(blocks[1]), 0);
  ck_assert_int_eq(free_code(blocks[1]), FAKE_INVALID_VALUE);
  ck_assert_uint_eq(stats().allocation.current, 0);
  stop();
}
END_TEST

START_TEST(test_another_threads_free_comes_home)
{
  begin_test();
  enter(SMALL, 1);
  (void)elsewhere(0, blocks[0]);
  ck_assert(is_homed(blocks[0]));
  synchronize();
  ck_assert_uint_eq(allocate(SMALL), blocks[0]);
  ck_assert(gp_device_is_striped(device()));
  stop();
}
END_TEST

/* Else the pool would grow while a stripe has what is wanted. */
START_TEST(test_a_miss_finds_what_other_stripes_have)
{
  begin_test();
  enter(SMALL, 1);
  ck_assert_int_eq(free_code(blocks[0]), 0);
  synchronize();
  ck_assert(gp_device_is_striped(device()));
  ck_assert_uint_eq(elsewhere(SMALL, 0), blocks[0]);
  ck_assert_int_eq(driver.count[FAKE_ALLOC], 1);
  stop();
}
END_TEST

START_TEST(test_a_snapshot_shows_all_as_it_is)
{
  gp_block_view_t views[8];

  begin_test();
  enter(SMALL, 2);
  ck_assert_int_eq(free_code(blocks[0]), 0);
  ck_assert_uint_eq(gp_engine_blocks(engine, 0, views, 8, NULL, NULL), 2);
  for (int i = 0; i < 2; i++)
    ck_assert_int_eq(views[i].state, views[i].address == blocks[0] ? GP_BLOCK_PENDING : GP_BLOCK_ALLOCATED);
  ck_assert_int_eq(free_code(blocks[1]), 0);
  synchronize();
  ck_assert_uint_eq(gp_engine_blocks(engine, 0, views, 8, NULL, NULL), 2);
  ck_assert_int_eq(views[0].state, GP_BLOCK_IDLE);
  ck_assert_int_eq(views[1].state, GP_BLOCK_IDLE);
  stop();
}
END_TEST

START_TEST(test_a_trim_gives_all_back)
{
  begin_test();
  enter(SMALL, 10);
  for (int i = 0; i < 10; i++)
    ck_assert_int_eq(free_code(blocks[i]), 0);
  synchronize();
  ck_assert(gp_device_is_striped(device()));
  ck_assert_uint_eq(gp_engine_trim(engine, context, UINT64_MAX, GP_TRIM_REQUESTED), 10 * SMALL);
  ck_assert_uint_eq(driver.used, 0);
  stop();
}
END_TEST

/* What a stripe has is as old as other idle memory, also where no one asks for memory any more. */
START_TEST(test_idle_memory_of_a_stripe_expires)
{
  const char *const settings[] = {"GPUPOOL_REUSE=context", "GPUPOOL_IDLE_RELEASE=8", NULL};

  start(settings, GP_GIB, true);
  enter(SMALL, 1);
  ck_assert_int_eq(free_code(blocks[0]), 0);
  synchronize();
  for (int i = 0; i < 10; i++) {
    driver.now_ns += UINT64_C(3000000000);
    synchronize();
  }
  ck_assert_uint_eq(driver.used, 0);
  stop();
}
END_TEST

START_TEST(test_a_lost_context_takes_all_with_it)
{
  begin_test();
  enter(SMALL, 2);
  ck_assert_int_eq(free_code(blocks[0]), 0);
  gp_engine_context_lost(engine, context);
  ck_assert_uint_eq(stats().reserved_bytes.current, 0);
  ck_assert(gp_engine_check(engine));
  gp_engine_destroy(engine);
  fake_driver_fini(&driver);
}
END_TEST

/* What was taken back is the device's, live or not, and stays that when there are stripes anew. */
START_TEST(test_what_was_taken_back_is_the_devices)
{
  begin_test();
  enter(SMALL, 2);
  (void)stats();
  ck_assert(!is_homed(blocks[0]));
  stripe();
  ck_assert_int_eq(free_code(blocks[0]), 0);
  ck_assert(!is_homed(blocks[0]));
  ck_assert_uint_eq(device()->stats->deferred_bytes.current, SMALL);
  stop();
}
END_TEST

START_TEST(test_an_exported_block_goes_to_the_driver)
{
  begin_test();
  enter(SMALL, 1);
  gp_engine_taint(engine, blocks[0]);
  ck_assert_int_eq(free_code(blocks[0]), 0);
  ck_assert_int_eq(driver.count[FAKE_FREE], 1);
  stop();
}
END_TEST

START_TEST(test_a_reference_holds_a_block)
{
  begin_test();
  enter(SMALL, 1);
  ck_assert(gp_engine_retain(engine, blocks[0]));
  stripe();
  ck_assert_int_eq(free_code(blocks[0]), 0);
  synchronize();
  ck_assert_uint_ne(allocate(SMALL), blocks[0]);
  ck_assert(gp_engine_release(engine, blocks[0]));
  stop();
}
END_TEST

/* As without stripes: nothing is pooled then. */
START_TEST(test_a_suspension_keeps_nothing)
{
  begin_test();
  enter(SMALL, 1);
  gp_engine_suspend(engine);
  ck_assert_int_eq(free_code(blocks[0]), 0);
  ck_assert_int_eq(driver.count[FAKE_FREE], 1);
  gp_engine_resume(engine);
  stop();
}
END_TEST

START_TEST(test_numbers_of_a_block_grow)
{
  begin_test();
  enter(SMALL, 2);
  uint64_t last = 0;
  for (int i = 0; i < 200; i++) {
    ck_assert_int_eq(free_code(blocks[0]), 0);
    synchronize();
    if (i % 7 == 3) {
      (void)stats(); /* another thread gets it, and then it is this one's again */
      stripe();
      ck_assert_uint_eq(elsewhere(SMALL, 0), blocks[0]);
      ck_assert_uint_gt(block_at(blocks[0])->block_id, last);
      last = block_at(blocks[0])->block_id;
      (void)elsewhere(0, blocks[0]);
      synchronize();
    }
    ck_assert_uint_eq(allocate(SMALL), blocks[0]);
    ck_assert_uint_gt(block_at(blocks[0])->block_id, last);
    last = block_at(blocks[0])->block_id;
  }
  stop();
}
END_TEST

/* A stripe has numbers in stock when it gets a block that has had a higher one. */
START_TEST(test_a_stock_of_numbers_gets_old)
{
  begin_test();
  uint64_t tiny = allocate(TINY);
  enter(SMALL, 1);
  ck_assert_int_eq(free_code(blocks[0]), 0);
  synchronize();
  ck_assert_uint_eq(allocate(SMALL), blocks[0]); /* from here on */
  ck_assert_int_eq(free_code(tiny), 0);
  synchronize();
  ck_assert_uint_eq(allocate(TINY), tiny); /* from the device */
  uint64_t number = block_at(tiny)->block_id;
  ck_assert_uint_gt(number, block_at(blocks[0])->block_id);
  ck_assert_int_eq(free_code(tiny), 0);
  synchronize();
  ck_assert_uint_eq(allocate(TINY), tiny);
  ck_assert(is_homed(tiny));
  ck_assert_uint_gt(block_at(tiny)->block_id, number);
  stop();
}
END_TEST

/* The device sees much of what is freed, or much would wait for fences that no one records. */
START_TEST(test_a_stripe_keeps_little)
{
  const int count = MANY;

  begin_test();
  enter(SMALL, count);
  for (int i = 0; i < count; i++)
    ck_assert_int_eq(free_code(blocks[i]), 0);
  gp_stripe_t *stripe_of_this = gp_stripes_own(device());
  ck_assert_uint_le(stripe_of_this->kept_bytes, GP_STRIPE_LEAST);
  ck_assert_uint_ge(device()->stats->deferred_bytes.current + GP_STRIPE_LEAST, (uint64_t)count * SMALL);
  ck_assert_uint_eq(stats().deferred_bytes.current, (uint64_t)count * SMALL);
  stop();
}
END_TEST

/* Of MANY live blocks of a KiB, so many are freed when the first fence is recorded. */
static int frees_before_a_fence(bool with_stripes)
{
  int count = 0;

  begin_test();
  enter(SMALL, MANY);
  if (!with_stripes)
    (void)stats();
  long before = driver.count[FAKE_RECORD];
  while (driver.count[FAKE_RECORD] == before)
    ck_assert_int_eq(free_code(blocks[count++]), 0);
  stop();
  return count;
}

START_TEST(test_fences_are_recorded_as_ever)
{
  ck_assert_int_eq(frees_before_a_fence(true), frees_before_a_fence(false));
}
END_TEST

/* Blocks go back to the context's queue each to its place: gp_engine_check compares. */
START_TEST(test_stamps_stay_in_their_order)
{
  begin_test();
  for (int i = 100; i < 103; i++)
    blocks[i] = allocate(TINY); /* before there are stripes: the device's */
  enter(SMALL, 3);
  for (int i = 0; i < 3; i++) {
    new_epoch();
    ck_assert_int_eq(free_code(blocks[i]), 0); /* in the stripe */
    new_epoch();
    ck_assert_int_eq(free_code(blocks[100 + i]), 0); /* in the context's queue */
  }
  ck_assert(gp_engine_check(engine));
  ck_assert_uint_eq(gp_list_entry(context->deferred.next, gp_block_t, order)->address, blocks[0]);
  stop();
}
END_TEST

/* With many in between it takes the place of a later one, and its stamp, never an earlier one. */
START_TEST(test_a_far_place_raises_the_stamp)
{
  const int many = 600;

  begin_test();
  for (int i = 100; i < 100 + many; i++)
    blocks[i] = allocate(TINY); /* before there are stripes: the device's */
  enter(SMALL, 1);
  new_epoch();
  ck_assert_int_eq(free_code(blocks[0]), 0);
  uint64_t stamp = block_at(blocks[0])->free_epoch;
  for (int i = 100; i < 100 + many; i++) {
    new_epoch();
    ck_assert_int_eq(free_code(blocks[i]), 0);
  }
  ck_assert(gp_device_is_striped(device()));
  ck_assert(gp_engine_check(engine));
  ck_assert_uint_gt(block_at(blocks[0])->free_epoch, stamp);
  stop();
}
END_TEST

/* An event needs the device's lock: where some is wanted there are no stripes. */
static _Atomic int interest;

static void ignore(void *self, const gp_event_t *event)
{
}

START_TEST(test_recording_ends_stripes)
{
  gp_driver_context_t first = fake_context(0, 0);
  const gp_observer_t observer = {.interest = &interest, .event = ignore};

  fake_driver_init(&driver, GP_GIB, true);
  engine = fake_engine(&driver, &observer, plain);
  context = gp_engine_context(engine, &first);
  enter(SMALL, 2);
  ck_assert_int_eq(free_code(blocks[0]), 0);
  synchronize();
  interest = 1;
  ck_assert_int_eq(free_code(blocks[1]), 0);
  ck_assert(!is_homed(blocks[1]));
  ck_assert(!is_homed(allocate(SMALL)));
  interest = 0;
  stop();
}
END_TEST

static const char *const without[][3] = {
    {"GPUPOOL_REUSE=strict", NULL},
    {"GPUPOOL_REUSE=epoch", NULL},
    {"GPUPOOL_REUSE=context", "GPUPOOL_TYPE=naive", NULL},
    {"GPUPOOL_REUSE=context", "GPUPOOL_TYPE=segment", NULL},
    {"GPUPOOL_REUSE=context", "GPUPOOL_MAX_CACHED=1MiB", NULL},
};

START_TEST(test_some_settings_allow_none)
{
  start(without[_i], GP_GIB, true);
  if (gp_engine_reuse_mode(engine) == GP_MODE_CONTEXT && !without[_i][1])
    return stop(); /* a build without mode `epoch` */
  for (int i = 0; i < 4; i++) {
    uint64_t address = allocate(SMALL);
    ck_assert(block_at(address)->home == 0);
    ck_assert_int_eq(free_code(address), 0);
    synchronize();
    stripe();
  }
  stop();
}
END_TEST

START_TEST(test_large_blocks_stay_the_devices)
{
  begin_test();
  enter(GP_STRIPE_MOST, 1);
  for (int i = 0; i < 3; i++) {
    uint64_t address = allocate(LARGE);
    ck_assert(!is_homed(address));
    ck_assert_int_eq(free_code(address), 0);
    synchronize();
    stripe();
  }
  stop();
}
END_TEST

/* One thread has none, and a second that waits for the lock often enough brings them about. */
static void *take_one(void *arg)
{
  *(uint64_t *)arg = allocate(SMALL);
  return NULL;
}

START_TEST(test_waits_bring_stripes)
{
  pthread_t thread;
  uint64_t address;

  begin_test();
  for (int i = 0; i < 100; i++) {
    ck_assert_int_eq(free_code(allocate(SMALL)), 0);
    synchronize();
  }
  ck_assert_ptr_null(device()->stripes);
  int waits = 0;
  for (; waits < 100 && !gp_device_is_striped(device()); waits++) {
    gp_device_take_beside(device());
    ck_assert_int_eq(pthread_create(&thread, NULL, take_one, &address), 0);
    while (atomic_load(&device()->lock.state) != GP_LOCK_AWAITED)
      sched_yield();
    gp_lock_release(&device()->lock);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(free_code(address), 0);
    synchronize();
  }
  ck_assert_int_gt(waits, 1); /* not at the first */
  ck_assert_int_lt(waits, 100);
  stop();
}
END_TEST

/* Where threads take from each other what stripes have, they are worth less than they cost. */
START_TEST(test_useless_stripes_get_rare)
{
  begin_test();
  enter(SMALL, 1);
  (void)stats();
  unsigned price = device()->stripes->price;
  stripe();
  ck_assert_int_eq(free_code(blocks[0]), 0);
  synchronize();
  blocks[0] = allocate(SMALL);
  ck_assert(is_homed(blocks[0]));
  (void)stats();
  ck_assert_uint_eq(device()->stripes->price, 2 * price);
  ck_assert(!gp_device_is_striped(device()));
  stripe();
  ck_assert_int_eq(free_code(blocks[0]), 0);
  synchronize();
  for (int i = 0; i < 1000; i++) {
    blocks[0] = allocate(SMALL);
    ck_assert_int_eq(free_code(blocks[0]), 0);
    synchronize();
  }
  (void)stats();
  ck_assert_uint_lt(device()->stripes->price, price);
  ck_assert(gp_device_is_striped(device())); /* these were worth it */
  stop();
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("stripes");
  TCase *stripes = tcase_create("stripes");
  tcase_add_test(stripes, test_a_pair_does_without_the_device);
  tcase_add_test(stripes, test_the_most_of_a_stripe_is_known);
  tcase_add_test(stripes, test_calls_for_what_is_kept_do_too);
  tcase_add_test(stripes, test_what_is_freed_waits_for_its_fact);
  tcase_add_test(stripes, test_statistics_are_exact);
  tcase_add_test(stripes, test_a_second_free_is_refused);
  tcase_add_test(stripes, test_another_threads_free_comes_home);
  tcase_add_test(stripes, test_a_miss_finds_what_other_stripes_have);
  tcase_add_test(stripes, test_a_snapshot_shows_all_as_it_is);
  tcase_add_test(stripes, test_a_trim_gives_all_back);
  tcase_add_test(stripes, test_idle_memory_of_a_stripe_expires);
  tcase_add_test(stripes, test_a_lost_context_takes_all_with_it);
  tcase_add_test(stripes, test_what_was_taken_back_is_the_devices);
  tcase_add_test(stripes, test_an_exported_block_goes_to_the_driver);
  tcase_add_test(stripes, test_a_reference_holds_a_block);
  tcase_add_test(stripes, test_a_suspension_keeps_nothing);
  tcase_add_test(stripes, test_numbers_of_a_block_grow);
  tcase_add_test(stripes, test_a_stock_of_numbers_gets_old);
  tcase_add_test(stripes, test_a_stripe_keeps_little);
  tcase_add_test(stripes, test_fences_are_recorded_as_ever);
  tcase_add_test(stripes, test_stamps_stay_in_their_order);
  tcase_add_test(stripes, test_a_far_place_raises_the_stamp);
  tcase_add_test(stripes, test_recording_ends_stripes);
  tcase_add_loop_test(stripes, test_some_settings_allow_none, 0, (int)(sizeof(without) / sizeof(without[0])));
  tcase_add_test(stripes, test_large_blocks_stay_the_devices);
  tcase_add_test(stripes, test_waits_bring_stripes);
  tcase_add_test(stripes, test_useless_stripes_get_rare);
  suite_add_tcase(suite, stripes);
  return gp_check_main(suite);
}
