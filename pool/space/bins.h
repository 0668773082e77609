/*
 * The blocks of one context by size class: one bin for each class that has blocks. Idle blocks are reused
 * last in, first out, because the block used last is the most likely to be in a cache of the device.
 *
 * Invariants: A bin exists for the class of every block that the context has, in whatever state, and
 * block_count counts these blocks. So a block that becomes idle always finds its bin. A block is in the idle
 * list of its bin exactly while its state is idle, and idle_count counts these blocks. deferred_count counts
 * the deferred blocks of that class. used <= capacity / 2. A bin does not move while it has blocks, so that
 * they can point to it. Bins without blocks are freed when the table grows. The device's lock guards the
 * table and the bins.
 */
#ifndef GP_POOL_SPACE_BINS_H
#define GP_POOL_SPACE_BINS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/assert.h"

/* The link of a block in the idle list of its bin. It is a member of the block's record. */
typedef struct gp_bin_entry {
  struct gp_bin_entry *next; /* next older block; NULL: this is the oldest */
  struct gp_bin_entry *previous;
} gp_bin_entry_t;

typedef struct gp_bin {
  uint64_t size;        /* size of the class: the bytes of its largest blocks */
  gp_bin_entry_t *idle; /* newest idle block */
  uint32_t idle_count;
  uint32_t deferred_count;
  uint32_t block_count;
} gp_bin_t;

/* A slot of the table. `size` is a copy of bin->size, which makes a look-up faster. */
typedef struct gp_bin_slot {
  uint64_t size; /* 0: the slot is not used */
  gp_bin_t *bin;
} gp_bin_slot_t;

typedef struct gp_bins {
  gp_bin_slot_t *slots;
  size_t capacity; /* 0 or a power of two */
  size_t used;
} gp_bins_t;

void gp_bins_init(gp_bins_t *bins);
void gp_bins_fini(gp_bins_t *bins);

/* Returns the slot of `size` (not 0), or the free slot in which to put it. The capacity is a power of two. */
static inline gp_bin_slot_t *gp_bins_slot(gp_bin_slot_t *slots, size_t capacity, uint64_t size)
{
  size_t i = (size_t)((size * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (capacity - 1);
  while (slots[i].size != size && slots[i].size != 0)
    i = (i + 1) & (capacity - 1);
  return &slots[i];
}

/* Returns the bin of a class (not 0), or NULL. The pointer is valid until the next gp_bins_make, and longer
 * while the bin has blocks. */
static inline gp_bin_t *gp_bins_find(const gp_bins_t *bins, uint64_t size)
{
  return bins->capacity == 0 ? NULL : gp_bins_slot(bins->slots, bins->capacity, size)->bin;
}

/* Returns the bin of a class, and creates it if necessary; NULL if the host is out of memory. */
gp_bin_t *gp_bins_make(gp_bins_t *bins, uint64_t size);

/* Returns the bytes of the idle and deferred blocks in classes of at most `size`, or a slightly larger value.
 */
uint64_t gp_bins_unused_bytes(const gp_bins_t *bins, uint64_t size);

/* gp_bin_push adds a block to the idle list of its bin, and gp_bin_remove removes it. */
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

/* Returns the bin of the largest class that has idle blocks, or NULL. Visits every bin. */
gp_bin_t *gp_bins_largest(const gp_bins_t *bins);

/*
 * Idle parts of segments by size: sixteen bins for each power of two, and bitmaps that find the first bin
 * with entries. A bin is a heap ordered by address. Low addresses are used first, so that the ends of
 * segments become free.
 *
 * Invariants: An entry is in the bin of its size. A bin's bit in `steps` is set exactly while the bin has
 * entries, and a range's bit in `ranges` exactly while one of its bins has entries. No entry of a heap has a
 * lower address than its parent. All zero is the empty state. The caller holds the lock that guards the bins.
 */

#define GP_CUT_GRANULE UINT64_C(512) /* sizes and addresses are multiples of this */
#define GP_CUT_STEPS   16u           /* bins for each power of two */
#define GP_CUT_RANGES  52u           /* enough for every 64-bit size */

/* The link of an idle part in the bins. It is a member of the block's record. */
typedef struct gp_cut_entry {
  uint64_t address;
  uint64_t size;                 /* in bytes */
  uint64_t free_epoch;           /* epoch or number of the free, see gp_cut_bins_find */
  struct gp_cut_entry *child;    /* first child in the heap of the bin */
  struct gp_cut_entry *next;     /* next sibling */
  struct gp_cut_entry *previous; /* previous sibling; for the first child, the parent; NULL: the root */
} gp_cut_entry_t;

typedef struct gp_cut_bins {
  uint64_t ranges;
  uint16_t steps[GP_CUT_RANGES];
  gp_cut_entry_t *lowest[GP_CUT_RANGES][GP_CUT_STEPS];
} gp_cut_bins_t;

/* gp_cut_bins_add puts an entry into the bin of its size. Its address, size and free_epoch must not change
 * until gp_cut_bins_remove removes it. */
void gp_cut_bins_add(gp_cut_bins_t *bins, gp_cut_entry_t *entry);
void gp_cut_bins_remove(gp_cut_bins_t *bins, gp_cut_entry_t *entry);

/*
 * Returns an entry of at least `bytes` whose free_epoch is at most `newest`, or NULL if there is none. First
 * checks only the entry with the lowest address of each bin, from the bin of `bytes` upwards. If none of
 * these serves, checks all entries. The entry stays in its bin. `bytes` is a multiple of the granule, not 0.
 */
gp_cut_entry_t *gp_cut_bins_find(const gp_cut_bins_t *bins, uint64_t bytes, uint64_t newest);

/* Returns the largest entry, or NULL. Visits all entries of the highest bin. */
gp_cut_entry_t *gp_cut_bins_largest(const gp_cut_bins_t *bins);

/* Returns true if the invariants hold. *ret_count and *ret_bytes are the number of entries and their bytes.
 */
bool gp_cut_bins_check(const gp_cut_bins_t *bins, size_t *ret_count, uint64_t *ret_bytes);

#endif
