/*
 * Address -> record. Open addressing; readers take no lock, writers hold the map's own.
 *
 * Invariants: used <= capacity * 3 / 4, used counts live and deleted slots; a slot's value is stored before
 * its key is published. Memory of a table is never returned before fini, because a reader may still be in it:
 * a table that was outgrown is kept, and one that filled up with deleted slots becomes the spare into which
 * the next rebuild of the same size goes. The generation grows before a spare is overwritten and after a new
 * table is in force; a reader looks again if it has changed meanwhile. So a reader that looks for an address
 * whose insertion happened before its call always finds it. A reader that races with the removal of that
 * address may get a record that has since become another's, and must compare under the record's lock.
 */
#ifndef GP_POOL_SPACE_ADDRESS_MAP_H
#define GP_POOL_SPACE_ADDRESS_MAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/util/lock.h"

typedef struct gp_address_slot {
  _Atomic uint64_t key; /* 0: never used; ADDRESS_DELETED of address_map.c: removed */
  _Atomic(void *) value;
} gp_address_slot_t;

typedef struct gp_address_table {
  struct gp_address_table *next;
  size_t capacity; /* a power of two */
  gp_address_slot_t slots[];
} gp_address_table_t;

typedef struct gp_address_map {
  _Atomic(gp_address_table_t *) table; /* NULL: empty */
  _Atomic uint64_t generation;
  gp_address_table_t *spare;    /* of the same capacity as table, or NULL */
  gp_address_table_t *outgrown; /* smaller ones, a list */
  gp_lock_t lock;
  size_t used;
  size_t live;
} gp_address_map_t;

void gp_address_map_init(gp_address_map_t *map);
void gp_address_map_fini(gp_address_map_t *map);

/* address is neither 0 nor 1. Replaces what was there. Returns false, nothing changed, if the host is out of
 * memory. */
bool gp_address_map_insert(gp_address_map_t *map, uint64_t address, void *value);

/* The record at address, or NULL. Takes no lock. */
void *gp_address_map_find(const gp_address_map_t *map, uint64_t address);

/* Removes address and returns what was there, or NULL. */
void *gp_address_map_remove(gp_address_map_t *map, uint64_t address);

/* Removes address if it leads to value: the address may have been given to another record meanwhile. */
void gp_address_map_remove_value(gp_address_map_t *map, uint64_t address, const void *value);

#endif
