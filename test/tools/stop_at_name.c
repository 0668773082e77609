/*
 * Preloaded into the tool: the signal STOP_SIGNAL arrives just when a file that was written is to get its
 * name.
 */
#include <signal.h>
#include <stdlib.h>

int link(const char *from, const char *to);
int rename(const char *from, const char *to);

static int stop(void)
{
  const char *number = getenv("STOP_SIGNAL");
  (void)raise(number ? atoi(number) : SIGTERM);
  return -1;
}

__attribute__((visibility("default"))) int link(const char *from, const char *to)
{
  return stop();
}

__attribute__((visibility("default"))) int rename(const char *from, const char *to)
{
  return stop();
}
