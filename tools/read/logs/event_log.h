/*
 * Builds a snapshot from a log that has allocations and frees but no segments: it shows what was in use and
 * by whom, but not what was reserved. Readers add events one device at a time, in time order.
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
  uint64_t lost;            /* missing frees on all devices */
} gp_event_log_t;

/* Here and below, false means that the document is invalid. */
bool gp_event_log_alloc(gp_event_log_t *log, int64_t time_us, uint64_t address, uint64_t size, int stack);

/* The block may have been allocated before the log began. */
bool gp_event_log_free(gp_event_log_t *log, int64_t time_us, uint64_t address, uint64_t size);

bool gp_event_log_oom(gp_event_log_t *log, int64_t time_us, uint64_t size, int stack);

/* Ends the device. Its blocks in use become those of the snapshot; memory from before the log that was never
 * freed becomes one extra block. */
bool gp_event_log_end_device(gp_event_log_t *log, uint64_t bytes_before);

/* Ends the log. Call it in any case. */
typedef enum gp_log_kind {
  GP_LOG_PROFILE,
  GP_LOG_TIMELINE,
  GP_LOG_RMM
} gp_log_kind_t; /* of gp_import_logs */
bool gp_event_log_end(gp_event_log_t *log, gp_log_kind_t kind);

/*
 * Readers of logs of allocations; each is a gp_import_read_fn.
 */

/* A trace of PyTorch's profiler. */
bool gp_kineto_read(gp_import_t *import, gp_input_t *input, gp_import_top_t *ret_top);

/* What export_memory_timeline() of PyTorch's profiler writes as *.raw.json.gz. */
bool gp_memory_timeline_read(gp_import_t *import, gp_input_t *input, gp_import_top_t *ret_top);

/* The log of RMM's logging_resource_adaptor, which begins with GP_RMM_HEADING. */
bool gp_rmm_log_read(gp_import_t *import, gp_input_t *input, gp_import_top_t *ret_top);

#endif
