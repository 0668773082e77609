/*
 * A snapshot of a log that has allocations and frees, but no segments: what was in use and by whom is known,
 * what the driver supplied for it is not. The readers of such logs add the events of one device after the
 * other, each device's in the order of time.
 */
#ifndef GP_TOOLS_READ_LOGS_EVENT_LOG_H
#define GP_TOOLS_READ_LOGS_EVENT_LOG_H

#include "tools/read/pytorch/import_parts.h"

typedef struct gp_event_log {
  gp_import_t *import;
  gp_block_map_t live; /* by address + 1; of the device */
  int device;
  size_t segment_room;
  size_t block_room;
  uint64_t unmatched_bytes; /* of the device: freed, allocated before the log began */
  uint64_t lost;            /* frees that are missing, of all devices */
} gp_event_log_t;

/* False is an error of the document, here and below. */
bool gp_event_log_alloc(gp_event_log_t *log, int64_t time_us, uint64_t address, uint64_t size, int stack);

/* A block that was allocated before the log began is legal. */
bool gp_event_log_free(gp_event_log_t *log, int64_t time_us, uint64_t address, uint64_t size);

bool gp_event_log_oom(gp_event_log_t *log, int64_t time_us, uint64_t size, int stack);

/* Ends the device. Its blocks in use become those of the snapshot, and bytes that were in use before the
 * log began and were not freed, one more. */
bool gp_event_log_end_device(gp_event_log_t *log, uint64_t bytes_before);

/* Ends the log. source: what wrote it, static. Call it in any case. */
bool gp_event_log_end(gp_event_log_t *log, const char *source);

#endif
