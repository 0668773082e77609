#include "pool/util/assert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Noreturn void gp_assert_failed(const char *condition, const char *file, int line, const char *function)
{
  char text[512];
  int length = snprintf(text, sizeof(text), "gpupool: [%d] assertion failed: %s (%s:%d, %s)\n", (int)getpid(),
      condition, file, line, function);
  if (length > (int)sizeof(text) - 1)
    length = (int)sizeof(text) - 1;
  ssize_t ignored = write(STDERR_FILENO, text, (size_t)length);
  (void)ignored; /* aborting anyway */
  abort();
}
