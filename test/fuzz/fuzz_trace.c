/*
 * Allocation traces, as test/prog/replay reads them: what it accepts can be performed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../prog/replay.h"
#include "fuzz.h"

/* Every block is allocated once and freed at most once after that. */
static void check(const replay_trace_t *trace)
{
  bool *is_live = calloc(trace->block_count + 1, sizeof(bool));
  uint32_t allocated = 0;
  FUZZ_CHECK(is_live != NULL && trace->row_count > 0);
  for (size_t i = 0; i < trace->row_count; i++) {
    const replay_row_t *row = &trace->rows[i];
    FUZZ_CHECK(row->block < trace->block_count && row->stream < trace->stream_count && row->line > 0);
    if (row->is_alloc)
      FUZZ_CHECK(row->block == allocated++);
    FUZZ_CHECK(is_live[row->block] == !row->is_alloc);
    is_live[row->block] = row->is_alloc;
  }
  FUZZ_CHECK(allocated == trace->block_count);
  free(is_live);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  replay_trace_t trace;
  char path[64];
  int fd = memfd_create("trace", MFD_CLOEXEC);
  fuzz_silence();
  FUZZ_CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
  snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
  if (replay_trace_read(path, &trace)) {
    check(&trace);
    replay_trace_fini(&trace);
  }
  close(fd);
  return 0;
}
