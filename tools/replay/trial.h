/*
 * One figure of a simulation, for findings: how many requests a setting would have served from the pool.
 */
#ifndef GP_TOOLS_REPLAY_TRIAL_H
#define GP_TOOLS_REPLAY_TRIAL_H

#include "tools/replay/settings.h"

/* The hit rate of a device, 0..1, from an empty pool. Returns 0 or ENOMEM. */
int gp_trial_hit_rate(
    const gp_workload_t *workload, const gp_settings_t *settings, int device, double *ret_rate);

#endif
