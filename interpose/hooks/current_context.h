/* Finds the engine's record of the calling thread's current context, or of a stream's context. */
#ifndef GP_INTERPOSE_HOOKS_CURRENT_CONTEXT_H
#define GP_INTERPOSE_HOOKS_CURRENT_CONTEXT_H

#include <stdatomic.h>
#include <stdbool.h>

#include "interpose/cuda_abi.h"
#include "pool/engine.h"

/*
 * Returns the record of the calling thread's current context, and creates it on the first call for that
 * context. NULL if the thread has no context, or a driver call fails. For a green context it is the record of
 * the device's primary context, which owns the memory allocated in the green one. Makes one driver call
 * (cuCtxGetId) for a known context, else three or more.
 */
gp_context_t *gp_current_context(gp_engine_t *engine);

/* Returns the current context's record for a free, comparing only the handle. Makes one driver call
 * (cuCtxGetCurrent) unless the current context has changed: that call is faster than cuCtxGetId, and drivers
 * without context ids have it. */
gp_context_t *gp_current_context_by_handle(gp_engine_t *engine);

/* Returns the record of the context whose work a synchronization of `handle` (NULL: the current context)
 * covers. NULL if there is no such record, and for a green context, whose synchronization covers only a part
 * of a context. */
gp_context_t *gp_synchronized_context(gp_engine_t *engine, CUcontext handle);

/*
 * Returns the record of the context that a stream belongs to, or NULL if there is none. The stream must
 * exist. Makes only driver calls that are legal during a capture.
 */
gp_context_t *gp_stream_context(gp_engine_t *engine, CUstream stream);

/*
 * Green contexts. Their streams can have work although the green context is never current; a synchronization
 * or an event of the device's primary context covers that work (cuda.h, cuCtxSynchronize and
 * cuCtxRecordEvent). So created makes a record of the primary context, and memory allocated or freed while a
 * green context is current belongs to the primary context. created and is_known return false if the library
 * cannot do so: the driver cannot record an event for a context (before 12.5), or the library did not see the
 * green context's creation.
 */
bool gp_green_context_created(gp_engine_t *engine, const void *green, CUdevice device);
bool gp_green_context_is_known(const void *green);

extern atomic_int gp_green_contexts_count; /* private */

/* Returns true if a green context was converted (cuCtxFromGreenCtx), and so may be current. */
static inline bool gp_green_contexts_exist(void)
{
  return atomic_load_explicit(&gp_green_contexts_count, memory_order_relaxed) > 0;
}

/* Called after the conversion of a known green context; handle is the driver's result. */
void gp_green_context_converted(const void *green, CUcontext handle);

/* Call take before the driver destroys a green context, because the driver may give its handle to another
 * thread at once. Call taken afterwards, with the result. take returns NULL if the green context is
 * unknown. */
typedef struct gp_green gp_green_t;
gp_green_t *gp_green_context_take(const void *green);
void gp_green_context_taken(gp_green_t *entry, bool destroyed);

/* Called when the program creates or destroys a context, as opposed to using a device's primary one. */
void gp_user_context_created(CUcontext handle);
void gp_user_context_destroyed(CUcontext handle);

#endif
