#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "tools/tool.h"

#define NAME_MAX_LENGTH 48

static int fold(char c)
{
  return c == '_' ? '-' : tolower((unsigned char)c);
}

/* Edit distance; transposing two neighbours counts as one edit. Both texts have at
 * most NAME_MAX_LENGTH characters. */
static unsigned distance(const char *a, size_t rows, const char *b, size_t columns)
{
  unsigned lines[3][NAME_MAX_LENGTH + 1];
  unsigned *before = lines[0], *last = lines[1], *line = lines[2];

  for (size_t j = 0; j <= columns; j++)
    last[j] = (unsigned)j;
  for (size_t i = 1; i <= rows; i++) {
    line[0] = (unsigned)i;
    for (size_t j = 1; j <= columns; j++) {
      unsigned best = last[j - 1] + (fold(a[i - 1]) != fold(b[j - 1]));
      if (last[j] + 1 < best)
        best = last[j] + 1;
      if (line[j - 1] + 1 < best)
        best = line[j - 1] + 1;
      if (i > 1 && j > 1 && fold(a[i - 1]) == fold(b[j - 2]) && fold(a[i - 2]) == fold(b[j - 1]) &&
          before[j - 2] + 1 < best)
        best = before[j - 2] + 1;
      line[j] = best;
    }
    unsigned *free_line = before;
    before = last;
    last = line;
    line = free_line;
  }
  return last[columns];
}

const char *gp_suggest_nearest(const char *text, const char *const *names, size_t count)
{
  const char *nearest = NULL;
  size_t length = strlen(text);
  unsigned best = length < 5 ? 2 : 3; /* a name further away is hardly what was meant */

  if (length > NAME_MAX_LENGTH)
    return NULL;
  for (size_t i = 0; i < count; i++) {
    size_t columns = strlen(names[i]);
    if (columns > NAME_MAX_LENGTH)
      continue;
    unsigned steps = distance(text, length, names[i], columns);
    bool is_start = length >= 3 && columns > length && distance(text, length, names[i], length) == 0;
    if (is_start)
      steps = 1;
    if (steps < best) {
      best = steps;
      nearest = names[i];
    }
  }
  return nearest;
}
