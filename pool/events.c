#include "pool/events.h"

void gp_oom_groups_add(gp_oom_groups_t *all, uint64_t size)
{
  int smallest = 0;
  for (int i = 0; i < all->count; i++) {
    if (all->groups[i].size == size) {
      all->groups[i].count++;
      return;
    }
    if (all->groups[i].size * all->groups[i].count < all->groups[smallest].size * all->groups[smallest].count)
      smallest = i;
  }
  if (all->count < (int)(sizeof(all->groups) / sizeof(all->groups[0])))
    all->groups[all->count++] = (gp_oom_owner_t){size, 1};
  else if (size > all->groups[smallest].size * all->groups[smallest].count)
    all->groups[smallest] = (gp_oom_owner_t){size, 1};
}

void gp_oom_groups_largest(gp_oom_groups_t *all, gp_oom_owner_t *owners)
{
  for (int rank = 0; rank < GP_OOM_OWNERS; rank++) {
    int largest = -1;
    for (int i = 0; i < all->count; i++) {
      uint64_t total = all->groups[i].size * all->groups[i].count;
      if (total > 0 && (largest < 0 || total > all->groups[largest].size * all->groups[largest].count))
        largest = i;
    }
    if (largest < 0)
      return;
    owners[rank] = all->groups[largest];
    all->groups[largest].count = 0;
  }
}

void gp_event_first_use(gp_engine_t *engine)
{
  gp_assert(!gp_holds_engine_lock());
  if (!atomic_load_explicit(&engine->was_used, memory_order_relaxed) &&
      !atomic_exchange(&engine->was_used, true) && engine->observer.first_use)
    engine->observer.first_use(engine->observer.self);
}

void gp_event_refused(gp_engine_t *engine, const gp_context_t *context, uint64_t address, uint64_t time_ns)
{
  gp_assert_internal(gp_lock_is_held(&context->device->lock));
  const gp_event_t event = {
      .time_ns = time_ns,
      .address = address,
      .origin = gp_origin(engine),
      .action = GP_ACTION_FREE_REFUSED,
      .device = context->device->ordinal,
      .context = context->driver.id,
      .is_cut = true,
  };
  (void)engine->observer.event(engine->observer.self, &event);
}

void gp_event_damage(
    gp_engine_t *engine, const gp_block_t *block, const gp_damage_t *damage, uint64_t time_ns)
{
  gp_assert_internal(gp_lock_is_held(&block->context->device->lock));
  const gp_event_t event = {
      .time_ns = time_ns,
      .address = damage->address + damage->offset,
      .size = damage->bytes,
      .rounded_size = damage->bytes,
      .block_id = block->block_id,
      .origin = block->origin,
      .action = GP_ACTION_DAMAGE,
      .detail = damage->kind,
      .device = damage->device,
      .context = block->context->driver.id,
      .is_cut = block->segment != NULL,
  };
  (void)engine->observer.event(engine->observer.self, &event);
}

void gp_event_chunk(gp_engine_t *engine, const gp_range_t *range, gp_chunk_t *chunk, gp_action_t action,
    gp_detail_t detail, uint64_t time_ns, uint64_t duration_ns)
{
  const gp_context_t *context = range->segment.context;

  gp_assert_internal(gp_lock_is_held(&context->device->lock));
  if (!gp_event_is_wanted(engine, &chunk->observer_cookie))
    return;
  const gp_event_t event = {
      .time_ns = time_ns,
      .address = chunk->address,
      .size = chunk->size,
      .rounded_size = chunk->size,
      .duration_ns = duration_ns,
      .origin = gp_origin(engine),
      .action = action,
      .detail = detail,
      .device = context->device->ordinal,
      .context = context->driver.id,
      .observer_cookie = &chunk->observer_cookie,
      .is_cut = true,
  };
  (void)engine->observer.event(engine->observer.self, &event);
}

void gp_event_device(
    gp_engine_t *engine, int device, gp_action_t action, gp_detail_t detail, uint64_t size, uint64_t time_ns)
{
  gp_assert_internal(gp_lock_is_held(&engine->devices[device].lock));
  const gp_event_t event = {
      .time_ns = time_ns,
      .size = size,
      .rounded_size = size,
      .origin = gp_origin(engine),
      .action = action,
      .detail = detail,
      .device = device,
  };
  (void)engine->observer.event(engine->observer.self, &event);
}

void gp_event_forwarded(
    gp_engine_t *engine, gp_forwarded_t *memory, gp_action_t action, uint64_t time_ns, uint64_t duration_ns)
{
  gp_assert_internal(gp_lock_is_held(&engine->devices[memory->device].lock));
  const gp_event_t event = {
      .time_ns = time_ns,
      .address = memory->address,
      .size = memory->size,
      .rounded_size = memory->size,
      .block_id = memory->block_id,
      .duration_ns = duration_ns,
      .alloc_ns = action == GP_ACTION_FORWARDED_FREE ? memory->time_ns : 0,
      .stream = memory->stream,
      .origin = memory->origin,
      .action = action,
      .detail = memory->kind,
      .device = memory->device,
      .observer_cookie = &memory->observer_cookie,
      .has_stream = memory->has_stream,
  };
  (void)engine->observer.event(engine->observer.self, &event);
}

void gp_event_holders(gp_engine_t *engine, gp_block_t *block)
{
  gp_assert_internal(gp_lock_is_held(&block->context->device->lock));
  if (engine->observer.holders)
    engine->observer.holders(engine->observer.self, &block->observer_cookie, block->refs, block->tainted);
}

bool gp_device_use_at_query(const gp_device_t *device, gp_device_use_t *ret_use)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  uint64_t used = device->total > device->queried_free ? device->total - device->queried_free : 0;
  *ret_use = (gp_device_use_t){.total = device->total,
      .free = device->queried_free,
      .time_ns = device->told_ns,
      .accounted = device->queried_committed + device->queried_pools,
      .in_pools = device->queried_pools};
  ret_use->unaccounted = used > ret_use->accounted ? used - ret_use->accounted : 0;
  return device->total > 0 && device->told_ns > 0;
}

/* Moves the device's statistics to the memory that the observer provides for them. Does nothing while the
 * observer provides none. */
static void place_stats(gp_engine_t *engine, gp_device_t *device)
{
  if (!engine->observer.place_stats || device->stats != &device->own_stats)
    return;
  gp_stats_t *place = engine->observer.place_stats(engine->observer.self, device->ordinal);
  if (!place)
    return;
  *place = *device->stats;
  device->stats = place;
}

void gp_event_facts(gp_engine_t *engine, gp_device_t *device)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  if (!(atomic_load(&engine->device_mask) >> device->ordinal &
          1)) /* a limit may be set before the first use of the device */
    return;
  place_stats(engine, device);
  if (!engine->observer.device_facts)
    return;
  gp_device_facts_t facts = {.limit = device->limit == UINT64_MAX ? 0 : device->limit};
  facts.has_use = gp_device_use_at_query(device, &facts.use);
  engine->observer.device_facts(engine->observer.self, device->ordinal, &facts);
}
