/*
 * Functions that take file names without their folders, and shorten names to a few columns, especially those
 * of C++ functions.
 */
#ifndef GP_TOOLS_SHORTEN_H
#define GP_TOOLS_SHORTEN_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Returns the part of `path` after its last slash, or the whole path if it has no slash. */
static inline const char *gp_base_name(const char *path)
{
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/*
 * Writes `text` in at most `columns` columns (4 or more) to `buffer`, and returns `buffer`. Replaces each
 * omitted part by "...". First omits the middle of template arguments, with the longest and innermost first,
 * then that of argument lists, of long words, and of the text itself. Also shortens a word that would not fit
 * on a line of 80 columns. Replaces bytes that could control a terminal. Truncates the result to `capacity`.
 */
char *gp_text_shorten(const char *text, size_t columns, char *buffer, size_t capacity);

/* The names in a table, stored so that two different names never look the same. Zero it before use. */
typedef struct gp_names {
  char **whole;
  char **shown;
  size_t count;
} gp_names_t;

/* Like gp_text_shorten, but if the result equals that of an earlier, different name, shows where the names
 * differ. Compares with the first few hundred names only. Returns `buffer`. */
char *gp_names_shorten(gp_names_t *names, const char *text, size_t columns, char *buffer, size_t capacity);

void gp_names_fini(gp_names_t *names);

#endif
