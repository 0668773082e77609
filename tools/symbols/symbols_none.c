/*
 * Replaces symbols_dwfl.c in builds without the headers of libdw. Never finds a name.
 */
#include <stdio.h>

#include "tools/symbols/symbols_module.h"

bool gp_symbols_are_available(void)
{
  return false;
}

const char *gp_symbols_need(void)
{
  return "a gpupool that was built with libdw (the package libdw-dev, or elfutils-devel)";
}

bool gp_symbols_of_module(const gp_snapshot_module_t *module, uint64_t start_time_us,
    const gp_symbols_options_t *options, gp_symbol_query_t *queries, size_t count, char *ret_why,
    size_t capacity, bool *ret_is_rebuilt)
{
  *ret_is_rebuilt = false;
  (void)snprintf(ret_why, capacity, "this build of gpupool was made without libdw");
  return false;
}
