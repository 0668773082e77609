/*
 * Waiting for the device by polling. While a thread waits it holds no lock and is in no call of the driver,
 * so that captures begin, contexts end and other threads and devices go on. Any thread; the caller holds no
 * lock.
 *
 * What a wait may cost depends on the work. Work submitted before the free of the wanted memory is waited for
 * as the driver's own free would have: for GP_WAIT_BEFORE_NS, for it cannot be told whether it ends. The
 * driver's allocation would not have waited for later work, which may need the calling thread to go on: it
 * has engine->patience_ns. A wait that was in vain is not made again before the context that held it up has
 * completed something, or, on a driver without fences, before a stream with work is seen without.
 *
 * Uses: reclaim.h, reuse/fences.h, reuse/known_streams.h, driver_calls.h, mode.h.
 */
#ifndef GP_POOL_WAIT_H
#define GP_POOL_WAIT_H

#include "pool/state.h"

#define GP_WAIT_BEFORE_NS UINT64_C(60000000000)
#define GP_WAIT_MISS_NS   UINT64_C(10000000)

/*
 * Polls until memory of the device that was deferred is idle. False: nothing is deferred there, or the time
 * for it is over. room counts the time and says what held the wait up. Only memory that was freed before the
 * first such wait for the room counts: other threads may free more again and again, which ends no shortage.
 */
bool gp_wait_for_deferred(gp_engine_t *engine, gp_device_t *device, gp_room_t *room);

/* The same for a miss beyond GPUPOOL_MAX_DEFERRED: GP_WAIT_MISS_NS at most. */
bool gp_wait_briefly(gp_engine_t *engine, gp_device_t *device);

/*
 * Polls until no context has pending work, so that a call of the driver which waits for the device returns
 * soon. A device that is always busy, and gets on, will do: true, too, if GP_WAIT_MISS_NS after the work was
 * complete that was submitted before the call, work that was submitted since is seen to be complete. False:
 * the patience is spent. On a driver without fences the streams that the library knows of are asked. device:
 * whose memory is asked for.
 */
bool gp_wait_until_quiet(gp_engine_t *engine, gp_device_t *device, gp_room_t *room);

/*
 * No room could be made for stream-ordered memory, but the driver may know of some. True: it can be asked,
 * for the device has no work for which it would wait; no wait for the room was in vain before.
 */
bool gp_wait_in_doubt(gp_engine_t *engine, gp_device_t *device, gp_room_t *room);

#endif
