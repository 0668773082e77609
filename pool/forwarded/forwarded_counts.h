/* Adds forwarded memory to the sums and the records, and removes it from them. */
#ifndef GP_POOL_FORWARDED_FORWARDED_COUNTS_H
#define GP_POOL_FORWARDED_FORWARDED_COUNTS_H

#include "pool/forwarded/forwarded_table.h"
#include "pool/space/account.h"
#include "pool/records.h"
#include "pool/engine_record.h"

/* Returns true if the memory is in one of the driver's own pools. The driver reports the bytes that these
 * pools have reserved beyond the memory in use. */
bool gp_forwarded_is_driver_pooled(gp_forwarded_kind_t kind);

/* Returns which of the account's rules apply to memory of this kind, which must not be host memory. */
gp_supply_t gp_forwarded_supply(gp_forwarded_kind_t kind);

/* Removes an allocation from the sums, and sends its event. The caller holds the device's lock. */
void gp_forwarded_uncount(
    gp_engine_t *engine, gp_device_t *device, gp_forwarded_t *memory, uint64_t time_ns, uint64_t duration_ns);

/* Called before and after the program destroys one of the driver's pools, which has reserved `rest` bytes of
 * the device beyond its allocations. The caller has already detached the allocations and set has_orphans if
 * there are any. The caller holds the device's lock. */
void gp_forwarded_pool_ends(
    gp_engine_t *engine, gp_device_t *device, uint64_t rest, gp_ending_pool_t *ret_ending);
void gp_forwarded_pool_ended(gp_engine_t *engine, gp_device_t *device, const gp_ending_pool_t *ending);

/* Stores the record of a counted allocation. If the host has no memory for the record, removes the allocation
 * from the sums. The caller holds no lock. */
void gp_forwarded_keep(gp_engine_t *engine, gp_forwarded_t *memory);

/* Removes all memory that has ended with a context from sums and records. The caller holds no lock. */
void gp_forwarded_context_lost(gp_engine_t *engine, const gp_context_t *context);

/*
 * Sums over the records of a device, in bytes. in_pools is the part in async_live, and pools_taken the part
 * in pools.taken (device_record.h). shared_bytes is the part in gp_device_t.shared_bytes, in `shared`
 * allocations. `taken` is the sum of all other counted bytes.
 */
typedef struct gp_forwarded_sums {
  uint64_t on_host, host_counted, on_device, in_pools, pools_taken, shared, shared_bytes, taken;
} gp_forwarded_sums_t;

void gp_forwarded_sum(gp_engine_t *engine, int device, gp_forwarded_sums_t *ret_sums);

/* The limit on page-locked host memory. The process has one such limit, whatever device is current. */

void gp_host_limit_init(gp_host_limit_t *limit, const gp_options_t *options);

/* gp_host_limit_reserve reserves bytes before the driver is called, so the limit is never exceeded, even
 * briefly. It returns false, and counts nothing, if the limit refuses. gp_host_limit_return undoes the
 * reservation. Neither takes a lock. */
bool gp_host_limit_reserve(gp_host_limit_t *limit, uint64_t bytes);
void gp_host_limit_return(gp_host_limit_t *limit, uint64_t bytes);

/* Reports out of memory after the limit has refused an allocation of `bytes`. The caller holds no lock. */
void gp_host_limit_report(gp_engine_t *engine, gp_context_t *context, uint64_t bytes);

#endif
