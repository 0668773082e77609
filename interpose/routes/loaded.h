/* Libraries whose mere presence in the process restricts the pool, recognized by their file names. Any
 * thread; each function takes the loader's lock and calls no driver function unless it says so. */
#ifndef GP_INTERPOSE_ROUTES_LOADED_H
#define GP_INTERPOSE_ROUTES_LOADED_H

#include <stdbool.h>
#include <stddef.h>

#include "pool/engine.h"

/*
 * Tools that the driver loads into a process to watch its calls: compute-sanitizer, Nsight Systems, Nsight
 * Compute. To them memory that the pool hands out again without a driver call seems allocated all the time:
 * a sanitizer misses uses after a free, a profiler misses calls. True if such a tool is in this process, or
 * will be when the driver is initialized. text, of at least 256 bytes, then names the evidence.
 */
bool gp_loaded_find_tool(char *text, size_t capacity);

/* The code at address is CUPTI's. Asks the loader. */
bool gp_loaded_is_cupti(const void *address);

/* CUPTI is loaded, by which a program can have itself called back in the middle of each driver call. Looks
 * only if something was loaded since the last call. Once true, it stays true. */
bool gp_loaded_look_for_cupti(void);

#endif
