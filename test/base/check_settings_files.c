/*
 * Settings files: which are read, what goes before what, the ceiling, and what is said of the rest.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/settings_files.h"
#include "base/settings_text.h"
#include "test/pool/check_main.h"

typedef struct heard {
  int count, malformed;
  char last[2048];
} heard_t;

static char folder[] = "/tmp/gpupool-settings-XXXXXX";
static gp_settings_files_t files;
static gp_options_t options;
static heard_t heard;

static void make_folder(void)
{
  memcpy(folder + sizeof(folder) - 7, "XXXXXX", 6);
  ck_assert_ptr_nonnull(mkdtemp(folder));
  snprintf(files.user, sizeof(files.user), "%s/user", folder);
  snprintf(files.system, sizeof(files.system), "%s/system", folder);
}

static void remove_folder(void)
{
  unlink(files.user);
  unlink(files.system);
  rmdir(folder);
}

static void write_file(const char *path, const char *text)
{
  FILE *file = fopen(path, "w");
  ck_assert_ptr_nonnull(file);
  fputs(text, file);
  ck_assert_int_eq(fclose(file), 0);
  ck_assert_int_eq(chmod(path, 0644), 0);
}

static void hear(void *arg, bool malformed, const char *message)
{
  (void)arg;
  heard.count++;
  heard.malformed += malformed;
  snprintf(heard.last, sizeof(heard.last), "%s", message);
}

static const char *look_up(void *arg, const char *variable)
{
  size_t length = strlen(variable);
  for (const char *const *setting = arg; setting && *setting; setting++)
    if (strncmp(*setting, variable, length) == 0 && (*setting)[length] == '=')
      return *setting + length + 1;
  return NULL;
}

/* NULL: there is no such file. */
static void take(const char *user, const char *system, const char *const *environment)
{
  unlink(files.user);
  unlink(files.system);
  if (user)
    write_file(files.user, user);
  if (system)
    write_file(files.system, system);
  heard = (heard_t){0};
  int problems = gp_settings_read(&options, look_up, (void *)(uintptr_t)environment, &files, hear, NULL);
  ck_assert_int_eq(problems, heard.malformed);
}

static void expect(gp_option_id_t id, const char *text, gp_option_source_t source)
{
  ck_assert_str_eq(gp_option_text(&options, id), text);
  ck_assert_int_eq(options.values[id].source, source);
}

START_TEST(test_what_goes_before_what)
{
  static const char *const environment[] = {"GPUPOOL_TYPE=naive", "MXNET_GPU_MEM_POOL_PAGE_SIZE=8192", NULL};
  take("TYPE=segment\nGPUPOOL_STATS = 1\nPAGE=16KiB\n", "TYPE=vmm\nSTATS=0\nVERBOSE=2\n", environment);
  ck_assert_int_eq(heard.count, 0);
  expect(GP_OPTION_type, "naive", GP_OPTION_FROM_ENVIRONMENT);
  expect(GP_OPTION_stats, "1", GP_OPTION_FROM_USER_FILE);
  expect(GP_OPTION_verbose, "2", GP_OPTION_FROM_SYSTEM_FILE);
  expect(GP_OPTION_page, "16KiB", GP_OPTION_FROM_USER_FILE);
  expect(GP_OPTION_reserve, "512MiB", GP_OPTION_FROM_DEFAULT);
  take("TYPE=segment\n# TYPE=naive\nTYPE=vmm", NULL, NULL); /* the last of a file holds */
  expect(GP_OPTION_type, "vmm", GP_OPTION_FROM_USER_FILE);
}
END_TEST

START_TEST(test_a_profile_comes_after_the_place_that_names_it)
{
  char named[256], profile[128], text[256];
  const char *const environment[] = {named, NULL};
  snprintf(profile, sizeof(profile), "%s.profile", folder);
  snprintf(named, sizeof(named), "GPUPOOL_PROFILE=%s", profile);
  write_file(profile, "RESERVE=1MiB\nMAX_CACHED=1MiB\n");
  take("RESERVE=2MiB\n", NULL, environment);
  expect(GP_OPTION_reserve, "1MiB", GP_OPTION_FROM_PROFILE);
  snprintf(text, sizeof(text), "PROFILE=%s\nRESERVE=2MiB\n", profile);
  take(text, "MAX_CACHED=2MiB\n", NULL);
  expect(GP_OPTION_reserve, "2MiB", GP_OPTION_FROM_USER_FILE);
  expect(GP_OPTION_max_cached, "1MiB", GP_OPTION_FROM_PROFILE);
  unlink(profile);
}
END_TEST

START_TEST(test_lines_that_are_wrong)
{
  static const char *const malformed[] = {"GPUPOOL_TYPE=naiv", NULL};
  take("TYPE=cubic\n", "TYPE=vmm\n", NULL);
  ck_assert_int_eq(heard.malformed, 1);
  ck_assert_ptr_nonnull(
      strstr(heard.last, "/user, line 1: GPUPOOL_TYPE=cubic is malformed; accepted: round|"));
  expect(GP_OPTION_type, "round", GP_OPTION_FROM_DEFAULT); /* as the message says */
  take("\nLIMT=8GiB\n", NULL, NULL);
  ck_assert_int_eq(heard.count - heard.malformed, 1);
  ck_assert_ptr_nonnull(strstr(
      heard.last, "/user, line 2: GPUPOOL_LIMT is no option of this version; the nearest is GPUPOOL_LIMIT"));
  take("nonsense\nSTATS=1\n", NULL, NULL);
  ck_assert_ptr_nonnull(strstr(heard.last, "line 1: \"nonsense\" is malformed; accepted: NAME=VALUE"));
  expect(GP_OPTION_stats, "1", GP_OPTION_FROM_USER_FILE);
  take("TYPE=vmm\n", NULL, malformed); /* what the environment says is malformed decides, too */
  expect(GP_OPTION_type, "round", GP_OPTION_FROM_DEFAULT);
}
END_TEST

START_TEST(test_lines_as_a_shell_has_them)
{
  static const struct {
    const char *line, *value;
  } cases[] = {
      {"OUTPUT=a # note", "a"},
      {"OUTPUT=a\t# note # more", "a"},
      {"OUTPUT=a#b", "a#b"},
      {"OUTPUT=\"a # b\" # note", "a # b"},
      {"OUTPUT='a \"b\"'", "a \"b\""},
      {"OUTPUT = \"a\"\t\r", "a"},
      {"export GPUPOOL_OUTPUT=a", "a"},
      {" export\tOUTPUT='a'", "a"},
      {"gpupool_output=a", "a"},
      {"\xEF\xBB\xBFOUTPUT=a", "a"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    take(cases[i].line, NULL, NULL);
    ck_assert_msg(heard.count == 0, "%s: %s", cases[i].line, heard.last);
    expect(GP_OPTION_output, cases[i].value, GP_OPTION_FROM_USER_FILE);
    take(NULL, cases[i].line, NULL);
    expect(GP_OPTION_output, cases[i].value, GP_OPTION_FROM_SYSTEM_FILE);
  }
  take(NULL, "LIMIT=8GiB # of each job\nexport GPUPOOL_HOST_LIMIT=\"4GiB\"\n", NULL);
  ck_assert_int_eq(heard.count, 0);
  ck_assert_uint_eq(options.limits[0].number, 8 * GP_GIB);
  ck_assert_uint_eq(gp_option_number(&options, GP_OPTION_host_limit), 4 * GP_GIB);
}
END_TEST

START_TEST(test_a_line_that_cannot_be_read_may_be_a_limit)
{
  static const char *const lines[] = {
      "limit: 8GiB", "LIMIT", "LIMIT=\"8GiB", "LIMIT='8GiB'x", "LIMIT=\"8GiB\" 2"};
  static const char *const one[] = {"GPUPOOL_LIMIT=1GiB", NULL};
  static const char *const both[] = {"GPUPOOL_LIMIT=1GiB", "GPUPOOL_HOST_LIMIT=1GiB", NULL};
  for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
    char text[64], said[200];
    snprintf(text, sizeof(text), "# a comment\n%s\nSTATS=1\n", lines[i]);
    snprintf(said, sizeof(said),
        ", line 2: \"%s\" is malformed; accepted: NAME=VALUE, or a comment after #. Until it is corrected, every "
        "allocation fails",
        lines[i]);
    take(text, NULL, NULL);
    ck_assert_int_eq(heard.count, 1);
    ck_assert_msg(strstr(heard.last, said) != NULL, "%s", heard.last);
    ck_assert(options.limit_malformed && options.host_limit_malformed);
    expect(GP_OPTION_stats, "1", GP_OPTION_FROM_USER_FILE);
    take(NULL, text, both);
    ck_assert_msg(strstr(heard.last, said) != NULL, "%s", heard.last);
    ck_assert(options.limit_malformed && options.host_limit_malformed);
    take(text, NULL, one); /* the environment has decided about one of them */
    ck_assert(!options.limit_malformed && options.host_limit_malformed);
    ck_assert_ptr_nonnull(strstr(heard.last, "Until it is corrected, every page-locked allocation fails"));
    take(text, NULL, both);
    ck_assert(!options.limit_malformed && !options.host_limit_malformed);
    ck_assert_ptr_null(strstr(heard.last, "Until"));
  }
}
END_TEST

START_TEST(test_two_limits_in_a_file_are_malformed)
{
  static const struct {
    const char *lines;
    bool limit, host;
  } cases[] = {
      {"LIMIT=1GiB\nLIMIT=1024MiB\n", false, false},
      {"HOST_LIMIT=1GiB\nHOST_LIMIT=1024MiB\n", false, false},
      {"LIMIT=1GiB\nLIMIT=2GiB\n", true, false},
      {"LIMIT=2GiB\nLIMIT=1GiB\n", true, false},
      {"LIMIT=0=2GiB\nLIMIT=1=2GiB\n", true, false},
      {"LIMIT=none\nLIMIT=1GiB\n", true, false},
      {"LIMIT=1GiB\nLIMIT=2GiB\nLIMIT=2GiB\n", true, false},
      {"HOST_LIMIT=1GiB\nHOST_LIMIT=2GiB\n", false, true},
  };
  static const char *const both[] = {"GPUPOOL_LIMIT=1GiB", "GPUPOOL_HOST_LIMIT=1GiB", NULL};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    for (int is_system = 0; is_system < 2; is_system++) {
      take(is_system ? NULL : cases[i].lines, is_system ? cases[i].lines : NULL, is_system ? both : NULL);
      ck_assert_int_eq(options.limit_malformed, cases[i].limit);
      ck_assert_int_eq(options.host_limit_malformed, cases[i].host);
      if (cases[i].limit || cases[i].host)
        ck_assert_ptr_nonnull(
            strstr(heard.last, "a line above sets another limit. Until it is corrected, every "));
      else
        ck_assert_int_eq(heard.count, 0);
    }
    take(cases[i].lines, NULL, both); /* not in force */
    ck_assert_int_eq(heard.count, 0);
  }
  take(NULL, "LIMIT=1GiB\n\nHOST_LIMIT=1GiB\nLIMIT=2GiB\n", both);
  ck_assert_ptr_nonnull(strstr(heard.last, "/system, line 4: GPUPOOL_LIMIT=2GiB: a line above"));
  take("LIMIT=2GiB\n", "LIMIT=1GiB\n", NULL); /* one in each */
  ck_assert(!options.limit_malformed);
}
END_TEST

START_TEST(test_names_that_only_look_like_an_option)
{
  take("GPU_POOL_LIMIT=8GiB\n", NULL, NULL);
  ck_assert_ptr_nonnull(strstr(
      heard.last, "line 1: GPU_POOL_LIMIT is no option of this version; the nearest is GPUPOOL_LIMIT"));
  take(NULL, "gpupool__limit=8GiB\n", NULL);
  ck_assert_ptr_nonnull(strstr(heard.last, "the nearest is GPUPOOL_LIMIT"));
  ck_assert_int_eq(heard.count, 1);
}
END_TEST

/* Reads again, without writing the files. */
static void read_again(void)
{
  static const char *const both[] = {"GPUPOOL_LIMIT=1GiB", "GPUPOOL_HOST_LIMIT=1GiB", NULL};
  heard = (heard_t){0};
  (void)gp_settings_read(&options, look_up, (void *)(uintptr_t)both, &files, hear, NULL);
}

static void expect_refusal(const char *reason)
{
  char said[200];
  read_again();
  snprintf(said, sizeof(said), "/system: %s. Until it is corrected, every allocation fails", reason);
  ck_assert_msg(heard.malformed == 1 && strstr(heard.last, said), "%s", heard.last);
  ck_assert(options.limit_malformed && options.host_limit_malformed);
}

START_TEST(test_a_machines_file_that_cannot_be_read_refuses)
{
  static char text[GP_SETTINGS_BYTES + 2];
  read_again(); /* there is none */
  ck_assert(heard.count == 0 && !options.limit_malformed);
  memset(text, '#', GP_SETTINGS_BYTES + 1);
  write_file(files.system, text);
  expect_refusal("it is longer than 65536 bytes");
  unlink(files.system);
  ck_assert_int_eq(symlink("/nowhere/at/all", files.system), 0);
  expect_refusal("it cannot be read (No such file or directory)");
  unlink(files.system);
  ck_assert_int_eq(mkdir(files.system, 0755), 0);
  expect_refusal("it is no regular file");
  ck_assert_int_eq(rmdir(files.system), 0);
  write_file(files.system, "STATS=1\n");
  ck_assert_int_eq(chmod(files.system, 0664), 0);
  expect_refusal("others may write to it, so it is not read; chmod go-w it");
  if (geteuid() != 0)
    return; /* cannot give a file away, and cannot become another user */
  ck_assert_int_eq(chmod(files.system, 0600), 0);
  ck_assert_int_eq(chown(files.system, 12345, 0), 0);
  expect_refusal("it belongs to user 12345, neither to you nor to root, and is not read");
  ck_assert_int_eq(chown(files.system, 0, 0), 0);
  ck_assert_int_eq(chmod(folder, 0755), 0);
  ck_assert_int_eq(seteuid(12345), 0);
  expect_refusal("it cannot be read (Permission denied)");
  ck_assert_int_eq(seteuid(0), 0);
}
END_TEST

START_TEST(test_a_lack_of_descriptors_is_no_missing_limit)
{
  struct rlimit before, none;
  ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
  none = before;
  none.rlim_cur = 0;
  write_file(files.system, "STATS=1\n");
  ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
  expect_refusal("it cannot be read (Too many open files)");
  unlink(files.system);
  read_again();
  ck_assert(!options.limit_malformed && !options.host_limit_malformed);
  ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
}
END_TEST

START_TEST(test_a_malformed_limit_of_any_file_refuses)
{
  static const char *const lower[] = {"GPUPOOL_LIMIT=1GiB", NULL};
  take("LIMIT=8Q\n", NULL, NULL);
  ck_assert(options.limit_malformed);
  take("LIMIT=8Q\n", NULL, lower); /* not in force */
  ck_assert(!options.limit_malformed);
  take(NULL, "LIMIT=8Q\n", lower); /* a promise to others, whatever the user sets */
  ck_assert(options.limit_malformed);
  ck_assert_ptr_nonnull(strstr(heard.last, "/system, line 1: GPUPOOL_LIMIT=8Q is malformed"));
}
END_TEST

START_TEST(test_the_machines_limit_of_the_host_is_a_ceiling)
{
  static const struct {
    const char *own, *text;
    uint64_t bytes;
    bool is_said;
  } cases[] = {
      {"none", "8GiB", 8 * GP_GIB, false},
      {"4GiB", "4GiB", 4 * GP_GIB, false},
      {"12GiB", "8GiB", 8 * GP_GIB, true},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    char setting[64];
    const char *const environment[] = {setting, NULL};
    snprintf(setting, sizeof(setting), "GPUPOOL_HOST_LIMIT=%s", cases[i].own);
    take(NULL, "HOST_LIMIT=8GiB\n", environment);
    ck_assert_int_eq(heard.count, cases[i].is_said);
    if (cases[i].is_said)
      ck_assert_ptr_nonnull(
          strstr(heard.last, "/system: its HOST_LIMIT is lower than GPUPOOL_HOST_LIMIT=12GiB, and holds"));
    ck_assert_uint_eq(gp_option_number(&options, GP_OPTION_host_limit), cases[i].bytes);
    ck_assert_str_eq(gp_option_text(&options, GP_OPTION_host_limit), cases[i].text);
    take("HOST_LIMIT=8GiB\n", NULL, environment); /* of the user's file it is a default */
    ck_assert_str_eq(gp_option_text(&options, GP_OPTION_host_limit), cases[i].own);
  }
  take(NULL, "HOST_LIMIT=8Q\n", (const char *const[]){"GPUPOOL_HOST_LIMIT=1GiB", NULL});
  ck_assert(options.host_limit_malformed && !options.limit_malformed);
}
END_TEST

static uint64_t limit_of(int device, uint64_t total)
{
  uint64_t limit = gp_amount_resolve(&options.limits[device], total);
  uint64_t ceiling = gp_amount_resolve(&options.ceilings[device], total);
  return limit < ceiling ? limit : ceiling;
}

START_TEST(test_the_machines_limit_is_a_ceiling)
{
  static const struct {
    const char *own, *ceiling;
    const char *text;       /* in force */
    uint64_t first, second; /* limits of two devices of 16 GiB, in GiB */
    bool is_said;
  } cases[] = {
      {"none", "8GiB", "8GiB", 8, 8, false},
      {"4GiB", "8GiB", "4GiB", 4, 4, false},
      {"12GiB", "8GiB", "8GiB", 8, 8, true},
      {"75%", "50%", "50%", 8, 8, true},
      {"75%", "8GiB", "75%", 8, 8, false}, /* cannot be compared before the device is known */
      {"25%", "8GiB", "25%", 4, 4, false},
      {"12GiB", "50%", "12GiB", 8, 8, false},
      {"0=12GiB,1=4GiB", "8GiB", NULL, 8, 4, true},
      {"0=4GiB", "0=8GiB,1=2GiB", NULL, 4, 2, false},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    char setting[64], system[64];
    const char *const environment[] = {setting, NULL};
    snprintf(setting, sizeof(setting), "GPUPOOL_LIMIT=%s", cases[i].own);
    snprintf(system, sizeof(system), "LIMIT=%s\n", cases[i].ceiling);
    take(NULL, system, environment);
    ck_assert_int_eq(heard.malformed, 0);
    ck_assert_int_eq(heard.count, cases[i].is_said);
    if (cases[i].is_said)
      ck_assert_ptr_nonnull(strstr(heard.last, "/system: its LIMIT is lower than GPUPOOL_LIMIT="));
    ck_assert_uint_eq(limit_of(0, 16 * GP_GIB), cases[i].first * GP_GIB);
    ck_assert_uint_eq(limit_of(1, 16 * GP_GIB), cases[i].second * GP_GIB);
    if (cases[i].text)
      ck_assert_str_eq(gp_option_text(&options, GP_OPTION_limit), cases[i].text);
    /* The text is a setting, too: replays read it. */
    gp_options_t *again = malloc(sizeof(*again));
    ck_assert_ptr_nonnull(again);
    ck_assert(gp_option_parse(GP_OPTION_limit, gp_option_text(&options, GP_OPTION_limit), again, NULL, NULL));
    for (int device = 0; device < 2; device++)
      ck_assert_uint_eq(gp_amount_resolve(&again->limits[device], 16 * GP_GIB),
          gp_amount_resolve(&options.limits[device], 16 * GP_GIB));
    free(again);
    take(cases[i].own[0] == 'n' ? "" : system, NULL, environment); /* of the user's file it is a default */
    ck_assert_str_eq(gp_option_text(&options, GP_OPTION_limit), cases[i].own);
  }
}
END_TEST

START_TEST(test_who_may_write_it)
{
  take("STATS=1\n", NULL, NULL);
  for (mode_t mode = 0; mode <= 0666; mode = mode == 0 ? 0620 : mode == 0620 ? 0602 : 01000) {
    ck_assert_int_eq(chmod(files.user, mode ? mode : 0600), 0);
    heard = (heard_t){0};
    (void)gp_settings_read(&options, look_up, NULL, &files, hear, NULL);
    expect(GP_OPTION_stats, mode ? "0" : "1", mode ? GP_OPTION_FROM_DEFAULT : GP_OPTION_FROM_USER_FILE);
    ck_assert_int_eq(heard.count, mode != 0);
    if (mode)
      ck_assert_ptr_nonnull(strstr(heard.last, "/user: others may write to it, so it is not read"));
  }
  if (geteuid() != 0)
    return; /* cannot give a file away */
  ck_assert_int_eq(chmod(files.user, 0644), 0);
  ck_assert_int_eq(chown(files.user, 12345, 0), 0);
  (void)gp_settings_read(&options, look_up, NULL, &files, hear, NULL);
  ck_assert_ptr_nonnull(strstr(heard.last, "it belongs to user 12345, neither to you nor to root"));
  expect(GP_OPTION_stats, "0", GP_OPTION_FROM_DEFAULT);
}
END_TEST

START_TEST(test_files_that_cannot_be_one)
{
  static char large[GP_SETTINGS_BYTES + 2];
  memset(large, '#', GP_SETTINGS_BYTES + 1);
  take(large, NULL, NULL);
  ck_assert_ptr_nonnull(strstr(heard.last, "longer than 65536 bytes"));
  memset(large, 'x', 3000);
  large[3000] = '\n';
  strcpy(large + 3001, "STATS=1\n");
  take(large, NULL, NULL);
  ck_assert_ptr_nonnull(strstr(heard.last, "line 1: it is longer than 2047 characters"));
  expect(GP_OPTION_stats, "1", GP_OPTION_FROM_USER_FILE);
  unlink(files.user);
  ck_assert_int_eq(mkfifo(files.user, 0600), 0);
  (void)gp_settings_read(&options, look_up, NULL, &files, hear, NULL);
  ck_assert_ptr_nonnull(strstr(heard.last, "no regular file"));
}
END_TEST

START_TEST(test_where_the_files_are)
{
  static const struct {
    const char *environment[3];
    const char *user;
  } cases[] = {
      {{"HOME=/home/me", NULL}, "/home/me/.config/gpupool.conf"},
      {{"HOME=/home/me", "XDG_CONFIG_HOME=/conf", NULL}, "/conf/gpupool.conf"},
      {{"HOME=/home/me", "XDG_CONFIG_HOME=conf", NULL}, "/home/me/.config/gpupool.conf"},
      {{"HOME=me", NULL}, ""},
      {{NULL}, ""},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    gp_settings_files_t found;
    gp_settings_files_find(&found, look_up, (void *)(uintptr_t)cases[i].environment);
    ck_assert_str_eq(found.user, cases[i].user);
    ck_assert_str_eq(found.system, "/etc/gpupool.conf");
  }
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("settings_files");
  TCase *tests = tcase_create("settings_files");
  tcase_add_checked_fixture(tests, make_folder, remove_folder);
  tcase_add_test(tests, test_what_goes_before_what);
  tcase_add_test(tests, test_a_profile_comes_after_the_place_that_names_it);
  tcase_add_test(tests, test_lines_that_are_wrong);
  tcase_add_test(tests, test_lines_as_a_shell_has_them);
  tcase_add_test(tests, test_a_line_that_cannot_be_read_may_be_a_limit);
  tcase_add_test(tests, test_two_limits_in_a_file_are_malformed);
  tcase_add_test(tests, test_names_that_only_look_like_an_option);
  tcase_add_test(tests, test_a_machines_file_that_cannot_be_read_refuses);
  tcase_add_test(tests, test_a_lack_of_descriptors_is_no_missing_limit);
  tcase_add_test(tests, test_a_malformed_limit_of_any_file_refuses);
  tcase_add_test(tests, test_the_machines_limit_is_a_ceiling);
  tcase_add_test(tests, test_the_machines_limit_of_the_host_is_a_ceiling);
  tcase_add_test(tests, test_who_may_write_it);
  tcase_add_test(tests, test_files_that_cannot_be_one);
  tcase_add_test(tests, test_where_the_files_are);
  suite_add_tcase(suite, tests);
  return gp_check_main(suite);
}
