/*
 * Facts about whole contexts: synchronizations of the program, fences, and waits of the host. Any thread; the
 * caller holds no lock unless a comment says otherwise.
 */
#ifndef GP_POOL_REUSE_FENCES_H
#define GP_POOL_REUSE_FENCES_H

#include "pool/records.h"

#define GP_LAGGING_MAX 64

/*
 * The live contexts (of one device, or of all: NULL) that have not completed everything freed so
 * far, at most capacity of them; returns how many. The engine never frees contexts before its own
 * end, so the pointers stay valid.
 */
int gp_fences_lagging(gp_engine_t *engine, const gp_device_t *device, gp_context_t **array, int capacity);

/* Queries the outstanding fences, and records one in each context that lags and has none outstanding; never
 * waits. False: it could do neither. */
bool gp_fences_poll(gp_engine_t *engine);

/* The same, and queries the fences that it has just recorded: so it finds a device
 * without work idle at once. */
bool gp_fences_poll_twice(gp_engine_t *engine);

/* Queries the outstanding fences of the context alone; never waits. False: it could not. */
bool gp_fences_ask(gp_engine_t *engine, gp_context_t *context);

/*
 * The program frees memory of the device `freed`: records a fence in each context that lags. The
 * fences of that device's contexts cover exactly the work that the driver's own free could have waited
 * for. freed is NULL for a free that waits for nothing. False: the driver has no such fence, or the
 * engine may make no call now.
 */
bool gp_fences_record_at_free(gp_engine_t *engine, const gp_device_t *freed);

/*
 * Fences ahead of need take a hundredth of the time that passes, as measured. have_time: some of that time
 * is left at now_ns. took_time: calls for such fences began at begin_ns and are over now; does nothing if
 * no time was left at begin_ns. Neither takes a lock.
 */
bool gp_fences_have_time(const gp_engine_t *engine, uint64_t now_ns);
void gp_fences_took_time(gp_engine_t *engine, uint64_t begin_ns);

/*
 * No context has pending work: records a fence in each context and finds that it has passed. Does not
 * cover what other threads submit after the record. Never waits. False: there may be work, the driver
 * has no such fence, or the engine may make no call now. freed: the device whose memory the program
 * is just freeing; NULL: none.
 */
bool gp_fences_are_quiet(gp_engine_t *engine, const gp_device_t *freed);

/* Waits for one context in the host. Returns the driver's code. The caller takes care of captures,
 * see gp_engine_enter_wait. */
int gp_fences_wait_context(gp_engine_t *engine, gp_context_t *context);

#endif
