/* Copies the recorded events and the devices' state of one moment, events ordered by time, for the snapshot
 * writer. */
#ifndef GP_TRACE_SNAPSHOT_EVENT_MERGE_H
#define GP_TRACE_SNAPSHOT_EVENT_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/sort.h"
#include "trace/record/chunks.h"
#include "pool/forwarded/forwarded.h"

/* The state of the engine's devices at one moment, copied for the snapshot writer. */

/* An array from the engine, grown until everything fits, with the order for display. */
typedef struct gp_copied_array {
  void *items;
  gp_sort_key_t *by_address;
  size_t count;
  void *pages;
  size_t bytes;
} gp_copied_array_t;

typedef struct gp_device_copy {
  uint64_t until_ns; /* set at the moment of the copy: exactly the events up to it led to these blocks */
  uint64_t limit;    /* bytes; 0: none */
  gp_stats_t stats;  /* of the same moment */
  gp_device_use_t use;
  bool has_use;        /* the pool has asked the driver for the device's figures */
  uint64_t idle_bytes; /* of the copied blocks */
  uint64_t largest_idle;
  gp_copied_array_t blocks;    /* of gp_block_view_t */
  gp_copied_array_t forwarded; /* of gp_forwarded_t */
} gp_device_copy_t;

/*
 * Fills *ret_copy for one device, except until_ns, which moment sets: it is called when the blocks are
 * copied, more than once if they did not fit at first, and the last call counts. Returns false if the host
 * has no memory. The caller calls gp_device_copy_fini in both cases. Takes the engine's locks.
 */
bool gp_device_copy_take(
    gp_engine_t *engine, int device, const gp_moment_t *moment, gp_device_copy_t *ret_copy);
void gp_device_copy_fini(gp_device_copy_t *copy);

static inline const gp_block_view_t *gp_device_copy_block(const gp_device_copy_t *copy, size_t i)
{
  return (const gp_block_view_t *)copy->blocks.items + copy->blocks.by_address[i].index;
}

static inline const gp_forwarded_t *gp_device_copy_forwarded(const gp_device_copy_t *copy, size_t i)
{
  return (const gp_forwarded_t *)copy->forwarded.items + copy->forwarded.by_address[i].index;
}

typedef struct gp_event_merge {
  gp_event_record_t *records;
  size_t record_count;
  gp_event_record_t *allocs; /* of blocks that are allocated, where no record tells of their alloc */
  gp_sort_key_t *order;      /* the events by time; index: of their record, times GP_PARTS, plus the part */
  size_t count;
  uint64_t dropped;  /* recorded events that are not here, since the beginning */
  uint64_t since_ns; /* with has_lost: exactly the events at or before it are missing */
  bool has_lost;
  void *pages;
  size_t bytes;
} gp_event_merge_t;

/* The devices at that moment: bit i of `devices` tells that copies[i] is there. until_ns is their moment; its
 * streams are indexes. */
typedef struct gp_event_moment {
  const gp_device_copy_t *copies;
  uint64_t devices;
} gp_event_moment_t;

/*
 * Copies the recorded events while other threads go on. Events after the moment are left out, and none before
 * it is missing, because it was set with the device's lock held. If the host has too little memory, leaves
 * out older events, and counts them as dropped. Returns false if there is no memory at all: *ret_merge is
 * then empty. The caller calls gp_event_merge_fini in both cases. Safe from any thread.
 */
bool gp_event_merge_take(gp_chunks_t *chunks, const gp_event_moment_t *moment, gp_event_merge_t *ret_merge);
void gp_event_merge_fini(gp_event_merge_t *merge);

/*
 * The same of all events of chunks that no thread writes to, such as a copy of them: the records stay where
 * they are, and have to outlive the merge. moment: NULL: no events of allocated blocks. False: no memory;
 * call gp_event_merge_fini in both cases.
 */
bool gp_event_merge_in_place(
    gp_chunks_t *chunks, const gp_event_moment_t *moment, gp_event_merge_t *ret_merge);

/* Returns event i, counted from the oldest. */
static inline __attribute__((always_inline)) gp_told_event_t gp_event_merge_get(
    const gp_event_merge_t *merge, size_t i)
{
  size_t record = merge->order[i].index / GP_PARTS;
  gp_event_part_t part = (gp_event_part_t)(merge->order[i].index % GP_PARTS);
  return gp_event_record_tell(
      record < merge->record_count ? &merge->records[record] : &merge->allocs[record - merge->record_count],
      part);
}

#endif
