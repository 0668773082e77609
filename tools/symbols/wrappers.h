/*
 * Finds wrappers, which are functions through which the program allocates nearly all of its memory. A
 * wrapper's name reveals nothing, but the wrapper has many callers.
 */
#ifndef GP_TOOLS_SYMBOLS_WRAPPERS_H
#define GP_TOOLS_SYMBOLS_WRAPPERS_H

#include "tools/read/snapshot.h"

/*
 * If one function owns nearly everything, makes its callers the owners of its stacks. The function must have
 * several callers, a few of which account for most of its memory. `frame_kinds` and `owners` are those of
 * `snapshot`. Returns 0, or ENOMEM, after which some owners may have changed.
 */
int gp_wrappers_see_through(
    const gp_snapshot_t *snapshot, const gp_snapshot_frame_kind_t *frame_kinds, gp_snapshot_owner_t *owners);

#endif
