#include "base/pattern.h"

/* Returns true if text begins with pattern[0..length). If is_end is set, `text` must also end there. */
static bool begins(const char *pattern, size_t length, const char *text, const char *end, bool is_end)
{
  size_t left = (size_t)(end - text);
  return (is_end ? left == length : left >= length) && memcmp(text, pattern, length) == 0;
}

/* Searches for the parts between the stars, one after another. Taking the first match of each part is always
 * right, except for the last part of a pattern that ends with '$', which must be at the end of the text. */
bool gp_pattern_matches_part(const char *pattern, const char *text, size_t length)
{
  const char *end = text + length;
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
    size_t part = star ? (size_t)(star - pattern) : left;
    bool is_end = !star && has_end;
    if (is_tied && !begins(pattern, part, text, end, is_end))
      return false;
    while (!is_tied && !begins(pattern, part, text, end, is_end)) {
      if (text++ == end)
        return false;
    }
    if (!star)
      return true;
    text += part;
    pattern = star + 1;
    left -= part + 1;
    is_tied = false;
  }
}
