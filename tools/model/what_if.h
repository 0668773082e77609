/*
 * What other settings of the pool would have done with the same allocations. Computed from the recorded
 * events, so that advice names only remedies that would have helped.
 */
#ifndef GP_TOOLS_MODEL_WHAT_IF_H
#define GP_TOOLS_MODEL_WHAT_IF_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "tools/model/lifetimes.h"

/* How a pool rounds sizes: GPUPOOL_TYPE and its settings. */
typedef struct gp_block_sizes {
  bool is_naive; /* else round */
  uint64_t page;
  uint64_t large_round;
  unsigned divisions;
  unsigned cutoff; /* log2; 64: none */
} gp_block_sizes_t;

/* The rules in force in a snapshot. False: it is not from a pool of gpupool's. */
bool gp_block_sizes_init(gp_block_sizes_t *sizes, const cJSON *settings);

/* The bytes of a block for a request: its size class, as the pool computes it; a test compares both.
 * Ignores that blocks of large classes may take less (pool/space/size_classes.h, gp_type_fit). */
uint64_t gp_block_bytes(const gp_block_sizes_t *sizes, uint64_t requested);

/* The rules that waste least, and the setting that selects them. False: they are in force already. */
bool gp_block_sizes_closest(const gp_block_sizes_t *sizes, gp_block_sizes_t *ret_closest,
    const char **ret_name, const char **ret_value);

/* What the program held of the pool on a device when its rounded sum was largest. */
typedef struct gp_rounded_peak {
  uint32_t moment;
  uint64_t requested;
  uint64_t rounded;
} gp_rounded_peak_t;

void gp_rounded_peak_find(gp_rounded_peak_t *ret_peak, const gp_lifetimes_t *lifetimes, int device);

/* What the program held at that moment, rounded by these rules. */
uint64_t gp_rounded_at(
    const gp_lifetimes_t *lifetimes, int device, uint32_t moment, const gp_block_sizes_t *sizes);

/* What a pool with these sizes would serve if it kept everything and the device were never busy. */
typedef struct gp_served {
  uint64_t hits;
  uint64_t misses;
  uint64_t beside_idle; /* misses while as much as requested was idle in blocks of other sizes */
  uint64_t idle_peak;   /* bytes */
  size_t size_count;    /* number of different block sizes */
} gp_served_t;

/* Returns 0 or ENOMEM. */
int gp_served_count(
    gp_served_t *ret_served, const gp_lifetimes_t *lifetimes, int device, const gp_block_sizes_t *sizes);

#endif
