#include "base/assert.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void print(const char *text, size_t size, int length)
{
  ssize_t ignored = write(STDERR_FILENO, text, (size_t)length < size ? (size_t)length : size - 1);
  (void)ignored; /* there is no way to report the failure */
}

bool gp_expect(bool condition, const char *what, uint64_t a, uint64_t b)
{
  char text[256];

  if (!condition)
    print(text, sizeof(text),
        snprintf(text, sizeof(text), "gpupool: [%d] check: %s (%" PRIu64 ", %" PRIu64 ")\n", (int)getpid(),
            what, a, b));
  return condition;
}

_Noreturn void gp_assert_failed(const char *condition, const char *file, int line, const char *function)
{
  char text[512];
  print(text, sizeof(text),
      snprintf(text, sizeof(text), "gpupool: [%d] assertion failed: %s (%s:%d, %s)\n", (int)getpid(),
          condition, file, line, function));
  abort();
}
