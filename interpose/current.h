/*
 * Which context the calling thread works in, as the engine's record.
 */
#ifndef GP_INTERPOSE_CURRENT_H
#define GP_INTERPOSE_CURRENT_H

#include "interpose/cuda_abi.h"
#include "pool/engine.h"

/* The record of the thread's current context, made at first sight; NULL if it has none or the driver does not say. */
gp_context_t *gp_current_context(gp_engine_t *engine);

/* Whether there is one that lives. Costs a question to the driver, and no more than that where nothing has changed. */
bool gp_has_current_context(gp_engine_t *engine);

/* The record of a context that may not be current, or NULL if it was never seen. handle NULL: the current one. */
gp_context_t *gp_known_context(gp_engine_t *engine, CUcontext handle);

/*
 * The record of the context that a stream belongs to, or NULL as above. The handle must be one that may be given to the
 * driver. No call here is prohibited during a capture.
 */
gp_context_t *gp_stream_context(gp_engine_t *engine, CUstream stream);

/* Contexts that the program created itself, as opposed to the devices' primary ones. */
void gp_user_context_created(CUcontext handle);
void gp_user_context_destroyed(CUcontext handle);

#endif
