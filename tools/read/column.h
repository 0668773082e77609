/*
 * A column of integers, for tables of millions of rows: values are put at its end, and read at any place.
 * They are kept in pages of GP_COLUMN_PAGE values, each page with as many bits a value as its range needs
 * (frame of reference): times lie close together, sizes and addresses are multiples, and of most columns a
 * page holds few different values. A snapshot's columns take about an eighth of what 64 bits a value would.
 *
 * Filling one is for one thread; one that is finished may be read by many.
 */
#ifndef GP_TOOLS_READ_COLUMN_H
#define GP_TOOLS_READ_COLUMN_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "pool/util/assert.h"

#define GP_COLUMN_PAGE 1024

/* Value i of the page is least + (the bits [i * width, (i + 1) * width) << shift). */
typedef struct gp_column_page {
  int64_t least;
  uint64_t mask;       /* width bits */
  unsigned char *bits; /* the lowest bit first; 8 bytes more than it holds, so that any value is within 8 that
                          can be read */
  uint8_t width;       /* at most 57, or 64: so that a value never lies in 9 bytes */
  uint8_t shift;       /* all values are multiples of 1 << shift away from the least */
} gp_column_page_t;

typedef struct gp_column {
  size_t count;            /* values, once it is finished */
  gp_column_page_t *pages; /* private */
  size_t page_count;       /* private */
  int64_t *tail;           /* private: values of the page that is being filled */
  size_t tail_count;       /* private */
} gp_column_t;

/* An empty column, to be destroyed; NULL: no memory. */
gp_column_t *gp_column_create(void);
void gp_column_destroy(gp_column_t *column); /* NULL is legal */

/* Puts values at the end of a column that is not finished. False: no memory; it can
 * then only be destroyed. */
bool gp_column_append(gp_column_t *column, const int64_t *values, size_t count);

/* Ends the filling: from here on the column can be read. False: no memory; it can then only be destroyed. */
bool gp_column_finish(gp_column_t *column);

/* Value i, below the count of a finished column. */
static inline int64_t gp_column_get(const gp_column_t *column, size_t i)
{
  gp_assert_internal(!column->tail && i < column->count);
  const gp_column_page_t *page = &column->pages[i / GP_COLUMN_PAGE];
  size_t bit = i % GP_COLUMN_PAGE * page->width;
  uint64_t word;
  memcpy(&word, page->bits + bit / 8, sizeof(word));
  return (int64_t)((uint64_t)page->least + ((le64toh(word) >> bit % 8 & page->mask) << page->shift));
}

/* True if the first count values are from least to most; else *ret_wrong is the place of the first one that
 * is not. */
bool gp_column_is_within(
    const gp_column_t *column, size_t count, int64_t least, int64_t most, size_t *ret_wrong);

#endif
