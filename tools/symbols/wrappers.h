/*
 * Functions through which the program asks for nearly all of its memory. Their names look like any other;
 * their callers give them away.
 */
#ifndef GP_TOOLS_SYMBOLS_WRAPPERS_H
#define GP_TOOLS_SYMBOLS_WRAPPERS_H

#include "tools/read/snapshot.h"

/*
 * If one function owns nearly everything, moves its stacks to its callers. There must be several, and a few
 * must explain most of it. frame_kinds and owners are those of snapshot. Returns 0, or ENOMEM; then part of
 * owners may have changed.
 */
int gp_wrappers_see_through(
    const gp_snapshot_t *snapshot, const gp_snapshot_frame_kind_t *frame_kinds, gp_snapshot_owner_t *owners);

#endif
