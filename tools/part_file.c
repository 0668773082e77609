#include "tools/part_file.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define PATH_CAPACITY 8192

static const int signals[] = {
    SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGALRM, SIGUSR1, SIGUSR2, SIGXCPU, SIGXFSZ};
#define SIGNAL_COUNT (sizeof(signals) / sizeof(signals[0]))

static char part[PATH_CAPACITY];
static volatile sig_atomic_t has_part;
static struct sigaction before[SIGNAL_COUNT];

/* Calls only what signal-safety(7) allows. Raises the signal again, which ends the
 * process when this handler returns. */
static void remove_part(int number)
{
  if (has_part)
    (void)unlink(part); /* nothing more can be done */
  (void)signal(number, SIG_DFL);
  (void)raise(number);
}

int gp_part_file_begin(const char *path)
{
  struct sigaction action = {.sa_handler = remove_part};
  size_t length = strlen(path);
  if (length >= sizeof(part))
    return ENAMETOOLONG;
  memcpy(part, path, length + 1);
  has_part = 1;
  for (size_t i = 0; i < SIGNAL_COUNT; i++) {
    (void)sigaction(signals[i], NULL, &before[i]); /* cannot fail: valid numbers */
    if (before[i].sa_handler == SIG_DFL)
      (void)sigaction(signals[i], &action, NULL);
  }
  return 0;
}

void gp_part_file_remove(void)
{
  if (has_part)
    (void)unlink(part); /* nothing more can be done */
  gp_part_file_end();
}

void gp_part_file_end(void)
{
  if (!has_part)
    return;
  has_part = 0;
  for (size_t i = 0; i < SIGNAL_COUNT; i++)
    (void)sigaction(signals[i], &before[i], NULL);
}
