/* The heap of the process: the C library's, or what LD_PRELOAD puts in its place. */
#include <stdlib.h>

#include "subject.h"

const uint32_t subject_largest = 8u << 10;

void subject_start(bool is_counted)
{
  (void)is_counted;
}

uint64_t subject_take(uint64_t bytes)
{
  void *block = malloc(bytes);
  if (!block)
    abort();
  return (uint64_t)(uintptr_t)block;
}

void subject_give(uint64_t address)
{
  free((void *)(uintptr_t)address);
}

void subject_synchronize(void)
{
}
