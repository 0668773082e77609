/*
 * The engine's life, its contexts, and the two states in which it stands aside: suspended, and after a sticky error.
 */
#include "pool/engine.h"

#include <sched.h>
#include <stdlib.h>

#include "pool/state.h"
#include "pool/util/log.h"

static void ignore_event(void *self, const gp_event_t *event)
{
  (void)self;
  (void)event;
}

static void configure(gp_engine_t *engine, const gp_options_t *options)
{
  uint64_t idle_seconds = gp_option_number(options, GP_OPTION_idle_release);

  engine->type = gp_pool_type(options);
  gp_type_config_init(&engine->type_config, options);
  engine->strict = gp_option_number(options, GP_OPTION_reuse) == GP_REUSE_STRICT;
  engine->refuse_all = options->limit_malformed;
  engine->idle_release_ns = idle_seconds ? idle_seconds * UINT64_C(1000000000) : UINT64_MAX;
  engine->max_cached = gp_option_number(options, GP_OPTION_max_cached);
  engine->reserve = options->values[GP_OPTION_reserve].amount;
  engine->max_deferred = options->values[GP_OPTION_max_deferred].amount;
  for (int i = 0; i < GP_MAX_DEVICES; i++)
    engine->limits[i] = options->limits[i];
}

_Static_assert(GP_MAX_DEVICES == GP_OPTION_DEVICES, "every device has a limit");

gp_engine_t *gp_engine_create(const gp_driver_t *driver, const gp_observer_t *observer, const gp_options_t *options)
{
  gp_engine_t *engine = calloc(1, sizeof(*engine));
  if (!engine)
    return NULL;
  engine->driver = *driver;
  if (observer)
    engine->observer = *observer;
  if (!engine->observer.event)
    engine->observer.event = ignore_event;
  configure(engine, options);
  atomic_init(&engine->epoch, 1); /* 0 is what a context has completed that nothing is known of */
  gp_lock_init(&engine->contexts_lock, GP_RANK_CONTEXTS);
  gp_lock_init(&engine->passthrough_lock, GP_RANK_PASSTHROUGH);
  gp_lock_init(&engine->records_lock, GP_RANK_RECORDS);
  gp_list_init(&engine->contexts);
  gp_address_map_init(&engine->blocks);
  gp_address_map_init(&engine->passthroughs);
  for (int i = 0; i < GP_MAX_DEVICES; i++) {
    gp_device_t *device = &engine->devices[i];
    gp_lock_init(&device->lock, GP_RANK_DEVICE);
    pthread_cond_init(&device->released, NULL);
    device->ordinal = i;
    device->limit = UINT64_MAX;
    gp_list_init(&device->contexts);
    gp_list_init(&device->idle);
    gp_list_init(&device->releases);
  }
  return engine;
}

static void free_passthroughs(gp_engine_t *engine)
{
  gp_address_table_t *table = atomic_load(&engine->passthroughs.table);
  for (size_t i = 0; table && i < table->capacity; i++)
    if (atomic_load(&table->slots[i].key) > 1)
      free(atomic_load(&table->slots[i].value));
}

void gp_engine_destroy(gp_engine_t *engine)
{
  if (!engine)
    return;
  while (engine->all_contexts) {
    gp_context_t *next = engine->all_contexts->next_any;
    gp_bins_fini(&engine->all_contexts->bins);
    free(engine->all_contexts);
    engine->all_contexts = next;
  }
  for (int i = 0; i < GP_MAX_DEVICES; i++) {
    pthread_cond_destroy(&engine->devices[i].released);
    gp_lock_fini(&engine->devices[i].lock);
  }
  free_passthroughs(engine);
  gp_address_map_fini(&engine->passthroughs);
  gp_address_map_fini(&engine->blocks);
  gp_records_fini(engine);
  gp_lock_fini(&engine->records_lock);
  gp_lock_fini(&engine->passthrough_lock);
  gp_lock_fini(&engine->contexts_lock);
  free(engine);
}

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

static gp_context_t *make_context(gp_engine_t *engine, const gp_driver_context_t *driver_context)
{
  gp_context_t *context = calloc(1, sizeof(*context));
  if (!context)
    return NULL;
  context->driver = *driver_context;
  context->device = &engine->devices[driver_context->device];
  gp_list_init(&context->blocks);
  gp_list_init(&context->deferred);
  gp_list_init(&context->device_link);
  gp_bins_init(&context->bins);
  atomic_flag_clear(&context->fence.busy);
  atomic_init(&context->completed, 0); /* work that it submitted before we met it may be pending */
  atomic_init(&context->lost, false);
  return context;
}

gp_context_t *gp_engine_context(gp_engine_t *engine, const gp_driver_context_t *driver_context)
{
  gp_context_t *made = NULL;

  gp_lock_take(&engine->contexts_lock);
  gp_context_t *context = find_live(engine, driver_context->handle);
  gp_lock_release(&engine->contexts_lock);
  if (context && context->driver.id == driver_context->id)
    return context;
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
    gp_lock_take(&made->device->lock);
    gp_list_push_back(&made->device->contexts, &made->device_link);
    gp_lock_release(&made->device->lock);
  }
  gp_lock_release(&engine->contexts_lock);
  if (context != made) {
    free(made); /* another thread was first */
    return context;
  }
  uint64_t bit = UINT64_C(1) << made->device->ordinal;
  if (!(atomic_fetch_or(&engine->device_mask, bit) & bit)) {
    gp_lock_take(&made->device->lock);
    gp_event_device(engine, made->device->ordinal, GP_ACTION_MODE,
        engine->strict ? GP_DETAIL_MODE_STRICT : GP_DETAIL_MODE_CONTEXT, 0, gp_now(engine));
    gp_lock_release(&made->device->lock);
  }
  gp_limit_resolve(engine, made);
  return made;
}

bool gp_context_is_lost(const gp_context_t *context)
{
  return atomic_load_explicit(&context->lost, memory_order_acquire);
}

/* Forgets one block of a lost context; the device's lock is held. A block that is RELEASING is its releaser's. */
static void forget_lost(gp_engine_t *engine, gp_block_t *block, uint64_t now_ns)
{
  switch (block->state) {
  case GP_STATE_RELEASING: return;
  case GP_STATE_LIVE:
    gp_block_end_ownership(engine, block, now_ns);
    gp_block_end_use(engine, block, now_ns);
    break;
  case GP_STATE_DEFERRED:
    gp_list_remove(&block->order);
    gp_bins_find(&block->context->bins, block->size)->deferred_count--;
    gp_block_end_use(engine, block, now_ns);
    break;
  case GP_STATE_HELD: gp_block_end_use(engine, block, now_ns); break;
  case GP_STATE_IDLE: gp_block_leave_idle(block); break;
  }
  gp_address_map_remove_value(&engine->blocks, block->address, block);
  gp_block_forget(engine, block, GP_DETAIL_CONTEXT_LOST, now_ns, 0);
}

void gp_engine_context_lost(gp_engine_t *engine, gp_context_t *context)
{
  if (!context)
    return;
  gp_lock_take(&engine->contexts_lock);
  bool already = atomic_exchange(&context->lost, true);
  if (!already)
    gp_list_remove(&context->live_link);
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
  /* Its fence went with it, and it holds nothing back any more. */
  gp_reuse_advance(engine);
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

/*
 * Suspensions against our own driver calls: each side announces itself first and looks at the other afterwards, in
 * sequentially consistent order, so that not both can miss the other.
 */
bool gp_engine_enter(gp_engine_t *engine)
{
  atomic_fetch_add(&engine->own_calls, 1);
  if (!gp_engine_forwards(engine))
    return true;
  gp_engine_leave(engine);
  return false;
}

void gp_engine_leave(gp_engine_t *engine)
{
  atomic_fetch_sub(&engine->own_calls, 1);
}

void gp_engine_suspend(gp_engine_t *engine)
{
  atomic_fetch_add(&engine->suspensions, 1);
  while (atomic_load(&engine->own_calls) > 0)
    sched_yield(); /* a driver call of another thread, which does not wait for us */
}

void gp_engine_resume(gp_engine_t *engine)
{
  int suspensions = atomic_load(&engine->suspensions);
  while (suspensions > 0 && !atomic_compare_exchange_weak(&engine->suspensions, &suspensions, suspensions - 1)) {
  }
}

bool gp_engine_is_suspended(const gp_engine_t *engine)
{
  return atomic_load(&engine->suspensions) > 0;
}

bool gp_engine_forwards(const gp_engine_t *engine)
{
  return atomic_load(&engine->suspensions) > 0 || atomic_load(&engine->dead);
}

void gp_engine_stand_aside(gp_engine_t *engine)
{
  if (atomic_exchange(&engine->dead, true))
    return;
  for (uint64_t devices = atomic_load(&engine->device_mask); devices; devices &= devices - 1) {
    gp_device_t *device = &engine->devices[__builtin_ctzll(devices)];
    gp_lock_take(&device->lock);
    gp_event_device(engine, device->ordinal, GP_ACTION_MODE, GP_DETAIL_MODE_DEAD, 0, gp_now(engine));
    gp_lock_release(&device->lock);
  }
}

void gp_engine_note_result(gp_engine_t *engine, int code)
{
  if (code == 0 || !engine->driver.ops->code_is_sticky || !engine->driver.ops->code_is_sticky(code) ||
      atomic_load(&engine->dead))
    return;
  gp_log(GP_LOG_ERROR, "the driver reported error %d, after which nothing works in the context; no more pooling", code);
  gp_engine_stand_aside(engine);
}

uint64_t gp_engine_devices(const gp_engine_t *engine)
{
  return atomic_load(&engine->device_mask);
}

void gp_engine_stats(gp_engine_t *engine, int device, gp_stats_t *ret_stats)
{
  gp_lock_take(&engine->devices[device].lock);
  *ret_stats = engine->devices[device].stats;
  gp_lock_release(&engine->devices[device].lock);
}

static gp_block_state_t view_state(gp_state_t state)
{
  switch (state) {
  case GP_STATE_LIVE: return GP_BLOCK_LIVE;
  case GP_STATE_HELD:
  case GP_STATE_DEFERRED: return GP_BLOCK_PENDING;
  default: return GP_BLOCK_IDLE;
  }
}

size_t gp_engine_blocks(gp_engine_t *engine, int ordinal, gp_block_view_t *array, size_t capacity)
{
  gp_device_t *device = &engine->devices[ordinal];
  size_t count = 0;

  gp_lock_take(&device->lock);
  for (gp_list_t *c = device->contexts.next; c != &device->contexts; c = c->next) {
    gp_context_t *context = gp_list_entry(c, gp_context_t, device_link);
    for (gp_list_t *b = context->blocks.next; b != &context->blocks; b = b->next) {
      const gp_block_t *block = gp_list_entry(b, gp_block_t, all);
      if (block->state == GP_STATE_RELEASING)
        continue; /* the driver may have given the address to another block already */
      if (count < capacity)
        array[count] = (gp_block_view_t){block->address, block->size, block->requested, block->incarnation,
            block->time_ns, context->driver.id, block->refs, view_state(block->state), block->tainted};
      count++;
    }
  }
  gp_lock_release(&device->lock);
  return count;
}

void gp_engine_fork_prepare(gp_engine_t *engine)
{
  /* In the order of their ranks; devices are one rank, so the ranks are not noted here. */
  pthread_mutex_lock(&engine->contexts_lock.mutex);
  for (int i = 0; i < GP_MAX_DEVICES; i++)
    pthread_mutex_lock(&engine->devices[i].lock.mutex);
  pthread_mutex_lock(&engine->passthrough_lock.mutex);
  pthread_mutex_lock(&engine->passthroughs.lock.mutex);
  pthread_mutex_lock(&engine->blocks.lock.mutex);
  pthread_mutex_lock(&engine->records_lock.mutex);
}

void gp_engine_fork_done(gp_engine_t *engine)
{
  pthread_mutex_unlock(&engine->records_lock.mutex);
  pthread_mutex_unlock(&engine->blocks.lock.mutex);
  pthread_mutex_unlock(&engine->passthroughs.lock.mutex);
  pthread_mutex_unlock(&engine->passthrough_lock.mutex);
  for (int i = GP_MAX_DEVICES - 1; i >= 0; i--)
    pthread_mutex_unlock(&engine->devices[i].lock.mutex);
  pthread_mutex_unlock(&engine->contexts_lock.mutex);
}
