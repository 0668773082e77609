/*
 * What other settings of the pool would have done with the same allocations: computed from the recorded
 * events, so that a remedy is advised only where it would have helped.
 */
#ifndef GP_TOOLS_MODEL_WHAT_IF_H
#define GP_TOOLS_MODEL_WHAT_IF_H

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "tools/model/lifetimes.h"

/* How a pool rounds sizes up: the settings of GPUPOOL_TYPE and those that belong to it. */
typedef struct gp_block_sizes {
  bool is_naive; /* else round */
  uint64_t page;
  uint64_t large_round;
  unsigned divisions;
  unsigned cutoff; /* log2; 64: none */
} gp_block_sizes_t;

/* Those in force in a snapshot. False: it is not one of a pool of gpupool's. */
bool gp_block_sizes_init(gp_block_sizes_t *sizes, const cJSON *settings);

/*
 * The bytes of a block for a request, which are its size class; the same as the pool's, which a test
 * compares. What blocks of large classes do not take of them (pool/space/size_classes.h, gp_type_fit) is left
 * out.
 */
uint64_t gp_block_bytes(const gp_block_sizes_t *sizes, uint64_t requested);

/* The sizes that waste least, and the setting that makes them. False: those in force are they. */
bool gp_block_sizes_closest(const gp_block_sizes_t *sizes, gp_block_sizes_t *ret_closest,
    const char **ret_name, const char **ret_value);

/* What the program held of the pool on a device when that, rounded up, was most. */
typedef struct gp_rounded_peak {
  uint32_t moment;
  uint64_t requested;
  uint64_t rounded;
} gp_rounded_peak_t;

void gp_rounded_peak_find(gp_rounded_peak_t *ret_peak, const gp_lifetimes_t *lifetimes, int device);

/* What the program held at that moment, with these sizes. */
uint64_t gp_rounded_at(
    const gp_lifetimes_t *lifetimes, int device, uint32_t moment, const gp_block_sizes_t *sizes);

/* What a pool of these sizes serves that keeps all, on a device that is never busy. */
typedef struct gp_served {
  uint64_t hits;
  uint64_t misses;
  uint64_t beside_idle; /* of the misses: as much as was asked for was idle, in blocks of other sizes */
  uint64_t idle_peak;   /* bytes */
  size_t size_count;    /* different sizes of blocks */
} gp_served_t;

/* Returns 0 or ENOMEM. */
int gp_served_count(
    gp_served_t *ret_served, const gp_lifetimes_t *lifetimes, int device, const gp_block_sizes_t *sizes);

#endif
