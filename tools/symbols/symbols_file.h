/*
 * Finds the file with a module's names: its own if that is the same build, else a debug file of that build.
 */
#ifndef GP_TOOLS_SYMBOLS_SYMBOLS_FILE_H
#define GP_TOOLS_SYMBOLS_SYMBOLS_FILE_H

#include "tools/symbols/symbols_module.h"

/*
 * Opens the file read-only and writes its path to ret_path. Returns a descriptor, or -1 with the reason in
 * ret_why. *ret_is_rebuilt: a file exists, but of another build. Never reads on in anything but a regular
 * ELF file.
 */
int gp_symbols_open_file(const gp_snapshot_module_t *module, uint64_t start_time_us,
    const gp_symbols_options_t *options, char *ret_path, size_t path_capacity, char *ret_why, size_t capacity,
    bool *ret_is_rebuilt);

#endif
