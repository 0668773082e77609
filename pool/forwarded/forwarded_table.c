#include "pool/forwarded/forwarded_table.h"

#include <stdlib.h>

gp_space_t gp_forwarded_space(gp_forwarded_kind_t kind)
{
  switch (kind) {
  case GP_FORWARDED_ARRAY: return GP_SPACE_ARRAY;
  case GP_FORWARDED_PHYSICAL: return GP_SPACE_PHYSICAL;
  case GP_FORWARDED_EXTERNAL: return GP_SPACE_EXTERNAL;
  case GP_FORWARDED_GRAPH: return GP_SPACE_GRAPH;
  default: return GP_SPACE_POINTER;
  }
}

bool gp_forwarded_is_host(gp_forwarded_kind_t kind)
{
  return kind == GP_FORWARDED_HOST;
}

/* Returns the map with the records of a space. The caller holds the table's lock; without it another thread
 * may free a record at any time. */
static gp_address_map_t *map_of(gp_forwarded_table_t *table, gp_space_t space)
{
  gp_assert_internal(gp_lock_is_held(&table->lock));
  return &table->by_key[space];
}

bool gp_forwarded_table_keep(
    gp_forwarded_table_t *table, const gp_forwarded_t *memory, gp_forwarded_t *ret_stale, bool *ret_has_stale)
{
  gp_forwarded_t *record = malloc(sizeof(*record));

  *ret_has_stale = false;
  if (!record)
    return false;
  *record = *memory;
  gp_lock_take(&table->lock);
  gp_address_map_t *map = map_of(table, gp_forwarded_space(memory->kind));
  gp_forwarded_t *stale = gp_address_map_remove(map, memory->key);
  bool kept = gp_address_map_insert(map, memory->key, record);
  gp_lock_release(&table->lock);
  if (stale) {
    *ret_stale = *stale;
    *ret_has_stale = true;
    free(stale);
  }
  if (!kept)
    free(record);
  return kept;
}

bool gp_forwarded_table_remove(
    gp_forwarded_table_t *table, gp_space_t space, uint64_t key, gp_forwarded_t *ret_memory)
{
  if (key <= 1 || !gp_address_map_find(&table->by_key[space], key)) /* the map cannot store 0 and 1 */
    return false;
  gp_lock_take(&table->lock);
  gp_forwarded_t *record = gp_address_map_remove(map_of(table, space), key);
  gp_lock_release(&table->lock);
  if (!record)
    return false;
  *ret_memory = *record;
  free(record);
  return true;
}

bool gp_forwarded_table_find(
    gp_forwarded_table_t *table, gp_space_t space, uint64_t key, gp_forwarded_t *ret_memory)
{
  if (key <= 1) /* the map cannot store 0 and 1 */
    return false;
  gp_lock_take(&table->lock);
  const gp_forwarded_t *record = gp_address_map_find(map_of(table, space), key);
  if (record)
    *ret_memory = *record;
  gp_lock_release(&table->lock);
  return record != NULL;
}

/* Returns the next record of any space from *position on, in no particular order, or NULL if there are no
 * more. The caller holds the table's lock. */
static gp_forwarded_t *next_record(gp_forwarded_table_t *table, int *space, size_t *position)
{
  for (; *space < GP_SPACE_COUNT; (*space)++, *position = 0) {
    const gp_address_table_t *slots = atomic_load(&map_of(table, *space)->table);
    while (slots && *position < slots->capacity) {
      const gp_address_slot_t *slot = &slots->slots[(*position)++];
      if (atomic_load_explicit(&slot->key, memory_order_relaxed) > 1)
        return atomic_load_explicit(&slot->value, memory_order_relaxed);
    }
  }
  return NULL;
}

bool gp_forwarded_table_remove_of_context(
    gp_forwarded_table_t *table, const gp_context_t *context, gp_forwarded_t *ret_memory)
{
  int space = 0;
  size_t position = 0;
  gp_forwarded_t *record;

  gp_lock_take(&table->lock);
  do {
    record = next_record(table, &space, &position);
  } while (record && record->context != context);
  if (record) {
    *ret_memory = *record;
    (void)gp_address_map_remove(map_of(table, gp_forwarded_space(record->kind)), record->key);
    free(record);
  }
  gp_lock_release(&table->lock);
  return record != NULL;
}

bool gp_forwarded_table_detach_next(
    gp_forwarded_table_t *table, uint64_t pool, int *ret_device, uint64_t *ret_size)
{
  int space = 0;
  size_t position = 0;
  gp_forwarded_t *record;

  gp_lock_take(&table->lock);
  do {
    record = next_record(table, &space, &position);
  } while (record && (record->pool != pool || record->is_detached || gp_forwarded_is_host(record->kind)));
  if (record) {
    record->is_detached = true;
    *ret_device = record->device;
    *ret_size = record->counted;
  }
  gp_lock_release(&table->lock);
  return record != NULL;
}

void gp_forwarded_table_each(
    gp_forwarded_table_t *table, int device, void (*fn)(void *arg, const gp_forwarded_t *memory), void *arg)
{
  int space = 0;
  size_t position = 0;
  const gp_forwarded_t *record;

  gp_lock_take(&table->lock);
  while ((record = next_record(table, &space, &position)))
    if (record->device == device)
      fn(arg, record);
  gp_lock_release(&table->lock);
}

typedef struct gp_forwarded_copies {
  gp_forwarded_t *array;
  size_t capacity;
  size_t count; /* number of records, including those beyond the array's capacity */
} gp_forwarded_copies_t;

static void copy(void *arg, const gp_forwarded_t *memory)
{
  gp_forwarded_copies_t *copies = arg;

  if (copies->count < copies->capacity)
    copies->array[copies->count] = *memory;
  copies->count++;
}

size_t gp_forwarded_table_copy(
    gp_forwarded_table_t *table, int device, gp_forwarded_t *array, size_t capacity)
{
  gp_forwarded_copies_t copies = {.array = array, .capacity = capacity};

  gp_forwarded_table_each(table, device, copy, &copies);
  return copies.count;
}

void gp_forwarded_table_init(gp_forwarded_table_t *table)
{
  gp_lock_init(&table->lock, GP_RANK_FORWARDED);
  for (int space = 0; space < GP_SPACE_COUNT; space++)
    gp_address_map_init(&table->by_key[space]);
}

void gp_forwarded_table_fini(gp_forwarded_table_t *table)
{
  int space = 0;
  size_t position = 0;
  gp_forwarded_t *record;

  gp_lock_take(&table->lock);
  while ((record = next_record(table, &space, &position)))
    free(record);
  gp_lock_release(&table->lock);
  for (space = 0; space < GP_SPACE_COUNT; space++)
    gp_address_map_fini(&table->by_key[space]);
  gp_assert_internal(gp_lock_is_free(&table->lock));
}
