/*
 * Memory limits, per device, and what the program reads of the device's memory. Bytes are counted before the
 * driver is asked, so that the limit is never exceeded, not even for a moment.
 *
 * The caller of these holds no lock unless a comment says otherwise. Sizes in bytes. Uses: driver_calls.h,
 * events.h, mode.h, space/account.h, space/segment.h.
 */
#ifndef GP_POOL_LIMIT_H
#define GP_POOL_LIMIT_H

#include "pool/space/account.h"
#include "pool/state.h"

/*
 * Counts the most that the device may give for bytes that the driver is about to be asked for
 * (space/account.h), so that the account's cancel or adopt has to follow; false: the limit refuses, or the
 * host has no memory. cancel takes the bytes back. Never waits: what another thread is giving back just now
 * counts still.
 */
bool gp_limit_reserve(gp_engine_t *engine, gp_context_t *context, uint64_t bytes, gp_supply_t supply);
void gp_limit_cancel(gp_engine_t *engine, gp_device_t *device, uint64_t bytes, gp_supply_t supply);

/* Asks the driver for the device's figures and remembers them with what was committed then; false: it gave
 * none. */
bool gp_limit_ask(gp_engine_t *engine, gp_context_t *context, uint64_t *ret_free, uint64_t *ret_total);

/*
 * The driver should find `bytes` for its own pools of stream-ordered memory: the device has as much free, or
 * they hold as much idle. Asks the driver unless its last word is fresh and leaves ample room. Where it
 * cannot be asked (beside a capture) its last word decides, with what was taken and given back since; true,
 * too, where nothing is known.
 */
#define GP_TOLD_FREE_NS UINT64_C(100000000) /* so long the driver's word on free memory is fresh */
bool gp_limit_fits_pools(gp_engine_t *engine, gp_context_t *context, uint64_t bytes);

/* Asks the driver, under a limit, how much of the freed stream-ordered memory its pools still hold. */
void gp_limit_settle(gp_engine_t *engine, gp_context_t *context);

/* Computes the device's limit, whose size is known only now that it has a context. */
void gp_limit_resolve(gp_engine_t *engine, gp_context_t *context);

/* Sets one device's limit; returns the bytes that are committed beyond it. */
uint64_t gp_limit_set(gp_engine_t *engine, gp_device_t *device, const gp_amount_t *limit);

#endif
