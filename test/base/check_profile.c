/*
 * The file that GPUPOOL_PROFILE names: what of it counts, and what is said of the rest.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/settings_files.h"
#include "test/pool/check_main.h"

typedef struct heard {
  int count;
  int warnings; /* of count */
  char last[1024];
} heard_t;

static char path[] = "/tmp/gpupool-profile-XXXXXX";
static gp_options_t options;

static void make_file(void)
{
  memcpy(path + sizeof(path) - 7, "XXXXXX", 6);
  int fd = mkstemp(path);
  ck_assert_int_ge(fd, 0);
  close(fd);
}

static void remove_file(void)
{
  unlink(path);
}

static void hear(void *arg, bool malformed, const char *message)
{
  heard_t *heard = arg;
  heard->count++;
  heard->warnings += !malformed;
  snprintf(heard->last, sizeof(heard->last), "%s", message);
}

static const char *look_up(void *arg, const char *variable)
{
  const char *setting = arg; /* one of the environment, or "" */
  size_t length = strlen(variable);
  if (strcmp(variable, "GPUPOOL_PROFILE") == 0)
    return path;
  return strncmp(setting, variable, length) == 0 && setting[length] == '=' ? setting + length + 1 : NULL;
}

/* A program that has this file, and one setting in its environment. */
static heard_t apply(const char *text, size_t length, const char *setting)
{
  heard_t heard = {0};
  FILE *file = fopen(path, "w");
  ck_assert_ptr_nonnull(file);
  ck_assert_uint_eq(fwrite(text, 1, length, file), length);
  ck_assert_int_eq(fclose(file), 0);
  ck_assert_int_eq(gp_options_parse(&options, look_up, (void *)(uintptr_t)setting, hear, &heard), 0);
  ck_assert_int_eq(gp_profile_apply(&options, hear, &heard), heard.count - heard.warnings);
  return heard;
}

static heard_t apply_text(const char *text, const char *setting)
{
  return apply(text, strlen(text), setting);
}

static const char *value_of(gp_option_id_t id)
{
  return gp_option_text(&options, id);
}

START_TEST(test_settings_of_a_file)
{
  heard_t heard =
      apply_text("# gpupool tune\n\nGPUPOOL_TYPE=segment\n  prewarm = 64MiB*2  \r\nRESERVE=0", "");
  ck_assert_int_eq(heard.count, 0);
  ck_assert_uint_eq(gp_option_number(&options, GP_OPTION_type), GP_TYPE_SEGMENT);
  ck_assert_str_eq(value_of(GP_OPTION_prewarm), "64MiB*2");
  ck_assert_str_eq(value_of(GP_OPTION_reserve), "0");
  ck_assert_int_eq(options.values[GP_OPTION_type].source, GP_OPTION_FROM_PROFILE);
  ck_assert_int_eq(options.values[GP_OPTION_max_cached].source, GP_OPTION_FROM_DEFAULT);
}
END_TEST

START_TEST(test_the_environment_goes_first)
{
  ck_assert_int_eq(apply_text("TYPE=naive\nMAX_CACHED=64KiB\n", "GPUPOOL_MAX_CACHED=8KiB").count, 0);
  ck_assert_str_eq(value_of(GP_OPTION_max_cached), "8KiB");
  ck_assert_str_eq(value_of(GP_OPTION_type), "naive");
  ck_assert_int_eq(apply_text("TYPE=naive\nMAX_CACHED=64KiB\n", "GPUPOOL_TYPE=Naive").count, 0);
  ck_assert_str_eq(value_of(GP_OPTION_max_cached), "64KiB");
  ck_assert_int_eq(apply_text("TYPE=naive\n", "MXNET_GPU_MEM_POOL_TYPE=Round").count, 0);
  ck_assert_str_eq(value_of(GP_OPTION_type), "naive");
}
END_TEST

START_TEST(test_a_profile_for_another_type)
{
  heard_t heard = apply_text("PREWARM=8GiB\nTYPE=segment\nnonsense\n", "GPUPOOL_TYPE=round");
  ck_assert_int_eq(heard.count, 1);
  ck_assert_ptr_nonnull(strstr(heard.last, "another type than GPUPOOL_TYPE=round"));
  ck_assert_str_eq(value_of(GP_OPTION_prewarm), "none");
  ck_assert_str_eq(value_of(GP_OPTION_type), "round");
}
END_TEST

START_TEST(test_lines_that_are_wrong)
{
  static const struct {
    const char *line;
    const char *said;
  } wrong[] = {
      {"segment", "line 2: \"segment\" is malformed; accepted: NAME=VALUE"},
      {"=segment", "line 2:  is no option"},
      {"TYP=segment", "line 2: TYP is no option"},
      {"LIMIT=8GiB", "line 2: LIMIT cannot be set in a profile"},
      {"PROFILE=other", "line 2: PROFILE cannot be set in a profile"},
      {"GPUPOOL_TYPE=cubic", "line 2: GPUPOOL_TYPE=cubic is malformed; accepted: round|naive"},
      {"PREWARM=", "line 2: GPUPOOL_PREWARM= is malformed"},
      {"PAGE=4KiB", "line 2: PAGE cannot be set in a profile"},
      {"SMALL=cut", "line 2: GPUPOOL_SMALL was removed"},
  };
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
    char text[256];
    snprintf(text, sizeof(text), "# a comment\n%s\nMAX_CACHED=64KiB\n", wrong[i].line);
    heard_t heard = apply_text(text, "");
    ck_assert_int_eq(heard.count, 1);
    ck_assert_int_eq(heard.warnings, strstr(wrong[i].said, "was removed") != NULL);
    ck_assert_msg(strstr(heard.last, wrong[i].said) != NULL, "%s", heard.last);
    ck_assert_ptr_nonnull(strstr(heard.last, path));
    ck_assert_str_eq(value_of(GP_OPTION_max_cached), "64KiB"); /* the rest counts */
    ck_assert_str_eq(value_of(GP_OPTION_type), "round");
    ck_assert_str_eq(value_of(GP_OPTION_prewarm), "none");
  }
}
END_TEST

START_TEST(test_files_that_cannot_be_one)
{
  static char large[GP_PROFILE_BYTES + 1];
  memset(large, '#', sizeof(large));
  ck_assert_int_eq(apply(large, GP_PROFILE_BYTES, "").count, 0);
  ck_assert_ptr_nonnull(strstr(apply(large, sizeof(large), "").last, "longer than 8192 bytes"));
  ck_assert_ptr_nonnull(strstr(apply("TYPE=naive\n\0", 12, "").last, "it is no text"));
  ck_assert_str_eq(value_of(GP_OPTION_type), "round");
  ck_assert_int_eq(apply_text("", "").count, 0);
  unlink(path);
  heard_t heard = {0};
  ck_assert_int_eq(gp_profile_apply(&options, hear, &heard), 1);
  ck_assert_ptr_nonnull(strstr(heard.last, "No such file or directory; the program runs without it"));
  make_file();
  unlink(path);
  ck_assert_int_eq(mkfifo(path, 0600), 0);
  ck_assert_int_eq(gp_options_parse(&options, look_up, (void *)(uintptr_t) "", hear, &heard), 0);
  ck_assert_int_eq(gp_profile_apply(&options, hear, &heard), 1);
  ck_assert_ptr_nonnull(strstr(heard.last, "no regular file"));
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("profile");
  TCase *tests = tcase_create("profile");
  tcase_add_checked_fixture(tests, make_file, remove_file);
  tcase_add_test(tests, test_settings_of_a_file);
  tcase_add_test(tests, test_the_environment_goes_first);
  tcase_add_test(tests, test_a_profile_for_another_type);
  tcase_add_test(tests, test_lines_that_are_wrong);
  tcase_add_test(tests, test_files_that_cannot_be_one);
  suite_add_tcase(suite, tests);
  return gp_check_main(suite);
}
