/*
 * Finds array items by content: an open-addressing hash table of array indexes. The caller owns the array
 * and provides two functions: one returns the hash of an item, the other compares an item with a key. One
 * thread at a time.
 */
#ifndef GP_TOOLS_HASH_INDEX_H
#define GP_TOOLS_HASH_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/assert.h"

/* A zeroed struct is an empty index. All members are private. */
typedef struct gp_hash_index {
  uint32_t *slots; /* array index of the slot's item plus one; 0: the slot is free */
  size_t room;     /* number of slots: a power of two, at least twice count */
  size_t count;
} gp_hash_index_t;

/* Returns the hash of the item at index `item` in the array that `self` describes. */
typedef uint64_t (*gp_hash_index_hash_fn)(const void *self, size_t item);

/* Returns true if the item at index `item` matches `key`. */
typedef bool (*gp_hash_index_is_fn)(const void *self, size_t item, const void *key);

#define GP_HASH_FIRST UINT64_C(0xcbf29ce484222325) /* the hash of an empty text */

/* Returns `hash` extended by the bytes. */
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

/* Returns the hash of a number. Spreads the bits, because sizes and addresses differ in few of them. */
static inline uint64_t gp_hash_number(uint64_t number)
{
  return number * UINT64_C(0x9e3779b97f4a7c15) >> 20;
}

/* Returns the slot where the search for `hash` begins. Consecutive hashes have neighbouring slots. */
static inline size_t gp_hash_index_home(const gp_hash_index_t *index, uint64_t hash)
{
  return (size_t)hash & (index->room - 1);
}

/* Makes room for `more` items. Returns false if memory runs out. */
bool gp_hash_index_grow(gp_hash_index_t *index, size_t more, gp_hash_index_hash_fn hash_of, const void *self);

/* Makes room for one more item. Returns false if memory runs out. */
static inline bool gp_hash_index_reserve(
    gp_hash_index_t *index, gp_hash_index_hash_fn hash_of, const void *self)
{
  return 2 * (index->count + 1) <= index->room || gp_hash_index_grow(index, 1, hash_of, self);
}

/* Returns the slot of the item that has this hash and matches `key`, or the free slot where it belongs. The
 * index must have room for one more item. */
static inline uint32_t *gp_hash_index_slot(
    const gp_hash_index_t *index, uint64_t hash, gp_hash_index_is_fn is, const void *self, const void *key)
{
  size_t at = gp_hash_index_home(index, hash);
  gp_assert_internal((index->room & (index->room - 1)) == 0 && 2 * index->count <= index->room);
  while (index->slots[at] && !is(self, index->slots[at] - 1, key))
    at = (at + 1) & (index->room - 1);
  return &index->slots[at];
}

/* Returns the array index of the item that matches `key`, or SIZE_MAX if there is none. */
static inline size_t gp_hash_index_find(
    const gp_hash_index_t *index, uint64_t hash, gp_hash_index_is_fn is, const void *self, const void *key)
{
  return index->count ? (size_t)*gp_hash_index_slot(index, hash, is, self, key) - 1 : SIZE_MAX;
}

/*
 * Returns the item with that text from an array of unique texts, whose items begin with a pointer to their
 * text. If the text is missing, appends a zeroed item (array.h). With `is_copied` the new item gets a copy,
 * which the caller frees; otherwise it borrows `text`. Returns NULL if memory runs out.
 */
void *gp_hash_index_text(
    gp_hash_index_t *index, void *items, size_t *count, size_t item_size, const char *text, bool is_copied);

/* Like gp_hash_index_text, for an array of unique numbers, whose items begin with a uint64_t. */
void *gp_hash_index_number(
    gp_hash_index_t *index, void *items, size_t *count, size_t item_size, uint64_t number);

#define GP_HASH_TEXT(index, items, count, text, is_copied)                                                   \
  gp_hash_index_text(index, &(items), &(count), sizeof(*(items)), text, is_copied)
#define GP_HASH_NUMBER(index, items, count, number)                                                          \
  gp_hash_index_number(index, &(items), &(count), sizeof(*(items)), number)

/* Stores the array index `item` in its slot. Replaces the index of an equal item, if the slot has one. */
static inline void gp_hash_index_put(gp_hash_index_t *index, uint32_t *slot, size_t item)
{
  gp_assert(item < UINT32_MAX);
  index->count += *slot == 0;
  *slot = (uint32_t)item + 1;
}

/* Removes an item's slot from the index. The item must still be in the array. */
void gp_hash_index_take(
    gp_hash_index_t *index, uint32_t *slot, gp_hash_index_hash_fn hash_of, const void *self);

void gp_hash_index_fini(gp_hash_index_t *index);

#endif
