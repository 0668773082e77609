/*
 * Memory limits of devices, and the free and total bytes that the program gets. The pool reserves bytes
 * before it calls the driver, so the limit is never exceeded, even briefly.
 *
 * The caller holds no lock unless a comment says otherwise. Sizes are in bytes.
 */
#ifndef GP_POOL_LIMITS_LIMIT_H
#define GP_POOL_LIMITS_LIMIT_H

#include "pool/space/account.h"
#include "pool/records.h"

/* Returns the limit of a device with total_bytes (0: not known yet): the limit that was set, but at most the
 * ceiling. The caller holds the device's lock, or no other thread can use the engine yet. */
uint64_t gp_limit_of(const gp_engine_t *engine, int ordinal, uint64_t total_bytes);

/*
 * gp_limit_reserve reserves, before the driver call, the most bytes of the device that the request may need
 * under the limit (space/account.h). After success the caller must call gp_account_adopt, or gp_limit_cancel,
 * which returns the bytes. Returns false if the limit refuses. Does not wait for the device: memory that
 * another thread is releasing still counts.
 */
bool gp_limit_reserve(gp_engine_t *engine, gp_context_t *context, uint64_t bytes, gp_supply_t supply);
void gp_limit_cancel(gp_engine_t *engine, gp_device_t *device, uint64_t bytes, gp_supply_t supply);

/* Queries the driver for the free and total memory of the device, and stores both with the bytes committed at
 * that time. Returns false if the query failed. */
bool gp_limit_ask(gp_engine_t *engine, gp_context_t *context, uint64_t *ret_free, uint64_t *ret_total);

/*
 * Returns true if the driver's own memory pools should be able to allocate `bytes`, because enough memory is
 * free on the device or idle in the pools. Queries the driver, unless its last report is recent and shows
 * ample room. If the engine cannot query (during a capture), it adjusts the last report by the bytes
 * allocated and freed since. Also returns true if there was no report.
 */
#define GP_QUERY_FRESH_NS UINT64_C(100000000) /* age up to which a report is recent */
bool gp_limit_fits_pools(gp_engine_t *engine, gp_context_t *context, uint64_t bytes);

/* Under a limit: stops counting freed memory whose stream is known to have reached the free. Then queries how
 * much of the freed stream-ordered memory the driver's pools still have reserved. */
void gp_limit_settle(gp_engine_t *engine, gp_context_t *context);

/* Calls gp_limit_settle after a request for `bytes` from the driver's pools. The pools may have grown by more
 * than was counted. If no other request has made them grow since the last query, corrects the assumed size of
 * the pieces in which they grow (space/account.h). */
void gp_limit_settle_growth(gp_engine_t *engine, gp_context_t *context, uint64_t bytes);

/* Computes a limit that is a share of the device's size. Called once a context exists, because the size is
 * unknown before. */
void gp_limit_resolve(gp_engine_t *engine, gp_context_t *context);

/* Sets the limit of one device, and returns the bytes by which committed memory exceeds it. */
uint64_t gp_limit_set(gp_engine_t *engine, gp_device_t *device, const gp_amount_t *limit);

#endif
