/*
 * Maps the memory reserved from the driver, at the end of a snapshot or at an earlier moment: segments and
 * the blocks in them.
 */
#ifndef GP_TOOLS_MODEL_MEMORY_MAP_H
#define GP_TOOLS_MODEL_MEMORY_MAP_H

#include "tools/model/lifetimes.h"

/* A part of a segment: a block, or the idle bytes between blocks. Its states are those of blocks. */
typedef struct gp_map_part {
  uint64_t offset; /* from the beginning of the segment */
  uint64_t size;
  uint64_t requested; /* requested bytes if the program has it in use; else 0 */
  gp_snapshot_state_t state;
} gp_map_part_t;

typedef struct gp_map_segment {
  uint64_t address;
  uint64_t size;
  size_t first_part; /* its parts are [first_part, first_part + part_count) in gp_map_t.parts, sorted by
                        address, without gaps */
  size_t part_count;
  int device;
  int stream;
  int pool;
  bool is_expandable; /* stream, pool and is_expandable are as in gp_segment_life_t */
} gp_map_segment_t;

/* Bytes and parts in one state. */
typedef struct gp_map_amount {
  uint64_t bytes;
  uint64_t count;
} gp_map_amount_t;

/* Similar segments: all of one size, each with a single part. The counts in `states` add up to `count`. */
typedef struct gp_map_group {
  uint64_t size;
  uint64_t count;
  uint64_t bytes;
  gp_map_amount_t states[GP_SNAPSHOT_OTHER + 1]; /* by gp_snapshot_state_t */
} gp_map_group_t;

/* Each segment is in a group or in split: the counts of the groups plus split_count equal segment_count. */
typedef struct gp_map_device {
  int device;
  uint64_t reserved;
  uint64_t segment_count;
  gp_map_amount_t states[GP_SNAPSHOT_OTHER + 1];
  uint64_t requested; /* requested bytes that the program has in use */
  uint64_t largest_idle;
  gp_map_group_t *groups; /* most bytes first */
  size_t group_count;
  size_t *split; /* indexes of segments with several parts, the largest first */
  size_t split_count;
} gp_map_device_t;

typedef struct gp_map {
  gp_map_segment_t *segments; /* by device, then address */
  size_t segment_count;
  gp_map_part_t *parts;
  size_t part_count;
  gp_map_device_t devices[GP_SNAPSHOT_DEVICES];
  size_t device_count;
} gp_map_t;

/* Makes the map of device (or GP_REQUEST_ALL_DEVICES) at a moment of lifetimes. At the last moment it copies
 * the snapshot's final state. Returns 0 or ENOMEM; call fini in any case. */
int gp_map_init(gp_map_t *map, const gp_lifetimes_t *lifetimes, uint32_t moment, int device);
void gp_map_fini(gp_map_t *map);

#endif
