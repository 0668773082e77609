/*
 * Which streams there are, in each context, as far as the reuse of memory depends on them. Only the modes
 * that follow streams keep the table. What is known of their work is in reuse/epoch/.
 *
 * Any thread may call these, and none calls the driver. A stream's record does not return to the host before
 * the engine; its id tells whether it is still the same stream. Uses: state.h, mode.h, stamps.h,
 * work_flags.h.
 */
#ifndef GP_POOL_REUSE_STREAMS_H
#define GP_POOL_REUSE_STREAMS_H

#include "pool/engine.h"
#include "pool/reuse/work_flags.h"

/* Handles that stand for a context's default stream, as CUDA has them; other streams have greater ones. */
#define GP_STREAM_DEFAULT          0
#define GP_STREAM_LAST_OF_DEFAULTS 2

typedef struct gp_stream_table gp_stream_table_t;

/* At the start and the end of the engine. follows: the mode follows streams. False: the host has no memory.
 */
bool gp_stream_table_init(gp_engine_t *engine, bool follows);
void gp_stream_table_fini(gp_engine_t *engine);

/* A context comes, goes. add, false: the host has no memory. The caller holds contexts_lock. */
bool gp_streams_add_context(gp_engine_t *engine, gp_context_t *context);
void gp_streams_drop_context(gp_engine_t *engine, gp_context_t *context);

/* At most one live context. The caller holds contexts_lock. */
bool gp_streams_have_one_context(const gp_engine_t *engine);

/* No stream of the context but its default one can get more work. The caller holds contexts_lock. */
bool gp_streams_are_default_only(const gp_context_t *context);

/*
 * Lets go of ended streams whose work is complete: those that are clean, or whose end `completed` covers.
 * epoch has just ended. The caller holds contexts_lock, and may not use the records of ended streams
 * afterwards.
 */
void gp_streams_drop_ended(gp_engine_t *engine, gp_context_t *context, uint64_t epoch, uint64_t completed);

/* A record for a created stream, without work yet, or for the calling thread's default stream; NULL: the host
 * has no memory. The caller holds contexts_lock. */
gp_stream_t *gp_stream_add(gp_engine_t *engine, gp_context_t *context, uint64_t handle);
gp_stream_t *gp_stream_add_of_thread(gp_engine_t *engine, gp_context_t *context);

/* The record of the calling thread's default stream in a context; NULL: it has none yet. Takes no lock. */
gp_stream_t *gp_stream_known_of_thread(const gp_engine_t *engine, const gp_context_t *context);

/*
 * Before the driver destroys a stream, because it may give the handle to another thread at once:
 * takes it out of the table. Then destroyed after the driver's success (work that it still has is waited for
 * as long as the context has not completed it), or gp_stream_restored (stream_calls.h), which puts it back;
 * put_back, false: the host has no memory. The caller holds no lock.
 */
gp_stream_t *gp_stream_take(gp_engine_t *engine, uint64_t handle);
void gp_stream_destroyed(gp_engine_t *engine, gp_stream_t *stream);
bool gp_stream_put_back(gp_engine_t *engine, gp_stream_t *stream);

/* A created stream by its handle; NULL: not known. */
gp_stream_t *gp_stream_find(gp_engine_t *engine, uint64_t handle);
gp_stream_t *gp_stream_default(gp_context_t *context);

uint64_t gp_stream_id(const gp_stream_t *stream);

#endif
