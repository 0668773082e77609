/* The records of forwarded memory. A map for each space finds them by the address or handle that the driver
 * has for the allocation. Any thread; the table has a lock of its own. */
#ifndef GP_POOL_FORWARDED_FORWARDED_TABLE_H
#define GP_POOL_FORWARDED_FORWARDED_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/engine.h"
#include "pool/space/address_map.h"
#include "pool/space/releases.h"
#include "format/details.h"

/* The kinds of addresses and handles that name memory. Equal values of different spaces are unrelated. */
typedef enum gp_space {
  GP_SPACE_POINTER,  /* addresses of device and host memory: one address space */
  GP_SPACE_ARRAY,    /* arrays and mipmapped arrays */
  GP_SPACE_PHYSICAL, /* memory without an address: the interposer's number, see gp_forwarded_t */
  GP_SPACE_EXTERNAL, /* memory of another API, imported */
  GP_SPACE_GRAPH,    /* executable graphs, for the memory of their allocation nodes */
  GP_SPACE_COUNT
} gp_space_t;

/* One allocation. key finds it in the space of its kind, and is unique while the allocation exists; 0 in a
 * commit means the address. The snapshot shows `address`: the address, or a handle if there is none. */
typedef struct gp_forwarded {
  gp_release_t release; /* between take and freed or restore */
  uint64_t key;
  uint64_t address;
  uint64_t size;
  uint64_t counted;            /* reserved bytes, after shrink; 0 in a commit means the size */
  uint64_t block_id;           /* given by commit */
  gp_cookie_t observer_cookie; /* the observer's, set by commit */
  uint32_t origin;             /* from the observer, set by commit */
  uint64_t time_ns;
  uint64_t stream;
  uint64_t pool; /* the driver's memory pool that has it; 0: the device's default pool, or none */
  const gp_context_t *context; /* the memory ends with it, set by commit; NULL: it outlives contexts */
  int device;
  gp_forwarded_kind_t kind;
  bool has_stream;
  bool is_detached; /* its pool is gone: it counts like memory without a pool */

  /* Set between take and freed. */
  bool is_freed_in_order; /* the driver has it until a stream reaches the free: ... */
  gp_order_t freed_in;    /* ... this one; context NULL: unknown */
  bool is_exported;       /* the memory may live on, unseen */
} gp_forwarded_t;

gp_space_t gp_forwarded_space(gp_forwarded_kind_t kind);

/* Page-locked memory of the host: in a sum of its own, and under a limit of its own. */
bool gp_forwarded_is_host(gp_forwarded_kind_t kind);

typedef struct gp_forwarded_table {
  gp_lock_t lock;
  gp_address_map_t
      by_key[GP_SPACE_COUNT]; /* gp_forwarded_t; a look-up that copies the record holds the lock */
} gp_forwarded_table_t;

void gp_forwarded_table_init(gp_forwarded_table_t *table);
void gp_forwarded_table_fini(gp_forwarded_table_t *table);

/* Adds a copy of the record. *ret_has_stale: it has replaced another record with the same key, which is
 * copied to the caller, who takes it out of the sums. False: the host is out of memory. */
bool gp_forwarded_table_keep(gp_forwarded_table_t *table, const gp_forwarded_t *memory,
    gp_forwarded_t *ret_stale, bool *ret_has_stale);

/* find copies a record; remove also takes it out, and remove_of_context does so for any one record of that
 * context. False: there is none. */
bool gp_forwarded_table_find(
    gp_forwarded_table_t *table, gp_space_t space, uint64_t key, gp_forwarded_t *ret_memory);
bool gp_forwarded_table_remove(
    gp_forwarded_table_t *table, gp_space_t space, uint64_t key, gp_forwarded_t *ret_memory);
bool gp_forwarded_table_remove_of_context(
    gp_forwarded_table_t *table, const gp_context_t *context, gp_forwarded_t *ret_memory);

/* Marks one allocation of a driver's pool of device memory as detached, and returns its device and counted
 * bytes; false: no more. */
bool gp_forwarded_table_detach_next(
    gp_forwarded_table_t *table, uint64_t pool, int *ret_device, uint64_t *ret_size);

/* Calls fn for each record of the device, in no order, with the lock held. fn must change nothing. */
void gp_forwarded_table_each(
    gp_forwarded_table_t *table, int device, void (*fn)(void *arg, const gp_forwarded_t *memory), void *arg);

/* See gp_engine_forwarded_copy. */
size_t gp_forwarded_table_copy(
    gp_forwarded_table_t *table, int device, gp_forwarded_t *array, size_t capacity);

#endif
