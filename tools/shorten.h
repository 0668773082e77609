/*
 * Names in few columns: of functions in the first place, which are long in C++.
 */
#ifndef GP_TOOLS_SHORTEN_H
#define GP_TOOLS_SHORTEN_H

#include <stdbool.h>
#include <stddef.h>

/*
 * text in at most `columns` columns (4 or more). What is too long loses the middle of template arguments
 * first, the longest and innermost ones before others, then of argument lists, and only then of itself; "..."
 * stands for what is left out. Bytes that could steer a terminal are replaced. Cut to capacity. Returns
 * buffer.
 */
char *gp_text_shorten(const char *text, size_t columns, char *buffer, size_t capacity);

/* The names of one table, so that no two different ones look alike. Zero it to begin. */
typedef struct gp_names {
  char **whole;
  char **shown;
  size_t count;
} gp_names_t;

/*
 * The same as gp_text_shorten, but a name that would look like an earlier one, and is another, shows where
 * it differs. Only the first few hundred names are compared. Returns buffer.
 */
char *gp_names_shorten(gp_names_t *names, const char *text, size_t columns, char *buffer, size_t capacity);

void gp_names_fini(gp_names_t *names);

#endif
