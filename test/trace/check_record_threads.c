/*
 * Each lock of the record by itself: threads that do what it guards, with gaps between holds of locks, so
 * that they come in each other's way. What is lost or mixed shows in what they wrote; TSan sees the rest.
 */
#include <check.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake_engine.h"
#include "leaks.h"
#include "base/lock.h"
#include "test/pool/check_main.h"
#include "test/pool/run_together.h"
#include "trace/record/recorder_state.h"
#include "trace/snapshot/snapshot.h"

#define GAPS    3
#define THREADS 3

static gp_recorder_t *recorder;

static void setup(void)
{
  fake_reset();
  recorder = gp_recorder_create(fake_options("GPUPOOL_TRACE_EVENTS=16384", NULL), fake_clock, NULL);
  ck_assert_ptr_nonnull(recorder);
  gp_lock_leave_gaps(GAPS);
}

static void teardown(void)
{
  gp_lock_leave_gaps(0);
  gp_recorder_destroy(recorder);
}

/*
 * The table of threads
 */
#define ENTRIES 1000 /* of a thread; all together have room */

static uint16_t indexes[THREADS][ENTRIES];

static void add_threads(uintptr_t number)
{
  for (int i = 0; i < ENTRIES; i++) {
    gp_thread_entry_t entry = {.tid = (int32_t)(number * ENTRIES) + i + 1};
    snprintf(entry.name, sizeof(entry.name), "%d", entry.tid);
    indexes[number][i] = gp_threads_add(&recorder->threads, &entry);
  }
}

START_TEST(test_each_thread_has_an_entry)
{
  gp_run_together(THREADS, add_threads);
  ck_assert_uint_eq(gp_threads_count(&recorder->threads), THREADS * ENTRIES);
  for (int i = 0; i < THREADS * ENTRIES; i++) {
    const gp_thread_entry_t *entry = &recorder->threads.table->entries[indexes[i / ENTRIES][i % ENTRIES]];
    ck_assert_int_eq(entry->tid, i + 1);
    ck_assert_int_eq(atoi(entry->name), i + 1);
  }
}
END_TEST

/*
 * The table of stream handles
 */
#define HANDLES   3000
#define HANDLE(i) (UINT64_C(0x7f0000001000) + (uint64_t)(i)*64)

static int16_t interned[THREADS][HANDLES];

static void intern_handles(uintptr_t number)
{
  for (int i = 0; i < HANDLES; i++)
    interned[number][i] = gp_handles_intern(&recorder->handles, HANDLE(i));
}

START_TEST(test_each_handle_has_one_index)
{
  gp_run_together(THREADS, intern_handles);
  ck_assert_uint_eq(gp_handles_count(&recorder->handles), HANDLES);
  for (int i = 0; i < HANDLES; i++) {
    ck_assert_uint_eq(recorder->handles.table->handles[interned[0][i]], HANDLE(i));
    for (int other = 1; other < THREADS; other++)
      ck_assert_int_eq(interned[other][i], interned[0][i]);
  }
}
END_TEST

/*
 * Marks
 */
#define MARKS 128 /* of a thread: none is overwritten */

static uint64_t next_ns(void *self)
{
  return atomic_fetch_add((_Atomic uint64_t *)self, 1);
}

static void add_marks(uintptr_t number)
{
  static _Atomic uint64_t now_ns = 1;
  static gp_mark_record_t copied[THREADS][GP_MARKS_MAX];

  for (int i = 0; i < MARKS; i++) {
    const gp_mark_record_t mark = {.scope = number * MARKS + (uint64_t)i, .device = -1};
    gp_marks_add(&recorder->marks, &mark, next_ns, &now_ns);
    if (i % 16 == 0) {
      size_t count = gp_marks_copy(&recorder->marks, copied[number]);
      for (size_t at = 1; at < count; at++)
        ck_assert_uint_lt(copied[number][at - 1].time_ns, copied[number][at].time_ns);
    }
  }
}

START_TEST(test_every_mark_is_kept_in_order)
{
  static gp_mark_record_t marks[GP_MARKS_MAX];
  bool is_there[THREADS * MARKS] = {false};

  gp_run_together(THREADS, add_marks);
  ck_assert_uint_eq(gp_marks_copy(&recorder->marks, marks), THREADS * MARKS);
  for (int i = 0; i < THREADS * MARKS; i++) {
    ck_assert(!is_there[marks[i].scope]);
    is_there[marks[i].scope] = true;
    ck_assert(i == 0 || marks[i - 1].time_ns < marks[i].time_ns);
  }
}
END_TEST

/*
 * Slots of live memory: the devices share those that were never taken.
 */
#define BLOCKS 2000

static gp_cookie_t cookies[THREADS][BLOCKS];

static uint64_t address_of(uintptr_t number, int i)
{
  return (UINT64_C(1) << 40) * (number + 1) + (uint64_t)i * 4096;
}

static void add_live(uintptr_t number)
{
  const gp_observer_t observer = gp_recorder_observer(recorder);

  for (int i = 0; i < BLOCKS; i++) {
    const gp_event_t event = {.action = GP_ACTION_FORWARDED_ALLOC,
        .device = (int)number,
        .address = address_of(number, i),
        .size = 4096,
        .rounded_size = 4096,
        .observer_cookie = &cookies[number][i]};
    observer.event(observer.self, &event);
  }
}

START_TEST(test_devices_have_slots_of_their_own)
{
  gp_run_together(THREADS, add_live);
  ck_assert_uint_eq(atomic_load(&recorder->live.used), THREADS * BLOCKS);
  for (int i = 0; i < THREADS * BLOCKS; i++) {
    uint32_t slot = cookies[i / BLOCKS][i % BLOCKS].slot;
    ck_assert_uint_ne(slot, 0);
    ck_assert_uint_eq(
        recorder->live.slots[slot - 1].address, address_of((uintptr_t)(i / BLOCKS), i % BLOCKS));
  }
}
END_TEST

/*
 * Growth of the record, by single pages: two threads want the same ones, the third those of another section.
 */
#define PAGES 64

static const gp_section_t grown[THREADS] = {GP_SECTION_EVENTS, GP_SECTION_EVENTS, GP_SECTION_LIVE};

static void grow(uintptr_t number)
{
  size_t page = (size_t)sysconf(_SC_PAGESIZE);

  for (size_t pages = 1; pages <= PAGES; pages++) {
    ck_assert(gp_region_grow(&recorder->region, grown[number], pages * page));
  }
}

START_TEST(test_pages_of_all_sections_are_counted)
{
  size_t sum = 0;

  gp_run_together(THREADS, grow);
  for (gp_section_t section = 0; section < GP_SECTION_COUNT; section++)
    sum += gp_region_used(&recorder->region, section);
  ck_assert_uint_eq(sum, recorder->region.present);
  for (int i = 0; i < THREADS; i++)
    ck_assert_uint_eq(gp_region_used(&recorder->region, grown[i]), PAGES * (size_t)sysconf(_SC_PAGESIZE));
}
END_TEST

/*
 * Events from before the record: as many as there is room for, and one thread that records them.
 */
#define KEPT 40 /* of a thread; together more than there is room for */

static gp_prestart_t prestart;
static atomic_int kept, ended;

static void keep_events(uintptr_t number)
{
  for (uint64_t i = 0; i < KEPT; i++) {
    const gp_event_t event = {.block_id = number * KEPT + i, .device = -1};
    atomic_fetch_add(&kept, gp_prestart_keep(&prestart, &event));
  }
  atomic_fetch_add(&ended, gp_prestart_end(&prestart));
}

START_TEST(test_events_before_the_record_are_kept_once)
{
  for (int round = 0; round < 20; round++) {
    bool is_there[THREADS * KEPT] = {false};
    memset(&prestart, 0, sizeof(prestart));
    gp_prestart_init(&prestart);
    atomic_store(&kept, 0);
    atomic_store(&ended, 0);
    gp_run_together(THREADS, keep_events);
    ck_assert_int_eq(atomic_load(&ended), 1);
    ck_assert_uint_eq(prestart.count, (unsigned)atomic_load(&kept));
    ck_assert_uint_ge(prestart.count, KEPT);
    for (unsigned i = 0; i < prestart.count; i++) {
      ck_assert(!is_there[prestart.events[i].event.block_id]);
      is_there[prestart.events[i].event.block_id] = true;
    }
    gp_prestart_fini(&prestart);
  }
}
END_TEST

/*
 * The chunk that threads share when no other is left
 */
#define SHARED 1000 /* events of a thread */

static void share_a_chunk(uintptr_t number)
{
  for (uint64_t i = 0; i < SHARED; i++) {
    const gp_event_record_t record = {.time_ns = 1000 + i, .address = number * SHARED + i};
    ck_assert_uint_eq(
        gp_chunks_rotate(&recorder->chunks, GP_CHUNK_NONE, 0, (uint32_t)number, &record), GP_CHUNK_NONE);
  }
}

START_TEST(test_a_shared_chunk_counts_every_event)
{
  const gp_event_record_t record = {.time_ns = 1000};
  gp_chunks_t *chunks = &recorder->chunks;

  for (uint32_t owner = 0; gp_chunks_rotate(chunks, GP_CHUNK_NONE, 0, owner, &record) != GP_CHUNK_NONE;)
    owner++; /* the last of them shares */
  uint64_t dropped = chunks->header->dropped;
  uint32_t before = atomic_load(&chunks->chunks[0].count);
  gp_run_together(THREADS, share_a_chunk);
  uint64_t added = chunks->header->dropped - dropped;
  ck_assert_uint_eq(added + atomic_load(&chunks->chunks[0].count), before + THREADS * SHARED);
  for (uint32_t i = 1; i < atomic_load(&chunks->chunks[0].count); i++)
    ck_assert_uint_ne(gp_chunks_records(chunks, 0)[i].address, gp_chunks_records(chunks, 0)[i - 1].address);
}
END_TEST

/*
 * Snapshots: a number each, and each a file of its own.
 */
#define SNAPSHOTS 5 /* of a thread; all together are fewer than a process may write */

static gp_snapshot_writer_t *writer;
static char folder[] = "/tmp/check_record_threads.XXXXXX";

static void write_snapshots(uintptr_t number)
{
  for (int i = 0; i < SNAPSHOTS; i++)
    ck_assert_int_eq(gp_snapshot_write(writer, "test", NULL, NULL), 0);
}

static bool ends_whole(const char *path)
{
  char last[2] = "";
  FILE *file = fopen(path, "r");

  ck_assert_msg(file != NULL, "%s is missing", path);
  bool is_whole =
      fseek(file, -2, SEEK_END) == 0 && fread(last, 1, 2, file) == 2 && memcmp(last, "}\n", 2) == 0;
  (void)fclose(file);
  return is_whole;
}

START_TEST(test_each_snapshot_is_a_file_of_its_own)
{
  char text[128];

  fake_fill();
  ck_assert_ptr_nonnull(mkdtemp(folder));
  snprintf(text, sizeof(text), "GPUPOOL_OUTPUT=%s/%%n.json", folder);
  gp_recorder_destroy(recorder);
  recorder = gp_recorder_create(fake_options(text, NULL), fake_clock, NULL);
  ck_assert_ptr_nonnull(recorder);
  writer = gp_snapshot_writer_create(recorder);
  ck_assert_ptr_nonnull(writer);
  gp_snapshot_writer_attach(writer, fake_engine_pointer());
  gp_run_together(THREADS, write_snapshots);
  for (int i = 1; i <= THREADS * SNAPSHOTS; i++) {
    snprintf(text, sizeof(text), "%s/%d.json", folder, i);
    ck_assert_msg(ends_whole(text), "%s is cut", text);
    ck_assert_int_eq(unlink(text), 0);
  }
  gp_snapshot_writer_destroy(writer);
  ck_assert_int_eq(rmdir(folder), 0);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("record_threads");
  TCase *locks = tcase_create("locks");
  gp_add_leak_fixtures(locks);
  tcase_add_checked_fixture(locks, setup, teardown);
  tcase_add_test(locks, test_each_thread_has_an_entry);
  tcase_add_test(locks, test_each_handle_has_one_index);
  tcase_add_test(locks, test_every_mark_is_kept_in_order);
  tcase_add_test(locks, test_devices_have_slots_of_their_own);
  tcase_add_test(locks, test_pages_of_all_sections_are_counted);
  tcase_add_test(locks, test_events_before_the_record_are_kept_once);
  tcase_add_test(locks, test_a_shared_chunk_counts_every_event);
  tcase_add_test(locks, test_each_snapshot_is_a_file_of_its_own);
  suite_add_tcase(suite, locks);
  return gp_check_main(suite);
}
