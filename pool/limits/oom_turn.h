/*
 * Requests that found no memory make room one at a time. On each device one thread has the turn: it takes the
 * steps of oom.h, while later requests wait for their turn, the oldest first. Otherwise another thread could
 * get the memory that one thread releases, and a request would fail that succeeds without the library.
 *
 * - A thread that waits for the device gives up its turn, so that later requests make room meanwhile.
 * - Memory that the holder of the turn has released is reserved for its next attempt: other requests that
 *   need the driver wait for that attempt. A reservation ends before the holder waits for the device.
 * - A thread stops waiting when the holder has made no progress for GP_OOM_STALL_NS, and may then use the
 *   reserved memory. The holder may be in a driver call that waits for work that the waiting thread has yet
 *   to submit.
 *
 * A thread has at most one turn on a device, so a request is identified by its thread. The caller of these
 * functions holds no lock, and is not inside a driver call.
 */
#ifndef GP_POOL_LIMITS_OOM_TURN_H
#define GP_POOL_LIMITS_OOM_TURN_H

#include "pool/records.h"

#define GP_OOM_STALL_NS UINT64_C(50000000)

/* Waits until the thread has the turn. attempts->ticket orders requests by age. Returns true if the function
 * waited, because the state of the device may have changed meanwhile. */
bool gp_oom_turn_take(gp_engine_t *engine, gp_device_t *device, gp_oom_attempts_t *attempts);

/* Gives up the turn and the reservation. Does nothing if the thread does not have the turn. */
void gp_oom_turn_leave(gp_device_t *device);

/* Gives up the turn and sleeps. For threads that poll for something other than the turn. */
void gp_oom_turn_pause(gp_engine_t *engine, gp_device_t *device, uint64_t ns);

/* gp_oom_turn_reserve reserves the memory that the calling thread, which has the turn, releases from now on.
 * The reservation ends when the thread calls gp_oom_turn_attempted. */
void gp_oom_turn_reserve(gp_device_t *device);
void gp_oom_turn_attempted(gp_device_t *device);

/* Waits while memory is reserved for another thread. Called before a thread requests memory from the driver.
 */
void gp_oom_turn_respect(gp_engine_t *engine, gp_device_t *device);

#endif
