/*
 * Names of files without their folders, and names shortened to few columns, above all those of C++ functions.
 */
#ifndef GP_TOOLS_SHORTEN_H
#define GP_TOOLS_SHORTEN_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* What follows the last slash of path, or all of it. */
static inline const char *gp_base_name(const char *path)
{
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/*
 * Writes text in at most `columns` columns (4 or more) and returns buffer. Puts "..." in place of what it
 * omits: first the middle of template arguments, the longest and innermost first, then of argument lists,
 * then of long words, then of the text itself. A word that would not fit on a line of 80 columns is cut too.
 * Replaces bytes that could steer a terminal. Cuts the result to capacity.
 */
char *gp_text_shorten(const char *text, size_t columns, char *buffer, size_t capacity);

/* The names of one table, so that no two different ones look alike. Zero it before use. */
typedef struct gp_names {
  char **whole;
  char **shown;
  size_t count;
} gp_names_t;

/* Like gp_text_shorten, but if the result would look like an earlier, different name, it shows where they
 * differ. Compares only the first few hundred names. Returns buffer. */
char *gp_names_shorten(gp_names_t *names, const char *text, size_t columns, char *buffer, size_t capacity);

void gp_names_fini(gp_names_t *names);

#endif
