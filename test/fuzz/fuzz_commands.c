/*
 * Any file at all, as the commands are given one: they say what is wrong with it, or do their work.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "use_commands.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static int file = -1;
  char path[32];

  if (file < 0)
    file = memfd_create("fuzz", MFD_CLOEXEC);
  FUZZ_CHECK(file >= 0 && ftruncate(file, 0) == 0 && pwrite(file, data, size, 0) == (ssize_t)size);
  snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
  fuzz_silence();
  fuzz_run_commands(path, -1, false, true);
  return 0;
}
