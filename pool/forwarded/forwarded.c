/*
 * Counts, limits and records device memory that is not pooled: managed, pitched, stream-ordered and mapped
 * memory, arrays, memory of graphs, and memory allocated during a capture.
 */
#include "pool/forwarded/forwarded.h"

#include "pool/reuse/await_pending.h"
#include "pool/serve/heaps.h"
#include "pool/reuse/contexts.h"
#include "pool/events.h"
#include "pool/forwarded/forwarded_counts.h"
#include "pool/limits/limit.h"
#include "pool/reuse/mode.h"
#include "pool/limits/oom.h"
#include "pool/limits/oom_turn.h"
#include "pool/limits/peak.h"
#include "pool/reuse/wait.h"

typedef struct gp_reservation {
  gp_engine_t *engine;
  gp_context_t *context;
  uint64_t bytes;
  gp_supply_t supply;
} gp_reservation_t;

static int attempt_reserve(void *arg, bool *by_limit)
{
  gp_reservation_t *reservation = arg;
  *by_limit =
      !gp_limit_reserve(reservation->engine, reservation->context, reservation->bytes, reservation->supply);
  return *by_limit ? reservation->engine->driver.ops->code_out_of_memory : 0;
}

/*
 * Attempts once to reserve memory that the driver's pools will serve. Returns out of memory while the pools
 * may lack that much. The caller then makes room before it calls the driver: a driver pool without memory may
 * wait for the device before it fails, even if only this engine keeps the memory.
 */
static int attempt_fit(void *arg, bool *by_limit)
{
  const gp_reservation_t *reservation = arg;
  *by_limit = false;
  return gp_limit_fits_pools(reservation->engine, reservation->context, reservation->bytes)
             ? 0
             : reservation->engine->driver.ops->code_out_of_memory;
}

static bool make_room(gp_reservation_t *reservation, uint64_t bytes, gp_oom_attempt_fn attempt,
    bool *by_limit, gp_oom_attempts_t *attempts)
{
  gp_engine_t *engine = reservation->engine;
  gp_context_t *context = reservation->context;
  int code;

  do
    code = gp_oom_make_room(engine, context, bytes, attempt, reservation, by_limit, attempts);
  while (code != 0 && gp_oom_again(engine, context, reservation->bytes, attempts));
  return code == 0;
}

static bool make_pools_fit(gp_reservation_t *reservation, gp_oom_attempts_t *attempts)
{
  gp_engine_t *engine = reservation->engine;
  gp_context_t *context = reservation->context;
  bool by_limit = false;

  if (reservation->supply != GP_SUPPLY_POOLS)
    return true;
  gp_heaps_settle(engine, context->device);
  if (!gp_device_keeps_memory(context->device) || attempt_fit(reservation, &by_limit) == 0 ||
      gp_oom_is_hopeless(engine, context, reservation->bytes))
    return true;
  (void)gp_wait_for_endings(engine, context->device, attempts);
  if (gp_engine_is_suspended(engine)) /* a suspended engine cannot make room */
    return false;
  return make_room(reservation, reservation->bytes, attempt_fit, &by_limit, attempts) ||
         gp_wait_in_doubt(engine, context->device, attempts);
}

/* Waits for pending stream-ordered frees, whose memory may become available soon. Returns true if it waited
 * on any device. */
static bool await_host(gp_engine_t *engine, gp_oom_attempts_t *attempts)
{
  bool any = false;

  GP_DEVICE_EACH(engine, device)
  {
    any = any || gp_pending_frees_wait(engine, device, attempts);
  }
  return any;
}

static bool reserve_on_host(gp_engine_t *engine, uint64_t bytes)
{
  gp_oom_attempts_t attempts = {.next_step = 0};
  bool granted;

  do
    granted = gp_host_limit_reserve(&engine->host_limit, bytes);
  while (!granted && bytes <= engine->host_limit.limit && await_host(engine, &attempts));
  return granted;
}

bool gp_engine_forwarded_reserve(
    gp_engine_t *engine, gp_context_t *context, uint64_t bytes, gp_forwarded_kind_t kind)
{
  gp_device_t *device = context->device;
  gp_reservation_t reservation = {engine, context, bytes, gp_forwarded_supply(kind)};
  uint64_t growth = gp_account_growth(device, bytes, reservation.supply);
  bool by_limit = true;
  gp_oom_attempts_t in_pools = {.next_step = 0};
  gp_oom_attempts_t in_limit = {.counted = growth};

  /* The driver's own pools serve a request as fast as this pool does, so the occasion is that of a pooled
   * allocation. */
  gp_find_origin(engine, gp_forwarded_is_driver_pooled(kind) ? GP_OCCASION_ALLOC : GP_OCCASION_DRIVER, bytes);
  gp_contexts_lose_gone(engine); /* a context that is gone may cause a suspension, or own the memory needed */
  if (gp_forwarded_is_host(kind)) {
    gp_event_first_use(engine);
    bool granted = reserve_on_host(engine, bytes);
    if (!granted)
      gp_host_limit_report(engine, context, bytes);
    return granted;
  }
  uint64_t largest_free = gp_oom_largest_idle(device);
  if (!gp_engine_refuses(engine) && !make_pools_fit(&reservation, &in_pools)) {
    gp_oom_report(engine, context, bytes, false, largest_free, &in_pools);
    return false;
  }
  if (!gp_engine_refuses(engine) && gp_limit_reserve(engine, context, bytes, reservation.supply))
    return true;
  if (!gp_engine_refuses(engine) && make_room(&reservation, growth, attempt_reserve, &by_limit, &in_limit))
    return true;
  gp_oom_report(engine, context, bytes, true, largest_free, &in_limit);
  return false;
}

bool gp_engine_forwarded_may_retry(gp_engine_t *engine, gp_context_t *context, gp_forwarded_retry_t *retry)
{
  (void)gp_wait_for_endings(engine, context->device, &retry->attempts);
  return !gp_engine_is_suspended(engine);
}

bool gp_engine_forwarded_retry(
    gp_engine_t *engine, gp_context_t *context, uint64_t bytes, gp_forwarded_retry_t *retry)
{
  bool is_first = !retry->has_begun;

  if (is_first) {
    retry->has_begun = true;
    retry->largest_free = gp_oom_largest_idle(context->device);
  }
  if (!(is_first && gp_oom_is_hopeless(engine, context, bytes)) &&
      (gp_oom_next_step(engine, context, bytes, false, &retry->attempts) ||
          gp_oom_again(engine, context, bytes, &retry->attempts)))
    return true;
  gp_oom_report(engine, context, bytes, false, retry->largest_free, &retry->attempts);
  return false;
}

void gp_engine_forwarded_cancel(
    gp_engine_t *engine, gp_context_t *context, uint64_t bytes, gp_forwarded_kind_t kind)
{
  gp_oom_turn_leave(context->device);
  if (gp_forwarded_is_host(kind))
    gp_host_limit_return(&engine->host_limit, bytes);
  else
    gp_limit_cancel(engine, context->device, bytes, gp_forwarded_supply(kind));
}

void gp_engine_forwarded_shrink(
    gp_context_t *context, uint64_t reserved, uint64_t used, gp_forwarded_kind_t kind)
{
  gp_device_t *device = context->device;

  gp_assert(used <= reserved);
  gp_lock_take(&device->lock);
  gp_account_shrink(device, reserved, used, gp_forwarded_supply(kind));
  gp_lock_release(&device->lock);
}

/* Returns true if the driver frees memory of this kind with its context. Memory of pools, mapped memory and
 * memory of graphs outlive the context (cuda.h, cuCtxDestroy). */
static bool ends_with_context(gp_forwarded_kind_t kind)
{
  return !gp_forwarded_is_driver_pooled(kind) && kind != GP_FORWARDED_PHYSICAL;
}

/*
 * Handles an address, returned by the driver, at which the pool still has a block. If another thread is
 * ending the block's context, the driver has already ended it. The address then belongs to the new memory,
 * whose free must not find the block. So the block is removed from the address map, and its record is freed
 * with the context. Otherwise the program has freed the block with a call that the library does not see. The
 * block then keeps representing the memory at that address.
 */
static void forget_former(gp_engine_t *engine, const gp_forwarded_t *memory)
{
  bool may_be_former = atomic_load(&engine->endings) > 0 && memory->address > 1 &&
                       gp_forwarded_space(memory->kind) == GP_SPACE_POINTER;
  void *former = may_be_former ? gp_address_map_find(&engine->blocks, memory->address) : NULL;
  if (former)
    gp_address_map_remove_value(&engine->blocks, memory->address, former);
}

void gp_engine_forwarded_commit(
    gp_engine_t *engine, gp_context_t *context, const gp_forwarded_t *memory, uint64_t duration_ns)
{
  gp_device_t *device = context->device;
  gp_forwarded_t own = *memory;

  gp_oom_turn_leave(device);
  own.key = memory->key ? memory->key : memory->address;
  own.counted = memory->counted ? memory->counted : memory->size;
  own.device = device->ordinal;
  own.context = ends_with_context(memory->kind) && context->driver.handle ? context : NULL;
  own.is_detached = false;
  own.observer_cookie = (gp_cookie_t){0, 0};
  own.origin = gp_origin(engine);
  forget_former(engine, &own);
  gp_lock_take(&device->lock);
  gp_releases_await(&device->releases, own.key, 1);
  own.block_id = gp_next_block_id(engine);
  if (!gp_forwarded_is_host(own.kind))
    gp_account_adopt(engine, device, own.address, own.counted, gp_forwarded_supply(own.kind));
  gp_gauge_add(gp_forwarded_is_host(own.kind) ? &gp_device_stats(device)->pinned_host_bytes
                                              : &gp_device_stats(device)->passthrough_bytes,
      own.size);
  gp_peak_note(engine, device);
  gp_event_forwarded(engine, &own, GP_ACTION_FORWARDED_ALLOC, own.time_ns, duration_ns);
  gp_event_facts(engine, device);
  gp_lock_release(&device->lock);
  gp_forwarded_keep(engine, &own);
  if (gp_forwarded_supply(own.kind) == GP_SUPPLY_POOLS) /* the pools may have reserved less or more */
    gp_limit_settle_growth(engine, context, own.counted);
}

bool gp_engine_forwarded_take(gp_engine_t *engine, gp_space_t space, uint64_t key, gp_forwarded_t *ret_memory)
{
  gp_find_origin(engine, GP_OCCASION_FREE, 0);
  gp_engine_tell_peaks(engine);
  if (!gp_forwarded_table_remove(&engine->forwarded, space, key, ret_memory))
    return false;
  gp_device_t *device = &engine->devices[ret_memory->device];
  ret_memory->release.address = key;
  ret_memory->release.size = 1;
  gp_lock_take(&device->lock);
  gp_releases_announce(&device->releases, &ret_memory->release);
  gp_lock_release(&device->lock);
  return true;
}

void gp_engine_forwarded_freed(
    gp_engine_t *engine, gp_forwarded_t *memory, uint64_t time_ns, uint64_t duration_ns)
{
  gp_device_t *device = &engine->devices[memory->device];

  gp_lock_take(&device->lock);
  gp_forwarded_uncount(engine, device, memory, time_ns, duration_ns);
  gp_releases_finish(&device->releases, &memory->release);
  gp_lock_release(&device->lock);
}

void gp_engine_forwarded_restore(gp_engine_t *engine, gp_forwarded_t *memory)
{
  gp_device_t *device = &engine->devices[memory->device];

  gp_lock_take(&device->lock);
  gp_releases_finish(&device->releases, &memory->release);
  gp_lock_release(&device->lock);
  gp_forwarded_keep(engine, memory);
}

gp_ending_pool_t gp_engine_mempool_ends(gp_engine_t *engine, uint64_t pool, int device, uint64_t reserved)
{
  gp_device_t *of_pool = &engine->devices[device];
  gp_ending_pool_t ending = {.device = device};
  uint64_t taken = 0;
  int ordinal;
  uint64_t size;

  while (gp_forwarded_table_detach_next(&engine->forwarded, pool, &ordinal, &size)) {
    gp_device_t *its = &engine->devices[ordinal];
    gp_lock_take(&its->lock);
    gp_account_detach(its, size);
    gp_lock_release(&its->lock);
    taken += gp_pools_taken(size);
    ending.has_orphans = true;
  }
  gp_lock_take(&of_pool->lock);
  gp_forwarded_pool_ends(engine, of_pool, gp_bytes_less(reserved, taken), &ending);
  gp_lock_release(&of_pool->lock);
  return ending;
}

void gp_engine_mempool_ended(gp_engine_t *engine, const gp_ending_pool_t *ending)
{
  gp_device_t *device = &engine->devices[ending->device];

  gp_lock_take(&device->lock);
  gp_forwarded_pool_ended(engine, device, ending);
  gp_lock_release(&device->lock);
}

bool gp_engine_forwarded_find(gp_engine_t *engine, gp_space_t space, uint64_t key, gp_forwarded_t *ret_memory)
{
  return gp_forwarded_table_find(&engine->forwarded, space, key, ret_memory);
}

size_t gp_engine_forwarded_copy(gp_engine_t *engine, int device, gp_forwarded_t *array, size_t capacity)
{
  return gp_forwarded_table_copy(&engine->forwarded, device, array, capacity);
}
