/*
 * Idle parts of cut memory by size: sixteen bins for each power of two, and bitmaps that lead to the first
 * bin with entries. A bin is a heap by address, so that memory fills up from below and its ends become free.
 *
 * Invariants: an entry is in the bin of its size; a bin's bit in `steps` is set exactly while it has entries,
 * and a range's bit in `ranges` while one of its bins has; no entry of a heap has a lower address than its
 * parent. All zero is the empty state. The caller holds the lock that guards the bins.
 */
#ifndef GP_POOL_SPACE_CUT_BINS_H
#define GP_POOL_SPACE_CUT_BINS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GP_CUT_GRANULE UINT64_C(512) /* sizes and addresses are multiples of it */
#define GP_CUT_STEPS   16u           /* for each power of two */
#define GP_CUT_RANGES  52u           /* for every size of 64 bits */

/* The link of an idle part in the bins; a member of the block. */
typedef struct gp_cut_entry {
  uint64_t address;
  uint64_t size;                 /* bytes */
  uint64_t free_epoch;           /* see gp_cut_bins_find */
  struct gp_cut_entry *child;    /* the first entry below it in the heap */
  struct gp_cut_entry *next;     /* sibling */
  struct gp_cut_entry *previous; /* sibling, or for the first child the parent; NULL: the root */
} gp_cut_entry_t;

typedef struct gp_cut_bins {
  uint64_t ranges;
  uint16_t steps[GP_CUT_RANGES];
  gp_cut_entry_t *lowest[GP_CUT_RANGES][GP_CUT_STEPS];
} gp_cut_bins_t;

/* Puts an entry into the bin of its size. Address, size and free_epoch must not
 * change until it is removed. */
void gp_cut_bins_add(gp_cut_bins_t *bins, gp_cut_entry_t *entry);
void gp_cut_bins_remove(gp_cut_bins_t *bins, gp_cut_entry_t *entry);

/*
 * An entry of `bytes` or more whose free_epoch is at most newest: from the first bin that has one, the one
 * with the lowest address. In the bin for the size itself that entry may be too small; it takes another
 * entry of this bin only if no higher bin has any. NULL: there is none. The entry stays in its bin. bytes:
 * a multiple of the granule, not 0.
 */
gp_cut_entry_t *gp_cut_bins_find(const gp_cut_bins_t *bins, uint64_t bytes, uint64_t newest);

/* The largest entry; NULL: there is none. Looks at the whole of the highest bin. */
gp_cut_entry_t *gp_cut_bins_largest(const gp_cut_bins_t *bins);

/* Checks the invariants; *ret_count and *ret_bytes: of the entries. */
bool gp_cut_bins_check(const gp_cut_bins_t *bins, size_t *ret_count, uint64_t *ret_bytes);

#endif
