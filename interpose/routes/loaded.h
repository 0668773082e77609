/* Finds libraries whose mere presence in the process restricts the pool, by their file names. Any thread.
 * Each function takes the loader's lock, and calls no driver function unless its comment says so. */
#ifndef GP_INTERPOSE_ROUTES_LOADED_H
#define GP_INTERPOSE_ROUTES_LOADED_H

#include <stdbool.h>
#include <stddef.h>

#include "pool/engine.h"

/*
 * Returns true if this process contains a tool that watches its CUDA calls, or will contain one when the
 * driver is initialized: compute-sanitizer, Nsight Systems, Nsight Compute. To such a tool, memory that the
 * pool reuses without a driver call appears allocated all the time: a sanitizer misses uses after a free, a
 * profiler misses calls. If the result is true, `text` (at least 256 bytes) receives the evidence.
 */
bool gp_loaded_find_tool(char *text, size_t capacity);

/* Returns true if `address` is in CUPTI's code. Queries the loader. */
bool gp_loaded_is_cupti(const void *address);

/* Returns true if CUPTI is loaded: CUPTI can call the program back in the middle of each driver call. Looks
 * only if something was loaded since the last call. Once true, the result stays true. */
bool gp_loaded_look_for_cupti(void);

#endif
