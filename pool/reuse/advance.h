/*
 * What is known becomes what is reusable: `covered` (stamps.h) rises to what every context has completed.
 * That touches no block: drain.h moves them later. And the end of it for the modes that follow streams, when
 * work was seen, or may have been, that sets no flag.
 *
 * Any thread; the caller holds no lock. Uses: single_stream.h, single_order.h, epoch_facts.h, stamps.h,
 * mode.h.
 */
#ifndef GP_POOL_REUSE_ADVANCE_H
#define GP_POOL_REUSE_ADVANCE_H

#include "pool/engine.h"

/* Raises `covered`. Its cost does not depend on how much is deferred. */
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
