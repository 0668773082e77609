/*
 * Reuse mode `single`: while all work of the process goes to one stream, the default stream of its only
 * context, whatever a freed block's owner submitted comes before whatever the next owner can submit. So a
 * freed block is handed out at once, without asking the driver. doc/reuse.md has the argument.
 *
 * It ends when something comes up that this order does not hold for; the mode is then what `epoch` is. Memory
 * that was handed out until then may still be in use by its earlier owner, behind the new one's back:
 * unordered work. It has to be settled before that something can touch the memory: a stream is put behind the
 * default stream, or the host waits.
 *
 * Any thread may call these, holding no lock of the pool. They call the driver only where there is unordered
 * work, and never during a capture: the capture's begin has settled it, or waited for the thread that is
 * already settling it.
 *
 * Uses: single_order.h, fences.h, epoch_facts.h, driver_calls.h, mode.h.
 */
#ifndef GP_POOL_REUSE_SINGLE_STREAM_H
#define GP_POOL_REUSE_SINGLE_STREAM_H

#include "pool/engine.h"
#include "trace/format/details.h"

/*
 * The mode ends if it holds; frees and allocations in flight are over when this returns. True: there is
 * unordered work.
 */
bool gp_single_stream_leave(gp_engine_t *engine, gp_mode_cause_t why);

/* The same, and it does not come back while one of the contexts of today lives; forbid: not at all. */
bool gp_single_stream_bar(gp_engine_t *engine, gp_mode_cause_t why);
bool gp_single_stream_forbid(gp_engine_t *engine, gp_mode_cause_t why);

/* Whether there is unordered work, in whatever mode the engine is now. Costs two loads if there cannot be
 * any. */
bool gp_single_stream_has_unordered(gp_engine_t *engine);

/*
 * Settles the unordered work, if there is any. settle: the host waits for the context. order: the GPU does,
 * and only with what is submitted to the stream of that handle from now on. Both return the driver's code; if
 * it is not 0 the work is unordered still.
 */
int gp_single_stream_settle(gp_engine_t *engine);
int gp_single_stream_order(gp_engine_t *engine, uint64_t stream);

/*
 * A capture is about to begin, and the engine is suspended on its account: the mode ends, its unordered work
 * is settled, and no wait of settle or order is in flight when this returns, nor begins before the suspension
 * ends.
 */
void gp_single_stream_capture(gp_engine_t *engine);

#endif
