/*
 * Prints which of many ranks stand out.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "format/marks.h"
#include "tools/report/summary_overview.h"
#include "tools/tool.h"

#define TELLING     0.1 /* a rank is printed if it differs from the median by more than this share of it */
#define LABEL_BYTES 128

typedef struct view {
  const gp_overview_t *overview;
  gp_output_t *output;
  bool has_numbers; /* true if each row has its own rank number */
} view_t;

static const char *label(const view_t *view, const gp_overview_row_t *row, char *buffer)
{
  if (view->has_numbers)
    (void)snprintf(buffer, LABEL_BYTES, "rank %lld", (long long)row->rank.number);
  else
    (void)gp_text_shorten(gp_base_name(row->file), 40, buffer, LABEL_BYTES);
  return buffer;
}

static void say(const view_t *view, const char *what, const char *text)
{
  char first[32];
  (void)snprintf(first, sizeof(first), "  %-15s", what);
  gp_output_wrap(view->output->stream, first, "                 ", text);
}

static uint64_t bytes_of(const gp_overview_row_t *row, size_t column)
{
  uint64_t bytes;
  memcpy(&bytes, (const char *)row + column, sizeof(bytes));
  return bytes;
}

/* Prints the rank with the largest or smallest value of a column, if the value is far from the median. */
static void say_extreme(const view_t *view, const char *what, size_t column, bool is_most, uint64_t median)
{
  const gp_overview_row_t *found = view->overview->rows;
  uint64_t best = bytes_of(found, column);
  char name[LABEL_BYTES], text[400];

  for (size_t i = 1; i < view->overview->count; i++) {
    uint64_t bytes = bytes_of(&view->overview->rows[i], column);
    if (is_most ? bytes <= best : bytes >= best)
      continue;
    found = &view->overview->rows[i];
    best = bytes;
  }
  if (fabs((double)best - (double)median) <= TELLING * (double)median)
    return;
  (void)snprintf(text, sizeof(text), "%s, %s (median %s)", label(view, found, name), GP_AS_SIZE(best),
      GP_AS_SIZE(median));
  say(view, what, text);
}

/* Formats a time, for example as "1.5 s after mark "solve"". `zero` is the time when the first rank began. */
static void describe_time(
    int64_t time, int64_t zero, gp_clock_t clock, const char *mark, char *buffer, size_t capacity)
{
  char duration[GP_NUMBER_BYTES], name[4 * GP_MARK_NAME_BYTES];
  int64_t since = clock == GP_CLOCK_MARK ? time : time - zero;

  gp_number_duration((uint64_t)(since < 0 ? -since : since), duration);
  if (clock == GP_CLOCK_MARK)
    (void)snprintf(buffer, capacity, "%s %s mark \"%s\", by which the hosts' clocks are aligned", duration,
        since < 0 ? "before" : "after", gp_printable(mark, name, sizeof(name)));
  else
    (void)snprintf(buffer, capacity, "%s after the first rank began%s", duration,
        clock == GP_CLOCK_HOST
            ? ""
            : " (the hosts' clocks are not aligned: no mark of one name is in all snapshots)");
}

static void say_out(const view_t *view, const gp_rank_t *const *ranks)
{
  const gp_overview_t *overview = view->overview;
  const gp_overview_row_t *first = NULL;
  const char *mark = NULL;
  char name[LABEL_BYTES], when[4 * GP_MARK_NAME_BYTES + 160], text[sizeof(name) + sizeof(when) + 2];
  int64_t earliest = 0, zero = INT64_MAX;

  gp_clock_t clock = gp_ranks_clock(ranks, overview->count, &mark);
  for (size_t i = 0; clock != GP_CLOCK_NONE && i < overview->count; i++) {
    const gp_overview_row_t *row = &overview->rows[i];
    int64_t began = gp_rank_time(&row->rank, clock, mark, 0);
    zero = began < zero ? began : zero;
    if (!row->ran_out)
      continue;
    int64_t time = gp_rank_time(&row->rank, clock, mark, row->out_ns);
    if (!first || time < earliest) {
      first = row;
      earliest = time;
    }
  }
  if (!first)
    return;
  describe_time(earliest, zero, clock, mark, when, sizeof(when));
  (void)snprintf(text, sizeof(text), "%s, %s", label(view, first, name), when);
  say(view, "ran out first", text);
}

static int compare_numbers(const void *a, const void *b)
{
  const gp_rank_t *x = *(const gp_rank_t *const *)a, *y = *(const gp_rank_t *const *)b;
  return (x->number > y->number) - (x->number < y->number);
}

void gp_overview_print_ranks(
    const gp_overview_t *overview, uint64_t used, uint64_t leaked, gp_output_t *output)
{
  const gp_rank_t **ranks = malloc(overview->count * sizeof(*ranks));
  view_t view = {overview, output, true};

  if (!ranks)
    return;
  for (size_t i = 0; i < overview->count; i++)
    ranks[i] = &overview->rows[i].rank;
  qsort(ranks, overview->count, sizeof(*ranks), compare_numbers);
  for (size_t i = 0; i < overview->count; i++)
    view.has_numbers =
        view.has_numbers && ranks[i]->number >= 0 && (i == 0 || ranks[i]->number > ranks[i - 1]->number);
  say_extreme(&view, "used most", offsetof(gp_overview_row_t, used), true, used);
  say_extreme(&view, "used least", offsetof(gp_overview_row_t, used), false, used);
  say_extreme(&view, "leaked most", offsetof(gp_overview_row_t, leaked), true, leaked);
  say_out(&view, ranks);
  free(ranks);
}
