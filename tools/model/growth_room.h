/*
 * The room left on devices on which something grows, and when it will be exhausted.
 */
#ifndef GP_TOOLS_MODEL_GROWTH_ROOM_H
#define GP_TOOLS_MODEL_GROWTH_ROOM_H

#include "tools/model/growth.h"

/* Computes the rooms of growth, whose growers are known, from the state in snapshot. */
void gp_growth_measure_rooms(gp_growth_t *growth, const gp_snapshot_t *snapshot);

#endif
