/*
 * Facts about contexts on drivers that have no fence over them (before 12.5), where streams are not followed.
 *
 * An operation of the program in the legacy default stream is a barrier: it begins when all blocking streams
 * of its context have completed what they were given before, those of other threads' own included (CUDA
 * Driver API, "Stream synchronization behavior"). So when it is complete, and a fence has passed that was
 * recorded after it in each other stream, which the library knows since it saw them made, then the context
 * has completed the epoch before the operation. doc/reuse.md has the argument, and what it rests on.
 *
 * The library makes no such operation itself, for later work in blocking streams would wait for it.
 *
 * Any thread; the caller holds no lock. Uses: known_record.h, stamps.h, driver_calls.h, mode.h.
 */
#ifndef GP_POOL_REUSE_BARRIERS_H
#define GP_POOL_REUSE_BARRIERS_H

#include "pool/engine.h"

/*
 * Around an operation that the program submits to the default stream of that context, which may return before
 * it is complete. begin: before the driver's call; 0: it would tell nothing new. end: the driver has it, and
 * begin did not return 0.
 */
uint64_t gp_barrier_begin(gp_engine_t *engine, const gp_context_t *context);
void gp_barrier_end(gp_engine_t *engine, gp_context_t *context, uint64_t epoch);

/* Barriers tell something here. would_tell: and there is freed memory of which it is not known yet. */
bool gp_barriers_are_wanted(const gp_engine_t *engine);
bool gp_barriers_would_tell(const gp_engine_t *engine);

/*
 * Asks in each context that lags how far it is with the barrier that is waited for, and begins to wait for
 * the newest one when there is none; never waits itself. twice: asks what it has recorded. False: nothing can
 * be told.
 */
bool gp_barriers_poll(gp_engine_t *engine, bool twice);

/* The barriers that the program has submitted so far cover all that is freed: polls will tell. */
bool gp_barriers_cover_all(gp_engine_t *engine);

#endif
