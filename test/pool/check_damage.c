/*
 * GPUPOOL_CHECK in the engine: what is filled and searched and when, what is reported, and what happens where
 * nothing can be searched.
 */
#include <semaphore.h>
#include <string.h>

#include "pool/engine_record.h"
#include "pool/reuse/mode.h"
#include "pool/serve/damage.h"
#include "pool/serve/fill.h"
#include "pool/space/driver_calls.h"
#include "pool/space/block_record.h"
#include "test/pool/async_fixture.h"
#include "test/pool/check_main.h"
#include "test/pool/run_together.h"

#define SETTINGS(...) ((const char *const[]){"GPUPOOL_RESERVE=0", "GPUPOOL_PATIENCE=0", __VA_ARGS__, NULL})
#define EDGES         "GPUPOOL_CHECK=edges"
#define STALE         "GPUPOOL_CHECK=stale"
#define BOTH          "GPUPOOL_CHECK=edges,stale"
#define FULL          "GPUPOOL_CHECK=stale=full"

/* What the observer was told of damage; events are counted by their action. */
static gp_damage_t damages[8];
static gp_event_t damage_events[8];
static int damage_count, event_count;

static uint64_t observe_event(void *self, const gp_event_t *event)
{
  (void)self;
  if (event->action == GP_ACTION_DAMAGE && event_count < 8)
    damage_events[event_count++] = *event;
  return event->time_ns;
}

static int reports_with_lock;

static void observe_damage(void *self, const gp_damage_t *damage)
{
  (void)self;
  reports_with_lock += gp_holds_engine_lock();
  if (damage_count < 8)
    damages[damage_count++] = *damage;
}

static const gp_observer_t observer = {.event = observe_event, .damage = observe_damage};

static void begin_with(const char *const *settings, uint64_t capacity)
{
  gp_driver_context_t first = fake_context(0, 0);

  damage_count = event_count = 0;
  fake_driver_init(&driver, capacity, true);
  engine = fake_engine(&driver, &observer, settings);
  context = gp_engine_context(engine, &first);
  ck_assert_ptr_nonnull(context);
  gp_stream_record_begin(engine, context, FIRST, false);
  gp_stream_record_begin(engine, context, SECOND, false);
}

static void begin(const char *const *settings)
{
  begin_with(settings, GP_GIB);
}

/* cudaFree, after which the hook searches. */
static void release(uint64_t address)
{
  ck_assert_int_eq(free_code(address), 0);
  gp_engine_search(engine, context);
}

/* cudaDeviceSynchronize */
static void synchronize_and_search(void)
{
  synchronize();
  gp_engine_search(engine, context);
}

static size_t quarantined_in(gp_context_t *arena)
{
  size_t count = 0;

  gp_lock_take(&arena->device->lock);
  GP_LIST_EACH(&arena->quarantine, const gp_block_t, order, block)
    count += block->state == GP_STATE_QUARANTINED;
  gp_lock_release(&arena->device->lock);
  return count;
}

static size_t quarantined(void)
{
  return quarantined_in(context) + quarantined_in(&context->device->async_context);
}

static bool is_checking(void)
{
  return atomic_load(&engine->checks) & (GP_CHECK_EDGES | GP_CHECK_STALE);
}

static void expect_damage(gp_damage_kind_t kind, uint64_t address, uint64_t offset, uint64_t bytes)
{
  ck_assert_int_eq(reports_with_lock, 0);
  ck_assert_int_eq(damage_count, 1);
  ck_assert_int_eq(event_count, 1);
  ck_assert_uint_eq(stats().num_damages, 1);
  ck_assert_int_eq(damages[0].kind, kind);
  ck_assert_uint_eq(damages[0].address, address);
  ck_assert_uint_eq(damages[0].offset, offset);
  ck_assert_uint_eq(damages[0].bytes, bytes);
  ck_assert_int_eq(damages[0].device, 0);
  ck_assert_uint_eq(damage_events[0].address, address + offset);
  ck_assert_uint_eq(damage_events[0].size, bytes);
  ck_assert_int_eq(damage_events[0].detail, (int)kind);
}

/* Nothing was found, and nothing is left. */
static void stop_sound(void)
{
  ck_assert_int_eq(damage_count, 0);
  ck_assert_uint_eq(stats().num_damages, 0);
  stop();
}

static const char *const types[] = {
    "GPUPOOL_TYPE=round", "GPUPOOL_TYPE=naive", "GPUPOOL_TYPE=segment", "GPUPOOL_TYPE=vmm"};
#define TYPES 4

START_TEST(test_off)
{
  begin(SETTINGS("GPUPOOL_ASYNC=pool"));
  release(allocate(1000));
  free_in(order(FIRST), allocate_in(order(FIRST), 1000));
  synchronize_and_search();
  ck_assert_int_eq(driver.fill_count, 0);
  ck_assert_int_eq(driver.count[FAKE_COPY_OUT], 0);
  stop_sound();
}
END_TEST

START_TEST(test_unpooled_memory_is_not_checked)
{
  begin(SETTINGS(BOTH, "GPUPOOL_TYPE=unpooled"));
  ck_assert(!is_checking());
  stop_sound();
}
END_TEST

/* Without edges, no block is larger than without checks, nor filled before the program has it. */
START_TEST(test_no_zone_without_edges)
{
  begin(SETTINGS(STALE, types[_i]));
  uint64_t address = allocate(2 * GP_MIB);
  ck_assert_int_eq(driver.fill_count, 0);
  ck_assert_uint_eq(stats().allocated_bytes.current, 2 * GP_MIB);
  ck_assert_uint_eq(gp_engine_checked_size(engine, address), 0);
  stop_sound();
}
END_TEST

/* A request that fills its class gets a block of the next, and at most 4 KiB behind it are a zone. */
START_TEST(test_size_of_zones)
{
  static const uint64_t sizes[] = {
      1, 480, 481, 512, 4000, 1000000, 2 * GP_MIB - 32, 2 * GP_MIB, 5 * GP_MIB - 1};

  begin(SETTINGS(EDGES, types[_i]));
  for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
    uint64_t before = stats().allocated_bytes.current;
    uint64_t address = allocate(sizes[i]);
    uint64_t rest = stats().allocated_bytes.current - before - sizes[i];
    const fake_fill_t *zone = fake_fill_at(&driver, address + sizes[i]);
    ck_assert_ptr_nonnull(zone);
    ck_assert_uint_ge(rest, GP_RED_ZONE_LEAST);
    ck_assert_uint_eq(zone->bytes, rest < GP_RED_ZONE_MOST ? rest : GP_RED_ZONE_MOST);
    ck_assert_uint_eq(zone->value, engine->check_byte);
    ck_assert(zone->is_done);
    ck_assert_uint_eq(gp_engine_checked_size(engine, address), sizes[i]);
  }
  stop_sound();
}
END_TEST

/* A zone is as large as the request allows, also in a block that another request has left. */
START_TEST(test_zone_of_a_used_block)
{
  begin(SETTINGS(EDGES, types[_i]));
  uint64_t first = allocate(100000);
  release(first);
  ck_assert_uint_eq(quarantined(), 0);
  uint64_t second = allocate(99000);
  ck_assert_uint_eq(second, first);
  fake_overwrite(&driver, second + 99000, 1);
  release(second);
  expect_damage(GP_DAMAGE_EDGE, second, 99000, 1);
  stop();
}
END_TEST

static uint64_t newest_block_id(uint64_t address)
{
  gp_lock_take(&context->device->lock);
  const gp_block_t *block = gp_address_map_find(&engine->blocks, address);
  uint64_t block_id = block->block_id;
  gp_lock_release(&context->device->lock);
  return block_id;
}

START_TEST(test_damage_of_a_zone)
{
  begin(SETTINGS(EDGES, types[_i]));
  (void)allocate(5000);
  uint64_t address = allocate(5000);
  uint64_t block_id = newest_block_id(address);
  fake_overwrite(&driver, address + 5003, 7);
  release(address);
  expect_damage(GP_DAMAGE_EDGE, address, 5003, 7);
  ck_assert_uint_eq(damages[0].requested, 5000);
  ck_assert_uint_eq(damage_events[0].block_id, block_id);
  ck_assert(allocate(5000) == address); /* it is reported once */
  ck_assert_uint_eq(stats().num_damages, 1);
  stop();
}
END_TEST

START_TEST(test_write_within_the_request_is_none)
{
  begin(SETTINGS(BOTH, types[_i]));
  uint64_t address = allocate(5000);
  fake_overwrite(&driver, address, 5000);
  release(address);
  (void)allocate(5000);
  stop_sound();
}
END_TEST

/* A freed block is filled, and not reused before it was searched; that is when a request needs it. */
START_TEST(test_stale)
{
  begin(SETTINGS(STALE, types[_i]));
  uint64_t address = allocate(300000);
  uint64_t block_id = newest_block_id(address);
  release(address);
  ck_assert_uint_eq(quarantined(), 1);
  ck_assert_uint_eq(fake_fill_at(&driver, address)->bytes, 300000);
  ck_assert_uint_ge(stats().deferred_bytes.current, 300000);
  fake_overwrite(&driver, address + 299999, 1);
  ck_assert_uint_eq(allocate(300000), address);
  ck_assert_uint_eq(quarantined(), 0);
  expect_damage(GP_DAMAGE_STALE, address, 299999, 1);
  ck_assert_uint_eq(damage_events[0].block_id, block_id);
  stop();
}
END_TEST

START_TEST(test_stale_is_sound)
{
  begin(SETTINGS(BOTH, types[_i]));
  for (int round = 0; round < 3; round++) {
    uint64_t address = allocate(300000);
    fake_overwrite(&driver, address, 300000);
    release(address);
    ck_assert_uint_eq(quarantined(), 1);
    ck_assert(gp_engine_check(engine));
  }
  ck_assert_uint_eq(stats().cache_misses, 1);
  stop_sound();
}
END_TEST

/* A request of another size leaves a filled block alone. */
START_TEST(test_stale_of_another_size)
{
  begin(SETTINGS(STALE));
  release(allocate(300000));
  (void)allocate(9 * GP_MIB);
  ck_assert_uint_eq(quarantined(), 1);
  stop_sound();
}
END_TEST

/* The watched bytes of a large block: both ends, and places between them. */
START_TEST(test_sample)
{
  static const struct {
    uint64_t offset, bytes, found_at, found;
  } writes[] = {
      {0, 1, 0, 1},
      {4095, 2, 4095, 2}, /* the first place follows */
      {4352, 100, 0, 0},  /* between places */
      {64 * GP_MIB - 4096, 1, 64 * GP_MIB - 4096, 1},
      {64 * GP_MIB - 1, 1, 64 * GP_MIB - 1, 1},
  };
  const uint64_t stride = (64 * GP_MIB - 8192) / 64;

  begin(SETTINGS(STALE));
  for (unsigned i = 0; i < 6; i++) {
    const bool is_place = i == 5;
    uint64_t offset = is_place ? 4096 + 63 * stride + 255 : writes[i].offset;
    uint64_t bytes = is_place ? 2 : writes[i].bytes;
    uint64_t address = allocate(64 * GP_MIB);
    release(address);
    fake_overwrite(&driver, address + offset, bytes);
    damage_count = 0;
    ck_assert_uint_eq(allocate(64 * GP_MIB), address);
    uint64_t found = is_place ? 1 : writes[i].found;
    ck_assert_int_eq(damage_count, found > 0);
    if (found > 0) {
      ck_assert_uint_eq(damages[0].offset, is_place ? offset : writes[i].found_at);
      ck_assert_uint_eq(damages[0].bytes, found);
    }
    release(address);
    (void)allocate(64 * GP_MIB); /* searched again, after the fill */
    release(address);
  }
  stop();
}
END_TEST

/* stale=full: the block is larger than the buffer of a search. */
START_TEST(test_stale_in_chunks)
{
  const uint64_t bytes = 5 * 768 * GP_KIB + 17;

  begin(SETTINGS(FULL, types[_i]));
  uint64_t address = allocate(bytes);
  release(address);
  ck_assert_uint_eq(allocate(bytes), address);
  ck_assert_int_eq(damage_count, 0);
  release(address);
  fake_overwrite(&driver, address + bytes - 1, 1);
  ck_assert_uint_eq(allocate(bytes), address);
  expect_damage(GP_DAMAGE_STALE, address, bytes - 1, 1);
  stop();
}
END_TEST

/* Each range of the buffer is compared for itself. */
START_TEST(test_stale_in_the_middle_of_chunks)
{
  const uint64_t bytes = 3 * GP_MIB;

  begin(SETTINGS(FULL));
  uint64_t address = allocate(bytes);
  release(address);
  fake_overwrite(&driver, address + GP_MIB, 3);
  ck_assert_uint_eq(allocate(bytes), address);
  expect_damage(GP_DAMAGE_STALE, address, GP_MIB, 3);
  stop();
}
END_TEST

#define MANY 100

/* More blocks than one batch has room for, freed without a search between. */
START_TEST(test_many_blocks_at_once)
{
  uint64_t addresses[MANY];

  begin(SETTINGS(BOTH, types[_i]));
  for (int i = 0; i < MANY; i++)
    addresses[i] = allocate(3000);
  fake_overwrite(&driver, addresses[MANY - 1] + 3000, 1);
  for (int i = 0; i < MANY; i++)
    ck_assert_int_eq(free_code(addresses[i]), 0);
  gp_engine_search(engine, context);
  ck_assert_int_eq(damage_count, 1);
  ck_assert_uint_eq(damages[0].address, addresses[MANY - 1]);
  for (int i = 0; i < MANY; i++)
    ck_assert_uint_eq(fake_fill_at(&driver, addresses[i])->bytes, 3000);
  ck_assert_uint_eq(quarantined(), MANY);
  ck_assert(gp_engine_check(engine));
  fake_overwrite(&driver, addresses[7], 3000);
  gp_damage_flush(engine, context);
  ck_assert_uint_eq(quarantined(), 0);
  ck_assert_int_eq(damage_count, 2);
  ck_assert_uint_eq(damages[1].address, addresses[7]);
  stop();
}
END_TEST

/* --- the device needs time --- */

/* The copy takes longer than a request waits: the request gets other memory, and the block comes back. */
START_TEST(test_late)
{
  begin(SETTINGS(BOTH, types[_i]));
  uint64_t address = allocate(100000);
  driver.fill_takes = GP_FILL_PATIENCE_NS + 3000000000;
  uint64_t began_ns = driver.now_ns;
  release(address);
  ck_assert_uint_ge(driver.now_ns - began_ns, GP_FILL_PATIENCE_NS);
  ck_assert_uint_lt(driver.now_ns - began_ns, GP_FILL_PATIENCE_NS + 2000000);
  ck_assert_uint_eq(quarantined(), 1);
  ck_assert(gp_engine_check(engine));
  driver.now_ns += 4000000000; /* it is complete, and not known to be */
  driver.fill_takes = 0;
  (void)allocate(100000);
  ck_assert_uint_eq(quarantined(), 0);
  stop_sound();
}
END_TEST

/* Meanwhile no request waits for it again, and none gets the block. */
START_TEST(test_late_for_ever)
{
  begin(SETTINGS(STALE, types[_i]));
  uint64_t address = allocate(100000);
  uint64_t second = allocate(100000);
  driver.fill_takes = UINT64_MAX;
  release(address);
  ck_assert_uint_eq(quarantined(), 1);
  uint64_t began_ns = driver.now_ns;
  for (int i = 0; i < 3; i++) {
    ck_assert_uint_ne(allocate(100000), address);
    ck_assert(gp_engine_check(engine));
  }
  release(second);
  ck_assert_uint_eq(driver.now_ns, began_ns);
  ck_assert_uint_eq(quarantined(), 2);
  ck_assert(gp_engine_check(engine));
  stop_sound();
}
END_TEST

/* The late copy of a filled block: damage is found when the copy is complete. */
START_TEST(test_damage_in_a_late_copy)
{
  begin(SETTINGS(STALE));
  uint64_t address = allocate(100000);
  release(address);
  fake_overwrite(&driver, address + 17, 1);
  driver.fill_takes = UINT64_MAX;
  ck_assert_uint_ne(allocate(100000), address);
  ck_assert_int_eq(damage_count, 0);
  driver.fill_takes = 0;
  ck_assert_uint_eq(allocate(100000), address);
  expect_damage(GP_DAMAGE_STALE, address, 17, 1);
  stop();
}
END_TEST

/* One chunk of many is late: what has not been compared is not taken for searched. */
START_TEST(test_late_in_chunks)
{
  const uint64_t bytes = 4 * GP_MIB;

  begin(SETTINGS(FULL));
  uint64_t address = allocate(bytes);
  release(address);
  fake_overwrite(&driver, address + bytes - 1, 1);
  driver.fill_takes = UINT64_MAX;
  ck_assert_uint_ne(allocate(bytes), address);
  driver.fill_takes = 0;
  ck_assert_uint_eq(allocate(bytes), address);
  expect_damage(GP_DAMAGE_STALE, address, bytes - 1, 1);
  stop();
}
END_TEST

/* --- the driver refuses --- */

static const char *const checks[] = {EDGES, STALE, BOTH, FULL};

/* Makes the driver refuse a call, after so many others. */
static void refuse_after(long preceding)
{
  driver.fail_code = FAKE_INVALID_VALUE;
  driver.fail_at = driver.calls + preceding + 1;
}

/* Each call of a search in turn is refused. A query is repeated. After the refusal of another call the checks
 * stop, everything is idle, and nothing is taken for damage. */
START_TEST(test_the_driver_refuses)
{
  bool was_refused = true;

  for (long preceding = 0; was_refused; preceding++) {
    begin(SETTINGS(checks[_i]));
    uint64_t address = allocate(100000), second = allocate(9 * GP_MIB);
    ck_assert_int_eq(free_code(second), 0);
    ck_assert_int_eq(free_code(address), 0);
    refuse_after(preceding);
    gp_engine_search(engine, context);
    was_refused = driver.calls >= driver.fail_at;
    driver.fail_at = 0;
    ck_assert(gp_engine_check(engine));
    ck_assert(preceding > 1 || !is_checking()); /* the stream, and the memory */
    if (!is_checking()) {
      ck_assert_uint_eq(quarantined(), 0);
      ck_assert_uint_eq(stats().deferred_bytes.current, 0);
    }
    ck_assert_uint_eq(allocate(100000), address);
    stop_sound();
  }
}
END_TEST

/* So does a refusal in the middle of a block that is searched in chunks. */
START_TEST(test_the_driver_refuses_a_chunk)
{
  const uint64_t bytes = 4 * GP_MIB;

  begin(SETTINGS(FULL));
  uint64_t address = allocate(bytes);
  release(address);
  refuse_after(2 * _i); /* copies and queries alternate */
  while (is_checking() && driver.count[FAKE_COPY_OUT] < 6) {
    uint64_t got = allocate(bytes);
    if (got == address)
      break;
  }
  ck_assert_int_eq(damage_count, 0);
  ck_assert_uint_eq(quarantined(), 0);
  ck_assert(gp_engine_check(engine));
  stop_sound();
}
END_TEST

/* Checks stop for all devices: none keeps blocks that nobody searches. */
START_TEST(test_checks_stop_on_every_device)
{
  gp_driver_context_t key = fake_context(1, 1);
  uint64_t address = 0;

  begin(SETTINGS(STALE));
  gp_context_t *other = gp_engine_context(engine, &key);
  ck_assert_int_eq(gp_engine_alloc(engine, other, 100000, &address), 0);
  ck_assert_int_eq(free_code(address), 0);
  gp_engine_search(engine, other);
  ck_assert_uint_eq(quarantined_in(other), 1);
  uint64_t own = allocate(100000);
  ck_assert_int_eq(free_code(own), 0);
  refuse_after(0);
  driver.fail_stays = true;
  gp_engine_search(engine, context);
  driver.fail_at = 0;
  ck_assert(!is_checking());
  ck_assert_uint_eq(quarantined_in(other), 0);
  ck_assert_uint_eq(quarantined(), 0);
  stop_sound();
}
END_TEST

/* Checks stop while a search is late: its blocks come back when it is complete. */
START_TEST(test_checks_stop_while_a_search_is_late)
{
  begin(SETTINGS(STALE));
  uint64_t address = allocate(100000);
  gp_driver_context_t key = fake_context(1, 0);
  gp_context_t *other = gp_engine_context(engine, &key);
  uint64_t second = 0;
  ck_assert_int_eq(gp_engine_alloc(engine, other, 100000, &second), 0);
  driver.fill_takes = UINT64_MAX;
  release(address);
  ck_assert_uint_eq(quarantined(), 1);
  ck_assert_int_eq(free_code(second), 0);
  refuse_after(0);
  driver.fail_stays = true;
  gp_engine_search(engine, other);
  driver.fail_at = 0;
  driver.fail_stays = false;
  driver.fill_takes = 0;
  gp_engine_search(engine, context);
  uint64_t again = allocate(100000);
  ck_assert_uint_eq(again, address);
  ck_assert_uint_eq(quarantined(), 0);
  stop_sound();
}
END_TEST

/* --- captures --- */

START_TEST(test_nothing_during_a_capture)
{
  begin(SETTINGS(BOTH, types[_i]));
  uint64_t address = allocate(100000);
  uint64_t in_stream = allocate_in(order(FIRST), BYTES);
  gp_suspension_t suspension = gp_engine_suspend_in(engine, context, GP_REACH_NONE);
  long copies = driver.count[FAKE_COPY_OUT], fills = driver.count[FAKE_FILL];
  ck_assert_int_eq(free_code(address), 0);
  free_in(order(SECOND), in_stream);
  gp_engine_search(engine, context);
  ck_assert_int_eq(driver.count[FAKE_COPY_OUT], copies);
  ck_assert_int_eq(driver.count[FAKE_FILL], fills);
  ck_assert(gp_engine_check(engine));
  gp_engine_resume_in(engine, &suspension);
  synchronize_and_search();
  ck_assert_int_gt(driver.count[FAKE_COPY_OUT], 0);
  ck_assert_uint_eq(
      quarantined_in(&context->device->async_context) + quarantined_in(context), _i < 2 ? 1 : 2);
  ck_assert(_i < 2 || allocate(100000) == address); /* a whole block went to the driver */
  stop_sound();
}
END_TEST

static gp_suspension_t meanwhile;

static void capture_begins(void)
{
  driver.on_pause = NULL;
  meanwhile = gp_engine_suspend_in(engine, context, GP_REACH_NONE);
}

/* A capture begins while a search waits for the device. */
START_TEST(test_a_capture_begins_meanwhile)
{
  static const char *const kinds[] = {STALE, EDGES, FULL};
  const uint64_t bytes = 4 * GP_MIB;

  begin(SETTINGS(kinds[_i]));
  uint64_t address = allocate(bytes);
  if (_i == 2)
    release(address);
  driver.fill_takes = 5000000;
  driver.on_pause = capture_begins;
  if (_i == 2)
    (void)allocate(bytes);
  else
    release(address);
  ck_assert_ptr_null((void *)driver.on_pause);
  ck_assert(gp_engine_check(engine));
  gp_engine_resume_in(engine, &meanwhile);
  driver.fill_takes = 0;
  gp_engine_search(engine, context);
  ck_assert_uint_eq(allocate(bytes), address);
  stop_sound();
}
END_TEST

static int pauses_before_capture;

static void capture_begins_later(void)
{
  if (pauses_before_capture-- == 0)
    capture_begins();
}

/* It begins between two chunks of a block. */
START_TEST(test_a_capture_begins_between_chunks)
{
  const uint64_t bytes = 4 * GP_MIB;

  begin(SETTINGS(FULL));
  uint64_t address = allocate(bytes);
  release(address);
  driver.fill_takes = 2 * GP_FIRST_PAUSE_NS;
  driver.on_pause = capture_begins_later;
  pauses_before_capture = _i;
  uint64_t got = allocate(bytes);
  if (driver.on_pause) { /* there were fewer pauses */
    driver.on_pause = NULL;
    ck_assert_uint_eq(got, address);
    stop_sound();
    return;
  }
  gp_engine_resume_in(engine, &meanwhile);
  driver.fill_takes = 0;
  if (got != address)
    ck_assert_uint_eq(allocate(bytes), address);
  ck_assert_uint_eq(quarantined(), 0);
  stop_sound();
}
END_TEST

/* --- contexts --- */

START_TEST(test_context_lost_with_quarantine)
{
  begin(SETTINGS(BOTH, types[_i]));
  release(allocate(100000));
  ck_assert_int_eq(free_code(allocate(300000)), 0);
  ck_assert_uint_ge(quarantined(), 1);
  fake_end_context(&driver, 0);
  gp_engine_context_lost(engine, context);
  ck_assert_uint_eq(quarantined_in(context), 0);
  ck_assert_uint_eq(stats().reserved_bytes.current, 0);
  gp_engine_search(engine, context);
  ck_assert(is_checking());
  stop_sound();
}
END_TEST

START_TEST(test_context_lost_while_a_search_is_late)
{
  begin(SETTINGS(BOTH, types[_i]));
  uint64_t address = allocate(100000);
  driver.fill_takes = UINT64_MAX;
  release(address);
  ck_assert_uint_eq(quarantined(), 1);
  fake_end_context(&driver, 0);
  gp_engine_context_lost(engine, context);
  driver.fill_takes = 0;
  gp_engine_search(engine, context);
  ck_assert_uint_eq(quarantined_in(context), 0);
  ck_assert_uint_eq(stats().reserved_bytes.current, 0);
  ck_assert(is_checking());
  stop_sound();
}
END_TEST

static void context_ends(void)
{
  driver.on_pause = NULL;
  fake_end_context(&driver, 0);
  gp_engine_context_lost(engine, context);
}

/* It ends while a thread waits for a search: the copy is not compared, because its memory has ended. */
START_TEST(test_context_lost_during_a_search)
{
  static const char *const kinds[] = {STALE, FULL};
  const uint64_t bytes = 3 * GP_MIB;
  gp_driver_context_t key = fake_context(1, 0);

  begin(SETTINGS(kinds[_i]));
  (void)gp_engine_context(engine, &key);
  uint64_t address = allocate(bytes);
  if (_i == 1)
    release(address);
  driver.fill_takes = 5000000;
  driver.on_pause = context_ends;
  if (_i == 1)
    gp_damage_flush(engine, context);
  else
    release(address);
  ck_assert_ptr_null((void *)driver.on_pause);
  driver.fill_takes = 0;
  ck_assert(is_checking());
  stop_sound();
}
END_TEST

/* Stream-ordered memory outlives a context that has a late search of it. */
START_TEST(test_stream_ordered_memory_of_a_late_search_in_a_lost_context)
{
  gp_driver_context_t key = fake_context(1, 0);

  begin(SETTINGS(STALE));
  gp_context_t *second = gp_engine_context(engine, &key);
  gp_stream_record_begin(engine, second, UINT64_C(0x3000), false);
  uint64_t address = allocate_in(order(FIRST), BYTES);
  free_in(order(FIRST), address);
  driver.fill_takes = UINT64_MAX;
  uint64_t token = gp_engine_sync_begin(engine);
  fake_complete(&driver, 0);
  fake_complete(&driver, 1);
  gp_engine_sync_end(engine, context, token);
  token = gp_engine_sync_begin(engine);
  gp_engine_sync_end(engine, second, token);
  gp_engine_search(engine, second);
  ck_assert_uint_eq(quarantined_in(&context->device->async_context), 1);
  fake_end_context(&driver, 1);
  gp_engine_context_lost(engine, second);
  driver.fill_takes = 0;
  gp_engine_search(engine, context);
  ck_assert_uint_eq(allocate_in(order(FIRST), BYTES), address);
  ck_assert(gp_engine_check(engine));
  stop_sound();
}
END_TEST

/* An error that says that the context has ended is none of the checks. */
START_TEST(test_a_context_that_is_gone)
{
  begin(SETTINGS(STALE));
  uint64_t address = allocate(100000);
  gp_driver_context_t key = fake_context(1, 0);
  gp_context_t *other = gp_engine_context(engine, &key);
  ck_assert_int_eq(free_code(address), 0);
  driver.fail_code = FAKE_GONE;
  driver.fail_at = driver.calls + 1 + _i;
  gp_engine_search(engine, context);
  driver.fail_at = 0;
  ck_assert(is_checking());
  ck_assert(gp_engine_check(engine));
  ck_assert_int_eq(gp_engine_alloc(engine, other, 100000, &address), 0);
  stop_sound();
}
END_TEST

/* Red zones of what is in use, at the end of its context; only of a device that is quiet. */
START_TEST(test_live_blocks_of_an_ending_context)
{
  const bool is_quiet = _i == 0;

  begin(SETTINGS(BOTH));
  uint64_t address = allocate(5000);
  (void)allocate(7000);
  fake_overwrite(&driver, address + 5000, 2);
  uint64_t other = allocate(2 * GP_MIB);
  if (!is_quiet)
    fake_submit_on(&driver, 0, other, 100);
  gp_engine_search_ending(engine, context);
  if (is_quiet) {
    expect_damage(GP_DAMAGE_EDGE, address, 5000, 2);
    ck_assert_uint_eq(stats().allocation.current, 3);
    gp_engine_search_ending(engine, context); /* once */
    ck_assert_uint_eq(stats().num_damages, 1);
  } else {
    ck_assert_int_eq(damage_count, 0);
  }
  fake_complete(&driver, 0);
  gp_engine_context_lost(engine, context);
  stop();
}
END_TEST

START_TEST(test_many_live_blocks)
{
  begin(SETTINGS(EDGES));
  for (int i = 0; i < MANY; i++)
    fake_overwrite(&driver, allocate(3000) + 3000, 1);
  gp_engine_search_ending(engine, context);
  ck_assert_uint_eq(stats().num_damages, MANY);
  stop();
}
END_TEST

/* Stream-ordered memory of the device stays in use when another context ends, with its zone. */
START_TEST(test_stream_ordered_memory_outlives_a_context)
{
  gp_driver_context_t key = fake_context(1, 0);

  key.is_primary = false;
  begin(SETTINGS(EDGES));
  uint64_t address = allocate_in(order(FIRST), 5000);
  gp_context_t *other = gp_engine_context(engine, &key);
  gp_engine_search_ending(engine, other);
  gp_engine_context_lost(engine, other);
  fake_overwrite(&driver, address + 5000, 1);
  free_in(order(FIRST), address);
  synchronize_and_search();
  expect_damage(GP_DAMAGE_EDGE, address, 5000, 1);
  stop();
}
END_TEST

/* --- memory is short --- */

/* Quarantined blocks are searched and released before a request fails, of a class that none of them serves.
 */
START_TEST(test_limit)
{
  begin(SETTINGS(BOTH, "GPUPOOL_LIMIT=64MiB", types[_i]));
  uint64_t small[4];
  for (int i = 0; i < 4; i++)
    small[i] = allocate(10 * GP_MIB);
  for (int i = 0; i < 4; i++)
    release(small[i]);
  ck_assert_uint_eq(quarantined(), 4);
  fake_overwrite(&driver, small[3] + 10 * GP_MIB - 1, 1);
  (void)allocate(50 * GP_MIB);
  ck_assert_uint_eq(quarantined(), 0);
  expect_damage(GP_DAMAGE_STALE, small[3], 10 * GP_MIB - 1, 1);
  stop();
}
END_TEST

/* Also what was not filled yet. */
START_TEST(test_limit_with_unfilled_blocks)
{
  uint64_t address = 0;

  begin(SETTINGS(BOTH, "GPUPOOL_LIMIT=64MiB", types[_i]));
  uint64_t small[4];
  for (int i = 0; i < 4; i++)
    small[i] = allocate(10 * GP_MIB);
  for (int i = 0; i < 4; i++)
    ck_assert_int_eq(free_code(small[i]), 0);
  ck_assert_int_eq(gp_engine_alloc(engine, context, 50 * GP_MIB, &address), 0);
  ck_assert_uint_eq(quarantined(), 0);
  stop_sound();
}
END_TEST

/* And what other contexts of the device have. */
START_TEST(test_full_device_with_two_contexts)
{
  gp_driver_context_t key = fake_context(1, 0);
  uint64_t address[2];

  begin_with(SETTINGS(BOTH, types[_i]), 64 * GP_MIB);
  gp_context_t *other = gp_engine_context(engine, &key);
  for (int i = 0; i < 2; i++)
    ck_assert_int_eq(gp_engine_alloc(engine, other, 20 * GP_MIB, &address[i]), 0);
  ck_assert_int_eq(free_code(address[0]), 0);
  gp_engine_search(engine, other); /* filled */
  ck_assert_int_eq(free_code(address[1]), 0);
  fake_overwrite(&driver, address[0], 1);
  (void)allocate(50 * GP_MIB);
  ck_assert_uint_eq(quarantined_in(other), 0);
  expect_damage(GP_DAMAGE_STALE, address[0], 0, 1);
  stop();
}
END_TEST

/* The device completes it while the request waits. */
START_TEST(test_full_device_with_pending_memory)
{
  begin_with((const char *const[]){"GPUPOOL_RESERVE=0", BOTH, NULL}, 64 * GP_MIB);
  uint64_t in_stream = allocate_in(order(FIRST), 40 * GP_MIB);
  fake_submit_on(&driver, 0, in_stream, 40 * GP_MIB);
  free_in(order(FIRST), in_stream);
  fake_complete_in(&driver, 0, 3000000);
  uint64_t address = 0;
  int code = -1;
  gp_stream_order_t in = order(SECOND);
  ck_assert(gp_engine_alloc_async(engine, &in, 50 * GP_MIB, &address, &code));
  ck_assert_int_eq(code, 0);
  stop_sound();
}
END_TEST

/* Memory that the pool gives back on request. */
START_TEST(test_empty_cache)
{
  begin(SETTINGS(BOTH, types[_i]));
  uint64_t address = allocate(10 * GP_MIB), second = allocate(20 * GP_MIB);
  release(address);
  ck_assert_int_eq(free_code(second), 0);
  fake_overwrite(&driver, address, 1);
  ck_assert_uint_ge(gp_engine_empty_cache(engine), 30 * GP_MIB);
  ck_assert_uint_eq(quarantined(), 0);
  ck_assert_uint_eq(driver.used, 0);
  expect_damage(GP_DAMAGE_STALE, address, 0, 1);
  stop();
}
END_TEST

START_TEST(test_trim)
{
  begin(SETTINGS(BOTH, types[_i]));
  release(allocate(10 * GP_MIB));
  ck_assert_uint_ge(gp_engine_trim(engine, context, UINT64_MAX, GP_TRIM_REQUESTED), 10 * GP_MIB);
  ck_assert_uint_eq(driver.used, 0);
  stop_sound();
}
END_TEST

/* A call of the program that the driver has no memory for. */
START_TEST(test_room_for_a_call)
{
  begin_with(SETTINGS(BOTH, types[_i]), 64 * GP_MIB);
  release(allocate(40 * GP_MIB));
  ck_assert(gp_engine_make_room(engine, context));
  gp_engine_room_used(context);
  ck_assert_uint_eq(driver.used, 0);
  stop_sound();
}
END_TEST

/* After pooling has stopped nothing is searched, and all is released. */
START_TEST(test_pooling_stops)
{
  begin(SETTINGS(BOTH, types[_i]));
  release(allocate(10 * GP_MIB));
  uint64_t address = allocate(3 * GP_MIB), live = allocate(GP_MIB);
  ck_assert_int_eq(free_code(address), 0);
  gp_engine_stop_pooling(engine);
  ck_assert_int_eq(free_code(live), 0);
  synchronize_and_search();
  ck_assert_uint_eq(quarantined(), 0);
  ck_assert_uint_eq(stats().reserved_bytes.current, 0);
  stop_sound();
}
END_TEST

/* A block that is larger than a new one would be counts so until it has left quarantine. */
START_TEST(test_borrowed_block)
{
  begin(SETTINGS(STALE, "GPUPOOL_TYPE=round", "GPUPOOL_SLACK=0"));
  uint64_t large = allocate(40 * GP_MIB);
  release(large);
  gp_damage_flush(engine, context);
  ck_assert_uint_eq(allocate(22 * GP_MIB), large);
  ck_assert_uint_gt(context->device->borrowed_bytes, 0);
  release(large);
  ck_assert_uint_eq(quarantined(), 1);
  ck_assert_uint_gt(context->device->borrowed_bytes, 0);
  ck_assert(gp_engine_check(engine));
  gp_damage_flush(engine, context);
  ck_assert_uint_eq(context->device->borrowed_bytes, 0);
  stop_sound();
}
END_TEST

/* Prewarmed memory has no owner: it is idle at once, and watched from its first one on. */
START_TEST(test_prewarmed_memory)
{
  begin(SETTINGS(BOTH, "GPUPOOL_PREWARM=2MiB*4", types[_i]));
  uint64_t address = allocate(GP_MIB);
  ck_assert_uint_eq(quarantined(), 0);
  fake_overwrite(&driver, address + GP_MIB, 1);
  release(address);
  expect_damage(GP_DAMAGE_EDGE, address, GP_MIB, 1);
  stop();
}
END_TEST

/* --- stream-ordered memory --- */

/* It is not reused in its own stream either, before it is complete and searched. */
START_TEST(test_stream_ordered_memory)
{
  static const char *const modes[] = {"GPUPOOL_ASYNC=pool", "GPUPOOL_ASYNC=plain"};

  begin(SETTINGS(BOTH, modes[_i]));
  uint64_t address = allocate_in(order(FIRST), BYTES);
  ck_assert_uint_eq(fake_fill_at(&driver, address + BYTES)->stream, FIRST);
  fake_submit_on(&driver, 0, address, BYTES);
  free_in(order(FIRST), address);
  gp_engine_search(engine, context);
  uint64_t second = allocate_in(order(FIRST), BYTES);
  ck_assert_uint_ne(second, address);
  ck_assert_uint_eq(quarantined(), 0); /* deferred */
  synchronize_and_search();
  ck_assert_uint_eq(quarantined(), 1);
  fake_overwrite(&driver, address + 5, 1);
  ck_assert_uint_eq(allocate_in(order(FIRST), BYTES), address);
  expect_damage(GP_DAMAGE_STALE, address, 5, 1);
  free_in(order(FIRST), second);
  stop();
}
END_TEST

START_TEST(test_zone_of_stream_ordered_memory)
{
  begin(SETTINGS(EDGES));
  uint64_t address = allocate_in(order(FIRST), 5000);
  fake_overwrite(&driver, address + 5000, 1);
  free_in(order(FIRST), address);
  synchronize_and_search();
  expect_damage(GP_DAMAGE_EDGE, address, 5000, 1);
  stop();
}
END_TEST

/* Exported memory may be written to by others. */
START_TEST(test_exported_memory)
{
  begin(SETTINGS(BOTH, types[_i]));
  uint64_t address = allocate(2 * GP_MIB);
  gp_engine_taint(engine, address);
  fake_overwrite(&driver, address + 2 * GP_MIB, 1);
  gp_engine_search_ending(engine, context);
  int code = 0;
  (void)gp_engine_free(engine, address, &code);
  gp_engine_search(engine, context);
  gp_damage_flush(engine, context);
  stop_sound();
}
END_TEST

/* A second free of a block in quarantine is refused, and changes nothing. */
START_TEST(test_double_free)
{
  begin(SETTINGS(BOTH, types[_i]));
  uint64_t address = allocate(100000);
  release(address);
  ck_assert_int_eq(free_code(address), FAKE_INVALID_VALUE);
  ck_assert_uint_eq(quarantined(), 1);
  ck_assert_int_eq(gp_engine_owner(engine, address), GP_OWNER_POOL);
  ck_assert_uint_eq(gp_engine_checked_size(engine, 12345), 0);
  stop_sound();
}
END_TEST

static void free_again(void)
{
  int code = 0;
  driver.on_pause = NULL;
  (void)gp_engine_free(engine, damages[7].address, &code);
}

START_TEST(test_double_free_during_a_search)
{
  begin(SETTINGS(STALE));
  uint64_t address = allocate(100000);
  damages[7].address = address;
  driver.fill_takes = 5000000;
  driver.on_pause = free_again;
  release(address);
  ck_assert_uint_eq(quarantined(), 1);
  stop_sound();
}
END_TEST

/* --- threads --- */

#define THREADS 4
#define ROUNDS  60

static atomic_int failures; /* Check's asserts are for one thread */

static void use_memory(uintptr_t number)
{
  uint64_t blocks[4] = {0};
  int code;

  for (int round = 0; round < ROUNDS; round++) {
    uint64_t *block = &blocks[round % 4];
    if (*block) {
      failures += gp_engine_free(engine, *block, &code) != GP_FREE_DONE;
      gp_engine_search(engine, context);
    }
    uint64_t bytes = (uint64_t)(round % 3 + 1) * 100000 + number;
    failures += gp_engine_alloc(engine, context, bytes, block) != 0;
    if (round % 16 == 0)
      gp_damage_flush(engine, context);
  }
  for (int i = 0; i < 4; i++)
    if (blocks[i])
      failures += gp_engine_free(engine, blocks[i], &code) != GP_FREE_DONE;
}

/* Several threads search the same arena: each block is in one search at a time. */
START_TEST(test_threads)
{
  begin(SETTINGS(_i % 2 ? FULL : BOTH, types[_i / 2], "GPUPOOL_LIMIT=64MiB"));
  driver.locked = true;
  driver.fill_takes = 3000;
  failures = 0;
  gp_run_together(THREADS, use_memory);
  ck_assert_int_eq(failures, 0);
  gp_engine_search(engine, context);
  gp_damage_flush(engine, context);
  ck_assert_uint_eq(quarantined(), 0);
  stop_sound();
}
END_TEST

static void allocate_all(uintptr_t number)
{
  int code;

  (void)number;
  for (int round = 0; round < ROUNDS; round++) {
    uint64_t address = 0;
    failures += gp_engine_alloc(engine, context, 20 * GP_MIB, &address) != 0;
    failures += address && gp_engine_free(engine, address, &code) != GP_FREE_DONE;
    gp_engine_search(engine, context);
  }
}

/* Time would pass for all threads, also for one that the system lets wait. */
static void pause_really(void)
{
  usleep(20);
}

/* No request fails because another thread searches the memory that would serve it. */
START_TEST(test_threads_that_need_all_memory)
{
  begin_with((const char *const[]){"GPUPOOL_RESERVE=0", STALE, types[_i], NULL}, 3 * 22 * GP_MIB);
  driver.locked = true;
  driver.fill_takes = 3000;
  driver.on_pause = pause_really;
  failures = 0;
  gp_run_together(3, allocate_all);
  ck_assert_int_eq(failures, 0);
  stop_sound();
}
END_TEST

static sem_t is_searching, has_waited;
static _Thread_local bool searches;

/* The search is not complete before the other thread waits for it, or has failed. */
static void pause_of_both(void)
{
  if (!searches) {
    sem_post(&has_waited);
    pause_really();
  } else if (driver.fill_takes > 0) {
    sem_post(&is_searching);
    sem_wait(&has_waited);
    pthread_mutex_lock(&driver.mutex);
    driver.fill_takes = 0;
    pthread_mutex_unlock(&driver.mutex);
  }
}

static void search_or_allocate(uintptr_t number)
{
  uint64_t address = 0;

  searches = number == 0;
  if (searches) {
    gp_engine_search(engine, context);
    return;
  }
  sem_wait(&is_searching);
  failures += gp_engine_alloc(engine, context, 50 * GP_MIB, &address) != 0;
  sem_post(&has_waited);
}

/* The memory that a request needs is in the search of another thread, which freed it before. */
START_TEST(test_waits_for_the_search_of_another_thread)
{
  begin_with(SETTINGS(STALE, types[_i]), 64 * GP_MIB);
  ck_assert_int_eq(free_code(allocate(50 * GP_MIB)), 0);
  sem_init(&is_searching, 0, 0);
  sem_init(&has_waited, 0, 0);
  driver.locked = true;
  driver.fill_takes = 1000000000;
  driver.on_pause = pause_of_both;
  failures = 0;
  gp_run_together(2, search_or_allocate);
  ck_assert_int_eq(failures, 0);
  stop_sound();
}
END_TEST

START_TEST(test_engine_ends_with_quarantine)
{
  begin(SETTINGS(BOTH, types[_i]));
  uint64_t address = allocate(100000);
  release(address);
  driver.fill_takes = UINT64_MAX;
  release(allocate(5 * GP_MIB));
  ck_assert_uint_ge(quarantined(), 1);
  stop_sound();
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("damage");
  TCase *tests = tcase_create("damage");
  tcase_set_timeout(tests, 60);
  tcase_add_test(tests, test_off);
  tcase_add_test(tests, test_unpooled_memory_is_not_checked);
  tcase_add_loop_test(tests, test_no_zone_without_edges, 0, TYPES);
  tcase_add_loop_test(tests, test_size_of_zones, 0, TYPES);
  tcase_add_loop_test(tests, test_zone_of_a_used_block, 0, TYPES);
  tcase_add_loop_test(tests, test_damage_of_a_zone, 0, TYPES);
  tcase_add_loop_test(tests, test_write_within_the_request_is_none, 0, TYPES);
  tcase_add_loop_test(tests, test_stale, 0, TYPES);
  tcase_add_loop_test(tests, test_stale_is_sound, 0, TYPES);
  tcase_add_test(tests, test_stale_of_another_size);
  tcase_add_test(tests, test_sample);
  tcase_add_loop_test(tests, test_stale_in_chunks, 0, TYPES);
  tcase_add_test(tests, test_stale_in_the_middle_of_chunks);
  tcase_add_loop_test(tests, test_many_blocks_at_once, 0, TYPES);
  tcase_add_loop_test(tests, test_late, 0, TYPES);
  tcase_add_loop_test(tests, test_late_for_ever, 0, TYPES);
  tcase_add_test(tests, test_damage_in_a_late_copy);
  tcase_add_test(tests, test_late_in_chunks);
  tcase_add_loop_test(tests, test_the_driver_refuses, 0, 4);
  tcase_add_loop_test(tests, test_the_driver_refuses_a_chunk, 0, 6);
  tcase_add_test(tests, test_checks_stop_on_every_device);
  tcase_add_test(tests, test_checks_stop_while_a_search_is_late);
  tcase_add_loop_test(tests, test_nothing_during_a_capture, 0, TYPES);
  tcase_add_loop_test(tests, test_a_capture_begins_meanwhile, 0, 3);
  tcase_add_loop_test(tests, test_a_capture_begins_between_chunks, 0, 12);
  tcase_add_loop_test(tests, test_context_lost_with_quarantine, 0, TYPES);
  tcase_add_loop_test(tests, test_context_lost_while_a_search_is_late, 0, TYPES);
  tcase_add_loop_test(tests, test_context_lost_during_a_search, 0, 2);
  tcase_add_test(tests, test_stream_ordered_memory_of_a_late_search_in_a_lost_context);
  tcase_add_loop_test(tests, test_a_context_that_is_gone, 0, 4);
  tcase_add_loop_test(tests, test_live_blocks_of_an_ending_context, 0, 2);
  tcase_add_test(tests, test_many_live_blocks);
  tcase_add_test(tests, test_stream_ordered_memory_outlives_a_context);
  tcase_add_loop_test(tests, test_limit, 0, TYPES);
  tcase_add_loop_test(tests, test_limit_with_unfilled_blocks, 0, TYPES);
  tcase_add_loop_test(tests, test_full_device_with_two_contexts, 0, TYPES);
  tcase_add_test(tests, test_full_device_with_pending_memory);
  tcase_add_loop_test(tests, test_empty_cache, 0, TYPES);
  tcase_add_loop_test(tests, test_trim, 0, TYPES);
  tcase_add_loop_test(tests, test_room_for_a_call, 0, TYPES);
  tcase_add_loop_test(tests, test_pooling_stops, 0, TYPES);
  tcase_add_test(tests, test_borrowed_block);
  tcase_add_loop_test(tests, test_prewarmed_memory, 0, TYPES);
  tcase_add_loop_test(tests, test_stream_ordered_memory, 0, 2);
  tcase_add_test(tests, test_zone_of_stream_ordered_memory);
  tcase_add_loop_test(tests, test_exported_memory, 0, TYPES);
  tcase_add_loop_test(tests, test_double_free, 0, TYPES);
  tcase_add_test(tests, test_double_free_during_a_search);
  tcase_add_loop_test(tests, test_threads, 0, 2 * TYPES);
  tcase_add_loop_test(tests, test_threads_that_need_all_memory, 0, TYPES);
  tcase_add_loop_test(tests, test_waits_for_the_search_of_another_thread, 0, TYPES);
  tcase_add_loop_test(tests, test_engine_ends_with_quarantine, 0, TYPES);
  suite_add_tcase(suite, tests);
  return gp_check_main(suite);
}
