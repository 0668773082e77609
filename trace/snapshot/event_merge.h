/* Copies the state of the devices at one moment, and the recorded events in order of time. For the snapshot
 * writer. */
#ifndef GP_TRACE_SNAPSHOT_EVENT_MERGE_H
#define GP_TRACE_SNAPSHOT_EVENT_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/sort.h"
#include "trace/record/chunks.h"
#include "pool/forwarded/forwarded.h"

/* An array copied from the engine, with its order by address. */
typedef struct gp_copied_array {
  void *items;
  gp_sort_key_t *by_address;
  size_t count;
  void *pages;
  size_t bytes;
} gp_copied_array_t;

/* A copy of a device's state at one moment. */
typedef struct gp_device_copy {
  uint64_t until_ns; /* time of the moment: exactly the events up to this time led to these blocks */
  uint64_t limit;    /* bytes; 0: no limit */
  gp_stats_t stats;  /* statistics at the moment */
  gp_device_use_t use;
  bool has_use;        /* `use` is valid: the pool has queried the driver */
  uint64_t idle_bytes; /* sum over the idle blocks in the copy */
  uint64_t largest_idle;
  gp_copied_array_t blocks;    /* array of gp_block_view_t */
  gp_copied_array_t forwarded; /* array of gp_forwarded_t */
} gp_device_copy_t;

/*
 * Fills *ret_copy for one device. Returns false if the host has no memory. The caller must call
 * gp_device_copy_fini in both cases. The callback `moment` must set until_ns. It is called while the blocks
 * are copied, and again if they did not fit at first; the last call counts. Takes the engine's locks.
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

/* The events up to a moment. */
typedef struct gp_event_merge {
  gp_event_record_t *records;
  size_t record_count;
  gp_event_record_t *allocs; /* alloc events of allocated blocks whose alloc is in no event record */
  gp_sort_key_t *order; /* the events by time; `index` is the record's index times GP_PARTS plus the part */
  size_t count;
  uint64_t dropped;  /* number of recorded events that are not in this merge */
  uint64_t since_ns; /* with has_lost: exactly the events at or before this time are missing */
  bool has_lost;
  void *pages;
  size_t bytes;
} gp_event_merge_t;

/* The devices at the moment up to which events are merged. copies[i] is valid if bit i of `devices` is set.
 * Its until_ns is the moment; its streams are already replaced by indexes. */
typedef struct gp_event_moment {
  const gp_device_copy_t *copies;
  uint64_t devices;
} gp_event_moment_t;

/*
 * Copies the recorded events while other threads continue to record. Leaves out events after the moment. No
 * event before the moment is missing, because until_ns was set with the device's lock held. If the host has
 * too little memory, leaves out the oldest events and counts them as dropped. Returns false, with *ret_merge
 * empty, if there is no memory at all. The caller must call gp_event_merge_fini in both cases. Thread-safe.
 */
bool gp_event_merge_take(gp_chunks_t *chunks, const gp_event_moment_t *moment, gp_event_merge_t *ret_merge);
void gp_event_merge_fini(gp_event_merge_t *merge);

/*
 * Does what gp_event_merge_take does, for chunks to which no thread writes, such as chunks read from a file.
 * Does not copy the records, which must outlive the merge. Returns false if there is no memory. The caller
 * must call gp_event_merge_fini in both cases.
 */
bool gp_event_merge_in_place(
    gp_chunks_t *chunks, const gp_event_moment_t *moment, gp_event_merge_t *ret_merge);

/* Returns event i, counted from the oldest. */
static inline __attribute__((always_inline)) gp_decoded_event_t gp_event_merge_get(
    const gp_event_merge_t *merge, size_t i)
{
  size_t record = merge->order[i].index / GP_PARTS;
  gp_event_part_t part = (gp_event_part_t)(merge->order[i].index % GP_PARTS);
  return gp_event_record_decode(
      record < merge->record_count ? &merge->records[record] : &merge->allocs[record - merge->record_count],
      part);
}

#endif
