/*
 * Operations of the program in the legacy default stream, which are barriers (pool/reuse/barriers.h) where
 * the pool wants those. Only operations that hooks see anyway: copies to the host and records of events.
 * Any thread; the caller holds no lock.
 */
#ifndef GP_INTERPOSE_HOOKS_DEFAULT_STREAM_H
#define GP_INTERPOSE_HOOKS_DEFAULT_STREAM_H

#include <stdbool.h>

#include "interpose/cuda_abi.h"
#include "pool/engine.h"
#include "pool/reuse/barriers.h"

typedef struct gp_default_call {
  gp_engine_t *engine;
  gp_context_t *context;
  uint64_t epoch; /* 0: no barrier, and the others are void */
} gp_default_call_t;

gp_default_call_t gp_default_call_begin_barrier(gp_engine_t *engine); /* private */

/*
 * begin: before a call that submits an operation to the stream, as the program names it; with
 * per_thread NULL is the calling thread's own. engine NULL: does nothing. end: after the
 * call, with the driver's result.
 */
static inline gp_default_call_t gp_default_call_begin(gp_engine_t *engine, CUstream stream, bool per_thread)
{
  bool is_legacy = stream == CU_STREAM_LEGACY || (!stream && !per_thread);
  bool is_wanted = engine && is_legacy && gp_barriers_would_tell(engine);
  return is_wanted ? gp_default_call_begin_barrier(engine) : (gp_default_call_t){.epoch = 0};
}

static inline void gp_default_call_end(const gp_default_call_t *call, CUresult result)
{
  if (call->epoch != 0 && result == CUDA_SUCCESS)
    gp_barrier_end(call->engine, call->context, call->epoch);
}

#endif
