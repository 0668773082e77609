/*
 * Names of code that a program made, from the file that it writes for perf.
 */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "leaks.h"
#include "test/pool/check_main.h"
#include "test/trace/stacks_document.h"
#include "trace/snapshot/document_stacks.h"

static char path[64];
static char other[80];

static void setup(void)
{
  (void)snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
  (void)snprintf(other, sizeof(other), "%s.other", path);
}

static void teardown(void)
{
  (void)unlink(path);
  (void)unlink(other);
}

static void write_map(const char *text)
{
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ck_assert_int_ge(fd, 0);
  ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
  close(fd);
}

/* The document of a stack of two frames, at 0x7000 in no module and at 0x7010 of Python. */
static char *document(void)
{
  static _Alignas(gp_stack_log_t) char made[sizeof(gp_stack_log_t) + 3 * sizeof(uint64_t)];
  gp_stack_log_t *log = (gp_stack_log_t *)made;
  const gp_stack_logs_t logs = {.stacks = log, .stack_bytes = sizeof(made)};

  log->word_count = 3;
  log->stack_count = 1;
  log->words[0] = 2;
  log->words[1] = gp_frame_pack(0x7000, -1);
  log->words[2] = gp_frame_pack_python(GP_FRAME_CODE_NONE, 0, true);
  return write_document(&logs, getpid(), geteuid());
}

static void expect(const char *frame)
{
  char *text = document();
  ck_assert_msg(strstr(text, frame) != NULL, "%s is not in %s", frame, text);
  ck_assert_ptr_nonnull(strstr(text, "\"function\":\"?\"")); /* the frame of Python is as without a map */
  free(text);
}

#define NAMED(function, file)                                                                                \
  "{\"address\":28672,\"module\":-1,\"function\":\"" function "\",\"file\":\"" file "\",\"line\":0}"
#define NAMELESS "{\"address\":28672,\"module\":-1}"

START_TEST(test_code_has_its_name)
{
  write_map("6ff0 10 before\n7000 b py::Model.forward:/home/a b/c:d.py\n700b 10 behind\n");
  expect(NAMED("Model.forward", "/home/a b/c:d.py"));
  write_map("7F0000000000 40 far\n6f00 101 void f<int>(int)\n");
  expect(NAMED("void f<int>(int)", ""));
  write_map("7000 1 py::no_file\n");
  expect(NAMED("no_file", ""));
}
END_TEST

/* CPython appends to the file that an earlier process of this number left. */
START_TEST(test_the_last_line_counts)
{
  write_map("7000 10 old\n6000 2000 newer\n");
  expect(NAMED("newer", ""));
}
END_TEST

START_TEST(test_lines_of_any_text)
{
  write_map("\n7000\n7000 \n 7000 10 a\n7000 x b\nx 10 c\n17000000000007000 10 d\n7000 ffffffffffffffff");
  expect(NAMELESS);
  write_map("7000 10 not ended");
  expect(NAMELESS);
  write_map("7000 0 empty\n7001 ffffffffffffffff behind\n");
  expect(NAMELESS);
}
END_TEST

/* Only a plain file of the process's own user counts, that no other user may write. */
START_TEST(test_whose_the_file_is)
{
  expect(NAMELESS); /* none is there */
  write_map("7000 10 good\n");
  ck_assert_int_eq(chmod(path, 0622), 0);
  expect(NAMELESS);
  ck_assert_int_eq(chmod(path, 0644), 0);
  expect(NAMED("good", ""));
  ck_assert_int_eq(link(path, other), 0);
  expect(NAMELESS);
  ck_assert_int_eq(unlink(path), 0);
  ck_assert_int_eq(symlink(other, path), 0);
  expect(NAMELESS);
  ck_assert_int_eq(unlink(path), 0);
  ck_assert_int_eq(mkfifo(path, 0600), 0);
  expect(NAMELESS);
  ck_assert_int_eq(unlink(path), 0);
  ck_assert_int_eq(rename(other, path), 0);
  expect(NAMED("good", ""));
  if (geteuid() == 0) {
    ck_assert_int_eq(chown(path, 65534, 65534), 0);
    expect(NAMELESS);
  }
}
END_TEST

/* The newest lines of a large file are read. */
START_TEST(test_a_large_file)
{
  gp_perf_map_t map;

  write_map("7000 10 first\n");
  ck_assert_int_eq(truncate(path, (off_t)40 << 20), 0);
  expect(NAMELESS);
  gp_perf_map_read(&map, getpid(), geteuid());
  ck_assert_uint_eq(map.bytes, 32u << 20);
  gp_perf_map_fini(&map);
  int fd = open(path, O_WRONLY | O_APPEND);
  ck_assert_int_eq(write(fd, "\n7000 10 last\n", 14), 14);
  close(fd);
  expect(NAMED("last", ""));
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("perf_map");
  TCase *tests = tcase_create("all");
  gp_add_leak_fixtures(tests);
  tcase_add_checked_fixture(tests, setup, teardown);
  tcase_add_test(tests, test_code_has_its_name);
  tcase_add_test(tests, test_the_last_line_counts);
  tcase_add_test(tests, test_lines_of_any_text);
  tcase_add_test(tests, test_whose_the_file_is);
  tcase_add_test(tests, test_a_large_file);
  suite_add_tcase(suite, tests);
  return gp_check_main(suite);
}
