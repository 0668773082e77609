/* The recorded events of one moment in order of time, for the snapshot writer. */
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
  uint64_t dropped;  /* recorded events that are not here, since the beginning */
  uint64_t since_ns; /* with has_lost: exactly the events at or before it are missing */
  bool has_lost;
  void *pages;
  size_t bytes;
} gp_event_merge_t;

/*
 * Copies the recorded events while other threads go on. until_ns, by device, cuts off newer events.
 * If it is a moment when no thread held the device's lock, no earlier event is missing. If the host
 * has too little memory, this leaves out older events (and counts them as dropped). Returns false if
 * there is no memory at all: *ret_merge is then empty. The caller calls gp_event_merge_fini in both
 * cases. Safe from any thread.
 */
bool gp_event_merge_take(
    gp_chunks_t *chunks, const uint64_t until_ns[GP_MAX_DEVICES], gp_event_merge_t *ret_merge);
void gp_event_merge_fini(gp_event_merge_t *merge);

/*
 * The same of all events of chunks that no thread writes to, such as a copy of them: the records stay where
 * they are, sorted within each chunk, and have to outlive the merge. False: no memory; call
 * gp_event_merge_fini in both cases.
 */
bool gp_event_merge_in_place(gp_chunks_t *chunks, gp_event_merge_t *ret_merge);

#endif
