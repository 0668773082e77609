/*
 * Device memory that is not pooled (managed, pitch, stream-ordered, during a capture): counted, limited, recorded.
 */
#include <stdlib.h>

#include "pool/state.h"

typedef struct gp_reservation {
  gp_engine_t *engine;
  gp_context_t *context;
  uint64_t bytes;
  uint64_t growth;
  bool is_async;
} gp_reservation_t;

/*
 * The driver's pools of stream-ordered memory grow in pieces of this size, whatever is asked for, and nobody can say
 * whether what they hold idle would do. Close to a limit that refuses what might have fitted; a limit is a promise.
 */
#define ASYNC_GROWTH (32 * GP_MIB)

static uint64_t growth_of(uint64_t bytes, gp_detail_t kind)
{
  uint64_t growth = kind == GP_DETAIL_PASS_ASYNC || kind == GP_DETAIL_PASS_MEMPOOL ? gp_round_up(bytes, ASYNC_GROWTH)
                                                                                   : bytes;
  return growth ? growth : UINT64_MAX; /* overflow: more than there is */
}

static int attempt_reserve(void *arg, bool *by_limit)
{
  gp_reservation_t *reservation = arg;
  *by_limit = !gp_limit_reserve(reservation->engine, reservation->context, reservation->bytes, reservation->growth,
      reservation->is_async);
  return *by_limit ? reservation->engine->driver.ops->code_out_of_memory : 0;
}

bool gp_engine_passthrough_reserve(
    gp_engine_t *engine, gp_context_t *context, uint64_t bytes, gp_detail_t kind)
{
  gp_device_t *device = context->device;
  gp_reservation_t reservation = {engine, context, bytes, growth_of(bytes, kind), kind == GP_DETAIL_PASS_ASYNC};
  bool by_limit = true;

  if (!engine->refuse_all && gp_limit_reserve(engine, context, bytes, reservation.growth, reservation.is_async))
    return true;
  uint64_t largest_free = gp_oom_largest_idle(device);
  if (!engine->refuse_all && gp_oom_climb(engine, context, reservation.growth, attempt_reserve, &reservation, &by_limit) == 0)
    return true;
  gp_oom_report(engine, context, bytes, true, largest_free);
  return false;
}

typedef struct gp_repeat {
  int (*again)(void *arg);
  void *arg;
} gp_repeat_t;

static int attempt_again(void *arg, bool *by_limit)
{
  const gp_repeat_t *repeat = arg;
  *by_limit = false; /* counted against the limit before */
  return repeat->again(repeat->arg);
}

int gp_engine_passthrough_retry(
    gp_engine_t *engine, gp_context_t *context, uint64_t bytes, int (*again)(void *arg), void *arg)
{
  gp_repeat_t repeat = {again, arg};
  uint64_t largest_free = gp_oom_largest_idle(context->device);
  bool by_limit = false;
  int code = engine->driver.ops->code_out_of_memory;

  if (!gp_oom_is_hopeless(engine, context, bytes))
    code = gp_oom_climb(engine, context, bytes, attempt_again, &repeat, &by_limit);
  if (code == engine->driver.ops->code_out_of_memory)
    gp_oom_report(engine, context, bytes, false, largest_free);
  return code;
}

void gp_engine_passthrough_cancel(gp_engine_t *engine, gp_context_t *context, uint64_t bytes, gp_detail_t kind)
{
  gp_device_t *device = context->device;
  (void)engine;
  gp_lock_take(&device->lock);
  device->held -= bytes;
  if (kind == GP_DETAIL_PASS_ASYNC)
    device->async_live -= bytes;
  gp_lock_release(&device->lock);
}

static bool is_async(const gp_passthrough_t *memory)
{
  return memory->kind == GP_DETAIL_PASS_ASYNC;
}

/* Takes an allocation out of the sums, with its event; the device's lock is held. */
static void uncount(
    gp_engine_t *engine, gp_device_t *device, const gp_passthrough_t *memory, uint64_t time_ns, uint64_t duration_ns)
{
  gp_gauge_sub(&device->stats.passthrough_bytes, memory->size);
  if (is_async(memory))
    device->async_live -= memory->size;
  if (is_async(memory) && device->limit != UINT64_MAX && engine->driver.ops->async_reserved)
    device->draining += memory->size; /* still held, by the driver's pool */
  else
    device->held -= memory->size;
  gp_event_passthrough(engine, memory, GP_ACTION_PASSTHROUGH_FREE, time_ns, duration_ns);
}

static void lock_and_uncount(gp_engine_t *engine, const gp_passthrough_t *memory, uint64_t time_ns)
{
  gp_device_t *device = &engine->devices[memory->device];
  gp_lock_take(&device->lock);
  uncount(engine, device, memory, time_ns, 0);
  gp_lock_release(&device->lock);
}

/* Files the record under its address; false if the host has no memory for it. */
static bool keep_record(gp_engine_t *engine, const gp_passthrough_t *memory)
{
  gp_passthrough_t *record = malloc(sizeof(*record));
  if (!record)
    return false;
  *record = *memory;
  gp_lock_take(&engine->passthrough_lock);
  gp_passthrough_t *stale = gp_address_map_remove(&engine->passthroughs, memory->address);
  bool kept = gp_address_map_insert(&engine->passthroughs, memory->address, record);
  gp_lock_release(&engine->passthrough_lock);
  if (stale) {
    /* It went without our seeing it, with its graph, its memory pool or its context. */
    lock_and_uncount(engine, stale, memory->time_ns);
    free(stale);
  }
  if (!kept)
    free(record);
  return kept;
}

void gp_engine_passthrough_commit(
    gp_engine_t *engine, gp_context_t *context, const gp_passthrough_t *memory, uint64_t duration_ns)
{
  gp_device_t *device = context->device;
  gp_passthrough_t own = *memory;

  own.device = device->ordinal;
  own.context = memory->kind == GP_DETAIL_PASS_ASYNC || memory->kind == GP_DETAIL_PASS_MEMPOOL ? NULL : context;
  gp_lock_take(&device->lock);
  gp_release_await(device, own.address);
  own.block = atomic_fetch_add_explicit(&engine->incarnation, 1, memory_order_relaxed) + 1;
  gp_gauge_add(&device->stats.passthrough_bytes, own.size);
  gp_event_passthrough(engine, &own, GP_ACTION_PASSTHROUGH_ALLOC, own.time_ns, duration_ns);
  gp_lock_release(&device->lock);
  if (!keep_record(engine, &own))
    lock_and_uncount(engine, &own, gp_now(engine));
}

bool gp_engine_passthrough_take(gp_engine_t *engine, uint64_t address, gp_passthrough_t *ret_memory)
{
  if (!gp_address_map_find(&engine->passthroughs, address))
    return false;
  gp_lock_take(&engine->passthrough_lock);
  gp_passthrough_t *record = gp_address_map_remove(&engine->passthroughs, address);
  gp_lock_release(&engine->passthrough_lock);
  if (!record)
    return false;
  *ret_memory = *record;
  free(record);

  gp_device_t *device = &engine->devices[ret_memory->device];
  ret_memory->release.address = address;
  gp_lock_take(&device->lock);
  gp_release_announce(device, &ret_memory->release);
  gp_lock_release(&device->lock);
  return true;
}

void gp_engine_passthrough_freed(
    gp_engine_t *engine, gp_passthrough_t *memory, uint64_t time_ns, uint64_t duration_ns)
{
  gp_device_t *device = &engine->devices[memory->device];

  gp_lock_take(&device->lock);
  uncount(engine, device, memory, time_ns, duration_ns);
  gp_release_finish(device, &memory->release);
  gp_lock_release(&device->lock);
}

void gp_engine_passthrough_restore(gp_engine_t *engine, gp_passthrough_t *memory)
{
  gp_device_t *device = &engine->devices[memory->device];

  gp_lock_take(&device->lock);
  gp_release_finish(device, &memory->release);
  gp_lock_release(&device->lock);
  if (!keep_record(engine, memory))
    lock_and_uncount(engine, memory, gp_now(engine)); /* the driver still has it, we stop counting it */
}

/* The next allocation that went with the context, taken out of the map; false: no more. */
static bool take_of_context(gp_engine_t *engine, const gp_context_t *context, gp_passthrough_t *ret_memory)
{
  bool found = false;

  gp_lock_take(&engine->passthrough_lock);
  const gp_address_table_t *table = atomic_load(&engine->passthroughs.table);
  for (size_t i = 0; table && i < table->capacity && !found; i++) {
    if (atomic_load_explicit(&table->slots[i].key, memory_order_relaxed) <= 1)
      continue;
    gp_passthrough_t *record = atomic_load_explicit(&table->slots[i].value, memory_order_relaxed);
    if (record->context != context)
      continue;
    found = true;
    *ret_memory = *record;
    (void)gp_address_map_remove(&engine->passthroughs, record->address);
    free(record);
  }
  gp_lock_release(&engine->passthrough_lock);
  return found;
}

void gp_passthrough_context_lost(gp_engine_t *engine, const gp_context_t *context)
{
  gp_passthrough_t memory;
  while (take_of_context(engine, context, &memory))
    lock_and_uncount(engine, &memory, gp_now(engine));
}

size_t gp_engine_passthroughs(gp_engine_t *engine, int device, gp_passthrough_t *array, size_t capacity)
{
  size_t count = 0;

  gp_lock_take(&engine->passthrough_lock);
  const gp_address_table_t *table = atomic_load(&engine->passthroughs.table);
  for (size_t i = 0; table && i < table->capacity; i++) {
    if (atomic_load_explicit(&table->slots[i].key, memory_order_relaxed) <= 1)
      continue;
    const gp_passthrough_t *record = atomic_load_explicit(&table->slots[i].value, memory_order_relaxed);
    if (record->device != device)
      continue;
    if (count < capacity)
      array[count] = *record;
    count++;
  }
  gp_lock_release(&engine->passthrough_lock);
  return count;
}
