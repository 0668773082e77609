/*
 * Finds the share of the requests that a setting would have served from the pool. The findings use it.
 */
#ifndef GP_TOOLS_REPLAY_TRIAL_H
#define GP_TOOLS_REPLAY_TRIAL_H

#include "tools/replay/settings.h"

/* Simulates a device with an empty pool, and gets its hit rate, from 0 to 1. Returns 0 or ENOMEM. */
int gp_trial_hit_rate(
    const gp_workload_t *workload, const gp_settings_t *settings, int device, double *ret_rate);

#endif
