/*
 * Runs a workload on the pool's own engine and a simulated device, to see what settings would have done.
 */
#ifndef GP_TOOLS_REPLAY_SIMULATION_H
#define GP_TOOLS_REPLAY_SIMULATION_H

#include "pool/engine.h"
#include "tools/replay/offline_driver.h"
#include "tools/replay/workload.h"

/* The workload runs once from an empty pool, and again with what the first pass left in the pool. In between,
 * the program's memory is freed. */
typedef enum gp_pass { GP_PASS_COLD, GP_PASS_WARM, GP_PASS_COUNT } gp_pass_t;

/* One device in one pass, in bytes. */
typedef struct gp_simulated_device {
  gp_stats_t stats;       /* at the end of the pass; peaks are of this pass, the rest of all passes */
  uint64_t held_peak;     /* peak of the memory allocated from the driver, in whole pages */
  uint64_t refused;       /* requests that succeeded in the recording, and fail here */
  uint64_t first_refused; /* number of the first refused request, from 0 */
  uint64_t refused_size;  /* its size */
  uint64_t
      granted; /* requests that failed in the recording, and succeed here without waiting for the device */
  uint64_t declined; /* requests that failed in the recording, and fail or may fail here */
} gp_simulated_device_t;

typedef struct gp_simulated_pass {
  gp_simulated_device_t devices[GP_SNAPSHOT_DEVICES];
  uint64_t calls[GP_OFFLINE_CALLS];
  uint64_t call_count; /* sum of calls */
  double cost_ns;      /* of these calls on an idle device, and ... */
  double busy_cost_ns; /* ... while a kernel runs (offline_driver.c) */
} gp_simulated_pass_t;

typedef struct gp_simulation {
  gp_simulated_pass_t passes[GP_PASS_COUNT];
} gp_simulation_t;

/* The blocks of each device at the end, from gp_engine_blocks. */
typedef struct gp_final_blocks {
  gp_block_view_t *views[GP_SNAPSHOT_DEVICES]; /* NULL: none */
  size_t counts[GP_SNAPSHOT_DEVICES];
} gp_final_blocks_t;

void gp_final_blocks_fini(gp_final_blocks_t *blocks);

/* Simulates a workload. capacity is in bytes per device; 0 takes that of the recording, or unlimited if
 * unknown. passes is 1 or 2. Unless ret_blocks is NULL, the caller frees *ret_blocks with
 * gp_final_blocks_fini, whatever this returns. Returns 0 or ENOMEM. Equal workloads and options give equal
 * results. */
int gp_simulate(gp_simulation_t *ret_simulation, const gp_workload_t *workload, const gp_options_t *options,
    uint64_t capacity, int passes, gp_final_blocks_t *ret_blocks);

#endif
