#include "pool/limits/limit.h"

#include "pool/space/driver_calls.h"
#include "pool/events.h"
#include "pool/serve/heaps.h"
#include "pool/reuse/mode.h"
#include "pool/limits/oom_turn.h"
#include "pool/reuse/pending_frees.h"
#include "pool/reuse/stamps.h"
#include "pool/space/segment.h"

#define AMPLE 4 /* free memory is ample if it has room for this many requests */

uint64_t gp_limit_of(const gp_engine_t *engine, int ordinal, uint64_t total_bytes)
{
  uint64_t limit = gp_amount_resolve(&engine->limits[ordinal], total_bytes);
  uint64_t ceiling = gp_amount_resolve(&engine->ceilings[ordinal], total_bytes);
  return limit < ceiling ? limit : ceiling;
}

void gp_limit_resolve(gp_engine_t *engine, gp_context_t *context)
{
  gp_device_t *device = context->device;
  uint64_t free_bytes;
  uint64_t total_bytes;

  (void)gp_limit_ask(engine, context, &free_bytes, &total_bytes);
  gp_lock_take(&device->lock);
  /* A limit that is a share of an unknown size is 0: until the size is known, every allocation is refused. */
  gp_locked(device)->limit = gp_limit_of(engine, device->ordinal, device->total);
  gp_lock_release(&device->lock);
}

/* Bytes that the driver's own pools have reserved from the device, and the idle part of these bytes. */
typedef struct gp_pool_bytes {
  uint64_t reserved;
  uint64_t idle;
} gp_pool_bytes_t;

/* Queries the driver's pools. Returns false if the driver cannot report their use, as before CUDA 11.3
 * (cuda.h, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT). The idle memory of the pools then counts as enough for any
 * request. */
static bool ask_pools(gp_engine_t *engine, gp_context_t *context, gp_pool_bytes_t *ret_pools)
{
  uint64_t used;

  *ret_pools = (gp_pool_bytes_t){.idle = GP_POOLS_UNTOLD};
  if (!engine->driver.ops->async_reserved ||
      gp_driver_async_reserved(engine, &context->driver, &ret_pools->reserved, &used) != 0)
    return false;
  ret_pools->idle = ret_pools->reserved > used ? ret_pools->reserved - used : 0;
  return true;
}

/* Stores the values that the driver reported for the device and its pools. */
static void note_query(gp_engine_t *engine, gp_device_t *device, uint64_t free_bytes, uint64_t total_bytes,
    const gp_pool_bytes_t *pools)
{
  gp_lock_take(&device->lock);
  device->total = total_bytes;
  device->queried_free = free_bytes;
  device->told_ns = gp_now(engine);
  device->queried_committed = gp_account_given(device);
  device->queried_pools = pools->reserved > device->pools.taken ? pools->reserved - device->pools.taken : 0;
  gp_pools_note_query(&device->pools, free_bytes, pools->idle, gp_account_others(device));
  gp_event_facts(engine, device);
  gp_lock_release(&device->lock);
}

bool gp_limit_ask(gp_engine_t *engine, gp_context_t *context, uint64_t *ret_free, uint64_t *ret_total)
{
  gp_pool_bytes_t pools = {0, 0};

  gp_assert(!gp_holds_engine_lock());
  *ret_free = *ret_total = 0;
  if (!gp_engine_enter(engine))
    return false;
  bool is_known = gp_driver_memory_info(engine, &context->driver, ret_free, ret_total) == 0 && *ret_total > 0;
  if (is_known) {
    gp_lock_take(&context->device->lock);
    bool uses_pools = gp_locked(context->device)->uses_pools;
    gp_lock_release(&context->device->lock);
    if (uses_pools)
      (void)ask_pools(engine, context, &pools);
    note_query(engine, context->device, *ret_free, *ret_total, &pools);
  }
  gp_engine_leave(engine);
  return is_known;
}

/* Returns true if a limit is a share of the device's size, and the size is not known yet. That happens if a
 * capture was running when the device was first used, or if the driver call failed. */
static bool device_needs_total(const gp_engine_t *engine, gp_device_t *device)
{
  gp_lock_take(&device->lock);
  bool has_share = engine->limits[device->ordinal].is_share || engine->ceilings[device->ordinal].is_share;
  bool unknown = has_share && gp_locked(device)->total == 0;
  gp_lock_release(&device->lock);
  return unknown;
}

bool gp_limit_reserve(gp_engine_t *engine, gp_context_t *context, uint64_t bytes, gp_supply_t supply)
{
  gp_device_t *device = context->device;
  uint64_t growth = gp_account_growth(device, bytes, supply);

  gp_assert(!gp_holds_engine_lock());
  gp_event_first_use(engine);
  gp_oom_turn_respect(engine, device);
  gp_limit_settle(engine, context);
  if (device_needs_total(engine, device))
    gp_limit_resolve(engine, context);
  gp_lock_take(&device->lock);
  bool granted = growth <= gp_locked(device)->limit && device->committed_bytes <= device->limit - growth;
  if (granted)
    gp_account_reserve(device, bytes, supply);
  gp_lock_release(&device->lock);
  return granted;
}

void gp_limit_cancel(gp_engine_t *engine, gp_device_t *device, uint64_t bytes, gp_supply_t supply)
{
  gp_lock_take(&device->lock);
  gp_account_cancel(device, bytes, supply);
  gp_lock_release(&device->lock);
}

/*
 * The driver's pool keeps freed stream-ordered memory until a synchronization, and grows by larger pieces
 * than requested. So under a limit, the engine queries the pool's reserved bytes before each request. The
 * bytes beyond the sizes in use count as draining. No driver call reports whether a request would fit into
 * the pool's idle memory. So close to a limit the engine refuses some requests that might have fitted,
 * because the limit must never be exceeded.
 */
void gp_limit_settle(gp_engine_t *engine, gp_context_t *context)
{
  gp_device_t *device = context->device;
  gp_pool_bytes_t pools;

  gp_assert(!gp_holds_engine_lock());
  gp_lock_take(&device->lock);
  (void)gp_pending_frees_retire(engine, device);
  bool any = gp_locked(device)->limit != UINT64_MAX && engine->driver.ops->async_reserved &&
             (device->draining > 0 || device->async_live > 0 || device->unsettled);
  uint64_t grown = device->pools_grown;
  gp_lock_release(&device->lock);
  if (!any || !gp_engine_enter(engine))
    return;
  bool is_known = ask_pools(engine, context, &pools);
  gp_engine_leave(engine);
  if (!is_known)
    return;
  gp_lock_take(&device->lock);
  uint64_t taken = gp_locked(device)->pools.taken - device->pools_asked; /* pools_asked: requests in flight */
  uint64_t draining = pools.reserved > taken ? pools.reserved - taken : 0;
  if (device->pools_grown != grown && draining < device->draining) /* the query may precede the growth */
    draining = device->draining;
  device->settled_reserved = pools.reserved;
  device->settled_grown = grown;
  gp_assert_internal(device->committed_bytes >= device->draining);
  device->committed_bytes += draining - device->draining;
  device->draining = draining;
  device->unsettled = false;
  gp_lock_release(&device->lock);
}

void gp_limit_settle_growth(gp_engine_t *engine, gp_context_t *context, uint64_t bytes)
{
  gp_device_t *device = context->device;

  gp_lock_take(&device->lock);
  uint64_t reserved = gp_locked(device)->settled_reserved, grown = device->settled_grown;
  gp_lock_release(&device->lock);
  gp_limit_settle(engine, context);
  gp_lock_take(&device->lock);
  bool is_alone = gp_locked(device)->settled_grown == grown + 1 && device->pools_grown == grown + 1 &&
                  device->pools_asked == 0;
  uint64_t counted = gp_account_growth(device, bytes, GP_SUPPLY_POOLS);
  if (is_alone && device->settled_reserved > reserved + counted)
    gp_account_note_growth(device, device->settled_reserved - reserved - counted);
  gp_lock_release(&device->lock);
}

bool gp_limit_fits_pools(gp_engine_t *engine, gp_context_t *context, uint64_t bytes)
{
  gp_device_t *device = context->device;
  uint64_t needed = gp_pools_taken(bytes);
  uint64_t free_bytes;
  uint64_t total_bytes;

  gp_assert(!gp_holds_engine_lock());
  gp_lock_take(&device->lock);
  uint64_t room = gp_pools_room(&device->pools, gp_account_others(device));
  bool is_ample = gp_now(engine) - device->told_ns < GP_QUERY_FRESH_NS &&
                  room / AMPLE >= gp_account_growth(device, bytes, GP_SUPPLY_POOLS);
  bool may_fit = device->told_ns == 0 || room >= needed;
  gp_lock_release(&device->lock);
  if (is_ample)
    return true;
  if (!gp_limit_ask(engine, context, &free_bytes, &total_bytes))
    return may_fit;
  if (free_bytes < needed)
    free_bytes = gp_driver_available(engine, &context->driver, free_bytes);
  gp_lock_take(&device->lock);
  uint64_t idle_bytes = gp_pools_idle(&gp_locked(device)->pools, gp_covered(engine));
  gp_lock_release(&device->lock);
  return free_bytes >= needed || idle_bytes >= needed - free_bytes;
}

void gp_engine_expect_capture(gp_engine_t *engine, gp_context_t *context)
{
  gp_device_t *device = context->device;
  uint64_t free_bytes, total_bytes;

  gp_lock_take(&device->lock);
  gp_heaps_collect(engine, device);
  bool uses_pools = gp_locked(device)->uses_pools;
  gp_lock_release(&device->lock);
  if (uses_pools && gp_device_keeps_memory(device))
    (void)gp_limit_ask(engine, context, &free_bytes, &total_bytes);
}

uint64_t gp_limit_set(gp_engine_t *engine, gp_device_t *device, const gp_amount_t *limit)
{
  gp_lock_take(&device->lock);
  gp_heaps_collect(engine, device); /* heaps stay closed while use exceeds a lowered limit */
  engine->limits[device->ordinal] = *limit;
  device->limit = gp_limit_of(engine, device->ordinal, device->total);
  if (device->limit == UINT64_MAX) {
    /* Without a limit, memory of the driver's pools beyond the sizes in use does not count. */
    gp_assert_internal(device->committed_bytes >= device->draining);
    device->committed_bytes -= device->draining;
    device->draining = 0;
  }
  device->unsettled = device->limit != UINT64_MAX && device->uses_pools;
  uint64_t committed = gp_account_in_use(device);
  uint64_t excess = committed > device->limit ? committed - device->limit : 0;
  device->lowered = excess > 0;
  gp_event_facts(engine, device);
  gp_lock_release(&device->lock);
  return excess;
}

uint64_t gp_engine_limit(gp_engine_t *engine, int device)
{
  gp_lock_take(&engine->devices[device].lock);
  uint64_t limit = gp_locked(&engine->devices[device])->limit;
  gp_lock_release(&engine->devices[device].lock);
  return limit == UINT64_MAX ? 0 : limit;
}

/* Returns the bytes of mapped memory for stream-ordered requests that are not in use. The caller holds the
 * device's lock. */
static uint64_t free_parts(const gp_device_t *device)
{
  uint64_t bytes = 0;

  gp_assert_internal(gp_lock_is_held(&device->lock));
  GP_LIST_EACH(&device->async_context.blocks, const gp_block_t, all, block)
    if (block->state == GP_STATE_IDLE || block->state == GP_STATE_DEFERRED || block->state == GP_STATE_BOUND)
      bytes += block->size;
  return bytes;
}

/*
 * Returns the bytes of the device that releasing all unused whole blocks would free. Small blocks may share
 * pages with memory in use, and the pool does not know which ones do. So small blocks count only while none
 * is in use. The caller holds the device's lock.
 */
static uint64_t whole_bytes(const gp_device_t *device)
{
  const gp_stats_t *stats = gp_device_stats(device);
  uint64_t unused = stats->cached_bytes.current + stats->deferred_bytes.current - free_parts(device);
  uint64_t small = 0;

  GP_LIST_EACH(gp_device_contexts(device), const gp_context_t, device_link, context)
    small += gp_bins_unused_bytes(&context->bins, GP_DRIVER_SHARED_MAX);
  uint64_t pages = device->shared_bytes <= small ? device->shared_pages * GP_DRIVER_PAGE : 0;
  return (unused > small ? unused - small : 0) + pages;
}

/*
 * Returns the cached bytes that count as free memory. Idle blocks are free at once, deferred blocks after a
 * wait. Parts of segments do not count. Programs query free memory to allocate nearly all of it at once, and
 * one allocation comes from a part or from the driver, never from both. *ret_part is the size of the largest
 * part for the context. The caller holds the device's lock.
 */
static uint64_t reusable_bytes(const gp_engine_t *engine, const gp_context_t *context, uint64_t *ret_part)
{
  const gp_device_t *device = context->device;
  uint64_t bytes = 0, part;

  *ret_part = 0;
  if (!engine->type->cuts) {
    gp_segment_measure(&device->async_context, &bytes, &part);
    return whole_bytes(device) + bytes;
  }
  GP_LIST_EACH(gp_device_contexts(device), const gp_context_t, device_link, other) {
    uint64_t whole;
    gp_segment_measure(other, &whole, &part);
    bytes += whole;
    if (other == context)
      *ret_part = part;
  }
  return bytes;
}

/* Returns the bytes of the driver's own pools, or those at the last report if the engine cannot query the
 * driver now. */
static gp_pool_bytes_t pools_of(gp_engine_t *engine, gp_context_t *context)
{
  gp_device_t *device = context->device;
  gp_pool_bytes_t pools;

  gp_lock_take(&device->lock);
  bool uses_pools = gp_locked(device)->uses_pools;
  gp_pool_bytes_t last = {device->queried_pools + device->pools.taken, device->pools.idle};
  gp_lock_release(&device->lock);
  if (!uses_pools || !gp_engine_enter(engine))
    return last;
  bool is_known = ask_pools(engine, context, &pools);
  gp_engine_leave(engine);
  return is_known ? pools : last;
}

/* Returns the free bytes of the device. free_bytes is the driver's value. With GPUPOOL_INTEGRATED=available,
 * the result is the available memory of the host, because the driver counts the host's page cache as used. */
static uint64_t free_on_device(
    gp_engine_t *engine, gp_context_t *context, uint64_t free_bytes, uint64_t total_bytes)
{
  uint64_t available = engine->asks_host ? gp_driver_host_available(engine, &context->driver) : 0;
  uint64_t reserve = gp_amount_resolve(&engine->reserve, total_bytes);

  if (available == 0)
    return free_bytes;
  return available > reserve ? available - reserve : 0;
}

/* Adds the pool's reusable memory to the free bytes, and caps the sum at the bytes that the limit leaves. */
void gp_engine_translate_info(
    gp_engine_t *engine, gp_context_t *context, uint64_t *free_bytes, uint64_t *total_bytes)
{
  gp_device_t *device = context->device;
  uint64_t part;

  gp_limit_settle(engine, context); /* under a limit, the driver's pools may have released memory */

  gp_pool_bytes_t pools = pools_of(engine, context);
  note_query(engine, device, *free_bytes, *total_bytes, &pools);
  *free_bytes = free_on_device(engine, context, *free_bytes, *total_bytes);

  gp_lock_take(&device->lock);
  gp_heaps_collect(engine, device);
  uint64_t reusable = reusable_bytes(engine, context, &part);
  uint64_t used = device->committed_bytes - reusable;
  uint64_t limit = device->limit;
  gp_lock_release(&device->lock);

  /* Round down to whole pages: the limit counts cudaMalloc in whole pages, and must not refuse memory that
   * was reported as free. */
  uint64_t allowed = used < limit ? (limit - used) & ~(GP_DRIVER_PAGE - 1) : 0;
  if (reusable > *total_bytes || *free_bytes > *total_bytes - reusable)
    *free_bytes = *total_bytes;
  else
    *free_bytes += reusable;
  if (*free_bytes > allowed)
    *free_bytes = allowed;
  if (*free_bytes < part)
    *free_bytes = part;
  if (*total_bytes > limit)
    *total_bytes = limit;
}

bool gp_engine_ask_info(gp_engine_t *engine, gp_context_t *context, uint64_t *ret_free, uint64_t *ret_total)
{
  uint64_t free_bytes;
  uint64_t total_bytes;

  if (!gp_limit_ask(engine, context, &free_bytes, &total_bytes))
    return false;
  gp_engine_translate_info(engine, context, &free_bytes, &total_bytes);
  *ret_free = free_bytes;
  *ret_total = total_bytes;
  return true;
}
