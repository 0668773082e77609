/* Learns whether streams have passed the frees that still count against a limit (pending_frees.h). Any
 * thread; the caller holds no lock. */
#ifndef GP_POOL_REUSE_AWAIT_PENDING_H
#define GP_POOL_REUSE_AWAIT_PENDING_H

#include "pool/records.h"

/* Asks the streams, and all contexts by fences. Never waits. True: some of the memory no longer counts. */
bool gp_pending_frees_ask(gp_engine_t *engine, gp_device_t *device);

/*
 * Polls until some of the memory no longer counts, for engine->patience_ns at most, since natively the
 * program's request would not wait. False: nothing is pending, the time is over, or an earlier wait of that
 * length was vain and nothing has completed since. attempts counts the time.
 */
bool gp_pending_frees_wait(gp_engine_t *engine, gp_device_t *device, gp_oom_attempts_t *attempts);

#endif
