/*
 * Streams, as far as the reuse of memory depends on them: which there are in each context, and up to which
 * epoch each is known to be complete. Used in reuse mode `epoch` only; gp_engine_uses_streams says whether it
 * is in force.
 *
 * All functions may be called by any thread, and none calls the driver. A stream's record is never returned
 * to the host before the engine; id tells whether it is still the same stream.
 */
#ifndef GP_POOL_REUSE_EPOCH_STREAMS_H
#define GP_POOL_REUSE_EPOCH_STREAMS_H

#include "pool/engine.h"
#include "pool/reuse/work_flags.h"

typedef struct gp_stream gp_stream_t;

/* Handles that stand for a context's default stream, as CUDA has them; other streams have greater ones. */
#define GP_STREAM_DEFAULT 0

bool gp_engine_uses_streams(const gp_engine_t *engine);

/* A stream was created in the context; has no work yet. Without host memory for it, the mode falls to
 * `context`. */
void gp_stream_created(gp_engine_t *engine, gp_context_t *context, uint64_t handle);

/*
 * Before the driver is told to destroy a stream, because it may give the handle to another thread at once:
 * takes it out of the table. Then destroyed after the driver's success (work that it still has is waited for
 * as long as the context has not completed it), or restored.
 */
gp_stream_t *gp_stream_take(gp_engine_t *engine, uint64_t handle);
void gp_stream_destroyed(gp_engine_t *engine, gp_stream_t *stream);
void gp_stream_restored(gp_engine_t *engine, gp_stream_t *stream);

/* A created stream by its handle; NULL: not known. */
gp_stream_t *gp_stream_find(gp_engine_t *engine, uint64_t handle);
gp_stream_t *gp_stream_default(gp_context_t *context);

/* The default stream of the calling thread in a context, made at first sight; NULL: as for created. */
gp_stream_t *gp_stream_of_thread(gp_engine_t *engine, gp_context_t *context);

uint64_t gp_stream_id(const gp_stream_t *stream);

/* Work is about to be submitted to the stream by the calling thread (what the stubs do by themselves). */
void gp_stream_mark(gp_engine_t *engine, gp_stream_t *stream);

/*
 * Around something that says, when it has succeeded, that all work submitted to the stream before begin is
 * complete. begin may also be remembered, for an event that is recorded now and waited for later.
 */
typedef struct gp_stream_fact {
  gp_stream_t *stream; /* NULL: none */
  uint64_t id;
  uint64_t epoch;
  uint32_t token;
} gp_stream_fact_t;

gp_stream_fact_t gp_stream_fact_begin(gp_engine_t *engine, gp_stream_t *stream);
void gp_stream_fact_end(gp_engine_t *engine, const gp_stream_fact_t *fact);

/*
 * Work may be submitted, or may have been, that no mark tells of (a stream that nobody saw created, say):
 * from now on context-wide facts decide alone. why is a sentence's end, printed once.
 */
void gp_streams_escape(gp_engine_t *engine, const char *why);

/* The same where nothing may be done, in the middle of a look-up: takes effect at once, and is told later. */
void gp_streams_distrust(void);

#endif
