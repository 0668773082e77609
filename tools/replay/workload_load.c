#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/read/input.h"
#include "tools/read/load.h"
#include "tools/replay/workload_parts.h"
#include "tools/tool.h"
#include "tools/read/block_map.h"
#include "tools/read/logs/rows.h"

/*
 * Reads rows of text. These are the traces of test/prog/replay and of `gpupool export --to csv`, and the logs
 * of RMM's logging_resource_adaptor (rmm/mr/logging_resource_adaptor.hpp). All memory counts as allocated by
 * cudaMalloc on device 0. Such tables do not show whether one stream's frees are complete for another stream.
 */

#define TRACE_HEADING "op,id,size,stream"

typedef struct rows {
  gp_workload_t *workload;
  gp_block_map_t live; /* allocations by id or address, plus 1; `address` is the block number */
  uint64_t first_us;
  bool is_rmm;
  bool has_row;
} rows_t;

static const char *add_alloc(rows_t *rows, uint64_t id, uint64_t size, uint64_t time_ns)
{
  gp_workload_t *workload = rows->workload;
  const gp_block_entry_t entry = {.key = id + 1, .address = workload->block_count};
  const gp_step_t step = {.size = size,
      .time_ns = time_ns,
      .block = (uint32_t)workload->block_count,
      .stream = GP_STEP_NO_STREAM,
      .kind = GP_STEP_ALLOC};

  if (gp_block_map_find(&rows->live, entry.key))
    return "the block is allocated already, and was not freed";
  if (workload->block_count == UINT32_MAX)
    return "there are more allocations than 2^32 - 1";
  workload->block_count++;
  return gp_block_map_put(&rows->live, &entry) && gp_workload_add(rows->workload, &step) ? NULL
                                                                                         : strerror(ENOMEM);
}

static const char *add_free(rows_t *rows, uint64_t id, uint64_t time_ns)
{
  gp_block_entry_t entry;
  if (!gp_block_map_take(&rows->live, id + 1, &entry)) {
    rows->workload->ill_freed++; /* the block was allocated before the first row */
    return NULL;
  }
  const gp_step_t step = {.time_ns = time_ns,
      .block = (uint32_t)entry.address,
      .stream = GP_STEP_NO_STREAM,
      .kind = GP_STEP_FREE};
  return gp_workload_add(rows->workload, &step) ? NULL : strerror(ENOMEM);
}

static const char *take_trace_row(rows_t *rows, const gp_field_t *fields, int count)
{
  gp_workload_t *workload = rows->workload;
  uint64_t id, size, stream, time_ns = workload->step_count * GP_WORKLOAD_STEP_NS;

  if (count != 4)
    return "a row has the four fields " TRACE_HEADING;
  if (!gp_field_number(fields[1], UINT64_MAX - 1, &id))
    return "the id is not a number below 2^64 - 1";
  if (!gp_field_number(fields[2], GP_ROW_NUMBER_MOST, &size))
    return "the size is not a number below 2^53";
  if (!gp_field_number(fields[3], UINT64_MAX, &stream))
    return "the stream is not a number";
  if (gp_field_is(fields[0], "A"))
    return add_alloc(rows, id, size, time_ns);
  return gp_field_is(fields[0], "F") ? add_free(rows, id, time_ns) : "the op is neither A nor F";
}

static const char *take_rmm_row(rows_t *rows, const gp_field_t *fields, int count)
{
  gp_workload_t *workload = rows->workload;
  uint64_t last_ns = workload->step_count ? workload->steps[workload->step_count - 1].time_ns : 0;
  gp_rmm_row_t row;

  const char *problem = gp_rmm_row(fields, count, &row);
  if (problem)
    return problem;
  if (!rows->has_row)
    rows->first_us = row.time_us;
  rows->has_row = true;
  uint64_t time_ns = row.time_us > rows->first_us ? (row.time_us - rows->first_us) * 1000 : 0;
  time_ns = time_ns < last_ns ? last_ns : time_ns; /* times decrease at midnight, and between threads */
  if (row.action == GP_RMM_ALLOCATE)
    return add_alloc(rows, row.pointer, row.size, time_ns);
  if (row.action == GP_RMM_FREE)
    return add_free(rows, row.pointer, time_ns);
  const gp_step_t step = {
      .size = row.size, .time_ns = time_ns, .stream = GP_STEP_NO_STREAM, .kind = GP_STEP_ATTEMPT};
  return gp_workload_add(rows->workload, &step) ? NULL : strerror(ENOMEM);
}

static const char *take_row(void *self, const gp_field_t *fields, int count)
{
  rows_t *rows = self;
  return rows->is_rmm ? take_rmm_row(rows, fields, count) : take_trace_row(rows, fields, count);
}

const char *gp_workload_of_rows(
    gp_workload_t *workload, gp_input_t *input, bool *ret_is_rows, size_t *ret_line)
{
  rows_t rows = {.workload = workload};

  rows.is_rmm = gp_rows_have_heading(input, GP_RMM_HEADING);
  *ret_is_rows = rows.is_rmm || gp_rows_have_heading(input, TRACE_HEADING);
  *ret_line = 0;
  if (!*ret_is_rows)
    return NULL;
  if (!gp_input_read_all(input))
    return input->error;
  workload->has_times = rows.is_rmm;
  workload->present = 1;
  const char *problem = gp_rows_read(input->text, input->length, rows.is_rmm, take_row, &rows, ret_line);
  gp_block_map_fini(&rows.live);
  return problem;
}

#define COLUMNS                                                                                              \
  (1u << GP_COLUMN_ACTION | 1u << GP_COLUMN_TIME_NS | 1u << GP_COLUMN_DEVICE | 1u << GP_COLUMN_STREAM |      \
      1u << GP_COLUMN_ADDRESS | 1u << GP_COLUMN_SIZE | 1u << GP_COLUMN_BLOCK | 1u << GP_COLUMN_LIFETIME_NS | \
      1u << GP_COLUMN_DETAIL)

static const gp_ready_t recorded = {GP_READY_RECORDED, 0}, at_once = {GP_READY_AT_ONCE, 0};

static int out_of_memory(const char *name)
{
  gp_message("%s: %s", name, strerror(ENOMEM));
  return GP_EXIT_INPUT;
}

/* Reads rows or a snapshot. Returns 0, or the exit status after printing a message. */
static int read_input(gp_workload_t *workload, gp_input_t *input, const char *name, int device,
    bool with_facts, bool *ret_has_facts)
{
  gp_snapshot_error_t wrong = {0, ""};
  bool is_rows = false;
  size_t line;

  const char *problem = gp_workload_of_rows(workload, input, &is_rows, &line);
  *ret_has_facts = !is_rows;
  if (problem) {
    gp_message("%s: line %zu: %s", name, line, problem);
    return GP_EXIT_INPUT;
  }
  if (is_rows)
    return 0;
  gp_snapshot_t *snapshot = gp_snapshot_parse_any(input, COLUMNS, &wrong);
  if (!snapshot) {
    if (input->error)
      gp_message("%s: %s", name, input->error);
    else
      gp_message("%s: offset %zu: %s", name, wrong.offset, wrong.text);
    return GP_EXIT_INPUT;
  }
  int error = gp_workload_of_snapshot(workload, snapshot, device, with_facts);
  gp_snapshot_destroy(snapshot);
  if (error)
    gp_message("%s: %s", name, strerror(error));
  return error ? GP_EXIT_INPUT : 0;
}

int gp_workload_load(gp_workload_t *workload, const char *path, const gp_ready_t *ready, int device)
{
  const char *name = strcmp(path, "-") == 0 ? "stdin" : path;
  bool has_facts = false;
  gp_input_file_t *file;
  int status = GP_EXIT_INPUT;

  *workload = (gp_workload_t){0};
  const char *problem = gp_input_file_open(&file, path);
  if (problem)
    gp_message("%s: %s", name, problem);
  else
    status = read_input(workload, gp_input_file_input(file), name, device,
        !ready || ready->kind == GP_READY_RECORDED, &has_facts);
  gp_input_file_close(file);
  if (status)
    return status;
  if (ready && ready->kind == GP_READY_RECORDED && !has_facts) {
    gp_message("%s: a table of requests does not record when memory was ready (--ready=recorded)", name);
    return GP_EXIT_INPUT;
  }
  const gp_ready_t *applied = ready ? ready : has_facts ? &recorded : &at_once;
  return gp_workload_settle(workload, applied) ? out_of_memory(name) : 0;
}
