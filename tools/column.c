#include "tools/column.h"

#include <stdlib.h>

#define WIDTH_MOST 57 /* with up to 7 bits before it in its first byte */

static unsigned char no_bits[sizeof(uint64_t)]; /* of pages whose values are all the same */

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

/* How the values of a page are to be stored. */
static gp_column_page_t layout_of(const int64_t *values, size_t count)
{
  gp_column_page_t page = {.least = values[0], .bits = no_bits};
  uint64_t used = 0; /* bits that are set in any distance from the least */
  for (size_t i = 1; i < count; i++)
    page.least = values[i] < page.least ? values[i] : page.least;
  for (size_t i = 0; i < count; i++)
    used |= (uint64_t)values[i] - (uint64_t)page.least;
  if (!used)
    return page;
  page.shift = (uint8_t)__builtin_ctzll(used);
  page.width = (uint8_t)(64 - __builtin_clzll(used) - page.shift);
  if (page.width > WIDTH_MOST)
    page.width = 64;
  page.mask = page.width == 64 ? UINT64_MAX : (UINT64_C(1) << page.width) - 1;
  return page;
}

/* Turns the tail into a page. */
static bool pack(gp_column_t *column)
{
  size_t used = column->page_count;
  if ((used & (used - 1)) == 0) { /* full: 0, 1, 2, 4 ... */
    gp_column_page_t *larger = realloc(column->pages, (used ? 2 * used : 1) * sizeof(*larger));
    if (!larger)
      return false;
    column->pages = larger;
  }
  gp_column_page_t page = layout_of(column->tail, column->tail_count);
  if (page.width) {
    page.bits = calloc(1, (column->tail_count * page.width + 7) / 8 + sizeof(uint64_t));
    if (!page.bits)
      return false;
  }
  for (size_t i = 0; i < column->tail_count && page.width; i++) {
    size_t bit = i * page.width;
    uint64_t word;
    memcpy(&word, page.bits + bit / 8, sizeof(word));
    word |= htole64(((uint64_t)column->tail[i] - (uint64_t)page.least) >> page.shift << bit % 8);
    memcpy(page.bits + bit / 8, &word, sizeof(word));
  }
  column->pages[column->page_count++] = page;
  column->tail_count = 0;
  return true;
}

bool gp_column_append(gp_column_t *column, const int64_t *values, size_t count)
{
  while (count) {
    size_t room = GP_COLUMN_PAGE - column->tail_count, part = count < room ? count : room;
    memcpy(column->tail + column->tail_count, values, part * sizeof(*values));
    column->tail_count += part;
    column->count += part;
    values += part;
    count -= part;
    if (column->tail_count == GP_COLUMN_PAGE && !pack(column))
      return false;
  }
  return true;
}

bool gp_column_finish(gp_column_t *column)
{
  if (column->tail_count && !pack(column))
    return false;
  free(column->tail);
  column->tail = NULL;
  return true;
}

/* True if nothing that the page can hold is outside. */
static bool is_page_within(const gp_column_page_t *page, int64_t least, int64_t most)
{
  uint64_t reach = page->mask << page->shift; /* no bits are lost: the largest value has them */
  return page->least >= least && page->least <= most && reach <= (uint64_t)most - (uint64_t)page->least;
}

bool gp_column_is_within(const gp_column_t *column, size_t count, int64_t least, int64_t most, size_t *ret_wrong)
{
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
