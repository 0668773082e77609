/*
 * Finds double frees: frees of memory that was already freed. The library refuses them.
 */
#ifndef GP_TOOLS_MODEL_FINDINGS_FREES_H
#define GP_TOOLS_MODEL_FINDINGS_FREES_H

#include "tools/model/filter.h"

#define GP_DOUBLE_FREES_MOST 16 /* double frees listed; later ones are only counted */

/* The stacks are indexes; -1 means that no stack was recorded. */
typedef struct gp_double_free {
  int device;
  uint64_t address;
  uint64_t requested; /* requested bytes of the block; 0: no known block begins at the address */
  uint64_t first_ns;
  uint64_t second_ns;
  int alloc_stack;
  int first_stack; /* stack of the successful free; only recorded with GPUPOOL_STACKS_FREE */
  int second_stack;
  bool has_first; /* true if the events include the successful free */
} gp_double_free_t;

typedef struct gp_double_frees {
  gp_double_free_t frees[GP_DOUBLE_FREES_MOST]; /* the earliest, in order of time */
  size_t count;
  uint64_t total;
  bool has_free_stacks; /* true if GPUPOOL_STACKS_FREE was set */
} gp_double_frees_t;

/* Finds the double frees on the devices that `filter` selects. `snapshot` must have been read with
 * GP_LIFETIMES_COLUMNS. Thread-safe. */
void gp_double_frees_find(
    const gp_snapshot_t *snapshot, const gp_filter_t *filter, gp_double_frees_t *ret_frees);

#endif
