/*
 * Reuse mode `single`: while all work of the process goes to one stream, the default stream of its only
 * context, the work of a freed block's owner comes before the work of the next owner. So a freed block is
 * handed out at once, without asking the driver. doc/reuse.md has the argument.
 *
 * The mode ends, for good, at the first work or event that this order does not cover; from then on it is
 * `context`. Memory handed out before may still be in use by an earlier owner: this is unordered work. The
 * library must settle it before anything new can touch the memory: the GPU puts a stream behind the default
 * stream, or the host waits.
 *
 * Any thread may call these, holding no lock of the pool unless a comment says otherwise, and in no call
 * that gp_engine_enter announced. They call the driver only while there is unordered work. A capture begins
 * only after gp_single_end.
 */
#ifndef GP_POOL_REUSE_SINGLE_H
#define GP_POOL_REUSE_SINGLE_H

#include "pool/engine.h"
#include "pool/mode.h"

/* Freed memory may be handed out at once. The caller holds the lock of a device that has a block. */
static inline bool gp_single_holds(const gp_engine_t *engine)
{
  return __builtin_expect(gp_mode_is_single(engine), 0);
}

/*
 * Ends the mode if it holds, and settles the unordered work, whichever thread ended the mode: when this
 * returns, frees and allocations in flight are over and the host has waited for the unordered work. why
 * is the end of a sentence for the log, which prints it once. Returns the driver's code; unless it is 0,
 * the work is still unordered.
 */
int gp_single_end(gp_engine_t *engine, const char *why);

/*
 * The same for work in a stream that is not the only context's default stream. handle: a created stream
 * that no rule of CUDA orders behind the default stream; here the GPU waits instead of the host. 0: a
 * stream that runs behind the default stream anyway, so nothing waits.
 */
int gp_single_end_for_stream(gp_engine_t *engine, uint64_t handle, const char *why);

/* The functions above have nothing left to do, now or later. Once the mode reads as over, unordered_epoch has
 * all its unordered work. While another thread is only about to end the mode, with allocations in flight,
 * this is false. */
static inline bool gp_single_is_over(const gp_engine_t *engine)
{
  return atomic_load(&engine->reuse_mode) != GP_MODE_SINGLE &&
         atomic_load(&engine->single.unordered_epoch) == 0;
}

/* There is unordered work, whatever the mode now. */
bool gp_single_has_unordered(gp_engine_t *engine);

/*
 * add: the context is in engine->contexts already; drop: it no longer is. The mode holds only for
 * the first context: a caller that finds another one calls gp_single_end before that is used. The
 * caller holds contexts_lock.
 */
void gp_single_add_context(gp_engine_t *engine, gp_context_t *context);
void gp_single_drop_context(gp_engine_t *engine, const gp_context_t *context);

#endif
