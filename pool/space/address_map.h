/*
 * Maps addresses to records by open addressing. Readers take no lock; writers take the map's own lock.
 *
 * Invariants: used + promised <= capacity * 3 / 4, where `used` counts live and deleted slots. A slot's value
 * is stored before its key is published. The map frees no table before fini, because a reader may still be in
 * it. It keeps an outgrown table as a range of addresses without pages. A table full of deleted slots becomes
 * the spare for the next rebuild of the same size. The generation grows before a spare is overwritten. It
 * also grows after a new table is published and before the old one loses its pages. A reader searches again
 * if the generation has changed meanwhile. So a reader always finds an address that was inserted before its
 * call. A reader that races with the removal of an address may get a record that now belongs to another
 * address. So readers must compare addresses under the record's lock.
 */
#ifndef GP_POOL_SPACE_ADDRESS_MAP_H
#define GP_POOL_SPACE_ADDRESS_MAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/lock.h"

/* The key of a deleted slot, an address that no driver returns. */
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
  _Atomic(gp_address_table_t *) table; /* NULL: the map is empty */
  _Atomic uint64_t generation;
  gp_address_table_t *spare;    /* table of the same capacity as `table`, or NULL */
  gp_address_table_t *outgrown; /* list of smaller tables */
  gp_lock_t lock;
  size_t used;
  size_t live;
  size_t promised; /* number of entries for which room is promised, but not used yet */
} gp_address_map_t;

/* Initializes a map with static storage, which has no fini. Other maps begin with gp_address_map_init. */
#define GP_ADDRESS_MAP_INIT                                                                                  \
  {                                                                                                          \
    .lock = GP_LOCK_INIT(GP_RANK_MAP)                                                                        \
  }

void gp_address_map_init(gp_address_map_t *map);
void gp_address_map_fini(gp_address_map_t *map);

/* Inserts the record of an address, which is neither 0 nor 1, or replaces its earlier record. Returns false,
 * without any change, if the host is out of memory. */
bool gp_address_map_insert(gp_address_map_t *map, uint64_t address, void *value);

/*
 * gp_address_map_promise reserves room for one more entry. gp_address_map_insert_promised uses that room, and
 * gp_address_map_unpromise cancels the reservation. For callers that can no longer fail once they know the
 * address. Returns false if the host is out of memory.
 */
bool gp_address_map_promise(gp_address_map_t *map);
void gp_address_map_unpromise(gp_address_map_t *map);
void gp_address_map_insert_promised(gp_address_map_t *map, uint64_t address, void *value);

/* Returns the index at which the search for an address begins. Driver addresses are multiples of 512 and
 * often of 2 MiB, so the multiplication spreads their high bits over the index. */
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

/* Returns the record of an address, or NULL. Takes no lock. */
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
    /* The loads of keys and values have acquire order. If one of them saw an overwritten spare, this load
     * sees the newer generation. */
  } while (atomic_load_explicit(&map->generation, memory_order_relaxed) != generation);
  return value;
}

/* Removes the address and returns its record, or NULL. */
void *gp_address_map_remove(gp_address_map_t *map, uint64_t address);

/* Removes the address only if its record is `value`, because another record may have the address by now. */
void gp_address_map_remove_value(gp_address_map_t *map, uint64_t address, const void *value);

#endif
