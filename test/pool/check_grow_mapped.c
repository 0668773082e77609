/*
 * Type vmm in the engine: where memory is mapped, what moves, what goes back, and what must not.
 */
#include "pool/limits/release.h"
#include "pool/reuse/stream_records.h"
#include "pool/space/mapped.h"
#include "pool/engine_record.h"
#include "test/pool/check_main.h"
#include "test/pool/engine_fixture.h"

#define VMM   "GPUPOOL_TYPE=vmm"
#define TRIAL 1 /* calls of each kind before the first memory is made */

static const char *const plain[] = {VMM, "GPUPOOL_RESERVE=0", NULL};

static void begin(uint64_t capacity)
{
  start(plain, capacity, true);
}

static void expect_usable(uint64_t address, uint64_t bytes)
{
  ck_assert(fake_may_use(&driver, address, bytes, 0));
}

START_TEST(test_growth)
{
  ck_assert_uint_eq(gp_mapped_growth(512), 2 * GP_MIB);
  ck_assert_uint_eq(gp_mapped_growth(40 * GP_MIB), 4 * GP_MIB);
  ck_assert_uint_eq(gp_mapped_growth(GP_GIB - 1), 16 * GP_MIB);
  ck_assert_uint_eq(gp_mapped_growth(3 * GP_GIB), 64 * GP_MIB);
  ck_assert_uint_eq(gp_mapped_growth(100 * GP_GIB), 512 * GP_MIB);
}
END_TEST

/* No larger than the request, unless there would be many. */
START_TEST(test_sizes_of_chunks)
{
  ck_assert_uint_eq(gp_mapped_chunk_size(512, 512), 2 * GP_MIB);
  ck_assert_uint_eq(gp_mapped_chunk_size(3 * GP_GIB, 100), 4 * GP_MIB);
  ck_assert_uint_eq(gp_mapped_chunk_size(3 * GP_GIB, 13 * GP_MIB + 1), 14 * GP_MIB);
  ck_assert_uint_eq(gp_mapped_chunk_size(3 * GP_GIB, GP_GIB), 64 * GP_MIB);
  ck_assert_uint_eq(gp_mapped_chunk_size(80 * GP_GIB, 2 * GP_MIB), 128 * GP_MIB);
}
END_TEST

START_TEST(test_memory_grows_in_one_place)
{
  begin(GP_GIB);
  uint64_t a = allocate(GP_MIB);
  uint64_t b = allocate(3 * GP_MIB); /* over the end of the first chunk */
  ck_assert_uint_eq(b, a + GP_MIB);
  expect_usable(a, 4 * GP_MIB);
  ck_assert_int_eq(driver.count[FAKE_ALLOC], 0);
  ck_assert_int_eq(driver.count[FAKE_RESERVE], 1);
  ck_assert_int_eq(driver.count[FAKE_CREATE], TRIAL + 2);
  ck_assert_int_eq(driver.count[FAKE_ALLOW], TRIAL + 2);
  ck_assert_uint_eq(stats().reserved_bytes.current, 4 * GP_MIB);
  ck_assert_uint_eq(driver.used, 4 * GP_MIB);
  ck_assert_uint_eq(stats().segment.current, 2);
  ck_assert_uint_eq(stats().inactive_split_bytes.current, 0);
  ck_assert_int_eq(free_code(b), 0);
  synchronize();
  ck_assert_uint_eq(stats().cached_bytes.current, 3 * GP_MIB);
  ck_assert_uint_eq(stats().inactive_split_bytes.current, GP_MIB); /* the rest is a chunk */
  stop();
}
END_TEST

/* What other contexts of the device hold says nothing of what this one will need. */
START_TEST(test_each_context_grows_by_its_own)
{
  const gp_driver_context_t other = fake_context(1, 0);
  uint64_t blocks[4], address;

  begin(4 * GP_GIB);
  for (int i = 0; i < 4; i++)
    blocks[i] = allocate(256 * GP_MIB);
  for (int i = 0; i < 4; i++)
    ck_assert_int_eq(free_code(blocks[i]), 0);
  synchronize();
  uint64_t held = stats().reserved_bytes.current;
  gp_context_t *second = gp_engine_context(engine, &other);
  ck_assert_int_eq(gp_engine_alloc(engine, second, 1000, &address), 0);
  ck_assert_uint_eq(stats().reserved_bytes.current - held, 2 * GP_MIB);
  stop();
}
END_TEST

/* One call lets the device use all that a request needed. */
START_TEST(test_access_is_given_once_a_run)
{
  begin(GP_GIB);
  uint64_t a = allocate(512 * GP_MIB);
  expect_usable(a, 512 * GP_MIB);
  ck_assert_int_gt(driver.count[FAKE_CREATE], TRIAL + 8);
  ck_assert_int_eq(driver.count[FAKE_ALLOW], TRIAL + 1);
  stop();
}
END_TEST

/* What is idle in pieces serves a request that no piece could: its memory comes to where the request is. */
START_TEST(test_free_memory_moves)
{
  uint64_t blocks[8];

  begin(96 * GP_MIB);
  for (int i = 0; i < 8; i++)
    blocks[i] = allocate(8 * GP_MIB);
  for (int i = 0; i < 8; i += 2)
    ck_assert_int_eq(free_code(blocks[i]), 0);
  synchronize();
  long made = driver.count[FAKE_CREATE];
  uint64_t large = allocate(32 * GP_MIB);
  expect_usable(large, 32 * GP_MIB);
  ck_assert_int_eq(driver.count[FAKE_CREATE], made);
  ck_assert_uint_eq(driver.used, 64 * GP_MIB);
  for (int i = 1; i < 8; i += 2)
    expect_usable(blocks[i], 8 * GP_MIB);
  ck_assert_int_eq(free_code(blocks[0]), FAKE_INVALID_VALUE); /* nothing is there any more */
  ck_assert_int_eq(gp_engine_owner(engine, blocks[0]), GP_OWNER_POOL);
  ck_assert_int_eq(driver.count[FAKE_FREE], 0);
  stop();
}
END_TEST

/* A little more than was ever in use is taken from the driver, before anything is unmapped. */
START_TEST(test_what_is_missing_tells_whether_memory_moves)
{
  uint64_t blocks[8];

  begin(GP_GIB);
  for (int i = 0; i < 8; i++)
    blocks[i] = allocate(8 * GP_MIB);
  for (int i = 1; i < 8; i += 2)
    ck_assert_int_eq(free_code(blocks[i]), 0);
  synchronize();
  ck_assert_uint_eq(driver.used, 64 * GP_MIB);
  uint64_t large = allocate(10 * GP_MIB); /* 8 of which are there */
  ck_assert_uint_eq(large, blocks[7]);
  ck_assert_uint_eq(driver.used, 66 * GP_MIB);
  stop();
}
END_TEST

/* Sizes that no layout suits would move the same chunks for ever: a little more memory ends that. */
START_TEST(test_chunks_that_move_again_come_to_rest)
{
  enum { BLOCKS = 64, ROUNDS = 8000, LAST = 400 };
  uint64_t blocks[BLOCKS] = {0}, sizes[BLOCKS] = {0}, random = 1, live = 0, peak = 0;
  long early = 0, late = 0;

  begin(80 * GP_GIB);
  for (int i = 0; i < ROUNDS; i++) {
    random = random * UINT64_C(6364136223846793005) + 1;
    int victim = (int)(random >> 58);
    if (sizes[victim]) {
      ck_assert_int_eq(free_code(blocks[victim]), 0);
      synchronize();
      live -= sizes[victim];
    }
    sizes[victim] = (random >> 33) % (600 * GP_MIB) + 1;
    long before = driver.count[FAKE_ALLOW];
    blocks[victim] = allocate(sizes[victim]);
    early += i < LAST ? driver.count[FAKE_ALLOW] - before : 0;
    late += i >= ROUNDS - LAST ? driver.count[FAKE_ALLOW] - before : 0;
    live += sizes[victim];
    peak = live > peak ? live : peak;
  }
  ck_assert_msg(late * 10 <= early, "%ld calls early, %ld late", early, late);
  ck_assert_uint_le(driver.used, peak / 100 * 116);
  stop();
}
END_TEST

/* Not the oldest, which would be many small ones. */
START_TEST(test_the_largest_goes_back_first)
{
  begin(2 * GP_GIB);
  uint64_t small = allocate(2 * GP_MIB), large = allocate(GP_GIB);
  ck_assert_int_eq(free_code(small), 0);
  ck_assert_int_eq(free_code(large), 0);
  synchronize();
  ck_assert_uint_gt(gp_release_largest(engine, &engine->devices[0], 1, GP_TRIM_REQUESTED), 2 * GP_MIB);
  stop();
}
END_TEST

#ifndef GP_UNSAFE_REUSE
/* A driver function that the library does not know may have given it away. */
START_TEST(test_exported_memory_stays)
{
  begin(GP_GIB);
  uint64_t a = allocate(2 * GP_MIB);
  gp_engine_taint(engine, a);
  gp_engine_taint(engine, a);
  ck_assert_int_eq(free_code(a), 0);
  ck_assert_int_eq(free_code(a), FAKE_INVALID_VALUE);
  synchronize();
  gp_engine_trim(engine, context, UINT64_MAX, GP_TRIM_REQUESTED);
  ck_assert_uint_ne(allocate(GP_MIB), a);
  expect_usable(a, 2 * GP_MIB);
  uint64_t whole = allocate(4 * GP_MIB); /* exported programs export again: this one could be */
  ck_assert(!gp_engine_is_mapped(engine, whole));
  ck_assert_int_eq(driver.count[FAKE_ALLOC], 1);
  stop();
}
END_TEST
#endif

START_TEST(test_refusal_leaves_everything)
{
  begin(64 * GP_MIB);
  uint64_t a = allocate(24 * GP_MIB), b = allocate(24 * GP_MIB), refused = 7;
  ck_assert_int_eq(free_code(a), 0);
  synchronize();
  uint64_t used = driver.used;
  ck_assert_int_eq(gp_engine_alloc(engine, context, 48 * GP_MIB, &refused), FAKE_OUT_OF_MEMORY);
  ck_assert_uint_eq(refused, 7);
  ck_assert_uint_le(driver.used, used); /* what is idle may have gone */
  expect_usable(b, 24 * GP_MIB);
  ck_assert_uint_eq(stats().reserved_bytes.current, driver.used);
  expect_usable(allocate(36 * GP_MIB), 36 * GP_MIB);
  stop();
}
END_TEST

/* The device has room for what is missing, and not for a whole chunk more. */
START_TEST(test_full_device_is_filled)
{
  begin(66 * GP_MIB);
  uint64_t a = allocate(60 * GP_MIB);
  expect_usable(allocate(6 * GP_MIB), 6 * GP_MIB);
  expect_usable(a, 60 * GP_MIB);
  ck_assert_uint_eq(driver.used, 66 * GP_MIB);
  stop();
}
END_TEST

START_TEST(test_limit_is_filled)
{
  static const char *const limited[] = {VMM, "GPUPOOL_RESERVE=0", "GPUPOOL_LIMIT=66MiB", NULL};
  uint64_t address;

  start(limited, GP_GIB, true);
  expect_usable(allocate(60 * GP_MIB), 60 * GP_MIB);
  expect_usable(allocate(6 * GP_MIB), 6 * GP_MIB);
  ck_assert_int_eq(gp_engine_alloc(engine, context, 512, &address), FAKE_OUT_OF_MEMORY);
  ck_assert_uint_eq(driver.peak, 66 * GP_MIB);
  stop();
}
END_TEST

START_TEST(test_peers_reach_the_memory)
{
  begin(GP_GIB);
  uint64_t a = allocate(3 * GP_MIB);
  ck_assert(!fake_may_use(&driver, a, 3 * GP_MIB, 1));
  gp_engine_peer_enabled(engine, context, 1);
  ck_assert(fake_may_use(&driver, a, 3 * GP_MIB, 1));
  uint64_t b = allocate(40 * GP_MIB);
  ck_assert(fake_may_use(&driver, b, 40 * GP_MIB, 1));
  ck_assert(!fake_may_use(&driver, b, 40 * GP_MIB, 2));
  stop();
}
END_TEST

static int (*map_by_fake)(
    void *self, const gp_driver_context_t *key, uint64_t address, uint64_t bytes, uint64_t handle);

static int map_beside_enabling(
    void *self, const gp_driver_context_t *key, uint64_t address, uint64_t bytes, uint64_t handle)
{
  driver.ops.map = map_by_fake;
  gp_engine_peer_enabled(engine, context, 1);
  return map_by_fake(self, key, address, bytes, handle);
}

/* Another thread enables access while memory is mapped. */
START_TEST(test_peers_reach_what_is_being_mapped)
{
  begin(GP_GIB);
  (void)allocate(GP_MIB); /* after the trial */
  map_by_fake = driver.ops.map;
  driver.ops.map = map_beside_enabling;
  uint64_t a = allocate(40 * GP_MIB);
  ck_assert(driver.ops.map == map_by_fake);
  ck_assert(fake_may_use(&driver, a, 40 * GP_MIB, 1));
  stop();
}
END_TEST

START_TEST(test_peers_reach_what_moves)
{
  begin(32 * GP_MIB);
  gp_engine_peer_enabled(engine, context, 1);
  uint64_t a = allocate(8 * GP_MIB), b = allocate(8 * GP_MIB), c = allocate(8 * GP_MIB);
  ck_assert_int_eq(free_code(a), 0);
  ck_assert_int_eq(free_code(c), 0);
  synchronize();
  uint64_t moved = allocate(20 * GP_MIB);
  ck_assert(fake_may_use(&driver, moved, 20 * GP_MIB, 1));
  expect_usable(b, 8 * GP_MIB);
  stop();
}
END_TEST

START_TEST(test_views_cover_what_is_mapped)
{
  gp_block_view_t views[8];

  begin(GP_GIB);
  uint64_t a = allocate(GP_MIB), b = allocate(3 * GP_MIB);
  ck_assert_int_eq(free_code(a), 0);
  synchronize();
  ck_assert_uint_eq(gp_engine_blocks(engine, 0, views, 8, NULL, NULL), 2);
  for (int i = 0; i < 2; i++) {
    ck_assert_uint_eq(views[i].segment_address, a);
    ck_assert_uint_eq(views[i].segment_size, 4 * GP_MIB);
  }
  ck_assert_int_eq(views[0].state, GP_BLOCK_IDLE);
  ck_assert_uint_eq(views[1].address, b);
  stop();
}
END_TEST

START_TEST(test_context_gives_its_memory_back)
{
  begin(GP_GIB);
  (void)allocate(20 * GP_MIB);
  ck_assert_int_eq(free_code(allocate(8 * GP_MIB)), 0);
  gp_engine_context_lost(engine, context);
  ck_assert_uint_eq(driver.used, 0);
  ck_assert_uint_eq(driver.reserved_bytes, 0);
  ck_assert_uint_eq(stats().reserved_bytes.current, 0);
  stop();
}
END_TEST

static int (*real_destroy)(void *self, const gp_driver_context_t *which, uint64_t handle);
static int destroys;

/* The driver still has the memory, so it counts: another thread may be about to fill the limit. */
static int destroy_counted(void *self, const gp_driver_context_t *which, uint64_t handle)
{
  gp_lock_take(&context->device->lock);
  uint64_t counted = context->device->committed_bytes;
  gp_lock_release(&context->device->lock);
  ck_assert_uint_ge(counted, driver.used);
  destroys++;
  return real_destroy(self, which, handle);
}

START_TEST(test_memory_of_an_ended_context_counts_until_the_driver_has_it)
{
  begin(GP_GIB);
  (void)allocate(20 * GP_MIB);
  (void)allocate(40 * GP_MIB);
  destroys = 0;
  real_destroy = driver.ops.destroy;
  driver.ops.destroy = destroy_counted;
  gp_engine_context_lost(engine, context);
  ck_assert_int_ge(destroys, 2);
  ck_assert_uint_eq(driver.used, 0);
  stop();
}
END_TEST

/* What has been idle for long goes back, chunk by chunk, but for what is in use beside it. */
START_TEST(test_old_memory_goes_back)
{
  static const char *const aging[] = {VMM, "GPUPOOL_RESERVE=0", "GPUPOOL_IDLE_RELEASE=2", NULL};

  start(aging, GP_GIB, true);
  uint64_t a = allocate(GP_MIB), b = allocate(21 * GP_MIB);
  ck_assert_int_eq(free_code(b), 0);
  synchronize();
  ck_assert_uint_eq(driver.used, 22 * GP_MIB);
  driver.now_ns += UINT64_C(3000000000);
  synchronize();
  ck_assert_uint_eq(driver.used, 2 * GP_MIB);
  expect_usable(a, GP_MIB);
  stop();
}
END_TEST

START_TEST(test_surplus_goes_back)
{
  static const char *const bounded[] = {VMM, "GPUPOOL_RESERVE=0", "GPUPOOL_MAX_CACHED=4MiB", NULL};

  start(bounded, GP_GIB, true);
  uint64_t b = allocate(22 * GP_MIB);
  ck_assert_int_eq(free_code(b), 0);
  synchronize();
  ck_assert_uint_le(driver.used, 4 * GP_MIB);
  stop();
}
END_TEST

/* The device is full of blocks of _i pages, and every ninth is freed: as on a device without a pool, what was
 * freed serves larger requests. */
START_TEST(test_what_lies_between_blocks_moves)
{
  const uint64_t device = 4 * GP_GIB, block = (uint64_t)_i * GP_DRIVER_PAGE, request = 64 * GP_MIB;
  uint64_t blocks[257], freed = 0;
  int count = 0;

  begin(device);
  while (gp_engine_alloc(engine, context, block, &blocks[count]) == 0)
    ck_assert_int_le(++count, 256);
  ck_assert_int_eq(count, (int)(device / block));
  for (int i = 0; i < count; i += 9, freed += block)
    ck_assert_int_eq(free_code(blocks[i]), 0);
  synchronize();
  for (uint64_t left = freed; left >= request; left -= request)
    expect_usable(allocate(request), request);
  stop();
}
END_TEST

/* Some drivers say that they can map memory, and refuse; _i: at which call. The type is segment then. */
START_TEST(test_driver_that_cannot)
{
  fake_driver_init(&driver, GP_GIB, true);
  gp_driver_context_t first = fake_context(0, 0);
  engine = fake_engine(&driver, NULL, plain);
  context = gp_engine_context(engine, &first);
  driver.fail_code = 217;
  driver.fail_at = driver.calls + 1 + _i;
  uint64_t a = allocate(GP_MIB);
  ck_assert(!gp_engine_is_mapped(engine, a));
  ck_assert_uint_eq(allocate(512), a + GP_MIB);
  ck_assert_int_eq(driver.count[FAKE_ALLOC], 1);
  ck_assert_int_eq(driver.count[FAKE_RESERVE], 1); /* not tried again */
  (void)allocate(4 * GP_MIB);
  ck_assert_int_eq(driver.count[FAKE_RESERVE], 1);
  ck_assert_uint_eq(driver.used, 6 * GP_MIB);
  ck_assert_uint_eq(driver.reserved_bytes, 0);
  stop();
}
END_TEST

/* Others are not ready while another thread submits work; _i: at which call, of the trial and of the growth
 * after it. The request gets an allocation of the driver, and later ones are mapped. */
START_TEST(test_driver_that_is_not_ready)
{
  begin(GP_GIB);
  driver.fail_code = FAKE_NOT_READY;
  driver.fail_at = driver.calls + 1 + _i;
  uint64_t a = allocate(GP_MIB);
  ck_assert(!gp_engine_is_mapped(engine, a));
  ck_assert_int_eq(driver.count[FAKE_ALLOC], 1);
  ck_assert(gp_engine_is_mapped(engine, allocate(8 * GP_MIB)));
  ck_assert_int_eq(driver.count[FAKE_ALLOC], 1);
  ck_assert(gp_engine_check(engine));
  stop();
}
END_TEST

/* Under RLIMIT_AS, or on devices with few addresses. */
START_TEST(test_addresses_that_are_fewer)
{
  begin(GP_GIB);
  uint64_t before = driver.reserved_bytes;
  driver.fail_code = FAKE_OUT_OF_MEMORY;
  driver.fail_at = driver.calls + 1;
  ck_assert(gp_engine_is_mapped(engine, allocate(GP_MIB)));
  ck_assert_int_eq(driver.count[FAKE_RESERVE], 2);
  ck_assert_uint_eq(driver.reserved_bytes - before, GP_GIB); /* half of twice the device */
  stop();
}
END_TEST

/* Without memory for the trial nothing is learnt from it. */
START_TEST(test_trial_without_memory)
{
  begin(3 * GP_MIB);
  gp_driver_context_t key = fake_context(0, 0);
  uint64_t other, address;
  ck_assert_int_eq(driver.ops.alloc(&driver, &key, 3 * GP_MIB, &other), 0);
  ck_assert_int_eq(gp_engine_alloc(engine, context, GP_MIB, &address), FAKE_OUT_OF_MEMORY);
  ck_assert_int_eq(driver.ops.free(&driver, &key, other), 0);
  ck_assert(gp_engine_is_mapped(engine, allocate(GP_MIB)));
  stop();
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("grow_mapped");
  TCase *tests = tcase_create("all");
  tcase_add_test(tests, test_growth);
  tcase_add_test(tests, test_sizes_of_chunks);
  tcase_add_test(tests, test_memory_grows_in_one_place);
  tcase_add_test(tests, test_each_context_grows_by_its_own);
  tcase_add_test(tests, test_access_is_given_once_a_run);
  tcase_add_test(tests, test_free_memory_moves);
  tcase_add_test(tests, test_refusal_leaves_everything);
  tcase_add_test(tests, test_full_device_is_filled);
  tcase_add_test(tests, test_limit_is_filled);
  tcase_add_test(tests, test_what_is_missing_tells_whether_memory_moves);
  tcase_add_test(tests, test_chunks_that_move_again_come_to_rest);
  tcase_add_test(tests, test_the_largest_goes_back_first);
  tcase_add_test(tests, test_peers_reach_the_memory);
  tcase_add_test(tests, test_peers_reach_what_is_being_mapped);
  tcase_add_test(tests, test_peers_reach_what_moves);
  tcase_add_test(tests, test_views_cover_what_is_mapped);
  tcase_add_test(tests, test_context_gives_its_memory_back);
  tcase_add_test(tests, test_memory_of_an_ended_context_counts_until_the_driver_has_it);
  tcase_add_test(tests, test_old_memory_goes_back);
  tcase_add_test(tests, test_surplus_goes_back);
  tcase_add_loop_test(tests, test_what_lies_between_blocks_moves, 8, 12);
  tcase_add_loop_test(tests, test_driver_that_cannot, 0, 6);
  tcase_add_loop_test(tests, test_driver_that_is_not_ready, 0, 9);
  tcase_add_test(tests, test_addresses_that_are_fewer);
  tcase_add_test(tests, test_trial_without_memory);
#ifndef GP_UNSAFE_REUSE
  tcase_add_test(tests, test_exported_memory_stays);
#endif
  suite_add_tcase(suite, tests);
  return gp_check_main(suite);
}
