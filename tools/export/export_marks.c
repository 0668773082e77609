#include "tools/export/export_marks.h"

static bool is_of_scope(gp_mark_kind_t kind)
{
  return kind == GP_MARK_BEGIN || kind == GP_MARK_END;
}

static bool read_mark(const gp_export_t *export, const cJSON *item, gp_export_mark_t *ret_mark)
{
  uint64_t thread = 0, device = 0;
  gp_export_mark_t mark = {.name = gp_snapshot_text(item, "name")};

  int has_device = gp_snapshot_uint(item, "device", &device);
  if (!gp_mark_kind_find(gp_snapshot_text(item, "kind"), &mark.kind) ||
      gp_snapshot_uint(item, "time_ns", &mark.time_ns) != 1 ||
      gp_snapshot_uint(item, "thread", &thread) != 1 || thread >= export->thread_count || has_device < 0 ||
      device >= GP_SNAPSHOT_DEVICES)
    return false;
  mark.thread = (int)thread;
  mark.device = has_device ? (int)device : -1;
  if (is_of_scope(mark.kind) && gp_snapshot_uint(item, "scope", &mark.scope) != 1)
    return false;
  *ret_mark = mark;
  return mark.device < 0 || gp_export_has_device(export, mark.device);
}

/* Returns the mark that begins the scope, or NULL if the scope has not begun or has already ended. */
static const gp_export_mark_t *find_open(const gp_export_marks_t *marks, uint64_t scope)
{
  for (size_t i = marks->count; i-- > 0;) {
    const gp_export_mark_t *mark = &marks->marks[i];
    if (is_of_scope(mark->kind) && mark->scope == scope)
      return mark->kind == GP_MARK_BEGIN ? mark : NULL;
  }
  return NULL;
}

/* Returns the push mark of the thread's innermost open range, or NULL if no range is open. */
static const gp_export_mark_t *find_range(const gp_export_marks_t *marks, int thread)
{
  size_t left = 0; /* number of pops seen whose pushes are still to come in this backward search */
  for (size_t i = marks->count; i-- > 0;) {
    const gp_export_mark_t *mark = &marks->marks[i];
    if (mark->thread != thread)
      continue;
    if (mark->kind == GP_MARK_POP)
      left++;
    else if (mark->kind == GP_MARK_PUSH && left-- == 0)
      return mark;
  }
  return NULL;
}

void gp_export_marks_read(const gp_export_t *export, gp_export_marks_t *ret_marks)
{
  const cJSON *list = cJSON_GetObjectItemCaseSensitive(export->snapshot->root, "marks");
  const cJSON *item;
  uint64_t last_ns = 0;

  ret_marks->count = 0;
  cJSON_ArrayForEach(item, list)
  {
    gp_export_mark_t mark;
    if (ret_marks->count == GP_MARKS_MAX)
      return;
    if (!read_mark(export, item, &mark) || mark.time_ns < last_ns)
      continue;
    const gp_export_mark_t *begun = mark.kind == GP_MARK_POP ? find_range(ret_marks, mark.thread)
                                    : is_of_scope(mark.kind) ? find_open(ret_marks, mark.scope)
                                                             : NULL;
    if ((mark.kind == GP_MARK_BEGIN && begun) ||
        ((mark.kind == GP_MARK_END || mark.kind == GP_MARK_POP) && !begun))
      continue;
    if (begun) /* an end or pop mark gets the name of its begin or push */
      mark.name = begun->name;
    last_ns = mark.time_ns;
    ret_marks->marks[ret_marks->count++] = mark;
  }
}
