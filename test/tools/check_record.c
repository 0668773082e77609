/*
 * Cut memory in the record: what the recorder writes of it, and what becomes of that when the process was
 * killed at any point, or its record is damaged.
 */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/size.h"
#include "test/pool/check_main.h"
#include "tools/read/record/record_reader.h"
#include "trace/record/recorder.h"
#include "trace/record/recorder_state.h"

#define SEGMENT      UINT64_C(0x7f0000000000)
#define SEGMENT_SIZE (8 * GP_MIB)
#define NOT_STORED   UINT32_MAX /* of a cookie: the process is killed between the event and its slot */

static char root[64];
static char command[128];
static uint64_t now_ns;
static gp_recorder_t *recorder;
static gp_record_t record; /* too large for a stack */

static uint64_t tell_time(void *self)
{
  return now_ns;
}

static const char *look_up(void *arg, const char *variable)
{
  if (strcmp(variable, "GPUPOOL_RECORD") == 0)
    return root;
  return strcmp(variable, "GPUPOOL_STACKS") == 0 ? "off" : NULL;
}

static void setup(void)
{
  static gp_options_t options;
  strcpy(root, "/dev/shm/check_record.XXXXXX");
  if (!mkdtemp(root)) {
    strcpy(root, "check_record.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(root));
  }
  now_ns = 1000;
  gp_options_parse(&options, look_up, NULL, NULL, NULL);
  recorder = gp_recorder_create(&options, tell_time, NULL);
  ck_assert_ptr_nonnull(recorder);
  gp_region_start(&recorder->region);
  ck_assert(recorder->region.is_file);
}

static void teardown(void)
{
  gp_record_fini(&record);
  gp_recorder_destroy(recorder);
  snprintf(command, sizeof(command), "rm -rf %s", root);
  ck_assert_int_eq(system(command), 0);
}

/* What the engine tells; with a cookie of NOT_STORED the slot is as it was. */
static void tell(
    gp_action_t action, uint64_t offset, uint64_t size, uint64_t id, bool is_cut, gp_cookie_t *cookie)
{
  const gp_observer_t observer = gp_recorder_observer(recorder);
  const gp_event_t event = {.time_ns = ++now_ns,
      .address = SEGMENT + offset,
      .size = size,
      .rounded_size = size,
      .block_id = id,
      .action = action,
      .context = 5,
      .is_cut = is_cut,
      .observer_cookie = cookie && cookie->slot == NOT_STORED ? NULL : cookie};
  (void)observer.place_stats(observer.self, 0);
  observer.event(observer.self, &event);
}

static void grow(gp_cookie_t *cookie)
{
  tell(GP_ACTION_SEGMENT_ALLOC, 0, SEGMENT_SIZE, 0, true, cookie);
}

static void cut(uint64_t offset, uint64_t size, uint64_t id, gp_cookie_t *cookie)
{
  tell(GP_ACTION_ALLOC, offset, size, id, true, cookie);
}

static gp_live_slot_t *slot_of(gp_cookie_t cookie)
{
  return &recorder->live.slots[cookie.slot - 1];
}

/* The process is killed: what does its record say? */
static void read_record(void)
{
  gp_record_fini(&record);
  int fd = open(recorder->region.file.path, O_RDONLY);
  ck_assert_int_ge(fd, 0);
  ck_assert_msg(gp_record_read(fd, &record), "%s", record.problem);
  close(fd);
}

/* Block i by address of device 0. */
static void expect_block(size_t i, uint64_t offset, uint64_t size, gp_block_state_t state, uint64_t id)
{
  ck_assert_uint_lt(i, record.copies[0].blocks.count);
  const gp_block_view_t *block = gp_device_copy_block(&record.copies[0], i);
  ck_assert_uint_eq(block->address, SEGMENT + offset);
  ck_assert_uint_eq(block->size, size);
  ck_assert_int_eq((int)block->state, (int)state);
  ck_assert_uint_eq(block->block_id, id);
  ck_assert_uint_eq(block->refs, state == GP_BLOCK_ALLOCATED);
  ck_assert_uint_eq(block->requested, id ? size : 0);
  ck_assert_uint_eq(block->segment_address, SEGMENT);
  ck_assert_uint_eq(block->segment_size, SEGMENT_SIZE);
  ck_assert_uint_eq(block->context, 5);
}

static void expect_end(size_t count, uint64_t damaged)
{
  ck_assert_uint_eq(record.copies[0].blocks.count, count);
  ck_assert_uint_eq(record.damaged, damaged);
}

START_TEST(test_a_segment_has_its_blocks_and_what_is_between)
{
  gp_cookie_t segment = {0, 0}, first = {0, 0}, second = {0, 0}, third = {0, 0};
  grow(&segment);
  cut(GP_MIB, GP_MIB, 1, &first);
  cut(2 * GP_MIB, GP_MIB, 2, &second);
  cut(7 * GP_MIB, GP_MIB, 3, &third);
  tell(GP_ACTION_FREE_REQUESTED, 7 * GP_MIB, GP_MIB, 3, true, &third);
  read_record();
  expect_block(0, 0, GP_MIB, GP_BLOCK_IDLE, 0);
  expect_block(1, GP_MIB, GP_MIB, GP_BLOCK_ALLOCATED, 1);
  expect_block(2, 2 * GP_MIB, GP_MIB, GP_BLOCK_ALLOCATED, 2);
  expect_block(3, 3 * GP_MIB, 4 * GP_MIB, GP_BLOCK_IDLE, 0);
  expect_block(4, 7 * GP_MIB, GP_MIB, GP_BLOCK_PENDING, 3);
  expect_end(5, 0);
  const gp_stats_t *stats = &record.copies[0].stats;
  ck_assert_uint_eq(stats->segment.current, 1);
  ck_assert_uint_eq(stats->reserved_bytes.current, SEGMENT_SIZE);
  ck_assert_uint_eq(stats->allocated_bytes.current, 2 * GP_MIB);
  ck_assert_uint_eq(stats->deferred_bytes.current, GP_MIB);
  ck_assert_uint_eq(stats->cached_bytes.current, 5 * GP_MIB);
  ck_assert_uint_eq(stats->inactive_split_bytes.current, 5 * GP_MIB);
  ck_assert_uint_eq(record.copies[0].largest_idle, 4 * GP_MIB);
}
END_TEST

START_TEST(test_an_idle_segment_is_one_block)
{
  gp_cookie_t segment = {0, 0}, block = {0, 0};
  grow(&segment);
  cut(0, GP_MIB, 1, &block);
  tell(GP_ACTION_FREE_REQUESTED, 0, GP_MIB, 1, true, &block);
  tell(GP_ACTION_FREE_COMPLETED, 0, GP_MIB, 1, true, &block);
  ck_assert_uint_eq(block.slot, 0);
  read_record();
  expect_block(0, 0, SEGMENT_SIZE, GP_BLOCK_IDLE, 0);
  expect_end(1, 0);
  ck_assert_uint_eq(record.copies[0].stats.inactive_split_bytes.current, 0);
  tell(GP_ACTION_SEGMENT_FREE, 0, SEGMENT_SIZE, 0, true, &segment);
  ck_assert_uint_eq(segment.slot, 0);
  read_record();
  expect_end(0, 0);
}
END_TEST

START_TEST(test_a_block_may_take_its_whole_segment)
{
  gp_cookie_t segment = {0, 0}, block = {0, 0};
  grow(&segment);
  cut(0, SEGMENT_SIZE, 1, &block);
  read_record();
  expect_block(0, 0, SEGMENT_SIZE, GP_BLOCK_ALLOCATED, 1);
  expect_end(1, 0);
}
END_TEST

static unsigned count_changed(const gp_live_slot_t *before, uint32_t count)
{
  unsigned changed = 0;
  for (uint32_t i = 0; i < count; i++)
    changed += memcmp(&before[i], &recorder->live.slots[i], sizeof(before[i])) != 0;
  return changed;
}

START_TEST(test_a_split_and_a_join_touch_one_slot)
{
  gp_live_slot_t before[8];
  gp_cookie_t segment = {0, 0}, first = {0, 0}, second = {0, 0};
  grow(&segment);
  cut(0, GP_MIB, 1, &first);
  memcpy(before, recorder->live.slots, sizeof(before));
  cut(GP_MIB, GP_MIB, 2, &second);
  ck_assert_uint_eq(count_changed(before, 8), 1);
  tell(GP_ACTION_FREE_REQUESTED, GP_MIB, GP_MIB, 2, true, &second);
  memcpy(before, recorder->live.slots, sizeof(before));
  tell(GP_ACTION_FREE_COMPLETED, GP_MIB, GP_MIB, 2, true, &second);
  ck_assert_uint_eq(count_changed(before, 8), 1);
}
END_TEST

/* Without a lock: each device has its own. */
START_TEST(test_slots_are_used_again_on_their_device)
{
  const gp_observer_t observer = gp_recorder_observer(recorder);
  gp_cookie_t segment = {0, 0}, first = {0, 0}, second = {0, 0}, other = {0, 0};
  grow(&segment);
  cut(0, GP_MIB, 1, &first);
  cut(GP_MIB, GP_MIB, 2, &second);
  const uint32_t given[] = {first.slot, second.slot};
  tell(GP_ACTION_FREE_COMPLETED, 0, GP_MIB, 1, true, &first);
  tell(GP_ACTION_FREE_COMPLETED, GP_MIB, GP_MIB, 2, true, &second);
  const gp_event_t event = {.time_ns = ++now_ns,
      .address = SEGMENT,
      .size = GP_MIB,
      .rounded_size = GP_MIB,
      .block_id = 3,
      .action = GP_ACTION_ALLOC,
      .device = 1,
      .is_cut = true,
      .observer_cookie = &other};
  observer.event(observer.self, &event);
  ck_assert_uint_gt(other.slot, given[1]);
  cut(0, GP_MIB, 4, &first);
  cut(GP_MIB, GP_MIB, 5, &second);
  ck_assert_uint_eq(first.slot, given[1]);
  ck_assert_uint_eq(second.slot, given[0]);
}
END_TEST

/* Each operation, with its event in the record and its slot as it was before. */
START_TEST(test_the_operation_in_flight_is_completed)
{
  gp_cookie_t segment = {0, 0}, first = {0, 0}, killed = {NOT_STORED, 0};
  tell(GP_ACTION_SEGMENT_ALLOC, 0, SEGMENT_SIZE, 0, true, &killed);
  read_record();
  expect_end(1, 0);
  ck_assert_uint_eq(gp_device_copy_block(&record.copies[0], 0)->segment_size, SEGMENT_SIZE);

  grow(&segment);
  cut(0, GP_MIB, 1, &first);
  cut(GP_MIB, GP_MIB, 2, &killed);
  read_record();
  expect_block(0, 0, GP_MIB, GP_BLOCK_ALLOCATED, 1);
  expect_block(1, GP_MIB, GP_MIB, GP_BLOCK_ALLOCATED, 2);
  expect_block(2, 2 * GP_MIB, 6 * GP_MIB, GP_BLOCK_IDLE, 0);
  expect_end(3, 0);

  tell(GP_ACTION_FREE_REQUESTED, 0, GP_MIB, 1, true, &killed);
  read_record();
  expect_block(0, 0, GP_MIB, GP_BLOCK_PENDING, 1);
  expect_end(2, 0);

  tell(GP_ACTION_FREE_REQUESTED, 0, GP_MIB, 1, true, &first);
  tell(GP_ACTION_FREE_COMPLETED, 0, GP_MIB, 1, true, &killed);
  read_record();
  expect_block(0, 0, SEGMENT_SIZE, GP_BLOCK_IDLE, 0);
  expect_end(1, 0);

  tell(GP_ACTION_FREE_COMPLETED, 0, GP_MIB, 1, true, &first);
  cut(0, SEGMENT_SIZE, 3, &killed);
  read_record();
  expect_block(0, 0, SEGMENT_SIZE, GP_BLOCK_ALLOCATED, 3);
  expect_end(1, 0);

  tell(GP_ACTION_SEGMENT_FREE, 0, SEGMENT_SIZE, 0, true, &killed);
  read_record();
  expect_end(0, 0);
}
END_TEST

/* The newest event may be long past when events are not recorded any more. */
START_TEST(test_an_event_from_before_a_pause_completes_nothing)
{
  gp_cookie_t segment = {0, 0}, block = {0, 0};
  grow(&segment);
  cut(0, GP_MIB, 1, &block);
  gp_recorder_set_mode(recorder, GP_TRACE_STATE);
  tell(GP_ACTION_FREE_REQUESTED, 0, GP_MIB, 1, true, &block);
  tell(GP_ACTION_FREE_COMPLETED, 0, GP_MIB, 1, true, &block);
  read_record();
  expect_block(0, 0, SEGMENT_SIZE, GP_BLOCK_IDLE, 0);
  expect_end(1, 0);
}
END_TEST

START_TEST(test_references_and_taint_are_the_blocks_own)
{
  const gp_observer_t observer = gp_recorder_observer(recorder);
  gp_cookie_t segment = {0, 0}, first = {0, 0}, second = {0, 0};
  grow(&segment);
  cut(0, GP_MIB, 1, &first);
  cut(GP_MIB, GP_MIB, 2, &second);
  observer.holders(observer.self, &second, 3, true);
  read_record();
  ck_assert_uint_eq(gp_device_copy_block(&record.copies[0], 0)->refs, 1);
  ck_assert(!gp_device_copy_block(&record.copies[0], 0)->tainted);
  ck_assert_uint_eq(gp_device_copy_block(&record.copies[0], 1)->refs, 3);
  ck_assert(gp_device_copy_block(&record.copies[0], 1)->tainted);
  ck_assert(!gp_device_copy_block(&record.copies[0], 2)->tainted);
}
END_TEST

START_TEST(test_a_block_without_its_segment_is_left_out)
{
  gp_cookie_t segment = {0, 0}, first = {0, 0}, second = {0, 0};
  grow(&segment);
  cut(0, GP_MIB, 1, &first);
  cut(2 * GP_MIB, GP_MIB, 2, &second);
  atomic_store(&slot_of(segment)->word, 0);
  read_record();
  expect_end(0, 2);
  ck_assert_uint_eq(record.document.note_count, 1);
}
END_TEST

/* Its segment came while recording was off. */
START_TEST(test_a_block_whose_segment_was_not_recorded_is_kept)
{
  gp_cookie_t segment = {0, 0}, first = {0, 0}, second = {0, 0};
  gp_recorder_set_mode(recorder, GP_TRACE_OFF);
  grow(&segment);
  ck_assert_uint_eq(segment.slot, 0);
  gp_recorder_set_mode(recorder, GP_TRACE_ALL);
  cut(0, GP_MIB, 1, &first);
  cut(2 * GP_MIB, GP_MIB, 2, &second);
  read_record();
  expect_end(2, 0);
  for (size_t i = 0; i < 2; i++) {
    const gp_block_view_t *block = gp_device_copy_block(&record.copies[0], i);
    ck_assert_uint_eq(block->address, SEGMENT + 2 * i * GP_MIB);
    ck_assert_uint_eq(block->segment_address, block->address);
    ck_assert_uint_eq(block->segment_size, GP_MIB);
  }
}
END_TEST

START_TEST(test_of_blocks_that_overlap_the_newer_one_stays)
{
  gp_cookie_t segment = {0, 0}, first = {0, 0}, second = {0, 0}, third = {0, 0};
  grow(&segment);
  cut(0, GP_MIB, 1, &first);
  cut(GP_MIB, GP_MIB, 2, &second);
  cut(2 * GP_MIB, GP_MIB, 3, &third);
  slot_of(first)->size = GP_MIB + 512;
  slot_of(first)->requested = GP_MIB + 512;
  read_record();
  expect_block(0, 0, GP_MIB, GP_BLOCK_IDLE, 0);
  expect_block(1, GP_MIB, GP_MIB, GP_BLOCK_ALLOCATED, 2);
  expect_block(2, 2 * GP_MIB, GP_MIB, GP_BLOCK_ALLOCATED, 3);
  expect_block(3, 3 * GP_MIB, 5 * GP_MIB, GP_BLOCK_IDLE, 0);
  expect_end(4, 1);

  slot_of(first)->block_id = 9;
  read_record();
  expect_block(0, 0, GP_MIB + 512, GP_BLOCK_ALLOCATED, 9);
  expect_block(1, GP_MIB + 512, GP_MIB - 512, GP_BLOCK_IDLE, 0);
  expect_block(2, 2 * GP_MIB, GP_MIB, GP_BLOCK_ALLOCATED, 3);
  expect_end(4, 1);
}
END_TEST

START_TEST(test_a_block_that_sticks_out_is_left_out)
{
  gp_cookie_t segment = {0, 0}, first = {0, 0}, second = {0, 0};
  grow(&segment);
  cut(0, GP_MIB, 1, &first);
  cut(7 * GP_MIB, GP_MIB, 2, &second);
  slot_of(second)->size = GP_MIB + 1;
  read_record();
  expect_block(0, 0, GP_MIB, GP_BLOCK_ALLOCATED, 1);
  expect_block(1, GP_MIB, 7 * GP_MIB, GP_BLOCK_IDLE, 0);
  expect_end(2, 1);
}
END_TEST

/* Idle memory of a segment has no slot; and a whole block has no parts. */
START_TEST(test_slots_that_cannot_be_are_left_out)
{
  gp_cookie_t segment = {0, 0}, first = {0, 0}, second = {0, 0}, whole = {0, 0};
  grow(&segment);
  cut(0, GP_MIB, 1, &first);
  cut(GP_MIB, GP_MIB, 2, &second);
  tell(GP_ACTION_SEGMENT_ALLOC, 2 * SEGMENT_SIZE, GP_MIB, 0, false, &whole);
  tell(GP_ACTION_ALLOC, 2 * SEGMENT_SIZE, GP_MIB, 3, false, &whole);
  atomic_store(&slot_of(first)->word, gp_live_pack((gp_live_word_t){.state = GP_LIVE_IDLE, .is_cut = true}));
  slot_of(second)->address = SEGMENT + 2 * SEGMENT_SIZE;
  slot_of(second)->size = 512;
  slot_of(second)->requested = 512;
  slot_of(second)->block_id = 4;
  read_record();
  expect_block(0, 0, SEGMENT_SIZE, GP_BLOCK_IDLE, 0);
  expect_end(2, 2);
  const gp_block_view_t *last = gp_device_copy_block(&record.copies[0], 1);
  ck_assert_uint_eq(last->size, GP_MIB);
  ck_assert_uint_eq(last->block_id, 3);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("record");
  TCase *tcase = tcase_create("cut memory");
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_test(tcase, test_a_segment_has_its_blocks_and_what_is_between);
  tcase_add_test(tcase, test_an_idle_segment_is_one_block);
  tcase_add_test(tcase, test_a_block_may_take_its_whole_segment);
  tcase_add_test(tcase, test_a_split_and_a_join_touch_one_slot);
  tcase_add_test(tcase, test_slots_are_used_again_on_their_device);
  tcase_add_test(tcase, test_the_operation_in_flight_is_completed);
  tcase_add_test(tcase, test_an_event_from_before_a_pause_completes_nothing);
  tcase_add_test(tcase, test_references_and_taint_are_the_blocks_own);
  tcase_add_test(tcase, test_a_block_without_its_segment_is_left_out);
  tcase_add_test(tcase, test_a_block_whose_segment_was_not_recorded_is_kept);
  tcase_add_test(tcase, test_of_blocks_that_overlap_the_newer_one_stays);
  tcase_add_test(tcase, test_a_block_that_sticks_out_is_left_out);
  tcase_add_test(tcase, test_slots_that_cannot_be_are_left_out);
  suite_add_tcase(suite, tcase);
  return gp_check_main(suite);
}
