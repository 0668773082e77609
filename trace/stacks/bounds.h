/* The address range of a loaded program or library. */
#ifndef GP_TRACE_STACKS_BOUNDS_H
#define GP_TRACE_STACKS_BOUNDS_H

#include <link.h>
#include <stdint.h>

/* All its segments are in [start, end), perhaps with something else in between. */
typedef struct gp_bounds {
  uintptr_t start; /* UINTPTR_MAX, with end 0, if it has no segments */
  uintptr_t end;
} gp_bounds_t;

/* info: from a callback of dl_iterate_phdr. Any thread, signal handlers too. */
gp_bounds_t gp_bounds_of(const struct dl_phdr_info *info);

#endif
