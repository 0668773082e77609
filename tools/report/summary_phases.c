/*
 * Prints the phases of a summary.
 */
#include <stdlib.h>

#include "base/printable.h"
#include "base/size.h"
#include "tools/report/summary_report.h"
#include "tools/table.h"
#include "tools/tool.h"

#define SHOWN_PHASES 12

/* Sorts phases by the peak within them, highest first. */
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

void gp_summary_phases_print(const gp_summary_t *summary, gp_output_t *output)
{
  const gp_phase_use_t *phases = &summary->phases;
  const gp_phase_row_t **rows = calloc(phases->count + 1, sizeof(*rows));
  gp_table_t table = {.output = output, .indent = "  ", .format = "rrrrrrn"};

  if (!rows) {
    gp_message("out of memory");
    return;
  }
  for (size_t i = 0; i < phases->count; i++)
    rows[i] = &phases->rows[i];
  qsort(rows, phases->count, sizeof(*rows), compare_phases);
  gp_table_row(&table, "times", "peak within", summary->moments.is_end ? "left" : "left then", "first end",
      "last end", "most at end", "phase", NULL);
  for (size_t i = 0; i < phases->count && i < SHOWN_PHASES; i++) {
    char ends[3][GP_SIZE_TEXT_BYTES];
    const gp_phase_row_t *row = rows[i];
    gp_table_row(&table, GP_AS_COUNT(row->times), GP_AS_SIZE(row->peak), GP_AS_SIZE(row->left),
        end_text(row, row->first_end, ends[0]), end_text(row, row->last_end, ends[1]),
        end_text(row, row->most_end, ends[2]), row->name, NULL);
  }
  gp_table_print(&table);
  if (phases->count > SHOWN_PHASES)
    fprintf(output->stream, "  %s (gpupool sites --by phase)\n",
        GP_AS_PLURAL(phases->count - SHOWN_PHASES, "other phase"));
  free(rows);
}
