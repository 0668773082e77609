#include "tools/read/column.h"

#include <stdlib.h>

#include "tools/array.h"

#define WIDTH_MOST 57 /* up to 7 bits may precede a value in its first byte */

static unsigned char no_bits[sizeof(uint64_t)]; /* for pages whose values are all equal */

gp_column_t *gp_column_create(void)
{
  gp_column_t *column = calloc(1, sizeof(*column));
  if (column)
    column->tail = malloc(GP_COLUMN_PAGE * sizeof(*column->tail));
  if (column && !column->tail) {
    free(column);
    column = NULL;
  }
  return column;
}

void gp_column_destroy(gp_column_t *column)
{
  if (!column)
    return;
  for (size_t i = 0; i < column->page_count; i++) {
    if (column->pages[i].width)
      free(column->pages[i].bits);
  }
  free(column->pages);
  free(column->tail);
  free(column);
}

/* Chooses how to store the values of a page. */
static gp_column_page_t layout_of(const int64_t *values, size_t count)
{
  gp_column_page_t page = {.bits = no_bits};
  int64_t least = values[0], most = values[0];
  uint64_t differing = 0; /* bits that are set in any value's distance from the least */
  for (size_t i = 0; i < count; i++) {
    least = values[i] < least ? values[i] : least;
    most = values[i] > most ? values[i] : most;
    differing |= (uint64_t)values[i] - (uint64_t)values[0];
  }
  page.least = least;
  if (!differing)
    return page;
  page.shift = (uint8_t)__builtin_ctzll(differing);
  page.width = (uint8_t)(64 - __builtin_clzll((uint64_t)most - (uint64_t)least) - page.shift);
  if (page.width > WIDTH_MOST)
    page.width = 64;
  gp_assert_internal(page.width && (page.width <= WIDTH_MOST || page.width == 64));
  page.mask = page.width == 64 ? UINT64_MAX : (UINT64_C(1) << page.width) - 1;
  return page;
}

/* Writes the values of a page bit by bit, from the lowest bit of the first byte on. `to` has 8
 * bytes more than the values need. */
static void write_bits(const gp_column_page_t *page, const int64_t *values, size_t count, unsigned char *to)
{
  uint64_t word = 0;
  unsigned used = 0; /* bits in use of word, below 64 */
  for (size_t i = 0; i < count; i++) {
    uint64_t bits = ((uint64_t)values[i] - (uint64_t)page->least) >> page->shift;
    word |= bits << used;
    used += page->width;
    if (used < 64)
      continue;
    word = htole64(word);
    memcpy(to, &word, sizeof(word));
    to += sizeof(word);
    used -= 64;
    word = used ? bits >> (page->width - used) : 0;
  }
  word = htole64(word);
  memcpy(to, &word, (used + 7) / 8);
}

static bool add_page(gp_column_t *column, const int64_t *values, size_t count)
{
  gp_column_page_t page = layout_of(values, count);
  if (page.width) {
    page.bits = malloc((count * page.width + 7) / 8 + sizeof(uint64_t));
    if (!page.bits)
      return false;
    write_bits(&page, values, count, page.bits);
  }
  gp_column_page_t *added = GP_ARRAY_ADD(column->pages, column->page_count);
  if (added)
    *added = page;
  else
    free(page.bits);
  return added != NULL;
}

bool gp_column_append(gp_column_t *column, const int64_t *values, size_t count)
{
  gp_assert(column->tail); /* the column must not be finished */
  while (count) {
    size_t room = GP_COLUMN_PAGE - column->tail_count, part = count < room ? count : room;
    if (part == GP_COLUMN_PAGE) { /* a whole page: store it directly */
      if (!add_page(column, values, part))
        return false;
    } else {
      memcpy(column->tail + column->tail_count, values, part * sizeof(*values));
      column->tail_count += part;
    }
    if (column->tail_count == GP_COLUMN_PAGE) {
      if (!add_page(column, column->tail, GP_COLUMN_PAGE))
        return false;
      column->tail_count = 0;
    }
    column->count += part;
    values += part;
    count -= part;
  }
  return true;
}

bool gp_column_finish(gp_column_t *column)
{
  if (column->tail_count && !add_page(column, column->tail, column->tail_count))
    return false;
  column->tail_count = 0;
  free(column->tail);
  column->tail = NULL;
  return true;
}

/* True if every value that the page's layout can express is within the bounds. */
static bool is_page_within(const gp_column_page_t *page, int64_t least, int64_t most)
{
  uint64_t reach = page->mask << page->shift; /* loses no bits: the largest value has them */
  return page->least >= least && page->least <= most && reach <= (uint64_t)most - (uint64_t)page->least;
}

bool gp_column_is_within(
    const gp_column_t *column, size_t count, int64_t least, int64_t most, size_t *ret_wrong)
{
  gp_assert(!column->tail && count <= column->count);
  for (size_t first = 0; first < count; first += GP_COLUMN_PAGE) {
    if (is_page_within(&column->pages[first / GP_COLUMN_PAGE], least, most))
      continue;
    for (size_t i = first; i < count && i < first + GP_COLUMN_PAGE; i++) {
      int64_t value = gp_column_get(column, i);
      if (value >= least && value <= most)
        continue;
      *ret_wrong = i;
      return false;
    }
  }
  return true;
}
