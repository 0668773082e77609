/*
 * The recorded events of one moment, copied out and in order of time, for the snapshot writer.
 */
#ifndef GP_TRACE_SNAPSHOT_EVENT_MERGE_H
#define GP_TRACE_SNAPSHOT_EVENT_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/engine.h"
#include "trace/record/chunks.h"

typedef struct gp_event_merge {
  gp_event_record_t *records; /* in no useful order */
  uint32_t *order;            /* indexes of records by time; equal times of one thread as they arrived */
  size_t count;
  uint64_t dropped;  /* events that were recorded and are not here, since the beginning */
  uint64_t since_ns; /* with has_lost: events at or before it are missing, all of them and no others */
  bool has_lost;
  void *pages;
  size_t bytes;
} gp_event_merge_t;

/*
 * Copies what is recorded, other threads going on meanwhile. until_ns, by device, cuts off events that are
 * newer: given a moment at which all threads were outside the device's lock, no event before it is missing.
 * If the host has not enough memory, older events are left out (and counted as dropped). Returns false if
 * there was no memory at all: *ret_merge is then empty. Give it back with gp_event_merge_fini in both
 * cases. Safe from any thread.
 */
bool gp_event_merge_take(
    gp_chunks_t *chunks, const uint64_t until_ns[GP_MAX_DEVICES], gp_event_merge_t *ret_merge);
void gp_event_merge_fini(gp_event_merge_t *merge);

#endif
