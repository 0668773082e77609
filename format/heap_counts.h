/*
 * The allocations and frees of a thread's heap (pool/serve/heaps.h) that the device's statistics do not
 * include yet. The engine keeps these counts in the record itself (pool/observer.h, place_heap). So a reader
 * of the record gets exact figures: the device's statistics plus the counts of each heap (gp_stats_add_heap).
 * From time to time the engine adds the counts to the statistics; this is called a fold. If the process is
 * killed during a fold, `fold` and `before` show which part of the fold was done.
 */
#ifndef GP_FORMAT_HEAP_COUNTS_H
#define GP_FORMAT_HEAP_COUNTS_H

#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "format/stats.h"

#define GP_HEAPS_MAX                                                                                         \
  1024 /* maximum per process; each thread that uses heaps has one heap for each of its devices */

typedef enum gp_heap_fold {
  GP_HEAP_FOLD_NONE,
  GP_HEAP_FOLD_BEGUN, /* a part of the counts may be added; `before` has the earlier statistics */
  GP_HEAP_FOLD_DONE,  /* the statistics include all counts, and the counts are being set to 0 */
} gp_heap_fold_t;

/* The counts of a heap since the last fold, in bytes unless a comment says otherwise. highest_* is the
 * largest amount by which a value has exceeded its value at the last fold. */
typedef struct gp_heap_amounts {
  uint64_t allocs, frees; /* numbers of allocations and frees */
  uint64_t alloc_bytes, free_bytes;
  uint64_t alloc_requested, free_requested;
  uint64_t highest_count, highest_bytes, highest_requested, highest_kept;
  uint64_t largest_alloc;
} gp_heap_amounts_t;

/* The statistics that a fold changes: X(type, member of gp_stats_t). */
#define GP_HEAP_STATS(X)                                                                                     \
  X(gp_gauge_t, allocation)                                                                                  \
  X(gp_gauge_t, allocated_bytes)                                                                             \
  X(gp_gauge_t, requested_bytes)                                                                             \
  X(gp_gauge_t, active_bytes)                                                                                \
  X(gp_gauge_t, cached_bytes)                                                                                \
  X(gp_gauge_t, deferred_bytes)                                                                              \
  X(uint64_t, cache_hits)

typedef struct gp_heap_stats {
#define MEMBER(type, name) type name;
  GP_HEAP_STATS(MEMBER)
#undef MEMBER
} gp_heap_stats_t;

/* Written by one thread at a time, under the heap's lock. During a fold, the writer also holds the device's
 * lock. */
typedef struct gp_heap_counts {
  gp_heap_amounts_t amounts;
  uint32_t device;       /* device ordinal plus one; 0: the other members are not set */
  _Atomic uint32_t fold; /* gp_heap_fold_t */
  gp_heap_stats_t before;
  uint64_t reserved[11];
} gp_heap_counts_t;

static_assert(sizeof(gp_heap_counts_t) % 128 == 0, "no two heaps share cache lines");

static inline void gp_heap_stats_keep(gp_heap_stats_t *before, const gp_stats_t *stats)
{
#define KEEP(type, name) before->name = stats->name;
  GP_HEAP_STATS(KEEP)
#undef KEEP
}

static inline void gp_heap_stats_restore(gp_stats_t *stats, const gp_heap_stats_t *before)
{
#define RESTORE(type, name) stats->name = before->name;
  GP_HEAP_STATS(RESTORE)
#undef RESTORE
}

/* Adds a heap's counts to one gauge: `added` and `taken` are the amounts since the last fold. `highest` is
 * the largest amount by which the value exceeded the gauge's present value. */
static inline void gp_heap_add_to_gauge(gp_gauge_t *gauge, uint64_t added, uint64_t taken, uint64_t highest)
{
  if (gauge->current + highest > gauge->peak)
    gauge->peak = gauge->current + highest;
  gauge->current += added - taken;
  gauge->allocated += added;
  gauge->freed += taken;
  if (gauge->current > gauge->peak)
    gauge->peak = gauge->current;
}

/* Adds a heap's counts to the statistics. Freed blocks that the heap keeps count as deferred. When the heap
 * allocates such a block, the statistics count the block as idle for a moment. */
static inline void gp_heap_add_amounts(gp_stats_t *stats, const gp_heap_amounts_t *amounts)
{
  gp_heap_add_to_gauge(&stats->allocation, amounts->allocs, amounts->frees, amounts->highest_count);
  gp_heap_add_to_gauge(
      &stats->allocated_bytes, amounts->alloc_bytes, amounts->free_bytes, amounts->highest_bytes);
  gp_heap_add_to_gauge(
      &stats->requested_bytes, amounts->alloc_requested, amounts->free_requested, amounts->highest_requested);
  gp_heap_add_to_gauge(
      &stats->deferred_bytes, amounts->free_bytes, amounts->alloc_bytes, amounts->highest_kept);
  gp_heap_add_to_gauge(
      &stats->cached_bytes, amounts->alloc_bytes, amounts->alloc_bytes, amounts->largest_alloc);
  stats->active_bytes.allocated += amounts->alloc_bytes; /* blocks that the heap keeps are active, too */
  stats->active_bytes.freed += amounts->alloc_bytes;
  stats->cache_hits += amounts->allocs;
}

/* Folds a heap's counts into the statistics of its device. Called by the engine. The caller holds the heap's
 * lock and the device's lock. */
static inline void gp_heap_counts_fold(gp_heap_counts_t *counts, gp_stats_t *stats)
{
  gp_heap_stats_keep(&counts->before, stats);
  atomic_store_explicit(&counts->fold, GP_HEAP_FOLD_BEGUN, memory_order_release);
  atomic_signal_fence(memory_order_seq_cst);
  gp_heap_add_amounts(stats, &counts->amounts);
  atomic_store_explicit(&counts->fold, GP_HEAP_FOLD_DONE, memory_order_release);
  atomic_signal_fence(memory_order_seq_cst);
  memset(&counts->amounts, 0, sizeof(counts->amounts));
  atomic_store_explicit(&counts->fold, GP_HEAP_FOLD_NONE, memory_order_release);
}

/* Removes the effect of an unfinished fold from the statistics of the heap's device. For readers, which work
 * on copies. Must be called for all heaps of a device before gp_stats_add_heap is called for any of them. */
static inline void gp_stats_undo_fold(gp_stats_t *stats, const gp_heap_counts_t *counts)
{
  if (atomic_load_explicit(&counts->fold, memory_order_relaxed) == GP_HEAP_FOLD_BEGUN)
    gp_heap_stats_restore(stats, &counts->before);
}

/* Adds a heap's counts to the statistics of its device. For readers, which work on copies. */
static inline void gp_stats_add_heap(gp_stats_t *stats, const gp_heap_counts_t *counts)
{
  if (atomic_load_explicit(&counts->fold, memory_order_relaxed) != GP_HEAP_FOLD_DONE)
    gp_heap_add_amounts(stats, &counts->amounts);
}

#endif
