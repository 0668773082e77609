/*
 * Blocks by number: from a block's key to its data. One thread at a time.
 */
#ifndef GP_TOOLS_READ_BLOCK_MAP_H
#define GP_TOOLS_READ_BLOCK_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/hash_index.h"

/* Data about a block. The map itself uses only key, which is not 0. Sizes in bytes. */
typedef struct gp_block_entry {
  uint64_t key;
  uint64_t address;
  uint64_t size;    /* bytes asked for */
  uint64_t rounded; /* bytes that the block takes */
  int device;
  int stream; /* index, -1: none */
  int stack;  /* index, -1: none */
  bool is_forwarded;
  bool is_marked; /* for the caller's use */
} gp_block_entry_t;

/* Its entries are in no order. All zero is an empty map. */
typedef struct gp_block_map {
  gp_block_entry_t *entries;
  size_t count;
  gp_hash_index_t index; /* of the entries by key */
} gp_block_map_t;

/* The entry of key, or NULL. Valid until the map changes. */
gp_block_entry_t *gp_block_map_find(const gp_block_map_t *map, uint64_t key);

/* Adds an entry, or replaces the one with the same key. Returns false without memory. */
bool gp_block_map_put(gp_block_map_t *map, const gp_block_entry_t *entry);

/* Removes the entry of key and copies it to *ret_entry (may be NULL). Returns false if there is none. */
bool gp_block_map_take(gp_block_map_t *map, uint64_t key, gp_block_entry_t *ret_entry);

/* The entries sorted by key. The caller frees them with free(). NULL: no memory. */
gp_block_entry_t *gp_block_map_sorted(const gp_block_map_t *map);

void gp_block_map_fini(gp_block_map_t *map);

#endif
