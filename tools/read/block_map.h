/*
 * Blocks by number: an open-addressing hash table from a block's key to what is known of it. One thread at a
 * time.
 */
#ifndef GP_TOOLS_READ_BLOCK_MAP_H
#define GP_TOOLS_READ_BLOCK_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is known of a block; only key has a meaning to the map. Sizes in bytes. */
typedef struct gp_block_entry {
  uint64_t key; /* 0: the slot is free */
  uint64_t address;
  uint64_t size;    /* asked for */
  uint64_t rounded; /* what the block takes */
  int device;
  int stream; /* index, -1: none */
  int stack;  /* index, -1: none */
  bool is_forwarded;
  bool is_marked; /* the caller's */
} gp_block_entry_t;

/* An array of room entries, a power of two, at most half of them taken. Zeroed: empty. */
typedef struct gp_block_map {
  gp_block_entry_t *entries;
  size_t room;
  size_t count;
} gp_block_map_t;

/* The entry of key, or NULL. It is valid until the map changes. */
gp_block_entry_t *gp_block_map_find(const gp_block_map_t *map, uint64_t key);

/* Puts an entry in, in the place of one with the same key. entry->key is not 0. Returns
 * false without memory. */
bool gp_block_map_put(gp_block_map_t *map, const gp_block_entry_t *entry);

/* Takes the entry of key out, if there is one, and copies it to *ret_entry (may be NULL). Returns whether
 * there was. */
bool gp_block_map_take(gp_block_map_t *map, uint64_t key, gp_block_entry_t *ret_entry);

/* The entries in the order of their keys, which the caller gives back with free(). NULL: no memory. */
gp_block_entry_t *gp_block_map_sorted(const gp_block_map_t *map);

void gp_block_map_fini(gp_block_map_t *map);

#endif
