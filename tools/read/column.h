/*
 * A column of integers, for tables of millions of rows: append values at the end, read them at any index. A
 * page holds GP_COLUMN_PAGE values, and stores each with as many bits as the page's range needs (frame of
 * reference). Times lie close together, sizes and addresses are multiples, and in most columns a page holds
 * few different values. So a snapshot's columns take about an eighth of 64 bits a value.
 *
 * One thread fills a column; many threads may read a finished one.
 */
#ifndef GP_TOOLS_READ_COLUMN_H
#define GP_TOOLS_READ_COLUMN_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/assert.h"

#define GP_COLUMN_PAGE 1024

/* Value i of the page is least + (the bits [i * width, (i + 1) * width) << shift). */
typedef struct gp_column_page {
  int64_t least;
  uint64_t mask;       /* the lowest `width` bits set */
  unsigned char *bits; /* the lowest bit first; 8 bytes more than the values need, so that an 8-byte read
                          gets any value */
  uint8_t width;       /* at most 57, or 64: so that no value spans 9 bytes */
  uint8_t shift;       /* each value's distance from the least is a multiple of 1 << shift */
} gp_column_page_t;

typedef struct gp_column {
  size_t count;            /* number of values, once finished */
  gp_column_page_t *pages; /* private */
  size_t page_count;       /* private */
  int64_t *tail;           /* private: the page being filled */
  size_t tail_count;       /* private */
} gp_column_t;

/* Creates an empty column; the caller destroys it. NULL: no memory. */
gp_column_t *gp_column_create(void);
void gp_column_destroy(gp_column_t *column); /* NULL is legal */

/* Appends values to a column that is not finished. False: no memory; the
 * column can then only be destroyed. */
bool gp_column_append(gp_column_t *column, const int64_t *values, size_t count);

/* Finishes the column: from now on it can be read. False: no memory; it can then only be destroyed. */
bool gp_column_finish(gp_column_t *column);

/* Value i of a finished column; i is below its count. */
static inline int64_t gp_column_get(const gp_column_t *column, size_t i)
{
  gp_assert_internal(!column->tail && i < column->count);
  const gp_column_page_t *page = &column->pages[i / GP_COLUMN_PAGE];
  size_t bit = i % GP_COLUMN_PAGE * page->width;
  uint64_t word;
  memcpy(&word, page->bits + bit / 8, sizeof(word));
  return (int64_t)((uint64_t)page->least + ((le64toh(word) >> bit % 8 & page->mask) << page->shift));
}

/* True if the first count values are from least to most. Else *ret_wrong is the
 * index of the first that is not. */
bool gp_column_is_within(
    const gp_column_t *column, size_t count, int64_t least, int64_t most, size_t *ret_wrong);

#endif
