/*
 * Contexts of the driver: met, found, and lost with all their memory.
 */
#include <stdlib.h>

#include "pool/state.h"

static gp_context_t *find_live(gp_engine_t *engine, const void *handle)
{
  for (gp_list_t *link = engine->contexts.next; link != &engine->contexts; link = link->next) {
    gp_context_t *context = gp_list_entry(link, gp_context_t, live_link);
    if (context->driver.handle == handle)
      return context;
  }
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
  gp_list_init(&context->deferred);
  gp_list_init(&context->device_link);
  gp_list_init(&context->streams);
  gp_bins_init(&context->bins);
  atomic_flag_clear(&context->fence.busy);
  atomic_init(&context->completed, 0); /* work that it submitted before we met it may be pending */
  atomic_init(&context->lost, false);
}

static gp_context_t *make_context(gp_engine_t *engine, const gp_driver_context_t *driver_context)
{
  gp_context_t *context = calloc(1, sizeof(*context));
  if (context)
    gp_context_init(context, driver_context, &engine->devices[driver_context->device]);
  return context;
}

/* From now on the device is one of those that snapshots speak of. */
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
  if (!gp_list_is_empty(&device->contexts))
    context = gp_list_entry(device->contexts.next, gp_context_t, device_link);
  gp_lock_release(&device->lock);
  note_device(engine, device);
  return context;
}

gp_context_t *gp_engine_context(gp_engine_t *engine, const gp_driver_context_t *driver_context)
{
  gp_context_t *made = NULL;
  gp_detail_t mode = GP_DETAIL_NONE;

  gp_lock_take(&engine->contexts_lock);
  gp_context_t *context = find_live(engine, driver_context->handle);
  bool may_be_owed = context != engine->mono_context;
  gp_lock_release(&engine->contexts_lock);
  if (context && context->driver.id == driver_context->id) {
    if (may_be_owed)
      (void)gp_single_stream_settle(engine); /* another thread has filed it, and may be at that still */
    return context;
  }
  gp_engine_context_lost(engine, context);

  made = make_context(engine, driver_context);
  if (!made)
    return NULL;
  gp_lock_take(&engine->contexts_lock);
  context = find_live(engine, driver_context->handle);
  if (!context) {
    context = made;
    made->next_any = engine->all_contexts;
    engine->all_contexts = made;
    gp_list_push_back(&engine->contexts, &made->live_link);
    gp_streams_add_context(engine, made);
    mode = gp_single_stream_add_context(engine, made);
    gp_lock_take(&made->device->lock);
    gp_list_push_back(&made->device->contexts, &made->device_link);
    gp_lock_release(&made->device->lock);
  }
  gp_lock_release(&engine->contexts_lock);
  if (context != made) {
    free(made); /* another thread was first */
    (void)gp_single_stream_settle(engine);
    return context;
  }
  gp_single_stream_tell(mode);
  (void)gp_single_stream_settle(
      engine); /* what the first context still does, the second one does not wait for */
  note_device(engine, made->device);
  gp_limit_resolve(engine, made);
  return made;
}

uint64_t gp_context_id(const gp_context_t *context)
{
  return context->driver.id;
}

int gp_context_device(const gp_context_t *context)
{
  return context->driver.device;
}

bool gp_context_is_lost(const gp_context_t *context)
{
  return atomic_load_explicit(&context->lost, memory_order_acquire);
}

/* Forgets one block of a lost context; the device's lock is held. A block that is RELEASING is its
 * releaser's. */
static void forget_lost(gp_engine_t *engine, gp_block_t *block, uint64_t now_ns)
{
  switch (block->state) {
  case GP_STATE_RELEASING: return;
  case GP_STATE_LIVE:
    gp_block_end_ownership(engine, block, GP_DETAIL_CONTEXT_LOST, now_ns);
    gp_block_end_use(engine, block, now_ns);
    break;
  case GP_STATE_DEFERRED:
    gp_list_remove(&block->order);
    gp_bins_find(&block->context->bins, block->size)->deferred_count--;
    gp_block_end_use(engine, block, now_ns);
    break;
  case GP_STATE_RETAINED: gp_block_end_use(engine, block, now_ns); break;
  case GP_STATE_IDLE: gp_block_leave_idle(block); break;
  }
  gp_address_map_remove_value(&engine->blocks, block->address, block);
  gp_block_forget(engine, block, GP_DETAIL_CONTEXT_LOST, now_ns, 0);
}

void gp_engine_context_lost(gp_engine_t *engine, gp_context_t *context)
{
  if (!context)
    return;
  gp_engine_tell_peaks(engine);
  gp_lock_take(&engine->contexts_lock);
  bool already = atomic_exchange(&context->lost, true);
  if (!already) {
    gp_list_remove(&context->live_link);
    gp_streams_drop_context(engine, context);
    gp_single_stream_drop_context(engine, context);
    gp_suspend_context_lost(engine, context);
  }
  gp_lock_release(&engine->contexts_lock);
  if (already)
    return;

  gp_device_t *device = context->device;
  uint64_t now_ns = gp_now(engine);
  gp_lock_take(&device->lock);
  for (gp_list_t *link = context->blocks.next; link != &context->blocks;) {
    gp_block_t *block = gp_list_entry(link, gp_block_t, all);
    link = link->next;
    forget_lost(engine, block, now_ns);
  }
  gp_list_remove(&context->device_link);
  pthread_cond_broadcast(&device->released);
  gp_lock_release(&device->lock);
  gp_forwarded_context_lost(engine, context);
  /* Its fence went with it, and it holds nothing back any more. */
  gp_reuse_advance(engine, false);
}

void gp_engine_primary_lost(gp_engine_t *engine, int device)
{
  gp_context_t *context;

  do {
    context = NULL;
    gp_lock_take(&engine->contexts_lock);
    for (gp_list_t *link = engine->contexts.next; link != &engine->contexts && !context; link = link->next) {
      gp_context_t *candidate = gp_list_entry(link, gp_context_t, live_link);
      if (candidate->driver.is_primary && candidate->driver.device == device)
        context = candidate;
    }
    gp_lock_release(&engine->contexts_lock);
    gp_engine_context_lost(engine, context);
  } while (context);
}
