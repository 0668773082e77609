/*
 * A workload on the pool's own engine, over a device on paper: what settings would have done.
 */
#ifndef GP_TOOLS_REPLAY_SIMULATION_H
#define GP_TOOLS_REPLAY_SIMULATION_H

#include "tools/replay/offline_driver.h"
#include "tools/replay/workload.h"

/* The workload once from an empty pool, and a second time with what the first has left: all that it did not
 * free is freed in between. */
typedef enum gp_pass { GP_PASS_COLD, GP_PASS_WARM, GP_PASS_COUNT } gp_pass_t;

/* Bytes of a device in a pass. */
typedef struct gp_simulated_device {
  gp_stats_t stats; /* at the end of the pass: peaks are those of the pass, all else counts from the first */
  uint64_t held_peak;     /* most that the driver had given, in whole pages */
  uint64_t refused;       /* requests that the program got, and here did not */
  uint64_t first_refused; /* number of the first one, from 0 on, and what it asked for */
  uint64_t refused_size;
  uint64_t granted; /* requests that the program did not get, and here did, without waiting for the device */
} gp_simulated_device_t;

typedef struct gp_simulated_pass {
  gp_simulated_device_t devices[GP_SNAPSHOT_DEVICES];
  uint64_t calls[GP_OFFLINE_CALLS];
  uint64_t call_count; /* of these */
  double cost_ns;      /* of these, see offline_driver.c */
} gp_simulated_pass_t;

typedef struct gp_simulation {
  gp_simulated_pass_t passes[GP_PASS_COUNT];
} gp_simulation_t;

/*
 * capacity: bytes of each device; 0: as the recording says, or without bounds. passes: 1 or 2. Returns 0 or
 * ENOMEM. The same workload and options give the same result.
 */
int gp_simulate(gp_simulation_t *ret_simulation, const gp_workload_t *workload, const gp_options_t *options,
    uint64_t capacity, int passes);

#endif
