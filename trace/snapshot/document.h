/* Writes a snapshot as a JSON document (FORMAT.md). The data are from the process itself, or from a reader of
 * its record. */
#ifndef GP_TRACE_DOCUMENT_H
#define GP_TRACE_DOCUMENT_H

#include <sys/types.h>

#include "format/marks.h"
#include "format/recording.h"
#include "trace/record/description.h"
#include "trace/snapshot/event_merge.h"
#include "base/json.h"
#include "format/stack_log.h"
#include "trace/record/tables.h"

#define GP_DOCUMENT_FORMAT  "gpupool-snapshot"
#define GP_DOCUMENT_VERSION 1

typedef struct gp_document {
  gp_description_t description;
  uint64_t start_time_us;
  uint64_t base_ns; /* start_time_us on the clock of all other times */
  int64_t pid;
  uid_t owner;                 /* the user that the process runs as */
  const char *library_version; /* version of the library that recorded */
  int driver_version;          /* 0: not known */
  int runtime_version;
  gp_recording_t recording;
  uint64_t devices;               /* bit mask */
  const gp_device_copy_t *copies; /* by device ordinal; their stream members are indexes in `streams` */
  const uint64_t *streams;        /* the driver's stream handles */
  uint32_t stream_count;
  const gp_thread_entry_t *threads;
  uint32_t thread_count;
  const gp_event_merge_t *events;
  gp_stack_logs_t stacks;
  const gp_mark_record_t *marks; /* ordered by time */
  size_t mark_count;
  const char *const *notes; /* remarks about the record itself, for the user */
  size_t note_count;
  const char *reason;
  const gp_oom_t *oom; /* NULL if the snapshot was not written because of an out-of-memory error */
  uint64_t unreported_ooms;
} gp_document_t;

/* Writes the whole document. The first error is kept in `json`. */
void gp_document_write(gp_json_t *json, const gp_document_t *document);

/* Writes one element of `devices`, with times relative to base_ns, but without the copy's blocks and
 * forwarded allocations. */
void gp_document_write_device(gp_json_t *json, uint64_t base_ns, int device, const gp_device_copy_t *copy);

#endif
