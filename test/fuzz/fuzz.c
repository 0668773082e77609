#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Noreturn void fuzz_failed(const char *condition, const char *file, int line)
{
  dprintf(STDERR_FILENO, "fuzz: %s:%d: this has to hold: %s\n", file, line, condition);
  abort();
}

char *fuzz_copy(const uint8_t *data, size_t size)
{
  char *copy = malloc(size + 1);
  FUZZ_CHECK(copy != NULL);
  if (size)
    memcpy(copy, data, size);
  copy[size] = '\0';
  return copy;
}

void fuzz_silence(void)
{
  static FILE *nowhere;
  if (nowhere)
    return;
  nowhere = fopen("/dev/null", "w");
  FUZZ_CHECK(nowhere != NULL);
  stderr = nowhere; /* a variable in glibc; sanitizers write to the descriptor */
}
