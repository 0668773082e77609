#include "tools/read/block_map.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

#define ROOM_FIRST 64

/* Where the search for key begins. Addresses and counters differ in few bits, so the hash spreads them. */
static size_t home_of(const gp_block_map_t *map, uint64_t key)
{
  uint64_t hash = key * UINT64_C(0x9e3779b97f4a7c15);
  return (size_t)(hash ^ hash >> 32) & (map->room - 1);
}

/* The slot of key, or the free slot for it. There always is a free one. */
static gp_block_entry_t *slot_of(const gp_block_map_t *map, uint64_t key)
{
  gp_assert_internal((map->room & (map->room - 1)) == 0 && 2 * map->count <= map->room);
  size_t at = home_of(map, key);
  while (map->entries[at].key && map->entries[at].key != key)
    at = (at + 1) & (map->room - 1);
  return &map->entries[at];
}

gp_block_entry_t *gp_block_map_find(const gp_block_map_t *map, uint64_t key)
{
  if (!map->count || !key)
    return NULL;
  gp_block_entry_t *slot = slot_of(map, key);
  return slot->key ? slot : NULL;
}

static bool grow(gp_block_map_t *map)
{
  gp_block_map_t larger = {.room = map->room ? 2 * map->room : ROOM_FIRST, .count = map->count};
  larger.entries = calloc(larger.room, sizeof(*larger.entries));
  if (!larger.entries)
    return false;
  for (size_t i = 0; i < map->room; i++) {
    if (map->entries[i].key)
      *slot_of(&larger, map->entries[i].key) = map->entries[i];
  }
  free(map->entries);
  *map = larger;
  return true;
}

bool gp_block_map_put(gp_block_map_t *map, const gp_block_entry_t *entry)
{
  gp_assert(entry->key);
  if (2 * (map->count + 1) > map->room && !grow(map))
    return false;
  gp_block_entry_t *slot = slot_of(map, entry->key);
  map->count += slot->key == 0;
  *slot = *entry;
  return true;
}

bool gp_block_map_take(gp_block_map_t *map, uint64_t key, gp_block_entry_t *ret_entry)
{
  gp_block_entry_t *slot = gp_block_map_find(map, key);
  if (!slot)
    return false;
  if (ret_entry)
    *ret_entry = *slot;
  /* Moves later entries up, except those that would get before their home. So
   * deleted entries need no marks. */
  size_t hole = (size_t)(slot - map->entries);
  for (size_t at = (hole + 1) & (map->room - 1); map->entries[at].key; at = (at + 1) & (map->room - 1)) {
    size_t home = home_of(map, map->entries[at].key);
    if (((at - home) & (map->room - 1)) < ((at - hole) & (map->room - 1)))
      continue;
    map->entries[hole] = map->entries[at];
    hole = at;
  }
  map->entries[hole].key = 0;
  map->count--;
  return true;
}

static int compare_keys(const void *a, const void *b)
{
  const gp_block_entry_t *x = a, *y = b;
  return (x->key > y->key) - (x->key < y->key);
}

gp_block_entry_t *gp_block_map_sorted(const gp_block_map_t *map)
{
  gp_block_entry_t *sorted = malloc((map->count + 1) * sizeof(*sorted));
  size_t count = 0;
  if (!sorted)
    return NULL;
  for (size_t i = 0; i < map->room; i++) {
    if (map->entries[i].key)
      sorted[count++] = map->entries[i];
  }
  qsort(sorted, count, sizeof(*sorted), compare_keys);
  return sorted;
}

void gp_block_map_fini(gp_block_map_t *map)
{
  free(map->entries);
  *map = (gp_block_map_t){.count = 0};
}
