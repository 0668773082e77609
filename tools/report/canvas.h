/*
 * Draws a picture of dots as text. A braille character shows 2 x 4 dots. An ASCII character shows only how
 * many of its dots are set.
 */
#ifndef GP_TOOLS_CANVAS_H
#define GP_TOOLS_CANVAS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define GP_CANVAS_DOTS_WIDE 2
#define GP_CANVAS_DOTS_HIGH 4

typedef struct gp_canvas {
  size_t columns; /* in characters */
  size_t rows;
  uint8_t *cells; /* a bit for each dot, in the order of Unicode's braille patterns */
} gp_canvas_t;

/* Makes an empty picture. Returns false if memory runs out. Call gp_canvas_fini in any case. */
bool gp_canvas_init(gp_canvas_t *canvas, size_t columns, size_t rows);
void gp_canvas_fini(gp_canvas_t *canvas);

/* Sets the dot `x` from the left and `y` from the bottom. Ignores dots outside of the picture. */
void gp_canvas_set(gp_canvas_t *canvas, size_t x, size_t y);

/* Returns true if no dot of the row is set. */
bool gp_canvas_is_row_empty(const gp_canvas_t *canvas, size_t row);

/* Writes one row, without a line end and without trailing blanks. Row 0 is the top. */
void gp_canvas_print_row(const gp_canvas_t *canvas, size_t row, bool utf8, FILE *stream);

#endif
