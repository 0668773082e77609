/*
 * Waits for the device by polling. A waiting thread holds no lock and is in no driver call, so captures can
 * begin, contexts can end, and other threads and devices proceed. Any thread may call. The caller holds no
 * lock.
 *
 * How long a wait may take depends on the work. For work submitted before the wanted memory was freed, the
 * pool waits as the driver's own free would have. It waits for GP_WAIT_BEFORE_NS at most, because it cannot
 * know whether that work ends. The driver's allocation would not have waited for newer work, which may need
 * the calling thread to continue. So for newer work the pool waits only for engine->patience_ns. After a
 * timeout it does not wait again before the context for which it waited has completed some work. On a driver
 * without fences, it does not wait again before a stream that had pending work has none.
 */
#ifndef GP_POOL_REUSE_WAIT_H
#define GP_POOL_REUSE_WAIT_H

#include "pool/records.h"

#define GP_WAIT_BEFORE_NS UINT64_C(60000000000)
#define GP_WAIT_MISS_NS   UINT64_C(10000000)

/*
 * Polls until deferred memory of the device becomes idle. Returns false if nothing is deferred there, or if
 * the time has elapsed. Adds the time to `attempts`, and stores the context for which it waited. Only memory
 * freed before the first such wait of these attempts counts. Otherwise threads that continue to free memory
 * could prolong the wait without end.
 */
bool gp_wait_for_deferred(gp_engine_t *engine, gp_device_t *device, gp_oom_attempts_t *attempts);

/*
 * Polls until no context has pending work, so that a driver call that waits for the device returns soon.
 * `device` is the device whose memory is wanted. Also returns true for a device that is always busy but makes
 * progress: the work from before the call is complete and, at least GP_WAIT_MISS_NS later, newer work is
 * complete, too. Returns false after engine->patience_ns. On a driver without fences, queries the streams
 * that the library knows.
 */
bool gp_wait_until_quiet(gp_engine_t *engine, gp_device_t *device, gp_oom_attempts_t *attempts);

/*
 * Polls while other threads end contexts, because the engine can then make no driver call and release
 * nothing. Without the library the allocation would not wait, and the end of the context may depend on the
 * calling thread. So it polls for at most engine->patience_ns. Adds the time to `attempts`. Returns false if
 * no thread is ending a context, or if the time has elapsed.
 */
bool gp_wait_for_endings(gp_engine_t *engine, gp_device_t *device, gp_oom_attempts_t *attempts);

/* Called when the pool could make no room for stream-ordered memory, but the driver may find some. Returns
 * true if the caller can call the driver, because the device has no work to wait for and none of the attempts
 * timed out. */
bool gp_wait_in_doubt(gp_engine_t *engine, gp_device_t *device, gp_oom_attempts_t *attempts);

#endif
