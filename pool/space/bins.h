/*
 * The blocks of one context by size class: one bin for each class that has blocks. Idle blocks are handed
 * out last in, first out: the block used last is the one most likely to be in a cache of the device.
 *
 * Invariants: a bin exists for the class of every block that the context has, in whatever state, and
 * block_count counts them, so that a block that becomes idle always finds its bin; a block is in the
 * idle list of its bin exactly while its state is idle, and idle_count counts them; deferred_count
 * counts the deferred blocks of that class; used <= capacity / 2. A bin stays where it is while it has
 * blocks, so that they can point to it; bins without blocks are dropped when the table grows. The
 * device's lock guards all of it.
 */
#ifndef GP_POOL_SPACE_BINS_H
#define GP_POOL_SPACE_BINS_H

#include <stddef.h>
#include <stdint.h>

#include "base/assert.h"

/* The block's link in the idle list of its bin; a member of the block. */
typedef struct gp_bin_entry {
  struct gp_bin_entry *next; /* older; NULL: the oldest */
  struct gp_bin_entry *previous;
} gp_bin_entry_t;

typedef struct gp_bin {
  uint64_t size;        /* names its class: the bytes of its largest blocks */
  gp_bin_entry_t *idle; /* the newest */
  uint32_t idle_count;
  uint32_t deferred_count;
  uint32_t block_count;
} gp_bin_t;

/* A slot of the table. size is the bin's, copied for the look-up. */
typedef struct gp_bin_slot {
  uint64_t size; /* 0: slot not used */
  gp_bin_t *bin;
} gp_bin_slot_t;

typedef struct gp_bins {
  gp_bin_slot_t *slots;
  size_t capacity; /* 0 or a power of two */
  size_t used;
} gp_bins_t;

void gp_bins_init(gp_bins_t *bins);
void gp_bins_fini(gp_bins_t *bins);

/* The slot of size (not 0), or the free slot for it; capacity is a power of two. */
static inline gp_bin_slot_t *gp_bins_slot(gp_bin_slot_t *slots, size_t capacity, uint64_t size)
{
  size_t i = (size_t)((size * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (capacity - 1);
  while (slots[i].size != size && slots[i].size != 0)
    i = (i + 1) & (capacity - 1);
  return &slots[i];
}

/* The bin of a class (not 0), or NULL. The pointer is valid until the next gp_bins_make, and beyond
 * while the bin has blocks. */
static inline gp_bin_t *gp_bins_find(const gp_bins_t *bins, uint64_t size)
{
  return bins->capacity == 0 ? NULL : gp_bins_slot(bins->slots, bins->capacity, size)->bin;
}

/* The bin of a class, made if necessary; NULL if the host is out of memory. */
gp_bin_t *gp_bins_make(gp_bins_t *bins, uint64_t size);

/* Bytes of the idle and deferred blocks in classes of at most `size`; not less. */
uint64_t gp_bins_unused_bytes(const gp_bins_t *bins, uint64_t size);

/* Puts a block into the idle list of its bin, or takes it out again. */
static inline void gp_bin_push(gp_bin_t *bin, gp_bin_entry_t *entry)
{
  entry->previous = NULL;
  entry->next = bin->idle;
  if (bin->idle)
    bin->idle->previous = entry;
  bin->idle = entry;
  bin->idle_count++;
  gp_assert_internal(bin->idle_count <= bin->block_count);
}

static inline void gp_bin_remove(gp_bin_t *bin, gp_bin_entry_t *entry)
{
  gp_assert_internal(bin->idle_count > 0);
  if (entry->previous)
    entry->previous->next = entry->next;
  else
    bin->idle = entry->next;
  if (entry->next)
    entry->next->previous = entry->previous;
  bin->idle_count--;
}

/* The bin of the largest class that has idle blocks, or NULL. Looks at every bin. */
gp_bin_t *gp_bins_largest(const gp_bins_t *bins);

#endif
