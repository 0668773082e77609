/* Out of memory: takes steps to make room before the program gets the error, and reports the error. Sizes are
 * in bytes. The caller holds no lock. */
#ifndef GP_POOL_LIMITS_OOM_H
#define GP_POOL_LIMITS_OOM_H

#include "pool/records.h"

/*
 * Takes the next steps until one may have made room for `bytes`; the caller then tries again. Returns false
 * if no step is left. Afterwards the thread may have the turn (oom_turn.h). It gives up the turn with
 * gp_oom_turn_leave or gp_oom_report.
 */
bool gp_oom_next_step(
    gp_engine_t *engine, gp_context_t *context, uint64_t bytes, bool by_limit, gp_oom_attempts_t *attempts);

/* Calls `attempt` after each step that may have made room, until `attempt` returns something other than
 * code_out_of_memory. `attempt` sets *by_limit when the limit refused. Returns the last result. */
typedef int (*gp_oom_attempt_fn)(void *arg, bool *by_limit);
int gp_oom_make_room(gp_engine_t *engine, gp_context_t *context, uint64_t bytes, gp_oom_attempt_fn attempt,
    void *arg, bool *by_limit, gp_oom_attempts_t *attempts);

/*
 * Returns true if another pass over all steps is worthwhile after a pass that failed. That is so if other
 * threads have freed memory meanwhile, which would have returned to the driver at once without the library.
 * The caller then begins again with gp_oom_make_room or gp_oom_next_step. Returns false when GPUPOOL_PATIENCE
 * has elapsed since the first step, even if other threads continue to free memory.
 */
bool gp_oom_again(gp_engine_t *engine, gp_context_t *context, uint64_t bytes, gp_oom_attempts_t *attempts);

/* Releases the memory that the pool kept on the device when pooling stopped, if the device is quiet.
 * Returns false if there was nothing to release, or if the device is busy. Costs little if pooling has
 * not stopped. */
#define GP_OOM_CONTEXTS 64 /* most contexts whose memory one call releases */
bool gp_oom_release_after_stop(gp_engine_t *engine, gp_context_t *context, gp_oom_attempts_t *attempts);

/* Returns true if no step can make room for `bytes`, even if the process released all memory that the program
 * does not use. */
bool gp_oom_is_hopeless(gp_engine_t *engine, gp_context_t *context, uint64_t bytes);

/* Returns the bytes of the device's largest idle block; 0 if none is idle. Callers read it for the report,
 * before they make room. */
uint64_t gp_oom_largest_idle(gp_device_t *device);

/* Reports out of memory: sends the event, updates the statistics and calls the observer's out_of_memory().
 * `attempts` describes the attempts to make room before the report; NULL: there were none. */
void gp_oom_report(gp_engine_t *engine, gp_context_t *context, uint64_t bytes, bool by_limit,
    uint64_t largest_free, const gp_oom_attempts_t *attempts);

/* Measures how fragmented the idle memory is: sets in_pieces, quiet_in_pieces and quiet_largest of the
 * report. They stay 0 if blocks are whole driver allocations. The caller holds the device's lock. */
void gp_oom_count_pieces(const gp_device_t *device, gp_oom_t *oom);

#endif
