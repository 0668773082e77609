/*
 * Simulates a workload with the pool's engine and a simulated device, to show what settings would have done.
 */
#ifndef GP_TOOLS_REPLAY_SIMULATION_H
#define GP_TOOLS_REPLAY_SIMULATION_H

#include "pool/engine.h"
#include "tools/replay/offline_driver.h"
#include "tools/replay/workload.h"

/* The first pass begins with an empty pool. The second pass begins with the memory that the first one left in
 * the pool, after the program's memory was freed. */
typedef enum gp_pass { GP_PASS_COLD, GP_PASS_WARM, GP_PASS_COUNT } gp_pass_t;

/* The results of one device in one pass, in bytes. */
typedef struct gp_simulated_device {
  gp_stats_t
      stats; /* at the end of the pass; peaks are those of this pass, and counters are those of all passes */
  uint64_t held_peak;     /* peak of the memory allocated from the driver, in whole pages */
  uint64_t refused;       /* number of requests that succeeded in the recording but fail here */
  uint64_t first_refused; /* number of the first refused request, from 0 */
  uint64_t refused_size;  /* size of the first refused request */
  /* Number of requests that failed in the recording but succeed here without a wait for the device. */
  uint64_t granted;
  uint64_t declined; /* number of requests that failed in the recording, and fail or may fail here */
} gp_simulated_device_t;

typedef struct gp_simulated_pass {
  gp_simulated_device_t devices[GP_SNAPSHOT_DEVICES];
  uint64_t calls[GP_OFFLINE_CALLS];
  uint64_t call_count; /* sum of `calls` */
  double cost_ns;      /* cost of these calls on an idle device, and ... */
  double busy_cost_ns; /* ... while a kernel runs (offline_driver.c) */
} gp_simulated_pass_t;

typedef struct gp_simulation {
  gp_simulated_pass_t passes[GP_PASS_COUNT];
} gp_simulation_t;

/* The blocks of each device at the end, as gp_engine_blocks returned them. */
typedef struct gp_final_blocks {
  gp_block_view_t *views[GP_SNAPSHOT_DEVICES]; /* NULL: none */
  size_t counts[GP_SNAPSHOT_DEVICES];
} gp_final_blocks_t;

void gp_final_blocks_fini(gp_final_blocks_t *blocks);

/* Simulates a workload. `capacity` is in bytes per device; 0 means the recorded capacity, or no limit if it
 * is unknown. `passes` is 1 or 2. Unless ret_blocks is NULL, the caller frees *ret_blocks with
 * gp_final_blocks_fini, whatever the result. Returns 0 or ENOMEM. Equal workloads and options give equal
 * results. */
int gp_simulate(gp_simulation_t *ret_simulation, const gp_workload_t *workload, const gp_options_t *options,
    uint64_t capacity, int passes, gp_final_blocks_t *ret_blocks);

#endif
