/*
 * Names that were found before: the snapshots of many ranks have the same modules, and to read the debug
 * information of one takes longer than all else in a small snapshot.
 */
#ifndef GP_TOOLS_SYMBOLS_SYMBOLS_CACHE_H
#define GP_TOOLS_SYMBOLS_SYMBOLS_CACHE_H

#include "tools/symbols/symbols_module.h"

/* Answers the queries if it knows all of them. False: it does not, and they are as before. */
bool gp_symbols_cache_find(const gp_snapshot_module_t *module, gp_symbol_query_t *queries, size_t count);

/* Keeps copies of the answers until the process ends; those of a module without a build-id, or without
 * memory, not. All calls are of one sysroot and debug folder. One thread at a time. */
void gp_symbols_cache_keep(
    const gp_snapshot_module_t *module, const gp_symbol_query_t *queries, size_t count);

/* Keeps, of a module with a build-id, that no file has its names, and why not. */
void gp_symbols_cache_keep_missing(const gp_snapshot_module_t *module, const char *why);

/* True if that was kept. Sets ret_why, and is_rebuilt as it was then. */
bool gp_symbols_cache_is_missing(gp_snapshot_module_t *module, char *ret_why, size_t capacity);

#endif
