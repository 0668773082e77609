/*
 * The streams in whose order memory is allocated and freed.
 *
 * A program that frees memory in a stream's order (cudaFreeAsync) promises that every use of it is ordered
 * before that point of the stream (CUDA C++ Programming Guide, stream ordered memory allocator). What the
 * same stream asks for afterwards may therefore be that memory at once: its new uses are ordered behind the
 * point where it was asked for, and that comes later in the stream. No fact about the device is needed. Three
 * conditions:
 *
 * - It is the same stream, not another one with the same handle. A created stream has an identity from a
 *   creation that the library saw until just before its end; a stream that came unseen has none. The
 * per-thread streams of all threads share a handle: thread and context tell them apart. The legacy default
 * stream is its context's.
 * - No launch of the process overlaps the kernel in front of it in its stream (programmatic dependent
 *   launch): such a kernel may run before the last use of the memory is over. From the first one on all
 *   memory waits for facts.
 * - In a blocking stream an operation has come between the free and the next use. There the two calls
 * natively put the stream behind others without the program's doing: the legacy default stream behind all
 * blocking ones, these behind that. Work before the free may be in any of them, and what follows the
 * allocation relies on its being over. So the library puts an event there. Each of the two calls
 *   leaves one in the legacy stream: the program may order other work so, in streams that pass the library
 *   unseen.
 *
 * Any thread; the caller holds no lock unless a comment says otherwise. Uses: state.h, mode.h,
 * driver_calls.h, submitters.h, barriers.h, space/ordered_blocks.h.
 */
#ifndef GP_POOL_REUSE_IDENTITIES_H
#define GP_POOL_REUSE_IDENTITIES_H

#include "pool/engine.h"

/*
 * A stream was created, or is about to be destroyed, in which case this returns when no thread of the library
 * names it in a driver call. Where the host has no memory for a record the stream has no identity; neither
 * has it one after a destruction that the driver refused.
 */
void gp_identity_created(gp_engine_t *engine, gp_context_t *context, uint64_t handle, bool is_blocking);
void gp_identity_ends(gp_engine_t *engine, uint64_t handle);

/* All streams of the context have ended with it. */
void gp_identities_lose_context(gp_engine_t *engine, gp_context_t *context);

/* Who a created stream is, or a default stream of the context, in the calling thread; NULL: it has no
 * identity. Good until the stream ends. */
gp_identity_t *gp_identity_of(gp_engine_t *engine, uint64_t handle);
gp_identity_t *gp_identity_of_default(gp_engine_t *engine, gp_context_t *context, uint64_t handle);

/* The calling thread can name the stream in a call of the driver: it is no other thread's own. */
bool gp_identity_can_be_named(const gp_identity_t *identity);

gp_context_t *gp_identity_context(const gp_identity_t *identity);

/*
 * A launch that overlaps the kernel in front of it is about to be made in that stream; NULL: in one without
 * identity. If memory was given to its next owner there before, that owner may be the one that launches: an
 * operation in between ends the overlap. is_captured: the stream is, so that nothing is launched yet.
 */
void gp_identity_launches_early(gp_engine_t *engine, gp_identity_t *identity, bool is_captured);

/*
 * Of the blocks that were freed in the stream, the one that serves best and may be used there, out of its
 * queue, or NULL. *ret_entry: one would serve after gp_identity_enter. The caller holds the device's lock.
 */
struct gp_block;
struct gp_fit;
struct gp_block *gp_identity_take(
    gp_engine_t *engine, gp_identity_t *identity, const struct gp_fit *fit, bool *ret_entry);

/*
 * The point at which the stream is now (stream_points.h). NULL: none, which tells nothing. by_operation: the
 * caller is about to submit an operation to the stream, and the point is where that lies. Otherwise what the
 * caller then submits comes behind the point, and in a blocking stream the point is the newest operation of
 * the library's: one that came only now would wait for work in the legacy stream that the free does not.
 */
gp_stream_point_t gp_identity_point(gp_identity_t *identity, bool by_operation);

/*
 * The program has freed memory in the stream's order, and the driver did not hear of it. Natively that is an
 * operation: this puts one in its place where the rules of the legacy default stream are about it, in a
 * blocking stream. NULL: no stream. True: it did.
 */
bool gp_identity_freed(gp_engine_t *engine, gp_identity_t *identity);

/*
 * Where the two calls of the program order other streams, in the legacy default stream, this puts an
 * operation there in the place of a call that the driver does not hear of. True: it did.
 */
bool gp_identity_take_place(gp_engine_t *engine, gp_identity_t *identity);

/*
 * The driver has just allocated memory in the stream's order; NULL: in that of one without identity. Of the
 * driver's pool it is nowhere written that the default stream waits for such an allocation in a blocking
 * stream, or that one for the default stream's. Where the library relies on that rule, before 12.5
 * (barriers.h, and a fence of the default stream is recorded in another), an operation of its own comes
 * behind it here.
 */
void gp_identity_allocated(gp_engine_t *engine, gp_identity_t *identity);

/* The stream has an identity (NULL: none), and the two calls order no others there. */
bool gp_identity_needs_no_call(const gp_identity_t *identity);

/* Puts an operation of the library's into the stream. False: it did not. Never waits. */
bool gp_identity_enter(gp_engine_t *engine, gp_identity_t *identity);

/* Returns all records to the host, at the engine's end. */
void gp_identities_fini(gp_engine_t *engine);

#endif
