/*
 * Snapshot files: names, folders, errors, how many; and when an out of memory writes one.
 */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "leaks.h"
#include "fake_engine.h"
#include "base/size.h"
#include "test/pool/check_main.h"
#include "trace/record/recorder_state.h"
#include "trace/snapshot/snapshot.h"
#include "trace/snapshot/snapshot_file.h"
#include "base/pages.h"

static char folder[] = "/tmp/check_snapshot.XXXXXX";
static char fallback[128];
static gp_recorder_t *recorder;
static gp_snapshot_writer_t *writer;
static char content[1 << 20];

static void setup(void)
{
  strcpy(folder + strlen(folder) - 6, "XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(folder));
  ck_assert_int_eq(chdir(folder), 0);
  snprintf(fallback, sizeof(fallback), "%s/fallback", folder);
  ck_assert_int_eq(mkdir(fallback, 0700), 0);
  setenv("TMPDIR", fallback, 1);
  fake_reset();
  fake_fill();
}

static void make_recorder(const char *output, const char *more)
{
  const gp_options_t *options = output ? fake_options(output, more, NULL) : fake_options(more, NULL);
  recorder = gp_recorder_create(options, fake_clock, NULL);
  ck_assert_ptr_nonnull(recorder);
  writer = gp_snapshot_writer_create(recorder);
  ck_assert_ptr_nonnull(writer);
  gp_snapshot_writer_attach(writer, fake_engine_pointer());
}

static void destroy_recorder(void)
{
  gp_snapshot_writer_destroy(writer);
  gp_recorder_destroy(recorder);
  recorder = NULL;
  writer = NULL;
}

static void teardown(void)
{
  char command[256];
  destroy_recorder();
  snprintf(command, sizeof(command), "rm -rf %s", folder);
  ck_assert_int_eq(system(command), 0);
}

/* Entries of a folder, hidden ones too: leftover temporary files count. */
static int count_files(const char *path)
{
  int count = 0;
  DIR *dir = opendir(path);
  ck_assert_ptr_nonnull(dir);
  for (struct dirent *entry; (entry = readdir(dir));)
    count += strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..") && strcmp(entry->d_name, "fallback");
  closedir(dir);
  return count;
}

static const char *read_file(const char *path)
{
  int fd = open(path, O_RDONLY);
  ck_assert_msg(fd >= 0, "%s is missing", path);
  ssize_t length = read(fd, content, sizeof(content) - 1);
  ck_assert_int_ge(length, 0);
  content[length] = '\0';
  close(fd);
  return content;
}

static void write_text(const char *path, const char *text)
{
  FILE *file = fopen(path, "w");
  ck_assert_ptr_nonnull(file);
  fputs(text, file);
  fclose(file);
}

static void tell_oom(const gp_oom_t *oom)
{
  const gp_observer_t observer = gp_recorder_observer(recorder);
  observer.out_of_memory(observer.self, oom);
}

static int write_snapshot(void)
{
  return gp_snapshot_write(writer, "test", NULL, NULL);
}

START_TEST(test_file_is_complete_and_private)
{
  make_recorder("GPUPOOL_OUTPUT=snap.%r.%n.json", NULL);
  umask(0);
  ck_assert_int_eq(write_snapshot(), 0);
  struct stat status;
  ck_assert_int_eq(stat("snap.test.1.json", &status), 0);
  ck_assert_uint_eq(status.st_mode & 07777, 0600);
  const char *text = read_file("snap.test.1.json");
  ck_assert_ptr_eq(strstr(text, "{\n\"format\":\"gpupool-snapshot\",\n\"version\":1,\n"), text);
  ck_assert_str_eq(text + strlen(text) - 2, "}\n");
  ck_assert_int_eq(count_files("."), 1);
  ck_assert_uint_eq(
      fake_log_matches("snapshot written: snap.test.1.json; next: gpupool summary snap.test.1.json"), 1);
  ck_assert_int_eq(fake_log_levels[0], GP_LOG_INFO);
}
END_TEST

START_TEST(test_versions_are_those_that_were_set)
{
  make_recorder("GPUPOOL_OUTPUT=snap.json", NULL);
  ck_assert_int_eq(write_snapshot(), 0);
  ck_assert_ptr_nonnull(strstr(read_file("snap.json"), "\"driver_version\":null,\"runtime_version\":null}"));
  gp_recorder_set_versions(recorder, 13000, 12090);
  ck_assert_int_eq(write_snapshot(), 0);
  ck_assert_ptr_nonnull(
      strstr(read_file("snap.json.1"), "\"driver_version\":13000,\"runtime_version\":12090}"));
}
END_TEST

START_TEST(test_nothing_is_overwritten)
{
  make_recorder("GPUPOOL_OUTPUT=snap.json", NULL);
  write_text("snap.json", "mine");
  write_text("snap.json.1", "mine too");
  ck_assert_int_eq(write_snapshot(), 0);
  ck_assert_int_eq(write_snapshot(), 0);
  ck_assert_str_eq(read_file("snap.json"), "mine");
  ck_assert_str_eq(read_file("snap.json.1"), "mine too");
  ck_assert_ptr_nonnull(strstr(read_file("snap.json.2"), "gpupool-snapshot"));
  ck_assert_ptr_nonnull(strstr(read_file("snap.json.3"), "gpupool-snapshot"));
  ck_assert_int_eq(count_files("."), 4);
}
END_TEST

START_TEST(test_dangling_link_is_not_followed)
{
  make_recorder("GPUPOOL_OUTPUT=snap.json", NULL);
  ck_assert_int_eq(symlink("victim", "snap.json"), 0);
  ck_assert_int_eq(write_snapshot(), 0);
  ck_assert_int_ne(access("victim", F_OK), 0);
  ck_assert_int_eq(access("snap.json.1", F_OK), 0);
}
END_TEST

START_TEST(test_stale_temporary_file_is_left_alone)
{
  char name[64];
  make_recorder("GPUPOOL_OUTPUT=snap.json", NULL);
  snprintf(name, sizeof(name), ".gpupool-%d-1.tmp", (int)getpid());
  write_text(name, "of another life");
  ck_assert_int_eq(write_snapshot(), 0);
  ck_assert_str_eq(read_file(name), "of another life");
  ck_assert_int_eq(count_files("."), 2);
}
END_TEST

START_TEST(test_folder_as_output_gets_the_default_name)
{
  ck_assert_int_eq(mkdir("out", 0700), 0);
  make_recorder(_i ? "GPUPOOL_OUTPUT=out/" : "GPUPOOL_OUTPUT=out", NULL);
  ck_assert_int_eq(write_snapshot(), 0);
  ck_assert_int_eq(count_files("out"), 1);
  char expected[256];
  snprintf(expected, sizeof(expected), "snapshot written: out/gpupool.%s.", program_invocation_short_name);
  ck_assert_uint_eq(fake_log_matches(expected), 1);
}
END_TEST

START_TEST(test_missing_folder_falls_back)
{
  make_recorder("GPUPOOL_OUTPUT=missing/snap.%n.json", NULL);
  ck_assert_int_eq(write_snapshot(), 0);
  ck_assert_int_eq(write_snapshot(), 0);
  ck_assert_int_eq(count_files(fallback), 2);
  ck_assert_uint_eq(fake_log_matches("cannot create missing/snap.1.json"), 1);
  ck_assert_uint_eq(fake_log_matches("cannot create"), 1); /* one line */
  char expected[256];
  snprintf(expected, sizeof(expected), "snapshot written: %s/snap.2.json", fallback);
  ck_assert_uint_eq(fake_log_matches(expected), 1);
}
END_TEST

/* The user who has named the file looks for it just there. */
START_TEST(test_path_asked_for_does_not_fall_back)
{
  make_recorder("GPUPOOL_OUTPUT=snap.json", NULL);
  ck_assert_int_eq(gp_snapshot_write(writer, "request", NULL, "missing/snap.json"), ENOENT);
  ck_assert_int_eq(count_files(fallback), 0);
  ck_assert_uint_eq(
      fake_log_matches("cannot write the snapshot missing/snap.json: No such file or directory"), 1);
}
END_TEST

START_TEST(test_no_folder_at_all_is_one_line)
{
  setenv("TMPDIR", "/nonexistent", 1);
  make_recorder("GPUPOOL_OUTPUT=missing/snap.json", NULL);
  errno = 4711;
  ck_assert_int_eq(write_snapshot(), ENOENT);
  ck_assert_int_eq(errno, 4711);
  ck_assert_uint_eq(fake_log_count, 1);
  ck_assert_str_eq(fake_log[0], "cannot write the snapshot missing/snap.json: No such file or directory");
  ck_assert_int_eq(fake_log_levels[0], GP_LOG_ERROR);
  ck_assert_int_eq(count_files("."), 0);
}
END_TEST

/* The file size limit stands for a full disk: write(2) fails in the middle of the document. */
START_TEST(test_full_disk_leaves_nothing)
{
  pid_t child = fork();
  if (child == 0) {
    make_recorder("GPUPOOL_OUTPUT=snap.json", NULL);
    for (uint64_t i = 0; i < 20000; i++)
      fake_record(recorder, GP_ACTION_ALLOC, fake_now_ns + i, i);
    /* SIGXFSZ at its default would end the process. */
    const struct rlimit limit = {100000, 100000};
    if (_i == 1)
      signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &limit))
      _exit(2);
    if (write_snapshot() != EFBIG)
      _exit(3);
    if (fake_log_count != 1 || strcmp(fake_log[0], "cannot write the snapshot snap.json: File too large"))
      _exit(4);
    sigset_t pending;
    sigpending(&pending);
    if (sigismember(&pending, SIGXFSZ))
      _exit(5);
    _exit(count_files(".") == 0 ? 0 : 6);
  }
  int status;
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_int_eq(status, 0);
}
END_TEST

/* As network file systems do, which find out then that they have no room. */
START_TEST(test_an_error_of_close_leaves_nothing)
{
  static gp_snapshot_file_t file;
  ck_assert_int_eq(gp_snapshot_file_open(&file, "snap.json", false), 0);
  ck_assert_int_eq(count_files("."), 1);
  close(file.fd);
  ck_assert_int_eq(gp_snapshot_file_publish(&file), EBADF);
  ck_assert_int_eq(count_files("."), 0);
}
END_TEST

START_TEST(test_no_more_files_than_output_max)
{
  make_recorder("GPUPOOL_OUTPUT=snap.json", "GPUPOOL_OUTPUT_MAX=2");
  ck_assert_int_eq(write_snapshot(), 0);
  ck_assert_int_eq(write_snapshot(), 0);
  ck_assert_int_eq(write_snapshot(), ECANCELED);
  ck_assert_int_eq(write_snapshot(), ECANCELED);
  ck_assert_int_eq(count_files("."), 2);
  ck_assert_uint_eq(fake_log_matches("no more will be (GPUPOOL_OUTPUT_MAX)"), 1);
  /* A path that the user asked for by name is another matter. */
  ck_assert_int_eq(gp_snapshot_write(writer, "api", NULL, "100%d.json"), 0);
  ck_assert_int_eq(access("100%d.json", F_OK), 0);
}
END_TEST

START_TEST(test_failed_files_do_not_count)
{
  setenv("TMPDIR", "/nonexistent", 1);
  make_recorder("GPUPOOL_OUTPUT=later/snap.json", "GPUPOOL_OUTPUT_MAX=1");
  ck_assert_int_eq(write_snapshot(), ENOENT);
  ck_assert_int_eq(mkdir("later", 0700), 0);
  ck_assert_int_eq(write_snapshot(), 0);
}
END_TEST

START_TEST(test_snapshot_event_shows_in_the_next_one)
{
  make_recorder("GPUPOOL_OUTPUT=snap.%n.json", NULL);
  ck_assert_int_eq(write_snapshot(), 0);
  fake_now_ns += 1000;
  ck_assert_int_eq(write_snapshot(), 0);
  ck_assert_ptr_nonnull(strstr(read_file("snap.1.json"), "\"action\":[],"));
  char expected[64];
  snprintf(expected, sizeof(expected), "\"action\":[%d],", GP_ACTION_SNAPSHOT);
  ck_assert_ptr_nonnull(strstr(read_file("snap.2.json"), expected));
  ck_assert_ptr_nonnull(strstr(content, "\"size\":[6291456],"));
}
END_TEST

START_TEST(test_blocks_are_read_until_they_fit)
{
  make_recorder("GPUPOOL_OUTPUT=snap.json", NULL);
  for (int i = 4; i < 1000; i++)
    fake_engine.blocks[i] = (gp_block_view_t){.address = 0x7f1000000000 + (uint64_t)i * 4096, .size = 4096};
  fake_engine.block_count = 1000; /* the statistics say 4 */
  ck_assert_int_eq(write_snapshot(), 0);
  ck_assert_uint_eq(fake_engine.block_reads, 2);
  const char *text = read_file("snap.json");
  char expected[64];
  snprintf(
      expected, sizeof(expected), "\"address\":%llu,\"total_size\":4096", 0x7f1000000000ull + 999 * 4096);
  ck_assert_ptr_nonnull(strstr(text, expected));
}
END_TEST

/* Of 4 MiB that are idle, 3 are one block. */
START_TEST(test_fragmentation_is_what_the_largest_lacks)
{
  make_recorder("GPUPOOL_OUTPUT=snap.json", NULL);
  ck_assert_int_eq(write_snapshot(), 0);
  ck_assert_ptr_nonnull(strstr(read_file("snap.json"), "\"fragmentation\":0.25"));
}
END_TEST

START_TEST(test_emergency_pages_are_counted)
{
  unsigned before = gp_emergency_pages_held();
  void *pages = gp_emergency_pages_map(4096, false);
  ck_assert_ptr_nonnull(pages);
  ck_assert_uint_eq(gp_emergency_pages_held(), before + 1);
  gp_emergency_pages_unmap(pages, 4096);
  ck_assert_uint_eq(gp_emergency_pages_held(), before);
}
END_TEST

/* As the kernel's, also where another snapshot used them: the kernel refuses everything meanwhile. */
START_TEST(test_emergency_pages_are_zero_each_time)
{
  enum { BYTES = 4096 };
  struct rlimit limit, none;
  void *used[2];
  bool is_zero = true;

  ck_assert(gp_emergency_pages_prepare());
  ck_assert_int_eq(getrlimit(RLIMIT_AS, &limit), 0);
  none = limit;
  none.rlim_cur = BYTES;
  ck_assert_int_eq(setrlimit(RLIMIT_AS, &none), 0);
  for (int i = 0; i < 2; i++) {
    used[i] = gp_emergency_pages_map(BYTES, false);
    for (size_t at = 0; used[i] && at < BYTES; at++)
      is_zero &= ((const unsigned char *)used[i])[at] == 0;
    if (used[i])
      memset(used[i], 0xa5, BYTES);
    gp_emergency_pages_unmap(used[i], BYTES);
  }
  ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
  ck_assert_ptr_nonnull(used[0]);
  ck_assert_ptr_eq(used[1], used[0]); /* of the reserve: the same, which was given back */
  ck_assert(is_zero);
}
END_TEST

START_TEST(test_a_cut_segment_has_all_its_blocks)
{
  make_recorder("GPUPOOL_OUTPUT=snap.json", NULL);
  fake_add_cut_segment();
  ck_assert_int_eq(write_snapshot(), 0);
  const char *text = read_file("snap.json");
  const char *segment = strstr(text,
      "{\"device\":0,\"address\":139637993504768,\"total_size\":4194304,\"allocated_size\":1048576,\"active_size\":1572864,\"requested_size\":1500000,\"stream\":-1,\"context\":1,\"blocks\":[{\"address\":139637993504768,\"size\":1048576,\"requested_size\":1000000,\"block\":21,\"state\":\"active_allocated\",\"refs\":1,");
  ck_assert_ptr_nonnull(segment);
  ck_assert_ptr_nonnull(strstr(segment,
      "{\"address\":139637994553344,\"size\":1048576,\"requested_size\":0,\"block\":0,\"state\":\"inactive\",\"refs\":0,\"stack\":-1,\"stream\":-1,\"time_ns\":0,"));
  const char *pending = strstr(segment, "\"address\":139637995601920,\"size\":524288,");
  ck_assert_ptr_nonnull(pending);
  ck_assert_ptr_nonnull(strstr(pending, "\"address\":139637996126208,\"size\":1572864,"));
}
END_TEST

/* A second reading would hold up the program's allocations once more. */
START_TEST(test_the_blocks_of_a_cut_segment_are_read_at_once)
{
  make_recorder("GPUPOOL_OUTPUT=snap.json", NULL);
  fake_engine.block_count = 2000;
  for (uint64_t i = 0; i < fake_engine.block_count; i++)
    fake_engine.blocks[i] = (gp_block_view_t){.address = 0x7f1000000000 + i * 512,
        .size = 512,
        .segment_address = 0x7f1000000000,
        .segment_size = fake_engine.block_count * 512,
        .refs = i % 2,
        .state = i % 2 ? GP_BLOCK_ALLOCATED : GP_BLOCK_IDLE};
  fake_engine.stats.segment.current = 1;
  fake_engine.stats.allocation.current = 1000;
  ck_assert_int_eq(write_snapshot(), 0);
  ck_assert_uint_eq(fake_engine.block_reads, 1);
}
END_TEST

static void allocate_meanwhile(void)
{
  uint64_t block = 100 + fake_engine.block_count;
  fake_now_ns += 1000;
  fake_record(recorder, GP_ACTION_ALLOC, fake_now_ns, block);
  fake_engine.blocks[fake_engine.block_count++] = (gp_block_view_t){.address = 0x7f0000000000 + (block << 21),
      .size = 2 << 20,
      .requested = 1,
      .block_id = block,
      .state = GP_BLOCK_ALLOCATED};
  fake_engine.stats.cache_misses++;
}

/* One allocation between the wish for a snapshot and the copy of the blocks, and one just after it. */
START_TEST(test_events_end_where_the_blocks_were_copied)
{
  make_recorder("GPUPOOL_OUTPUT=snap.json", NULL);
  fake_engine.others = allocate_meanwhile;
  ck_assert_int_eq(write_snapshot(), 0);
  const char *text = read_file("snap.json");
  ck_assert_ptr_nonnull(strstr(text, "\"block\":104")); /* of a segment: the fifth block */
  ck_assert_ptr_null(strstr(text, "\"block\":105"));
  ck_assert_ptr_nonnull(strstr(text, "\"block\":[104],")); /* of the events */
  ck_assert_ptr_nonnull(strstr(text, "\"cache_misses\":2,"));
}
END_TEST

START_TEST(test_child_writes_no_file)
{
  make_recorder("GPUPOOL_OUTPUT=snap.json", NULL);
  pid_t child = fork();
  if (child == 0) {
    if (_i)
      gp_recorder_fork_child(recorder);
    gp_snapshot_at_exit(writer);
    write_snapshot();
    const gp_oom_t oom = {.requested = 1};
    tell_oom(&oom);
    _exit(count_files("."));
  }
  int status;
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_int_eq(status, 0);
}
END_TEST

/*
 * At exit
 */

START_TEST(test_exit_writes_where_memory_was_used)
{
  make_recorder("GPUPOOL_OUTPUT=snap.%r.json", NULL);
  memset(&fake_engine.stats, 0, sizeof(fake_engine.stats));
  ck_assert_int_eq(gp_snapshot_at_exit(writer), 0);
  ck_assert_int_eq(count_files("."), 0);
  fake_engine.stats.allocation.allocated = 1;
  ck_assert_int_eq(gp_snapshot_at_exit(writer), 0);
  ck_assert_int_eq(access("snap.exit.json", F_OK), 0);
}
END_TEST

START_TEST(test_nothing_is_written_after_the_end)
{
  make_recorder("GPUPOOL_OUTPUT=snap.json", NULL);
  gp_snapshot_close(writer);
  ck_assert_int_eq(gp_snapshot_write(writer, "test", NULL, NULL), ECANCELED);
  const gp_oom_t oom = {.requested = 1};
  tell_oom(&oom);
  ck_assert_int_eq(count_files("."), 0);
  gp_snapshot_close(NULL);
}
END_TEST

START_TEST(test_exit_is_silent_without_engine_or_wish)
{
  make_recorder("GPUPOOL_OUTPUT=snap.json", "GPUPOOL_SNAPSHOT_AT=oom");
  ck_assert_int_eq(gp_snapshot_at_exit(writer), 0);
  destroy_recorder();
  make_recorder("GPUPOOL_OUTPUT=snap.json", NULL);
  gp_snapshot_writer_attach(writer, NULL);
  ck_assert_int_eq(gp_snapshot_at_exit(writer), 0);
  ck_assert_int_eq(gp_snapshot_at_exit(NULL), 0);
  ck_assert_int_eq(count_files("."), 0);
}
END_TEST

/*
 * Out of memory
 */

static const gp_oom_t example = {.requested = 2 * GP_GIB, .live = 7 * GP_GIB, .device = 3};

static void out_of_memory(void)
{
  const gp_observer_t observer = gp_recorder_observer(recorder);
  observer.out_of_memory(observer.self, &example);
}

START_TEST(test_oom_reports_first_and_once_a_minute)
{
  make_recorder("GPUPOOL_OUTPUT=snap.%n.json", NULL);
  for (int i = 0; i < 10; i++)
    out_of_memory();
  ck_assert_int_eq(count_files("."), 1);
  ck_assert_uint_eq(fake_log_matches("out of memory"), 1);
  ck_assert_uint_eq(fake_log_matches("snapshot written"), 1);
  ck_assert_int_eq(fake_log_levels[0], GP_LOG_ERROR);
  ck_assert_int_eq(fake_log_levels[1], GP_LOG_ERROR);
  fake_now_ns += UINT64_C(59999999999);
  out_of_memory();
  ck_assert_int_eq(count_files("."), 1);
  fake_now_ns += 1;
  out_of_memory();
  out_of_memory();
  ck_assert_int_eq(count_files("."), 2);
  ck_assert_uint_eq(fake_log_matches("out of memory"), 2);
}
END_TEST

/* The program may have ended of the last one. */
START_TEST(test_oom_that_had_no_line_is_told_at_the_exit)
{
  make_recorder("GPUPOOL_OUTPUT=snap.%r.json", NULL);
  fake_engine.stats.allocation.allocated = 1;
  for (int i = 0; i < 3; i++)
    out_of_memory();
  ck_assert_int_eq(gp_snapshot_at_exit(writer), 0);
  ck_assert_uint_eq(
      fake_log_matches("memory ran out 2 more times, the last time out of memory on device 3"), 1);
  ck_assert_ptr_nonnull(strstr(read_file("snap.exit.json"), "\"unreported_ooms\":2,"));
  ck_assert_ptr_nonnull(strstr(read_file("snap.exit.json"), "\"oom\":{"));
}
END_TEST

START_TEST(test_oom_that_had_a_line_is_not_told_again)
{
  make_recorder("GPUPOOL_OUTPUT=snap.%r.json", NULL);
  fake_engine.stats.allocation.allocated = 1;
  out_of_memory();
  ck_assert_int_eq(gp_snapshot_at_exit(writer), 0);
  ck_assert_uint_eq(fake_log_matches("out of memory"), 1);
  ck_assert_ptr_null(strstr(read_file("snap.exit.json"), "unreported_ooms"));
  ck_assert_ptr_null(strstr(read_file("snap.exit.json"), "\"oom\":{"));
}
END_TEST

START_TEST(test_oom_line_comes_without_snapshot)
{
  make_recorder("GPUPOOL_OUTPUT=snap.json", "GPUPOOL_SNAPSHOT_AT=exit");
  out_of_memory();
  ck_assert_int_eq(count_files("."), 0);
  ck_assert_uint_eq(fake_log_count, 1);
}
END_TEST

START_TEST(test_oom_before_the_engine_is_known)
{
  make_recorder("GPUPOOL_OUTPUT=snap.json", NULL);
  gp_snapshot_writer_attach(writer, NULL);
  out_of_memory();
  ck_assert_ptr_nonnull(strstr(read_file("snap.json"), "\"devices\":[],"));
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("snapshot");
  TCase *tcase = tcase_create("file");
  gp_add_leak_fixtures(tcase);
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_set_timeout(tcase, 60);
  tcase_add_test(tcase, test_file_is_complete_and_private);
  tcase_add_test(tcase, test_versions_are_those_that_were_set);
  tcase_add_test(tcase, test_nothing_is_overwritten);
  tcase_add_test(tcase, test_dangling_link_is_not_followed);
  tcase_add_test(tcase, test_stale_temporary_file_is_left_alone);
  tcase_add_loop_test(tcase, test_folder_as_output_gets_the_default_name, 0, 2);
  tcase_add_test(tcase, test_missing_folder_falls_back);
  tcase_add_test(tcase, test_path_asked_for_does_not_fall_back);
  tcase_add_test(tcase, test_no_folder_at_all_is_one_line);
  tcase_add_loop_test(tcase, test_full_disk_leaves_nothing, 0, 2);
  tcase_add_test(tcase, test_an_error_of_close_leaves_nothing);
  tcase_add_test(tcase, test_no_more_files_than_output_max);
  tcase_add_test(tcase, test_failed_files_do_not_count);
  tcase_add_test(tcase, test_snapshot_event_shows_in_the_next_one);
  tcase_add_test(tcase, test_blocks_are_read_until_they_fit);
  tcase_add_test(tcase, test_fragmentation_is_what_the_largest_lacks);
  tcase_add_test(tcase, test_emergency_pages_are_counted);
  tcase_add_test(tcase, test_emergency_pages_are_zero_each_time);
  tcase_add_test(tcase, test_a_cut_segment_has_all_its_blocks);
  tcase_add_test(tcase, test_the_blocks_of_a_cut_segment_are_read_at_once);
  tcase_add_test(tcase, test_events_end_where_the_blocks_were_copied);
  tcase_add_loop_test(tcase, test_child_writes_no_file, 0, 2);
  tcase_add_test(tcase, test_exit_writes_where_memory_was_used);
  tcase_add_test(tcase, test_nothing_is_written_after_the_end);
  tcase_add_test(tcase, test_exit_is_silent_without_engine_or_wish);
  suite_add_tcase(suite, tcase);
  tcase = tcase_create("oom");
  gp_add_leak_fixtures(tcase);
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_test(tcase, test_oom_reports_first_and_once_a_minute);
  tcase_add_test(tcase, test_oom_that_had_no_line_is_told_at_the_exit);
  tcase_add_test(tcase, test_oom_that_had_a_line_is_not_told_again);
  tcase_add_test(tcase, test_oom_line_comes_without_snapshot);
  tcase_add_test(tcase, test_oom_before_the_engine_is_known);
  suite_add_tcase(suite, tcase);
  return gp_check_main(suite);
}
