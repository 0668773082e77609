/*
 * A picture of dots in text: braille characters hold 2 x 4 dots each. Where only ASCII can be drawn, a
 * character tells how many of its dots are set.
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
  size_t columns; /* characters */
  size_t rows;
  uint8_t *cells; /* a bit for each dot, in the order of Unicode's braille patterns */
} gp_canvas_t;

/* An empty picture. Returns false without memory. Fini it in any case. */
bool gp_canvas_init(gp_canvas_t *canvas, size_t columns, size_t rows);
void gp_canvas_fini(gp_canvas_t *canvas);

/* Sets the dot at x from the left, y from the bottom; one that is outside is left out. */
void gp_canvas_set(gp_canvas_t *canvas, size_t x, size_t y);

/* True if no dot of the row is set. */
bool gp_canvas_is_row_empty(const gp_canvas_t *canvas, size_t row);

/* Writes one row, 0 is the uppermost, without a line end. Blanks at its end are left out. */
void gp_canvas_print_row(const gp_canvas_t *canvas, size_t row, bool utf8, FILE *stream);

#endif
