/*
 * The blocks of one context by size class: one bin for each class of which there are blocks. Idle blocks are
 * handed out last in, first out: the block used last is the one most likely to be in a cache of the device.
 *
 * Invariants: a bin exists for the class of every block that the context has, in whatever state, and
 * block_count counts them, so that a block that becomes idle always finds its bin; a block is in the idle
 * list of its bin exactly while its state is idle, and idle_count counts them; deferred_count counts the
 * deferred blocks of that class; used <= capacity / 2. Bins without blocks are dropped when the table grows.
 * The device's lock guards all of it.
 */
#ifndef GP_POOL_SPACE_BINS_H
#define GP_POOL_SPACE_BINS_H

#include <stddef.h>
#include <stdint.h>

/* A block's place in the idle list of its bin; a member of the block. */
typedef struct gp_bin_entry {
  struct gp_bin_entry *next; /* older; NULL: the oldest */
  struct gp_bin_entry *previous;
} gp_bin_entry_t;

typedef struct gp_bin {
  uint64_t size;        /* names its class: the bytes of its largest blocks; 0: slot not used */
  gp_bin_entry_t *idle; /* the newest */
  uint32_t idle_count;
  uint32_t deferred_count;
  uint32_t block_count;
} gp_bin_t;

typedef struct gp_bins {
  gp_bin_t *slots;
  size_t capacity; /* 0 or a power of two */
  size_t used;
} gp_bins_t;

void gp_bins_init(gp_bins_t *bins);
void gp_bins_fini(gp_bins_t *bins);

/* The bin of a class, or NULL. The pointer is good until the next gp_bins_make. */
gp_bin_t *gp_bins_find(const gp_bins_t *bins, uint64_t size);

/* The bin of a class, made if need be; NULL if the host is out of memory. */
gp_bin_t *gp_bins_make(gp_bins_t *bins, uint64_t size);

/* Puts a block into the idle list of its bin, or takes it out again. */
void gp_bin_push(gp_bin_t *bin, gp_bin_entry_t *entry);
void gp_bin_remove(gp_bin_t *bin, gp_bin_entry_t *entry);

/* The bin of the largest class that has idle blocks, or NULL. Looks at every bin. */
gp_bin_t *gp_bins_largest(const gp_bins_t *bins);

#endif
