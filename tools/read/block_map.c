#include "tools/read/block_map.h"

#include <stdlib.h>
#include <string.h>

#include "tools/array.h"

static uint64_t hash_of_entry(const void *self, size_t item)
{
  return gp_hash_number(((const gp_block_map_t *)self)->entries[item].key);
}

static bool is_entry(const void *self, size_t item, const void *key)
{
  return ((const gp_block_map_t *)self)->entries[item].key == *(const uint64_t *)key;
}

/* Returns the index slot that contains `key`, or else the free slot in which to put it. The index must exist,
 * so the map must have had an entry before. */
static uint32_t *slot_of(const gp_block_map_t *map, uint64_t key)
{
  return gp_hash_index_slot(&map->index, gp_hash_number(key), is_entry, map, &key);
}

gp_block_entry_t *gp_block_map_find(const gp_block_map_t *map, uint64_t key)
{
  uint32_t slot = map->count ? *slot_of(map, key) : 0;
  return slot ? &map->entries[slot - 1] : NULL;
}

bool gp_block_map_put(gp_block_map_t *map, const gp_block_entry_t *entry)
{
  gp_assert(entry->key);
  if (!gp_hash_index_reserve(&map->index, hash_of_entry, map))
    return false;
  uint32_t *slot = slot_of(map, entry->key);
  gp_block_entry_t *place = *slot ? &map->entries[*slot - 1] : GP_ARRAY_ADD(map->entries, map->count);
  if (!place)
    return false;
  *place = *entry;
  gp_hash_index_put(&map->index, slot, (size_t)(place - map->entries));
  return true;
}

bool gp_block_map_take(gp_block_map_t *map, uint64_t key, gp_block_entry_t *ret_entry)
{
  gp_block_entry_t *entry = gp_block_map_find(map, key);
  if (!entry)
    return false;
  gp_block_entry_t *last = &map->entries[map->count - 1];
  if (ret_entry)
    *ret_entry = *entry;
  gp_hash_index_take(&map->index, slot_of(map, key), hash_of_entry, map);
  if (entry != last) { /* move the last entry into the gap */
    gp_hash_index_put(&map->index, slot_of(map, last->key), (size_t)(entry - map->entries));
    *entry = *last;
  }
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
  if (!sorted || !map->count)
    return sorted;
  memcpy(sorted, map->entries, map->count * sizeof(*sorted));
  qsort(sorted, map->count, sizeof(*sorted), compare_keys);
  return sorted;
}

void gp_block_map_fini(gp_block_map_t *map)
{
  free(map->entries);
  gp_hash_index_fini(&map->index);
  *map = (gp_block_map_t){.count = 0};
}
