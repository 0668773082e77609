/* GPUPOOL_PREWARM: memory that the pool allocates from the driver at the program's first allocation on a
 * device. */
#ifndef GP_POOL_SERVE_PREWARM_H
#define GP_POOL_SERVE_PREWARM_H

#include "pool/device_record.h"

/* Stores the list of GPUPOOL_PREWARM, and marks the devices as due. Called when the engine starts, before any
 * allocation. */
void gp_prewarm_init(gp_engine_t *engine, const gp_options_t *options);

/* Prewarms the device once, in the context, which is current in the calling thread. Returns true if the pool
 * has gained memory. The caller holds no lock. gp_prewarm makes a fast check first, without a lock. */
bool gp_prewarm_now(gp_engine_t *engine, gp_context_t *context);

static inline bool gp_prewarm(gp_engine_t *engine, gp_context_t *context)
{
  return __builtin_expect(
             atomic_load_explicit(&context->device->prewarm.state, memory_order_relaxed) == GP_PREWARM_DUE,
             0) &&
         gp_prewarm_now(engine, context);
}

#endif
