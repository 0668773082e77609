/*
 * The addresses that a context has for mapped memory, type vmm, or a device for stream-ordered memory.
 */
#ifndef GP_POOL_SERVE_MAP_RANGE_H
#define GP_POOL_SERVE_MAP_RANGE_H

#include "pool/records.h"

/*
 * Returns 0 if the context has a range. The first call reserves one and tries whether memory can be mapped
 * there. Otherwise code_out_of_memory: the device or the limit (*by_limit) has no memory for that trial; or
 * code_not_ready: the driver cannot map memory (final, with one message), or not now, or another thread is
 * trying. asker: a context of the device. The caller holds no lock.
 */
int gp_map_range_find(gp_engine_t *engine, gp_context_t *context, gp_context_t *asker, bool *by_limit);

/* Gives a device access to the arena's mapped memory, and to what will be mapped there. Returns the first
 * failure's code. The caller holds no lock. */
int gp_map_range_give_access(gp_engine_t *engine, gp_context_t *arena, int ordinal);

/* The context is lost. Gives its mapped memory back, which the driver keeps beyond the context's end,
 * except chunks that other threads are about to map or release. The caller holds no lock. */
void gp_map_range_lose(gp_engine_t *engine, gp_context_t *context);

#endif
