#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/read/input_file.h"
#include "tools/read/load.h"
#include "tools/replay/workload_parts.h"
#include "tools/request.h"
#include "tools/tool.h"

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

/* Returns 0 or, after a message, the exit status. */
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
    gp_message("%s: a table of requests does not tell when memory was ready (--ready=recorded)", name);
    return GP_EXIT_INPUT;
  }
  const gp_ready_t *applied = ready ? ready : has_facts ? &recorded : &at_once;
  return gp_workload_settle(workload, applied) ? out_of_memory(name) : 0;
}
