/*
 * Which context the calling thread works in, as the engine's record.
 */
#ifndef GP_INTERPOSE_HOOKS_CURRENT_CONTEXT_H
#define GP_INTERPOSE_HOOKS_CURRENT_CONTEXT_H

#include <stdatomic.h>
#include <stdbool.h>

#include "interpose/cuda_abi.h"
#include "pool/engine.h"

/*
 * The record of the calling thread's current context, made by the first call for that context. NULL if the
 * thread has no context or the driver does not tell. For a green context: the record of the device's
 * primary context, which owns the memory allocated in the green one. One driver call for a context that is
 * known (cuCtxGetId), three or more else.
 */
gp_context_t *gp_current_context(gp_engine_t *engine);

/* The same record, for a free, which trusts the handle: one driver call (cuCtxGetCurrent), of which hardware
 * takes less time, and which a driver without ids has, unless the current context has changed. */
gp_context_t *gp_current_context_by_handle(gp_engine_t *engine);

/* The record of the context whose work a synchronization of that handle (NULL: the current one) covers.
 * NULL as above; also for a green context, whose synchronization covers only a part of a context. */
gp_context_t *gp_synchronized_context(gp_engine_t *engine, CUcontext handle);

/*
 * The record of the context that a stream belongs to, or NULL as above. The stream must exist. Makes only
 * driver calls that are legal during a capture.
 */
gp_context_t *gp_stream_context(gp_engine_t *engine, CUstream stream);

/*
 * Green contexts. Their streams can have work although the green context is never current; a
 * synchronization or an event of the device's primary context covers them (cuda.h, cuCtxSynchronize and
 * cuCtxRecordEvent). So created files the primary context, and memory allocated or freed while a green
 * context is current counts as the primary one's. created and is_known return false if that does not hold:
 * the driver has no event of a context (before 12.5), or the library did not see the green context created.
 */
bool gp_green_context_created(gp_engine_t *engine, const void *green, CUdevice device);
bool gp_green_context_is_known(const void *green);

extern atomic_int gp_green_contexts_count; /* private */

/* A green context was converted, and may be current. */
static inline bool gp_green_contexts_exist(void)
{
  return atomic_load_explicit(&gp_green_contexts_count, memory_order_relaxed) > 0;
}

/* After the conversion of a known green context; handle is the driver's result. */
void gp_green_context_converted(const void *green, CUcontext handle);

/* take comes before the driver's call that destroys a green context, because the driver may give the handle
 * to another thread at once; taken follows, with the result. NULL: the green context is unknown. */
typedef struct gp_green gp_green_t;
gp_green_t *gp_green_context_take(const void *green);
void gp_green_context_taken(gp_green_t *entry, bool destroyed);

/* Contexts that the program created itself, as opposed to the devices' primary ones. */
void gp_user_context_created(CUcontext handle);
void gp_user_context_destroyed(CUcontext handle);

#endif
