/*
 * The option table and its parser: every accepted form, every refusal with its sentence, and the table
 * itself.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "base/signal_name.h"
#include "test/pool/check_main.h"

typedef struct heard {
  int malformed;
  int warnings;
  char last[1024];
} heard_t;

static void hear(void *arg, bool malformed, const char *message)
{
  heard_t *heard = arg;
  *(malformed ? &heard->malformed : &heard->warnings) += 1;
  snprintf(heard->last, sizeof(heard->last), "%s", message);
}

static const char *look_up(void *arg, const char *variable)
{
  size_t length = strlen(variable);
  for (const char *const *setting = arg; *setting; setting++)
    if (strncmp(*setting, variable, length) == 0 && (*setting)[length] == '=')
      return *setting + length + 1;
  return NULL;
}

static heard_t parse(gp_options_t *options, const char *const *settings)
{
  heard_t heard = {0};
  int problems = gp_options_parse(options, look_up, (void *)(uintptr_t)settings, hear, &heard);
  ck_assert_int_eq(problems, heard.malformed);
  return heard;
}

#define SETTINGS(...) ((const char *const[]){__VA_ARGS__, NULL})

START_TEST(test_every_default_is_legal)
{
  gp_options_t options;
  const char *none[] = {NULL};
  ck_assert_int_eq(parse(&options, none).malformed, 0);
  for (int id = 0; id < GP_OPTION_COUNT; id++) {
    heard_t heard = {0};
    ck_assert_str_eq(gp_option_text(&options, (gp_option_id_t)id), gp_option_table[id].default_text);
    ck_assert(gp_option_parse((gp_option_id_t)id, gp_option_table[id].default_text, &options, hear, &heard));
    ck_assert_int_gt(strlen(gp_option_table[id].help), 0);
    ck_assert_int_eq(gp_option_find(gp_option_table[id].name), id);
  }
  ck_assert_uint_eq(gp_option_number(&options, GP_OPTION_round_cutoff), UINT64_MAX);
  ck_assert(options.limits[0].is_none);
  parse(&options, SETTINGS("GPUPOOL_SLACK=none"));
  ck_assert(options.values[GP_OPTION_slack].amount.is_none);
}
END_TEST

/* The enumerators that code asks for follow the order of the table. */
START_TEST(test_choices_have_the_numbers_that_code_uses)
{
  gp_options_t options;
  parse(&options, SETTINGS("GPUPOOL_TYPE=naive", "GPUPOOL_REUSE=STRICT", "GPUPOOL_TRACE=state",
                      "GPUPOOL_SNAPSHOT_AT=oom"));
  ck_assert_uint_eq(gp_option_number(&options, GP_OPTION_type), GP_TYPE_NAIVE);
  ck_assert_uint_eq(gp_option_number(&options, GP_OPTION_reuse), GP_REUSE_STRICT);
  ck_assert_str_eq(gp_option_text(&options, GP_OPTION_reuse), "strict");
  ck_assert_uint_eq(gp_option_number(&options, GP_OPTION_trace), GP_TRACE_STATE);
  ck_assert_uint_eq(gp_option_number(&options, GP_OPTION_snapshot_at), GP_SNAPSHOT_AT_OOM);
  parse(&options, SETTINGS("GPUPOOL_TYPE=unpooled", "GPUPOOL_REUSE=context", "GPUPOOL_TRACE=off",
                      "GPUPOOL_SNAPSHOT_AT=none"));
  ck_assert_uint_eq(gp_option_number(&options, GP_OPTION_type), GP_TYPE_UNPOOLED);
  ck_assert_uint_eq(gp_option_number(&options, GP_OPTION_reuse), GP_REUSE_CONTEXT);
  ck_assert_uint_eq(gp_option_number(&options, GP_OPTION_trace), GP_TRACE_OFF);
  ck_assert_uint_eq(gp_option_number(&options, GP_OPTION_snapshot_at), 0);
}
END_TEST

START_TEST(test_signals_by_name)
{
  gp_options_t options;
  parse(&options,
      SETTINGS("GPUPOOL_SNAPSHOT_AT=exit,signal:USR1,Signal:sigterm,signal:RTMIN+2,signal:SIGRTMAX-1"));
  ck_assert_uint_eq(
      gp_option_number(&options, GP_OPTION_snapshot_at), GP_SNAPSHOT_AT_EXIT | GP_SNAPSHOT_AT_SIGNAL);
  ck_assert_uint_eq(options.snapshot_signals, UINT64_C(1) << (SIGUSR1 - 1) | UINT64_C(1) << (SIGTERM - 1) |
                                                  UINT64_C(1) << (SIGRTMIN + 1) |
                                                  UINT64_C(1) << (SIGRTMAX - 2));
  parse(&options, SETTINGS("GPUPOOL_SNAPSHOT_AT=exit"));
  ck_assert_uint_eq(options.snapshot_signals, 0);
  static const char *const bad[] = {"signal", "signal:", "signal:NAME", "signal:KILL", "signal:SIGSTOP",
      "signal:SEGV", "signal:10", "signal:USR3", "signal:RTMIN+", "signal:RTMIN-1", "signal:RTMIN+99",
      "signal:RTMIN+100", "signal:RTMAX+1", "signal:USR1x", "exit,signal:SIG", "signal:USR1,"};
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
    char setting[64];
    snprintf(setting, sizeof(setting), "GPUPOOL_SNAPSHOT_AT=%s", bad[i]);
    heard_t heard = parse(&options, SETTINGS(setting));
    ck_assert_msg(heard.malformed == 1, "%s was taken", setting);
    ck_assert_uint_eq(options.snapshot_signals, 0);
    ck_assert_str_eq(gp_option_text(&options, GP_OPTION_snapshot_at), "exit,oom");
  }
  heard_t heard = parse(&options, SETTINGS("GPUPOOL_SNAPSHOT_AT=signal:KILL"));
  ck_assert_ptr_nonnull(strstr(heard.last, "KILL and STOP cannot be caught"));
}
END_TEST

START_TEST(test_signal_names_can_be_read_back)
{
  char name[GP_SIGNAL_NAME_BYTES];
  int readable = 0;
  for (int number = 1; number <= SIGRTMAX; number++) {
    gp_signal_name(number, name);
    readable += gp_signal_parse(name, strlen(name)) == number;
  }
  ck_assert_int_eq(readable, 15 + SIGRTMAX - SIGRTMIN + 1);
}
END_TEST

START_TEST(test_limits)
{
  gp_options_t options;
  parse(&options, SETTINGS("GPUPOOL_LIMIT=8 GiB"));
  ck_assert_uint_eq(options.limits[0].number, 8 * GP_GIB);
  ck_assert_uint_eq(options.limits[63].number, 8 * GP_GIB);
  parse(&options, SETTINGS("GPUPOOL_LIMIT=50%"));
  ck_assert(options.limits[5].is_share && options.limits[5].number == 50);
  parse(&options, SETTINGS("GPUPOOL_LIMIT=1=2g,0=10%"));
  ck_assert(options.limits[0].is_share && options.limits[0].number == 10);
  ck_assert_uint_eq(options.limits[1].number, 2 * GP_GIB);
  ck_assert(options.limits[2].is_none);
  ck_assert(!options.limit_malformed);
  const char *const bad[] = {
      "", "x", "101%", "%", "0=", "0=1,", "64=1", "a=1", "0:1", "1G,2G", "-1", "0=1=2"};
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
    char setting[64];
    snprintf(setting, sizeof(setting), "GPUPOOL_LIMIT=%s", bad[i]);
    heard_t heard = parse(&options, SETTINGS(setting));
    ck_assert_msg(options.limit_malformed && heard.malformed == 1, "\"%s\" was taken", bad[i]);
    ck_assert_ptr_nonnull(strstr(heard.last, setting));
    ck_assert_ptr_nonnull(strstr(heard.last, "accepted:"));
  }
}
END_TEST

START_TEST(test_the_hosts_limit)
{
  gp_options_t options;
  parse(&options, SETTINGS("GPUPOOL_HOST_LIMIT=8 GiB"));
  ck_assert_uint_eq(gp_option_number(&options, GP_OPTION_host_limit), 8 * GP_GIB);
  const char *const bad[] = {"", "x", "50%", "0=8GiB"};
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
    char setting[64];
    snprintf(setting, sizeof(setting), "GPUPOOL_HOST_LIMIT=%s", bad[i]);
    heard_t heard = parse(&options, SETTINGS(setting));
    ck_assert_msg(options.host_limit_malformed && heard.malformed == 1, "\"%s\" was taken", bad[i]);
    ck_assert(!options.limit_malformed);
    ck_assert_ptr_nonnull(strstr(heard.last, "accepted: a size such as 8GiB, 8G or plain bytes, or none."));
    ck_assert_ptr_nonnull(strstr(heard.last, "every page-locked allocation fails"));
  }
}
END_TEST

START_TEST(test_a_limit_without_unit_is_obeyed_and_asked_about)
{
  static const struct {
    const char *setting;
    uint64_t bytes;
    const char *question;
  } few[] = {{"GPUPOOL_LIMIT=8", 8, "is a limit of 8 B: every larger allocation fails. Was 8GiB meant?"},
      {"GPUPOOL_LIMIT=1=8 GiB,0=20000", 20000, "Was 20000MiB meant?"},
      {"GPUPOOL_LIMIT=0", 0,
          "is a limit of 0 B: every allocation fails. For no limit, set GPUPOOL_LIMIT=none"},
      {"GPUPOOL_HOST_LIMIT=8", 8,
          "is a limit of 8 B: every larger page-locked allocation fails. Was 8GiB meant?"}};
  static const char *const plain[] = {"GPUPOOL_LIMIT=1048576", "GPUPOOL_LIMIT=8GiB", "GPUPOOL_LIMIT=5%",
      "GPUPOOL_LIMIT=none", "GPUPOOL_LIMIT=1=1MiB", "GPUPOOL_HOST_LIMIT=none", "GPUPOOL_MAX_CACHED=8"};
  gp_options_t options;
  for (size_t i = 0; i < sizeof(few) / sizeof(few[0]); i++) {
    heard_t heard = parse(&options, SETTINGS(few[i].setting));
    bool is_host = strstr(few[i].setting, "HOST") != NULL;
    ck_assert_uint_eq(
        is_host ? gp_option_number(&options, GP_OPTION_host_limit) : options.limits[0].number, few[i].bytes);
    ck_assert(options.limits[0].is_none == is_host && !options.limit_malformed);
    ck_assert_int_eq(heard.warnings, 1);
    ck_assert_msg(
        strstr(heard.last, few[i].setting) && strstr(heard.last, few[i].question), "%s", heard.last);
  }
  for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
    ck_assert_int_eq(parse(&options, SETTINGS(plain[i])).warnings, 0);
}
END_TEST

START_TEST(test_malformed_values_leave_the_default)
{
  static const char *const bad[] = {"GPUPOOL_TYPE=rounds", "GPUPOOL_DISABLE=2", "GPUPOOL_IDLE_RELEASE=1s",
      "GPUPOOL_PATIENCE=-1", "GPUPOOL_PATIENCE=1000001", "GPUPOOL_ROUND_CUTOFF=19", "GPUPOOL_PAGE=31",
      "GPUPOOL_PAGE=2GiB", "GPUPOOL_RESERVE=-1", "GPUPOOL_MAX_DEFERRED=never", "GPUPOOL_SLACK=101%",
      "GPUPOOL_SLACK=much", "GPUPOOL_SNAPSHOT_AT=exit,", "GPUPOOL_OUTPUT=%q.json",
      "GPUPOOL_OUTPUT=", "GPUPOOL_TRACE_EVENTS=99999999999999999999", "GPUPOOL_VERBOSE="};
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
    gp_options_t options;
    heard_t heard = parse(&options, SETTINGS(bad[i]));
    ck_assert_msg(heard.malformed == 1, "%s was taken", bad[i]);
    ck_assert_ptr_nonnull(strstr(heard.last, bad[i]));
    ck_assert(!options.limit_malformed);
    for (int id = 0; id < GP_OPTION_COUNT; id++)
      ck_assert_str_eq(options.values[id].text, gp_option_table[id].default_text);
  }
}
END_TEST

START_TEST(test_mxnet_variables_fill_in)
{
  gp_options_t options;
  parse(&options, SETTINGS("MXNET_GPU_MEM_POOL_TYPE=Round", "MXNET_GPU_MEM_POOL_RESERVE=7",
                      "MXNET_GPU_POOL_PAGE_SIZE=8192"));
  ck_assert_uint_eq(gp_option_number(&options, GP_OPTION_type), GP_TYPE_ROUND);
  ck_assert_uint_eq(gp_option_number(&options, GP_OPTION_round_cutoff), 24);
  ck_assert(options.values[GP_OPTION_reserve].amount.is_share);
  ck_assert_uint_eq(gp_option_number(&options, GP_OPTION_page), 8192);
  ck_assert_int_eq(options.values[GP_OPTION_page].source, GP_OPTION_FROM_MXNET);
  ck_assert(options.values[GP_OPTION_slack].amount.is_none);
  ck_assert_int_eq(options.values[GP_OPTION_slack].source, GP_OPTION_FROM_MXNET);
  parse(&options, SETTINGS("MXNET_GPU_MEM_POOL_RESERVE=7", "GPUPOOL_SLACK=20%"));
  ck_assert_uint_eq(options.values[GP_OPTION_slack].amount.number, 20);
  parse(&options, SETTINGS("MXNET_GPU_MEM_POOL_TYPE=Round", "GPUPOOL_ROUND_CUTOFF=none"));
  ck_assert_uint_eq(gp_option_number(&options, GP_OPTION_round_cutoff), UINT64_MAX);
  parse(&options, SETTINGS("MXNET_GPU_MEM_POOL_TYPE=Naive", "GPUPOOL_TYPE=unpooled"));
  ck_assert_uint_eq(gp_option_number(&options, GP_OPTION_type), GP_TYPE_UNPOOLED);
  heard_t heard = parse(&options, SETTINGS("MXNET_GPU_MEM_POOL_TYPE=Cubic"));
  ck_assert_int_eq(heard.malformed, 1);
  ck_assert_ptr_nonnull(strstr(heard.last, "MXNET_GPU_MEM_POOL_TYPE=Cubic"));
}
END_TEST

START_TEST(test_unknown_names_are_said_with_the_nearest)
{
  heard_t heard = {0};
  char *environment[] = {(char *)"GPUPOOL_LIMITS=1", (char *)"GPUPOOL_TYPE=round", (char *)"PATH=/",
      (char *)"GPUPOOL_RUN=0123456789abcdef", /* the launcher's */
      (char *)"GPUPOOL_=x",
      (char *)"GPUPOOL_A_VERY_LONG_NAME_THAT_NO_OPTION_WILL_EVER_HAVE_BECAUSE_IT_IS_TOO_LONG=1", NULL};
  ck_assert_int_eq(gp_options_check_names(environment, hear, &heard), 3);
  ck_assert_int_eq(heard.warnings, 3);
  ck_assert_int_eq(heard.malformed, 0);
  environment[1] = NULL;
  ck_assert_int_eq(gp_options_check_names(environment, hear, &heard), 1);
  ck_assert_ptr_nonnull(strstr(heard.last, "the nearest is GPUPOOL_LIMIT"));
}
END_TEST

START_TEST(test_names_that_differ_by_case_and_underscores)
{
  static const struct {
    const char *setting, *nearest; /* NULL: another program's */
  } cases[] = {
      {"GPU_POOL_LIMIT=1", "GPU_POOL_LIMIT is no option of this version; the nearest is GPUPOOL_LIMIT"},
      {"gpupool_limit=1", "gpupool_limit is no option of this version; the nearest is GPUPOOL_LIMIT"},
      {"GPUPool_Limit=1", "the nearest is GPUPOOL_LIMIT"},
      {"GPUPOOLLIMIT=1", "the nearest is GPUPOOL_LIMIT"},
      {"_GPUPOOL__LIMIT_=1", "the nearest is GPUPOOL_LIMIT"},
      {"Gpu_Pool_MaxCached=1", "the nearest is GPUPOOL_MAX_CACHED"},
      {"gpupool_limt=1", "the nearest is GPUPOOL_LIMIT"},
      {"GPUPOOL_limit=1", "the nearest is GPUPOOL_LIMIT"},
      {"GPU_POOL_LIMT=1", NULL},
      {"GPU_POOL=1", NULL},
      {"GPUPOOLS=1", NULL},
      {"LIMIT=1", NULL},
      {"GPUPOOL_LIMIT=1", NULL},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    heard_t heard = {0};
    char *environment[] = {(char *)(uintptr_t)cases[i].setting, NULL};
    ck_assert_int_eq(gp_options_check_names(environment, hear, &heard), cases[i].nearest != NULL);
    ck_assert_msg(!cases[i].nearest || strstr(heard.last, cases[i].nearest), "%s", heard.last);
  }
}
END_TEST

START_TEST(test_a_retired_value_is_accepted_with_one_line)
{
  gp_options_t options;
  heard_t heard = parse(&options, SETTINGS("GPUPOOL_REUSE=Single"));
  ck_assert_int_eq(heard.malformed, 0);
  ck_assert_int_eq(heard.warnings, 1);
  ck_assert_str_eq(
      heard.last, "GPUPOOL_REUSE=single was removed; context is used, which reuses memory about as fast");
  ck_assert_str_eq(gp_option_text(&options, GP_OPTION_reuse), "context");
  ck_assert_uint_eq(gp_option_number(&options, GP_OPTION_reuse), GP_REUSE_CONTEXT);
  ck_assert_int_eq(parse(&options, SETTINGS("GPUPOOL_REUSE=singles")).malformed, 1);
}
END_TEST

START_TEST(test_a_retired_option_is_reported_once_and_has_no_effect)
{
  char setting[] = "GPUPOOL_SMALL=cut";
  char *const environment[] = {setting, NULL};
  heard_t heard = {0};
  ck_assert_int_eq(gp_options_check_names(environment, hear, &heard), 1);
  ck_assert_int_eq(heard.malformed, 0);
  ck_assert_int_eq(heard.warnings, 1);
  ck_assert_str_eq(heard.last,
      "GPUPOOL_SMALL was removed; GPUPOOL_TYPE=vmm serves small requests from larger allocations of the driver");
}
END_TEST

START_TEST(test_blocks_to_prewarm)
{
  gp_options_t options;
  parse(&options, SETTINGS("GPUPOOL_PREWARM= 64MiB*4,2 MiB * 16 ,512,1.5GiB*65536"));
  static const struct {
    uint64_t bytes;
    unsigned count;
  } expected[] = {{64 * GP_MIB, 4}, {2 * GP_MIB, 16}, {512, 1}, {GP_GIB * 3 / 2, 65536}};
  ck_assert_uint_eq(options.prewarm.count, 4);
  for (size_t i = 0; i < 4; i++) {
    ck_assert_uint_eq(options.prewarm.entries[i].bytes, expected[i].bytes);
    ck_assert_uint_eq(options.prewarm.entries[i].count, expected[i].count);
  }
  parse(&options, SETTINGS("GPUPOOL_PREWARM=None"));
  ck_assert_uint_eq(options.prewarm.count, 0);
}
END_TEST

START_TEST(test_malformed_blocks_are_said)
{
  static const struct {
    const char *text, *said;
  } bad[] = {{"", "\"\" is no size from 1 B to 1 TiB"}, {"2MiB,", "\"\" is no size"},
      {",2MiB", "\"\" is no size"}, {"2MiB*", "\"\" is no number of blocks from 1 to 65536"},
      {"2MiB*0", "\"0\" is no number"}, {"2MiB*65537", "\"65537\" is no number"},
      {"2MiB*99999999999999999999", "is no number"}, {"2MiB*-1", "\"-1\" is no number"},
      {"2MiB*4*4", "\"4*4\" is no number"}, {"0*4", "\"0\" is no size"}, {"2TiB", "\"2TiB\" is no size"},
      {"64X", "\"64X\" is no size"}, {"50%", "is no size"}, {"2MiB;3MiB", "is no size"},
      {"none,2MiB", "\"none\" is no size"}};
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
    gp_options_t options;
    char setting[64];
    snprintf(setting, sizeof(setting), "GPUPOOL_PREWARM=%s", bad[i].text);
    heard_t heard = parse(&options, SETTINGS(setting));
    ck_assert_msg(heard.malformed == 1, "%s was taken", setting);
    ck_assert_msg(strstr(heard.last, bad[i].said) != NULL, "%s: %s", setting, heard.last);
    ck_assert_uint_eq(options.prewarm.count, 0);
    ck_assert_str_eq(gp_option_text(&options, GP_OPTION_prewarm), "none");
  }
}
END_TEST

/* As many sizes as there is room for, and one more; and more text than there is room for. */
START_TEST(test_long_lists_of_blocks)
{
  gp_options_t options;
  char setting[2048] = "GPUPOOL_PREWARM=1M";
  for (unsigned i = 1; i < GP_BLOCK_LIST_ENTRIES; i++)
    strcat(setting, ",1M");
  ck_assert_int_eq(parse(&options, SETTINGS(setting)).malformed, 0);
  ck_assert_uint_eq(options.prewarm.count, GP_BLOCK_LIST_ENTRIES);
  strcat(setting, ",1M");
  ck_assert_ptr_nonnull(strstr(parse(&options, SETTINGS(setting)).last, "more than 128 sizes"));
  while (strlen(setting) < GP_OPTION_TEXT_BYTES + 16)
    strcat(setting, " ");
  ck_assert_ptr_nonnull(strstr(parse(&options, SETTINGS(setting)).last, "more than 1023 characters"));
}
END_TEST

START_TEST(test_options_by_name)
{
  ck_assert_int_eq(gp_option_find("max-cached"), GP_OPTION_max_cached);
  ck_assert_int_eq(gp_option_find("MAX_CACHED"), GP_OPTION_max_cached);
  ck_assert_int_eq(gp_option_find("max_cached"), GP_OPTION_max_cached);
  ck_assert_int_eq(gp_option_find("max"), GP_OPTION_COUNT);
  ck_assert_int_eq(gp_option_find("max-cached-bytes"), GP_OPTION_COUNT);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("options");
  TCase *parsing = tcase_create("parsing");
  tcase_add_test(parsing, test_every_default_is_legal);
  tcase_add_test(parsing, test_choices_have_the_numbers_that_code_uses);
  tcase_add_test(parsing, test_signals_by_name);
  tcase_add_test(parsing, test_signal_names_can_be_read_back);
  tcase_add_test(parsing, test_limits);
  tcase_add_test(parsing, test_the_hosts_limit);
  tcase_add_test(parsing, test_a_limit_without_unit_is_obeyed_and_asked_about);
  tcase_add_test(parsing, test_malformed_values_leave_the_default);
  tcase_add_test(parsing, test_mxnet_variables_fill_in);
  tcase_add_test(parsing, test_unknown_names_are_said_with_the_nearest);
  tcase_add_test(parsing, test_names_that_differ_by_case_and_underscores);
  tcase_add_test(parsing, test_a_retired_value_is_accepted_with_one_line);
  tcase_add_test(parsing, test_a_retired_option_is_reported_once_and_has_no_effect);
  tcase_add_test(parsing, test_blocks_to_prewarm);
  tcase_add_test(parsing, test_malformed_blocks_are_said);
  tcase_add_test(parsing, test_long_lists_of_blocks);
  tcase_add_test(parsing, test_options_by_name);
  suite_add_tcase(suite, parsing);
  return gp_check_main(suite);
}
