#include "tools/shorten.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/output.h"
#include "tools/tool.h"

#define MARK         "..."
#define MARK_COLUMNS 3
#define LEAST_WORD   16  /* fewest columns that remain of a shortened word */
#define MOST_WORD    74  /* longest word, in columns, that fits in text wrapped at 80 columns */
#define MOST_PLACE   32  /* longest "file:line", in bytes, that is never cut */
#define LEAST_APART  15  /* fewest columns in which a difference between names is shown */
#define REMEMBERED   512 /* number of names compared; users do not read longer tables line by line */

/* Returns the byte offset of the character that is `columns` characters after the start of `text`. */
static size_t offset_of(const char *text, size_t columns)
{
  size_t at = 0;
  while (text[at] && columns > 0) {
    at++;
    while (((unsigned char)text[at] & 0xc0) == 0x80)
      at++;
    columns--;
  }
  return at;
}

/* Merges adjacent "..." marks into one. */
static void join_marks(char *text)
{
  char *mark;
  while ((mark = strstr(text, MARK ".")))
    memmove(mark, mark + 1, strlen(mark));
}

/* Replaces text[from, to) by "...", but keeps its first `head` and last `tail` columns. */
static void cut(char *text, size_t from, size_t to, size_t head, size_t tail)
{
  size_t width = gp_columns_of(text + from, to - from);
  size_t begin = from + offset_of(text + from, head), end = from + offset_of(text + from, width - tail);
  memmove(text + begin + MARK_COLUMNS, text + end, strlen(text + end) + 1);
  memcpy(text + begin, MARK, MARK_COLUMNS);
  join_marks(text);
}

/* Replaces the middle of text[from, to) by "...", so that the text becomes `excess` columns shorter. */
static void cut_middle(char *text, size_t from, size_t to, size_t excess)
{
  size_t width = gp_columns_of(text + from, to - from);
  size_t kept = width > excess + MARK_COLUMNS ? width - excess - MARK_COLUMNS : 0;
  cut(text, from, to, kept - kept / 2, kept / 2);
}

/* Returns the length of "operator" and the operator's name, or 0 if `text` does not start with them. The name
 * may contain brackets. */
static size_t operator_length(const char *text)
{
  return strncmp(text, "operator", 8) == 0 ? 8 + strspn(text + 8, "<>()-=+*/!&|[]~^%,") : 0;
}

#define DEEPEST_LIST 32

/* A list in brackets whose closing bracket has not been reached yet. */
typedef struct list {
  size_t from;
  bool has_inner; /* true if the list contains another list that can be shortened */
} list_t;

/* Returns true if replacing text[from, to) by "..." saves columns. */
static bool is_long(const char *text, size_t from, size_t to)
{
  return gp_columns_of(text + from, to - from) > MARK_COLUMNS &&
         strncmp(text + from, "anonymous namespace)", 20) != 0;
}

/* Returns true if a name ends immediately before `at`. Template arguments follow a name. Python's "<module>"
 * and "<lambda>", and comparisons, do not. */
static bool follows_a_name(const char *text, size_t at)
{
  return at > 0 && (isalnum((unsigned char)text[at - 1]) || text[at - 1] == '_');
}

/* Finds the longest list between `open` and `close` that can be shortened and contains no other such list.
 * Sets the results to the ends of the text between the brackets. Returns false if there is no such list. */
static bool find_list(const char *text, char open, char close, size_t *ret_from, size_t *ret_to)
{
  list_t lists[DEEPEST_LIST];
  size_t longest = 0, depth = 0;

  for (size_t i = 0; text[i]; i++) {
    size_t skipped = operator_length(text + i);
    if (skipped) {
      i += skipped - 1;
    } else if (text[i] == '-' && text[i + 1] == '>') {
      i++;
    } else if (text[i] == open && (open != '<' || follows_a_name(text, i))) {
      if (depth < DEEPEST_LIST)
        lists[depth] = (list_t){i + 1, false};
      depth++;
    } else if (text[i] == close && depth > 0 && --depth < DEEPEST_LIST) {
      const list_t *list = &lists[depth];
      bool can_shrink = list->has_inner || is_long(text, list->from, i);
      if (can_shrink && depth > 0)
        lists[depth - 1].has_inner = true;
      if (can_shrink && !list->has_inner && i - list->from > longest) {
        longest = i - list->from;
        *ret_from = list->from;
        *ret_to = i;
      }
    }
  }
  return longest > 0;
}

/* Cuts lists between these brackets until the text fits, or until no list can be shortened. */
static void cut_lists(char *text, size_t columns, char open, char close)
{
  size_t width, from = 0, to = 0;
  while ((width = gp_columns_of(text, strlen(text))) > columns && find_list(text, open, close, &from, &to))
    cut_middle(text, from, to, width - columns);
}

/* Returns true for a word such as "file.cpp:12", which is useless if it is cut. */
static bool is_place(const char *word, size_t length)
{
  size_t digits = length;
  while (digits > 0 && isdigit((unsigned char)word[digits - 1]))
    digits--;
  return digits > 0 && digits < length && length <= MOST_PLACE && word[digits - 1] == ':' &&
         memchr(word, '.', digits);
}

/* Finds the longest word of `text` that has more than LEAST_WORD columns. Returns false if there is none. */
static bool find_word(const char *text, size_t *ret_from, size_t *ret_to)
{
  size_t most = LEAST_WORD;
  bool is_found = false;

  for (size_t from = 0; text[from];) {
    size_t length = strcspn(text + from, " "), columns = gp_columns_of(text + from, length);
    if (columns > most && !is_place(text + from, length)) {
      most = columns;
      *ret_from = from;
      *ret_to = from + length;
      is_found = true;
    }
    from += length + strspn(text + from + length, " ");
  }
  return is_found;
}

/* Cuts long words, which are usually names, until the text fits. Keeps the short words between names, because
 * they show how the names are related. */
static void cut_words(char *text, size_t columns)
{
  size_t width, from = 0, to = 0;
  while ((width = gp_columns_of(text, strlen(text))) > columns && find_word(text, &from, &to)) {
    size_t most = gp_columns_of(text + from, to - from) - LEAST_WORD;
    cut_middle(text, from, to, width - columns < most ? width - columns : most);
  }
}

/* Cuts every word that is too long for one line. */
static void cut_giants(char *text)
{
  size_t from = 0, to = 0;
  while (find_word(text, &from, &to) && gp_columns_of(text + from, to - from) > MOST_WORD)
    cut_middle(text, from, to, gp_columns_of(text + from, to - from) - MOST_WORD);
}

static void shorten(char *text, size_t columns)
{
  cut_lists(text, columns, '<', '>');
  cut_lists(text, columns, '(', ')');
  cut_words(text, columns);
  cut_giants(text);
  size_t width = gp_columns_of(text, strlen(text));
  if (width > columns)
    cut_middle(text, 0, strlen(text), width - columns);
}

char *gp_text_shorten(const char *text, size_t columns, char *buffer, size_t capacity)
{
  size_t room = 4 * strlen(text) + 1;
  char *whole = room > capacity ? malloc(room) : NULL; /* if NULL, the end is truncated first */

  if (whole) {
    shorten(gp_printable(text, whole, room), columns);
    (void)snprintf(buffer, capacity, "%s", whole);
    free(whole);
  } else {
    shorten(gp_printable(text, buffer, capacity), columns);
  }
  return buffer;
}

/* Like gp_text_shorten, but keeps the part in which `text` differs from `other`. Shows the beginning of the
 * text, the difference, and the end. */
static void shorten_apart(const char *text, const char *other, size_t columns, char *buffer, size_t capacity)
{
  size_t same = 0, third = columns / 3 - MARK_COLUMNS;
  if (columns < LEAST_APART)
    return;
  gp_printable(text, buffer, capacity);
  while (buffer[same] && buffer[same] == other[same])
    same++;
  size_t width = gp_columns_of(buffer, strlen(buffer)), place = gp_columns_of(buffer, same);
  place -= place < 2 ? place : 2; /* include two columns before the difference */
  bool is_early = place <= third + MARK_COLUMNS;
  if (is_early || place + 2 * third + MARK_COLUMNS >= width) {
    /* The difference is near an end, so one cut is enough. */
    size_t kept = columns - MARK_COLUMNS;
    cut(buffer, 0, strlen(buffer), is_early ? kept - third : third, is_early ? third : kept - third);
    return;
  }
  /* Cuts the later part first, so that earlier positions stay valid. */
  cut(buffer, offset_of(buffer, place + third), strlen(buffer), 0, columns - 2 * MARK_COLUMNS - 2 * third);
  cut(buffer, offset_of(buffer, third), offset_of(buffer, place), 0, 0);
}

char *gp_names_shorten(gp_names_t *names, const char *text, size_t columns, char *buffer, size_t capacity)
{
  gp_text_shorten(text, columns, buffer, capacity);
  for (size_t i = 0; i < names->count; i++) {
    if (strcmp(names->shown[i], buffer) != 0 || strcmp(names->whole[i], text) == 0)
      continue;
    shorten_apart(text, names->whole[i], columns, buffer, capacity);
    break;
  }
  if (names->count == REMEMBERED)
    return buffer;
  if (!names->whole && !names->shown) {
    names->whole = calloc(REMEMBERED, sizeof(*names->whole));
    names->shown = calloc(REMEMBERED, sizeof(*names->shown));
  }
  char *whole = names->whole && names->shown ? strdup(text) : NULL;
  char *shown = whole ? strdup(buffer) : NULL;
  if (shown) {
    names->whole[names->count] = whole;
    names->shown[names->count++] = shown;
  } else {
    free(whole); /* if memory ran out, later names are not compared with this one */
  }
  return buffer;
}

void gp_names_fini(gp_names_t *names)
{
  for (size_t i = 0; i < names->count; i++) {
    free(names->whole[i]);
    free(names->shown[i]);
  }
  free(names->whole);
  free(names->shown);
  *names = (gp_names_t){0};
}
