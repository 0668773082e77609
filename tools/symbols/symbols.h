/*
 * Finds names for the frames of a snapshot, after the program has run. Matches files by build-id, so that it
 * never uses names from another build of the program.
 */
#ifndef GP_TOOLS_SYMBOLS_SYMBOLS_H
#define GP_TOOLS_SYMBOLS_SYMBOLS_H

#include "tools/symbols/symbols_module.h"

/* Writes which modules were rebuilt after the program ran, so that their frames have no names: "app and
 * libx.so were rebuilt after ...". Truncates to `capacity`. If there is no such module, sets `buffer` to ""
 * and returns false. */
bool gp_symbols_describe_rebuilt(const gp_snapshot_t *snapshot, char *buffer, size_t capacity);

/*
 * Fills function, file and line of the frames that have no function yet; unknown values stay "" and 0. A
 * frame with inlined functions becomes several frames, innermost first; is_inline is true for all but the
 * last. The indexes of frames therefore change, but not those of stacks. Uses a module's own file only if its
 * build-id is that in the snapshot or, without build-ids, if the file is older than the process. Never uses a
 * network. `options` may be NULL. One thread at a time, because of libdw, and because it unsets
 * DEBUGINFOD_URLS.
 */
void gp_symbols_resolve(gp_snapshot_t *snapshot, const gp_symbols_options_t *options);

#endif
