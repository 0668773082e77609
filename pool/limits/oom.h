/* Out of memory: what the pool does before the program gets the error, and the report. Sizes in bytes; the
 * caller holds no lock. */
#ifndef GP_POOL_LIMITS_OOM_H
#define GP_POOL_LIMITS_OOM_H

#include "pool/records.h"

/*
 * Takes the next step of the pass that may have made room for `bytes`, after which the caller tries again;
 * false: no step is left. The thread may then have the turn (oom_turn.h), which it gives up by
 * gp_oom_turn_leave, or by a report.
 */
bool gp_oom_next_step(
    gp_engine_t *engine, gp_context_t *context, uint64_t bytes, bool by_limit, gp_oom_attempts_t *attempts);

/* Calls attempt after each step that may have made room, until attempt returns something other than
 * code_out_of_memory. attempt sets *by_limit when the limit refused. Returns the last result. */
typedef int (*gp_oom_attempt_fn)(void *arg, bool *by_limit);
int gp_oom_make_room(gp_engine_t *engine, gp_context_t *context, uint64_t bytes, gp_oom_attempt_fn attempt,
    void *arg, bool *by_limit, gp_oom_attempts_t *attempts);

/*
 * Whether another pass over all steps is worthwhile, after one without success: other threads freed memory
 * meanwhile, which native frees would have given to the driver before. True: the caller begins again with
 * gp_oom_make_room or gp_oom_next_step. Ends when GPUPOOL_PATIENCE is over, counted from the first step:
 * other threads may go on freeing.
 */
bool gp_oom_again(gp_engine_t *engine, gp_context_t *context, uint64_t bytes, gp_oom_attempts_t *attempts);

/* Gives back what the pool kept on the device when pooling stopped, once the device is quiet. False: there
 * was nothing to give back, or the device is not quiet. Costs little if pooling has not stopped. */
#define GP_OOM_CONTEXTS 64 /* contexts of a device to look at, at most */
bool gp_oom_release_after_stop(gp_engine_t *engine, gp_context_t *context, gp_oom_attempts_t *attempts);

/* No step could make that much room: not even if the process gave back all that the program does not use. */
bool gp_oom_is_hopeless(gp_engine_t *engine, gp_context_t *context, uint64_t bytes);

/* Bytes of the device's largest idle block; 0: none is idle. The report names the value from
 * before memory was given back. */
uint64_t gp_oom_largest_idle(gp_device_t *device);

/* Records the event, updates the statistics and calls the observer's report. attempts:
 * those made before; NULL: none. */
void gp_oom_report(gp_engine_t *engine, gp_context_t *context, uint64_t bytes, bool by_limit,
    uint64_t largest_free, const gp_oom_attempts_t *attempts);

/* When memory has run out: how much of the idle memory is in pieces. */

/* Fills in_pieces, quiet_in_pieces and quiet_largest of the report, which stay 0 where no memory is cut.
 * The caller holds the device's lock. */
void gp_oom_count_pieces(const gp_device_t *device, gp_oom_t *oom);

#endif
