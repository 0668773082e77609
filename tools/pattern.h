/*
 * Patterns of names, in the syntax of LeakSanitizer's suppressions: a pattern matches a name if it is found
 * anywhere in it; '*' stands for anything, '^' at the pattern's begin and '$' at its end tie it to those of
 * the name.
 */
#ifndef GP_TOOLS_PATTERN_H
#define GP_TOOLS_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

/* True if text matches pattern. Thread-safe. */
bool gp_pattern_matches(const char *pattern, const char *text);

/* True if every text matches: nothing in it but '*', '^' and '$'. */
bool gp_pattern_is_empty(const char *pattern);

/*
 * Called for each line of a file of patterns that is neither blank nor a comment (#), without the blanks
 * around it. Returns NULL, what is wrong with the line (static), or gp_pattern_no_memory.
 */
typedef const char *(*gp_pattern_line_fn)(void *arg, const char *line);
extern const char gp_pattern_no_memory[];

/*
 * Calls take for the lines of text, which is changed on the way. Returns 0, or the number of the line that is
 * wrong, with *ret_why saying how; SIZE_MAX without memory.
 */
size_t gp_pattern_lines(char *text, gp_pattern_line_fn take, void *arg, const char **ret_why);

/* The same with a file. Returns 0 or, after a message, the exit status. */
int gp_pattern_file(const char *path, gp_pattern_line_fn take, void *arg);

/* A list of patterns. All zero: empty. */
typedef struct gp_patterns {
  char **items;
  size_t count;
} gp_patterns_t;

/* Copies pattern to the end of the list. False: no memory. */
bool gp_patterns_add(gp_patterns_t *patterns, const char *pattern);

/* Adds the lines of a file, a pattern each. Returns 0 or, after a message, the exit status. */
int gp_patterns_load(gp_patterns_t *patterns, const char *path);
void gp_patterns_fini(gp_patterns_t *patterns);

/* True if one of them matches text. */
bool gp_patterns_match(const gp_patterns_t *patterns, const char *text);

#endif
