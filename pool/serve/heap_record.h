/*
 * The record of a heap: what one thread frees and allocates again on one device without the device's lock.
 */
#ifndef GP_POOL_SERVE_HEAP_RECORD_H
#define GP_POOL_SERVE_HEAP_RECORD_H

#include "pool/engine_record.h"

#define GP_HEAP_BLOCK_MAX GP_MIB       /* bytes of a block that a heap may keep */
#define GP_HEAP_BYTES     (4 * GP_MIB) /* that a heap keeps at most */
#define GP_HEAP_BLOCKS    256u         /* likewise */
#define GP_HEAP_BINS      64u          /* a power of two */
#define GP_HEAP_BLOCK_IDS 64u          /* that a heap takes at a time */

/* The kept blocks of one size, linked by in_bin.next, oldest first. A bin without blocks has any size. */
typedef struct gp_heap_bin {
  uint64_t size;
  gp_bin_entry_t *oldest;
  gp_bin_entry_t *newest;
} gp_heap_bin_t;

/*
 * Invariants. `context` changes under both the device's lock and the heap's own, so that either is enough to
 * read it; the members after it are under the heap's own lock. A closed heap keeps no block. `blocks` holds
 * the kept blocks, in the order of their stamps; each is in the bin of its size, too. For the device a kept
 * block is LIVE until the heap gives it (heaps.h).
 */
struct gp_heap {
  _Alignas(GP_CACHE_LINE) gp_lock_t lock;
  atomic_bool has_news;     /* something happened since the last fold; read without the lock, too */
  _Atomic uint32_t kept;    /* blocks; likewise */
  gp_device_t *device;      /* constant */
  gp_context_t *context;    /* whose blocks it keeps; NULL: the heap is closed */
  uint64_t bytes;           /* of the kept blocks */
  uint64_t newest_epoch;    /* of the blocks that it has kept so far */
  uint64_t covered;         /* engine->covered when it last looked */
  uint64_t next_block_id;   /* ids of its own, up to ... */
  uint64_t end_block_id;    /* ... and without this one */
  uint64_t now_ns;          /* see gp_heap_time */
  uint64_t event_ns;        /* time of its last event, as the observer knows it */
  bool is_refused;          /* the observer did not take an allocation: the heap has to give what it keeps */
  unsigned unclocked;       /* allocations since one read the clock */
  gp_heap_counts_t *counts; /* own_counts until the observer has a place */
  gp_list_t blocks;
  gp_heap_bin_t bins[GP_HEAP_BINS];

  gp_heap_t *next;             /* in device->heaps; constant */
  uint32_t number;             /* unique in the engine; constant */
  gp_heap_counts_t own_counts; /* see counts */

  /* Under the device's lock. */
  bool is_owned;           /* a thread has it */
  unsigned other_contexts; /* requests in others since it was opened */
  uint64_t served;         /* allocations since it was opened, or last judged, and ... */
  uint64_t missed;         /* ... those that the device's lists served */
  unsigned rest;           /* hits of its thread before it is opened again, and ... */
  unsigned next_rest;      /* ... how many there will be the next time */

  gp_heap_t *thread_next; /* the thread's next heap; the thread's own */
};

#endif
