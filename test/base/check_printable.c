/*
 * Which characters reach a terminal.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test/pool/check_main.h"
#include "base/log.h"
#include "base/printable.h"

static const struct {
  const char *text;
  const char *printable;
} cases[] = {
    {"", ""},
    {"plain text ~", "plain text ~"},
    {"gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80", "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80"},
    {"\x01\t\n\x1b[31m\x7f", "????[31m?"},
    {"\xc2\x80\xc2\x9b\xc2\x9f\xc2\xa0", "???\xc2\xa0"}, /* C1, and what follows them */
    {"\x80\x9b\xff", "???"},                             /* lone bytes */
    {"a\xe2\x80\xae"
     "b\xe2\x80\xaa\xe2\x81\xa6\xe2\x81\xa9",
        "a?b???"}, /* overrides, embeddings, isolates */
    {"\xe2\x80\x8e\xe2\x80\x8f\xd8\x9c\xe2\x80\x8b\xe2\x80\xa8\xef\xbb\xbf", "??????"},
    {"\xf3\xa0\x81\x81", "?"},         /* a tag */
    {"\xc0\xaf\xe0\x80\xaf", "?????"}, /* overlong */
    {"\xed\xa0\x80", "???"},           /* a surrogate */
    {"\xf4\x90\x80\x80", "????"},      /* above U+10FFFF */
    {"\xe2\x82", "??"},                /* cut short */
    {"\xe2\x82"
     "a\xf0\x9f\x98",
        "??a???"},
};

START_TEST(test_characters)
{
  char text[64];
  size_t length = strlen(cases[_i].text);
  memcpy(text, cases[_i].text, length);
  size_t used = gp_printable_in_place(text, length);
  ck_assert_mem_eq(text, cases[_i].printable, used);
  ck_assert_uint_eq(used, strlen(cases[_i].printable));
}
END_TEST

/* Whatever comes in, nothing unsafe comes out, and what comes out comes out unchanged. */
START_TEST(test_any_bytes)
{
  uint64_t state = 1;
  for (int round = 0; round < 20000; round++) {
    char text[32], again[32];
    for (size_t i = 0; i < sizeof(text); i++) {
      state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
      static const char often[] = "\xe2\x80\xae\xc2\x9b\xf3\xa0\x1b";
      text[i] = state >> 62 ? often[state >> 40 & 7] : (char)(state >> 50);
    }
    size_t used = gp_printable_in_place(text, sizeof(text));
    for (size_t at = 0; at < used;) {
      gp_character_t character = gp_character_at(text + at, used - at);
      ck_assert(!character.is_unsafe && !character.is_malformed && character.code >= 0x20);
      at += character.length;
    }
    memcpy(again, text, used);
    ck_assert_uint_eq(gp_printable_in_place(again, used), used);
    ck_assert_mem_eq(again, text, used);
  }
}
END_TEST

/* What an environment brings in is in a message, and stays in its line. */
START_TEST(test_messages_are_one_line)
{
  char text[256];
  int fd = memfd_create("log", MFD_CLOEXEC);
  gp_log_init(0, fd);
  gp_log(GP_LOG_REPORT, "GPUPOOL_TYPE=%s is malformed", "\x1b[2J\r\nround\xc2\x9b\x9b\xe2\x80\xae");
  gp_log_init(0, -1);
  ssize_t got = pread(fd, text, sizeof(text) - 1, 0);
  ck_assert_int_gt(got, 0);
  text[got] = '\0';
  const char *message = strchr(text, ']');
  ck_assert_str_eq(message, "] GPUPOOL_TYPE=?[2J??round??? is malformed\n");
  close(fd);
}
END_TEST

/* A pipe without a reader: the program gets no signal, what it blocks stays blocked, and errno is its own. */
START_TEST(test_messages_are_no_signals)
{
  int ends[2];
  sigset_t set, before, after;

  ck_assert_int_eq(pipe(ends), 0);
  close(ends[0]);
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  sigaddset(&set, SIGTERM);
  ck_assert_int_eq(pthread_sigmask(SIG_SETMASK, &set, &before), 0);
  gp_log_init(0, ends[1]);
  errno = EDOM;
  gp_log(GP_LOG_REPORT, "nobody reads this");
  ck_assert_int_eq(errno, EDOM);
  gp_log_init(0, -1);
  ck_assert_int_eq(pthread_sigmask(SIG_SETMASK, &before, &after), 0);
  for (int number = 1; number < SIGRTMIN; number++)
    if (number != SIGKILL && number != SIGSTOP)
      ck_assert_int_eq(sigismember(&after, number), number == SIGUSR1 || number == SIGTERM);
  sigset_t pending;
  ck_assert_int_eq(sigpending(&pending), 0);
  ck_assert_int_eq(sigismember(&pending, SIGPIPE), 0);
  close(ends[1]);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("printable");
  TCase *tcase = tcase_create("printable");
  tcase_add_loop_test(tcase, test_characters, 0, sizeof(cases) / sizeof(cases[0]));
  tcase_add_test(tcase, test_any_bytes);
  tcase_add_test(tcase, test_messages_are_one_line);
  tcase_add_test(tcase, test_messages_are_no_signals);
  suite_add_tcase(suite, tcase);
  return gp_check_main(suite);
}
