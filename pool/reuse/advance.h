/*
 * What is known becomes what is reusable: deferred blocks that every context has completed are idle. And the
 * end of it for the modes that follow streams, when work was seen, or may have been, that sets no flag.
 *
 * Any thread; the caller holds no lock. Uses: single_stream.h, single_order.h, epoch_facts.h, stamps.h,
 * mode.h.
 */
#ifndef GP_POOL_REUSE_ADVANCE_H
#define GP_POOL_REUSE_ADVANCE_H

#include "pool/engine.h"

/* Moves blocks to idle. */
void gp_advance(gp_engine_t *engine);

/*
 * Work may be submitted, or may have been, that sets no flag (a stream whose creation nothing here saw, say):
 * from now on context-wide facts decide alone. why is a sentence's end, printed once.
 */
void gp_streams_escape(gp_engine_t *engine, const char *why);

/* The same where nothing may be done, in the middle of a look-up: takes effect at once, and the log tells
 * later. */
void gp_streams_distrust(void);

#endif
