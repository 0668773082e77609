/*
 * The room that would exist at the end of a snapshot if an owner held nothing. In a cut segment, freed
 * memory helps only if it makes a large enough piece, or leaves the segment without memory in use.
 */
#ifndef GP_TOOLS_MODEL_FREED_ROOM_H
#define GP_TOOLS_MODEL_FREED_ROOM_H

#include "tools/model/owners.h"

/* True if a segment of the device is cut into blocks. */
bool gp_device_is_cut(const gp_snapshot_t *snapshot, int device);

/* Bytes, if everything that the owner holds were freed. */
typedef struct gp_freed_room {
  uint64_t largest;   /* largest idle piece */
  uint64_t in_wholes; /* segments that would be idle entirely */
} gp_freed_room_t;

/* Blocks that may belong to others stay. owner: from gp_owners_init, at the snapshot's end. Thread-safe. */
void gp_freed_room_find(
    const gp_snapshot_t *snapshot, int device, const gp_owner_t *owner, gp_freed_room_t *ret_room);

#endif
