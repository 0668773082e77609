/*
 * Stream records (gp_identity_t): the streams in whose order memory is allocated and freed.
 *
 * A program that frees memory in a stream's order (cudaFreeAsync) promises that every use of it is
 * ordered before that point of the stream (CUDA C++ Programming Guide, stream ordered memory
 * allocator). Later requests in the same stream may therefore reuse the memory at once: the new uses are
 * ordered behind the request, which comes later in the stream than the free. No completion proof is needed,
 * on three conditions:
 *
 * - It is the same stream, not another one with the same handle. A created stream has a record if the
 *   library saw its creation, until just before its destruction. The per-thread streams of all threads share
 *   a handle: thread and context distinguish them. The legacy default stream belongs to its context.
 * - No launch of the process overlaps the preceding kernel of its stream (programmatic dependent launch):
 *   such a kernel may run before the last use of the memory is complete. From the first such launch on, all
 *   memory waits for a completion proof.
 * - In a blocking stream an operation lies between the free and the next use. Natively the calls
 *   cudaFreeAsync and cudaMallocAsync synchronize a blocking stream with others: the legacy default stream
 *   with all blocking ones, and these with it. Work before the free may be in any of them, and work after
 *   the allocation relies on its completion. So the library records an event there. In the legacy stream it
 *   does so for each of the two calls: the program may use them to order other work, in streams that the
 *   library does not see.
 *
 * Any thread may call these functions; the caller holds no lock unless a comment says otherwise.
 */
#ifndef GP_POOL_REUSE_IDENTITIES_H
#define GP_POOL_REUSE_IDENTITIES_H

#include "pool/engine.h"

/*
 * created is called after a stream's creation, ends before its destruction. ends returns once no thread of
 * the library names the stream in a driver call. A stream has no record if the host is out of memory, or
 * after a destruction that the driver refused.
 */
void gp_identity_created(gp_engine_t *engine, gp_context_t *context, uint64_t handle, bool is_blocking);
void gp_identity_ends(gp_engine_t *engine, uint64_t handle);

/* Ends the records of all streams of a context that has ended. */
void gp_identities_lose_context(gp_engine_t *engine, gp_context_t *context);

/* Return the record of a created stream, or of a default stream of the calling thread in the context; NULL:
 * it has none. The record is valid until the stream ends. */
gp_identity_t *gp_identity_of(gp_engine_t *engine, uint64_t handle);
gp_identity_t *gp_identity_of_default(gp_engine_t *engine, gp_context_t *context, uint64_t handle);

/* True if the calling thread can name the stream in a driver call: it is not the per-thread default stream of
 * another thread. */
bool gp_identity_can_be_named(const gp_identity_t *identity);

gp_context_t *gp_identity_context(const gp_identity_t *identity);

/*
 * Called before the program launches a kernel in the stream that may overlap the preceding kernel. If memory
 * was reused in this stream before, the launch may be its new owner's, so this records an event in between,
 * which prevents the overlap. identity NULL: the stream has no record. is_captured: the stream is capturing,
 * so nothing is launched yet.
 */
void gp_identity_launches_early(gp_engine_t *engine, gp_identity_t *identity, bool is_captured);

/*
 * Takes the best-fitting usable block of the arena that was freed in the stream out of its queue, and ends
 * its owner's use. Returns NULL if there is none. is_cut: takes a part of fit->fresh bytes, unless an idle
 * part fits better. *ret_entry: a block would be usable after gp_identity_enter. The caller holds the
 * device's lock.
 */
struct gp_block;
struct gp_fit;
struct gp_block *gp_identity_take(gp_engine_t *engine, gp_identity_t *identity, const gp_context_t *arena,
    const struct gp_fit *fit, bool is_cut, uint64_t now_ns, bool *ret_entry);

/*
 * Returns the point that the stream has reached (stream_points.h); it is void if identity is NULL.
 * by_operation: the caller is about to submit an operation to the stream, which lies at the point. Otherwise
 * later work of the caller lies behind the point. In a blocking stream that point is the library's newest
 * operation: a new operation would wait for work in the legacy stream that the free does not wait for.
 */
gp_stream_point_t gp_identity_point(gp_identity_t *identity, bool by_operation);

/*
 * Queries each stream in which deferred memory of the device was freed, and makes idle what was freed in
 * those that have no pending work. Does not wait. Skips the per-thread streams of other threads, which the
 * calling thread cannot name. For when memory is short, since it takes a driver call for each stream.
 */
struct gp_device;
void gp_identities_ask(gp_engine_t *engine, struct gp_device *device);

/*
 * Called after the pool has served a stream-ordered free without a driver call, which would have been an
 * operation of the stream. In a blocking stream, where the rules of the legacy default stream apply, records
 * an event in its place, and returns true if it did so. identity NULL: no stream.
 */
bool gp_identity_freed(gp_engine_t *engine, gp_identity_t *identity);

/* Does the same for any stream-ordered call that the driver does not get, but only in the legacy default
 * stream, where cudaMallocAsync and cudaFreeAsync order other streams. True: it has recorded an event. */
bool gp_identity_take_place(gp_engine_t *engine, gp_identity_t *identity);

/* True if the stream has a record (NULL: none), and the two calls order no other streams there. */
bool gp_identity_needs_no_call(const gp_identity_t *identity);

/* Records an event of the library's in the stream. False: it could not. Never waits. */
bool gp_identity_enter(gp_engine_t *engine, gp_identity_t *identity);

/* Frees all records, at the engine's end. */
void gp_identities_fini(gp_engine_t *engine);

/*
 * A submitter identifies the thread of a per-thread default stream: CUDA has one handle for the streams of
 * all threads. Each thread that uses its own stream has a submitter, which outlives the thread, and is then
 * taken over by another one. Any thread may call these functions, with or without locks.
 */
typedef struct gp_submitter {
  struct gp_submitter *next;
  atomic_bool in_use;
  _Atomic uint64_t owners; /* number of ended threads that have had it */
} gp_submitter_t;

/* The calling thread's submitter; NULL before its first gp_submitter_init. */
extern _Thread_local gp_submitter_t *gp_own_submitter __attribute__((tls_model("initial-exec")));

/* Gives the calling thread a submitter, if it has none. False: the host has no memory. */
bool gp_submitter_init(void);

#endif
