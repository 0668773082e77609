/* Finds the engine's record of the calling thread's current context, or of a stream's context. */
#ifndef GP_INTERPOSE_HOOKS_CURRENT_CONTEXT_H
#define GP_INTERPOSE_HOOKS_CURRENT_CONTEXT_H

#include <stdatomic.h>
#include <stdbool.h>

#include "interpose/cuda_abi.h"
#include "pool/engine.h"

/*
 * Returns the record of the calling thread's current context, and creates it on the first call for that
 * context. Returns NULL if the thread has no context, or a driver call fails. For a green context, returns
 * the record of the device's primary context, which owns the memory allocated in the green context. Makes one
 * driver call (cuCtxGetId) for a known context, else three or more.
 */
gp_context_t *gp_current_context(gp_engine_t *engine);

/* Returns the current context's record like gp_current_context, but compares only the handle. For frees.
 * Makes one driver call (cuCtxGetCurrent) unless the current context has changed. That call is faster than
 * cuCtxGetId, and drivers without context ids have it, too. */
gp_context_t *gp_current_context_by_handle(gp_engine_t *engine);

/* Returns the record of the context whose work a synchronization of `handle` covers; a NULL handle is the
 * current context. Returns NULL if there is no such record, or for a green context, because its
 * synchronization covers only a part of a context. */
gp_context_t *gp_synchronized_context(gp_engine_t *engine, CUcontext handle);

/*
 * Returns the record of the context that a stream belongs to, or NULL if there is none. The stream must
 * exist. Makes only driver calls that are legal during a capture.
 */
gp_context_t *gp_stream_context(gp_engine_t *engine, CUstream stream);

/*
 * Green contexts. Their streams can have work although the green context is never current; a synchronization
 * or an event of the device's primary context covers that work (cuda.h, cuCtxSynchronize and
 * cuCtxRecordEvent). So gp_green_context_created makes a record of the primary context. Memory allocated or
 * freed while a green context is current belongs to the primary context. gp_green_context_created and
 * gp_green_context_is_known return false if the library cannot follow the green context: the driver cannot
 * record an event for a context (before 12.5), or the library did not see the green context's creation.
 */
bool gp_green_context_created(gp_engine_t *engine, const void *green, CUdevice device);
bool gp_green_context_is_known(const void *green);

extern atomic_int gp_green_contexts_count; /* private to the function below */

/* Returns true if a green context was converted (cuCtxFromGreenCtx), and so may be current. */
static inline bool gp_green_contexts_exist(void)
{
  return atomic_load_explicit(&gp_green_contexts_count, memory_order_relaxed) > 0;
}

/* Records the context to which a known green context was converted; `handle` is the driver's result. */
void gp_green_context_converted(const void *green, CUcontext handle);

/* gp_green_context_take removes the entry before the driver destroys a green context, because the driver may
 * give the handle to another thread at once. It returns NULL if the green context is unknown. The caller
 * passes the driver's result to gp_green_context_taken, which frees the entry or puts it back. */
typedef struct gp_green gp_green_t;
gp_green_t *gp_green_context_take(const void *green);
void gp_green_context_taken(gp_green_t *entry, bool destroyed);

/* Record that the program has created or destroyed a context of its own, as opposed to a primary context. */
void gp_user_context_created(CUcontext handle);
void gp_user_context_destroyed(CUcontext handle);

#endif
