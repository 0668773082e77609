#include "tools/model/suppressions.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tool.h"

/* True if text begins with pattern[0..length); with is_end it also ends there. */
static bool part_matches(const char *pattern, size_t length, const char *text, bool is_end)
{
  return strncmp(text, pattern, length) == 0 && (!is_end || text[length] == '\0');
}

/* Parts between stars are looked for one after the other; the first place that fits is always good enough,
 * but for the last part of a pattern that ends with '$', which has to be the end of the text. */
bool gp_suppression_matches(const char *pattern, const char *text)
{
  bool is_tied = pattern[0] == '^';
  size_t left = strlen(pattern);
  if (is_tied) {
    pattern++;
    left--;
  }
  bool has_end = left > 0 && pattern[left - 1] == '$';
  left -= has_end;
  for (;;) {
    const char *star = memchr(pattern, '*', left);
    size_t length = star ? (size_t)(star - pattern) : left;
    bool is_end = !star && has_end;
    if (is_tied && !part_matches(pattern, length, text, is_end))
      return false;
    while (!is_tied && !part_matches(pattern, length, text, is_end)) {
      if (!*text++)
        return false;
    }
    if (!star)
      return true;
    text += length;
    pattern = star + 1;
    left -= length + 1;
    is_tied = false;
  }
}

static char *trim(char *line)
{
  line += strspn(line, " \t");
  size_t length = strlen(line);
  while (length > 0 && strchr(" \t\r", line[length - 1]))
    line[--length] = '\0';
  return line;
}

static bool add(gp_suppressions_t *suppressions, const char *pattern)
{
  gp_suppression_t *items =
      realloc(suppressions->items, (suppressions->count + 1) * sizeof(*suppressions->items));
  char *copy = strdup(pattern);
  if (items)
    suppressions->items = items;
  if (!items || !copy) {
    free(copy);
    return false;
  }
  suppressions->items[suppressions->count++] = (gp_suppression_t){.pattern = copy};
  return true;
}

size_t gp_suppressions_parse(gp_suppressions_t *suppressions, char *text, const char **ret_why)
{
  size_t number = 0;
  *suppressions = (gp_suppressions_t){0};
  for (char *line; (line = strsep(&text, "\n"));) {
    number++;
    line = trim(line);
    if (!line[0] || line[0] == '#')
      continue;
    if (strncmp(line, "leak:", 5) != 0) {
      *ret_why = "a suppression is a line leak:PATTERN";
      return number;
    }
    if (!line[5 + strspn(line + 5, "^*$")]) {
      *ret_why = "a pattern that matches everything";
      return number;
    }
    if (!add(suppressions, line + 5))
      return SIZE_MAX;
  }
  return 0;
}

int gp_suppressions_load(gp_suppressions_t *suppressions, const char *path)
{
  char *text = NULL;
  size_t capacity = 0;
  const char *why = "";

  *suppressions = (gp_suppressions_t){0};
  FILE *file = fopen(path, "re");
  ssize_t length = file ? getdelim(&text, &capacity, '\0', file) : -1;
  bool failed = !file || ferror(file) || (length < 0 && !feof(file));
  int error = failed ? errno : 0;
  bool has_nul = !failed && length > 0 && text[length - 1] == '\0';
  if (file)
    (void)fclose(file); /* it was only read */
  if (!failed && !has_nul) {
    size_t line = length > 0 ? gp_suppressions_parse(suppressions, text, &why) : 0;
    if (line == SIZE_MAX)
      error = ENOMEM;
    else if (line)
      gp_message("%s: line %zu: %s", path, line, why);
    failed = line != 0;
  } else if (has_nul) {
    gp_message("%s: it is no text", path);
    failed = true;
  }
  free(text);
  if (error)
    gp_message("%s: %s", path, strerror(error));
  return failed ? GP_EXIT_INPUT : 0;
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
    if ((frame->function[0] && gp_suppression_matches(pattern, frame->function)) ||
        (frame->file[0] && gp_suppression_matches(pattern, frame->file)) ||
        (frame->module >= 0 && gp_suppression_matches(pattern, snapshot->modules[frame->module].path)))
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
