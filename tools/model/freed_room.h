/*
 * What room there would be at the end of a snapshot if an owner held nothing. In a segment that is cut, what
 * is freed helps only as far as it leaves a large enough piece, or the segment without memory in use.
 */
#ifndef GP_TOOLS_MODEL_FREED_ROOM_H
#define GP_TOOLS_MODEL_FREED_ROOM_H

#include "tools/model/owners.h"

/* True if a segment of the device is cut into blocks. */
bool gp_device_is_cut(const gp_snapshot_t *snapshot, int device);

/* Bytes, with all that the owner holds given back. */
typedef struct gp_freed_room {
  uint64_t largest;   /* idle piece */
  uint64_t in_wholes; /* segments that would be idle as a whole */
} gp_freed_room_t;

/*
 * A block of which it is not sure that it is the owner's stays. owner: of gp_owners_init, of the snapshot's
 * end. Thread-safe.
 */
void gp_freed_room_find(
    const gp_snapshot_t *snapshot, int device, const gp_owner_t *owner, gp_freed_room_t *ret_room);

#endif
