/*
 * To release a block, a thread first removes it from the address map and its lists under the lock (state
 * RELEASING). Then it calls the driver without a lock. The map comes first, because the driver may return the
 * address to another thread as soon as it has freed the memory. If the driver refuses, the block returns to
 * its former state.
 */
#include "pool/limits/release.h"

#include "pool/serve/heaps.h"
#include "pool/space/driver_calls.h"
#include "pool/events.h"
#include "pool/limits/limit.h"
#include "pool/reuse/mode.h"
#include "pool/reuse/pending_frees.h"
#include "pool/reuse/drain.h"
#include "pool/reuse/stream_records.h"
#include "pool/reuse/stamps.h"
#include "pool/space/block_life.h"
#include "pool/space/budget.h"
#include "pool/space/mapped.h"
#include "pool/space/segment.h"
#include "pool/space/surplus.h"
#include "base/cancel.h"

void gp_release_start(gp_engine_t *engine, gp_block_t *block)
{
  gp_assert_internal(gp_lock_is_held(&block->context->device->lock));
  gp_assert_internal(block->state != GP_STATE_RELEASING);
  gp_assert_internal(!block->segment || block->segment->range ||
                     (block->state == GP_STATE_IDLE && gp_segment_is_whole(block)));
  gp_assert_internal(!block->segment || !block->segment->range || block->state == GP_STATE_MAPPING);
  if (block->state == GP_STATE_IDLE)
    gp_block_leave_idle(block);
  else if (block->state == GP_STATE_DEFERRED)
    gp_stamp_leave_deferred(block);
  else if (block->state == GP_STATE_QUARANTINED)
    gp_list_remove(&block->order);
  gp_address_map_remove_value(&engine->blocks, block->address, block);
  block->released_from = block->state == GP_STATE_MAPPING ? GP_STATE_IDLE : block->state;
  block->state = GP_STATE_RELEASING;
  block->release.address = block->address;
  block->release.size = block->size;
  gp_releases_announce(&block->context->device->releases, &block->release);
}

/* Drops the record of an idle or deferred block whose memory the driver has freed, or whose context has
 * ended. The caller holds the device's lock. */
static void forget_unused(
    gp_engine_t *engine, gp_block_t *block, gp_detail_t why, uint64_t time_ns, uint64_t duration_ns)
{
  if (block->released_from == GP_STATE_DEFERRED || block->released_from == GP_STATE_QUARANTINED)
    gp_block_end_use(engine, block, time_ns);
  gp_block_forget(engine, block, why, time_ns, duration_ns);
}

/* Returns a block, which the driver refused to free, to its former state. If that fails, drops the block. */
static void restore(gp_engine_t *engine, gp_block_t *block, uint64_t now_ns)
{
  bool is_lost = atomic_load(&block->context->lost);

  if (!is_lost && block->segment)
    gp_block_enter_idle(engine, block, now_ns);
  else if (is_lost || !gp_address_map_insert(&engine->blocks, block->address, block))
    forget_unused(engine, block, GP_DETAIL_CONTEXT_LOST, now_ns, 0);
  else if (block->released_from == GP_STATE_DEFERRED)
    gp_stamp_and_defer(engine, block);
  else if (block->released_from == GP_STATE_QUARANTINED)
    gp_block_enter_quarantine(block);
  else
    gp_block_enter_idle(engine, block, now_ns);
}

int gp_release_retained(gp_engine_t *engine, gp_block_t *block)
{
  gp_device_t *device = block->context->device;
  uint64_t start_ns = gp_now(engine);
  int code = gp_driver_free(engine, &block->context->driver, block->address);

  gp_lock_take(&device->lock);
  gp_releases_finish(&device->releases, &block->release);
  if (code == 0 || !gp_address_map_insert(&engine->blocks, block->address, block)) {
    gp_block_end_use(engine, block, start_ns);
    gp_block_forget(engine, block, GP_DETAIL_NONE, start_ns, gp_now(engine) - start_ns);
    gp_device_stats(device)->driver_frees += code == 0;
  } else {
    block->state = GP_STATE_RETAINED;
  }
  gp_lock_release(&device->lock);
  return code;
}

/* State of a program's free of a block during the driver call. */
typedef struct gp_owned_free {
  gp_engine_t *engine;
  gp_block_t *block;
  uint64_t start_ns;
} gp_owned_free_t;

/*
 * Drops a block after its thread was cancelled in the driver's free, when it is unknown whether the memory is
 * free. If it is not free, a later free of the address is forwarded to the driver. If it is free, keeping the
 * block could give one address two owners.
 */
static void forget_owned(void *arg)
{
  const gp_owned_free_t *owned = arg;
  gp_device_t *device = owned->block->context->device;

  gp_lock_take(&device->lock);
  gp_releases_finish(&device->releases, &owned->block->release);
  gp_block_end(owned->engine, owned->block, GP_DETAIL_NONE, owned->start_ns, 0);
  gp_lock_release(&device->lock);
}

/* Records a stream-ordered free of the block as pending. The caller holds the device's lock. */
static void note_pending_free(gp_engine_t *engine, const gp_block_t *block, const gp_stream_order_t *order)
{
  gp_pending_free_add(engine, block->context->device,
      &(gp_pending_free_t){.address = block->address,
          .bytes = block->size,
          .supply = GP_SUPPLY_PLAIN,
          .owner = block->context},
      order);
}

int gp_release_owned(
    gp_engine_t *engine, gp_block_t *block, const gp_stream_order_t *order, gp_free_fn free_fn, void *arg)
{
  gp_device_t *device = block->context->device;
  uint64_t start_ns = gp_now(engine);
  gp_owned_free_t owned = {engine, block, start_ns};
  int code;

  gp_find_origin(engine, GP_OCCASION_DRIVER, 0);
  GP_CANCEL_UNDO(code,
      free_fn ? free_fn(arg, false)
              : gp_driver_free_for_program(engine, &block->context->driver, block->address),
      forget_owned, &owned);
  uint64_t duration_ns = gp_now(engine) - start_ns;

  gp_lock_take(&device->lock);
  gp_heap_fold_own(engine, device, false);
  gp_releases_finish(&device->releases, &block->release); /* waiters run only after the lock is released */
  if (code == 0 || atomic_load(&block->context->lost)) {
    if (code == 0 && free_fn)
      note_pending_free(engine, block, order);
    gp_block_end(engine, block, GP_DETAIL_NONE, start_ns, duration_ns);
    gp_device_stats(device)->driver_frees += code == 0;
  } else {
    block->state = GP_STATE_LIVE;
    if (!gp_address_map_insert(&engine->blocks, block->address, block))
      gp_block_end(engine, block, GP_DETAIL_CONTEXT_LOST, start_ns, duration_ns);
  }
  gp_lock_release(&device->lock);
  return code;
}

/* Releases a chunk of mapped memory whose block is RELEASING: first the handle, then the mapping. If the
 * driver refuses to unmap the chunk, the pool keeps the memory until the next attempt. Returns the driver's
 * code. */
static int release_chunk(gp_engine_t *engine, const gp_block_t *block)
{
  gp_device_t *device = block->context->device;
  const gp_driver_context_t *driver_context = &block->context->driver;
  const gp_range_t *range = block->segment->range;
  int code = 0;

  gp_lock_take(&device->lock);
  const gp_chunk_t chunk = *gp_chunks_find(range, block->address);
  gp_lock_release(&device->lock);
  if (!chunk.has_no_handle)
    code = gp_driver_destroy(engine, driver_context, chunk.handle);
  if (code != 0)
    return code;
  gp_lock_take(&device->lock);
  gp_chunks_find(range, block->address)->has_no_handle = true;
  gp_lock_release(&device->lock);
  return gp_driver_unmap(engine, driver_context, chunk.address, chunk.size);
}

static bool is_chunk(const gp_block_t *block)
{
  return block->segment && block->segment->range;
}

/* Finishes the release of a block after the driver has returned `code`. The block is RELEASING, and was IDLE
 * or DEFERRED before. The caller holds the device's lock. */
static void finish_release(gp_engine_t *engine, gp_block_t *block, int code, gp_trim_reason_t reason,
    uint64_t start_ns, uint64_t end_ns)
{
  gp_device_t *device = block->context->device;

  gp_releases_finish(&device->releases, &block->release);
  if (code == 0) {
    gp_device_stats(device)->driver_frees++;
    forget_unused(engine, block, reason, start_ns, end_ns - start_ns);
  } else {
    restore(engine, block, end_ns);
  }
}

/* Releases a block, which is RELEASING and was IDLE or DEFERRED before. Returns the driver's code. */
static int release_one(gp_engine_t *engine, gp_block_t *block, gp_trim_reason_t reason)
{
  gp_device_t *device = block->context->device;
  uint64_t start_ns = gp_now(engine);
  int code = is_chunk(block) ? release_chunk(engine, block)
                             : gp_driver_free(engine, &block->context->driver, block->address);
  uint64_t end_ns = gp_now(engine);

  gp_lock_take(&device->lock);
  finish_release(engine, block, code, reason, start_ns, end_ns);
  gp_lock_release(&device->lock);
  return code;
}

/* Releases a list of blocks, which are RELEASING and were IDLE or DEFERRED before. Returns the bytes that the
 * driver freed. */
static uint64_t release_list(
    gp_engine_t *engine, gp_device_t *device, gp_list_t *blocks, gp_trim_reason_t reason)
{
  uint64_t bytes = 0;
  uint64_t begin_ns = gp_now(engine);

  while (!gp_list_is_empty(blocks)) {
    gp_block_t *block = gp_list_entry(blocks->next, gp_block_t, order);
    gp_list_remove(&block->order);
    uint64_t size = block->size; /* read now, because the record is recycled with the block */
    if (release_one(engine, block, reason) == 0)
      bytes += size;
  }
  if (bytes > 0) {
    gp_lock_take(&device->lock);
    gp_event_device(engine, device->ordinal, GP_ACTION_TRIM, reason, bytes, begin_ns);
    gp_lock_release(&device->lock);
  }
  return bytes;
}

/* Begins the release of a block and adds the block to the list of victims. The caller holds the device's
 * lock. */
static void choose(gp_engine_t *engine, gp_list_t *victims, gp_block_t *block)
{
  gp_release_start(engine, block);
  gp_list_push_back(victims, &block->order);
}

/* Returns the largest idle whole block. If no whole block is idle, returns the largest chunk that can be
 * released, or NULL. */
static gp_block_t *largest_of(gp_engine_t *engine, gp_device_t *device)
{
  gp_block_t *block = gp_block_largest_idle(device);

  GP_LIST_EACH(gp_device_contexts(device), const gp_context_t, device_link, context)
    if (!block)
      block = gp_mapped_cut_out(engine, context, gp_covered(engine), false);
  return block;
}

uint64_t gp_release_largest(gp_engine_t *engine, gp_device_t *device, uint64_t bytes, gp_trim_reason_t reason)
{
  gp_list_t victims;
  gp_block_t *block;

  gp_assert(!gp_holds_engine_lock());
  if (!gp_engine_enter_wait(engine))
    return 0;
  gp_drain_device(engine, device);
  gp_list_init(&victims);
  gp_lock_take(&device->lock);
  for (uint64_t chosen = 0; chosen < bytes && (block = largest_of(engine, device)); chosen += block->size)
    choose(engine, &victims, block);
  gp_lock_release(&device->lock);
  uint64_t given = release_list(engine, device, &victims, reason);
  gp_engine_leave_wait(engine);
  return given;
}

/* Adds the context's idle mapped memory, whose free every context has completed, to the list of victims. The
 * caller holds the device's lock. */
static void choose_mapped(gp_engine_t *engine, gp_context_t *context, gp_list_t *victims)
{
  gp_block_t *chunk;

  gp_assert_internal(gp_lock_is_held(&context->device->lock));
  while ((chunk = gp_mapped_cut_out(engine, context, gp_covered(engine), false)))
    choose(engine, victims, chunk);
}

uint64_t gp_release_unused(gp_engine_t *engine, gp_context_t *context, gp_trim_reason_t reason)
{
  gp_device_t *device = context->device;
  gp_list_t victims;

  gp_assert(!gp_holds_engine_lock());
  gp_list_init(&victims);
  gp_lock_take(&device->lock);
  GP_LIST_EACH_SAFE(&context->deferred, gp_block_t, order, block)
    if (!block->segment)
      choose(engine, &victims, block);
  GP_LIST_EACH_SAFE(&context->quarantine, gp_block_t, order, block)
    if (!block->segment && !block->is_searched)
      choose(engine, &victims, block);
  GP_LIST_EACH_SAFE(&device->idle, gp_block_t, order, block)
    if (block->context == context)
      choose(engine, &victims, block);
  choose_mapped(engine, context, &victims);
  gp_lock_release(&device->lock);
  return release_list(engine, device, &victims, reason);
}

uint64_t gp_release_async(gp_engine_t *engine, gp_device_t *device, gp_trim_reason_t reason)
{
  gp_list_t victims;

  gp_assert(!gp_holds_engine_lock());
  if (!gp_engine_enter(engine))
    return 0;
  gp_list_init(&victims);
  gp_lock_take(&device->lock);
  choose_mapped(engine, &device->async_context, &victims);
  gp_lock_release(&device->lock);
  uint64_t given = release_list(engine, device, &victims, reason);
  gp_engine_leave(engine);
  return given;
}

/* Adds idle blocks of stream-ordered memory to the list of victims. The caller holds the device's lock. */
static void choose_async(gp_engine_t *engine, gp_device_t *device, gp_list_t *victims)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  GP_LIST_EACH_SAFE(&device->idle, gp_block_t, order, block)
    if (gp_block_is_async(block) && !block->segment)
      choose(engine, victims, block);
}

uint64_t gp_release_pooled_async(gp_engine_t *engine, gp_device_t *device, gp_trim_reason_t reason)
{
  gp_list_t victims;

  gp_assert(!gp_holds_engine_lock());
  if (!gp_engine_enter_wait(engine))
    return 0;
  gp_list_init(&victims);
  gp_lock_take(&device->lock);
  choose_async(engine, device, &victims);
  gp_lock_release(&device->lock);
  uint64_t given = release_list(engine, device, &victims, reason);
  gp_engine_leave_wait(engine);
  return given;
}

uint64_t gp_release_surplus(gp_engine_t *engine, gp_context_t *context, uint64_t now_ns)
{
  gp_device_t *device = context->device;
  gp_trim_reason_t reason = GP_TRIM_IDLE;
  unsigned spared = 0;
  gp_list_t victims;
  gp_block_t *block;

  gp_assert(!gp_holds_engine_lock());
  if (!gp_engine_enter_wait(engine))
    return 0;
  gp_list_init(&victims);
  gp_lock_take(&device->lock);
  while ((block = gp_surplus_next(engine, context, now_ns, spared, &reason))) {
    gp_surplus_went(device, block->size);
    spared += reason == GP_TRIM_SPARE;
    if (reason == GP_TRIM_SPARE && block->segment)
      gp_segment_spared(device, block);
    choose(engine, &victims, block);
  }
  gp_lock_release(&device->lock);
  uint64_t given = release_list(engine, device, &victims, reason);
  gp_engine_leave_wait(engine);
  return given;
}

bool gp_release_deferred(gp_engine_t *engine, gp_block_t *block, uint64_t block_id, int *ret_code)
{
  gp_device_t *device = __atomic_load_n(&block->context, __ATOMIC_RELAXED)->device;

  gp_assert(!gp_holds_engine_lock());
  gp_lock_take(&device->lock);
  gp_assert_internal(gp_lock_is_held(&device->lock)); /* may be another block's record by now: check the id */
  bool is_there = block->block_id == block_id && block->state == GP_STATE_DEFERRED && !block->segment;
  if (is_there)
    gp_release_start(engine, block);
  gp_lock_release(&device->lock);
  if (is_there)
    *ret_code = release_one(engine, block, GP_TRIM_REQUESTED);
  return is_there;
}

uint64_t gp_engine_trim(gp_engine_t *engine, gp_context_t *context, uint64_t bytes, gp_trim_reason_t reason)
{
  gp_engine_flush(engine, context->device);
  return gp_release_largest(engine, context->device, bytes, reason);
}
