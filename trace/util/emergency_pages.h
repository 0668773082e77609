/*
 * Memory set aside for the snapshot writer, for the moment when the host has none: then a snapshot is wanted
 * most.
 */
#ifndef GP_TRACE_UTIL_EMERGENCY_PAGES_H
#define GP_TRACE_UTIL_EMERGENCY_PAGES_H

#include <stdbool.h>
#include <stddef.h>

#define GP_EMERGENCY_BYTES ((size_t)2 << 20) /* some ten thousand live blocks, and as many events */

/* Sets the memory aside, once in a process; its pages are there from now on. False: the host has none. */
bool gp_emergency_pages_prepare(void);

/*
 * As gp_pages_map and gp_pages_unmap; when the kernel refuses, from what was set aside, as far as that goes.
 * One thread at a time: the one that writes the snapshot. What was taken can be taken again when all of it
 * was given back.
 */
void *gp_emergency_pages_map(size_t bytes, bool populate);
void gp_emergency_pages_unmap(void *pages, size_t bytes);

/* How many of gp_emergency_pages_map were not given back; for asserts. By that thread. */
unsigned gp_emergency_pages_held(void);

#endif
