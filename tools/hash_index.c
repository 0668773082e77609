#include "tools/hash_index.h"

#include <stdlib.h>
#include <string.h>

#include "tools/array.h"

#define ROOM_FIRST 64

bool gp_hash_index_grow(gp_hash_index_t *index, size_t more, gp_hash_index_hash_fn hash_of, const void *self)
{
  gp_hash_index_t larger = {.room = ROOM_FIRST, .count = index->count};
  if (more > UINT32_MAX - index->count) /* an index must fit 32 bits */
    return false;
  while (larger.room < 2 * (index->count + more))
    larger.room *= 2;
  larger.slots = calloc(larger.room, sizeof(*larger.slots));
  if (!larger.slots)
    return false;
  for (size_t i = 0; i < index->room; i++) {
    if (!index->slots[i])
      continue;
    size_t at = gp_hash_index_home(&larger, hash_of(self, index->slots[i] - 1));
    while (larger.slots[at])
      at = (at + 1) & (larger.room - 1);
    larger.slots[at] = index->slots[i];
  }
  free(index->slots);
  *index = larger;
  return true;
}

/* An array whose items begin with a pointer to their text, or with a number. */
typedef struct keyed {
  const char *items;
  size_t item_size;
} keyed_t;

static const char *text_at(const void *self, size_t item)
{
  const keyed_t *keyed = self;
  return *(const char *const *)(const void *)(keyed->items + item * keyed->item_size);
}

static uint64_t hash_of_text(const void *self, size_t item)
{
  return gp_hash_text(GP_HASH_FIRST, text_at(self, item));
}

static bool is_text(const void *self, size_t item, const void *key)
{
  return strcmp(text_at(self, item), key) == 0;
}

/* Returns a keyed_t for an array. `items` is the address of the caller's item pointer. */
static inline keyed_t keyed_of(const void *items, size_t item_size)
{
  keyed_t keyed = {.item_size = item_size};
  memcpy(&keyed.items, items, sizeof(keyed.items)); /* the caller's pointer has another type */
  return keyed;
}

static inline void *item_at(const keyed_t *keyed, size_t item)
{
  return (char *)keyed->items + item * keyed->item_size;
}

static void *append(gp_hash_index_t *index, uint32_t *slot, void *items, size_t *count, size_t item_size)
{
  void *item = gp_array_add(items, count, item_size);
  if (item)
    gp_hash_index_put(index, slot, *count - 1);
  return item;
}

void *gp_hash_index_text(
    gp_hash_index_t *index, void *items, size_t *count, size_t item_size, const char *text, bool is_copied)
{
  const keyed_t keyed = keyed_of(items, item_size);
  if (!gp_hash_index_reserve(index, hash_of_text, &keyed))
    return NULL;
  uint32_t *slot = gp_hash_index_slot(index, gp_hash_text(GP_HASH_FIRST, text), is_text, &keyed, text);
  if (*slot)
    return item_at(&keyed, *slot - 1);
  char *copy = is_copied ? strdup(text) : NULL;
  const char **item = is_copied && !copy ? NULL : append(index, slot, items, count, item_size);
  if (item)
    *item = is_copied ? copy : text;
  else
    free(copy);
  return item;
}

static uint64_t number_at(const void *self, size_t item)
{
  const keyed_t *keyed = self;
  return *(const uint64_t *)(const void *)(keyed->items + item * keyed->item_size);
}

static uint64_t hash_of_number(const void *self, size_t item)
{
  return gp_hash_number(number_at(self, item));
}

static bool is_number(const void *self, size_t item, const void *key)
{
  return number_at(self, item) == *(const uint64_t *)key;
}

void *gp_hash_index_number(
    gp_hash_index_t *index, void *items, size_t *count, size_t item_size, uint64_t number)
{
  const keyed_t keyed = keyed_of(items, item_size);
  if (!gp_hash_index_reserve(index, hash_of_number, &keyed))
    return NULL;
  uint32_t *slot = gp_hash_index_slot(index, gp_hash_number(number), is_number, &keyed, &number);
  if (*slot)
    return item_at(&keyed, *slot - 1);
  uint64_t *item = append(index, slot, items, count, item_size);
  if (item)
    *item = number;
  return item;
}

void gp_hash_index_take(
    gp_hash_index_t *index, uint32_t *slot, gp_hash_index_hash_fn hash_of, const void *self)
{
  /* Closes the hole: moves each later entry of the run into the hole, unless the hole is before that entry's
   * home slot. Deleted entries therefore need no markers. */
  size_t hole = (size_t)(slot - index->slots), mask = index->room - 1;
  gp_assert(*slot);
  for (size_t at = (hole + 1) & mask; index->slots[at]; at = (at + 1) & mask) {
    size_t home = gp_hash_index_home(index, hash_of(self, index->slots[at] - 1));
    if (((at - home) & mask) < ((at - hole) & mask))
      continue;
    index->slots[hole] = index->slots[at];
    hole = at;
  }
  index->slots[hole] = 0;
  index->count--;
}

void gp_hash_index_fini(gp_hash_index_t *index)
{
  free(index->slots);
  *index = (gp_hash_index_t){.count = 0};
}
