/*
 * Address -> record. Open addressing; readers take no lock, writers hold the map's own.
 *
 * Invariants: used + promised <= capacity * 3 / 4, used counts live and deleted slots; a slot's value is
 * stored before its key is published. The map frees no table before fini, because a reader may still be in
 * it: it keeps an outgrown table, of which only the addresses remain, and a table full of deleted slots
 * becomes the spare for the next rebuild of the same size. The generation grows before a spare is
 * overwritten, and after a new table is in force, before the old one loses its pages; a reader looks again if
 * it has changed meanwhile. So a reader that looks for an address whose insertion happened before its call
 * always finds it. A reader that races with the removal of that address may get a record that has since
 * become another's, and must compare under the record's lock.
 */
#ifndef GP_POOL_SPACE_ADDRESS_MAP_H
#define GP_POOL_SPACE_ADDRESS_MAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/lock.h"

/* The key of a deleted slot; no driver gives this address. */
#define GP_ADDRESS_DELETED UINT64_C(1)

typedef struct gp_address_slot {
  _Atomic uint64_t key; /* 0: never used; GP_ADDRESS_DELETED: removed */
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
  size_t promised; /* entries still to come */
} gp_address_map_t;

/* For maps with static storage, which have no fini. Other maps begin with gp_address_map_init. */
#define GP_ADDRESS_MAP_INIT                                                                                  \
  {                                                                                                          \
    .lock = GP_LOCK_INIT(GP_RANK_MAP)                                                                        \
  }

void gp_address_map_init(gp_address_map_t *map);
void gp_address_map_fini(gp_address_map_t *map);

/* address is neither 0 nor 1. Replaces an earlier record. Returns false, with nothing changed, if
 * the host is out of memory. */
bool gp_address_map_insert(gp_address_map_t *map, uint64_t address, void *value);

/*
 * Makes room for one more entry, which gp_address_map_insert_promised uses and gp_address_map_unpromise
 * gives up: for callers that cannot go back once they know the address. False: the host is out of memory.
 */
bool gp_address_map_promise(gp_address_map_t *map);
void gp_address_map_unpromise(gp_address_map_t *map);
void gp_address_map_insert_promised(gp_address_map_t *map, uint64_t address, void *value);

/* Driver addresses are multiples of 512 and often of 2 MiB: the multiplication spreads the high bits over the
 * index. */
static inline size_t gp_address_table_first(const gp_address_table_t *table, uint64_t address)
{
  uint64_t hash = address * UINT64_C(0x9e3779b97f4a7c15);
  return (size_t)(hash >> 20) & (table->capacity - 1);
}

static inline gp_address_slot_t *gp_address_table_find(const gp_address_table_t *table, uint64_t address)
{
  for (size_t i = gp_address_table_first(table, address);; i = (i + 1) & (table->capacity - 1)) {
    gp_address_slot_t *slot = (gp_address_slot_t *)&table->slots[i];
    uint64_t key = atomic_load_explicit(&slot->key, memory_order_acquire);
    if (key == address)
      return slot;
    if (key == 0)
      return NULL;
  }
}

/* The record at address, or NULL. Takes no lock. */
static inline void *gp_address_map_find(const gp_address_map_t *map, uint64_t address)
{
  uint64_t generation;
  void *value;

  if (address <= GP_ADDRESS_DELETED)
    return NULL;
  do {
    generation = atomic_load_explicit(&map->generation, memory_order_acquire);
    const gp_address_table_t *table = atomic_load_explicit(&map->table, memory_order_acquire);
    const gp_address_slot_t *slot = table ? gp_address_table_find(table, address) : NULL;
    value = slot ? atomic_load_explicit(&slot->value, memory_order_acquire) : NULL;
    /* The loads of keys and values acquire: if one of them saw an overwritten spare, this load
     * sees the newer generation. */
  } while (atomic_load_explicit(&map->generation, memory_order_relaxed) != generation);
  return value;
}

/* Removes address and returns its record, or NULL. */
void *gp_address_map_remove(gp_address_map_t *map, uint64_t address);

/* Removes address if it leads to value: another record may have the address by now. */
void gp_address_map_remove_value(gp_address_map_t *map, uint64_t address, const void *value);

#endif
