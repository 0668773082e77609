/*
 * Each lock of what the hooks keep about events and about memory of cuMemCreate: threads that do what it
 * guards, with gaps between holds of locks, so that they come in each other's way.
 */
#include <check.h>
#include <stdlib.h>

#include "interpose/hooks/physical_records.h"
#include "interpose/hooks/cuda_events.h"
#include "base/lock.h"
#include "test/pool/check_main.h"
#include "test/pool/run_together.h"

#define GAPS    3
#define THREADS 3
#define ROUNDS  2000

static void setup(void)
{
  gp_lock_leave_gaps(GAPS);
}

static void teardown(void)
{
  gp_lock_leave_gaps(0);
}

/*
 * Events
 */
#define SHARED ROUNDS /* events that all threads record, new ones */
static char memory[THREADS + SHARED];
#define EVENT(number) ((CUevent)(void *)&memory[number])
#define RECORD        ((gp_stream_record_t *)(void *)memory)

static const gp_stream_point_t known = {.stream_record = RECORD};
static uint64_t versions[THREADS][ROUNDS];

static void record_events(uintptr_t number)
{
  uint64_t version;

  for (int i = 0; i < ROUNDS; i++) {
    gp_meet(); /* all make a record of the shared event */
    CUevent shared = EVENT(THREADS + i);
    gp_event_record_begin(EVENT(number));
    gp_event_record_begin(shared);
    ck_assert_ptr_null(gp_event_take(shared, &version).stream_record); /* the driver is at it */
    gp_event_record_end(shared, &known);
    gp_event_record_end(EVENT(number), &known);
    ck_assert_ptr_eq(gp_event_take(EVENT(number), &versions[number][i]).stream_record, RECORD);
    ck_assert(gp_event_still_is(EVENT(number), versions[number][i]));
    if (i % 2)
      gp_event_forget(EVENT(number));
  }
}

static int compare_versions(const void *a, const void *b)
{
  uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;
  return (first > second) - (first < second);
}

START_TEST(test_records_of_events_are_told_apart)
{
  uint64_t version;

  gp_run_together(THREADS, record_events);
  qsort(versions, THREADS * ROUNDS, sizeof(versions[0][0]), compare_versions);
  for (int i = 1; i < THREADS * ROUNDS; i++)
    ck_assert_uint_lt(versions[(i - 1) / ROUNDS][(i - 1) % ROUNDS], versions[i / ROUNDS][i % ROUNDS]);
  /* No thread is at it any more, so that one record is no overlap. */
  for (int i = 0; i < THREADS + SHARED; i++) {
    gp_event_record_begin(EVENT(i));
    gp_event_record_end(EVENT(i), &known);
    ck_assert_ptr_eq(gp_event_take(EVENT(i), &version).stream_record, RECORD);
    gp_event_forget(EVENT(i));
  }
}
END_TEST

/*
 * Memory of cuMemCreate
 */
#define MAPPED 4 /* memory of a thread that only mappings hold */
#define BYTES  4096

static const uint64_t shared_handle = 1;

static uint64_t handle_of(uintptr_t number, int i)
{
  return 100 + number * MAPPED + (uint64_t)i;
}

static uint64_t address_of(uintptr_t number, int i)
{
  return ((number + 1) << 32) + (uint64_t)i * 2 * BYTES;
}

static gp_physical_t *release(uint64_t handle)
{
  gp_physical_t *physical = gp_physical_release(handle);
  ck_assert_ptr_nonnull(physical);
  return gp_physical_released(physical, true);
}

/* Unmaps one mapping; the memory, if that was the last that held it. */
static gp_physical_t *unmap(uint64_t address)
{
  gp_physical_t *over;
  gp_mapping_t *list = gp_physical_unmap(address, BYTES);
  ck_assert_ptr_nonnull(list);
  ck_assert_ptr_null(gp_physical_unmapped(list, &over));
  return over;
}

static void map_memory(uintptr_t number)
{
  for (int round = 0; round < ROUNDS / 10; round++) {
    uint64_t keys[MAPPED];
    for (int i = 0; i < MAPPED; i++) {
      keys[i] = gp_physical_new_key();
      ck_assert(gp_physical_created(handle_of(number, i), keys[i]));
      ck_assert_ptr_nonnull(gp_physical_map(handle_of(number, i), address_of(number, i), BYTES));
      ck_assert_ptr_null(release(handle_of(number, i)));
    }
    gp_physical_retained(shared_handle);
    ck_assert_ptr_nonnull(gp_physical_map(shared_handle, address_of(number, MAPPED), BYTES));
    ck_assert_ptr_null(release(shared_handle));
    gp_physical_retained(handle_of(number, 1)); /* by its mapping */
    ck_assert_ptr_null(unmap(address_of(number, MAPPED)));
    for (int i = 0; i < MAPPED; i++) {
      gp_physical_t *over = unmap(address_of(number, i));
      if (i == 1) {
        ck_assert_ptr_null(over);
        over = release(handle_of(number, i));
      }
      ck_assert_ptr_nonnull(over);
      ck_assert_uint_eq(gp_physical_key(over), keys[i]);
      gp_physical_end(over);
    }
  }
}

START_TEST(test_handles_and_mappings_are_counted)
{
  ck_assert(gp_physical_created(shared_handle, gp_physical_new_key()));
  gp_run_together(THREADS, map_memory);
  gp_physical_t *over = release(shared_handle);
  ck_assert_ptr_nonnull(over);
  gp_physical_end(over);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("hook_threads");
  TCase *locks = tcase_create("locks");
  tcase_add_checked_fixture(locks, setup, teardown);
  tcase_add_test(locks, test_records_of_events_are_told_apart);
  tcase_add_test(locks, test_handles_and_mappings_are_counted);
  suite_add_tcase(suite, locks);
  return gp_check_main(suite);
}
