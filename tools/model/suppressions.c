#include "tools/model/suppressions.h"

#include <stdlib.h>
#include <string.h>

#include "tools/array.h"
#include "tools/pattern.h"

static bool add(gp_suppressions_t *suppressions, const char *pattern)
{
  gp_suppression_t *item = GP_ARRAY_ADD(suppressions->items, suppressions->count);
  return item && (item->pattern = strdup(pattern));
}

static const char *take_line(void *arg, const char *line)
{
  if (strncmp(line, "leak:", 5) != 0)
    return "a suppression is a line leak:PATTERN";
  if (gp_pattern_is_empty(line + 5))
    return "a pattern that matches everything";
  return add(arg, line + 5) ? NULL : gp_pattern_no_memory;
}

size_t gp_suppressions_parse(gp_suppressions_t *suppressions, char *text, const char **ret_why)
{
  *suppressions = (gp_suppressions_t){0};
  return gp_pattern_lines(text, take_line, suppressions, ret_why);
}

int gp_suppressions_load(gp_suppressions_t *suppressions, const char *path)
{
  *suppressions = (gp_suppressions_t){0};
  return gp_pattern_file(path, take_line, suppressions);
}

void gp_suppressions_fini(gp_suppressions_t *suppressions)
{
  for (size_t i = 0; i < suppressions->count; i++)
    free(suppressions->items[i].pattern);
  free(suppressions->items);
  *suppressions = (gp_suppressions_t){0};
}

static bool matches_stack(const char *pattern, const gp_snapshot_t *snapshot, int stack)
{
  const gp_snapshot_stacks_t *stacks = &snapshot->stacks;
  for (size_t k = stacks->first[stack]; k < stacks->first[stack + 1]; k++) {
    const gp_snapshot_frame_t *frame = &snapshot->frames[stacks->frame_indexes[k]];
    if ((frame->function[0] && gp_pattern_matches(pattern, frame->function)) ||
        (frame->file[0] && gp_pattern_matches(pattern, frame->file)) ||
        (frame->module >= 0 && gp_pattern_matches(pattern, snapshot->modules[frame->module].path)))
      return true;
  }
  return false;
}

gp_suppression_t *gp_suppressions_find(
    const gp_suppressions_t *suppressions, const gp_snapshot_t *snapshot, int stack)
{
  for (size_t i = 0; stack >= 0 && i < suppressions->count; i++) {
    if (matches_stack(suppressions->items[i].pattern, snapshot, stack))
      return &suppressions->items[i];
  }
  return NULL;
}
