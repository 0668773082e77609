/*
 * The record of a known stream, for known_streams.c and barriers.c.
 *
 * Records are in engine->known_streams, in the order of growing serials; contexts_lock guards the list.
 * asked: a thread queries the driver about the stream, without the lock, and has the rest of the record to
 * itself. If is_removed is set afterwards, the record has left the list, and that thread frees it.
 *
 * The driver returns from a destroy before the stream's work is done (cuda.h): if it had work, a fence
 * recorded in it just before covers that. At a noted free each stream with work gets another fence, which
 * later shows whether that work or only newer work is pending. A third one serves a barrier. A fence ends
 * only with its context, so a record with a fence waits for the next stream of its context.
 *
 * A fence in the default stream itself would hold up the blocking streams. So the library records it in a
 * blocking stream of its own, `side`, which begins behind the default stream's work: what waits for the
 * fence would wait for that work anyway.
 */
#ifndef GP_POOL_REUSE_KNOWN_RECORD_H
#define GP_POOL_REUSE_KNOWN_RECORD_H

#include "pool/records.h"
#include "base/list.h"

/* Handles that stand for a context's default stream, as CUDA has them; other streams have greater ones. */
#define GP_STREAM_DEFAULT          0
#define GP_STREAM_LAST_OF_DEFAULTS 2

typedef enum gp_known_kind { GP_KNOWN_STREAM, GP_KNOWN_ENDED, GP_KNOWN_SPARE } gp_known_kind_t;

typedef struct gp_known {
  gp_list_t link;
  gp_context_t *context;
  _Atomic gp_known_kind_t kind; /* other threads may read it, but not rely on it while a thread asks */
  uint64_t handle;              /* GP_STREAM_DEFAULT: the context's default stream */
  uint64_t side;                /* of the default stream; 0: not made */
  uint64_t serial;
  void *end_fence;     /* GP_KNOWN_ENDED: covers all its work */
  void *free_fence;    /* covers the work that it had at the last noted free, ... */
  void *barrier_fence; /* covers the work at the time when a barrier was taken up, or the barrier */
  void *awaited;       /* the fence that must pass for the barrier; NULL: none of this stream */
  bool is_blocking;    /* the default stream and it wait for each other */
  bool is_fenced;      /* the free fence is outstanding */
  bool had_work_at_free;
  bool was_busy; /* at the last query */
  bool asked;
  bool is_removed;
} gp_known_t;

/* The driver has no fences over contexts, but can be asked about streams. */
bool gp_known_streams_are_kept(const gp_engine_t *engine);

/*
 * Takes the first record with a greater serial; the caller has it until give. context: of that context;
 * NULL: of any, except records without a stream. Returns NULL if there is none. Sets *ret_skipped if
 * another thread is asking about an earlier record. Any thread; the caller holds no lock.
 */
gp_known_t *gp_known_next(
    gp_engine_t *engine, const gp_context_t *context, uint64_t serial, bool *ret_skipped);
void gp_known_give(gp_engine_t *engine, gp_known_t *stream);

/* The stream in which to record a fence for this stream's work; 0: there is none, or it gets no more work.
 * The caller has the record. */
uint64_t gp_known_fence_stream(gp_engine_t *engine, gp_known_t *stream);

#endif
