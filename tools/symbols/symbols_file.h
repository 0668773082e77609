/*
 * Which file has the names of a module: its own if it is the same build, else a debug file of that build.
 */
#ifndef GP_TOOLS_SYMBOLS_SYMBOLS_FILE_H
#define GP_TOOLS_SYMBOLS_SYMBOLS_FILE_H

#include "tools/symbols/symbols_module.h"

/*
 * Opens it, read-only, and writes its path to ret_path. Returns a descriptor, or -1 with the reason in
 * ret_why; *ret_is_rebuilt: there was a file, of another build. What is no regular ELF file is never read
 * further.
 */
int gp_symbols_open_file(const gp_snapshot_module_t *module, uint64_t start_time_us,
    const gp_symbols_options_t *options, char *ret_path, size_t path_capacity, char *ret_why, size_t capacity,
    bool *ret_is_rebuilt);

#endif
