/* Creates the engine from the options, and destroys it. */
#include <stdlib.h>
#include <string.h>

#include "pool/reuse/contexts.h"
#include "pool/reuse/fence_policy.h"
#include "pool/serve/damage.h"
#include "pool/serve/fill.h"
#include "pool/forwarded/forwarded_counts.h"
#include "pool/serve/heaps.h"
#include "pool/limits/limit.h"
#include "pool/reuse/mode.h"
#include "pool/reuse/pending_frees.h"
#include "pool/serve/prewarm.h"
#include "pool/reuse/stream_records.h"
#include "pool/reuse/known_streams.h"
#include "pool/space/block_slab.h"
#include "pool/space/free_events.h"

static uint64_t ignore_event(void *self, const gp_event_t *event)
{
  (void)self;
  return event->time_ns;
}

static uint64_t leave_step(
    void *self, gp_observed_t *block, uint64_t context, int device, bool is_cut, uint64_t time_ns)
{
  (void)self, (void)block, (void)context, (void)device, (void)is_cut, (void)time_ns;
  return 0;
}

static const _Atomic int no_interest;
static const _Atomic int full_interest = 1;

static gp_mode_t initial_mode(uint64_t reuse)
{
  switch (reuse) {
  case GP_REUSE_STRICT: return GP_MODE_STRICT;
  default: return GP_MODE_CONTEXT;
  }
}

static _Atomic uint64_t last_serial; /* number of engines that the process has created */

static void configure(gp_engine_t *engine, const gp_options_t *options)
{
  uint64_t idle_seconds = gp_option_number(options, GP_OPTION_idle_release);
  uint64_t reuse = gp_option_number(options, GP_OPTION_reuse);

  gp_fill_init(engine, options);
  gp_damage_init(engine, options);
  /* A free that waits as natively lets its block be searched at once, while the culprit is known. */
  gp_mode_init(
      engine, options->limit_malformed, gp_damage_is_checked(engine) ? GP_MODE_STRICT : initial_mode(reuse));
  engine->type = gp_pool_type(options);
  gp_type_config_init(&engine->type_config, options);
  atomic_init(&engine->whole_least, UINT64_MAX);
  engine->serial = atomic_fetch_add(&last_serial, 1) + 1;
  uint64_t async = gp_option_number(options, GP_OPTION_async);
  engine->orders_plain = async == GP_ASYNC_PLAIN || (async == GP_ASYNC_POOL && engine->type->cuts);
  engine->forwards_async = async == GP_ASYNC_DRIVER && engine->type->keeps_blocks;
  engine->serves_async =
      async != GP_ASYNC_DRIVER && engine->type->keeps_blocks &&
      (engine->orders_plain ? engine->driver.ops->alloc_in != NULL : engine->driver.ops->reserve != NULL);
  engine->is_plain = async == GP_ASYNC_PLAIN;
  engine->idle_release_ns = idle_seconds ? idle_seconds * UINT64_C(1000000000) : UINT64_MAX;
  engine->max_cached = gp_option_number(options, GP_OPTION_max_cached);
  engine->reserve = options->values[GP_OPTION_reserve].amount;
  engine->asks_host = gp_option_number(options, GP_OPTION_integrated) == GP_INTEGRATED_AVAILABLE;
  engine->slack = options->values[GP_OPTION_slack].amount;
  engine->slack.is_none |= !engine->type->keeps_blocks;
  engine->max_deferred = options->values[GP_OPTION_max_deferred].amount;
  engine->least_bound = gp_amount_resolve(&engine->max_deferred, UINT64_MAX);
  if (!engine->max_deferred.is_none && engine->least_bound > GP_FENCED_LEAST)
    engine->least_bound = GP_FENCED_LEAST;
  engine->patience_ns = gp_option_number(options, GP_OPTION_patience) * UINT64_C(1000000000);
  gp_prewarm_init(engine, options);
  gp_heaps_init(engine);
  gp_host_limit_init(&engine->host_limit, options);
  memcpy(engine->limits, options->limits, sizeof(engine->limits));
  memcpy(engine->ceilings, options->ceilings, sizeof(engine->ceilings));
}

_Static_assert(GP_MAX_DEVICES == GP_OPTION_DEVICES, "every device has a limit");

gp_engine_t *gp_engine_create(
    const gp_driver_t *driver, const gp_observer_t *observer, const gp_options_t *options)
{
  gp_engine_t *engine = calloc(1, sizeof(*engine));
  if (!engine)
    return NULL;
  engine->driver = *driver;
  if (observer)
    engine->observer = *observer;
  if (!engine->observer.event) {
    engine->observer.event = ignore_event;
    engine->observer.interest = &no_interest;
  }
  if (!engine->observer.alloc)
    engine->observer.alloc = engine->observer.free_requested = engine->observer.free_completed = leave_step;
  if (!engine->observer.interest)
    engine->observer.interest = &full_interest;
  configure(engine, options);
  atomic_init(&engine->epoch, 1); /* 0: nothing is known to be complete */
  gp_lock_init(&engine->contexts_lock, GP_RANK_CONTEXTS);
  gp_block_slab_init(engine);
  gp_list_init(&engine->contexts);
  gp_list_init(&engine->known_streams);
  gp_list_init(&engine->free_stream_records);
  gp_address_map_init(&engine->stream_records);
  gp_address_map_init(&engine->blocks);
  gp_address_map_init(&engine->pages);
  gp_forwarded_table_init(&engine->forwarded);
  for (int i = 0; i < GP_MAX_DEVICES; i++) {
    gp_device_t *device = &engine->devices[i];
    gp_lock_init(&device->lock, GP_RANK_DEVICE);
    device->ordinal = i;
    device->stats = &device->own_stats;
    device->pools_piece = GP_POOLS_PIECE_LEAST;
    device->watched_use = device->asked_covered = device->events_beyond = UINT64_MAX;
    /* A share is unknown until the driver has reported the device's size: until then the limit refuses. */
    device->limit = gp_limit_of(engine, i, 0);
    gp_context_init(&device->stand_in, &(gp_driver_context_t){.handle = NULL, .device = i}, device);
    gp_context_init(&device->async_context, &(gp_driver_context_t){.handle = NULL, .device = i}, device);
    device->async_context.is_async = true;
    gp_list_init(&device->contexts);
    gp_list_push_back(&device->contexts, &device->async_context.device_link);
    gp_list_init(&device->idle);
    gp_list_init(&device->passed);
    gp_list_init(&device->oom_turn.waiting);
    gp_list_init(&device->pending_frees);
    gp_releases_init(&device->releases, &device->lock);
  }
  return engine;
}

/* Frees the record of a range. The memory of its chunks is not released to the driver. */
static void fini_range(gp_context_t *arena)
{
  if (arena->range)
    free(arena->range->chunks);
  free(arena->range);
}

void gp_engine_destroy(gp_engine_t *engine)
{
  if (!engine)
    return;
  gp_heaps_fini(engine);
  gp_lock_take(&engine->contexts_lock);
  gp_known_streams_drop_context(engine, NULL);
  gp_lock_release(&engine->contexts_lock);
  gp_stream_records_fini(engine);
  while (engine->all_contexts) {
    gp_context_t *next = engine->all_contexts->next_any;
    GP_LIST_EACH_SAFE(&engine->all_contexts->segments, gp_segment_t, link, segment)
      if (!segment->range)
        free(segment);
    fini_range(engine->all_contexts);
    gp_bins_fini(&engine->all_contexts->bins);
    gp_fill_fini(engine->all_contexts);
    gp_damage_fini(engine->all_contexts);
    gp_lock_take(&engine->all_contexts->device->lock);
    gp_free_events_fini(engine->all_contexts);
    gp_lock_release(&engine->all_contexts->device->lock);
    free(engine->all_contexts);
    engine->all_contexts = next;
  }
  for (int i = 0; i < GP_MAX_DEVICES; i++) {
    fini_range(&engine->devices[i].async_context);
    gp_pending_frees_fini(&engine->devices[i]);
    gp_assert_internal(gp_lock_is_free(&engine->devices[i].lock));
  }
  gp_forwarded_table_fini(&engine->forwarded);
  gp_address_map_fini(&engine->blocks);
  gp_address_map_fini(&engine->pages);
  gp_block_slab_fini(engine);
  gp_assert_internal(gp_lock_is_free(&engine->contexts_lock));
  free(engine);
}
