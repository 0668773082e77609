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

void gp_summary_phases_print(const gp_summary_t *summary, gp_output_t *output)
{
  const gp_phase_use_t *phases = &summary->phases;
  const gp_phase_row_t **rows = calloc(phases->count + 1, sizeof(*rows));
  char times[GP_NUMBER_BYTES], peak[GP_SIZE_TEXT_BYTES], left[GP_SIZE_TEXT_BYTES],
      name[4 * GP_MARK_NAME_BYTES];

  if (!rows) {
    gp_message("out of memory");
    return;
  }
  for (size_t i = 0; i < phases->count; i++)
    rows[i] = &phases->rows[i];
  qsort(rows, phases->count, sizeof(*rows), compare_phases);
  fprintf(output->stream, "  %9s %14s %16s  phase\n", "times", "held within",
      summary->moments.is_end ? "left at the end" : "left then");
  for (size_t i = 0; i < phases->count && i < SHOWN_PHASES; i++)
    fprintf(output->stream, "  %9s %14s %16s  %s\n", gp_number_count(rows[i]->times, times),
        gp_size_format(rows[i]->peak, peak), gp_size_format(rows[i]->left, left),
        gp_printable(rows[i]->name, name, sizeof(name)));
  if (phases->count > SHOWN_PHASES)
    fprintf(output->stream, "  %s (gpupool sites --by phase)\n",
        gp_number_plural(phases->count - SHOWN_PHASES, "other phase", times));
  free(rows);
}
