/*
 * Names of the frames of a snapshot, found afterwards and offline: by build-id, so that another build of the
 * program never lends its names.
 */
#ifndef GP_TOOLS_SYMBOLS_SYMBOLS_H
#define GP_TOOLS_SYMBOLS_SYMBOLS_H

#include "tools/symbols/symbols_module.h"

/*
 * Says which modules were rebuilt since the program ran, so that their frames have no names: "app and libx.so
 * were rebuilt after ...". Cut to capacity. False: none was, and buffer is "".
 */
bool gp_symbols_describe_rebuilt(const gp_snapshot_t *snapshot, char *buffer, size_t capacity);

/*
 * Fills function, file and line of the frames that have no function yet, as far as they can be found; the
 * rest stays "" and 0. Where the compiler has put functions into others, a frame becomes several, the
 * innermost first (is_inline of all but the last), so indexes of frames change; those of stacks do not. A
 * module's own file is used only if its build-id is that of the snapshot; without build-ids, only if the file
 * is older than the process. Nothing is fetched over a network. options: NULL for the default. One thread at
 * a time (libdw, and DEBUGINFOD_URLS is taken out of the environment).
 */
void gp_symbols_resolve(gp_snapshot_t *snapshot, const gp_symbols_options_t *options);

#endif
