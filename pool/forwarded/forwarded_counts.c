#include "pool/forwarded/forwarded_counts.h"

#include "pool/events.h"
#include "pool/reuse/pending_frees.h"
#include "pool/reuse/stamps.h"

void gp_host_limit_init(gp_host_limit_t *limit, const gp_options_t *options)
{
  limit->refuses = options->host_limit_malformed;
  limit->limit = gp_option_number(options, GP_OPTION_host_limit);
}

bool gp_host_limit_reserve(gp_host_limit_t *limit, uint64_t bytes)
{
  uint64_t used = atomic_load(&limit->used);

  if (limit->refuses)
    return false;
  do {
    if (bytes > limit->limit || used > limit->limit - bytes)
      return false;
  } while (!atomic_compare_exchange_weak(&limit->used, &used, used + bytes));
  return true;
}

void gp_host_limit_return(gp_host_limit_t *limit, uint64_t bytes)
{
  uint64_t used = atomic_fetch_sub(&limit->used, bytes);
  gp_assert(used >= bytes);
  (void)used;
}

/* Counts freed bytes in addition until the process ends, because the library cannot see when the memory is
 * really free. */
static void gp_host_limit_keep_for_good(gp_host_limit_t *limit, uint64_t bytes)
{
  atomic_fetch_add(&limit->used, bytes);
  atomic_fetch_add(&limit->kept_for_good, bytes);
}

static void add_size(void *arg, const gp_forwarded_t *memory)
{
  if (gp_forwarded_is_host(memory->kind))
    gp_oom_groups_add(arg, memory->size);
}

void gp_host_limit_report(gp_engine_t *engine, gp_context_t *context, uint64_t bytes)
{
  gp_device_t *device = context->device;
  gp_oom_groups_t groups = {.count = 0};
  gp_oom_t oom = {.requested = bytes,
      .counted = bytes,
      .live = atomic_load(&engine->host_limit.used),
      .limit = engine->host_limit.refuses ? 0 : engine->host_limit.limit,
      .device = device->ordinal,
      .by_limit = GP_OOM_BY_HOST_LIMIT};

  gp_assert(!gp_holds_engine_lock());
  for (int i = 0; i < GP_MAX_DEVICES; i++)
    gp_forwarded_table_each(&engine->forwarded, i, add_size, &groups);
  gp_oom_groups_largest(&groups, oom.owners);
  gp_lock_take(&device->lock);
  oom.time_ns = gp_now(engine);
  gp_event_device(engine, device->ordinal, GP_ACTION_HOST_OOM, GP_DETAIL_NONE, bytes, oom.time_ns);
  gp_lock_release(&device->lock);
  if (engine->observer.out_of_memory)
    engine->observer.out_of_memory(engine->observer.self, &oom);
}

bool gp_forwarded_is_driver_pooled(gp_forwarded_kind_t kind)
{
  return kind == GP_FORWARDED_ASYNC || kind == GP_FORWARDED_MEMPOOL || kind == GP_FORWARDED_GRAPH;
}

gp_supply_t gp_forwarded_supply(gp_forwarded_kind_t kind)
{
  if (gp_forwarded_is_driver_pooled(kind))
    return GP_SUPPLY_POOLS;
  return kind == GP_FORWARDED_PITCH || kind == GP_FORWARDED_CAPTURE ? GP_SUPPLY_PLAIN : GP_SUPPLY_APART;
}

static bool is_in_pool(const gp_forwarded_t *memory)
{
  return gp_forwarded_is_driver_pooled(memory->kind) && !memory->is_detached;
}

/* Returns true if the driver can be queried for the bytes that its pools keep after this memory is freed. */
static bool is_told(const gp_engine_t *engine, const gp_device_t *device, const gp_forwarded_t *memory)
{
  return is_in_pool(memory) && gp_account_asks_pools(engine, device);
}

/* Keeps counting memory that the program has freed but the driver has not returned to the device yet. The
 * caller holds the device's lock. */
static void keep(gp_engine_t *engine, gp_device_t *device, const gp_forwarded_t *memory)
{
  bool is_host = gp_forwarded_is_host(memory->kind);
  gp_pending_free_t pending = {.address = memory->address,
      .bytes = memory->counted,
      .supply = is_host ? GP_SUPPLY_APART : gp_forwarded_supply(memory->kind),
      .is_host = is_host,
      .owner = memory->context};

  if (memory->is_exported && is_host)
    gp_host_limit_keep_for_good(&engine->host_limit, memory->counted);
  else if (memory->is_exported)
    gp_account_keep_for_good(device, gp_account_growth(device, memory->counted, pending.supply));
  else if (memory->is_freed_in_order && !memory->is_detached && !is_told(engine, device, memory))
    gp_pending_free_add(engine, device, &pending, &memory->freed_in);
}

/* If no allocation of a destroyed pool is left, moves the bytes that such pools had beyond their allocations
 * to the pending frees. These bytes stay counted until the newest free is complete. */
static void leave_orphans(gp_engine_t *engine, gp_device_t *device)
{
  gp_pending_free_t rest = {.supply = GP_SUPPLY_POOLS, .bytes = gp_account_leave_orphans(device)};

  if (rest.bytes > 0)
    gp_pending_free_add(engine, device, &rest, NULL);
}

void gp_forwarded_pool_ends(
    gp_engine_t *engine, gp_device_t *device, uint64_t rest, gp_ending_pool_t *ret_ending)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  uint64_t counted = gp_account_asks_pools(engine, device) ? rest : 0;
  ret_ending->kept = ret_ending->has_orphans ? 0 : counted;
  if (ret_ending->has_orphans)
    gp_account_orphan(device, counted);
  else
    gp_account_keep_bytes(device, counted);
  device->unsettled = true; /* until the next query of the driver, the pool's bytes count twice */
}

void gp_forwarded_pool_ended(gp_engine_t *engine, gp_device_t *device, const gp_ending_pool_t *ending)
{
  const gp_pending_free_t pending = {.supply = GP_SUPPLY_POOLS, .bytes = ending->kept};

  gp_assert_internal(gp_lock_is_held(&device->lock));
  gp_account_end_kept_bytes(device, ending->kept);
  if (ending->kept > 0)
    gp_pending_free_add(engine, device, &pending, NULL);
  if (!ending->has_orphans)
    return;
  gp_account_pool_ended(device);
  leave_orphans(engine, device); /* the last allocation of the pool may already have been freed */
}

void gp_forwarded_uncount(
    gp_engine_t *engine, gp_device_t *device, gp_forwarded_t *memory, uint64_t time_ns, uint64_t duration_ns)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  keep(engine, device, memory);
  if (gp_forwarded_is_host(memory->kind)) {
    gp_gauge_sub(&gp_device_stats(device)->pinned_host_bytes, memory->size);
    gp_host_limit_return(&engine->host_limit, memory->counted);
  } else {
    gp_gauge_sub(&gp_device_stats(device)->passthrough_bytes, memory->size);
    if (memory->is_detached)
      gp_account_drop_detached(device, memory->counted);
    else
      gp_account_drop(engine, device, memory->address, memory->counted, gp_forwarded_supply(memory->kind));
    if (memory->is_detached)
      leave_orphans(engine, device);
    if (is_in_pool(memory))
      gp_pools_note_pending(&device->pools, memory->counted, atomic_load(&engine->epoch), gp_covered(engine));
  }
  gp_event_forwarded(engine, memory, GP_ACTION_FORWARDED_FREE, time_ns, duration_ns);
}

static void add(void *arg, const gp_forwarded_t *memory)
{
  gp_forwarded_sums_t *sums = arg;

  if (gp_forwarded_is_host(memory->kind)) {
    sums->on_host += memory->size;
    sums->host_counted += memory->counted;
    return;
  }
  gp_supply_t supply = gp_forwarded_supply(memory->kind);
  sums->on_device += memory->size;
  if (is_in_pool(memory)) {
    sums->in_pools += memory->counted;
    sums->pools_taken += gp_pools_taken(memory->counted);
  } else if (supply == GP_SUPPLY_PLAIN && memory->counted <= GP_DRIVER_SHARED_MAX) {
    sums->shared++;
    sums->shared_bytes += memory->counted;
  } else {
    sums->taken += memory->is_detached ? gp_pools_taken(memory->counted)
                                       : gp_account_growth(NULL, memory->counted, supply);
  }
}

void gp_forwarded_sum(gp_engine_t *engine, int device, gp_forwarded_sums_t *ret_sums)
{
  *ret_sums = (gp_forwarded_sums_t){0};
  gp_forwarded_table_each(&engine->forwarded, device, add, ret_sums);
}

static void lock_and_uncount(gp_engine_t *engine, gp_forwarded_t *memory, uint64_t time_ns)
{
  gp_device_t *device = &engine->devices[memory->device];
  gp_lock_take(&device->lock);
  gp_forwarded_uncount(engine, device, memory, time_ns, 0);
  gp_lock_release(&device->lock);
}

void gp_forwarded_keep(gp_engine_t *engine, gp_forwarded_t *memory)
{
  gp_forwarded_t stale;
  bool has_stale;
  bool kept = gp_forwarded_table_keep(&engine->forwarded, memory, &stale, &has_stale);

  if (has_stale) /* the library did not see the old memory end with its graph, memory pool or context */
    lock_and_uncount(engine, &stale, memory->time_ns);
  if (!kept)
    lock_and_uncount(engine, memory, gp_now(engine));
}

void gp_forwarded_context_lost(gp_engine_t *engine, const gp_context_t *context)
{
  gp_assert(!gp_holds_engine_lock());
  gp_forwarded_t memory;
  while (gp_forwarded_table_remove_of_context(&engine->forwarded, context, &memory))
    lock_and_uncount(engine, &memory, gp_now(engine));
}
