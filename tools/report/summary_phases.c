/*
 * The phases of a summary.
 */
#include <stdlib.h>

#include "base/printable.h"
#include "base/size.h"
#include "format/marks.h"
#include "tools/report/summary_report.h"
#include "tools/tool.h"

#define SHOWN_PHASES 12

/* By the most that was held within. */
static int compare_phases(const void *a, const void *b)
{
  const gp_phase_row_t *x = *(const gp_phase_row_t *const *)a, *y = *(const gp_phase_row_t *const *)b;
  return x->peak != y->peak ? (x->peak < y->peak ? 1 : -1) : (x > y) - (x < y);
}

static char *end_text(const gp_phase_row_t *row, uint64_t bytes, char *buffer)
{
  (void)snprintf(buffer, GP_SIZE_TEXT_BYTES, "-");
  return row->ends ? gp_size_format(bytes, buffer) : buffer;
}

static void print_row(gp_names_t *names, const gp_phase_row_t *row, gp_output_t *output)
{
  char sizes[5][GP_SIZE_TEXT_BYTES], name[4 * GP_MARK_NAME_BYTES];
  size_t columns = output->columns > 70 ? output->columns - 63 : 7;
  bool fits = gp_text_columns(row->name) <= columns;

  gp_names_shorten(names, row->name, fits ? columns : output->columns - 2, name, sizeof(name));
  if (!fits) /* the name gets its own line */
    fprintf(output->stream, "  %s\n", name);
  fprintf(output->stream, "  %7s %11s %9s %9s %9s %9s%s%s\n", GP_AS_COUNT(row->times),
      gp_size_format(row->peak, sizes[0]), gp_size_format(row->left, sizes[1]),
      end_text(row, row->first_end, sizes[2]), end_text(row, row->last_end, sizes[3]),
      end_text(row, row->most_end, sizes[4]), fits ? "  " : "", fits ? name : "");
}

void gp_summary_phases_print(const gp_summary_t *summary, gp_output_t *output)
{
  const gp_phase_use_t *phases = &summary->phases;
  const gp_phase_row_t **rows = calloc(phases->count + 1, sizeof(*rows));
  gp_names_t names = {.count = 0};

  if (!rows) {
    gp_message("out of memory");
    return;
  }
  for (size_t i = 0; i < phases->count; i++)
    rows[i] = &phases->rows[i];
  qsort(rows, phases->count, sizeof(*rows), compare_phases);
  fprintf(output->stream, "  %41s%s\n  %7s %11s %9s %9s %9s %9s  phase\n", "", "held when it ended", "times",
      "held within", summary->moments.is_end ? "left" : "left then", "first", "last", "most");
  for (size_t i = 0; i < phases->count && i < SHOWN_PHASES; i++)
    print_row(&names, rows[i], output);
  if (phases->count > SHOWN_PHASES)
    fprintf(output->stream, "  %s (gpupool sites --by phase)\n",
        GP_AS_PLURAL(phases->count - SHOWN_PHASES, "other phase"));
  gp_names_fini(&names);
  free(rows);
}
