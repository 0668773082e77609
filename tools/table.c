#include "tools/table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/printable.h"
#include "tools/array.h"
#include "tools/shorten.h"

#define GAP        2 /* columns between cells */
#define NAME_LEAST 16
#define NAME_BYTES 4096

static char *copy(const char *text)
{
  char *cell = strdup(text);
  if (cell)
    cell[gp_printable_in_place(cell, strlen(cell))] = '\0';
  return cell;
}

void gp_table_row(gp_table_t *table, ...)
{
  va_list cells;
  const char *text = "";

  va_start(cells, table);
  for (size_t column = 0; table->format[column]; column++) {
    text = text ? va_arg(cells, const char *) : NULL;
    char *cell = text ? copy(text) : NULL;
    char **added = GP_ARRAY_ADD(table->cells, table->count);
    if (!added || (text && !cell))
      table->output->has_failed = true;
    if (added)
      *added = cell;
    else
      free(cell);
  }
  va_end(cells);
}

static bool is_name(char letter)
{
  return letter == 'n' || letter == 'w';
}

static void print_row(const gp_table_t *table, char *const *cells, const size_t *widths, gp_names_t *names)
{
  size_t used = gp_text_columns(table->indent), most = table->output->columns, blanks = 0;
  char name[NAME_BYTES];
  FILE *stream = table->output->stream;

  fputs(table->indent, stream);
  for (size_t column = 0; table->format[column] && cells[column]; column++) {
    char letter = table->format[column];
    const char *text = cells[column];
    if (!widths[column] && !is_name(letter))
      continue;
    used += column ? GAP : 0;
    blanks += column ? GAP : 0;
    if (letter == 'n')
      text = gp_names_shorten(
          names, text, most > used + NAME_LEAST ? most - used : NAME_LEAST, name, sizeof(name));
    size_t width = gp_text_columns(text);
    size_t pad = is_name(letter) || width > widths[column] ? 0 : widths[column] - width;
    /* Writes blanks only before a text, so that a line never ends in blanks. */
    if (text[0])
      fprintf(stream, "%*s%s", (int)(blanks + (letter == 'r' ? pad : 0)), "", text);
    blanks = !text[0] ? blanks + pad : letter == 'r' ? 0 : pad;
    used += widths[column];
  }
  fputc('\n', stream);
}

void gp_table_print(gp_table_t *table)
{
  size_t columns = strlen(table->format), widths[GP_TABLE_COLUMNS] = {0};
  gp_names_t names = {.count = 0};

  bool is_whole = !table->output->has_failed;

  for (size_t i = 0; is_whole && i < table->count; i++) {
    size_t width = table->cells[i] ? gp_text_columns(table->cells[i]) : 0;
    if (!is_name(table->format[i % columns]) && width > widths[i % columns])
      widths[i % columns] = width;
  }
  for (size_t i = 0; is_whole && i < table->count; i += columns)
    print_row(table, &table->cells[i], widths, &names);
  for (size_t i = 0; i < table->count; i++)
    free(table->cells[i]);
  free(table->cells);
  gp_names_fini(&names);
  table->cells = NULL;
  table->count = 0;
}
