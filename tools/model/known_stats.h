/*
 * Which statistics of a device a snapshot tells. PyTorch's have segments and events but no counters, so what
 * follows from neither is unknown: no 0 that is printed for it would be true.
 */
#ifndef GP_TOOLS_MODEL_KNOWN_STATS_H
#define GP_TOOLS_MODEL_KNOWN_STATS_H

#include "tools/read/snapshot.h"

typedef enum gp_known {
  GP_KNOWN_NOT,
  GP_KNOWN_AT_END, /* of a gauge only the current value */
  GP_KNOWN,
} gp_known_t;

/* stat: the offset of a statistic in gp_stats_t. */
gp_known_t gp_stats_known(const gp_snapshot_t *snapshot, const gp_snapshot_device_t *device, size_t stat);

#endif
