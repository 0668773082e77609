/*
 * Detects code that another library has patched in place.
 *
 * Detours, breakpoints and uprobes overwrite a function's first bytes. A library that patches a function
 * needs to see the function's calls, so this library does not serve calls in the place of a patched function.
 */
#ifndef GP_INTERPOSE_ROUTES_DETOUR_H
#define GP_INTERPOSE_ROUTES_DETOUR_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Returns a function's first 8 bytes, which a patch changes. The function must be at least that long. */
static inline uint64_t gp_detour_first_bytes(const void *function)
{
  uint64_t bytes;
  memcpy(&bytes, function, sizeof(bytes));
  return bytes;
}

/* Returns true if these first bytes immediately jump out of the function, as in a patched function. Some
 * compiled functions also begin with a jump. */
bool gp_detour_is_likely(uint64_t first_bytes);

#endif
