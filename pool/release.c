/*
 * Memory goes back to the driver. A block is first taken out of the map and its lists under the lock
 * (RELEASING), then the driver is called without a lock. The map comes first because the driver may give the
 * address to another thread as soon as it has it. If the driver refuses, the block goes back to where it was:
 * nothing is lost.
 */
#include "pool/state.h"
#include "pool/util/cancel.h"

void gp_release_start(gp_engine_t *engine, gp_block_t *block)
{
  gp_assert_internal(block->state != GP_STATE_RELEASING);
  if (block->state == GP_STATE_IDLE) {
    gp_block_leave_idle(block);
  } else if (block->state == GP_STATE_DEFERRED) {
    gp_list_remove(&block->order);
    gp_bins_find(&block->context->bins, block->size)->deferred_count--;
  }
  gp_address_map_remove_value(&engine->blocks, block->address, block);
  block->released_from = block->state;
  block->state = GP_STATE_RELEASING;
  block->release.address = block->address;
  gp_release_announce(block->context->device, &block->release);
}

void gp_release_announce(gp_device_t *device, gp_release_t *release)
{
  gp_list_push_back(&device->releases, &release->link);
}

void gp_release_finish(gp_device_t *device, gp_release_t *release)
{
  gp_list_remove(&release->link);
  pthread_cond_broadcast(&device->released);
}

static bool is_in_flight(const gp_device_t *device, uint64_t address)
{
  for (const gp_list_t *link = device->releases.next; link != &device->releases; link = link->next)
    if (gp_list_entry(link, gp_release_t, link)->address == address)
      return true;
  return false;
}

/*
 * The driver has given `address` anew while its former owner's thread, back from the driver's free, has not
 * got to recording that. Waiting for it keeps the history in the order in which things happened.
 */
void gp_release_await(gp_device_t *device, uint64_t address)
{
  while (is_in_flight(device, address))
    gp_lock_wait(&device->lock, &device->released);
}

bool gp_release_await_all(gp_device_t *device)
{
  gp_lock_take(&device->lock);
  bool any = !gp_list_is_empty(&device->releases);
  while (!gp_list_is_empty(&device->releases))
    gp_lock_wait(&device->lock, &device->released);
  gp_lock_release(&device->lock);
  return any;
}

/* The driver has an idle or deferred block back, or its context is gone; with the device's lock held. */
static void forget_unused(
    gp_engine_t *engine, gp_block_t *block, gp_detail_t why, uint64_t time_ns, uint64_t duration_ns)
{
  if (block->released_from == GP_STATE_DEFERRED)
    gp_block_end_use(engine, block, time_ns);
  gp_block_forget(engine, block, why, time_ns, duration_ns);
}

/* The driver refused a block: it is what it was, unless that fails, when it is given up. */
static void restore(gp_engine_t *engine, gp_block_t *block, uint64_t now_ns)
{
  if (atomic_load(&block->context->lost) || !gp_address_map_insert(&engine->blocks, block->address, block))
    forget_unused(engine, block, GP_DETAIL_CONTEXT_LOST, now_ns, 0);
  else if (block->released_from == GP_STATE_DEFERRED)
    gp_reuse_defer(engine, block);
  else
    gp_block_enter_idle(block, now_ns);
}

int gp_release_held(gp_engine_t *engine, gp_block_t *block)
{
  gp_device_t *device = block->context->device;
  uint64_t start_ns = gp_now(engine);
  int code = gp_driver_free(engine, &block->context->driver, block->address);

  gp_lock_take(&device->lock);
  gp_release_finish(device, &block->release);
  if (code == 0 || !gp_address_map_insert(&engine->blocks, block->address, block)) {
    gp_block_end_use(engine, block, start_ns);
    gp_block_forget(engine, block, GP_DETAIL_NONE, start_ns, gp_now(engine) - start_ns);
    device->stats->driver_frees += code == 0;
  } else {
    block->state = GP_STATE_RETAINED;
  }
  gp_lock_release(&device->lock);
  return code;
}

/* The program's free of a block, on its way to the driver. */
typedef struct gp_owned_free {
  gp_engine_t *engine;
  gp_block_t *block;
  uint64_t start_ns;
} gp_owned_free_t;

/*
 * The thread ended in the driver's free: nothing says whether the memory is free. The block is forgotten. If
 * the driver has it still, a later free of the address is the driver's to answer; keeping a block that is
 * gone would give one address two owners.
 */
static void forget_owned(void *arg)
{
  const gp_owned_free_t *owned = arg;
  gp_device_t *device = owned->block->context->device;

  gp_lock_take(&device->lock);
  gp_release_finish(device, &owned->block->release);
  gp_block_end_ownership(owned->engine, owned->block, GP_DETAIL_NONE, owned->start_ns);
  gp_block_end_use(owned->engine, owned->block, owned->start_ns);
  gp_block_forget(owned->engine, owned->block, GP_DETAIL_NONE, owned->start_ns, 0);
  gp_lock_release(&device->lock);
}

int gp_release_owned(gp_engine_t *engine, gp_block_t *block, gp_free_fn free_fn, void *arg)
{
  gp_device_t *device = block->context->device;
  uint64_t start_ns = gp_now(engine);
  gp_owned_free_t owned = {engine, block, start_ns};
  int code;

  gp_find_origin(engine, GP_OCCASION_DRIVER, 0);
  GP_CANCEL_UNDO(code,
      free_fn ? free_fn(arg) : gp_driver_free_for_program(engine, &block->context->driver, block->address),
      forget_owned, &owned);
  uint64_t duration_ns = gp_now(engine) - start_ns;

  gp_lock_take(&device->lock);
  gp_release_finish(device, &block->release); /* nobody runs before the lock is released */
  if (code == 0 || atomic_load(&block->context->lost)) {
    gp_block_end_ownership(engine, block, GP_DETAIL_NONE, start_ns);
    gp_block_end_use(engine, block, start_ns);
    gp_block_forget(engine, block, GP_DETAIL_NONE, start_ns, duration_ns);
    if (code == 0)
      device->stats->driver_frees++;
  } else {
    block->state = GP_STATE_LIVE;
    if (!gp_address_map_insert(&engine->blocks, block->address, block)) {
      gp_block_end_ownership(engine, block, GP_DETAIL_NONE, start_ns);
      gp_block_end_use(engine, block, start_ns);
      gp_block_forget(engine, block, GP_DETAIL_CONTEXT_LOST, start_ns, duration_ns);
    }
  }
  gp_lock_release(&device->lock);
  return code;
}

/* Gives a list of blocks (RELEASING, from IDLE or DEFERRED) back; returns the bytes that the driver took. */
static uint64_t release_list(
    gp_engine_t *engine, gp_device_t *device, gp_list_t *blocks, gp_trim_reason_t reason)
{
  uint64_t bytes = 0;
  uint64_t begin_ns = gp_now(engine);

  while (!gp_list_is_empty(blocks)) {
    gp_block_t *block = gp_list_entry(blocks->next, gp_block_t, order);
    gp_list_remove(&block->order);
    uint64_t start_ns = gp_now(engine);
    int code = gp_driver_free(engine, &block->context->driver, block->address);
    uint64_t end_ns = gp_now(engine);

    gp_lock_take(&device->lock);
    gp_release_finish(device, &block->release);
    if (code == 0) {
      bytes += block->size;
      device->stats->driver_frees++;
      forget_unused(engine, block, reason, start_ns, end_ns - start_ns);
    } else {
      restore(engine, block, end_ns);
    }
    gp_lock_release(&device->lock);
  }
  if (bytes > 0) {
    gp_lock_take(&device->lock);
    gp_event_device(engine, device->ordinal, GP_ACTION_TRIM, reason, bytes, begin_ns);
    gp_lock_release(&device->lock);
  }
  return bytes;
}

static gp_block_t *largest_idle(gp_device_t *device)
{
  gp_block_t *largest = NULL;
  for (gp_list_t *link = device->contexts.next; link != &device->contexts; link = link->next) {
    gp_context_t *context = gp_list_entry(link, gp_context_t, device_link);
    gp_bin_t *bin = gp_bins_largest(&context->bins);
    if (bin && (!largest || bin->size > largest->size))
      largest = bin->idle;
  }
  return largest;
}

uint64_t gp_oom_largest_idle(gp_device_t *device)
{
  gp_lock_take(&device->lock);
  const gp_block_t *block = largest_idle(device);
  uint64_t size = block ? block->size : 0;
  gp_lock_release(&device->lock);
  return size;
}

uint64_t gp_engine_largest_idle(gp_engine_t *engine, int device)
{
  return gp_oom_largest_idle(&engine->devices[device]);
}

uint64_t gp_release_largest(gp_engine_t *engine, gp_device_t *device, uint64_t bytes, gp_trim_reason_t reason)
{
  gp_list_t victims;
  uint64_t chosen = 0;
  uint64_t given = 0;

  if (!gp_engine_enter_wait(engine))
    return 0;
  gp_list_init(&victims);
  gp_lock_take(&device->lock);
  while (chosen < bytes) {
    gp_block_t *block = largest_idle(device);
    if (!block)
      break;
    gp_release_start(engine, block);
    gp_list_push_back(&victims, &block->order);
    chosen += block->size;
  }
  gp_lock_release(&device->lock);
  given = release_list(engine, device, &victims, reason);
  gp_engine_leave_wait(engine);
  return given;
}

uint64_t gp_release_unused(gp_engine_t *engine, gp_device_t *device, gp_trim_reason_t reason)
{
  gp_list_t victims;
  gp_block_t *block;

  gp_list_init(&victims);
  gp_lock_take(&device->lock);
  for (gp_list_t *link = device->contexts.next; link != &device->contexts; link = link->next) {
    gp_context_t *context = gp_list_entry(link, gp_context_t, device_link);
    while (!gp_list_is_empty(&context->deferred)) {
      block = gp_list_entry(context->deferred.next, gp_block_t, order);
      gp_release_start(engine, block);
      gp_list_push_back(&victims, &block->order);
    }
  }
  while ((block = largest_idle(device))) {
    gp_release_start(engine, block);
    gp_list_push_back(&victims, &block->order);
  }
  gp_lock_release(&device->lock);
  return release_list(engine, device, &victims, reason);
}

static bool is_expired(const gp_engine_t *engine, const gp_device_t *device, uint64_t now_ns)
{
  if (engine->idle_release_ns == UINT64_MAX || gp_list_is_empty(&device->idle))
    return false;
  const gp_block_t *oldest = gp_list_entry(device->idle.next, gp_block_t, order);
  return now_ns > oldest->idle_ns && now_ns - oldest->idle_ns >= engine->idle_release_ns;
}

bool gp_release_is_due(const gp_engine_t *engine, const gp_device_t *device, uint64_t now_ns)
{
  return device->stats->cached_bytes.current > engine->max_cached || is_expired(engine, device, now_ns) ||
         (gp_device_is_over_limit(device) && !gp_list_is_empty(&device->idle));
}

uint64_t gp_release_surplus(gp_engine_t *engine, gp_device_t *device, uint64_t now_ns)
{
  gp_list_t victims;
  gp_trim_reason_t reason = GP_TRIM_IDLE;
  uint64_t given = 0;

  if (!gp_engine_enter_wait(engine))
    return 0;
  gp_list_init(&victims);
  gp_lock_take(&device->lock);
  if (device->stats->cached_bytes.current > engine->max_cached)
    reason = GP_TRIM_MAX_CACHED;
  else if (gp_device_is_over_limit(device))
    reason = GP_TRIM_REQUESTED;
  while (gp_release_is_due(engine, device, now_ns)) {
    gp_block_t *oldest = gp_list_entry(device->idle.next, gp_block_t, order);
    gp_release_start(engine, oldest);
    gp_list_push_back(&victims, &oldest->order);
  }
  gp_lock_release(&device->lock);
  given = release_list(engine, device, &victims, reason);
  gp_engine_leave_wait(engine);
  return given;
}

uint64_t gp_engine_trim(gp_engine_t *engine, gp_context_t *context, uint64_t bytes, gp_trim_reason_t reason)
{
  return gp_release_largest(engine, context->device, bytes, reason);
}
