/*
 * A table for people, in which each column is as wide as its widest cell. Collects the cells, and prints them
 * at the end. Many rows and long rows are fine: 100,000 rows of eight cells take about 40 MB.
 */
#ifndef GP_TOOLS_TABLE_H
#define GP_TOOLS_TABLE_H

#include "tools/output.h"

#define GP_TABLE_COLUMNS 16

/* A table is empty if all members except output, indent and format are zero. */
typedef struct gp_table {
  gp_output_t *output;
  const char *indent; /* text at the start of each line; not NULL */
  /* A letter for each column: l for left-aligned, r for right-aligned. The last column may also be n, a name
   * that is shortened to the rest of the line, or w, a name of any length. */
  const char *format;

  char **cells; /* cells row by row; NULL: the row ends early */
  size_t count;
} gp_table_t;

/* Adds a row with one text for each column. Fewer texts are followed by NULL. Copies the texts, and replaces
 * characters that could control a terminal. The first row usually contains the headings. */
void gp_table_row(gp_table_t *table, ...) __attribute__((sentinel));

/* Prints the rows and frees them. If memory ran out for a row, prints none and marks the output as failed. */
void gp_table_print(gp_table_t *table);

#endif
