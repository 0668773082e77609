/*
 * Type segment: how large a segment is made, and when one that is free is too many. doc/memory-types.md has
 * the figures behind the constants. Sizes in bytes. The caller holds the device's lock unless a comment says
 * otherwise. Uses: segment.h.
 */
#ifndef GP_POOL_SPACE_SEGMENT_POLICY_H
#define GP_POOL_SPACE_SEGMENT_POLICY_H

#include "pool/state.h"

/* Segments are made in multiples of this, but under a limit that leaves less. */
#define GP_SEGMENT_STEP (2 * GP_MIB)

/*
 * Bytes of a new segment for a request of `bytes`, when the pool holds `reserved`; 0 if that overflows. No
 * lock.
 */
uint64_t gp_segment_size(uint64_t reserved, uint64_t bytes);

/* Use is about to be as high as active_bytes says. */
static inline void gp_segment_note_use(gp_device_t *device)
{
  if (gp_device_stats(device)->active_bytes.current > device->highest_active)
    device->highest_active = gp_device_stats(device)->active_bytes.current;
}

/* What is held was asked for ahead of need: it counts as if it had been in use. */
static inline void gp_segment_note_ahead(gp_device_t *device)
{
  uint64_t held =
      gp_device_stats(device)->active_bytes.current + gp_device_stats(device)->cached_bytes.current;
  if (held > device->highest_active)
    device->highest_active = held;
}

/* So many bytes more than use has ever needed are held, slack included. */
uint64_t gp_segment_spare_bytes(const gp_device_t *device);

/* The idle segment of the context that is to go back for that; NULL: none is idle. */
gp_block_t *gp_segment_spare(gp_context_t *context);

/*
 * It is on its way to the driver. Releases end: each allows more slack, and if the pool grows by as much
 * again it was needed, for what is idle may be in pieces. So much is held from then on. Beside segments are
 * whole allocations, after an export; each serves requests of its own size only, so there the same size has
 * to come again. note_growth: the driver gave the block, which no statistic counts as cached or active yet.
 */
void gp_segment_spared(gp_device_t *device, const gp_block_t *block);
void gp_segment_note_growth(gp_device_t *device, const gp_block_t *block);

#endif
