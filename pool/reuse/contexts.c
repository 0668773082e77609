#include "pool/reuse/contexts.h"

#include <stdlib.h>

#include "pool/events.h"
#include "pool/serve/heaps.h"
#include "pool/forwarded/forwarded_counts.h"
#include "pool/limits/limit.h"
#include "pool/serve/map_range.h"
#include "pool/reuse/mode.h"
#include "pool/reuse/stream_records.h"
#include "pool/reuse/known_streams.h"
#include "pool/reuse/stamps.h"
#include "pool/space/block_life.h"
#include "pool/space/bound_parts.h"
#include "pool/space/free_events.h"

static gp_context_t *find_live(gp_engine_t *engine, const void *handle)
{
  gp_assert_internal(gp_lock_is_held(&engine->contexts_lock));
  GP_LIST_EACH(gp_live_contexts(engine), gp_context_t, live_link, context)
    if (context->driver.handle == handle)
      return context;
  return NULL;
}

gp_context_t *gp_engine_find_context(gp_engine_t *engine, const void *handle)
{
  gp_lock_take(&engine->contexts_lock);
  gp_context_t *context = find_live(engine, handle);
  gp_lock_release(&engine->contexts_lock);
  return context;
}

void gp_context_init(gp_context_t *context, const gp_driver_context_t *driver_context, gp_device_t *device)
{
  context->driver = *driver_context;
  context->device = device;
  gp_list_init(&context->blocks);
  gp_list_init(&context->segments);
  gp_list_init(&context->deferred);
  gp_list_init(&context->quarantine);
  gp_list_init(&context->device_link);
  gp_list_init(&context->stream_records);
  gp_bins_init(&context->bins);
  atomic_flag_clear(&context->fences.busy);
  atomic_init(&context->completed, 0); /* work from before, which the engine does not know, may be pending */
  atomic_init(&context->gone, false);
  atomic_init(&context->lost, false);
}

static gp_context_t *make_context(gp_engine_t *engine, const gp_driver_context_t *driver_context)
{
  gp_context_t *context = calloc(1, sizeof(*context));
  if (context)
    gp_context_init(context, driver_context, &engine->devices[driver_context->device]);
  return context;
}

/* From now on includes the device in snapshots. */
static void note_device(gp_engine_t *engine, gp_device_t *device)
{
  uint64_t bit = UINT64_C(1) << device->ordinal;

  if (atomic_load_explicit(&engine->device_mask, memory_order_relaxed) & bit ||
      atomic_fetch_or(&engine->device_mask, bit) & bit)
    return;
  gp_lock_take(&device->lock);
  gp_event_device(engine, device->ordinal, GP_ACTION_MODE, gp_engine_mode(engine), 0, gp_now(engine));
  gp_lock_release(&device->lock);
}

gp_context_t *gp_engine_device_context(gp_engine_t *engine, int ordinal)
{
  if (ordinal < 0 || ordinal >= GP_MAX_DEVICES)
    return NULL;
  gp_device_t *device = &engine->devices[ordinal];
  gp_context_t *context = &device->stand_in;
  gp_lock_take(&device->lock);
  if (gp_device_contexts(device)->next != &device->async_context.device_link)
    context = gp_list_entry(gp_device_contexts(device)->next, gp_context_t, device_link);
  gp_lock_release(&device->lock);
  note_device(engine, device);
  return context;
}

/* Adds a new context to the engine. The caller holds contexts_lock. */
static void file(gp_engine_t *engine, gp_context_t *context)
{
  gp_assert_internal(gp_lock_is_held(&engine->contexts_lock));
  context->next_any = engine->all_contexts;
  engine->all_contexts = context;
  (void)gp_covered_raise(engine); /* before the new context, which has completed nothing, is added */
  gp_list_push_back(&engine->contexts, &context->live_link);
  gp_known_streams_add_context(engine, context);
  if (!context->driver.is_primary && !engine->is_plain)
    atomic_store(&context->device->async_is_apart, true);
  gp_lock_take(&context->device->lock);
  gp_assert_internal(gp_lock_is_held(&context->device->lock));
  gp_list_push_back(
      &context->device->async_context.device_link, &context->device_link); /* goes before async_context */
  gp_lock_release(&context->device->lock);
}

/* Returns the live record of a context handle, or NULL. */
static gp_context_t *find_valid(gp_engine_t *engine, const gp_driver_context_t *driver_context)
{
  gp_lock_take(&engine->contexts_lock);
  gp_context_t *context = find_live(engine, driver_context->handle);
  gp_lock_release(&engine->contexts_lock);
  if (context && context->driver.id != driver_context->id) {
    gp_engine_context_lost(engine, context); /* ended unnoticed, and the driver reused the handle */
    return NULL;
  }
  return context;
}

gp_context_t *gp_engine_context(gp_engine_t *engine, const gp_driver_context_t *driver_context)
{
  gp_assert(!gp_holds_engine_lock());
  gp_context_t *known = find_valid(engine, driver_context);
  if (known)
    return known;
  gp_context_t *made = make_context(engine, driver_context);
  if (!made)
    return NULL;

  gp_lock_take(&engine->contexts_lock);
  known = find_live(engine, driver_context->handle); /* another thread may have added the record meanwhile */
  if (!known)
    file(engine, made);
  gp_lock_release(&engine->contexts_lock);
  if (known) {
    free(made);
    return known;
  }
  note_device(engine, made->device);
  gp_limit_resolve(engine, made);
  return made;
}

uint64_t gp_context_id(const gp_context_t *context)
{
  return context->driver.id;
}

void *gp_context_handle(const gp_context_t *context)
{
  return context->driver.handle;
}

int gp_context_device(const gp_context_t *context)
{
  return context->driver.device;
}

bool gp_context_is_lost(const gp_context_t *context)
{
  return atomic_load_explicit(&context->lost, memory_order_acquire);
}

/* Ends the use of a block by the program or, if the program has freed the block, by the device. */
static void end_use(gp_engine_t *engine, gp_block_t *block, uint64_t now_ns)
{
  if (block->state == GP_STATE_BOUND) {
    gp_bound_leave(block);
    return;
  }
  if (block->state == GP_STATE_LIVE)
    gp_block_end_ownership(engine, block, GP_DETAIL_CONTEXT_LOST, now_ns);
  else if (block->state == GP_STATE_DEFERRED)
    gp_stamp_leave_deferred(block);
  else if (block->state == GP_STATE_QUARANTINED)
    gp_list_remove(&block->order);
  gp_block_end_use(engine, block, now_ns);
}

/* Ends all use of the context's segments, so that each segment becomes idle as a whole. */
static void end_parts(gp_engine_t *engine, gp_context_t *context, uint64_t now_ns)
{
  for (gp_list_t *link = context->blocks.next; link != &context->blocks; link = link->next) {
    gp_block_t *block = gp_list_entry(link, gp_block_t, all); /* joining the block leaves it in the list */
    bool is_used = block->state == GP_STATE_LIVE || block->state == GP_STATE_RETAINED ||
                   block->state == GP_STATE_DEFERRED || block->state == GP_STATE_BOUND ||
                   block->state == GP_STATE_QUARANTINED;
    if (!block->segment || !is_used)
      continue;
    end_use(engine, block, now_ns);
    block->refs = 0;
    gp_block_enter_idle(engine, block, now_ns);
  }
}

/* Drops one block of a lost context. Leaves RELEASING blocks to the thread that releases them, and mapped
 * memory to gp_map_range_lose. The caller holds the device's lock. */
static void forget_lost(gp_engine_t *engine, gp_block_t *block, uint64_t now_ns)
{
  if (block->state == GP_STATE_RELEASING || (block->segment && block->segment->range))
    return;
  if (block->state == GP_STATE_IDLE)
    gp_block_leave_idle(block);
  else
    end_use(engine, block, now_ns);
  gp_address_map_remove_value(&engine->blocks, block->address, block);
  gp_block_forget(engine, block, GP_DETAIL_CONTEXT_LOST, now_ns, 0);
}

void gp_engine_context_lost(gp_engine_t *engine, gp_context_t *context)
{
  gp_assert(!gp_holds_engine_lock());
  if (!context)
    return;
  gp_engine_tell_peaks(engine);
  gp_lock_take(&engine->contexts_lock);
  bool already = atomic_exchange(&context->lost, true);
  if (!already) {
    gp_assert_internal(gp_lock_is_held(&engine->contexts_lock));
    gp_list_remove(&context->live_link);
    gp_known_streams_drop_context(engine, context);
    gp_mode_context_lost(engine, context);
  }
  gp_lock_release(&engine->contexts_lock);
  if (already)
    return;

  gp_device_t *device = context->device;
  uint64_t asked_ns = gp_now(engine);
  gp_lock_take(&device->lock);
  gp_heaps_collect(engine, device);
  uint64_t now_ns = gp_device_time(device, asked_ns);
  end_parts(engine, context, now_ns);
  GP_LIST_EACH_SAFE(&context->blocks, gp_block_t, all, block)
    forget_lost(engine, block, now_ns);
  gp_lock_release(&device->lock);
  gp_map_range_lose(engine, context);
  gp_lock_take(&device->lock);
  gp_list_remove(&context->device_link);
  gp_lock_release(&device->lock);
  gp_forwarded_context_lost(engine, context);
  gp_stream_records_lose_context(engine, context);
  gp_lock_take(&device->lock);
  gp_free_events_fini(context);
  gp_lock_release(&device->lock);
  /* The context's fences have ended with it, and no memory waits for the context any more. */
  gp_advance(engine);
}

/* Marks every live context that matches as lost, one at a time, because gp_engine_context_lost takes the
 * lock. */
static void lose_all(
    gp_engine_t *engine, bool (*matches)(const gp_context_t *context, int device), int device)
{
  gp_context_t *found;

  do {
    found = NULL;
    gp_lock_take(&engine->contexts_lock);
    GP_LIST_EACH(gp_live_contexts(engine), gp_context_t, live_link, context)
      if (!found && matches(context, device))
        found = context;
    gp_lock_release(&engine->contexts_lock);
    gp_engine_context_lost(engine, found);
  } while (found);
}

static bool is_primary_of(const gp_context_t *context, int device)
{
  return context->driver.is_primary && context->driver.device == device;
}

void gp_engine_primary_lost(gp_engine_t *engine, int device)
{
  lose_all(engine, is_primary_of, device);
}

static bool is_gone(const gp_context_t *context, int device)
{
  return atomic_load(&context->gone);
}

void gp_contexts_lose_gone(gp_engine_t *engine)
{
  if (atomic_load_explicit(&engine->has_gone_contexts, memory_order_relaxed) &&
      atomic_exchange(&engine->has_gone_contexts, false))
    lose_all(engine, is_gone, 0);
}
