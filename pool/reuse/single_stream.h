/*
 * Reuse mode `single`, while it holds (MONO): while all work of the process goes to one stream, the default
 * stream of its only context, whatever a freed block's owner submitted comes before whatever the next owner
 * can submit. So a freed block is handed out at once, and nobody is asked. doc/reuse.md has the argument.
 *
 * It ends when something comes up that this order does not hold for; the mode is then what `epoch` is. What
 * was handed out until then may still be in use by its earlier owner, behind the new one's back: the debt,
 * which has to be settled before that something can touch it: a stream is put behind the default stream, or
 * the host waits.
 *
 * All functions may be called by any thread, with no lock of the pool held. They call the driver only where
 * there is a debt, never during a capture: the capture's begin has settled it, or waited for who was at that.
 */
#ifndef GP_POOL_REUSE_SINGLE_STREAM_H
#define GP_POOL_REUSE_SINGLE_STREAM_H

#include "pool/engine.h"

/*
 * MONO ends if it holds; frees and allocations in flight are over when this returns. why is one of
 * GP_MODE_CAUSE_*. True: there is a debt.
 */
bool gp_single_stream_leave(gp_engine_t *engine, gp_mode_cause_t why);

/* The same, and it does not come back while one of the contexts of today lives; everywhere: not at all. */
bool gp_single_stream_bar(gp_engine_t *engine, gp_mode_cause_t why);
bool gp_single_stream_forbid(gp_engine_t *engine, gp_mode_cause_t why);

/* Whether there is a debt, in whatever mode the engine is now. Costs two loads if there is none and MONO is
 * over. */
bool gp_single_stream_has_debt(gp_engine_t *engine);

/*
 * Settles the debt, if there is one. settle: the host waits for the context. order: only for what is
 * submitted to the stream of that handle from now on, by the GPU. Both return the driver's code; if it is not
 * 0 the debt remains.
 */
int gp_single_stream_settle(gp_engine_t *engine);
int gp_single_stream_order(gp_engine_t *engine, uint64_t stream);

/*
 * A capture is about to begin, and the engine is suspended on its account: MONO ends, what is owed is
 * settled, and no wait of settle or order is in flight when this returns, nor begins before the suspension
 * ends.
 */
void gp_single_stream_capture(gp_engine_t *engine);

#endif
