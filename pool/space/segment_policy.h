/*
 * Type segment: the size of new segments, and when a free segment is one too many. doc/memory-types.md has
 * the figures behind the constants. Sizes in bytes. The caller holds the device's lock unless a comment
 * says otherwise.
 */
#ifndef GP_POOL_SPACE_SEGMENT_POLICY_H
#define GP_POOL_SPACE_SEGMENT_POLICY_H

#include "pool/records.h"

/* Segment sizes are multiples of this, unless a limit leaves less. */
#define GP_SEGMENT_STEP (2 * GP_MIB)

/*
 * Bytes of a new segment for a request of `bytes`, when the context holds `held` (gp_segment_held); 0 if that
 * overflows. No lock.
 */
uint64_t gp_segment_size(uint64_t held, uint64_t bytes);

/* By how many bytes the pool holds more parts of segments than use has ever needed, slack included. */
uint64_t gp_segment_spare_bytes(const gp_device_t *device);

/* The context's idle segment that should go back because of these bytes; NULL: no segment is idle. */
gp_block_t *gp_segment_spare(gp_context_t *context);

/*
 * spared: the whole segment is on its way to the driver. Such releases come to an end, since each one allows
 * more slack. If the pool grows by as much again, it needed the memory after all, for idle memory may be in
 * pieces; from then on it holds that much. note_growth: the driver gave the segment, which no statistic
 * counts as cached or active yet.
 */
void gp_segment_spared(gp_device_t *device, const gp_block_t *block);
void gp_segment_note_growth(gp_device_t *device, const gp_block_t *block);

#endif
