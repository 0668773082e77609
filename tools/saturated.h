/*
 * Sums of values from a file. A damaged file may contain any value, so these sums saturate instead of
 * wrapping around.
 */
#ifndef GP_TOOLS_SATURATED_H
#define GP_TOOLS_SATURATED_H

#include <stdint.h>

static inline uint64_t gp_add_saturated(uint64_t a, uint64_t b)
{
  return a + b < a ? UINT64_MAX : a + b;
}

static inline uint64_t gp_subtract_saturated(uint64_t a, uint64_t b)
{
  return a < b ? 0 : a - b;
}

#endif
