/*
 * The account of the memory that the driver has given on a device, for comparison with limits. At any
 * moment it is at least what the process has from the device.
 *
 * An allocation of cuMemAlloc of more than 1 MiB takes whole pages of 2 MiB. Smaller ones share pages: a
 * page counts once, from its first allocation until its last one is gone. Only the address shows which
 * page a new allocation is in, so until the driver returns it a whole page counts. doc/gpu-results.md has
 * the measurements (G8, G17).
 *
 * The caller holds the device's lock, unless a comment says otherwise. Sizes in bytes, as asked of
 * the driver.
 */
#ifndef GP_POOL_SPACE_ACCOUNT_H
#define GP_POOL_SPACE_ACCOUNT_H

#include "pool/device_record.h"

/* What is left of `bytes` after so many are taken; never below 0. */
static inline uint64_t gp_bytes_less(uint64_t bytes, uint64_t taken)
{
  return bytes > taken ? bytes - taken : 0;
}

/* Where memory comes from. */
typedef enum gp_supply {
  GP_SUPPLY_PLAIN, /* cuMemAlloc and similar calls */
  GP_SUPPLY_APART, /* a call whose memory shares no page with others: counts as asked, above 1 MiB in pages */
  GP_SUPPLY_POOLS, /* the driver's own pools, which grow by more than the request, and keep freed memory */
} gp_supply_t;

/* The most that the driver takes of the device for such a request. device may be NULL, and then its lock need
 * not be held, for all supplies but GP_SUPPLY_POOLS. */
uint64_t gp_account_growth(const gp_device_t *device, uint64_t bytes, gp_supply_t supply);

/* A pool of the driver's has grown by so many bytes more than were counted for the request: its pieces are
 * larger. No request for its memory may be in flight. */
void gp_account_note_growth(gp_device_t *device, uint64_t bytes);

/* Before the driver is asked: counts gp_account_growth. Must be followed by cancel, or by adopt
 * with the driver's address. */
void gp_account_reserve(gp_device_t *device, uint64_t bytes, gp_supply_t supply);
void gp_account_cancel(gp_device_t *device, uint64_t bytes, gp_supply_t supply);
void gp_account_adopt(
    gp_engine_t *engine, gp_device_t *device, uint64_t address, uint64_t bytes, gp_supply_t supply);

/* The driver will need no more than `used` of the reserved bytes. Not for GP_SUPPLY_POOLS. */
void gp_account_shrink(gp_device_t *device, uint64_t reserved, uint64_t used, gp_supply_t supply);

/* After the driver got memory back. The driver's pools may still hold their memory: under a limit it counts
 * until the driver reports that it is gone. */
void gp_account_drop(
    gp_engine_t *engine, gp_device_t *device, uint64_t address, uint64_t bytes, gp_supply_t supply);

/*
 * Counts an allocation a second time, so that it still counts after its drop, until end_kept; or so many
 * bytes of the device, at last until the process ends. For keep and end_kept GP_SUPPLY_POOLS means a pool
 * that is gone.
 */
void gp_account_keep(
    gp_engine_t *engine, gp_device_t *device, uint64_t address, uint64_t bytes, gp_supply_t supply);
void gp_account_end_kept(
    gp_engine_t *engine, gp_device_t *device, uint64_t address, uint64_t bytes, gp_supply_t supply);
void gp_account_keep_bytes(gp_device_t *device, uint64_t bytes);
void gp_account_end_kept_bytes(gp_device_t *device, uint64_t bytes);
void gp_account_keep_for_good(gp_device_t *device, uint64_t bytes);

/* The driver's pool that has the allocation is gone: the allocation counts until drop_detached. */
void gp_account_detach(gp_device_t *device, uint64_t bytes);
void gp_account_drop_detached(gp_device_t *device, uint64_t bytes);

/*
 * The program is about to end a pool that has so many bytes more than its allocations; the driver's answers
 * no longer include them. They count until the driver has returned from that call (pool_ended) and while a
 * detached allocation is left, as do those of detached allocations that are free. leave_orphans returns those
 * that count no longer, unless the caller keeps them.
 */
void gp_account_orphan(gp_device_t *device, uint64_t bytes);
void gp_account_pool_ended(gp_device_t *device);
uint64_t gp_account_leave_orphans(gp_device_t *device);

/* Under a limit the engine asks the driver what its pools hold. */
bool gp_account_asks_pools(const gp_engine_t *engine, const gp_device_t *device);

/* Counted bytes that the device has given, without idle memory of the driver's pools and without their
 * possible growth by calls in flight. */
static inline uint64_t gp_account_given(const gp_device_t *device)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  gp_assert_internal(device->committed_bytes >= device->draining + device->growing);
  return device->committed_bytes - device->draining - device->growing;
}

/* The same without what is on its way back to the device. */
static inline uint64_t gp_account_in_use(const gp_device_t *device)
{
  gp_assert_internal(gp_account_given(device) >= device->kept_bytes);
  return gp_account_given(device) - device->kept_bytes;
}

/* Counted bytes that are not in the driver's pools. */
static inline uint64_t gp_account_others(const gp_device_t *device)
{
  gp_assert_internal(gp_account_given(device) >= device->pools.taken);
  return gp_account_given(device) - device->pools.taken;
}

/* Bytes of shared pages that no allocation has. */
static inline uint64_t gp_account_slack(const gp_device_t *device)
{
  uint64_t pages = device->shared_pages * GP_DRIVER_PAGE;
  return pages > device->shared_bytes ? pages - device->shared_bytes : 0;
}

#endif
