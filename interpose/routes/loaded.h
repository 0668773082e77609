/*
 * Libraries of which the mere presence in the process changes what the pool may do, known by the names of
 * their files. Any thread; each function takes the loader's lock and calls no driver function unless it says
 * so.
 */
#ifndef GP_INTERPOSE_ROUTES_LOADED_H
#define GP_INTERPOSE_ROUTES_LOADED_H

#include <stdbool.h>
#include <stddef.h>

#include "pool/engine.h"

/*
 * Tools that the driver loads into a process to watch its calls: compute-sanitizer, Nsight Systems, Nsight
 * Compute. Memory that is handed out again without a driver call is allocated for them all the time: a
 * sanitizer misses uses after a free, a profiler misses calls. True if such a tool is in this process or will
 * be when the driver is initialized. text, of at least 256 bytes, then says by what that is known.
 */
bool gp_loaded_find_tool(char *text, size_t capacity);

/*
 * True if CUPTI is loaded, by which a program can have itself called back in the middle of each driver call.
 * Pooling does not mind; reuse mode `single` does (pool/reuse/single.h).
 */
bool gp_loaded_has_cupti(void);

/* That code is CUPTI's. Asks the loader. */
bool gp_loaded_is_cupti(const void *address);

/* As gp_loaded_has_cupti, for callers that ask often: if nothing was loaded since the last look nothing is
 * done. Once true it stays. */
bool gp_loaded_look_for_cupti(void);

/*
 * Libraries by which other devices than the GPU reach GPU memory: network cards, disks, the host's own
 * mapping. If one is there, the order of a single stream ends (pool/reuse/single.h), because those
 * devices ignore stream order; the host may wait for the device then. If nothing was loaded since the last
 * look, nothing else is done: callers that are rare or slow may look each time.
 */
void gp_loaded_look_for_rdma(gp_engine_t *engine);

#endif
