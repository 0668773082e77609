/*
 * Finds names for the frames of a snapshot afterwards, offline. Matches files by build-id, so that another
 * build of the program never supplies names.
 */
#ifndef GP_TOOLS_SYMBOLS_SYMBOLS_H
#define GP_TOOLS_SYMBOLS_SYMBOLS_H

#include "tools/symbols/symbols_module.h"

/* Says which modules were rebuilt since the program ran, so that their frames have no names: "app and
 * libx.so were rebuilt after ...". Cuts to capacity. False: none; buffer is "". */
bool gp_symbols_describe_rebuilt(const gp_snapshot_t *snapshot, char *buffer, size_t capacity);

/*
 * Fills function, file and line of frames that have no function yet, where it finds them; others stay ""
 * and 0. For inlined functions one frame becomes several, innermost first (is_inline for all but the last).
 * So indexes of frames change, but not those of stacks. Uses a module's own file only if its build-id is
 * that in the snapshot; without build-ids, only if the file is older than the process. Fetches nothing over
 * a network. options: may be NULL. One thread at a time: libdw, and it unsets DEBUGINFOD_URLS.
 */
void gp_symbols_resolve(gp_snapshot_t *snapshot, const gp_symbols_options_t *options);

#endif
