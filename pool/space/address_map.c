#include "pool/space/address_map.h"

#include <stdlib.h>

#include "base/pages.h"

/* Initial capacity. Tests set a small value, so that the map rebuilds its tables often. */
#ifndef GP_ADDRESS_MAP_CAPACITY
#define GP_ADDRESS_MAP_CAPACITY 1024
#endif

void gp_address_map_init(gp_address_map_t *map)
{
  atomic_init(&map->table, NULL);
  atomic_init(&map->generation, 0);
  map->spare = NULL;
  map->outgrown = NULL;
  gp_lock_init(&map->lock, GP_RANK_MAP);
  map->used = 0;
  map->live = 0;
  map->promised = 0;
}

void gp_address_map_fini(gp_address_map_t *map)
{
  while (map->outgrown) {
    gp_address_table_t *next = map->outgrown->next;
    free(map->outgrown);
    map->outgrown = next;
  }
  free(map->spare);
  free(atomic_load(&map->table));
  gp_assert_internal(gp_lock_is_free(&map->lock));
}

/* Puts an address that is not in the table into its first free slot. Returns true if the slot was never used
 * before, false if it was a deleted one. */
static bool place(gp_address_table_t *table, uint64_t address, void *value)
{
  for (size_t i = gp_address_table_first(table, address);; i = (i + 1) & (table->capacity - 1)) {
    gp_address_slot_t *slot = &table->slots[i];
    uint64_t key = atomic_load_explicit(&slot->key, memory_order_relaxed);
    if (key != 0 && key != GP_ADDRESS_DELETED)
      continue;
    atomic_store_explicit(&slot->value, value, memory_order_release);
    atomic_store_explicit(&slot->key, address, memory_order_release);
    return key == 0;
  }
}

/* Returns a cleared table of that capacity: the spare table if it has that capacity, otherwise a new table.
 * Returns NULL if the host is out of memory. */
static gp_address_table_t *take_table(gp_address_map_t *map, size_t capacity)
{
  gp_address_table_t *table = map->spare;

  if (!table || table->capacity != capacity) {
    table = calloc(1, sizeof(*table) + capacity * sizeof(table->slots[0]));
    if (table)
      table->capacity = capacity;
    return table;
  }
  map->spare = NULL;
  atomic_fetch_add(&map->generation, 1); /* must come before the first slot is overwritten */
  for (size_t i = 0; i < capacity; i++)
    atomic_store_explicit(&table->slots[i].key, 0, memory_order_release);
  return table;
}

static void retire_table(gp_address_map_t *map, gp_address_table_t *old, size_t capacity)
{
  if (old && old->capacity == capacity) {
    map->spare = old;
    return;
  }
  gp_address_table_t *retired[] = {old, map->spare};
  map->spare = NULL;
  for (int i = 0; i < 2; i++) {
    if (retired[i]) {
      retired[i]->next = map->outgrown;
      map->outgrown = retired[i];
      gp_pages_drop(retired[i]->slots, retired[i]->capacity * sizeof(retired[i]->slots[0]));
    }
  }
}

/* Moves the entries to a table without deleted slots, whose capacity is at least twice the live and promised
 * entries. Returns the table, or NULL if the host is out of memory. */
static gp_address_table_t *rebuild(gp_address_map_t *map, gp_address_table_t *old)
{
  size_t capacity = old ? old->capacity : GP_ADDRESS_MAP_CAPACITY; /* capacities never shrink */
  while (capacity / 2 < map->live + map->promised + 1)
    capacity *= 2;
  gp_address_table_t *table = take_table(map, capacity);
  if (!table)
    return NULL;
  map->used = 0;
  for (size_t i = 0; old && i < old->capacity; i++) {
    uint64_t key = atomic_load_explicit(&old->slots[i].key, memory_order_relaxed);
    if (key != 0 && key != GP_ADDRESS_DELETED)
      map->used += place(table, key, atomic_load_explicit(&old->slots[i].value, memory_order_relaxed));
  }
  atomic_store_explicit(&map->table, table, memory_order_release);
  atomic_fetch_add(&map->generation, 1);
  retire_table(map, old, capacity);
  return table;
}

/* Returns a table with room for one more entry, or NULL if the host is out of memory. The caller holds the
 * map's lock. */
static gp_address_table_t *make_room(gp_address_map_t *map, gp_address_table_t *table)
{
  gp_assert_internal(gp_lock_is_held(&map->lock));
  if (!table || (map->used + map->promised + 1) * 4 > table->capacity * 3)
    return rebuild(map, table);
  return table;
}

/* Inserts an address or replaces its record. The caller holds the map's lock. */
static bool insert_locked(gp_address_map_t *map, uint64_t address, void *value)
{
  gp_assert_internal(gp_lock_is_held(&map->lock));
  gp_address_table_t *table = atomic_load_explicit(&map->table, memory_order_relaxed);
  gp_address_slot_t *slot = table ? gp_address_table_find(table, address) : NULL;
  if (slot) {
    atomic_store_explicit(&slot->value, value, memory_order_release);
    return true;
  }
  table = make_room(map, table);
  if (!table)
    return false;
  map->used += place(table, address, value);
  map->live++;
  return true;
}

bool gp_address_map_insert(gp_address_map_t *map, uint64_t address, void *value)
{
  gp_lock_take(&map->lock);
  bool inserted = insert_locked(map, address, value);
  gp_lock_release(&map->lock);
  return inserted;
}

bool gp_address_map_promise(gp_address_map_t *map)
{
  gp_lock_take(&map->lock);
  bool has_room = make_room(map, atomic_load_explicit(&map->table, memory_order_relaxed)) != NULL;
  map->promised += has_room;
  gp_lock_release(&map->lock);
  return has_room;
}

void gp_address_map_unpromise(gp_address_map_t *map)
{
  gp_lock_take(&map->lock);
  gp_assert_internal(map->promised > 0 && gp_lock_is_held(&map->lock));
  map->promised--;
  gp_lock_release(&map->lock);
}

void gp_address_map_insert_promised(gp_address_map_t *map, uint64_t address, void *value)
{
  gp_lock_take(&map->lock);
  gp_assert_internal(map->promised > 0);
  map->promised--;
  bool inserted = insert_locked(map, address, value);
  gp_assert(inserted);
  (void)inserted;
  gp_lock_release(&map->lock);
}

/* Removes the address and returns its record, or NULL. If `value` is not NULL, removes the address only if
 * its record is `value`. The caller holds the map's lock. */
static void *remove_locked(gp_address_map_t *map, uint64_t address, const void *value)
{
  gp_assert_internal(gp_lock_is_held(&map->lock));
  gp_address_table_t *table = atomic_load_explicit(&map->table, memory_order_relaxed);
  gp_address_slot_t *slot =
      table && address > GP_ADDRESS_DELETED ? gp_address_table_find(table, address) : NULL;
  if (!slot)
    return NULL;
  void *found = atomic_load_explicit(&slot->value, memory_order_relaxed);
  if (value && found != value)
    return NULL;
  atomic_store_explicit(&slot->key, GP_ADDRESS_DELETED, memory_order_release);
  map->live--;
  return found;
}

void *gp_address_map_remove(gp_address_map_t *map, uint64_t address)
{
  gp_lock_take(&map->lock);
  void *found = remove_locked(map, address, NULL);
  gp_lock_release(&map->lock);
  return found;
}

void gp_address_map_remove_value(gp_address_map_t *map, uint64_t address, const void *value)
{
  gp_lock_take(&map->lock);
  (void)remove_locked(map, address, value);
  gp_lock_release(&map->lock);
}
