/*
 * Whether mode `single` holds: begin and end. See single_stream.h for what it means.
 *
 * The caller holds contexts_lock, unless a comment says otherwise. Functions that change the mode return what
 * to pass to gp_single_order_tell when the lock is released. Uses: state.h, mode.h, streams.h.
 */
#ifndef GP_POOL_REUSE_SINGLE_ORDER_H
#define GP_POOL_REUSE_SINGLE_ORDER_H

#include "pool/mode.h"
#include "pool/state.h"

/* Freed memory may be handed out at once. The caller holds the lock of a device of which there is a block. */
static inline bool gp_single_order_holds(const gp_engine_t *engine)
{
  return __builtin_expect(
             atomic_load_explicit(&engine->reuse_mode, memory_order_relaxed) == GP_MODE_SINGLE, 0) &&
         !gp_mode_is_distrusted();
}

/* The mode ends, if it holds. why: a gp_mode_cause_t, or GP_DETAIL_NONE where the caller records and tells by
 * itself. */
gp_detail_t gp_single_order_end(gp_engine_t *engine, gp_detail_t why);

/* After end: it cannot begin while one of the contexts of today lives; forbid: never again. */
void gp_single_order_bar(gp_engine_t *engine);
void gp_single_order_forbid(gp_engine_t *engine);

/* A context is in engine->contexts already, or not any more. */
gp_detail_t gp_single_order_add_context(gp_engine_t *engine, gp_context_t *context);
void gp_single_order_drop_context(gp_engine_t *engine, const gp_context_t *context);

/* Around a synchronization of a context: with its end the mode may begin again. */
void gp_single_order_sync_begin(gp_engine_t *engine, gp_context_t *context, uint64_t epoch);
gp_detail_t gp_single_order_sync_end(gp_engine_t *engine, gp_context_t *context, uint64_t epoch);

/* Writes the log line of a change. The caller holds no lock. */
void gp_single_order_tell(const gp_engine_t *engine, gp_detail_t what);

#endif
