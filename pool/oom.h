/*
 * Out of memory: what is done before the program hears of it, and the report. Sizes in bytes; the caller
 * holds no lock. Uses: reclaim.h, release.h, limit.h, driver_calls.h, mode.h, events.h, space/.
 */
#ifndef GP_POOL_OOM_H
#define GP_POOL_OOM_H

#include "pool/state.h"

/*
 * Takes the next step that may have made room for `bytes`, after which the caller tries again; false: none is
 * left.
 */
bool gp_oom_next_step(
    gp_engine_t *engine, gp_context_t *context, uint64_t bytes, bool by_limit, gp_room_t *room);

/*
 * Calls attempt after each step that may have made room, until it returns something else than
 * code_out_of_memory. It sets *by_limit when the limit refused. Returns its last result.
 */
typedef int (*gp_oom_attempt_fn)(void *arg, bool *by_limit);
int gp_oom_make_room(gp_engine_t *engine, gp_context_t *context, uint64_t bytes, gp_oom_attempt_fn attempt,
    void *arg, bool *by_limit, gp_room_t *room);

/*
 * What the pool kept on the device when pooling stopped goes back, once the device is quiet. False: there was
 * nothing, or the device is not. At little cost if pooling has not stopped.
 */
#define GP_OOM_CONTEXTS 64 /* of one device, that are looked at */
bool gp_oom_release_after_stop(gp_engine_t *engine, gp_context_t *context, gp_room_t *room);

/* No step could make as much room. */
bool gp_oom_is_hopeless(gp_engine_t *engine, gp_context_t *context, uint64_t bytes);

/* The largest idle block of the device, which the report names as of before memory
 * was given back; 0: none. */
uint64_t gp_oom_largest_idle(gp_device_t *device);

/* The event, the statistics and the observer's report. room: what was tried; NULL: nothing. */
void gp_oom_report(gp_engine_t *engine, gp_context_t *context, uint64_t bytes, bool by_limit,
    uint64_t largest_free, const gp_room_t *room);

#endif
