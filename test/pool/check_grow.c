/*
 * Type segment in the engine: how the pool grows, what goes back, and what a part of a segment must not do.
 */
#include "pool/limits/limit.h"
#include "pool/space/segment.h"
#include "test/pool/check_main.h"
#include "test/pool/engine_fixture.h"

#define SEGMENT "GPUPOOL_TYPE=segment"

static const char *const plain[] = {SEGMENT, "GPUPOOL_RESERVE=0", NULL};

static void begin(uint64_t capacity)
{
  start(plain, capacity, true);
}

START_TEST(test_sizes_of_segments)
{
  ck_assert_uint_eq(gp_segment_size(0, 512), 2 * GP_MIB);
  ck_assert_uint_eq(gp_segment_size(0, 3 * GP_MIB), 4 * GP_MIB);
  ck_assert_uint_eq(gp_segment_size(40 * GP_MIB, 512), 10 * GP_MIB);
  ck_assert_uint_eq(gp_segment_size(GP_GIB, 512), 64 * GP_MIB);
  ck_assert_uint_eq(gp_segment_size(6 * GP_GIB, 512), 256 * GP_MIB);
  ck_assert_uint_eq(gp_segment_size(100 * GP_GIB, 512), 512 * GP_MIB);
  ck_assert_uint_eq(gp_segment_size(GP_GIB, 65 * GP_MIB), 66 * GP_MIB);
  ck_assert_uint_eq(gp_segment_size(100 * GP_GIB, 65 * GP_MIB), 456 * GP_MIB); /* seven: not large any more */
  ck_assert_uint_eq(gp_segment_size(GP_GIB, 20 * GP_MIB), 60 * GP_MIB);
  ck_assert_uint_eq(gp_segment_size(0, UINT64_MAX - 511), 0);
}
END_TEST

START_TEST(test_requests_share_a_segment)
{
  begin(GP_GIB);
  uint64_t a = allocate(1000);
  uint64_t b = allocate(513);
  ck_assert_uint_eq(b, a + 1024);
  ck_assert_uint_eq(driver.count[FAKE_ALLOC], 1);
  ck_assert_int_eq(driver.count[FAKE_INFO], 1); /* when the context was met */
  ck_assert_uint_eq(stats().reserved_bytes.current, 2 * GP_MIB);
  ck_assert_uint_eq(stats().allocated_bytes.current, 2048);
  ck_assert_uint_eq(stats().cached_bytes.current, 2 * GP_MIB - 2048);
  ck_assert_uint_eq(stats().inactive_split_bytes.current, 2 * GP_MIB - 2048);
  ck_assert_uint_eq(stats().cache_hits, 1);
  ck_assert_int_eq(free_code(a), 0);
  synchronize();
  ck_assert_uint_eq(allocate(1024), a);
  ck_assert_uint_eq(driver.count[FAKE_ALLOC], 1);
  stop();
}
END_TEST

/* What other contexts of the device hold says nothing of what this one will need. */
START_TEST(test_each_context_grows_by_its_own)
{
  const gp_driver_context_t other = fake_context(1, 0);
  uint64_t address;

  begin(2 * GP_GIB);
  (void)allocate(GP_GIB);
  uint64_t held = stats().reserved_bytes.current;
  gp_context_t *second = gp_engine_context(engine, &other);
  ck_assert_int_eq(gp_engine_alloc(engine, second, 1000, &address), 0);
  ck_assert_uint_eq(stats().reserved_bytes.current - held, 2 * GP_MIB);
  stop();
}
END_TEST

START_TEST(test_small_requests_do_not_share_by_default)
{
  start((const char *const[]){NULL}, GP_GIB, true);
  (void)allocate(1000);
  (void)allocate(1000);
  ck_assert_int_eq(driver.count[FAKE_ALLOC], 2);
  stop();
}
END_TEST

/* What the device may still use is not joined into what is handed out. */
START_TEST(test_freed_part_waits_for_the_device)
{
  begin(GP_GIB);
  uint64_t a = allocate(GP_MIB);
  (void)allocate(GP_MIB);
  fake_submit_on(&driver, 0, a, GP_MIB);
  ck_assert_int_eq(free_code(a), 0);
  ck_assert_uint_ne(allocate(GP_MIB), a);
  synchronize();
  ck_assert_uint_eq(allocate(GP_MIB), a);
  stop();
}
END_TEST

START_TEST(test_views_cover_the_segment)
{
  gp_block_view_t views[8];

  begin(GP_GIB);
  uint64_t a = allocate(512), b = allocate(512), c = allocate(512);
  ck_assert_int_eq(free_code(b), 0);
  synchronize();
  ck_assert_uint_eq(gp_engine_blocks(engine, 0, views, 8, NULL, NULL), 4);
  uint64_t end = a;
  for (int i = 0; i < 4; i++) {
    ck_assert_uint_eq(views[i].address, end);
    ck_assert_uint_eq(views[i].segment_address, a);
    ck_assert_uint_eq(views[i].segment_size, 2 * GP_MIB);
    bool is_hole = i == 1 || i == 3;
    ck_assert_int_eq(views[i].state, is_hole ? GP_BLOCK_IDLE : GP_BLOCK_ALLOCATED);
    ck_assert(is_hole == (views[i].block_id == 0));
    ck_assert_uint_eq(views[i].requested, is_hole ? 0 : 512);
    end += views[i].size;
  }
  ck_assert_uint_eq(end, a + 2 * GP_MIB);
  ck_assert_uint_eq(c, a + 1024);
  stop();
}
END_TEST

/* No free of an address inside the pool's memory reaches the driver but the pool's own. */
START_TEST(test_second_frees_are_refused)
{
  begin(GP_GIB);
  uint64_t a = allocate(512), b = allocate(512);
  ck_assert_int_eq(free_code(b + 1), FAKE_INVALID_VALUE); /* inside of one that is in use */
  ck_assert_int_eq(free_code(a), 0);
  ck_assert_int_eq(free_code(a), FAKE_INVALID_VALUE);
  synchronize();
  (void)stats();                                      /* drained */
  ck_assert_int_eq(free_code(a), FAKE_INVALID_VALUE); /* the segment's own address */
  ck_assert_int_eq(free_code(b), 0);
  synchronize();
  (void)stats();
  ck_assert_int_eq(free_code(b), FAKE_INVALID_VALUE); /* joined: nothing begins there */
  ck_assert_int_eq(free_code(a), FAKE_INVALID_VALUE);
  ck_assert_int_eq(free_code(a + 4096), FAKE_INVALID_VALUE); /* nothing ever did */
  ck_assert_int_eq(driver.count[FAKE_FREE], 0);
  ck_assert_int_eq(gp_engine_owner(engine, a + 700), GP_OWNER_POOL);
  int code = -1;
  ck_assert_int_eq(gp_engine_free(engine, a + 2 * GP_MIB, &code), GP_FREE_UNKNOWN);
  stop();
}
END_TEST

static int answer; /* of the call */

static int note_call(void *arg, bool is_cut)
{
  ck_assert(is_cut);
  ck_assert_uint_eq(gp_locks_held(), 0);
  ++*(int *)arg;
  return answer;
}

START_TEST(test_free_with_a_call_of_the_driver_stays_with_the_pool)
{
  int calls = 0;
  int code = -1;

  begin(GP_GIB);
  uint64_t a = allocate(512), b = allocate(512);
  answer = FAKE_INVALID_VALUE;
  ck_assert_int_eq(gp_engine_free_with(engine, a, note_call, &calls, &code), GP_FREE_DONE);
  ck_assert_int_eq(code, FAKE_INVALID_VALUE); /* the program has it still */
  ck_assert_int_eq(gp_engine_owner(engine, a), GP_OWNER_PROGRAM);
  answer = 0;
  ck_assert_int_eq(gp_engine_free_with(engine, a, note_call, &calls, &code), GP_FREE_DONE);
  ck_assert_int_eq(code, 0);
  ck_assert_int_eq(calls, 2);
  ck_assert_int_eq(gp_engine_free_with(engine, a, note_call, &calls, &code), GP_FREE_DONE);
  ck_assert_int_eq(code, FAKE_INVALID_VALUE); /* twice */
  ck_assert_int_eq(calls, 2);
  synchronize();
  ck_assert_uint_eq(allocate(512), a);
  ck_assert_int_eq(gp_engine_owner(engine, b + 100), GP_OWNER_PROGRAM);
  stop();
}
END_TEST

/* In a capture, too: the driver does not know the address. */
START_TEST(test_free_while_suspended)
{
  begin(GP_GIB);
  uint64_t a = allocate(512);
  gp_engine_suspend(engine);
  ck_assert_int_eq(free_code(a), 0);
  gp_engine_resume(engine);
  ck_assert_int_eq(driver.count[FAKE_FREE], 0);
  synchronize();
  ck_assert_uint_eq(allocate(512), a);
  stop();
}
END_TEST

/* What the driver says to a free in a capture, or after an error that stays, is said of a part, too. */
START_TEST(test_free_that_the_driver_would_refuse)
{
  begin(GP_GIB);
  uint64_t a = allocate(512);
  gp_engine_suspend(engine);
  driver.fail_code = FAKE_STICKY + 200;
  driver.fail_at = driver.calls + 1;
  ck_assert_int_eq(free_code(a), FAKE_STICKY + 200);
  ck_assert_int_eq(gp_engine_owner(engine, a), GP_OWNER_PROGRAM);
  gp_engine_resume(engine);
  ck_assert_int_eq(free_code(a), 0);
  stop();
}
END_TEST

START_TEST(test_limit_makes_the_segment_smaller)
{
  start((const char *const[]){SEGMENT, "GPUPOOL_LIMIT=102MiB", "GPUPOOL_RESERVE=0", NULL}, GP_GIB, true);
  (void)allocate(80 * GP_MIB);
  (void)allocate(16 * GP_MIB);
  ck_assert_uint_eq(stats().reserved_bytes.current, 96 * GP_MIB);
  (void)allocate(4 * GP_MIB); /* a quarter of what is held would be 24 */
  (void)allocate(GP_MIB);     /* a whole page: less counts as much */
  (void)allocate(GP_MIB);
  ck_assert_uint_eq(stats().reserved_bytes.current, 102 * GP_MIB);
  uint64_t address;
  ck_assert_int_eq(gp_engine_alloc(engine, context, 512, &address), FAKE_OUT_OF_MEMORY);
  ck_assert_uint_le(driver.peak, 102 * GP_MIB);
  stop();
}
END_TEST

START_TEST(test_full_device_makes_the_segment_smaller)
{
  begin(101 * GP_MIB);
  (void)allocate(80 * GP_MIB);
  (void)allocate(16 * GP_MIB);
  ck_assert_uint_eq(stats().reserved_bytes.current, 96 * GP_MIB);
  (void)allocate(4 * GP_MIB);
  (void)allocate(GP_MIB); /* less than a step is left */
  ck_assert_uint_eq(driver.used, 101 * GP_MIB);
  ck_assert_uint_eq(stats().num_ooms, 0);
  stop();
}
END_TEST

static void fill_with_small_blocks(void)
{
  for (uint64_t bytes = 0; bytes < 959 * GP_MIB; bytes += GP_MIB / 4)
    (void)allocate(GP_MIB / 4);
}

START_TEST(test_growth_leaves_a_share_of_the_device)
{
  begin(GP_GIB);
  fill_with_small_blocks();
  ck_assert_uint_le(driver.used, 960 * GP_MIB); /* fifteen sixteenths */
  (void)allocate(62 * GP_MIB);                  /* the request itself may have what is left */
  stop();
}
END_TEST

START_TEST(test_growth_leaves_a_share_of_the_limit)
{
  start((const char *const[]){SEGMENT, "GPUPOOL_LIMIT=1GiB", "GPUPOOL_RESERVE=0", NULL}, 64 * GP_GIB, true);
  fill_with_small_blocks();
  ck_assert_uint_le(driver.used, 960 * GP_MIB);
  stop();
}
END_TEST

START_TEST(test_growth_leaves_the_reserve)
{
  start((const char *const[]){SEGMENT, "GPUPOOL_RESERVE=512MiB", NULL}, 2 * GP_GIB, true);
  for (int i = 0; i < 24; i++)
    (void)allocate(62 * GP_MIB);
  ck_assert_uint_eq(driver.used, 24 * 62 * GP_MIB);
  (void)allocate(512); /* a quarter of that, 64 MiB at most, would do harm */
  ck_assert_uint_eq(driver.used, (24 * 62 + 2) * GP_MIB);
  stop();
}
END_TEST

/* Another process, or the driver for itself, takes memory: an old word on it is none. */
START_TEST(test_growth_asks_what_is_left)
{
  begin(64 * GP_GIB);
  uint64_t a = allocate(400 * GP_MIB);
  driver.capacity = 4 * GP_GIB;
  driver.now_ns += 100 * GP_QUERY_FRESH_NS;
  (void)allocate(512);
  ck_assert_uint_eq(driver.used, 464 * GP_MIB);
  driver.capacity = GP_GIB / 2;
  (void)allocate(64 * GP_MIB - 512); /* that is all of it */
  long asked = driver.count[FAKE_INFO];
  driver.now_ns += 100 * GP_QUERY_FRESH_NS;
  (void)allocate(512);
  ck_assert_int_eq(driver.count[FAKE_INFO], asked + 1);
  ck_assert_uint_eq(driver.used, 466 * GP_MIB);
  ck_assert_int_eq(free_code(a), 0);
  stop();
}
END_TEST

static uint64_t queried_free(void)
{
  uint64_t free_bytes = driver.capacity - driver.used, total = driver.capacity;
  gp_engine_translate_info(engine, context, &free_bytes, &total);
  return free_bytes;
}

/* Programs take most of what is free with one allocation. */
START_TEST(test_pieces_are_not_told_as_free)
{
  static uint64_t blocks[1800];

  begin(GP_GIB);
  for (int i = 0; i < 1800; i++)
    blocks[i] = allocate(GP_MIB / 2);
  for (int i = 0; i < 1800; i += 2)
    ck_assert_int_eq(free_code(blocks[i]), 0);
  uint64_t told = queried_free();
  ck_assert_uint_eq(told, driver.capacity - driver.used); /* nothing whole */
  synchronize();
  (void)stats(); /* drained */
  ck_assert_uint_eq(queried_free(), told);
  blocks[0] = allocate(told / GP_MIB * GP_MIB);
  ck_assert_int_eq(free_code(blocks[0]), 0);
  ck_assert_uint_eq(queried_free(), told); /* deferred, but whole */
  for (int i = 1; i < 1800; i += 2)
    ck_assert_int_eq(free_code(blocks[i]), 0);
  ck_assert_uint_eq(queried_free(), driver.capacity);
  synchronize();
  ck_assert_uint_eq(queried_free(), driver.capacity);
  stop();
}
END_TEST

START_TEST(test_largest_piece_is_told_as_free)
{
  start((const char *const[]){SEGMENT, "GPUPOOL_LIMIT=64MiB", "GPUPOOL_RESERVE=0", NULL}, GP_GIB, true);
  uint64_t a = allocate(61 * GP_MIB), b = allocate(GP_MIB);
  ck_assert_uint_eq(driver.used, 62 * GP_MIB);
  ck_assert_uint_eq(queried_free(), 2 * GP_MIB);
  ck_assert_int_eq(free_code(a), 0);
  ck_assert_uint_eq(queried_free(), 61 * GP_MIB);
  synchronize();
  (void)stats(); /* drained */
  ck_assert_uint_eq(allocate(61 * GP_MIB), a);
  gp_engine_taint(engine, b);
  ck_assert_int_eq(free_code(a), 0);
  ck_assert_uint_eq(queried_free(), 2 * GP_MIB); /* closed: no request can have it */
  ck_assert_int_eq(free_code(b), 0);
  ck_assert_uint_eq(queried_free(), 64 * GP_MIB);
  stop();
}
END_TEST

/* Memory is out while enough is free in pieces: free segments go back for the one that is needed. */
START_TEST(test_free_segments_make_room)
{
  begin(200 * GP_MIB);
  uint64_t a = allocate(70 * GP_MIB), b = allocate(70 * GP_MIB);
  ck_assert_int_eq(free_code(a), 0);
  ck_assert_int_eq(free_code(b), 0);
  synchronize();
  ck_assert_uint_eq(stats().segment.current, 2);
  (void)allocate(150 * GP_MIB);
  ck_assert_uint_eq(driver.used, 150 * GP_MIB);
  stop();
}
END_TEST

/* Use moves from many segments to one: what it has never needed together goes back. */
START_TEST(test_spare_segments_go_back)
{
  begin(4 * GP_GIB);
  uint64_t a = allocate(100 * GP_MIB), b = allocate(100 * GP_MIB), c = allocate(100 * GP_MIB);
  ck_assert_int_eq(free_code(a), 0);
  ck_assert_int_eq(free_code(b), 0);
  synchronize();
  ck_assert_uint_eq(stats().reserved_bytes.current, 300 * GP_MIB); /* needed once: kept */
  uint64_t d = allocate(180 * GP_MIB);                             /* fits in none of them */
  ck_assert_uint_eq(stats().reserved_bytes.current, 480 * GP_MIB);
  ck_assert_int_eq(free_code(c), 0);
  synchronize();
  ck_assert_uint_eq(stats().reserved_bytes.current, 280 * GP_MIB); /* 300 + 32 are allowed */
  ck_assert_int_eq(driver.busy_frees, 0);
  ck_assert_int_eq(free_code(d), 0);
  stop();
}
END_TEST

/* A small program keeps what it has, however little it needs. */
START_TEST(test_small_programs_do_not_churn)
{
  begin(GP_GIB);
  for (int i = 0; i < 100; i++) {
    ck_assert_int_eq(free_code(allocate(512)), 0);
    synchronize();
  }
  ck_assert_int_eq(driver.count[FAKE_ALLOC], 1);
  ck_assert_int_eq(driver.count[FAKE_FREE], 0);
  stop();
}
END_TEST

/* Half of the memory is idle in pieces: what is large goes back once, and is kept when
 * it is asked for again. */
START_TEST(test_releases_end_beside_pieces)
{
  enum { PIECES = 1000 };
  static uint64_t pieces[PIECES];

  begin(4 * GP_GIB);
  for (int i = 0; i < PIECES; i++)
    pieces[i] = allocate(GP_MIB / 2);
  for (int i = 0; i < PIECES; i += 2)
    (void)free_code(pieces[i]);
  for (int i = 0; i < 50; i++) {
    (void)free_code(allocate(150 * GP_MIB));
    synchronize();
  }
  ck_assert_int_le(driver.count[FAKE_FREE], 1);
  stop();
}
END_TEST

/* Whole allocations go back for their budget, and small segments are not asked for again and again. */
START_TEST(test_releases_after_an_export)
{
  begin(4 * GP_GIB);
  gp_engine_taint(engine, allocate(512));
  for (uint64_t size = 4; size <= 122; size += 2) {
    (void)free_code(allocate(size * GP_MIB));
    synchronize();
  }
  ck_assert_uint_le(stats().reserved_bytes.current, (2 * 122 + 64) * GP_MIB);
  driver.count[FAKE_FREE] = 0;
  for (int i = 0; i < 100; i++) {
    (void)free_code(allocate(4096));
    synchronize();
  }
  ck_assert_int_le(driver.count[FAKE_FREE], 2);
  for (uint64_t i = 0; i < 90; i++) {
    (void)free_code(allocate((i * 200 % 300 + 100) * GP_MIB)); /* 100, 300, 200 MiB */
    synchronize();
    ck_assert_uint_le(stats().reserved_bytes.current, (300 + 64 + 64) * GP_MIB); /* and some segments */
  }
  stop();
}
END_TEST

START_TEST(test_exported_part_closes_its_segment)
{
  begin(GP_GIB);
  uint64_t a = allocate(512), b = allocate(512);
  gp_engine_taint(engine, b + 10);
  uint64_t elsewhere = allocate(512); /* not in that segment any more */
  ck_assert_uint_ge(elsewhere - a, 2 * GP_MIB);
  ck_assert_int_eq(free_code(a), 0);
  synchronize();
  ck_assert_int_eq(driver.count[FAKE_FREE], 0);
  ck_assert_int_eq(free_code(b), 0);
  synchronize();
  ck_assert_int_eq(driver.count[FAKE_FREE], 1);
  ck_assert_uint_eq(stats().reserved_bytes.current, 2 * GP_MIB);
  stop();
}
END_TEST

/* A part is a block by itself for whoever asks about an address. */
START_TEST(test_parts_are_found_by_any_address)
{
  gp_part_t part;

  begin(GP_GIB);
  uint64_t a = allocate(500), b = allocate(1000);
  ck_assert(gp_engine_part(engine, b + 999, &part));
  ck_assert_uint_eq(part.address, b);
  ck_assert_uint_eq(part.size, 1000);
  ck_assert_uint_eq(part.end, b + 1024);
  ck_assert_uint_eq(part.driver_address, a);
  ck_assert_uint_eq(part.driver_end, a + 2 * GP_MIB);
  ck_assert(part.is_used && !part.is_mapped);
  ck_assert(gp_engine_uses_part(engine, a, 1));
  ck_assert_int_eq(free_code(a), 0);
  ck_assert(gp_engine_part(engine, a, &part) && !part.is_used);
  ck_assert(!gp_engine_uses_part(engine, a, 512));
  ck_assert(gp_engine_uses_part(engine, a, 513)); /* as pages that begin before the block */
  ck_assert(!gp_engine_uses_part(engine, b + 1024, UINT64_MAX));
  ck_assert(gp_engine_retain(engine, b));
  ck_assert_int_eq(free_code(b), 0);
  ck_assert(gp_engine_part(engine, b, &part) && part.is_used);
  ck_assert(gp_engine_release(engine, b));
  ck_assert(!gp_engine_uses_part(engine, a, UINT64_MAX));
  stop();
}
END_TEST

static int (*free_of_driver)(void *, const gp_driver_context_t *, uint64_t);
static int free_calls;

/* Libraries that watch the driver's frees ask in there how much memory is freed. */
static int ask_and_free(void *self, const gp_driver_context_t *of, uint64_t address)
{
  gp_part_t part;

  ck_assert_int_eq(gp_engine_owner(engine, address), GP_OWNER_UNKNOWN);
  ck_assert_int_eq(gp_engine_owner(engine, address + 512), GP_OWNER_UNKNOWN);
  ck_assert(!gp_engine_part(engine, address, &part) || !part.is_used);
  free_calls++;
  return free_of_driver(self, of, address);
}

START_TEST(test_driver_answers_for_a_segment_on_its_way_back)
{
  begin(GP_GIB);
  free_of_driver = driver.ops.free;
  driver.ops.free = ask_and_free;
  free_calls = 0;
  uint64_t a = allocate(512), b = allocate(512);
  gp_engine_taint(engine, a);
  ck_assert_int_eq(free_code(a), 0);
  ck_assert_int_eq(free_code(b), 0);
  synchronize();
  ck_assert_int_eq(free_calls, 1);
  stop();
}
END_TEST

/* So that what is exported next is an allocation of the driver, whose handle leads to it and nothing else. */
START_TEST(test_large_blocks_are_whole_after_an_export)
{
  gp_part_t part;

  begin(GP_GIB);
  uint64_t a = allocate(3 * GP_MIB);
  ck_assert(gp_engine_part(engine, a + 5, &part));
  ck_assert_uint_eq(part.address, a);
  gp_engine_taint(engine, a);
  uint64_t whole = allocate(3 * GP_MIB);
  ck_assert(!gp_engine_part(engine, whole, &part));
  ck_assert_int_eq(free_code(whole), 0);
  synchronize();
  ck_assert_uint_eq(allocate(3 * GP_MIB), whole);
  gp_engine_taint(engine, whole);
  ck_assert_int_eq(free_code(whole), 0);
  ck_assert_int_eq(driver.count[FAKE_FREE], 1);
  ck_assert(gp_engine_part(engine, allocate(512), &part));
  stop();
}
END_TEST

/* Programs export blocks of any size, and try again with the next one. */
START_TEST(test_all_blocks_are_whole_after_a_refused_export)
{
  static const uint64_t sizes[] = {1, 1000, 300000, GP_MIB, GP_MIB + 1, 3 * GP_MIB};
  gp_part_t part;

  start((const char *const[]){"GPUPOOL_TYPE=segment", NULL}, GP_GIB, true);
  (void)allocate(512);
  uint64_t b = allocate(512);
  ck_assert(gp_engine_part(engine, b, &part));
  gp_engine_expect_exports(engine);
  gp_engine_taint(engine, b); /* later exports change nothing */
  for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
    uint64_t whole = allocate(sizes[i]);
    ck_assert(!gp_engine_part(engine, whole, &part));
    ck_assert_int_eq(free_code(whole), 0);
    synchronize();
    ck_assert_uint_eq(allocate(sizes[i]), whole); /* it is pooled */
    ck_assert(gp_engine_check(engine));
  }
  stop();
}
END_TEST

START_TEST(test_context_takes_its_segments_along)
{
  begin(GP_GIB);
  uint64_t a = allocate(512), b = allocate(512), c = allocate(512);
  ck_assert_int_eq(free_code(b), 0);
  ck_assert(gp_engine_retain(engine, c));
  ck_assert_int_eq(free_code(c), 0);
  gp_engine_context_lost(engine, context);
  int code;
  ck_assert_int_eq(gp_engine_free(engine, a, &code), GP_FREE_UNKNOWN);
  ck_assert_uint_eq(stats().reserved_bytes.current, 0);
  ck_assert_uint_eq(stats().active_bytes.current, 0);
  ck_assert_uint_eq(stats().inactive_split_bytes.current, 0);
  stop();
}
END_TEST

START_TEST(test_what_was_kept_goes_back_after_a_stop)
{
  begin(GP_GIB);
  uint64_t a = allocate(512), b = allocate(512);
  ck_assert_int_eq(free_code(a), 0);
  gp_engine_stop_pooling(engine);
  ck_assert_int_eq(free_code(b), 0);
  ck_assert_int_eq(driver.count[FAKE_FREE], 0);
  synchronize();
  ck_assert_uint_eq(driver.used, 0);
  stop();
}
END_TEST

/* The driver has no memory for its own waiting, and a part cannot go back to it. */
/* To wait for the context could be more than the driver's free does, which has no memory for itself here. */
START_TEST(test_strict_free_does_not_wait_for_the_context)
{
  start((const char *const[]){SEGMENT, "GPUPOOL_REUSE=strict", "GPUPOOL_RESERVE=0", NULL}, GP_GIB, true);
  uint64_t a = allocate(512);
  fake_submit_on(&driver, 0, a, 512);
  driver.fail_code = FAKE_OUT_OF_MEMORY;
  driver.fail_at = driver.calls + 3; /* a fence, its query, then the wait */
  ck_assert_int_eq(free_code(a), 0);
  ck_assert_int_eq(driver.count[FAKE_WAIT_AS_FREE], 1);
  ck_assert_int_eq(driver.count[FAKE_WAIT], 0);
  ck_assert_uint_ne(allocate(512), a);
  synchronize();
  ck_assert_uint_eq(allocate(512), a);
  stop();
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("grow");
  TCase *tests = tcase_create("all");
  tcase_add_test(tests, test_sizes_of_segments);
  tcase_add_test(tests, test_requests_share_a_segment);
  tcase_add_test(tests, test_each_context_grows_by_its_own);
  tcase_add_test(tests, test_small_requests_do_not_share_by_default);
  tcase_add_test(tests, test_views_cover_the_segment);
  tcase_add_test(tests, test_second_frees_are_refused);
  tcase_add_test(tests, test_free_with_a_call_of_the_driver_stays_with_the_pool);
  tcase_add_test(tests, test_free_that_the_driver_would_refuse);
  tcase_add_test(tests, test_limit_makes_the_segment_smaller);
  tcase_add_test(tests, test_full_device_makes_the_segment_smaller);
  tcase_add_test(tests, test_growth_leaves_a_share_of_the_device);
  tcase_add_test(tests, test_growth_leaves_a_share_of_the_limit);
  tcase_add_test(tests, test_growth_leaves_the_reserve);
  tcase_add_test(tests, test_growth_asks_what_is_left);
  tcase_add_test(tests, test_pieces_are_not_told_as_free);
  tcase_add_test(tests, test_largest_piece_is_told_as_free);
  tcase_add_test(tests, test_free_segments_make_room);
  tcase_add_test(tests, test_spare_segments_go_back);
  tcase_add_test(tests, test_small_programs_do_not_churn);
  tcase_add_test(tests, test_releases_end_beside_pieces);
  tcase_add_test(tests, test_releases_after_an_export);
  tcase_add_test(tests, test_large_blocks_are_whole_after_an_export);
  tcase_add_test(tests, test_all_blocks_are_whole_after_a_refused_export);
  tcase_add_test(tests, test_context_takes_its_segments_along);
#ifndef GP_UNSAFE_REUSE
  tcase_add_test(tests, test_freed_part_waits_for_the_device);
  tcase_add_test(tests, test_free_while_suspended);
  tcase_add_test(tests, test_exported_part_closes_its_segment);
  tcase_add_test(tests, test_parts_are_found_by_any_address);
  tcase_add_test(tests, test_driver_answers_for_a_segment_on_its_way_back);
  tcase_add_test(tests, test_what_was_kept_goes_back_after_a_stop);
  tcase_add_test(tests, test_strict_free_does_not_wait_for_the_context);
#endif
  suite_add_tcase(suite, tests);
  return gp_check_main(suite);
}
