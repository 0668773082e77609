/*
 * A stream that is known, for known_streams.c and barriers.c.
 *
 * Records are in engine->known_streams, in the order of growing serials; contexts_lock guards the list.
 * asked: a thread asks the driver about the stream, without the lock, and nothing else may touch the rest of
 * the record. That thread frees it if is_removed says then that it is in the list no more.
 *
 * The driver returns from a destroy before the stream's work is done (cuda.h): if it had work, a fence that
 * was recorded in it before tells of that. At a free that is noted each stream with work gets another fence,
 * which tells later whether that work or newer one is pending, and a third one for a barrier. A fence ends
 * with its context only, so that a record which has one waits for the next stream of its context.
 *
 * A fence in the default stream itself would hold up the blocking streams. So it is recorded in a blocking
 * stream of the library's own, `side`, which begins behind what the default stream has: whatever waits for it
 * would wait for that anyhow.
 */
#ifndef GP_POOL_REUSE_KNOWN_RECORD_H
#define GP_POOL_REUSE_KNOWN_RECORD_H

#include "pool/state.h"

/* Handles that stand for a context's default stream, as CUDA has them; other streams have greater ones. */
#define GP_STREAM_DEFAULT          0
#define GP_STREAM_LAST_OF_DEFAULTS 2

typedef enum gp_known_kind { GP_KNOWN_STREAM, GP_KNOWN_ENDED, GP_KNOWN_SPARE } gp_known_kind_t;

typedef struct gp_known {
  gp_list_t link;
  gp_context_t *context;
  _Atomic gp_known_kind_t kind; /* others may look, and do not rely on it while a thread asks */
  uint64_t handle;              /* GP_STREAM_DEFAULT: the context's default stream */
  uint64_t side;                /* of the default stream; 0: not made */
  uint64_t serial;
  void *end_fence;     /* GP_KNOWN_ENDED: of all its work */
  void *free_fence;    /* of the work that it had at the last free that was noted, ... */
  void *barrier_fence; /* of the work that it had when a barrier was looked at; of the barrier itself */
  void *awaited;       /* the fence that the barrier waits for; NULL: for none of this stream */
  bool is_blocking;    /* the default stream and it wait for each other */
  bool is_fenced;      /* the free fence is outstanding */
  bool had_work_at_free;
  bool was_busy; /* when it was asked last */
  bool asked;
  bool is_removed;
} gp_known_t;

/* The driver has no fences over contexts, and can be asked about streams. */
bool gp_known_streams_are_kept(const gp_engine_t *engine);

/*
 * The first record with a greater serial, of the context, or of any (NULL) but for those without a stream,
 * which is the caller's until give; NULL: there is none. *ret_skipped is set if another thread asks about one
 * before it. Any thread; the caller holds no lock.
 */
gp_known_t *gp_known_next(
    gp_engine_t *engine, const gp_context_t *context, uint64_t serial, bool *ret_skipped);
void gp_known_give(gp_engine_t *engine, gp_known_t *stream);

/* The stream in which a fence tells of this stream's work; 0: there is none, or it gets no more work. The
 * caller has the record. */
uint64_t gp_known_fence_stream(gp_engine_t *engine, gp_known_t *stream);

#endif
