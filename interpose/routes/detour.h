/*
 * Code that another library has patched in place.
 *
 * Detours, breakpoints and uprobes overwrite a function's first bytes. What patches a function wants to see
 * its calls, so this library serves no call in the place of a patched one.
 */
#ifndef GP_INTERPOSE_ROUTES_DETOUR_H
#define GP_INTERPOSE_ROUTES_DETOUR_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* A function's first bytes, which a patch changes. Not for functions that are shorter. */
static inline uint64_t gp_detour_first_bytes(const void *function)
{
  uint64_t bytes;
  memcpy(&bytes, function, sizeof(bytes));
  return bytes;
}

/* True if these first bytes leave the function at once, as those of a patched one do. Some compiled functions
 * begin so, too. */
bool gp_detour_is_likely(uint64_t first_bytes);

#endif
