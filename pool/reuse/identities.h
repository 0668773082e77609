/*
 * The streams in whose order memory is allocated and freed.
 *
 * A program that frees memory in a stream's order (cudaFreeAsync) promises that every use of it is
 * ordered before that point of the stream (CUDA C++ Programming Guide, stream ordered memory
 * allocator). Later requests in the same stream may therefore get that memory at once: the new uses are
 * ordered behind the request, which comes later in the stream than the free. That needs no fact about
 * the device. Three conditions:
 *
 * - It is the same stream, not another one with the same handle. A created stream has an identity if the
 *   library saw its creation, until just before its end. The per-thread streams of all threads share a
 *   handle: thread and context tell them apart. The legacy default stream belongs to its context.
 * - No launch of the process overlaps the kernel in front of it in its stream (programmatic dependent
 *   launch): such a kernel may run before the last use of the memory is over. From the first such launch
 *   on, all memory waits for facts.
 * - In a blocking stream an operation has come between the free and the next use. Natively the calls
 *   cudaFreeAsync and cudaMallocAsync put a blocking stream behind others: the legacy default stream
 *   behind all blocking ones, and these behind that. Work before the free may be in any of them, and work
 *   after the allocation relies on its being over. So the library puts an event there. In the legacy
 *   stream each of the two calls leaves an event: the program may thereby order other work, in streams
 *   that the library does not see.
 *
 * Any thread; the caller holds no lock unless a comment says otherwise.
 */
#ifndef GP_POOL_REUSE_IDENTITIES_H
#define GP_POOL_REUSE_IDENTITIES_H

#include "pool/engine.h"

/*
 * A stream was created; or is about to be destroyed, which returns once no thread of the library names the
 * stream in a driver call. A stream has no identity if the host has no memory for a record, or after a
 * destruction that the driver refused.
 */
void gp_identity_created(gp_engine_t *engine, gp_context_t *context, uint64_t handle, bool is_blocking);
void gp_identity_ends(gp_engine_t *engine, uint64_t handle);

/* All streams of the context have ended with it. */
void gp_identities_lose_context(gp_engine_t *engine, gp_context_t *context);

/* The identity of a created stream, or of the calling thread's default stream in the context; NULL: it has
 * none. Valid until the stream ends. */
gp_identity_t *gp_identity_of(gp_engine_t *engine, uint64_t handle);
gp_identity_t *gp_identity_of_default(gp_engine_t *engine, gp_context_t *context, uint64_t handle);

/* The calling thread can name the stream in a driver call: it is not another thread's own. */
bool gp_identity_can_be_named(const gp_identity_t *identity);

gp_context_t *gp_identity_context(const gp_identity_t *identity);

/*
 * The program is about to launch a kernel in the stream that may overlap the kernel in front of it. If
 * memory went to its next owner in this stream before, that owner may be the one that launches, so this
 * puts an operation in between, which ends the overlap. identity NULL: the stream has none. is_captured:
 * the stream is being captured, so nothing is launched yet.
 */
void gp_identity_launches_early(gp_engine_t *engine, gp_identity_t *identity, bool is_captured);

/*
 * Takes the best usable block of the arena that was freed in the stream out of its queue; NULL: there is
 * none. is_cut: a part, of fit->fresh bytes; none where an idle part fits better. Its owner's use has ended.
 * *ret_entry: a block would be usable after gp_identity_enter. The caller holds the device's lock.
 */
struct gp_block;
struct gp_fit;
struct gp_block *gp_identity_take(gp_engine_t *engine, gp_identity_t *identity, const gp_context_t *arena,
    const struct gp_fit *fit, bool is_cut, uint64_t now_ns, bool *ret_entry);

/*
 * The point that the stream has reached (stream_points.h); void for an identity of NULL. by_operation: the
 * caller is about to submit an operation to the stream, which lies at the point. Otherwise later work of
 * the caller's comes behind the point. In a blocking stream that point is the newest operation of the
 * library's: a new operation would wait for work in the legacy stream that the free does not wait for.
 */
gp_stream_point_t gp_identity_point(gp_identity_t *identity, bool by_operation);

/*
 * Asks the driver about each stream in which deferred memory of the device was freed, and makes idle what was
 * freed before the points of those without work. Does not wait. It leaves out other threads' own streams,
 * which the calling thread cannot name. For when memory is short: a call of the driver for each stream.
 */
struct gp_device;
void gp_identities_ask(gp_engine_t *engine, struct gp_device *device);

/*
 * The program has freed memory in the stream's order, without a driver call. Natively that call would have
 * been an operation. In a blocking stream, where the rules of the legacy default stream apply, this puts an
 * operation in its place. identity NULL: no stream. True: it did so.
 */
bool gp_identity_freed(gp_engine_t *engine, gp_identity_t *identity);

/* In the legacy default stream cudaMallocAsync and cudaFreeAsync order other streams. There this puts an
 * operation in the place of a call that the driver does not get. True: it did so. */
bool gp_identity_take_place(gp_engine_t *engine, gp_identity_t *identity);

/* The stream has an identity (NULL: none), and the two calls order no other streams there. */
bool gp_identity_needs_no_call(const gp_identity_t *identity);

/* Puts an operation of the library's into the stream. False: it could not. Never waits. */
bool gp_identity_enter(gp_engine_t *engine, gp_identity_t *identity);

/* Frees all records, at the engine's end. */
void gp_identities_fini(gp_engine_t *engine);

/*
 * Which thread a per-thread default stream belongs to: CUDA has one handle for all of them. Each thread
 * that uses its own stream has a record, the submitter, which outlives the thread.
 *
 * All functions may be called by any thread, with or without locks.
 */

/* Never returned to the host: threads take over the records of ended ones. */
typedef struct gp_submitter {
  struct gp_submitter *next;
  atomic_bool in_use;
  _Atomic uint64_t owners; /* ended threads that have had it */
} gp_submitter_t;

/* The calling thread's; NULL before the first gp_submitter_init. */
extern _Thread_local gp_submitter_t *gp_own_submitter __attribute__((tls_model("initial-exec")));

/* Gives the calling thread a submitter, if it has none. False: the host has no memory. */
bool gp_submitter_init(void);

#endif
