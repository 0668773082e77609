#include "tools/report/timeline_phases.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "format/marks.h"
#include "tools/model/phases.h"

#define LETTERS      26
#define NAME_COLUMNS 30

typedef struct band {
  gp_phases_t phases;
  const gp_phase_changes_t *changes;
  uint64_t *spent; /* by phase: all zero between two columns */
  const char *names[LETTERS];
  size_t name_count;
  bool has_others;
} band_t;

/* The phase in which most of the time is spent; -1: no time is in a phase. */
static int32_t phase_between(band_t *band, uint64_t from_ns, uint64_t to_ns, size_t *first)
{
  const gp_phase_change_t *items = band->changes->items;
  size_t count = band->changes->count, i;
  int32_t found = -1;

  while (*first + 1 < count && items[*first + 1].time_ns <= from_ns)
    ++*first;
  for (i = *first; i < count && items[i].time_ns < to_ns; i++) {
    uint64_t begin_ns = items[i].time_ns > from_ns ? items[i].time_ns : from_ns;
    uint64_t end_ns = i + 1 < count && items[i + 1].time_ns < to_ns ? items[i + 1].time_ns : to_ns;
    int32_t phase = items[i].phase;
    if (phase < 0)
      continue;
    band->spent[phase] += end_ns - begin_ns;
    if (found < 0 || band->spent[phase] > band->spent[found])
      found = phase;
  }
  while (i-- > *first) {
    if (items[i].phase >= 0)
      band->spent[items[i].phase] = 0;
  }
  return found;
}

static char letter_of(band_t *band, int32_t phase)
{
  const char *name = band->phases.phases[phase].name;
  size_t i = 0;
  while (i < band->name_count && strcmp(band->names[i], name) != 0)
    i++;
  if (i == LETTERS) {
    band->has_others = true;
    return '.';
  }
  if (i == band->name_count)
    band->names[band->name_count++] = name;
  return (char)('a' + i);
}

static void print_legend(const band_t *band, int indent, gp_output_t *output)
{
  char blank[32], text[LETTERS * (4 * NAME_COLUMNS + 8)] = "", name[4 * NAME_COLUMNS];
  gp_names_t names = {.count = 0};
  size_t used = 0;

  for (size_t i = 0; i < band->name_count; i++)
    used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%c %s", i ? ", " : "", (char)('a' + i),
        gp_names_shorten(&names, band->names[i], NAME_COLUMNS, name, sizeof(name)));
  if (band->has_others)
    (void)snprintf(text + used, sizeof(text) - used, ", . others");
  (void)snprintf(blank, sizeof(blank), "%*s", indent, "");
  gp_output_wrap(output->stream, blank, blank, text);
  gp_names_fini(&names);
}

static int print_band(
    band_t *band, const gp_timeline_t *timeline, size_t columns, int indent, gp_output_t *output)
{
  size_t dots = timeline->point_count / columns, first = 0, length = 0;
  char *line = malloc(columns + 1);

  if (!line)
    return ENOMEM;
  for (size_t column = 0; column < columns; column++) {
    uint64_t from_ns = gp_timeline_time(timeline, column * dots);
    uint64_t to_ns =
        column + 1 < columns ? gp_timeline_time(timeline, (column + 1) * dots) : timeline->to_ns + 1;
    int32_t phase = phase_between(band, from_ns, to_ns, &first);
    line[column] = phase >= 0 ? letter_of(band, phase) : ' ';
    length = phase >= 0 ? column + 1 : length;
  }
  if (length > 0) {
    fprintf(output->stream, "%*s%.*s\n", indent, "", (int)length, line);
    print_legend(band, indent, output);
  }
  free(line);
  return 0;
}

int gp_timeline_phases_print(const gp_snapshot_t *snapshot, const gp_timeline_t *timeline, size_t columns,
    int indent, gp_output_t *output)
{
  band_t band = {.name_count = 0};

  int error = gp_phases_init(&band.phases, snapshot);
  if (!error && band.phases.count > 0) {
    band.spent = calloc(band.phases.count, sizeof(*band.spent));
    band.changes = gp_phases_main(&band.phases, timeline->to_ns);
    error = band.spent ? print_band(&band, timeline, columns, indent, output) : ENOMEM;
  }
  free(band.spent);
  gp_phases_fini(&band.phases);
  return error;
}
