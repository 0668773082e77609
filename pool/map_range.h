/*
 * The addresses that a context has for mapped memory, type vmm.
 */
#ifndef GP_POOL_MAP_RANGE_H
#define GP_POOL_MAP_RANGE_H

#include "pool/records.h"

/*
 * The context has a range. The first call reserves one and tries whether memory can be mapped there. False:
 * the driver cannot map memory (final, with one message), it has no memory for the trial, or another thread
 * is trying just now. The caller holds no lock.
 */
bool gp_map_range_is_there(gp_engine_t *engine, gp_context_t *context);

/* The context is lost. Gives its mapped memory back, which the driver keeps beyond the context's end,
 * except chunks that other threads are about to map or release. The caller holds no lock. */
void gp_map_range_lose(gp_engine_t *engine, gp_context_t *context);

#endif
