/*
 * Stream records (gp_stream_record_t), one for each stream in whose order memory is allocated and freed.
 *
 * A program that frees memory in stream order (cudaFreeAsync) guarantees that every use of the memory is
 * ordered before that point of the stream (CUDA C++ Programming Guide, stream ordered memory allocator).
 * Later requests in the same stream may therefore reuse the memory at once. The new uses are ordered after
 * the request, which comes later in the stream than the free. No completion proof is needed under three
 * conditions:
 * - It is the same stream, not another one with the same handle. A created stream has a record if the library
 *   saw its creation, until just before its destruction. The per-thread streams of all threads share a
 *   handle, so thread and context distinguish them. The legacy default stream belongs to its context.
 * - No launch of the process overlaps the preceding kernel of its stream (programmatic dependent launch).
 *   Such a kernel may run before the last use of the memory is complete. After the first such launch all
 *   memory waits for a completion proof.
 * - In a blocking stream an operation lies between the free and the next use. Without the library,
 *   cudaFreeAsync and cudaMallocAsync synchronize a blocking stream with others: the legacy default stream
 *   with all blocking streams, and each of these with the legacy stream. Work before the free may be in any
 *   of these streams, and work after the allocation relies on its completion. So the library records an event
 *   in the blocking stream. In the legacy stream it records an event for each of the two calls, because the
 *   program may use the calls to order other work, in streams that the library does not see.
 *
 * Any thread may call these functions. The caller holds no lock unless a comment says otherwise.
 */
#ifndef GP_POOL_REUSE_STREAM_RECORDS_H
#define GP_POOL_REUSE_STREAM_RECORDS_H

#include "pool/engine.h"

/*
 * gp_stream_record_begin creates the record of a stream after the stream's creation. gp_stream_record_end
 * ends the record before the stream's destruction, and returns when no thread of the library uses the stream
 * in a driver call. A stream has no record if the host is out of memory, or after a destruction that the
 * driver refused.
 */
void gp_stream_record_begin(gp_engine_t *engine, gp_context_t *context, uint64_t handle, bool is_blocking);
void gp_stream_record_end(gp_engine_t *engine, uint64_t handle);

/* Ends the records of all streams of a context that has ended. */
void gp_stream_records_lose_context(gp_engine_t *engine, gp_context_t *context);

/* gp_stream_record_of returns the record of a created stream. gp_stream_record_of_default returns that of a
 * default stream of the calling thread in the context. Both return NULL if the stream has none. The record is
 * valid until the stream ends. */
gp_stream_record_t *gp_stream_record_of(gp_engine_t *engine, uint64_t handle);
gp_stream_record_t *gp_stream_record_of_default(gp_engine_t *engine, gp_context_t *context, uint64_t handle);

/* Returns true if the calling thread can pass the stream to a driver call: any stream except the per-thread
 * default stream of another thread. */
bool gp_stream_record_is_passable(const gp_stream_record_t *stream_record);

gp_context_t *gp_stream_record_context(const gp_stream_record_t *stream_record);

/*
 * Called before the program launches, in the stream, a kernel that may overlap the preceding kernel. If
 * memory was reused in this stream before, the kernel may belong to the new owner of that memory. So this
 * function records an event before the launch, which prevents the overlap. stream_record is NULL if the
 * stream has no record. is_captured: the stream is capturing, so nothing is launched yet.
 */
void gp_stream_record_prevent_overlap(
    gp_engine_t *engine, gp_stream_record_t *stream_record, bool is_captured);

/*
 * Returns the best-fitting block of the arena that was freed in the stream and that the stream may reuse.
 * Removes the block from its queue, and ends the use by its previous owner. Returns NULL if there is none.
 * With is_cut, takes a part of fit->fresh bytes, unless an idle part fits better. *ret_entry is true if a
 * block could be reused after gp_stream_record_add_event. The caller holds the device's lock.
 */
struct gp_block;
struct gp_fit;
struct gp_block *gp_stream_record_take(gp_engine_t *engine, gp_stream_record_t *stream_record,
    const gp_context_t *arena, const struct gp_fit *fit, bool is_cut, uint64_t now_ns, bool *ret_entry);

/*
 * Returns the current point of the stream (stream_points.h). The point is empty if stream_record is NULL.
 * With by_operation, the point is an operation that the caller is about to submit to the stream. Otherwise
 * the point precedes later work of the caller. In a blocking stream it is then the library's newest
 * operation, because a new operation would wait for work in the legacy stream that the free does not wait
 * for.
 */
gp_stream_point_t gp_stream_record_point(gp_stream_record_t *stream_record, bool by_operation);

/*
 * Queries each stream in which deferred memory of the device was freed. If a stream has no pending work,
 * makes the memory that was freed in it idle. Does not wait. Skips the per-thread streams of other threads,
 * which the calling thread cannot query. Used only when memory is short, because it makes a driver call for
 * each stream.
 */
struct gp_device;
void gp_stream_records_query(gp_engine_t *engine, struct gp_device *device);

/*
 * Called after the pool has served a stream-ordered free without a driver call. The driver's free would have
 * been an operation of the stream. So in a blocking stream, where the rules of the legacy default stream
 * apply, this records an event instead. Returns true if it recorded one. stream_record may be NULL.
 */
bool gp_stream_record_after_free(gp_engine_t *engine, gp_stream_record_t *stream_record);

/* Records an event in place of a stream-ordered call that is not forwarded. Does so only in the legacy
 * default stream, where cudaMallocAsync and cudaFreeAsync order other streams. Returns true if it recorded an
 * event. */
bool gp_stream_record_replace_call(gp_engine_t *engine, gp_stream_record_t *stream_record);

/* Returns true if stream_record is not NULL and is not that of the legacy default stream. In such a stream
 * cudaMallocAsync and cudaFreeAsync order no other streams. */
bool gp_stream_record_needs_no_call(const gp_stream_record_t *stream_record);

/* Records one of the library's own events in the stream. Returns false if it could not. Never waits. */
bool gp_stream_record_add_event(gp_engine_t *engine, gp_stream_record_t *stream_record);

/* Frees all records when the engine ends. */
void gp_stream_records_fini(gp_engine_t *engine);

/*
 * Identifies the thread of a per-thread default stream, because CUDA has one handle for the streams of all
 * threads. Each thread that uses its per-thread stream has a submitter. The submitter outlives the thread,
 * and is then reused by another thread. Any thread may call these functions, with or without locks.
 */
typedef struct gp_submitter {
  struct gp_submitter *next;
  atomic_bool in_use;
  _Atomic uint64_t owners; /* number of threads that have used the submitter and ended */
} gp_submitter_t;

/* The calling thread's submitter; NULL before the thread's first call of gp_submitter_init. */
extern _Thread_local gp_submitter_t *gp_own_submitter __attribute__((tls_model("initial-exec")));

/* Gives the calling thread a submitter if it has none. Returns false if the host has no memory. */
bool gp_submitter_init(void);

#endif
