/*
 * The lifetimes of a snapshot: what was live at any moment, with the whole history and with its end only.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/model/lifetimes.h"
#include "tools/model/memory.h"
#include "tools/read/native/snapshot_reader.h"
#include "test/pool/check_main.h"

static const gp_filter_t everything = {.device = GP_REQUEST_ALL_DEVICES, .until_ns = UINT64_MAX};

#define HEAD                                                                                                 \
  "{\"format\":\"gpupool-snapshot\",\"version\":1,\"reason\":\"exit\",\"process\":{},\"settings\":{},"       \
  "\"devices\":[],"                                                                                          \
  "\"streams\":[{\"handle\":\"0x0\"},{\"handle\":\"0x70\"}],\"threads\":[{\"tid\":1,\"name\":\"a\"},{"       \
  "\"tid\":2,\"name\":"                                                                                      \
  "\"b\"}],\"stacks\":[],\"frames\":[],\"modules\":[],\"recorded_since_ns\":0,\"dropped_events\":0,"
#define BLOCK(address, size, requested, number, state)                                                       \
  "{\"device\":0,\"address\":" #address ",\"total_size\":" #size ",\"blocks\":[{\"address\":" #address       \
  ",\"size\":" #size ",\"requested_size\":" #requested ",\"block\":" #number ",\"state\":\"" state           \
  "\",\"stack\":-1,\"stream\":1,\"time_ns\":40}]}"

/*
 * Block 1 of 100 bytes (128), freed at once; block 2 of 300 (512) in a segment of its own; then block 1's
 * memory becomes block 3 of 90. At the end 2 and 3 are held, beside 1000 bytes of managed and 70 of host
 * memory.
 */
#define EVENTS                                                                                               \
  "\"events\":{\"actions\":[\"segment_alloc\",\"alloc\",\"free_requested\",\"free_completed\","              \
  "\"passthrough_alloc\","                                                                                   \
  "\"passthrough_free\"],\"details\":[\"\",\"managed\",\"pinned_host\"],"                                    \
  "\"action\":[0,1,2,0,1,3,1,4,4,5,4],\"time_ns\":[1,10,20,21,30,35,40,50,60,65,70],"                        \
  "\"device\":[0,0,0,0,0,0,0,0,0,0,0],\"stream\":[-1,0,0,-1,0,0,1,-1,-1,-1,-1],\"thread\":[0,0,0,0,0,0,1,0," \
  "0,0,0],"                                                                                                  \
  "\"address\":[4096,4096,4096,8192,8192,4096,4096,777,888,888,999],"                                        \
  "\"size\":[128,100,100,512,300,100,90,1000,5000,5000,70],"                                                 \
  "\"rounded_size\":[128,128,128,512,512,128,128,0,0,0,0],\"block\":[0,1,1,0,2,1,3,4,5,5,6],"                \
  "\"hit\":[0,0,0,0,0,0,1,0,0,0,0],\"duration_ns\":[0,0,0,0,0,0,0,0,0,0,0],"                                 \
  "\"lifetime_ns\":[0,0,10,0,0,25,0,0,0,5,0],\"stack\":[-1,-1,-1,-1,-1,-1,-1,-1,-1,-1,-1],"                  \
  "\"detail\":[0,0,0,0,0,0,0,1,1,1,2]}"
#define SEGMENTS                                                                                             \
  "\"segments\":[" BLOCK(4096, 128, 90, 3, "active_allocated") "," BLOCK(                                    \
      8192, 512, 300, 2, "active_allocated") "],"
#define FORWARDED                                                                                            \
  "\"passthrough\":[{\"device\":0,\"address\":777,\"size\":1000,\"kind\":\"managed\",\"block\":4,\"stack\":" \
  "-1,"                                                                                                      \
  "\"stream\":-1,\"time_ns\":50},{\"device\":0,\"address\":999,\"size\":70,\"kind\":\"pinned_host\","        \
  "\"block\":6,"                                                                                             \
  "\"stack\":-1,\"stream\":-1,\"time_ns\":70}],"

static gp_snapshot_t *snapshot;
static gp_lifetimes_t lifetimes;

static void read_history(const char *text)
{
  gp_snapshot_error_t error;
  snapshot = gp_snapshot_parse(text, strlen(text), (1u << GP_COLUMN_COUNT) - 1, &error);
  ck_assert_msg(snapshot != NULL, "%zu: %s", error.offset, error.text);
  ck_assert_int_eq(gp_lifetimes_init(&lifetimes, snapshot), 0);
}

static void teardown(void)
{
  gp_lifetimes_fini(&lifetimes);
  gp_snapshot_destroy(snapshot);
}

static const gp_life_t *life_of(uint64_t block)
{
  for (size_t i = 0; i < lifetimes.life_count; i++) {
    if (lifetimes.lives[i].block == block)
      return &lifetimes.lives[i];
  }
  ck_abort_msg("no block %llu", (unsigned long long)block);
}

/* Step by step, and the same at once. */
static gp_memory_t memory_at(uint32_t moment)
{
  gp_memory_walk_t walk;
  gp_memory_t at_once;
  gp_memory_walk_begin(&walk, &lifetimes, NULL, NULL, 0);
  while (walk.moment < moment)
    ck_assert(gp_memory_walk_next(&walk));
  gp_memory_held(&lifetimes, NULL, 0, moment, false, &at_once);
  ck_assert_mem_eq(&at_once, &walk.memory, sizeof(at_once));
  return at_once;
}

START_TEST(test_lives_begin_and_end_with_their_events)
{
  read_history(HEAD SEGMENTS FORWARDED EVENTS "}");
  ck_assert_uint_eq(lifetimes.life_count, 6);
  ck_assert_uint_eq(lifetimes.end, 11);
  const gp_life_t *first = life_of(1);
  ck_assert_uint_eq(first->begin, 2);
  ck_assert_uint_eq(first->freed, 3);
  ck_assert_uint_eq(first->done, 6);
  ck_assert_uint_eq(first->requested, 100);
  ck_assert_uint_eq(first->rounded, 128);
  ck_assert(first->is_temporary);
  ck_assert(!first->is_held);
  const gp_life_t *second = life_of(2);
  ck_assert_uint_eq(second->freed, GP_LIFETIMES_NEVER);
  ck_assert(second->is_held);
  ck_assert_int_eq(life_of(3)->thread, 1);
  ck_assert_int_eq(life_of(3)->stream, 1);
  ck_assert_uint_eq(life_of(4)->kind, GP_LIFE_FORWARDED);
  ck_assert_uint_eq(life_of(6)->kind, GP_LIFE_HOST);
  ck_assert(life_of(5)->is_temporary);
}
END_TEST

START_TEST(test_memory_adds_up_at_every_moment)
{
  read_history(HEAD SEGMENTS FORWARDED EVENTS "}");
  gp_memory_t begin = memory_at(0), middle = memory_at(5), end = memory_at(11);
  ck_assert_uint_eq(begin.reserved + begin.allocated + begin.deferred + begin.forwarded + begin.count, 0);
  ck_assert_uint_eq(middle.reserved, 640);
  ck_assert_uint_eq(middle.allocated, 512);
  ck_assert_uint_eq(middle.deferred, 128);
  ck_assert_uint_eq(end.requested, 390);
  ck_assert_uint_eq(end.allocated, 640);
  ck_assert_uint_eq(end.deferred, 0);
  ck_assert_uint_eq(end.forwarded, 1000);
  ck_assert_uint_eq(end.count, 3); /* host memory aside */
}
END_TEST

START_TEST(test_the_peak_is_of_what_is_wanted)
{
  uint64_t bytes;
  read_history(HEAD SEGMENTS FORWARDED EVENTS "}");
  ck_assert_uint_eq(gp_memory_peak(&lifetimes, &everything, 0, &bytes), 9);
  ck_assert_uint_eq(bytes, 390 + 1000 + 5000);
  bool streams[] = {true, false};
  gp_filter_t filter = everything;
  filter.streams = streams;
  ck_assert_uint_eq(gp_memory_peak(&lifetimes, &filter, 0, &bytes), 5);
  ck_assert_uint_eq(bytes, 300);
  filter = everything;
  filter.until_ns = 29;
  ck_assert_uint_eq(gp_memory_peak(&lifetimes, &filter, 0, &bytes), 2);
  ck_assert_uint_eq(bytes, 100);
  ck_assert_uint_eq(gp_memory_peak(&lifetimes, &everything, 1, &bytes), 0);
  ck_assert_uint_eq(bytes, 0);
}
END_TEST

/* Of the same history only the last events are left: what began before is found by its end, or in the
 * segments. */
START_TEST(test_what_began_before_the_events_is_found)
{
  read_history(HEAD SEGMENTS FORWARDED
      "\"events\":{\"actions\":[\"free_completed\",\"alloc\",\"passthrough_free\"],\"details\":[\"\",\"managed\"],\"action\":[0,1,2],\"time_ns\":[35,40,65],\"device\":[0,0,0],\"stream\":[0,1,-1],\"thread\":[0,1,0],\"address\":[4096,4096,888],\"size\":[100,90,5000],\"rounded_size\":[128,128,0],\"block\":[1,3,5],\"hit\":[0,1,0],\"duration_ns\":[0,0,0],\"lifetime_ns\":[25,0,5],\"stack\":[-1,-1,-1],\"detail\":[0,0,1]}}");
  ck_assert_uint_eq(life_of(1)->begin, 0);
  ck_assert_uint_eq(life_of(1)->freed, 0);
  ck_assert_uint_eq(life_of(1)->begin_ns, 10);
  ck_assert_uint_eq(life_of(2)->begin, 0);
  ck_assert_uint_eq(life_of(2)->begin_ns, 40);
  ck_assert(!life_of(5)->is_temporary); /* the events do not say */
  gp_memory_t begin = memory_at(0), end = memory_at(3);
  ck_assert_uint_eq(begin.reserved, 640);
  ck_assert_uint_eq(begin.allocated, 512);
  ck_assert_uint_eq(begin.deferred, 128);
  ck_assert_uint_eq(begin.forwarded, 6000);
  ck_assert_uint_eq(end.allocated, 640);
  ck_assert_uint_eq(end.deferred, 0);
  ck_assert_uint_eq(end.forwarded, 1000);
  uint64_t bytes;
  ck_assert_uint_eq(gp_memory_peak(&lifetimes, &everything, 0, &bytes), 2);
  ck_assert_uint_eq(bytes, 6390);
}
END_TEST

START_TEST(test_moments_and_times_belong_together)
{
  read_history(HEAD SEGMENTS FORWARDED EVENTS "}");
  ck_assert_uint_eq(gp_memory_moment(&lifetimes, 0), 0);
  ck_assert_uint_eq(gp_memory_moment(&lifetimes, 1), 1);
  ck_assert_uint_eq(gp_memory_moment(&lifetimes, 29), 4);
  ck_assert_uint_eq(gp_memory_moment(&lifetimes, UINT64_MAX), 11);
  ck_assert_uint_eq(gp_memory_time(&lifetimes, 0), 0);
  ck_assert_uint_eq(gp_memory_time(&lifetimes, 4), 21);
}
END_TEST

#define HUGE_SIZE "9007199254740991"

/* Valid, and nonsense: frees of what was not there, twice; the same block twice; the largest numbers there
 * are. */
START_TEST(test_nonsense_is_counted_and_does_no_harm)
{
  char text[65536], columns[14][4096] = {{0}};
  enum { COUNT = 240 };
  for (int i = 0; i < COUNT; i++) {
    const char *comma = i ? "," : "";
    size_t at = strlen(columns[0]);
    snprintf(columns[0] + at, sizeof(columns[0]) - at, "%s%d", comma, (i * 7) % 6);
    at = strlen(columns[1]);
    snprintf(columns[1] + at, sizeof(columns[1]) - at, "%s%d", comma, i % 3);
    at = strlen(columns[2]);
    snprintf(columns[2] + at, sizeof(columns[2]) - at, "%s%d", comma, i % 5 - 1);
  }
  static char sizes[COUNT * 20];
  for (int i = 0; i < COUNT; i++)
    strcat(strcat(sizes, i ? "," : ""), HUGE_SIZE);
  snprintf(text, sizeof(text),
      HEAD
      "\"segments\":[],\"passthrough\":[],\"events\":{\"actions\":[\"segment_alloc\",\"alloc\",\"free_requested\",\"free_completed\",\"passthrough_alloc\",\"passthrough_free\"],\"details\":[\"\"],\"action\":[%s],\"block\":[%s],\"device\":[%s],\"size\":[%s],\"rounded_size\":[%s],\"lifetime_ns\":[%s]}}",
      columns[0], columns[1], columns[2], sizes, sizes, sizes);
  read_history(text);
  for (int device = 0; device < 4; device++) {
    uint64_t bytes;
    ck_assert_uint_le(gp_memory_peak(&lifetimes, &everything, device, &bytes), lifetimes.end);
  }
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("lifetimes");
  TCase *cases = tcase_create("lifetimes");
  tcase_add_checked_fixture(cases, NULL, teardown);
  tcase_add_test(cases, test_lives_begin_and_end_with_their_events);
  tcase_add_test(cases, test_memory_adds_up_at_every_moment);
  tcase_add_test(cases, test_the_peak_is_of_what_is_wanted);
  tcase_add_test(cases, test_what_began_before_the_events_is_found);
  tcase_add_test(cases, test_moments_and_times_belong_together);
  tcase_add_test(cases, test_nonsense_is_counted_and_does_no_harm);
  suite_add_tcase(suite, cases);
  return gp_check_main(suite);
}
