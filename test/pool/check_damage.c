/*
 * GPUPOOL_CHECK in the engine: what is filled and searched and when, and what is reported.
 */
#include <string.h>

#include "test/pool/damage_fixture.h"

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
  suite_add_tcase(suite, tests);
  return gp_check_main(suite);
}
