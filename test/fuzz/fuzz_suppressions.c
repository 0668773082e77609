/*
 * Suppressions: the first line is a file of them, whose lines end with a byte 1, the others are names of
 * functions. What a pattern matches is compared with its definition, tried place by place.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "tools/model/suppressions.h"
#include "tools/pattern.h"

#define LINE_END   '\1'
#define TEXT_BYTES 64 /* longer ones take too long by definition */

/* True if text[0..) begins with the pattern; with is_end it ends there, too. */
static int begins_with(const char *pattern, const char *text, int is_end)
{
  if (!*pattern || (is_end && strcmp(pattern, "$") == 0))
    return !is_end || !*text;
  if (*pattern == '*') {
    for (;; text++) {
      if (begins_with(pattern + 1, text, is_end))
        return 1;
      if (!*text)
        return 0;
    }
  }
  return *text == *pattern && *text && begins_with(pattern + 1, text + 1, is_end);
}

static int defined_match(const char *pattern, const char *text)
{
  int is_tied = pattern[0] == '^';
  pattern += is_tied;
  size_t length = strlen(pattern);
  int is_end = length > 0 && pattern[length - 1] == '$';
  for (; !begins_with(pattern, text, is_end); text++) {
    if (is_tied || !*text)
      return 0;
  }
  return 1;
}

static size_t count_of(const char *text, char c)
{
  size_t count = 0;
  for (; *text; text++)
    count += *text == c;
  return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  gp_suppressions_t suppressions;
  const char *why = NULL;
  char *text = fuzz_copy(data, size), *names = text, *name;

  char *file = strsep(&names, "\n");
  for (char *p = file; *p; p++)
    *p = *p == LINE_END ? '\n' : *p;
  size_t lines = count_of(file, '\n') + 1;
  size_t wrong = gp_suppressions_parse(&suppressions, file, &why);
  FUZZ_CHECK(wrong != SIZE_MAX && wrong <= lines && (why != NULL) == (wrong > 0));
  FUZZ_CHECK(suppressions.count <= lines);
  while (names && (name = strsep(&names, "\n"))) {
    for (size_t i = 0; i < suppressions.count; i++) {
      const char *pattern = suppressions.items[i].pattern;
      int matches = gp_pattern_matches(pattern, name);
      if (strlen(name) < TEXT_BYTES && count_of(pattern, '*') < 4)
        FUZZ_CHECK(matches == defined_match(pattern, name));
    }
  }
  gp_suppressions_fini(&suppressions);
  free(text);
  return 0;
}
