/*
 * What the driver has given of a device: the account that limits are held against. At each moment it is at
 * least what the device has given to the process.
 *
 * An allocation of cuMemAlloc of more than 1 MiB takes whole pages of 2 MiB. Smaller ones are in pages that
 * they share: a page is counted once, from its first allocation until its last one is gone. The driver says
 * only by the address in which page it is, so that until then a page of its own is counted. What is measured
 * is in doc/gpu-results.md (G8, G17).
 *
 * The caller holds the device's lock, unless a comment says otherwise. Sizes in bytes, as asked of the
 * driver. Uses: state.h.
 */
#ifndef GP_POOL_SPACE_ACCOUNT_H
#define GP_POOL_SPACE_ACCOUNT_H

#include "pool/state.h"

/* Where memory is from. */
typedef enum gp_supply {
  GP_SUPPLY_PLAIN, /* cuMemAlloc and what is like it */
  GP_SUPPLY_APART, /* a call whose memory shares no page with others: counts as asked, above 1 MiB in pages */
  GP_SUPPLY_POOLS, /* the driver's own pools, which grow by more than is asked for, and keep what is freed */
} gp_supply_t;

/* The most that the device gives while the driver is asked for so many bytes. No lock. */
uint64_t gp_account_growth(uint64_t bytes, gp_supply_t supply);

/* Before the driver is asked: counts gp_account_growth. Then either cancel, or adopt with the address that
 * the driver gave. */
void gp_account_reserve(gp_device_t *device, uint64_t bytes, gp_supply_t supply);
void gp_account_cancel(gp_device_t *device, uint64_t bytes, gp_supply_t supply);
void gp_account_adopt(
    gp_engine_t *engine, gp_device_t *device, uint64_t address, uint64_t bytes, gp_supply_t supply);

/* The driver will need no more than `used` of what was reserved. Not for GP_SUPPLY_POOLS. */
void gp_account_shrink(gp_device_t *device, uint64_t reserved, uint64_t used, gp_supply_t supply);

/* After the driver has it back. Memory of the driver's pools may be with these still: under a limit it counts
 * until the driver says that it is gone. */
void gp_account_drop(
    gp_engine_t *engine, gp_device_t *device, uint64_t address, uint64_t bytes, gp_supply_t supply);

/* Of one of the driver's pools, which is gone: the allocation counts until drop_detached. */
void gp_account_detach(gp_device_t *device, uint64_t bytes);
void gp_account_drop_detached(gp_device_t *device, uint64_t bytes);

/* What counts, but for what the driver's pools have idle, or may grow by just now. */
static inline uint64_t gp_account_in_use(const gp_device_t *device)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  gp_assert_internal(device->committed_bytes >= device->draining + device->growing);
  return device->committed_bytes - device->draining - device->growing;
}

/* What counts and is not the driver's pools'. */
static inline uint64_t gp_account_others(const gp_device_t *device)
{
  gp_assert_internal(gp_account_in_use(device) >= device->pools.taken);
  return gp_account_in_use(device) - device->pools.taken;
}

/* Of pages that are shared: bytes that no allocation has. */
static inline uint64_t gp_account_slack(const gp_device_t *device)
{
  uint64_t pages = device->shared_pages * GP_DRIVER_PAGE;
  return pages > device->shared_bytes ? pages - device->shared_bytes : 0;
}

#endif
