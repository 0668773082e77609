/*
 * What events stand for (interpose/hooks/cuda_events.c): a fact only if no thread can have recorded the event
 * meanwhile.
 */
#include <check.h>

#include "interpose/hooks/cuda_events.h"
#include "test/pool/check_main.h"

static char memory[64];
#define EVENT  ((CUevent)(void *)&memory[16])
#define RECORD ((gp_stream_record_t *)(void *)&memory[32])

static const gp_stream_point_t known = {.stream_record = RECORD, .frees = 3};
static const gp_stream_point_t unknown = {.stream_record = NULL};

static void record(const gp_stream_point_t *point)
{
  gp_event_record_begin(EVENT);
  gp_event_record_end(EVENT, point);
}

static bool gives_a_fact(void)
{
  uint64_t version;
  gp_stream_point_t point = gp_event_take(EVENT, &version);
  return gp_event_still_is(EVENT, version) && point.stream_record == RECORD && point.frees == 3;
}

START_TEST(test_a_record_gives_a_fact)
{
  ck_assert(!gives_a_fact());
  record(&known);
  ck_assert(gives_a_fact());
  record(&unknown); /* in a capture, say */
  ck_assert(!gives_a_fact());
  record(&known);
  ck_assert(gives_a_fact());
  gp_event_forget(EVENT);
  ck_assert(!gives_a_fact());
}
END_TEST

/* A thread waits while another records the event anew: which record it has waited for is not known. */
START_TEST(test_recorded_anew_meanwhile)
{
  uint64_t version;
  record(&known);
  (void)gp_event_take(EVENT, &version);
  gp_event_record_begin(EVENT);
  ck_assert(!gp_event_still_is(EVENT, version));
  ck_assert(!gives_a_fact()); /* nor what it stands for until the driver is back */
  gp_event_record_end(EVENT, &known);
  ck_assert(!gp_event_still_is(EVENT, version));
  ck_assert(gives_a_fact());
  gp_event_forget(EVENT);
  record(&known); /* the handle of another event */
  ck_assert(!gp_event_still_is(EVENT, version));
  gp_event_forget(EVENT);
}
END_TEST

/* Which of two records the driver got last, it alone knows. */
START_TEST(test_overlapping_records)
{
  gp_event_record_begin(EVENT);
  gp_event_record_begin(EVENT);
  gp_event_record_end(EVENT, &known);
  ck_assert(!gives_a_fact());
  gp_event_record_end(EVENT, &known);
  ck_assert(!gives_a_fact());
  record(&known);
  ck_assert(gives_a_fact());
  gp_event_forget(EVENT);
}
END_TEST

START_TEST(test_distrusted)
{
  record(&known);
  gp_event_distrust(EVENT);
  ck_assert(!gives_a_fact());
  record(&known);
  ck_assert(!gives_a_fact());
  gp_event_forget(EVENT);
  record(&known); /* another event of the same handle */
  ck_assert(gives_a_fact());
  gp_event_forget(EVENT);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("cuda_events");
  TCase *events = tcase_create("events");
  tcase_add_test(events, test_a_record_gives_a_fact);
  tcase_add_test(events, test_recorded_anew_meanwhile);
  tcase_add_test(events, test_overlapping_records);
  tcase_add_test(events, test_distrusted);
  suite_add_tcase(suite, events);
  return gp_check_main(suite);
}
