#include "base/signal_name.h"

#include <ctype.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const struct {
  const char *name;
  int number;
} names[] = {
    {"HUP", SIGHUP},
    {"INT", SIGINT},
    {"QUIT", SIGQUIT},
    {"TERM", SIGTERM},
    {"USR1", SIGUSR1},
    {"USR2", SIGUSR2},
    {"ALRM", SIGALRM},
    {"VTALRM", SIGVTALRM},
    {"PROF", SIGPROF},
    {"IO", SIGIO},
    {"POLL", SIGPOLL},
    {"URG", SIGURG},
    {"CONT", SIGCONT},
    {"WINCH", SIGWINCH},
    {"XCPU", SIGXCPU},
    {"PWR", SIGPWR},
};
#define NAME_COUNT (sizeof(names) / sizeof(names[0]))

static bool begins_with(const char *text, size_t length, const char *prefix)
{
  return length >= strlen(prefix) && strncasecmp(text, prefix, strlen(prefix)) == 0;
}

/* Parses "", "+3" or "-3" in text[0..length), and adds the number to `base`. Returns the signal, or 0 if it
 * is not a real-time signal. */
static int parse_offset(const char *text, size_t length, int base, char sign)
{
  int offset = 0;

  if (length == 0)
    return base;
  if (text[0] != sign || length < 2 || length > 3)
    return 0;
  for (size_t i = 1; i < length; i++) {
    if (!isdigit((unsigned char)text[i]))
      return 0;
    offset = offset * 10 + (text[i] - '0');
  }
  int number = sign == '+' ? base + offset : base - offset;
  return number >= SIGRTMIN && number <= SIGRTMAX ? number : 0;
}

int gp_signal_parse(const char *text, size_t length)
{
  if (begins_with(text, length, "SIG")) {
    text += 3;
    length -= 3;
  }
  /* SIGRTMIN is known only at run time, because the C library reserves the first signals of the range. */
  if (begins_with(text, length, "RTMIN"))
    return parse_offset(text + 5, length - 5, SIGRTMIN, '+');
  if (begins_with(text, length, "RTMAX"))
    return parse_offset(text + 5, length - 5, SIGRTMAX, '-');
  for (size_t i = 0; i < NAME_COUNT; i++) {
    if (strlen(names[i].name) == length && strncasecmp(names[i].name, text, length) == 0)
      return names[i].number;
  }
  return 0;
}

char *gp_signal_name(int number, char *buffer)
{
  for (size_t i = 0; i < NAME_COUNT; i++) {
    if (names[i].number == number) {
      snprintf(buffer, GP_SIGNAL_NAME_BYTES, "SIG%s", names[i].name);
      return buffer;
    }
  }
  snprintf(buffer, GP_SIGNAL_NAME_BYTES, "SIGRTMIN+%d", number - SIGRTMIN);
  return buffer;
}
