/*
 * The memory of the record and its file: where it is, how much of it, and what happens without.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "leaks.h"
#include "fake_engine.h"
#include "test/pool/check_main.h"
#include "trace/region/region.h"

#define MIB ((size_t)1 << 20)

static char root[64];
static char folder[128];
static gp_region_t region;
static uint64_t free_bytes;

static int fake_statvfs(int fd, struct statvfs *ret_status)
{
  *ret_status =
      (struct statvfs){.f_bavail = free_bytes / 4096, .f_blocks = 16 * MIB / 4096, .f_frsize = 4096};
  return 0;
}

static gp_region_plan_t plan_of(uint64_t start_time_us)
{
  return (gp_region_plan_t){.root = root,
      .base_ns = 5,
      .start_time_us = start_time_us,
      .pid = getpid(),
      .capacity =
          {[GP_SECTION_THREADS] = 100000, [GP_SECTION_LIVE] = 64 * MIB, [GP_SECTION_EVENTS] = 64 * MIB},
      .statvfs = fake_statvfs};
}

static void init(void)
{
  const gp_region_plan_t plan = plan_of(1000);
  ck_assert(gp_region_init(&region, &plan));
}

static void setup(void)
{
  fake_reset();
  strcpy(root, "check_region.XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(root));
  ck_assert(gp_record_folder(root, folder, sizeof(folder)));
  free_bytes = 1024 * MIB;
}

static void teardown(void)
{
  char command[256];
  gp_region_fini(&region);
  snprintf(command, sizeof(command), "rm -rf '%s'", root);
  ck_assert_int_eq(system(command), 0);
}

static bool exists(const char *name)
{
  char path[256];
  snprintf(path, sizeof(path), "%s/%s", folder, name);
  return access(path, F_OK) == 0;
}

START_TEST(test_nothing_is_made_before_the_first_growth)
{
  init();
  ck_assert_int_ne(access(folder, F_OK), 0);
  ck_assert(gp_region_grow(&region, GP_SECTION_THREADS, 100));
  struct stat status;
  ck_assert_int_eq(stat(folder, &status), 0);
  ck_assert_uint_eq(status.st_mode & 07777, 0700);
  ck_assert_int_eq(stat(region.file.path, &status), 0);
  ck_assert_uint_eq(status.st_mode & 07777, 0600);
  ck_assert_int_eq(memcmp(region.header->magic, GP_RECORD_MAGIC, 8), 0);
  gp_region_remove(&region);
  ck_assert_int_ne(access(region.file.path, F_OK), 0);
}
END_TEST

START_TEST(test_what_is_written_is_in_the_file)
{
  size_t capacity;
  init();
  char *threads = gp_region_section(&region, GP_SECTION_THREADS, &capacity);
  ck_assert_uint_ge(capacity, 100000);
  ck_assert(gp_region_grow(&region, GP_SECTION_THREADS, 9000));
  strcpy(threads + 8990, "here");
  char text[5] = "";
  int fd = open(region.file.path, O_RDONLY);
  const off_t at = (off_t)region.header->sections[GP_SECTION_THREADS].offset + 8990;
  ck_assert_int_eq(pread(fd, text, 5, at), 5);
  close(fd);
  ck_assert_str_eq(text, "here");
  ck_assert_uint_ge(region.header->sections[GP_SECTION_THREADS].used, 9000);
  ck_assert(!gp_region_grow(&region, GP_SECTION_THREADS, capacity + 1));
}
END_TEST

START_TEST(test_an_eighth_of_what_is_free_is_the_most)
{
  free_bytes = 16 * MIB;
  init();
  ck_assert(gp_region_grow(&region, GP_SECTION_EVENTS, 1 * MIB));
  ck_assert(region.is_file);
  ck_assert(!gp_region_grow(&region, GP_SECTION_EVENTS, 2 * MIB));
  ck_assert(gp_region_grow(&region, GP_SECTION_EVENTS, 7 * MIB / 4));
  /* What events leave is for the others. */
  ck_assert(gp_region_grow(&region, GP_SECTION_LIVE, 128 * 1024));
  ck_assert(!gp_region_grow(&region, GP_SECTION_LIVE, MIB));
  struct stat status;
  ck_assert_int_eq(stat(region.file.path, &status), 0);
  ck_assert_uint_le((uint64_t)status.st_blocks * 512, 2 * MIB + 4096);
}
END_TEST

static void assert_ordinary(const char *problem)
{
  char *events = gp_region_section(&region, GP_SECTION_EVENTS, NULL);
  ck_assert(gp_region_grow(&region, GP_SECTION_EVENTS, 32 * MIB));
  memset(events, 1, 32 * MIB);
  ck_assert(!region.is_file);
  ck_assert_msg(strstr(region.problem, problem), "%s", region.problem);
}

START_TEST(test_too_little_shared_memory_is_not_used)
{
  free_bytes = 3 * MIB;
  init();
  assert_ordinary("only 3 MiB of 16 MiB is free");
  ck_assert_uint_eq(fake_log_matches("ordinary memory"), 1);
  ck_assert_int_eq(fake_log_levels[0], GP_LOG_INFO);
  char command[256];
  snprintf(command, sizeof(command), "test -z \"$(ls %s)\"", folder);
  ck_assert_int_eq(system(command), 0);
}
END_TEST

START_TEST(test_a_folder_that_is_not_there_is_said)
{
  strcat(root, "/none");
  init();
  assert_ordinary("cannot use the folder: No such file or directory");
  ck_assert_uint_eq(fake_log_matches("GPUPOOL_RECORD=check_region."), 1);
  ck_assert_int_eq(fake_log_levels[0], GP_LOG_ERROR);
  *strrchr(root, '/') = '\0';
}
END_TEST

START_TEST(test_a_folder_that_others_can_enter_is_not_used)
{
  ck_assert_int_eq(mkdir(folder, 0755), 0);
  ck_assert_int_eq(chmod(folder, 0755), 0);
  init();
  assert_ordinary("other users have access");
}
END_TEST

START_TEST(test_a_folder_of_another_user_is_not_used)
{
  if (geteuid() != 0)
    return; /* cannot make one */
  ck_assert_int_eq(mkdir(folder, 0700), 0);
  ck_assert_int_eq(chown(folder, 12345, 12345), 0);
  init();
  assert_ordinary("other users have access");
}
END_TEST

START_TEST(test_a_link_is_not_followed)
{
  char target[128];
  snprintf(target, sizeof(target), "%s/target", root);
  ck_assert_int_eq(mkdir(target, 0700), 0);
  ck_assert_int_eq(symlink("target", folder), 0);
  init();
  assert_ordinary("cannot open its folder");
}
END_TEST

START_TEST(test_a_name_that_is_taken_is_left_alone)
{
  char name[64];
  char path[256];
  ck_assert_int_eq(mkdir(folder, 0700), 0);
  snprintf(name, sizeof(name), "%d-1000", (int)getpid());
  snprintf(path, sizeof(path), "%s/%s", folder, name);
  ck_assert_int_eq(symlink("../../elsewhere", path), 0);
  init();
  assert_ordinary("File exists");
  ck_assert_int_ne(access("elsewhere", F_OK), 0);
}
END_TEST

START_TEST(test_no_folder_is_ordinary_memory)
{
  strcat(root, "/missing");
  init();
  assert_ordinary("No such file or directory");
  root[strlen(root) - 8] = '\0';
}
END_TEST

START_TEST(test_a_limit_of_file_sizes_is_no_signal)
{
  pid_t child = fork();
  if (child == 0) {
    const struct rlimit limit = {100000, 100000};
    init();
    if (setrlimit(RLIMIT_FSIZE, &limit))
      _exit(2);
    if (!gp_region_grow(&region, GP_SECTION_EVENTS, MIB))
      _exit(3);
    _exit(region.is_file ? 4 : 0);
  }
  int status;
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(test_a_full_file_system_is_no_signal)
{
  if (geteuid() != 0 || mount("none", root, "tmpfs", 0, "size=1m"))
    return; /* cannot make one */
  init();
  bool first = gp_region_grow(&region, GP_SECTION_EVENTS, 512 * 1024);
  bool second = gp_region_grow(&region, GP_SECTION_EVENTS, 2 * MIB);
  char *events = gp_region_section(&region, GP_SECTION_EVENTS, NULL);
  memset(events, 1, 512 * 1024);
  bool is_file = region.is_file;
  gp_region_fini(&region);
  ck_assert_int_eq(umount2(root, MNT_DETACH), 0);
  init(); /* for teardown */
  ck_assert(is_file);
  ck_assert(first);
  ck_assert(!second);
}
END_TEST

START_TEST(test_a_child_does_not_have_the_pages)
{
  init();
  ck_assert(gp_region_grow(&region, GP_SECTION_EVENTS, MIB));
  pid_t child = fork();
  if (child == 0) {
    unsigned char resident;
    _exit(mincore(region.header, 4096, &resident) != 0 && errno == ENOMEM ? 0 : 1);
  }
  int status;
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_int_eq(status, 0);
}
END_TEST

static void make_leftover(const char *name)
{
  char path[256];
  snprintf(path, sizeof(path), "%s/%s", folder, name);
  int fd = open(path, O_CREAT | O_WRONLY, 0600);
  ck_assert_int_ge(fd, 0);
  close(fd);
}

START_TEST(test_four_leftovers_are_kept)
{
  ck_assert_int_eq(mkdir(folder, 0700), 0);
  static const char *const names[] = {
      "10-600", "10-100", "11-500", "999999-300", "1-400", "12-200", "notes.txt", "5-1x"};
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
    make_leftover(names[i]);
  init();
  ck_assert(gp_region_grow(&region, GP_SECTION_EVENTS, 1));
  ck_assert(exists("10-600") && exists("11-500") && exists("999999-300") && exists("1-400"));
  ck_assert(!exists("10-100") && !exists("12-200"));
  ck_assert(exists("notes.txt") && exists("5-1x"));
  ck_assert_int_eq(access(region.file.path, F_OK), 0);
  ck_assert_uint_eq(fake_log_matches("4 records of programs that did not exit normally are left"), 1);
}
END_TEST

START_TEST(test_files_of_running_programs_are_not_leftovers)
{
  const gp_region_plan_t old = plan_of(1);
  gp_region_t running;
  ck_assert(gp_region_init(&running, &old));
  ck_assert(gp_region_grow(&running, GP_SECTION_EVENTS, 1));
  for (int i = 2; i < 9; i++) {
    char name[32];
    snprintf(name, sizeof(name), "10-%d", i);
    make_leftover(name);
  }
  init();
  ck_assert(gp_region_grow(&region, GP_SECTION_EVENTS, 1));
  ck_assert_int_eq(access(running.file.path, F_OK), 0);
  int fd = open(running.file.path, O_RDONLY);
  ck_assert(gp_record_file_is_in_use(fd, getpid()));
  gp_region_fini(&running);
  ck_assert(!gp_record_file_is_in_use(fd, getpid())); /* whatever has the pid now */
  close(fd);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("region");
  TCase *tcase = tcase_create("region");
  gp_add_leak_fixtures(tcase);
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_test(tcase, test_nothing_is_made_before_the_first_growth);
  tcase_add_test(tcase, test_what_is_written_is_in_the_file);
  tcase_add_test(tcase, test_an_eighth_of_what_is_free_is_the_most);
  tcase_add_test(tcase, test_too_little_shared_memory_is_not_used);
  tcase_add_test(tcase, test_a_folder_that_is_not_there_is_said);
  tcase_add_test(tcase, test_a_folder_that_others_can_enter_is_not_used);
  tcase_add_test(tcase, test_a_folder_of_another_user_is_not_used);
  tcase_add_test(tcase, test_a_link_is_not_followed);
  tcase_add_test(tcase, test_a_name_that_is_taken_is_left_alone);
  tcase_add_test(tcase, test_no_folder_is_ordinary_memory);
  tcase_add_test(tcase, test_a_limit_of_file_sizes_is_no_signal);
  tcase_add_test(tcase, test_a_full_file_system_is_no_signal);
  tcase_add_test(tcase, test_a_child_does_not_have_the_pages);
  tcase_add_test(tcase, test_four_leftovers_are_kept);
  tcase_add_test(tcase, test_files_of_running_programs_are_not_leftovers);
  suite_add_tcase(suite, tcase);
  return gp_check_main(suite);
}
