#include "tools/report/canvas.h"

#include <stdlib.h>

bool gp_canvas_init(gp_canvas_t *canvas, size_t columns, size_t rows)
{
  *canvas = (gp_canvas_t){.columns = columns, .rows = rows, .cells = calloc(columns, rows)};
  return canvas->cells != NULL;
}

void gp_canvas_fini(gp_canvas_t *canvas)
{
  free(canvas->cells);
  canvas->cells = NULL;
}

void gp_canvas_set(gp_canvas_t *canvas, size_t x, size_t y)
{
  /* Bit of each dot in a braille pattern, by column from the left and row from the top. */
  static const uint8_t bits[GP_CANVAS_DOTS_WIDE][GP_CANVAS_DOTS_HIGH] = {
      {0x01, 0x02, 0x04, 0x40}, {0x08, 0x10, 0x20, 0x80}};
  size_t column = x / GP_CANVAS_DOTS_WIDE, row = y / GP_CANVAS_DOTS_HIGH;
  if (column >= canvas->columns || row >= canvas->rows)
    return;
  row = canvas->rows - 1 - row;
  canvas->cells[row * canvas->columns + column] |=
      bits[x % GP_CANVAS_DOTS_WIDE][GP_CANVAS_DOTS_HIGH - 1 - y % GP_CANVAS_DOTS_HIGH];
}

bool gp_canvas_is_row_empty(const gp_canvas_t *canvas, size_t row)
{
  for (size_t i = 0; i < canvas->columns; i++) {
    if (canvas->cells[row * canvas->columns + i])
      return false;
  }
  return true;
}

void gp_canvas_print_row(const gp_canvas_t *canvas, size_t row, bool utf8, FILE *stream)
{
  static const char ascii[] = " ..::++##";
  const uint8_t *cells = canvas->cells + row * canvas->columns;
  size_t columns = canvas->columns;

  while (columns > 0 && !cells[columns - 1])
    columns--;
  for (size_t i = 0; i < columns; i++) {
    if (!cells[i] || !utf8)
      fputc(ascii[__builtin_popcount(cells[i])], stream);
    else /* Writes U+2800 plus the bits in UTF-8. */
      fprintf(stream, "\xe2%c%c", 0xa0 | cells[i] >> 6, 0x80 | (cells[i] & 0x3f));
  }
}
