/*
 * Accounts for the memory that the driver has allocated on a device, for comparison with limits. At any
 * moment the account is at least the memory that the driver has allocated for the process.
 *
 * An allocation of cuMemAlloc of more than 1 MiB takes whole pages of 2 MiB. Smaller allocations share pages.
 * A shared page counts once, from its first allocation until its last one is freed. Only the address shows in
 * which page a new allocation is, so a whole page counts until the driver returns the address.
 * doc/gpu-results.md has the measurements (G8, G17).
 *
 * The caller holds the device's lock, unless a comment says otherwise. Sizes are the bytes requested from the
 * driver.
 */
#ifndef GP_POOL_SPACE_ACCOUNT_H
#define GP_POOL_SPACE_ACCOUNT_H

#include "pool/device_record.h"

/* Returns bytes - taken, or 0 if taken is larger. */
static inline uint64_t gp_bytes_less(uint64_t bytes, uint64_t taken)
{
  return bytes > taken ? bytes - taken : 0;
}

/* The kind of driver call that allocates the memory. */
typedef enum gp_supply {
  GP_SUPPLY_PLAIN, /* memory of cuMemAlloc and similar calls */
  GP_SUPPLY_APART, /* shares no page: counts as requested, above 1 MiB in whole pages */
  GP_SUPPLY_POOLS, /* the driver's own pools, which grow by more than the request and keep freed memory */
} gp_supply_t;

/* Returns the most bytes of the device that the driver may use for the request. Only for GP_SUPPLY_POOLS must
 * `device` not be NULL, and only then is the lock needed. */
uint64_t gp_account_growth(const gp_device_t *device, uint64_t bytes, gp_supply_t supply);

/* Records that a driver pool has grown by `bytes` more than were counted for the request, because it grows in
 * larger pieces than assumed. No other request for memory of driver pools may be in flight. */
void gp_account_note_growth(gp_device_t *device, uint64_t bytes);

/* gp_account_reserve counts gp_account_growth before the driver call. After the call the caller calls
 * gp_account_cancel if it failed, or gp_account_adopt with the address that the driver returned. */
void gp_account_reserve(gp_device_t *device, uint64_t bytes, gp_supply_t supply);
void gp_account_cancel(gp_device_t *device, uint64_t bytes, gp_supply_t supply);
void gp_account_adopt(
    gp_engine_t *engine, gp_device_t *device, uint64_t address, uint64_t bytes, gp_supply_t supply);

/* Lowers a reservation to `used` bytes, because the driver needs no more. Not legal for GP_SUPPLY_POOLS. */
void gp_account_shrink(gp_device_t *device, uint64_t reserved, uint64_t used, gp_supply_t supply);

/* Stops counting an allocation after the driver has freed it. If the driver's pools may keep the memory, it
 * counts under a limit until the driver reports that the memory has left the pools. */
void gp_account_drop(
    gp_engine_t *engine, gp_device_t *device, uint64_t address, uint64_t bytes, gp_supply_t supply);

/*
 * gp_account_keep counts an allocation a second time, so that it still counts after gp_account_drop, until
 * gp_account_end_kept. gp_account_keep_bytes counts bytes of the device until gp_account_end_kept_bytes.
 * gp_account_keep_for_good counts them until the process ends. For gp_account_keep and gp_account_end_kept,
 * GP_SUPPLY_POOLS stands for a driver pool that was destroyed.
 */
void gp_account_keep(
    gp_engine_t *engine, gp_device_t *device, uint64_t address, uint64_t bytes, gp_supply_t supply);
void gp_account_end_kept(
    gp_engine_t *engine, gp_device_t *device, uint64_t address, uint64_t bytes, gp_supply_t supply);
void gp_account_keep_bytes(gp_device_t *device, uint64_t bytes);
void gp_account_end_kept_bytes(gp_device_t *device, uint64_t bytes);
void gp_account_keep_for_good(gp_device_t *device, uint64_t bytes);

/* gp_account_detach records that the driver pool of an allocation was destroyed. The allocation then counts
 * until gp_account_drop_detached. */
void gp_account_detach(gp_device_t *device, uint64_t bytes);
void gp_account_drop_detached(gp_device_t *device, uint64_t bytes);

/*
 * gp_account_orphan is called when the program is about to destroy a driver pool that has reserved `bytes`
 * beyond its allocations. The driver no longer reports these bytes. They count until the driver's call has
 * returned (gp_account_pool_ended) and no detached allocation is left; so do the bytes of freed detached
 * allocations. gp_account_leave_orphans stops counting them once that is so, and returns their number. The
 * caller may keep them.
 */
void gp_account_orphan(gp_device_t *device, uint64_t bytes);
void gp_account_pool_ended(gp_device_t *device);
uint64_t gp_account_leave_orphans(gp_device_t *device);

/* Returns true if the engine queries the driver for the bytes that its pools have reserved, which it does
 * only under a limit. */
bool gp_account_asks_pools(const gp_engine_t *engine, const gp_device_t *device);

/* Returns the counted bytes, without idle memory of the driver's pools, and without the possible growth of
 * these pools by calls in flight. */
static inline uint64_t gp_account_given(const gp_device_t *device)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  gp_assert_internal(device->committed_bytes >= device->draining + device->growing);
  return device->committed_bytes - device->draining - device->growing;
}

/* Returns gp_account_given without memory that is being released to the device. */
static inline uint64_t gp_account_in_use(const gp_device_t *device)
{
  gp_assert_internal(gp_account_given(device) >= device->kept_bytes);
  return gp_account_given(device) - device->kept_bytes;
}

/* Returns the bytes of gp_account_given that are not in the driver's pools. */
static inline uint64_t gp_account_others(const gp_device_t *device)
{
  gp_assert_internal(gp_account_given(device) >= device->pools.taken);
  return gp_account_given(device) - device->pools.taken;
}

/* Returns the bytes of shared pages that belong to no allocation. */
static inline uint64_t gp_account_slack(const gp_device_t *device)
{
  uint64_t pages = device->shared_pages * GP_DRIVER_PAGE;
  return pages > device->shared_bytes ? pages - device->shared_bytes : 0;
}

#endif
