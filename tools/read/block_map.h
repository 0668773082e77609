/*
 * A hash map from the key of a block to data about the block. Not thread-safe.
 */
#ifndef GP_TOOLS_READ_BLOCK_MAP_H
#define GP_TOOLS_READ_BLOCK_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/hash_index.h"

/* Data about a block, with sizes in bytes. The map itself reads only `key`, which must not be 0. */
typedef struct gp_block_entry {
  uint64_t key;
  uint64_t address;
  uint64_t size;    /* requested bytes */
  uint64_t rounded; /* bytes that the block occupies */
  int device;
  int stream; /* index; -1: none */
  int stack;  /* index; -1: none */
  bool is_forwarded;
  bool is_marked; /* free for the caller's use */
} gp_block_entry_t;

/* A block map. Its entries are unordered. A zeroed struct is an empty map. */
typedef struct gp_block_map {
  gp_block_entry_t *entries;
  size_t count;
  gp_hash_index_t index; /* index of the entries by key */
} gp_block_map_t;

/* Returns the entry with the key, or NULL. The pointer is valid until the map changes. */
gp_block_entry_t *gp_block_map_find(const gp_block_map_t *map, uint64_t key);

/* Adds an entry, or replaces the entry with the same key. Returns false if memory runs out. */
bool gp_block_map_put(gp_block_map_t *map, const gp_block_entry_t *entry);

/* Removes the entry with the key and copies it to *ret_entry, which may be NULL. Returns false if the map has
 * no such entry. */
bool gp_block_map_take(gp_block_map_t *map, uint64_t key, gp_block_entry_t *ret_entry);

/* Returns a copy of the entries sorted by key, or NULL if memory runs out. The caller frees it with
 * free(). */
gp_block_entry_t *gp_block_map_sorted(const gp_block_map_t *map);

void gp_block_map_fini(gp_block_map_t *map);

#endif
