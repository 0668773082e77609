/*
 * Which context the calling thread works in, as the engine's record.
 */
#ifndef GP_INTERPOSE_HOOKS_CURRENT_CONTEXT_H
#define GP_INTERPOSE_HOOKS_CURRENT_CONTEXT_H

#include <stdbool.h>

#include "interpose/cuda_abi.h"
#include "pool/engine.h"

/*
 * The record of the thread's current context, made at first sight; NULL if it has none or the driver does not
 * say. Where a green context is current, it is that of the device's primary context, which owns the memory
 * that is allocated there.
 */
gp_context_t *gp_current_context(gp_engine_t *engine);

/* Whether there is one that lives. Costs a question to the driver, and no more than that where nothing has
 * changed. */
bool gp_has_current_context(gp_engine_t *engine);

/*
 * The record of the context whose work a synchronization of that handle (NULL: the current one) covers; NULL
 * as above, and for a green context: that covers a part of a context only.
 */
gp_context_t *gp_synchronized_context(gp_engine_t *engine, CUcontext handle);

/*
 * The record of the context that a stream belongs to, or NULL as above. The handle must be one that may be
 * given to the driver. No call here is prohibited during a capture.
 */
gp_context_t *gp_stream_context(gp_engine_t *engine, CUstream stream);

/*
 * Green contexts. Their streams carry work though their contexts are never current; a synchronization or an
 * event of the device's primary context covers them (cuda.h, cuCtxSynchronize and cuCtxRecordEvent). So
 * created files that one, and what is allocated or freed where a green context is current counts as the
 * primary one's. created and is_known return false where none of this can be relied on: the driver has no
 * event of a context (before 12.5), or the library did not see it make the green context.
 */
bool gp_green_context_created(gp_engine_t *engine, const void *green, CUdevice device);
bool gp_green_context_is_known(const void *green);

/* After the conversion of a known one: handle is what the driver gave. */
void gp_green_context_converted(const void *green, CUcontext handle);

/*
 * Before the driver is asked to destroy one, because it may give the handle to another thread at once; then
 * taken, with what came of it. NULL: it was not known.
 */
typedef struct gp_green gp_green_t;
gp_green_t *gp_green_context_take(const void *green);
void gp_green_context_taken(gp_green_t *entry, bool destroyed);

/* Contexts that the program created itself, as opposed to the devices' primary ones. */
void gp_user_context_created(CUcontext handle);
void gp_user_context_destroyed(CUcontext handle);

#endif
