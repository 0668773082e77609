/*
 * Facts about whole contexts: synchronizations of the program, fences, and waits of the host. Any thread; the
 * caller holds no lock unless a comment says otherwise. Uses: stamps.h, barriers.h, driver_calls.h,
 * mode.h.
 */
#ifndef GP_POOL_REUSE_FENCES_H
#define GP_POOL_REUSE_FENCES_H

#include "pool/state.h"

#define GP_LAGGING_MAX 64

/*
 * The live contexts (of one device, or of all: NULL) that have not completed everything freed so far, at most
 * capacity of them; returns how many. Contexts do not return to the host before the engine, so that the
 * pointers stay good.
 */
int gp_fences_lagging(gp_engine_t *engine, const gp_device_t *device, gp_context_t **array, int capacity);

/*
 * Asks the fences that are outstanding, and records one in each context that lags and has none outstanding;
 * never waits. False: it could do neither.
 */
bool gp_fences_poll(gp_engine_t *engine);

/* The same, and asks what it has recorded: a device without work is known to have none at once. */
bool gp_fences_poll_twice(gp_engine_t *engine);

/*
 * Records a fence in each context that lags, right at a free of memory of the device by the program: what the
 * fences of that device's contexts cover is what the driver's own free could have waited for. freed: NULL for
 * a free that waits for nothing. False: the driver has no such fence, or no call may be made now.
 */
bool gp_fences_record_at_free(gp_engine_t *engine, const gp_device_t *freed);

/*
 * Fences ahead of need take a hundredth of the time that passes, as measured. have_time: at now_ns there is
 * some left. took_time: calls that were made for it began at begin_ns and are over; nothing happens if there
 * was none left then. Neither takes a lock.
 */
bool gp_fences_have_time(const gp_engine_t *engine, uint64_t now_ns);
void gp_fences_took_time(gp_engine_t *engine, uint64_t begin_ns);

/*
 * No context has pending work: in each a fence that was recorded just now has passed. What other threads
 * submit after the record is not covered. Records fences and asks them, never waits. False: there may be
 * work, the driver has no such fence, or no call may be made now. freed: the device whose memory the program
 * frees just now; NULL: none.
 */
bool gp_fences_are_quiet(gp_engine_t *engine, const gp_device_t *freed);

/* poll can tell something: there are fences, or streams that can be asked. */
bool gp_fences_can_poll(gp_engine_t *engine);

/* The host waits for one context; the driver's code. The caller has seen to captures, see
 * gp_engine_enter_wait. */
int gp_fences_wait_context(gp_engine_t *engine, gp_context_t *context);

#endif
