#include "tools/pattern.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/array.h"
#include "tools/tool.h"

const char gp_pattern_no_memory[] = "no memory";

bool gp_pattern_is_empty(const char *pattern)
{
  return pattern[strspn(pattern, "^*$")] == '\0';
}

static char *trim(char *line)
{
  line += strspn(line, " \t");
  size_t length = strlen(line);
  while (length > 0 && strchr(" \t\r", line[length - 1]))
    line[--length] = '\0';
  return line;
}

size_t gp_pattern_lines(char *text, gp_pattern_line_fn take, void *arg, const char **ret_why)
{
  size_t number = 0;
  for (char *line; (line = strsep(&text, "\n"));) {
    number++;
    line = trim(line);
    const char *why = line[0] && line[0] != '#' ? take(arg, line) : NULL;
    if (why == gp_pattern_no_memory)
      return SIZE_MAX;
    if (why) {
      *ret_why = why;
      return number;
    }
  }
  return 0;
}

int gp_pattern_file(const char *path, gp_pattern_line_fn take, void *arg)
{
  char *text = NULL;
  size_t capacity = 0;
  const char *why = "";

  FILE *file = fopen(path, "re");
  ssize_t length = file ? getdelim(&text, &capacity, '\0', file) : -1;
  bool failed = !file || ferror(file) || (length < 0 && !feof(file));
  int error = failed ? errno : 0;
  bool has_nul = !failed && length > 0 && text[length - 1] == '\0';
  if (file)
    (void)fclose(file); /* read-only, so no data is lost */
  if (!failed && !has_nul) {
    size_t line = length > 0 ? gp_pattern_lines(text, take, arg, &why) : 0;
    if (line == SIZE_MAX)
      error = ENOMEM;
    else if (line)
      gp_message("%s: line %zu: %s", path, line, why);
    failed = line != 0;
  } else if (has_nul) {
    gp_message("%s: it is not a text file", path);
    failed = true;
  }
  free(text);
  if (error)
    gp_message("%s: %s", path, strerror(error));
  return failed ? GP_EXIT_INPUT : 0;
}

bool gp_patterns_add(gp_patterns_t *patterns, const char *pattern)
{
  char **item = GP_ARRAY_ADD(patterns->items, patterns->count);
  return item && (*item = strdup(pattern));
}

static const char *take_pattern(void *arg, const char *line)
{
  if (gp_pattern_is_empty(line))
    return "a pattern that matches everything";
  return gp_patterns_add(arg, line) ? NULL : gp_pattern_no_memory;
}

int gp_patterns_load(gp_patterns_t *patterns, const char *path)
{
  return gp_pattern_file(path, take_pattern, patterns);
}

void gp_patterns_fini(gp_patterns_t *patterns)
{
  for (size_t i = 0; i < patterns->count; i++)
    free(patterns->items[i]);
  free(patterns->items);
  *patterns = (gp_patterns_t){0};
}

bool gp_patterns_match(const gp_patterns_t *patterns, const char *text)
{
  for (size_t i = 0; i < patterns->count; i++) {
    if (gp_pattern_matches(patterns->items[i], text))
      return true;
  }
  return false;
}
