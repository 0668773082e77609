/*
 * The log of RMM's logging_resource_adaptor. It has no stacks, and does not name the device.
 */
#include "tools/read/logs/event_log.h"
#include "tools/read/logs/logs.h"
#include "tools/read/logs/rows.h"

typedef struct log {
  gp_event_log_t log;
  uint64_t last_us;
} log_t;

static const char *take_row(void *self, const gp_field_t *fields, int count)
{
  log_t *log = self;
  gp_rmm_row_t row;
  const char *problem = gp_rmm_row(fields, count, &row);
  if (problem)
    return problem;
  log->last_us = row.time_us > log->last_us ? row.time_us : log->last_us; /* midnight, or another thread */
  int64_t time_us = (int64_t)log->last_us;
  bool good = row.action == GP_RMM_FAILURE           ? gp_event_log_oom(&log->log, time_us, row.size, -1)
              : !row.size || row.pointer > INT64_MAX ? true /* nothing, of which there may be any number */
              : row.action == GP_RMM_FREE ? gp_event_log_free(&log->log, time_us, row.pointer, row.size)
                                          : gp_event_log_alloc(&log->log, time_us, row.pointer, row.size, -1);
  return good ? NULL : "not enough memory to read this";
}

bool gp_rmm_log_read(gp_import_t *import, gp_input_t *input, gp_import_top_t *ret_top)
{
  log_t log = {.log = {.import = import}};
  size_t line = 0;
  (void)ret_top;

  const char *problem = gp_input_read_all(input) ? NULL : input->error;
  gp_value_tree_grow(&import->tree, input->length);
  if (!problem)
    problem = gp_rows_read(input->text, input->length, true, take_row, &log, &line);
  if (problem)
    (void)gp_value_tree_fail(&import->tree, 0, "line %zu: %s", line, problem);
  bool good = !problem && gp_event_log_end_device(&log.log, 0);
  return gp_event_log_end(&log.log, GP_LOG_RMM) && good;
}
