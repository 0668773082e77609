/* Lists of patterns (base/pattern.h), and files that contain patterns. */
#ifndef GP_TOOLS_PATTERN_H
#define GP_TOOLS_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/pattern.h"

/* Returns true if `pattern` matches every text, because it consists only of '*', '^' and '$'. */
bool gp_pattern_is_empty(const char *pattern);

/* Called for each line of a pattern file, without surrounding blanks. Not called for blank lines and comments
 * (#). Returns NULL, a static text that says what is wrong with the line, or gp_pattern_no_memory. */
typedef const char *(*gp_pattern_line_fn)(void *arg, const char *line);
extern const char gp_pattern_no_memory[];

/* Calls `take` for each line of `text`, and modifies `text`. Returns 0 on success. If a line is malformed,
 * returns its number and sets *ret_why to the reason. Returns SIZE_MAX if memory runs out. */
size_t gp_pattern_lines(char *text, gp_pattern_line_fn take, void *arg, const char **ret_why);

/* Like gp_pattern_lines, but reads a file. Returns 0 or, after a message, the exit status. */
int gp_pattern_file(const char *path, gp_pattern_line_fn take, void *arg);

/* A list of patterns. A zeroed struct is an empty list. */
typedef struct gp_patterns {
  char **items;
  size_t count;
} gp_patterns_t;

/* Appends a copy of `pattern` to the list. Returns false if memory runs out. */
bool gp_patterns_add(gp_patterns_t *patterns, const char *pattern);

/* Adds each line of a file as a pattern. Returns 0 or, after a message, the exit status. */
int gp_patterns_load(gp_patterns_t *patterns, const char *path);
void gp_patterns_fini(gp_patterns_t *patterns);

/* Returns true if a pattern of the list matches `text`. */
bool gp_patterns_match(const gp_patterns_t *patterns, const char *text);

#endif
