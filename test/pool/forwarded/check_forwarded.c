/*
 * Room for stream-ordered memory: it is made before the driver is asked, for the driver itself may wait for
 * the device before it says that it has none. Over the fake driver. And the table of what is not pooled, by
 * several threads.
 */
#include "pool/forwarded/forwarded.h"

#include <sched.h>
#include <stdatomic.h>

#include "pool/forwarded/forwarded_table.h"
#include "base/lock.h"
#include "test/pool/check_main.h"
#include "test/pool/run_together.h"
#include "test/pool/wait_fixture.h"

static const gp_forwarded_kind_t pooled_kinds[] = {
    GP_FORWARDED_ASYNC, GP_FORWARDED_MEMPOOL, GP_FORWARDED_GRAPH};

static uint64_t busy; /* the program holds it */

/* Of 8 MiB 1 is live and 6 are idle. */
static void begin_full(void)
{
  begin(NULL, 8 * GP_MIB, true);
  uint64_t idle = allocate(6 * GP_MIB);
  busy = allocate(GP_MIB);
  ck_assert_int_eq(free_code(idle), 0);
  synchronize();
  ck_assert_uint_eq(stats().cached_bytes.current, 6 * GP_MIB);
}

static bool reserve(uint64_t bytes, gp_forwarded_kind_t kind)
{
  bool granted = gp_engine_forwarded_reserve(engine, context, bytes, kind);
  if (granted)
    gp_engine_forwarded_cancel(engine, context, bytes, kind);
  return granted;
}

START_TEST(test_idle_memory_makes_room_before_the_driver_is_asked)
{
  begin_full();
  ck_assert(reserve(4 * GP_MIB, pooled_kinds[_i]));
  ck_assert_uint_eq(driver.used, GP_MIB);
  ck_assert_int_eq(driver.busy_frees, 0);
  ck_assert_uint_eq(passed_ns(), 0);
  stop();
}
END_TEST

START_TEST(test_beside_work_it_has_the_patience)
{
  begin_full();
  fake_submit(&driver, 0, busy);
  ck_assert(!reserve(4 * GP_MIB, pooled_kinds[_i]));
  ck_assert_uint_eq(passed_ns(), 2 * SECOND);
  ck_assert_uint_eq(oom.waited_ns, 2 * SECOND);
  ck_assert_uint_eq(oom.busy_context, 100);
  ck_assert_uint_eq(oom.by_limit, 0);
  ck_assert_int_eq(driver.count[FAKE_FREE] + driver.count[FAKE_WAIT], 0);
  fake_complete(&driver, 0);
  ck_assert(reserve(4 * GP_MIB, pooled_kinds[_i]));
  ck_assert_uint_eq(driver.used, GP_MIB);
  stop();
}
END_TEST

/* The driver's own allocation does not wait; it is tried first. */
START_TEST(test_other_memory_is_asked_for_first)
{
  begin_full();
  fake_submit(&driver, 0, busy);
  ck_assert(reserve(4 * GP_MIB, GP_FORWARDED_MANAGED));
  ck_assert_uint_eq(stats().cached_bytes.current, 6 * GP_MIB);
  ck_assert_uint_eq(passed_ns(), 0);
  fake_complete(&driver, 0);
  stop();
}
END_TEST

static uint64_t reserved_by_pools, used_of_pools;

static int tell_pools(void *self, const gp_driver_context_t *key, uint64_t *ret_reserved, uint64_t *ret_used)
{
  *ret_reserved = reserved_by_pools;
  *ret_used = used_of_pools;
  return 0;
}

START_TEST(test_what_fits_takes_nothing_back)
{
  begin_full();
  driver.ops.async_reserved = tell_pools;
  reserved_by_pools = used_of_pools = 0;
  fake_submit(&driver, 0, busy);
  ck_assert(reserve(512 * GP_KIB, GP_FORWARDED_ASYNC));
  ck_assert_uint_eq(stats().cached_bytes.current, 6 * GP_MIB);
  ck_assert_uint_eq(passed_ns(), 0);
  ck_assert(!reserve(GP_MIB, GP_FORWARDED_ASYNC)); /* the driver's pools take a page of 2 MiB for it */
  fake_complete(&driver, 0);
  stop();
}
END_TEST

/* The program has memory of the driver's pools, without a call of the driver's. */
static gp_forwarded_t hold(uint64_t bytes, gp_forwarded_kind_t kind)
{
  gp_forwarded_t memory = {.address = 0x1000000, .size = bytes, .kind = kind};

  ck_assert(gp_engine_forwarded_reserve(engine, context, bytes, kind));
  gp_engine_forwarded_commit(engine, context, &memory, 0);
  return memory;
}

static void let_go(gp_forwarded_t *memory)
{
  ck_assert(gp_engine_forwarded_take(engine, GP_SPACE_POINTER, memory->address, memory));
  gp_engine_forwarded_freed(engine, memory, 0, 0);
}

/* Of what is reserved the driver says how much is in use, whatever it was asked for. */
START_TEST(test_what_the_drivers_pools_have_idle_is_room)
{
  begin_full();
  driver.ops.async_reserved = tell_pools;
  gp_forwarded_t memory = hold(512 * GP_KIB, GP_FORWARDED_ASYNC);
  reserved_by_pools = used_of_pools = 32 * GP_MIB;
  fake_submit(&driver, 0, busy);
  ck_assert(!reserve(4 * GP_MIB, GP_FORWARDED_ASYNC));
  used_of_pools -= 3 * GP_MIB; /* and 1 is free */
  ck_assert(reserve(4 * GP_MIB, GP_FORWARDED_ASYNC));
  let_go(&memory);
  fake_complete(&driver, 0);
  stop();
}
END_TEST

START_TEST(test_what_was_freed_in_order_is_room_when_it_is_complete)
{
  begin_full();
  driver.ops.async_reserved = tell_pools;
  gp_forwarded_t memory = hold(512 * GP_KIB, GP_FORWARDED_ASYNC);
  fake_submit(&driver, 0, busy);
  let_go(&memory);
  reserved_by_pools = 512 * GP_KIB;
  used_of_pools = 0;
  driver.used = 8 * GP_MIB;
  ck_assert(!reserve(512 * GP_KIB, GP_FORWARDED_ASYNC));
  synchronize();
  ck_assert(reserve(512 * GP_KIB, GP_FORWARDED_ASYNC));
  driver.used = 7 * GP_MIB;
  stop();
}
END_TEST

/* Nothing idle is large enough to go back, so that no wait is in vain. */
START_TEST(test_in_doubt_the_driver_is_asked_when_it_has_no_work)
{
  begin("GPUPOOL_TYPE=segment", 8 * GP_MIB, true);
  ck_assert_int_eq(free_code(allocate(8 * GP_MIB)), 0);
  synchronize();
  uint64_t first = allocate(3 * GP_MIB);
  (void)allocate(GP_MIB);
  uint64_t last = allocate(3 * GP_MIB);
  ck_assert_int_eq(free_code(first) + free_code(last), 0);
  synchronize();
  fake_submit(&driver, 0, first); /* the segment */
  ck_assert(!reserve(4 * GP_MIB, GP_FORWARDED_ASYNC));
  ck_assert_uint_eq(oom.waited_ns, 2 * SECOND);
  fake_complete(&driver, 0);
  ck_assert(reserve(4 * GP_MIB, GP_FORWARDED_ASYNC));
  stop();
}
END_TEST

/* The driver says so by itself. */
START_TEST(test_what_cannot_fit_takes_nothing_back)
{
  begin_full();
  ck_assert(reserve(9 * GP_MIB, GP_FORWARDED_ASYNC));
  ck_assert_uint_eq(stats().cached_bytes.current, 6 * GP_MIB);
  stop();
}
END_TEST

START_TEST(test_where_there_is_ample_memory_the_driver_is_not_asked)
{
  begin(NULL, GP_GIB, true);
  ck_assert_int_eq(free_code(allocate(GP_MIB)), 0);
  synchronize();
  long before = driver.count[FAKE_INFO];
  ck_assert(reserve(GP_MIB, GP_FORWARDED_ASYNC));
  ck_assert_int_eq(driver.count[FAKE_INFO], before);
  driver.now_ns += SECOND; /* its last word is old */
  ck_assert(reserve(GP_MIB, GP_FORWARDED_ASYNC));
  ck_assert_int_eq(driver.count[FAKE_INFO], before + 1);
  stop();
}
END_TEST

START_TEST(test_where_the_pool_has_nothing_the_driver_is_not_asked)
{
  begin(NULL, 8 * GP_MIB, true);
  (void)allocate(6 * GP_MIB);
  long before = driver.count[FAKE_INFO];
  ck_assert(reserve(4 * GP_MIB, GP_FORWARDED_ASYNC));
  ck_assert_int_eq(driver.count[FAKE_INFO], before);
  stop();
}
END_TEST

/* No call may be made: the driver's last word decides. */
START_TEST(test_beside_a_capture_room_is_known_from_before)
{
  begin_full();
  ck_assert(reserve(512 * GP_KIB, GP_FORWARDED_ASYNC));
  gp_engine_suspend(engine);
  long before = driver.calls;
  ck_assert(!reserve(4 * GP_MIB, GP_FORWARDED_ASYNC));
  ck_assert(reserve(512 * GP_KIB, GP_FORWARDED_ASYNC));
  ck_assert_int_eq(driver.calls, before);
  gp_engine_resume(engine);
  stop();
}
END_TEST

/* Each of these takes a page more than is counted for it, and gives it back. */
START_TEST(test_beside_a_capture_whole_pages_are_counted)
{
  const gp_forwarded_kind_t kinds[] = {GP_FORWARDED_CAPTURE, GP_FORWARDED_ASYNC};

  begin(NULL, 16 * GP_MIB, true);
  ck_assert_int_eq(free_code(allocate(6 * GP_MIB)), 0);
  synchronize();
  ck_assert(reserve(8 * GP_MIB, GP_FORWARDED_ASYNC)); /* 10 are free */
  gp_engine_suspend(engine);
  for (int round = 0; round < 20; round++) {
    gp_forwarded_t memory = hold(8 * GP_MIB + 1, kinds[round % 2]);
    ck_assert(!reserve(512 * GP_KIB, GP_FORWARDED_ASYNC));
    let_go(&memory);
    ck_assert(reserve(10 * GP_MIB, GP_FORWARDED_ASYNC));
  }
  gp_engine_resume(engine);
  stop();
}
END_TEST

/* What the pool keeps is asked for before the capture, once the program uses memory of the driver's pools. */
START_TEST(test_before_a_capture_the_driver_is_asked)
{
  begin("GPUPOOL_RESERVE=0", 16 * GP_MIB, true);
  driver.ops.async_reserved = tell_pools;
  reserved_by_pools = used_of_pools = 2 * GP_MIB;
  gp_forwarded_t memory = hold(2 * GP_MIB, GP_FORWARDED_ASYNC);
  long before = driver.count[FAKE_INFO];
  gp_engine_expect_capture(engine, context); /* the pool keeps nothing */
  ck_assert_int_eq(driver.count[FAKE_INFO], before);
  ck_assert_int_eq(free_code(allocate(6 * GP_MIB)), 0);
  before = driver.count[FAKE_INFO];
  gp_engine_expect_capture(engine, context);
  ck_assert_int_eq(driver.count[FAKE_INFO], before + 1);
  gp_engine_suspend(engine);
  ck_assert(!reserve(12 * GP_MIB, GP_FORWARDED_ASYNC));
  ck_assert(reserve(10 * GP_MIB, GP_FORWARDED_ASYNC));
  gp_engine_resume(engine);
  let_go(&memory);
  stop();
}
END_TEST

START_TEST(test_beside_a_capture_the_driver_is_asked_where_nothing_is_known)
{
  begin("GPUPOOL_TYPE=naive", GP_GIB, true);
  ck_assert_int_eq(free_code(allocate(GP_MIB)), 0);
  gp_engine_suspend(engine);
  ck_assert(reserve(4 * GP_MIB, GP_FORWARDED_ASYNC));
  gp_engine_resume(engine);
  stop();
}
END_TEST

/* What the context's memory was goes with it: an address that the driver gives anew has no old record. */
START_TEST(test_a_lost_context_takes_its_records_along)
{
  gp_forwarded_t memory = {.address = 0x5000, .size = 3 * GP_MIB, .kind = GP_FORWARDED_MANAGED};
  gp_forwarded_t found;

  begin(NULL, 8 * GP_MIB, true);
  ck_assert(gp_engine_forwarded_reserve(engine, context, memory.size, memory.kind));
  gp_engine_forwarded_commit(engine, context, &memory, 1);
  ck_assert_uint_eq(stats().passthrough_bytes.current, memory.size);
  gp_engine_context_lost(engine, context);
  ck_assert_uint_eq(stats().passthrough_bytes.current, 0);
  ck_assert(!gp_engine_forwarded_take(engine, GP_SPACE_POINTER, memory.address, &found));
  ck_assert(gp_engine_check(engine));
  stop();
}
END_TEST

/* What was counted before the driver was asked is more than it gave. */
START_TEST(test_what_was_counted_too_much_goes_back)
{
  gp_forwarded_t memory = {.address = 1 << 30, .size = 3 * GP_MIB, .kind = GP_FORWARDED_PITCH};

  begin("GPUPOOL_LIMIT=10MiB", 64 * GP_MIB, true);
  ck_assert(gp_engine_forwarded_reserve(engine, context, 7 * GP_MIB, memory.kind));
  gp_engine_forwarded_shrink(context, 7 * GP_MIB, memory.size, memory.kind);
  gp_engine_forwarded_commit(engine, context, &memory, 0);
  ck_assert(gp_engine_check(engine));
  ck_assert(reserve(5 * GP_MIB, memory.kind));
  stop();
}
END_TEST

START_TEST(test_memory_of_the_host_has_its_own_sum)
{
  const gp_forwarded_t memory = {.address = 1 << 30, .size = 3 * GP_MIB, .kind = GP_FORWARDED_HOST};
  gp_forwarded_t found;

  begin(NULL, 64 * GP_MIB, true);
  ck_assert(gp_engine_forwarded_reserve(engine, context, memory.size, memory.kind));
  gp_engine_forwarded_commit(engine, context, &memory, 0);
  ck_assert_uint_eq(stats().pinned_host_bytes.current, memory.size);
  ck_assert(gp_engine_check(engine));
  ck_assert(gp_engine_forwarded_take(engine, GP_SPACE_POINTER, memory.address, &found));
  gp_engine_forwarded_freed(engine, &found, 0, 0);
  ck_assert_uint_eq(stats().pinned_host_bytes.current, 0);
  ck_assert(gp_engine_check(engine));
  stop();
}
END_TEST

static gp_forwarded_t host_memory(uint64_t address, uint64_t size)
{
  return (gp_forwarded_t){.address = address, .size = size, .kind = GP_FORWARDED_HOST};
}

/* It has nothing to do with the limit of a device. */
START_TEST(test_the_hosts_limit_refuses)
{
  const gp_forwarded_t kept = host_memory(1 << 30, 3 * GP_MIB), other = host_memory(2 << 30, 2 * GP_MIB);
  gp_forwarded_t found;

  begin("GPUPOOL_HOST_LIMIT=6MiB", 64 * GP_MIB, true);
  (void)allocate(32 * GP_MIB);
  ck_assert(gp_engine_forwarded_reserve(engine, context, kept.size, kept.kind));
  gp_engine_forwarded_commit(engine, context, &kept, 0);
  ck_assert(gp_engine_forwarded_reserve(engine, context, other.size, other.kind));
  ck_assert(!reserve(2 * GP_MIB, GP_FORWARDED_HOST)); /* what the driver is still asked for counts */
  gp_engine_forwarded_commit(engine, context, &other, 0);
  ck_assert_uint_eq(oom.requested, 2 * GP_MIB);
  ck_assert_uint_eq(oom.live, 5 * GP_MIB);
  ck_assert_uint_eq(oom.limit, 6 * GP_MIB);
  ck_assert_uint_eq(oom.by_limit, GP_OOM_BY_HOST_LIMIT);
  ck_assert_uint_eq(oom.owners[0].size, 3 * GP_MIB);
  ck_assert_uint_eq(oom.owners[0].count, 1);
  ck_assert_uint_eq(stats().num_ooms, 0);
  ck_assert(reserve(GP_MIB, GP_FORWARDED_HOST));
  ck_assert(!reserve(UINT64_MAX, GP_FORWARDED_HOST));
  ck_assert(gp_engine_check(engine));
  ck_assert(gp_engine_forwarded_take(engine, GP_SPACE_POINTER, kept.address, &found));
  ck_assert(!reserve(2 * GP_MIB, GP_FORWARDED_HOST)); /* the driver still has to give it back */
  gp_engine_forwarded_freed(engine, &found, 0, 0);
  ck_assert(reserve(4 * GP_MIB, GP_FORWARDED_HOST));
  ck_assert(gp_engine_check(engine));
  gp_engine_context_lost(engine, context); /* takes the other along */
  ck_assert(gp_engine_check(engine));
  stop();
}
END_TEST

/* Threads that ask for 1 to 3 MiB of 8 at the same time. */
enum { ASKERS = 4, ASKED = 2000 };

static _Atomic uint64_t granted, most_granted;

static void ask_host(uintptr_t number)
{
  for (uint64_t i = 0; i < ASKED; i++) {
    uint64_t bytes = (1 + (number + i) % 3) * GP_MIB;
    if (!gp_engine_forwarded_reserve(engine, context, bytes, GP_FORWARDED_HOST))
      continue;
    uint64_t now = atomic_fetch_add(&granted, bytes) + bytes;
    if (now > atomic_load(&most_granted))
      atomic_store(&most_granted, now);
    sched_yield();
    atomic_fetch_sub(&granted, bytes);
    if (i % 2) {
      gp_engine_forwarded_cancel(engine, context, bytes, GP_FORWARDED_HOST);
      continue;
    }
    gp_forwarded_t memory = host_memory((number + 1) << 30, bytes), found;
    gp_engine_forwarded_commit(engine, context, &memory, 0);
    ck_assert(gp_engine_forwarded_take(engine, GP_SPACE_POINTER, memory.address, &found));
    gp_engine_forwarded_freed(engine, &found, 0, 0);
  }
}

START_TEST(test_threads_do_not_exceed_the_hosts_limit)
{
  begin("GPUPOOL_HOST_LIMIT=8MiB", 64 * GP_MIB, true);
  gp_lock_leave_gaps(3);
  gp_run_together(ASKERS, ask_host);
  gp_lock_leave_gaps(0);
  ck_assert_uint_le(atomic_load(&most_granted), 8 * GP_MIB);
  ck_assert_uint_gt(atomic_load(&most_granted), 3 * GP_MIB);
  ck_assert(reserve(8 * GP_MIB, GP_FORWARDED_HOST));
  ck_assert(gp_engine_check(engine));
  stop();
}
END_TEST

/* 3 MiB take two whole pages, of which the pool knew; without the pool the device does. */
START_TEST(test_memory_without_its_pool_is_counted_in_whole_pages)
{
  const gp_forwarded_t memory = {
      .address = 1 << 30, .size = 3 * GP_MIB, .pool = 7, .kind = GP_FORWARDED_MEMPOOL};
  gp_forwarded_t found;

  begin(NULL, 64 * GP_MIB, true);
  ck_assert(gp_engine_forwarded_reserve(engine, context, memory.size, memory.kind));
  gp_engine_forwarded_commit(engine, context, &memory, 0);
  ck_assert(gp_engine_check(engine));
  end_mempool(memory.pool, 0, 0);
  ck_assert(gp_engine_check(engine));
  ck_assert(gp_engine_forwarded_take(engine, GP_SPACE_POINTER, memory.address, &found));
  gp_engine_forwarded_freed(engine, &found, 0, 0);
  ck_assert(gp_engine_check(engine));
  stop();
}
END_TEST

/* The same addresses by several threads, as if frees had not been seen: each but the last record of one was
 * stale. */
enum { KEEPERS = 3, KEPT = 1000 };

static gp_forwarded_table_t table;
static atomic_int stale;

static void keep_all(uintptr_t number)
{
  (void)number;
  for (uint64_t i = 0; i < KEPT; i++) {
    const gp_forwarded_t memory = {.key = 0x100000 + i % 4 * 512, .size = 512, .kind = GP_FORWARDED_MANAGED};
    gp_forwarded_t old;
    bool has_stale;
    ck_assert(gp_forwarded_table_keep(&table, &memory, &old, &has_stale));
    ck_assert(!has_stale || old.key == memory.key);
    atomic_fetch_add(&stale, has_stale);
  }
}

START_TEST(test_threads_that_keep_the_same_lose_none)
{
  gp_forwarded_table_init(&table);
  atomic_store(&stale, 0);
  gp_lock_leave_gaps(3);
  gp_run_together(KEEPERS, keep_all);
  gp_lock_leave_gaps(0);
  ck_assert_int_eq(atomic_load(&stale), KEEPERS * KEPT - 4);
  ck_assert_uint_eq(gp_forwarded_table_copy(&table, 0, NULL, 0), 4);
  gp_forwarded_table_fini(&table);
}
END_TEST

/* One thread keeps and removes records, the others look for them. A copy is of a record that is still there:
 * what is freed loses its first words to malloc. */
static atomic_int copied;
static atomic_bool has_kept_all;

static uint64_t size_of(uint64_t key)
{
  return key ^ 0x5aa5000;
}

/* The others go on until the first is done, which leaves records, and look for each of them once more. */
static void keep_or_find(uintptr_t number)
{
  uint64_t last = number == 0 ? KEPT : UINT64_MAX;

  for (uint64_t i = 0; i < last; i++) {
    if (last == UINT64_MAX && atomic_load(&has_kept_all))
      last = i + 4;
    const uint64_t key = 0x100000 + i % 4 * 512;
    const gp_forwarded_t memory = {
        .key = key, .address = key, .size = size_of(key), .kind = GP_FORWARDED_MANAGED};
    gp_forwarded_t found;
    bool has_stale;

    if (number == 0) {
      ck_assert(gp_forwarded_table_keep(&table, &memory, &found, &has_stale));
      if (i % 2)
        ck_assert(gp_forwarded_table_remove(&table, GP_SPACE_POINTER, key, &found));
    } else if (gp_forwarded_table_find(&table, GP_SPACE_POINTER, key, &found)) {
      ck_assert_uint_eq(found.key, key);
      ck_assert_uint_eq(found.address, key);
      ck_assert_uint_eq(found.size, size_of(key));
      atomic_fetch_add(&copied, 1);
    }
  }
  if (number == 0)
    atomic_store(&has_kept_all, true);
}

START_TEST(test_threads_find_records_that_another_one_removes)
{
  gp_forwarded_table_init(&table);
  atomic_store(&copied, 0);
  atomic_store(&has_kept_all, false);
  gp_lock_leave_gaps(3);
  gp_run_together(KEEPERS, keep_or_find);
  gp_lock_leave_gaps(0);
  ck_assert_int_gt(atomic_load(&copied), 0);
  ck_assert_uint_eq(gp_forwarded_table_copy(&table, 0, NULL, 0), 2);
  gp_forwarded_table_fini(&table);
}
END_TEST

/* A thread has ended a context in the driver, which gives its memory to the next thread at once. The pool
 * learns of the end only afterwards. */
static const struct {
  const char *setting;
  uint64_t offset; /* of the new memory in the old */
} former_blocks[] = {
    {"GPUPOOL_TYPE=round", 0}, {"GPUPOOL_TYPE=segment", 0}, {"GPUPOOL_TYPE=segment", GP_MIB}};

START_TEST(test_memory_of_an_ended_context_is_its_new_owners)
{
  gp_driver_context_t driver_context = fake_context(1, 0);
  gp_forwarded_t memory = {.size = GP_MIB, .kind = GP_FORWARDED_CAPTURE};
  uint64_t former;
  int code = 0;

  begin(former_blocks[_i].setting, GP_GIB, true);
  gp_context_t *ending = gp_engine_context(engine, &driver_context);
  ck_assert_int_eq(gp_engine_alloc(engine, ending, 2 * GP_MIB, &former), 0);
  gp_engine_suspend(engine);
  ck_assert(gp_engine_forwarded_reserve(engine, context, GP_MIB, memory.kind));
  memory.address = former + former_blocks[_i].offset;
  gp_engine_forwarded_commit(engine, context, &memory, 0);
  ck_assert_int_ne(gp_engine_free(engine, memory.address, &code), GP_FREE_DONE);
  ck_assert(gp_engine_forwarded_take(engine, GP_SPACE_POINTER, memory.address, &memory));
  gp_engine_forwarded_freed(engine, &memory, 0, 0);
  gp_engine_context_lost(engine, ending);
  gp_engine_resume(engine);
  ck_assert_int_ne(gp_engine_free(engine, former, &code), GP_FREE_DONE);
  gp_engine_destroy(engine);
  fake_driver_fini(&driver);
}
END_TEST

static int ending_pauses;

static void end_in_the_third_pause(void)
{
  if (++ending_pauses == 3)
    gp_engine_resume(engine);
}

/* While a context ends the engine makes no driver call, so it cannot give back what is idle. */
static void begin_ending(void)
{
  begin(NULL, 4 * GP_MIB, true);
  uint64_t idle = allocate(2 * GP_MIB);
  ck_assert_int_eq(free_code(idle), 0);
  synchronize();
  ending_pauses = 0;
  driver.on_pause = end_in_the_third_pause;
  gp_engine_suspend(engine);
}

START_TEST(test_a_request_waits_for_the_end_of_a_context)
{
  begin_ending();
  (void)allocate(4 * GP_MIB);
  ck_assert_int_eq(ending_pauses, 3);
  driver.on_pause = NULL;
  stop();
}
END_TEST

START_TEST(test_forwarded_memory_waits_for_the_end_of_a_context)
{
  gp_forwarded_retry_t retry = {.has_begun = false};

  begin_ending();
  ck_assert(gp_engine_forwarded_may_retry(engine, context, &retry));
  ck_assert_int_eq(ending_pauses, 3);
  do
    ck_assert(gp_engine_forwarded_retry(engine, context, 4 * GP_MIB, &retry));
  while (driver.used > 0);
  driver.on_pause = NULL;
  stop();
}
END_TEST

static void do_nothing(void)
{
}

START_TEST(test_a_context_that_does_not_end_is_waited_for_once)
{
  uint64_t address;

  begin_ending();
  driver.on_pause = do_nothing;
  ck_assert_int_eq(gp_engine_alloc(engine, context, 4 * GP_MIB, &address), FAKE_OUT_OF_MEMORY);
  ck_assert_uint_ge(passed_ns(), 2 * SECOND);
  ck_assert_uint_le(passed_ns(), 2 * SECOND + 2 * MILLISECOND);
  gp_engine_resume(engine);
  driver.on_pause = NULL;
  stop();
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("forwarded");
  TCase *tests = tcase_create("room");
  tcase_add_loop_test(tests, test_idle_memory_makes_room_before_the_driver_is_asked, 0, 3);
  tcase_add_loop_test(tests, test_beside_work_it_has_the_patience, 0, 3);
  tcase_add_test(tests, test_other_memory_is_asked_for_first);
  tcase_add_test(tests, test_what_fits_takes_nothing_back);
  tcase_add_test(tests, test_what_cannot_fit_takes_nothing_back);
  tcase_add_test(tests, test_where_there_is_ample_memory_the_driver_is_not_asked);
  tcase_add_test(tests, test_where_the_pool_has_nothing_the_driver_is_not_asked);
  tcase_add_test(tests, test_what_the_drivers_pools_have_idle_is_room);
  tcase_add_test(tests, test_what_was_freed_in_order_is_room_when_it_is_complete);
  tcase_add_test(tests, test_in_doubt_the_driver_is_asked_when_it_has_no_work);
  tcase_add_test(tests, test_beside_a_capture_room_is_known_from_before);
  tcase_add_test(tests, test_beside_a_capture_whole_pages_are_counted);
  tcase_add_test(tests, test_before_a_capture_the_driver_is_asked);
  tcase_add_test(tests, test_beside_a_capture_the_driver_is_asked_where_nothing_is_known);
  tcase_add_test(tests, test_a_lost_context_takes_its_records_along);
  tcase_add_test(tests, test_what_was_counted_too_much_goes_back);
  tcase_add_test(tests, test_memory_of_the_host_has_its_own_sum);
  tcase_add_test(tests, test_the_hosts_limit_refuses);
  tcase_add_test(tests, test_threads_do_not_exceed_the_hosts_limit);
  tcase_add_test(tests, test_memory_without_its_pool_is_counted_in_whole_pages);
  tcase_add_test(tests, test_threads_that_keep_the_same_lose_none);
  tcase_add_test(tests, test_threads_find_records_that_another_one_removes);
  TCase *ends = tcase_create("ends of contexts");
  tcase_add_loop_test(ends, test_memory_of_an_ended_context_is_its_new_owners, 0, 3);
  tcase_add_test(ends, test_a_request_waits_for_the_end_of_a_context);
  tcase_add_test(ends, test_forwarded_memory_waits_for_the_end_of_a_context);
  tcase_add_test(ends, test_a_context_that_does_not_end_is_waited_for_once);
  suite_add_tcase(suite, ends);
  suite_add_tcase(suite, tests);
  return gp_check_main(suite);
}
