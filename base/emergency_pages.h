/* Memory set aside for the snapshot writer, for the moment when the host has none, which is when
 * a snapshot matters most. */
#ifndef GP_BASE_EMERGENCY_PAGES_H
#define GP_BASE_EMERGENCY_PAGES_H

#include <stdbool.h>
#include <stddef.h>

#define GP_EMERGENCY_BYTES ((size_t)2 << 20) /* some ten thousand live blocks, and as many events */

/* Sets the memory aside, once in a process; its pages exist from now on. False: the host has no memory. */
bool gp_emergency_pages_prepare(void);

/*
 * As gp_pages_map and gp_pages_unmap, but when the kernel refuses, map uses the memory set aside, as long
 * as it lasts. One thread at a time: the one that writes the snapshot. Memory set aside can be used again
 * once all of it was given back.
 */
void *gp_emergency_pages_map(size_t bytes, bool populate);
void gp_emergency_pages_unmap(void *pages, size_t bytes);

/* The number of results of gp_emergency_pages_map not given back; for asserts. For the same thread. */
unsigned gp_emergency_pages_held(void);

#endif
