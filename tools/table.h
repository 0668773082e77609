/*
 * A table for people, each of whose columns is as wide as its widest cell. Cells are collected first and
 * printed at the end, so that rows may be long and many: 100,000 rows of eight cells take some 40 MB.
 */
#ifndef GP_TOOLS_TABLE_H
#define GP_TOOLS_TABLE_H

#include "tools/output.h"

#define GP_TABLE_COLUMNS 16

/* Zeroed but for these members it is an empty table. */
typedef struct gp_table {
  gp_output_t *output;
  const char *indent; /* begins each line; not NULL */
  /* A letter for each column: l left-aligned, r right-aligned; n, as the last one, a name that is shortened
   * to what is left of the line, or w, a name of any length. */
  const char *format;

  char **cells; /* row by row; NULL: the row has no more */
  size_t count;
} gp_table_t;

/* Adds a row of texts, as many as the table has columns, or fewer and then NULL. Copies them, with what could
 * steer a terminal replaced. The first row usually has the headings. */
void gp_table_row(gp_table_t *table, ...) __attribute__((sentinel));

/* Prints the rows, and frees them. Without memory for all of them it prints none, and the output has failed.
 */
void gp_table_print(gp_table_t *table);

#endif
