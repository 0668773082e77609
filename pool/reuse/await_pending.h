/* Queries the driver, or waits, until streams have reached the frees that still count against a limit
 * (pending_frees.h), or until another thread has released memory. Any thread may call. The caller holds no
 * lock. */
#ifndef GP_POOL_REUSE_AWAIT_PENDING_H
#define GP_POOL_REUSE_AWAIT_PENDING_H

#include "pool/records.h"

/*
 * Polls until some pending memory no longer counts. Polls for at most engine->patience_ns, because the
 * program's request would not wait without the library. Returns false if nothing is pending or that time has
 * elapsed. Also returns false if an earlier wait of that length timed out and nothing has completed since.
 * Adds the time to `attempts`.
 */
bool gp_pending_frees_wait(gp_engine_t *engine, gp_device_t *device, gp_oom_attempts_t *attempts);

/*
 * Polls until another thread's release on the device has finished, because its call of the driver's free may
 * wait for the device. Returns false if no release is in flight, or if attempts->later_ns has reached
 * limit_ns. Also returns false if an earlier wait took the whole engine->patience_ns and no release has
 * finished since.
 */
bool gp_await_release(
    gp_engine_t *engine, gp_device_t *device, gp_oom_attempts_t *attempts, uint64_t limit_ns);

#endif
