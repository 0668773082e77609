/*
 * Runs a workload on the pool's own engine, over a device on paper, to see what settings would have done.
 */
#ifndef GP_TOOLS_REPLAY_SIMULATION_H
#define GP_TOOLS_REPLAY_SIMULATION_H

#include "pool/engine.h"
#include "tools/replay/offline_driver.h"
#include "tools/replay/workload.h"

/* The workload runs once from an empty pool, and again with what the first pass left.
 * In between everything is freed. */
typedef enum gp_pass { GP_PASS_COLD, GP_PASS_WARM, GP_PASS_COUNT } gp_pass_t;

/* One device in one pass, in bytes. */
typedef struct gp_simulated_device {
  gp_stats_t stats;       /* at the end of the pass; peaks are the pass's, the rest counts from the first */
  uint64_t held_peak;     /* most that the driver had given, in whole pages */
  uint64_t refused;       /* requests that the program got in the recording, but not here */
  uint64_t first_refused; /* number of the first of these, from 0, and its size */
  uint64_t refused_size;
  uint64_t
      granted; /* requests that failed in the recording, and succeed here without waiting for the device */
  uint64_t declined; /* those that fail here, too, or may */
} gp_simulated_device_t;

typedef struct gp_simulated_pass {
  gp_simulated_device_t devices[GP_SNAPSHOT_DEVICES];
  uint64_t calls[GP_OFFLINE_CALLS];
  uint64_t call_count; /* of these */
  double cost_ns;      /* of these on an idle device, and ... */
  double busy_cost_ns; /* ... beside a kernel, see offline_driver.c */
} gp_simulated_pass_t;

typedef struct gp_simulation {
  gp_simulated_pass_t passes[GP_PASS_COUNT];
} gp_simulation_t;

/* The blocks of each device at the end, as gp_engine_blocks has them. */
typedef struct gp_final_blocks {
  gp_block_view_t *views[GP_SNAPSHOT_DEVICES]; /* NULL: none */
  size_t counts[GP_SNAPSHOT_DEVICES];
} gp_final_blocks_t;

void gp_final_blocks_fini(gp_final_blocks_t *blocks);

/* capacity: bytes of each device; 0: as in the recording, or unlimited. passes: 1 or 2. *ret_blocks: for the
 * caller to end with gp_final_blocks_fini, whatever this returns; NULL: not wanted. Returns 0 or ENOMEM. The
 * same workload and options give the same result. */
int gp_simulate(gp_simulation_t *ret_simulation, const gp_workload_t *workload, const gp_options_t *options,
    uint64_t capacity, int passes, gp_final_blocks_t *ret_blocks);

#endif
