/*
 * Completion proofs for whole contexts: the program's synchronizations, fences, and waits on the host. Any
 * thread may call these functions. The caller holds no lock unless a comment says otherwise.
 */
#ifndef GP_POOL_REUSE_FENCES_H
#define GP_POOL_REUSE_FENCES_H

#include "pool/records.h"

#define GP_LAGGING_MAX 64

/*
 * Stores the live contexts that lag: those not known to have completed the newest free. With a device, stores
 * only its contexts; NULL stands for all devices. Returns how many it stored, at most `capacity`. The
 * pointers stay valid until the engine ends.
 */
int gp_fences_lagging(gp_engine_t *engine, const gp_device_t *device, gp_context_t **array, int capacity);

/* Queries the outstanding fences, and records a fence in each context that lags and has none outstanding.
 * Never waits. Returns false if it could do neither. */
bool gp_fences_poll(gp_engine_t *engine);

/* Does what gp_fences_poll does, and also queries the fences that it has just recorded. So it recognizes an
 * idle device at once. */
bool gp_fences_poll_twice(gp_engine_t *engine);

/* Queries only the outstanding fences of the context; never waits. Returns false if it could not query them.
 */
bool gp_fences_ask(gp_engine_t *engine, gp_context_t *context);

/*
 * Called when the program frees memory of the device `freed`. Records a fence in each context that lags. The
 * fences in that device's contexts cover exactly the work that the driver's own free could have waited for.
 * `freed` is NULL for a free that would wait for nothing without the library. Returns false if the driver has
 * no such fence, or if the engine may make no driver call now.
 */
bool gp_fences_record_at_free(gp_engine_t *engine, const gp_device_t *freed);

/*
 * The time budget of early fences, a hundredth of the elapsed time. gp_fences_have_time returns true if some
 * of the budget is left at now_ns. gp_fences_took_time charges the time from begin_ns until now to the
 * budget, unless none was left at begin_ns. Neither takes a lock.
 */
bool gp_fences_have_time(const gp_engine_t *engine, uint64_t now_ns);
void gp_fences_took_time(gp_engine_t *engine, uint64_t begin_ns);

/*
 * Records a fence in each context and queries it. Returns true if all fences are complete, so that no context
 * had pending work. Other threads may have submitted work after the fences. Returns false if there may be
 * work, if the driver has no such fence, or if the engine may make no driver call now. Never waits. `freed`
 * is the device whose memory the program is just freeing, or NULL.
 */
bool gp_fences_are_quiet(gp_engine_t *engine, const gp_device_t *freed);

/* Waits on the host for one context, and returns the driver's code. The caller has called
 * gp_engine_enter_wait, so no capture can be running. */
int gp_fences_wait_context(gp_engine_t *engine, gp_context_t *context);

#endif
