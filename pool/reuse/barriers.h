/*
 * Facts about contexts on drivers that have no fence over them (before 12.5), without an
 * account of single streams.
 *
 * An operation of the program in the legacy default stream is a barrier: it begins when all blocking
 * streams of its context, other threads' own streams included, have completed their earlier work (CUDA
 * Driver API, "Stream synchronization behavior"). The library has seen all other streams made, and records
 * a fence after the barrier in each. When the barrier is complete and these fences have passed, the context
 * has completed the epoch before the operation. doc/reuse.md has the argument, and what it rests on.
 *
 * The library submits no such operation itself, because later work in blocking streams would wait for it.
 *
 * Any thread; the caller holds no lock.
 */
#ifndef GP_POOL_REUSE_BARRIERS_H
#define GP_POOL_REUSE_BARRIERS_H

#include "pool/engine.h"

/*
 * Around an operation that the program submits to the context's default stream; the driver may return
 * before the operation is complete. Call begin before the driver's call; 0: the operation would tell
 * nothing new. Call end after it if begin did not return 0.
 */
uint64_t gp_barrier_begin(gp_engine_t *engine, const gp_context_t *context);
void gp_barrier_end(gp_engine_t *engine, gp_context_t *context, uint64_t epoch);

/* Barriers are of use with this driver. would_tell: and there is freed memory that is
 * not known to be complete. */
bool gp_barriers_are_wanted(const gp_engine_t *engine);
bool gp_barriers_would_tell(const gp_engine_t *engine);

/*
 * In each context that lags, asks whether the awaited barrier has passed, and takes the newest barrier as
 * the next one when none is awaited. Never blocks. twice: also queries the fences that it has just
 * recorded. False: it can tell nothing.
 */
bool gp_barriers_poll(gp_engine_t *engine, bool twice);

/* The barriers that the program has submitted so far cover all freed memory, so polls will succeed. */
bool gp_barriers_cover_all(gp_engine_t *engine);

#endif
