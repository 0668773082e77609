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
  GP_PS_PID, /* sorted with the lowest first; all other keys with the highest first */
  GP_PS_SORT_COUNT,
} gp_ps_sort_t;

/* Returns the name of a sort key, such as "total". The text is static. */
const char *gp_ps_sort_name(gp_ps_sort_t sort);

typedef struct gp_ps_row {
  const gp_machine_process_t *process;
  const gp_machine_device_t *device; /* NULL: no device in use yet, or figures unreadable */
  bool is_first;                     /* first row of the process */
} gp_ps_row_t;

typedef struct gp_ps_table {
  gp_ps_row_t *rows; /* sorted; rows point into the machine's arrays */
  size_t count;
} gp_ps_table_t;

/* Makes a row for each device of each process that matches `filter`: a part of the command, host, container
 * or pod, or a whole PID; NULL or "" matches all. Returns 0 or ENOMEM. Call gp_ps_table_fini in any case. */
int gp_ps_table_init(
    gp_ps_table_t *table, const gp_machine_t *machine, gp_ps_sort_t sort, const char *filter);
void gp_ps_table_fini(gp_ps_table_t *table);

typedef struct gp_ps_look {
  unsigned columns;   /* width of a line in columns */
  size_t first, most; /* rows to show: at most `most` from `first` on; most 0: all */
  size_t chosen;      /* the highlighted row; SIZE_MAX: none */
  uint64_t now_us;    /* current time, since 1970 */
} gp_ps_look_t;

/* Prints a heading and one line for each row, within look->columns. Omits columns without figures. Also omits
 * columns that do not fit, and lists their headings in a last line. */
void gp_ps_table_print(const gp_ps_table_t *table, const gp_ps_look_t *look, const gp_output_t *output);

/* Writes the sum of the rows, such as "2 programs have 12.4 GiB of device memory". Returns `buffer`. */
char *gp_ps_table_sum(const gp_ps_table_t *table, char *buffer, size_t capacity);

#endif
