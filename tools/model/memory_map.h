/*
 * Maps the memory reserved from the driver at the end of a snapshot, or at an earlier moment. The map lists
 * the segments and the blocks in them.
 */
#ifndef GP_TOOLS_MODEL_MEMORY_MAP_H
#define GP_TOOLS_MODEL_MEMORY_MAP_H

#include "tools/model/lifetimes.h"

/* A part of a segment: a block, or the idle bytes between two blocks. Parts have the states of blocks. */
typedef struct gp_map_part {
  uint64_t offset; /* offset from the beginning of the segment */
  uint64_t size;
  uint64_t requested; /* requested bytes of a block in use; otherwise 0 */
  gp_snapshot_state_t state;
} gp_map_part_t;

typedef struct gp_map_segment {
  uint64_t address;
  uint64_t size;
  size_t first_part; /* index in gp_map_t.parts of the first of part_count parts, by address without gaps */
  size_t part_count;
  int device;
  int stream;
  int pool;
  bool is_expandable; /* as in gp_segment_life_t, like stream and pool */
} gp_map_segment_t;

/* The parts in one state, and their bytes. */
typedef struct gp_map_amount {
  uint64_t bytes;
  uint64_t count;
} gp_map_amount_t;

/* Similar segments: all have the same size and a single part. The counts in `states` add up to `count`. */
typedef struct gp_map_group {
  uint64_t size;
  uint64_t count;
  uint64_t bytes;
  gp_map_amount_t states[GP_SNAPSHOT_OTHER + 1]; /* indexed by gp_snapshot_state_t */
} gp_map_group_t;

/* One device. Each segment is in a group or in `split`: group counts plus split_count equal segment_count. */
typedef struct gp_map_device {
  int device;
  uint64_t reserved;
  uint64_t segment_count;
  gp_map_amount_t states[GP_SNAPSHOT_OTHER + 1];
  uint64_t requested; /* requested bytes that the program has in use */
  uint64_t largest_idle;
  gp_map_group_t *groups; /* sorted by bytes, largest first */
  size_t group_count;
  size_t *split; /* indexes of the segments with several parts, largest segment first */
  size_t split_count;
} gp_map_device_t;

typedef struct gp_map {
  gp_map_segment_t *segments; /* sorted by device, then by address */
  size_t segment_count;
  gp_map_part_t *parts;
  size_t part_count;
  gp_map_device_t devices[GP_SNAPSHOT_DEVICES];
  size_t device_count;
} gp_map_t;

/* Makes the map of `device` (or GP_REQUEST_ALL_DEVICES) at a moment of the lifetimes. At the last moment,
 * copies the snapshot's final state. Returns 0 or ENOMEM; call gp_map_fini in any case. */
int gp_map_init(gp_map_t *map, const gp_lifetimes_t *lifetimes, uint32_t moment, int device);
void gp_map_fini(gp_map_t *map);

#endif
