/*
 * Patterns of names, in the syntax of LeakSanitizer's suppressions. A pattern matches a name that contains
 * it. '*' matches any text. '^' at the pattern's beginning and '$' at its end match the ends of the name.
 */
#ifndef GP_BASE_PATTERN_H
#define GP_BASE_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Returns true if text[0..length) matches `pattern`. Thread-safe. */
bool gp_pattern_matches_part(const char *pattern, const char *text, size_t length);

static inline bool gp_pattern_matches(const char *pattern, const char *text)
{
  return gp_pattern_matches_part(pattern, text, strlen(text));
}

#endif
