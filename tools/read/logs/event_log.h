/*
 * Builds a snapshot from a log of allocations and frees without segments. The snapshot shows the memory in
 * use and its owners, but not the reserved memory. Readers add the events device by device, in order of time.
 */
#ifndef GP_TOOLS_READ_LOGS_EVENT_LOG_H
#define GP_TOOLS_READ_LOGS_EVENT_LOG_H

#include "tools/read/pytorch/import_parts.h"

typedef struct gp_event_log {
  gp_import_t *import;
  gp_block_map_t live; /* blocks in use on the device; the key is the address plus 1 */
  int device;
  size_t segment_room;
  size_t block_room;
  uint64_t unmatched_bytes; /* bytes freed on the device whose allocation is not in the log */
  uint64_t lost;            /* number of missing frees on all devices */
} gp_event_log_t;

/* Adds an allocation. Like the functions below, returns false if the document is invalid. */
bool gp_event_log_alloc(gp_event_log_t *log, int64_t time_us, uint64_t address, uint64_t size, int stack);

/* Adds a free. The block may have been allocated before the log began. */
bool gp_event_log_free(gp_event_log_t *log, int64_t time_us, uint64_t address, uint64_t size);

bool gp_event_log_oom(gp_event_log_t *log, int64_t time_us, uint64_t size, int stack);

/* Ends the current device. Its blocks in use become blocks of the snapshot. Memory that was in use before the
 * log and never freed becomes one additional block. */
bool gp_event_log_end_device(gp_event_log_t *log, uint64_t bytes_before);

/* The kind of a log, an index into gp_import_logs. gp_event_log_end ends the log; call it in any case. */
typedef enum gp_log_kind { GP_LOG_PROFILE, GP_LOG_TIMELINE, GP_LOG_RMM } gp_log_kind_t;
bool gp_event_log_end(gp_event_log_t *log, gp_log_kind_t kind);

/*
 * Readers of allocation logs; each is a gp_import_read_fn
 */

/* Reads a trace of PyTorch's profiler. */
bool gp_kineto_read(gp_import_t *import, gp_input_t *input, gp_import_top_t *ret_top);

/* Reads the *.raw.json.gz that export_memory_timeline() of PyTorch's profiler writes. */
bool gp_memory_timeline_read(gp_import_t *import, gp_input_t *input, gp_import_top_t *ret_top);

/* Reads the log of RMM's logging_resource_adaptor, which begins with GP_RMM_HEADING. */
bool gp_rmm_log_read(gp_import_t *import, gp_input_t *input, gp_import_top_t *ret_top);

#endif
