/*
 * Counts the blocks that an owner has in use and their sizes, and the blocks it has freed. These counts
 * distinguish most leaks from caches and working sets.
 */
#ifndef GP_TOOLS_MODEL_HOLDING_H
#define GP_TOOLS_MODEL_HOLDING_H

#include "tools/model/lifetimes.h"

typedef enum gp_owned { GP_OWNED_DEVICE, GP_OWNED_HOST /* page-locked */ } gp_owned_t;

typedef struct gp_holding {
  uint64_t blocks; /* number of blocks in use */
  uint64_t least;  /* requested bytes of the smallest block in use; 0 without blocks */
  uint64_t most;   /* requested bytes of the largest block in use; 0 without blocks */
  uint64_t freed;  /* number of recorded blocks freed before the report's moment */
  bool is_passing; /* true if some blocks were freed after the moment; never set at an out-of-memory event */
} gp_holding_t;

void gp_holding_add(gp_holding_t *holding, uint64_t requested);
void gp_holding_join(gp_holding_t *holding, const gp_holding_t *other);

/* Returns true if the snapshot contains all frees up to its end. */
bool gp_holding_knows_frees(const gp_snapshot_t *snapshot);

#define GP_HOLDING_BYTES 160

/* Writes "in 49 blocks of 420 MiB, none freed", "in 3 blocks of 1 MiB to 2 MiB, 120 freed", or "in 1 block".
 * Mentions frees only if the snapshot contains all of them. Returns buffer. */
char *gp_holding_text(
    const gp_holding_t *holding, const gp_snapshot_t *snapshot, char buffer[static GP_HOLDING_BYTES]);

#endif
