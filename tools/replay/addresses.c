#include "tools/replay/addresses.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "tools/array.h"

/* The place of the first range that is not before `range`. */
static size_t place_of(const gp_addresses_t *addresses, gp_address_range_t range)
{
  size_t low = 0, high = addresses->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    const gp_address_range_t *one = &addresses->sizes[middle];
    if (one->size < range.size || (one->size == range.size && one->begin < range.begin))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static void remove_at(gp_addresses_t *addresses, size_t place)
{
  gp_address_range_t *range = &addresses->sizes[place];
  bool is_known = gp_block_map_take(&addresses->by_begin, range->begin, NULL);
  is_known &= gp_block_map_take(&addresses->by_end, range->begin + range->size, NULL);
  gp_assert(is_known);
  addresses->count--;
  memmove(range, range + 1, (addresses->count - place) * sizeof(*range));
}

static void add(gp_addresses_t *addresses, gp_address_range_t range)
{
  const gp_block_entry_t by_begin = {.key = range.begin, .size = range.size};
  const gp_block_entry_t by_end = {.key = range.begin + range.size, .size = range.size};

  if (!gp_block_map_put(&addresses->by_begin, &by_begin))
    return;
  if (!gp_block_map_put(&addresses->by_end, &by_end) || !GP_ARRAY_ADD(addresses->sizes, addresses->count)) {
    (void)gp_block_map_take(&addresses->by_begin, by_begin.key, NULL);
    (void)gp_block_map_take(&addresses->by_end, by_end.key, NULL);
    return;
  }
  addresses->count--; /* the new place at the end is none of the ranges yet */
  gp_address_range_t *place = &addresses->sizes[place_of(addresses, range)];
  memmove(place + 1, place, (size_t)(&addresses->sizes[addresses->count] - place) * sizeof(*place));
  *place = range;
  addresses->count++;
}

uint64_t gp_addresses_take(gp_addresses_t *addresses, uint64_t bytes)
{
  size_t place = place_of(addresses, (gp_address_range_t){.size = bytes});
  if (place == addresses->count) {
    addresses->next += bytes;
    return addresses->next - bytes;
  }
  gp_address_range_t range = addresses->sizes[place];
  remove_at(addresses, place);
  if (range.size > bytes)
    add(addresses, (gp_address_range_t){range.size - bytes, range.begin + bytes});
  return range.begin;
}

void gp_addresses_give(gp_addresses_t *addresses, uint64_t begin, uint64_t bytes)
{
  gp_address_range_t range = {bytes, begin};

  gp_assert(bytes > 0 && begin + bytes <= addresses->next);
  const gp_block_entry_t *after = gp_block_map_find(&addresses->by_begin, begin + bytes);
  if (after) {
    range.size += after->size;
    remove_at(addresses, place_of(addresses, (gp_address_range_t){after->size, after->key}));
  }
  const gp_block_entry_t *before = gp_block_map_find(&addresses->by_end, begin);
  if (before) {
    range = (gp_address_range_t){range.size + before->size, begin - before->size};
    remove_at(addresses, place_of(addresses, (gp_address_range_t){before->size, range.begin}));
  }
  if (range.begin + range.size == addresses->next)
    addresses->next = range.begin;
  else
    add(addresses, range);
}

void gp_addresses_fini(gp_addresses_t *addresses)
{
  free(addresses->sizes);
  gp_block_map_fini(&addresses->by_begin);
  gp_block_map_fini(&addresses->by_end);
}
