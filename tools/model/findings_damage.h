/*
 * Counts the damage that heap checks (GPUPOOL_CHECK) found.
 */
#ifndef GP_TOOLS_MODEL_FINDINGS_DAMAGE_H
#define GP_TOOLS_MODEL_FINDINGS_DAMAGE_H

#include "tools/model/filter.h"

/* Returns the statistic num_damages of the devices that `filter` selects. It counts all damage, whether its
 * event was recorded or not. */
uint64_t gp_damages_count(const gp_snapshot_t *snapshot, const gp_filter_t *filter);

#endif
