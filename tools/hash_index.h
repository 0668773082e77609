/*
 * Finds items of an array by what they are: an open-addressing hash table of their places in the array. The
 * caller keeps the array, and says by two functions what an item's hash is and whether it is the one looked
 * for. One thread at a time.
 */
#ifndef GP_TOOLS_HASH_INDEX_H
#define GP_TOOLS_HASH_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/assert.h"

/* All zero is an empty index. All members are private. */
typedef struct gp_hash_index {
  uint32_t *slots; /* an item's place plus one; 0: free */
  size_t room;     /* slots: a power of two, of which at most half are in use */
  size_t count;
} gp_hash_index_t;

/* The hash of the item at that place of the array that self knows. */
typedef uint64_t (*gp_hash_index_hash_fn)(const void *self, size_t item);

/* True if the item at that place is the one that key describes. */
typedef bool (*gp_hash_index_is_fn)(const void *self, size_t item, const void *key);

#define GP_HASH_FIRST UINT64_C(0xcbf29ce484222325) /* of no bytes */

/* Adds bytes to a hash. */
static inline uint64_t gp_hash_bytes(uint64_t hash, const void *bytes, size_t length)
{
  for (const unsigned char *p = bytes, *end = p + length; p < end; p++)
    hash = (hash ^ *p) * UINT64_C(0x100000001b3); /* FNV-1a */
  return hash;
}

static inline uint64_t gp_hash_text(uint64_t hash, const char *text)
{
  for (const unsigned char *p = (const unsigned char *)text; *p; p++)
    hash = (hash ^ *p) * UINT64_C(0x100000001b3);
  return hash;
}

/* The hash of a number. Sizes and addresses, which differ in few bits, are spread. */
static inline uint64_t gp_hash_number(uint64_t number)
{
  return number * UINT64_C(0x9e3779b97f4a7c15) >> 20;
}

/* Where the search for a hash begins: hashes that follow each other are neighbours. */
static inline size_t gp_hash_index_home(const gp_hash_index_t *index, uint64_t hash)
{
  return (size_t)hash & (index->room - 1);
}

/* Makes room for that many more items. False without memory. */
bool gp_hash_index_grow(gp_hash_index_t *index, size_t more, gp_hash_index_hash_fn hash_of, const void *self);

/* Makes room for one more item. False without memory. */
static inline bool gp_hash_index_reserve(
    gp_hash_index_t *index, gp_hash_index_hash_fn hash_of, const void *self)
{
  return 2 * (index->count + 1) <= index->room || gp_hash_index_grow(index, 1, hash_of, self);
}

/* The slot of the item with that hash which is key, else the free slot for it. The index has room. */
static inline uint32_t *gp_hash_index_slot(
    const gp_hash_index_t *index, uint64_t hash, gp_hash_index_is_fn is, const void *self, const void *key)
{
  size_t at = gp_hash_index_home(index, hash);
  gp_assert_internal((index->room & (index->room - 1)) == 0 && 2 * index->count <= index->room);
  while (index->slots[at] && !is(self, index->slots[at] - 1, key))
    at = (at + 1) & (index->room - 1);
  return &index->slots[at];
}

/* The place of the item; SIZE_MAX: none. */
static inline size_t gp_hash_index_find(
    const gp_hash_index_t *index, uint64_t hash, gp_hash_index_is_fn is, const void *self, const void *key)
{
  return index->count ? (size_t)*gp_hash_index_slot(index, hash, is, self, key) - 1 : SIZE_MAX;
}

/*
 * Of items that begin with a pointer to their text, each text once: the item with that text. Appends it as in
 * array.h if it is missing, and then copies the text if is_copied (the caller frees it), else borrows it; all
 * else is zero. NULL: no memory.
 */
void *gp_hash_index_text(
    gp_hash_index_t *index, void *items, size_t *count, size_t item_size, const char *text, bool is_copied);

/* The same of items that begin with a uint64_t, each number once. */
void *gp_hash_index_number(
    gp_hash_index_t *index, void *items, size_t *count, size_t item_size, uint64_t number);

#define GP_HASH_TEXT(index, items, count, text, is_copied)                                                   \
  gp_hash_index_text(index, &(items), &(count), sizeof(*(items)), text, is_copied)
#define GP_HASH_NUMBER(index, items, count, number)                                                          \
  gp_hash_index_number(index, &(items), &(count), sizeof(*(items)), number)

/* Puts the place of an item into its slot. It takes that of an equal one. */
static inline void gp_hash_index_put(gp_hash_index_t *index, uint32_t *slot, size_t item)
{
  gp_assert(item < UINT32_MAX);
  index->count += *slot == 0;
  *slot = (uint32_t)item + 1;
}

/* Empties the slot of an item, which is still in the array. */
void gp_hash_index_take(
    gp_hash_index_t *index, uint32_t *slot, gp_hash_index_hash_fn hash_of, const void *self);

void gp_hash_index_fini(gp_hash_index_t *index);

#endif
