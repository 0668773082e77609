/*
 * What an out of memory says: the line about the figures, and the advice that follows from them.
 */
#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "base/size.h"
#include "test/pool/check_main.h"
#include "trace/snapshot/oom_advice.h"
#include "trace/snapshot/oom_report.h"
#include "trace/stacks/asker.h"

static const gp_oom_t example = {
    .requested = 2 * GP_GIB,
    .live = 7 * GP_GIB,
    .deferred = 512 * GP_MIB,
    .cached = 256 * GP_MIB,
    .passthrough = 64 * GP_MIB,
    .limit = 8 * GP_GIB,
    .largest_free = 128 * GP_MIB,
    .device_free = 70 * GP_GIB,
    .device_total = 80 * GP_GIB,
    .owners = {{160 * GP_MIB, 12}, {GP_GIB, 1}},
    .device = 3,
    .by_limit = true,
};

START_TEST(test_oom_line_says_what_matters)
{
  char text[GP_OOM_TEXT_BYTES];
  ck_assert_str_eq(gp_oom_describe(&example, NULL, text, sizeof(text)),
      "out of memory on device 3: requested 2 GiB; the program uses 7 GiB and 64 MiB forwarded (not pooled), freed but still in use 512 MiB, cached 256 MiB (largest idle block 128 MiB); limit 8 GiB; the device has 70 GiB free of 80 GiB; largest groups: 12 x 160 MiB, 1 x 1 GiB");
}
END_TEST

START_TEST(test_oom_line_says_what_asked)
{
  char text[GP_OOM_TEXT_BYTES];
  gp_oom_describe(&example, "grow (libmodel.so)", text, sizeof(text));
  ck_assert_msg(strstr(text, "requested 2 GiB in grow (libmodel.so); the program uses") != NULL, "%s", text);
}
END_TEST

static const struct {
  gp_oom_t oom;
  const char *advice;
  const char *remedy; /* NAME=VALUE; NULL: none */
} advice_cases[] = {
    {{.requested = 90 * GP_GIB, .device_total = 80 * GP_GIB},
        "The request exceeds the memory of the device: no setting helps", NULL},
    {{.requested = GP_GIB, .device_free = GP_MIB, .device_total = 80 * GP_GIB, .unaccounted = 79 * GP_GIB},
        "1023 MiB short, with no cached memory left to release: other processes and CUDA itself use 79 GiB of the device (gpupool ps)",
        NULL},
    {{.requested = 5900 * GP_MIB,
         .cached = GP_GIB,
         .device_free = 3 * GP_GIB,
         .device_total = 12 * GP_GIB,
         .unaccounted = 5 * GP_GIB},
        "1.8 GiB short, even after releasing all cached memory: other processes and CUDA itself use 5 GiB of the device",
        NULL},
    {{.requested = GP_GIB, .live = 77 * GP_GIB, .deferred = 2 * GP_GIB, .device_total = 80 * GP_GIB},
        "the library may not call the driver now", NULL},
    {{.requested = GP_GIB, .live = 78 * GP_GIB, .device_free = 2 * GP_GIB, .device_total = 80 * GP_GIB},
        "not in one piece", NULL},
    {{.requested = GP_GIB, .live = 79 * GP_GIB}, "No cached memory is left to release", NULL},
    {{.requested = 3 * GP_GIB,
         .live = GP_GIB,
         .deferred = GP_GIB,
         .cached = 6 * GP_GIB,
         .limit = 8 * GP_GIB,
         .by_limit = true},
        "the library may not call the driver now", NULL},
    {{.requested = UINT64_MAX, .live = GP_GIB, .limit = GP_GIB, .by_limit = true}, "even without the limit",
        NULL},
    {{.requested = GP_GIB, .busy_context = 1, .cached = GP_GIB}, "set GPUPOOL_PATIENCE=60",
        "GPUPOOL_PATIENCE=60"},
    /* In pieces */
    {{.requested = GP_GIB,
         .live = 76 * GP_GIB,
         .cached = 3 * GP_GIB,
         .in_pieces = 2 * GP_GIB,
         .device_total = 80 * GP_GIB},
        "2 GiB is idle, but in pieces between blocks in use, each too small", NULL},
    {{.requested = 3 * GP_GIB,
         .cached = 2 * GP_GIB,
         .in_pieces = 2 * GP_GIB,
         .device_free = GP_GIB,
         .device_total = 80 * GP_GIB},
        "2 GiB is idle, but in pieces", NULL},
    {{.requested = 4 * GP_GIB,
         .cached = 2 * GP_GIB,
         .in_pieces = 2 * GP_GIB,
         .device_free = GP_GIB,
         .device_total = 80 * GP_GIB},
        "3 GiB short, even after releasing all cached memory", NULL},
    {{.requested = 420 * GP_MIB,
         .cached = 6 * GP_MIB,
         .device_free = 390 * GP_MIB,
         .device_total = 24 * GP_GIB},
        "24 MiB short, even after releasing all cached memory", NULL},
    {{.requested = GP_GIB,
         .deferred = 2 * GP_GIB,
         .quiet_in_pieces = 2 * GP_GIB,
         .quiet_largest = GP_MIB,
         .device_total = 80 * GP_GIB},
        "1 GiB short, with no cached memory left to release", NULL},
    {{.requested = GP_GIB,
         .deferred = GP_GIB,
         .cached = GP_GIB,
         .in_pieces = GP_GIB,
         .quiet_in_pieces = 2 * GP_GIB,
         .quiet_largest = GP_MIB,
         .busy_context = 1,
         .device_total = 80 * GP_GIB},
        "1 GiB is idle, but in pieces", NULL},
    {{.requested = GP_GIB,
         .deferred = GP_GIB,
         .quiet_in_pieces = GP_GIB,
         .quiet_largest = GP_GIB,
         .busy_context = 1,
         .device_total = 80 * GP_GIB},
        "synchronize only that stream", "GPUPOOL_PATIENCE=60"},
    {{.requested = GP_GIB,
         .live = 7 * GP_GIB,
         .deferred = GP_GIB,
         .quiet_in_pieces = GP_GIB,
         .quiet_largest = GP_MIB,
         .busy_context = 1,
         .limit = 8 * GP_GIB,
         .by_limit = true},
        "this request needs at least 9 GiB", NULL},
    {{.requested = 2 * GP_GIB,
         .in_pieces = 2 * GP_GIB,
         .limit = 8 * GP_GIB,
         .device_free = GP_GIB,
         .device_total = 80 * GP_GIB,
         .by_limit = true},
        "2 GiB is idle, but in pieces", NULL},
};

static void expect_advice(const gp_oom_advice_t *advice, const char *text, const char *remedy)
{
  char setting[GP_OOM_VALUE_BYTES + 32];
  snprintf(setting, sizeof(setting), "%s=%s", advice->setting, advice->value);
  ck_assert_msg(strstr(advice->text, text) != NULL, "%s", advice->text);
  ck_assert_pstr_eq(advice->setting ? setting : NULL, remedy);
}

START_TEST(test_oom_advice_follows_the_figures)
{
  gp_oom_advice_t advice;
  gp_oom_advise(&advice_cases[_i].oom, "none", &advice);
  expect_advice(&advice, advice_cases[_i].advice, advice_cases[_i].remedy);
}
END_TEST

/* Of device 1, whose limit is 1 GiB of 80 GiB, of which 70 GiB are free, and that holds 512 MiB. */
static const struct {
  const char *limits;
  uint64_t requested;
  const char *text, *value;
} limit_cases[] = {
    {"1GiB", GP_GIB,
        "The limit was reached: this request alone needs 512 MiB more; set GPUPOOL_LIMIT=1536MiB", "1536MiB"},
    {"1GiB", GP_GIB + 1, "GPUPOOL_LIMIT=1538MiB", "1538MiB"},
    {"1GiB", 20 * GP_GIB, "GPUPOOL_LIMIT=21GiB", "21GiB"},
    {"1GiB", 71 * GP_GIB, "It would not fit on the device even without the limit", NULL},
    {"0=8GiB,1=1024MiB,2=4GiB", GP_GIB, "GPUPOOL_LIMIT=0=8GiB,1=1536MiB,2=4GiB", "0=8GiB,1=1536MiB,2=4GiB"},
    {"1=5GiB,0=50%,1=1GiB", GP_GIB, "GPUPOOL_LIMIT=1=5GiB,0=50%,1=1536MiB", "1=5GiB,0=50%,1=1536MiB"},
    {"1%", GP_GIB, "GPUPOOL_LIMIT=2%", "2%"},
    {"0=1GiB,1=1%", 39 * GP_GIB + 512 * GP_MIB, "GPUPOOL_LIMIT=0=1GiB,1=51%", "0=1GiB,1=51%"},
    {"none", GP_GIB, "changed while the program ran; this request needs at least 1.5 GiB", NULL},
    {"0=4GiB", GP_GIB, "changed while the program ran", NULL},
    {"2GiB", GP_GIB, "changed while the program ran", NULL},
};

/* Pieces count, since they do not go back. */
START_TEST(test_oom_advice_of_a_limit_has_room_for_pieces)
{
  gp_oom_t oom = {.requested = GP_GIB,
      .live = GP_GIB,
      .cached = GP_GIB,
      .in_pieces = GP_GIB,
      .limit = 2 * GP_GIB,
      .device_free = 70 * GP_GIB,
      .device_total = 80 * GP_GIB,
      .by_limit = true};
  gp_oom_advice_t advice;
  gp_oom_advise(&oom, "2GiB", &advice);
  expect_advice(&advice, "needs 1 GiB more; set GPUPOOL_LIMIT=3072MiB", "GPUPOOL_LIMIT=3072MiB");
}
END_TEST

/* Of many blocks alike the next one would be refused as well: the text has no limit to try, the remedy has.
 */
START_TEST(test_oom_advice_of_a_limit_that_only_postpones)
{
  gp_oom_t oom = {.requested = 8 * GP_MIB,
      .live = GP_GIB,
      .limit = GP_GIB,
      .device_free = 70 * GP_GIB,
      .device_total = 80 * GP_GIB,
      .by_limit = true,
      .owners = {{900 * GP_MIB, 1}, {8 * GP_MIB, 7}}};
  gp_oom_advice_t advice;
  gp_oom_advise(&oom, "1GiB", &advice);
  expect_advice(&advice, "alone needs 8 MiB more; set GPUPOOL_LIMIT=1032MiB", "GPUPOOL_LIMIT=1032MiB");
  oom.owners[1].count++;
  gp_oom_advise(&oom, "1GiB", &advice);
  expect_advice(&advice, "GPUPOOL_LIMIT is too low by 8 MiB, and 8 blocks of that size are already in use",
      "GPUPOOL_LIMIT=1032MiB");
}
END_TEST

/* A share of more than the device is none. */
START_TEST(test_oom_advice_names_no_share_that_cannot_be)
{
  gp_oom_t oom = {.requested = 60 * GP_GIB,
      .live = 20 * GP_GIB,
      .in_pieces = 10 * GP_GIB,
      .limit = 40 * GP_GIB,
      .device_free = 70 * GP_GIB,
      .device_total = 80 * GP_GIB,
      .by_limit = true};
  gp_oom_advice_t advice;
  gp_oom_advise(&oom, "50%", &advice);
  ck_assert_str_eq(advice.text, "The limit was reached");
  ck_assert_ptr_null(advice.setting);
}
END_TEST

START_TEST(test_oom_advice_keeps_the_limits_of_the_other_devices)
{
  gp_oom_t oom = {.requested = limit_cases[_i].requested,
      .live = 512 * GP_MIB,
      .limit = GP_GIB,
      .device_free = 70 * GP_GIB,
      .device_total = 80 * GP_GIB,
      .device = 1,
      .by_limit = true};
  gp_oom_advice_t advice;
  gp_oom_advise(&oom, limit_cases[_i].limits, &advice);
  ck_assert_msg(strstr(advice.text, limit_cases[_i].text) != NULL, "%s", advice.text);
  if (!limit_cases[_i].value) {
    ck_assert_ptr_null(advice.setting);
    return;
  }
  ck_assert_str_eq(advice.setting, "GPUPOOL_LIMIT");
  ck_assert_str_eq(advice.value, limit_cases[_i].value);
}
END_TEST

/* A malformed limit is none, and refuses everything; one of 0 is what was asked for. */
START_TEST(test_oom_advice_knows_a_malformed_limit)
{
  gp_oom_t oom = {.requested = GP_MIB, .by_limit = true};
  gp_oom_advice_t advice;
  gp_oom_advise(&oom, "none", &advice);
  expect_advice(&advice, "GPUPOOL_LIMIT is malformed", "GPUPOOL_LIMIT=none");
  gp_oom_advise(&oom, "0", &advice);
  expect_advice(&advice, "needs 1 MiB more; set GPUPOOL_LIMIT=1MiB", "GPUPOOL_LIMIT=1MiB");
}
END_TEST

START_TEST(test_oom_of_page_locked_memory)
{
  const gp_oom_t oom = {.requested = 100,
      .counted = 4 * GP_KIB,
      .live = 62 * GP_MIB,
      .limit = 62 * GP_MIB,
      .owners = {{2 * GP_MIB, 31}},
      .by_limit = GP_OOM_BY_HOST_LIMIT};
  gp_oom_advice_t advice;
  char text[GP_OOM_TEXT_BYTES];

  ck_assert_str_eq(gp_oom_describe(&oom, "f (app)", text, sizeof(text)),
      "out of page-locked host memory: requested 100 B in f (app); the program uses 62 MiB; limit 62 MiB; largest groups: 31 x 2 MiB");
  gp_oom_advise(&oom, "62MiB", &advice);
  expect_advice(&advice,
      "The limit was reached: this request alone needs 4 KiB more; set GPUPOOL_HOST_LIMIT=63MiB",
      "GPUPOOL_HOST_LIMIT=63MiB");
  gp_oom_advise(&oom, "none", &advice);
  expect_advice(&advice, "GPUPOOL_HOST_LIMIT is malformed", "GPUPOOL_HOST_LIMIT=none");
}
END_TEST

START_TEST(test_oom_advice_is_no_longer_than_its_place)
{
  gp_oom_t oom = {.requested = GP_GIB, .limit = GP_GIB, .live = GP_GIB, .device = 3, .by_limit = true};
  char limits[GP_OPTION_TEXT_BYTES];
  gp_oom_advice_t advice;
  size_t used = 0;
  for (int device = 0; device < GP_OPTION_DEVICES; device++)
    used += (size_t)snprintf(limits + used, sizeof(limits) - used, "%s%d=1GiB", device ? "," : "", device);
  gp_oom_advise(&oom, limits, &advice);
  ck_assert_str_eq(advice.text, "The limit was reached");
  ck_assert_ptr_null(advice.setting);
}
END_TEST

static const struct {
  gp_oom_t oom;
  const char *facts;
} busy_cases[] = {
    {{.requested = GP_GIB,
         .deferred = 2 * GP_GIB,
         .waited_ns = 2040000000,
         .busy_ns = 3190000000,
         .busy_context = 1},
        "; the device is busy: work submitted to context 1 at least 3.1 s ago is not complete, so 2 GiB of freed memory is still in use; the allocation waited 2.0 s"},
    {{.requested = GP_GIB, .cached = 2 * GP_GIB, .waited_ns = 1000000000, .busy_context = 7},
        "; the device is busy: work submitted to context 7 is not complete, so 2 GiB of cached memory cannot be released; the allocation waited 1.0 s"},
    {{.requested = GP_GIB, .cached = 2 * GP_GIB, .waited_ns = 10000000, .busy_context = 7},
        "; the device is busy: work submitted to context 7 is not complete, so 2 GiB of cached memory cannot be released; the allocation waited 10 ms"},
    {{.requested = 3 * GP_GIB,
         .deferred = GP_GIB,
         .cached = GP_GIB,
         .device_free = GP_GIB,
         .device_total = 80 * GP_GIB,
         .busy_ns = 15000000,
         .busy_context = 1},
        "; the device is busy: work submitted to context 1 at least 15 ms ago is not complete, so 1 GiB of freed memory is still in use and 1 GiB of cached memory cannot be released; the allocation did not wait"},
    {{.requested = GP_GIB,
         .live = 6 * GP_GIB,
         .cached = 2 * GP_GIB,
         .limit = 8 * GP_GIB,
         .by_limit = true,
         .waited_ns = 2000000000,
         .busy_context = 1},
        "so 2 GiB of cached memory cannot be released; the allocation waited 2.0 s"},
    /* What a quiet device would give back is not enough. */
    {{.requested = 2 * GP_GIB,
         .live = 7 * GP_GIB,
         .cached = GP_GIB,
         .limit = 8 * GP_GIB,
         .by_limit = true,
         .waited_ns = 2000000000,
         .busy_context = 1},
        "the allocation waited 2.0 s"},
    {{.requested = 4 * GP_GIB,
         .deferred = GP_GIB,
         .device_free = GP_GIB,
         .device_total = 80 * GP_GIB,
         .waited_ns = 2000000000,
         .busy_context = 1},
        "the allocation waited 2.0 s"},
    {{.requested = GP_GIB, .waited_ns = 5000000000}, "; the allocation waited 5.0 s for the device"},
    /* What is in pieces goes back in no case. */
    {{.requested = GP_GIB,
         .cached = 3 * GP_GIB,
         .in_pieces = GP_GIB,
         .largest_free = GP_MIB,
         .busy_context = 7},
        ", cached 3 GiB, 1 GiB of it in pieces between blocks in use (largest idle block 1 MiB); the device is busy: work submitted to context 7 is not complete, so 2 GiB of cached memory cannot be released"},
    {{.requested = GP_GIB, .cached = GP_GIB, .in_pieces = GP_GIB, .waited_ns = 2000000000, .busy_context = 7},
        " is not complete; the allocation waited 2.0 s"},
};

START_TEST(test_oom_line_says_what_the_device_is_busy_with)
{
  char text[GP_OOM_TEXT_BYTES];
  gp_oom_describe(&busy_cases[_i].oom, NULL, text, sizeof(text));
  ck_assert_msg(strstr(text, busy_cases[_i].facts) != NULL, "%s", text);
}
END_TEST

START_TEST(test_oom_line_is_cut_to_the_buffer)
{
  char text[GP_OOM_TEXT_BYTES + 1], longest[GP_ASKER_BYTES];
  for (size_t capacity = 1; capacity < GP_OOM_TEXT_BYTES; capacity++) {
    memset(text, 'x', sizeof(text));
    gp_oom_describe(&example, "f (app)", text, capacity);
    ck_assert_uint_lt(strlen(text), capacity);
    ck_assert_int_eq(text[capacity], 'x');
  }
  gp_oom_t largest;
  memset(&largest, 0xff, sizeof(largest));
  largest.device = 63;
  largest.by_limit = false;
  memset(longest, 'x', sizeof(longest) - 1);
  longest[sizeof(longest) - 1] = '\0';
  ck_assert_uint_lt(
      strlen(gp_oom_describe(&largest, longest, text, GP_OOM_TEXT_BYTES)), GP_OOM_TEXT_BYTES - 1);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("oom_report");
  TCase *tcase = tcase_create("text");
  tcase_add_test(tcase, test_oom_line_says_what_matters);
  tcase_add_test(tcase, test_oom_line_says_what_asked);
  tcase_add_loop_test(
      tcase, test_oom_advice_follows_the_figures, 0, (int)(sizeof(advice_cases) / sizeof(advice_cases[0])));
  tcase_add_test(tcase, test_oom_advice_of_a_limit_has_room_for_pieces);
  tcase_add_test(tcase, test_oom_advice_names_no_share_that_cannot_be);
  tcase_add_test(tcase, test_oom_advice_of_a_limit_that_only_postpones);
  tcase_add_loop_test(tcase, test_oom_advice_keeps_the_limits_of_the_other_devices, 0,
      (int)(sizeof(limit_cases) / sizeof(limit_cases[0])));
  tcase_add_test(tcase, test_oom_advice_knows_a_malformed_limit);
  tcase_add_test(tcase, test_oom_of_page_locked_memory);
  tcase_add_test(tcase, test_oom_advice_is_no_longer_than_its_place);
  tcase_add_loop_test(tcase, test_oom_line_says_what_the_device_is_busy_with, 0,
      (int)(sizeof(busy_cases) / sizeof(busy_cases[0])));
  tcase_add_test(tcase, test_oom_line_is_cut_to_the_buffer);
  suite_add_tcase(suite, tcase);
  return gp_check_main(suite);
}
