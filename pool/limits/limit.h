/*
 * Memory limits, per device, and the memory figures that the program reads. The pool counts bytes before it
 * asks the driver, so that the limit is never exceeded, not even for a moment.
 *
 * The caller of these holds no lock unless a comment says otherwise. Sizes in bytes.
 */
#ifndef GP_POOL_LIMITS_LIMIT_H
#define GP_POOL_LIMITS_LIMIT_H

#include "pool/space/account.h"
#include "pool/records.h"

/* The limit of a device of total_bytes (0: not known yet): as set, but never above the ceiling. The caller
 * holds the device's lock, or is about to share the engine. */
uint64_t gp_limit_of(const gp_engine_t *engine, int ordinal, uint64_t total_bytes);

/*
 * Before the driver is asked for bytes: counts the most that the device may give for them
 * (space/account.h). On success the account's cancel or adopt must follow; cancel takes the bytes
 * back. False: the limit refuses, or the host has no memory. Never waits: memory that another thread
 * is just giving back still counts.
 */
bool gp_limit_reserve(gp_engine_t *engine, gp_context_t *context, uint64_t bytes, gp_supply_t supply);
void gp_limit_cancel(gp_engine_t *engine, gp_device_t *device, uint64_t bytes, gp_supply_t supply);

/* Asks the driver for the device's figures, and remembers them with the bytes committed at that time.
 * False: the driver gave none. */
bool gp_limit_ask(gp_engine_t *engine, gp_context_t *context, uint64_t *ret_free, uint64_t *ret_total);

/*
 * The driver should find `bytes` for its own pools of stream-ordered memory: the device has as much free,
 * or the pools hold as much idle. Asks the driver unless its last word is fresh and leaves ample room.
 * Where the engine cannot ask (during a capture) the last word decides, with memory taken and given back
 * since. Also true where nothing is known.
 */
#define GP_TOLD_FREE_NS UINT64_C(100000000) /* how long the driver's word on free memory is fresh */
bool gp_limit_fits_pools(gp_engine_t *engine, gp_context_t *context, uint64_t bytes);

/* Under a limit: stops counting freed memory whose stream has passed the free, as far as is known, and asks
 * the driver how much of the freed stream-ordered memory its pools still have. */
void gp_limit_settle(gp_engine_t *engine, gp_context_t *context);

/* The same after a request for `bytes` of the driver's pools: if nothing else has made them grow since the
 * driver was last asked, and they have grown by more than was counted, their pieces are larger
 * (space/account.h). */
void gp_limit_settle_growth(gp_engine_t *engine, gp_context_t *context, uint64_t bytes);

/* Computes the device's limit, if that needs the device's size: it is known only now
 * that there is a context. */
void gp_limit_resolve(gp_engine_t *engine, gp_context_t *context);

/* Sets one device's limit; returns the bytes that are committed beyond it. */
uint64_t gp_limit_set(gp_engine_t *engine, gp_device_t *device, const gp_amount_t *limit);

#endif
