/*
 * The table of pooled processes, for `gpupool ps` and `gpupool live`: a row for each device of each process.
 */
#ifndef GP_TOOLS_MACHINE_PS_TABLE_H
#define GP_TOOLS_MACHINE_PS_TABLE_H

#include "tools/machine/machine.h"
#include "tools/output.h"

#define GP_PS_SORTS "total|peak|cached|pinned|limit|oom|age|pid"

typedef enum gp_ps_sort {
  GP_PS_TOTAL,
  GP_PS_PEAK,
  GP_PS_CACHED,
  GP_PS_PINNED,
  GP_PS_LIMIT,
  GP_PS_OOM,
  GP_PS_AGE,
  GP_PS_PID, /* the lowest first; all others: the highest first */
  GP_PS_SORT_COUNT,
} gp_ps_sort_t;

/* "total"; static. */
const char *gp_ps_sort_name(gp_ps_sort_t sort);

typedef struct gp_ps_row {
  const gp_machine_process_t *process;
  const gp_machine_device_t *device; /* NULL: none has been used yet, or the figures cannot be read */
  bool is_first;                     /* of the process's rows */
} gp_ps_row_t;

typedef struct gp_ps_table {
  gp_ps_row_t *rows; /* sorted; borrow the machine's items */
  size_t count;
} gp_ps_table_t;

/* filter: a part of command, host, container or pod, or a whole PID; NULL or "": all. Returns 0 or ENOMEM.
 * Call fini in any case. */
int gp_ps_table_init(
    gp_ps_table_t *table, const gp_machine_t *machine, gp_ps_sort_t sort, const char *filter);
void gp_ps_table_fini(gp_ps_table_t *table);

typedef struct gp_ps_look {
  unsigned columns;   /* of a line */
  size_t first, most; /* rows to show; most 0: all */
  size_t chosen;      /* the row that is marked; SIZE_MAX: none */
  uint64_t now_us;    /* since 1970 */
} gp_ps_look_t;

/* Prints a heading and the rows, a line each, no wider than the look says. Columns without any figure are
 * left out, and those for which there is no room; a line names the latter. */
void gp_ps_table_print(const gp_ps_table_t *table, const gp_ps_look_t *look, const gp_output_t *output);

/* "2 programs have 12.4 GiB of device memory", of the rows. Returns buffer. */
char *gp_ps_table_sum(const gp_ps_table_t *table, char *buffer, size_t capacity);

#endif
