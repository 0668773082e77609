#include "test/tools/symbols_sample.h"

static __attribute__((noinline)) uint64_t return_address(void)
{
  return (uint64_t)(uintptr_t)__builtin_return_address(0);
}

static inline __attribute__((always_inline)) uint64_t sample_innermost(void)
{
  /* Not the last thing, so that it is a call and no jump. */
  uint64_t address = return_address();
  __asm__ volatile("" : "+r"(address));
  return address;
}
static inline __attribute__((always_inline)) uint64_t sample_middle(void)
{
  return sample_innermost() | 0;
}

uint64_t gp_sample_call(void)
{
  return sample_middle();
}
