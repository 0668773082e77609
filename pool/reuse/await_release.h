/* Waiting, by polling, until another thread has given memory back: that thread's call of the driver's free
 * may wait for the device. */
#ifndef GP_POOL_REUSE_AWAIT_RELEASE_H
#define GP_POOL_REUSE_AWAIT_RELEASE_H

#include "pool/records.h"

/*
 * Polls until a release in flight on the device has finished. False: none is in flight, attempts->later_ns
 * has reached limit_ns, or an earlier wait used up the whole patience and no release has finished
 * since. The caller holds no lock.
 */
bool gp_await_release(
    gp_engine_t *engine, gp_device_t *device, gp_oom_attempts_t *attempts, uint64_t limit_ns);

#endif
