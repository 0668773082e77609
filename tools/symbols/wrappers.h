/*
 * Functions of the program through which nearly all of its memory is asked for. No name tells them from
 * others, but who calls them does.
 */
#ifndef GP_TOOLS_SYMBOLS_WRAPPERS_H
#define GP_TOOLS_SYMBOLS_WRAPPERS_H

#include "tools/read/snapshot.h"

/*
 * Moves the owner of stacks whose function has nearly everything to its callers, if there are several and a
 * few of them explain most of it. frame_kinds and owners are those of snapshot. Returns 0 or ENOMEM; then
 * owners may have changed in part.
 */
int gp_wrappers_see_through(
    const gp_snapshot_t *snapshot, const gp_snapshot_frame_kind_t *frame_kinds, gp_snapshot_owner_t *owners);

#endif
