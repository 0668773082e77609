/*
 * Where a program or library lies that the loader has loaded.
 */
#ifndef GP_TRACE_STACKS_BOUNDS_H
#define GP_TRACE_STACKS_BOUNDS_H

#include <link.h>
#include <stdint.h>

/* All its segments lie from start up to end, perhaps with something else in between. */
typedef struct gp_bounds {
  uintptr_t start; /* UINTPTR_MAX, with end 0, of one that has no segments */
  uintptr_t end;
} gp_bounds_t;

/* info: as dl_iterate_phdr gives it to its callback. Any thread, signal handlers too. */
gp_bounds_t gp_bounds_of(const struct dl_phdr_info *info);

#endif
