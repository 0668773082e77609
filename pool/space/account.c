#include "pool/space/account.h"

#include "pool/engine_record.h"

/* Returns `bytes` rounded up to `step`. On overflow returns `bytes`, a size that no driver allocates. */
static uint64_t round_up(uint64_t bytes, uint64_t step)
{
  uint64_t rounded = gp_round_up(bytes, step);
  return rounded ? rounded : bytes;
}

uint64_t gp_account_growth(const gp_device_t *device, uint64_t bytes, gp_supply_t supply)
{
  uint64_t taken = gp_bytes_taken(bytes);

  switch (supply) {
  case GP_SUPPLY_PLAIN: return round_up(bytes, GP_DRIVER_PAGE);
  case GP_SUPPLY_POOLS: return round_up(gp_pools_taken(bytes), device->pools_piece);
  default: return taken ? taken : bytes;
  }
}

/* Returns the bytes by which the driver's pools may grow beyond the allocation. */
static uint64_t surplus_growth(const gp_device_t *device, uint64_t bytes)
{
  return gp_account_growth(device, bytes, GP_SUPPLY_POOLS) - gp_pools_taken(bytes);
}

#define LARGEST_PIECE (256 * GP_MIB)

void gp_account_note_growth(gp_device_t *device, uint64_t bytes)
{
  gp_assert_internal(gp_lock_is_held(&device->lock) && device->pools_asked == 0);
  if (bytes <= LARGEST_PIECE - device->pools_piece)
    device->pools_piece += gp_round_up(bytes, GP_DRIVER_PAGE);
}

static bool shares_page(uint64_t bytes, gp_supply_t supply)
{
  return supply == GP_SUPPLY_PLAIN && bytes <= GP_DRIVER_SHARED_MAX;
}

/* Returns the key of a page for the map, which cannot store 0 and 1. */
static uint64_t page_of(uint64_t address)
{
  return (address & ~(GP_DRIVER_PAGE - 1)) + 2;
}

/*
 * Counts an allocation in its page: the map's value of a page is the number of allocations in it. If the host
 * has no memory for the entry, the page is unlisted. It then counts until this allocation, or another one in
 * the same page, ends.
 */
static void enter_page(gp_engine_t *engine, gp_device_t *device, uint64_t address, uint64_t bytes)
{
  uint64_t page = page_of(address);
  uintptr_t users = (uintptr_t)gp_address_map_find(&engine->pages, page);
  bool is_listed = gp_address_map_insert(&engine->pages, page, (void *)(users + 1));

  device->shared_bytes += bytes;
  if (users > 0) { /* the entry exists, so the insertion needed no memory */
    device->committed_bytes -= GP_DRIVER_PAGE;
    return;
  }
  device->shared_pages++;
  device->unlisted_pages += !is_listed;
}

static void leave_page(gp_engine_t *engine, gp_device_t *device, uint64_t address, uint64_t bytes)
{
  uint64_t page = page_of(address);
  uintptr_t users = (uintptr_t)gp_address_map_find(&engine->pages, page);

  gp_assert_internal(device->shared_bytes >= bytes && device->shared_pages > 0);
  device->shared_bytes -= bytes;
  if (users > 1) {
    (void)gp_address_map_insert(&engine->pages, page, (void *)(users - 1));
    return;
  }
  gp_assert_internal(users > 0 || device->unlisted_pages > 0);
  if (users == 0)
    device->unlisted_pages--;
  else
    (void)gp_address_map_remove(&engine->pages, page);
  device->shared_pages--;
  device->committed_bytes -= GP_DRIVER_PAGE;
}

void gp_account_reserve(gp_device_t *device, uint64_t bytes, gp_supply_t supply)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  device->committed_bytes += gp_account_growth(device, bytes, supply);
  if (supply == GP_SUPPLY_POOLS) {
    device->uses_pools = true;
    device->async_live += bytes;
    device->growing += surplus_growth(device, bytes);
    device->pools_asked += gp_pools_taken(bytes);
    gp_pools_take(&device->pools, bytes);
  }
}

static void drop_async(gp_device_t *device, uint64_t bytes)
{
  gp_assert_internal(device->async_live >= bytes);
  device->async_live -= bytes;
  gp_pools_drop(&device->pools, bytes);
}

void gp_account_cancel(gp_device_t *device, uint64_t bytes, gp_supply_t supply)
{
  uint64_t growth = gp_account_growth(device, bytes, supply);

  gp_assert_internal(gp_lock_is_held(&device->lock) && device->committed_bytes >= growth);
  device->committed_bytes -= growth;
  device->cancelled += device->oom_turn.holder != gp_this_thread();
  if (supply == GP_SUPPLY_POOLS) {
    device->growing -= surplus_growth(device, bytes);
    device->pools_asked -= gp_pools_taken(bytes);
    drop_async(device, bytes);
  }
}

bool gp_account_asks_pools(const gp_engine_t *engine, const gp_device_t *device)
{
  return device->limit != UINT64_MAX && engine->driver.ops->async_reserved;
}

void gp_account_adopt(
    gp_engine_t *engine, gp_device_t *device, uint64_t address, uint64_t bytes, gp_supply_t supply)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  if (shares_page(bytes, supply)) {
    enter_page(engine, device, address, bytes);
  } else if (supply == GP_SUPPLY_POOLS) {
    uint64_t surplus = surplus_growth(device, bytes);
    device->growing -= surplus;
    device->pools_asked -= gp_pools_taken(bytes);
    device->pools_grown++;
    if (gp_account_asks_pools(engine, device))
      device->draining += surplus; /* counts until the driver reports the actual size */
    else
      device->committed_bytes -= surplus;
  }
}

void gp_account_shrink(gp_device_t *device, uint64_t reserved, uint64_t used, gp_supply_t supply)
{
  uint64_t before = gp_account_growth(device, reserved, supply),
           after = gp_account_growth(device, used, supply);

  gp_assert_internal(gp_lock_is_held(&device->lock) && supply != GP_SUPPLY_POOLS && after <= before);
  device->committed_bytes -= before - after;
}

/* Returns the bytes that count for an allocation after the driver has made it. */
static uint64_t bytes_given(uint64_t bytes, gp_supply_t supply)
{
  return supply == GP_SUPPLY_POOLS ? gp_pools_taken(bytes) : gp_account_growth(NULL, bytes, supply);
}

void gp_account_drop(
    gp_engine_t *engine, gp_device_t *device, uint64_t address, uint64_t bytes, gp_supply_t supply)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  if (shares_page(bytes, supply)) {
    leave_page(engine, device, address, bytes);
    return;
  }
  uint64_t taken = bytes_given(bytes, supply);
  gp_assert_internal(device->committed_bytes >= taken);
  if (supply == GP_SUPPLY_POOLS)
    drop_async(device, bytes);
  if (supply == GP_SUPPLY_POOLS && gp_account_asks_pools(engine, device))
    device->draining += taken;
  else
    device->committed_bytes -= taken;
}

void gp_account_keep_bytes(gp_device_t *device, uint64_t bytes)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  device->committed_bytes += bytes;
  device->kept_bytes += bytes;
}

void gp_account_end_kept_bytes(gp_device_t *device, uint64_t bytes)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  gp_assert_internal(device->kept_bytes >= bytes && device->committed_bytes >= bytes);
  device->committed_bytes -= bytes;
  device->kept_bytes -= bytes;
}

void gp_account_keep(
    gp_engine_t *engine, gp_device_t *device, uint64_t address, uint64_t bytes, gp_supply_t supply)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  if (shares_page(bytes, supply)) { /* counts as one more allocation of 0 bytes in the page */
    device->committed_bytes += GP_DRIVER_PAGE;
    enter_page(engine, device, address, 0);
    device->kept_pages++;
    return;
  }
  gp_account_keep_bytes(device, bytes_given(bytes, supply));
}

void gp_account_end_kept(
    gp_engine_t *engine, gp_device_t *device, uint64_t address, uint64_t bytes, gp_supply_t supply)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  if (shares_page(bytes, supply)) {
    leave_page(engine, device, address, 0);
    device->kept_pages--;
    return;
  }
  gp_account_end_kept_bytes(device, bytes_given(bytes, supply));
}

void gp_account_keep_for_good(gp_device_t *device, uint64_t bytes)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  device->committed_bytes += bytes;
  device->kept_for_good += bytes;
}

void gp_account_orphan(gp_device_t *device, uint64_t bytes)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  device->committed_bytes += bytes;
  device->orphan_bytes += bytes;
  device->orphan_count++;
}

void gp_account_pool_ended(gp_device_t *device)
{
  gp_assert_internal(gp_lock_is_held(&device->lock) && device->orphan_count > 0);
  device->orphan_count--;
}

uint64_t gp_account_leave_orphans(gp_device_t *device)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  uint64_t bytes = device->orphan_count == 0 ? device->orphan_bytes : 0;
  device->committed_bytes -= bytes;
  device->orphan_bytes -= bytes;
  return bytes;
}

void gp_account_detach(gp_device_t *device, uint64_t bytes)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  drop_async(device, bytes);
  device->orphan_count++;
}

void gp_account_drop_detached(gp_device_t *device, uint64_t bytes)
{
  gp_assert_internal(gp_lock_is_held(&device->lock) && device->committed_bytes >= gp_pools_taken(bytes));
  device->orphan_bytes += gp_pools_taken(bytes); /* a driver pool releases only whole pieces */
  device->orphan_count--;
}
