/* The records of forwarded memory. Each space has a map that finds a record by the driver's address or handle
 * of the allocation. Any thread may call these functions; the table has its own lock. */
#ifndef GP_POOL_FORWARDED_FORWARDED_TABLE_H
#define GP_POOL_FORWARDED_FORWARDED_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/engine.h"
#include "pool/space/address_map.h"
#include "pool/space/releases.h"
#include "format/details.h"

/* The kinds of addresses and handles that identify memory. Equal values in different spaces are unrelated. */
typedef enum gp_space {
  GP_SPACE_POINTER,  /* addresses of device and host memory: one address space */
  GP_SPACE_ARRAY,    /* arrays and mipmapped arrays */
  GP_SPACE_PHYSICAL, /* memory without an address; the key is a number from the interposer */
  GP_SPACE_EXTERNAL, /* memory imported from another API */
  GP_SPACE_GRAPH,    /* executable graphs; the record is for the memory of their allocation nodes */
  GP_SPACE_COUNT
} gp_space_t;

/* One allocation. `key` identifies it in the space of its kind, and is unique while the allocation exists; 0
 * in a commit stands for the address. `address` is the value in snapshots: the address, or a handle if the
 * memory has none. */
typedef struct gp_forwarded {
  gp_release_t release; /* used between take and freed or restore */
  uint64_t key;
  uint64_t address;
  uint64_t size;
  uint64_t counted;            /* reserved bytes, less those returned by shrink; 0 in a commit: the size */
  uint64_t block_id;           /* set by commit */
  gp_cookie_t observer_cookie; /* the observer's data; set by commit */
  uint32_t origin;             /* origin from the observer; set by commit */
  uint64_t time_ns;
  uint64_t stream;
  uint64_t pool;               /* driver's memory pool; 0: the device's default pool, or none */
  const gp_context_t *context; /* context with which the memory ends, set by commit; NULL: none */
  int device;
  gp_forwarded_kind_t kind;
  bool has_stream;
  bool is_detached; /* the pool was destroyed, so the memory counts like memory without a pool */

  /* gp_engine_forwarded_take sets the following members. They are valid until gp_engine_forwarded_freed. */
  bool is_freed_in_order;     /* the driver keeps the memory until the stream freed_in reaches the free */
  gp_stream_order_t freed_in; /* stream of the free; its context is NULL if unknown */
  bool is_exported;           /* another process may use the memory after the free */
} gp_forwarded_t;

gp_space_t gp_forwarded_space(gp_forwarded_kind_t kind);

/* Returns true for page-locked host memory, which has its own sum and limit. */
bool gp_forwarded_is_host(gp_forwarded_kind_t kind);

typedef struct gp_forwarded_table {
  gp_lock_t lock;
  gp_address_map_t by_key[GP_SPACE_COUNT]; /* of gp_forwarded_t; a look-up copies the record under the lock */
} gp_forwarded_table_t;

void gp_forwarded_table_init(gp_forwarded_table_t *table);
void gp_forwarded_table_fini(gp_forwarded_table_t *table);

/* Adds a copy of the record. If that replaces a record with the same key, sets *ret_has_stale and copies the
 * old record to *ret_stale, so that the caller can subtract it from the sums. Returns false if the host is
 * out of memory. */
bool gp_forwarded_table_keep(gp_forwarded_table_t *table, const gp_forwarded_t *memory,
    gp_forwarded_t *ret_stale, bool *ret_has_stale);

/* gp_forwarded_table_find copies a record. gp_forwarded_table_remove also removes it from the table.
 * gp_forwarded_table_remove_of_context removes any one record of the context. All return false if there is
 * none. */
bool gp_forwarded_table_find(
    gp_forwarded_table_t *table, gp_space_t space, uint64_t key, gp_forwarded_t *ret_memory);
bool gp_forwarded_table_remove(
    gp_forwarded_table_t *table, gp_space_t space, uint64_t key, gp_forwarded_t *ret_memory);
bool gp_forwarded_table_remove_of_context(
    gp_forwarded_table_t *table, const gp_context_t *context, gp_forwarded_t *ret_memory);

/* Marks one allocation from a driver's pool of device memory as detached. Returns the allocation's device and
 * counted bytes. The result is false if no such allocation is left. */
bool gp_forwarded_table_detach_next(
    gp_forwarded_table_t *table, uint64_t pool, int *ret_device, uint64_t *ret_size);

/* Calls fn for each record of the device, in no particular order, with the table's lock held. fn must not
 * change anything. */
void gp_forwarded_table_each(
    gp_forwarded_table_t *table, int device, void (*fn)(void *arg, const gp_forwarded_t *memory), void *arg);

/* Implements gp_engine_forwarded_copy. */
size_t gp_forwarded_table_copy(
    gp_forwarded_table_t *table, int device, gp_forwarded_t *array, size_t capacity);

#endif
