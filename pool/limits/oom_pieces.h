/* When memory has run out: how much of the idle memory is in pieces. */
#ifndef GP_POOL_LIMITS_OOM_PIECES_H
#define GP_POOL_LIMITS_OOM_PIECES_H

#include "pool/records.h"

/* Fills in_pieces, quiet_in_pieces and quiet_largest of the report, which stay 0 where no memory is cut.
 * The caller holds the device's lock. */
void gp_oom_count_pieces(const gp_device_t *device, gp_oom_t *oom);

#endif
