/*
 * A hash map from a block's key to its data. Not thread-safe.
 */
#ifndef GP_TOOLS_READ_BLOCK_MAP_H
#define GP_TOOLS_READ_BLOCK_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/hash_index.h"

/* Data about a block. The map itself reads only key, which must not be 0. Sizes in bytes. */
typedef struct gp_block_entry {
  uint64_t key;
  uint64_t address;
  uint64_t size;    /* bytes requested */
  uint64_t rounded; /* bytes that the block occupies */
  int device;
  int stream; /* index, -1: none */
  int stack;  /* index, -1: none */
  bool is_forwarded;
  bool is_marked; /* for the caller's use */
} gp_block_entry_t;

/* A block map. The entries are in no order. A zeroed struct is an empty map. */
typedef struct gp_block_map {
  gp_block_entry_t *entries;
  size_t count;
  gp_hash_index_t index; /* finds an entry by its key */
} gp_block_map_t;

/* Returns the entry of key, or NULL. The pointer is valid until the map changes. */
gp_block_entry_t *gp_block_map_find(const gp_block_map_t *map, uint64_t key);

/* Adds an entry, or replaces the one with the same key. Returns false if there is no memory. */
bool gp_block_map_put(gp_block_map_t *map, const gp_block_entry_t *entry);

/* Removes the entry of key and copies it to *ret_entry, which may be NULL. Returns false if there is no such
 * entry. */
bool gp_block_map_take(gp_block_map_t *map, uint64_t key, gp_block_entry_t *ret_entry);

/* Returns a copy of the entries, sorted by key, or NULL if there is no memory. The caller frees it with
 * free(). */
gp_block_entry_t *gp_block_map_sorted(const gp_block_map_t *map);

void gp_block_map_fini(gp_block_map_t *map);

#endif
