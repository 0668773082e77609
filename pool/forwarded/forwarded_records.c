/*
 * The records of allocations that are not pooled: found by what the driver knows each by, in a map for each
 * space.
 */
#include <stdlib.h>

#include "pool/state.h"

gp_space_t gp_passthrough_space(gp_detail_t kind)
{
  switch (kind) {
  case GP_DETAIL_PASS_ARRAY: return GP_SPACE_ARRAY;
  case GP_DETAIL_PASS_PHYSICAL: return GP_SPACE_PHYSICAL;
  case GP_DETAIL_PASS_EXTERNAL: return GP_SPACE_EXTERNAL;
  case GP_DETAIL_PASS_GRAPH: return GP_SPACE_GRAPH;
  default: return GP_SPACE_POINTER;
  }
}

bool gp_passthrough_keep(
    gp_engine_t *engine, const gp_passthrough_t *memory, gp_passthrough_t *ret_stale, bool *ret_has_stale)
{
  gp_address_map_t *map = &engine->passthroughs[gp_passthrough_space(memory->kind)];
  gp_passthrough_t *record = malloc(sizeof(*record));

  *ret_has_stale = false;
  if (!record)
    return false;
  *record = *memory;
  gp_lock_take(&engine->passthrough_lock);
  gp_passthrough_t *stale = gp_address_map_remove(map, memory->key);
  bool kept = gp_address_map_insert(map, memory->key, record);
  gp_lock_release(&engine->passthrough_lock);
  if (stale) {
    *ret_stale = *stale;
    *ret_has_stale = true;
    free(stale);
  }
  if (!kept)
    free(record);
  return kept;
}

bool gp_passthrough_remove(gp_engine_t *engine, gp_space_t space, uint64_t key, gp_passthrough_t *ret_memory)
{
  gp_address_map_t *map = &engine->passthroughs[space];

  if (key <= 1 || !gp_address_map_find(map, key)) /* 0 and 1 are no keys of the map */
    return false;
  gp_lock_take(&engine->passthrough_lock);
  gp_passthrough_t *record = gp_address_map_remove(map, key);
  gp_lock_release(&engine->passthrough_lock);
  if (!record)
    return false;
  *ret_memory = *record;
  free(record);
  return true;
}

bool gp_engine_passthrough_find(
    gp_engine_t *engine, gp_space_t space, uint64_t key, gp_passthrough_t *ret_memory)
{
  if (key <= 1) /* no keys of the map */
    return false;
  gp_lock_take(&engine->passthrough_lock);
  const gp_passthrough_t *record = gp_address_map_find(&engine->passthroughs[space], key);
  if (record)
    *ret_memory = *record;
  gp_lock_release(&engine->passthrough_lock);
  return record != NULL;
}

/* The next record of any space from *position on, in no order; the lock is held. NULL: no more. */
static gp_passthrough_t *next_record(gp_engine_t *engine, int *space, size_t *position)
{
  for (; *space < GP_SPACE_COUNT; (*space)++, *position = 0) {
    const gp_address_table_t *table = atomic_load(&engine->passthroughs[*space].table);
    while (table && *position < table->capacity) {
      const gp_address_slot_t *slot = &table->slots[(*position)++];
      if (atomic_load_explicit(&slot->key, memory_order_relaxed) > 1)
        return atomic_load_explicit(&slot->value, memory_order_relaxed);
    }
  }
  return NULL;
}

bool gp_passthrough_remove_of_context(
    gp_engine_t *engine, const gp_context_t *context, gp_passthrough_t *ret_memory)
{
  int space = 0;
  size_t position = 0;
  gp_passthrough_t *record;

  gp_lock_take(&engine->passthrough_lock);
  do {
    record = next_record(engine, &space, &position);
  } while (record && record->context != context);
  if (record) {
    *ret_memory = *record;
    (void)gp_address_map_remove(&engine->passthroughs[gp_passthrough_space(record->kind)], record->key);
    free(record);
  }
  gp_lock_release(&engine->passthrough_lock);
  return record != NULL;
}

bool gp_passthrough_detach_next(gp_engine_t *engine, uint64_t pool, int *ret_device, uint64_t *ret_size)
{
  int space = 0;
  size_t position = 0;
  gp_passthrough_t *record;

  gp_lock_take(&engine->passthrough_lock);
  do {
    record = next_record(engine, &space, &position);
  } while (record && (record->pool != pool || record->is_detached));
  if (record) {
    record->is_detached = true;
    *ret_device = record->device;
    *ret_size = record->size;
  }
  gp_lock_release(&engine->passthrough_lock);
  return record != NULL;
}

size_t gp_engine_passthroughs(gp_engine_t *engine, int device, gp_passthrough_t *array, size_t capacity)
{
  int space = 0;
  size_t position = 0;
  size_t count = 0;
  const gp_passthrough_t *record;

  gp_lock_take(&engine->passthrough_lock);
  while ((record = next_record(engine, &space, &position))) {
    if (record->device != device)
      continue;
    if (count < capacity)
      array[count] = *record;
    count++;
  }
  gp_lock_release(&engine->passthrough_lock);
  return count;
}

void gp_passthroughs_init(gp_engine_t *engine)
{
  gp_lock_init(&engine->passthrough_lock, GP_RANK_PASSTHROUGH);
  for (int space = 0; space < GP_SPACE_COUNT; space++)
    gp_address_map_init(&engine->passthroughs[space]);
}

void gp_passthroughs_fini(gp_engine_t *engine)
{
  int space = 0;
  size_t position = 0;
  gp_passthrough_t *record;

  while ((record = next_record(engine, &space, &position)))
    free(record);
  for (space = 0; space < GP_SPACE_COUNT; space++)
    gp_address_map_fini(&engine->passthroughs[space]);
  gp_lock_fini(&engine->passthrough_lock);
}
