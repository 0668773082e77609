/*
 * Memory limits, per device, and the memory figures that the program reads. The pool reserves bytes before it
 * calls the driver, so the limit is never exceeded, even briefly.
 *
 * The caller of these holds no lock unless a comment says otherwise. Sizes are in bytes.
 */
#ifndef GP_POOL_LIMITS_LIMIT_H
#define GP_POOL_LIMITS_LIMIT_H

#include "pool/space/account.h"
#include "pool/records.h"

/* Returns the limit of a device of total_bytes (0: not known yet): as set, but never above the ceiling. The
 * caller holds the device's lock, or has not shared the engine with other threads yet. */
uint64_t gp_limit_of(const gp_engine_t *engine, int ordinal, uint64_t total_bytes);

/*
 * Reserves bytes under the limit, before the driver is asked for them: the most that the device may give for
 * them (space/account.h). On success the account's cancel, which returns the bytes, or adopt must follow.
 * False: the limit refuses, or the host has no memory. Never waits: memory that another thread is just
 * releasing still counts.
 */
bool gp_limit_reserve(gp_engine_t *engine, gp_context_t *context, uint64_t bytes, gp_supply_t supply);
void gp_limit_cancel(gp_engine_t *engine, gp_device_t *device, uint64_t bytes, gp_supply_t supply);

/* Queries the driver for the device's figures, and stores them with the bytes committed at that time. False:
 * the query failed. */
bool gp_limit_ask(gp_engine_t *engine, gp_context_t *context, uint64_t *ret_free, uint64_t *ret_total);

/*
 * Returns whether the driver's own memory pools should find `bytes`: that much is free on the device, or idle
 * in the pools. Queries the driver, unless its last figures are fresh and leave ample room. If the engine
 * cannot query (during a capture), it uses the last figures, adjusted by what was taken and returned since.
 * Also true if nothing is known.
 */
#define GP_TOLD_FREE_NS UINT64_C(100000000) /* how long the driver's figure for free memory is fresh */
bool gp_limit_fits_pools(gp_engine_t *engine, gp_context_t *context, uint64_t bytes);

/* Under a limit: stops counting freed memory whose stream is known to have passed the free, and queries how
 * much of the freed stream-ordered memory the driver's pools still have. */
void gp_limit_settle(gp_engine_t *engine, gp_context_t *context);

/* Does the same after a request for `bytes` from the driver's pools, and learns the size of the pieces by
 * which these grow (space/account.h): it is larger if they have grown by more than was counted, and nothing
 * else has made them grow since the last query. */
void gp_limit_settle_growth(gp_engine_t *engine, gp_context_t *context, uint64_t bytes);

/* Computes a limit that is a share of the device's size, which is known only once there is a context. */
void gp_limit_resolve(gp_engine_t *engine, gp_context_t *context);

/* Sets one device's limit, and returns the bytes that are committed beyond it. */
uint64_t gp_limit_set(gp_engine_t *engine, gp_device_t *device, const gp_amount_t *limit);

#endif
