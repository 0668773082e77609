/*
 * How large blocks are that the segments of the end do not have. PyTorch cuts a block off a free piece only
 * if what is left is of use: in an ordinary segment of its large pool more than 1 MiB. A smaller rest stays
 * with the block, and events do not tell. But free pieces there are always larger than that, so a gap of at
 * most 1 MiB after a block is its rest. A backward pass knows at every moment which blocks are there.
 */
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "tools/read/pytorch/import_parts.h"

#define REST_MOST GP_MIB /* also the largest block of the small pool, which has segments of its own */

/* The first item that begins after address. */
static size_t find_after(const gp_import_ranges_t *ranges, uint64_t address)
{
  size_t low = 0, high = ranges->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (ranges->items[middle].address <= address)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* The item that begins at address; NULL: none. */
static gp_import_range_t *find_at(const gp_import_ranges_t *ranges, uint64_t address)
{
  size_t after = find_after(ranges, address);
  return after && ranges->items[after - 1].address == address ? &ranges->items[after - 1] : NULL;
}

static bool insert(gp_import_t *import, gp_import_ranges_t *ranges, uint64_t address, uint64_t size)
{
  size_t at = find_after(ranges, address);
  if (!GP_IMPORT_RESERVE(import, ranges->items, ranges->count, ranges->room))
    return false;
  memmove(&ranges->items[at + 1], &ranges->items[at], (ranges->count - at) * sizeof(*ranges->items));
  ranges->items[at] = (gp_import_range_t){address, size};
  ranges->count++;
  return true;
}

static void take_away(gp_import_ranges_t *ranges, uint64_t address)
{
  gp_import_range_t *item = find_at(ranges, address);
  if (!item)
    return;
  size_t after = (size_t)(item - ranges->items) + 1;
  memmove(item, item + 1, (ranges->count - after) * sizeof(*item));
  ranges->count--;
}

/* The setting max_split_size: blocks that large are not split, whatever is left. */
static uint64_t read_split_most(const gp_snapshot_t *snapshot)
{
  const cJSON *settings = cJSON_GetObjectItemCaseSensitive(snapshot->root, "settings");
  long long most = strtoll(gp_snapshot_text(settings, "max_split_size"), NULL, 10);
  return most > 0 ? (uint64_t)most : UINT64_MAX; /* -1: none */
}

bool gp_import_unsplit_begin(gp_import_unsplit_t *unsplit, gp_import_t *import, int device)
{
  const gp_snapshot_t *snapshot = import->snapshot;

  *unsplit = (gp_import_unsplit_t){.import = import, .split_most = read_split_most(snapshot)};
  for (size_t i = 0; i < snapshot->segment_count; i++) {
    const gp_snapshot_segment_t *segment = &snapshot->segments[i];
    if (segment->device == device && !segment->is_expandable &&
        !insert(import, &unsplit->segments, segment->address, segment->size))
      return false;
  }
  return true;
}

void gp_import_unsplit_fini(gp_import_unsplit_t *unsplit)
{
  free(unsplit->segments.items);
  free(unsplit->blocks.items);
}

bool gp_import_unsplit_segment(gp_import_unsplit_t *unsplit, uint64_t address, uint64_t size, bool is_there)
{
  if (is_there)
    return insert(unsplit->import, &unsplit->segments, address, size);
  take_away(&unsplit->segments, address);
  return true;
}

/* The next block begins at end, or the segment ends there. */
static void end_at(const gp_import_unsplit_t *unsplit, gp_block_entry_t *block, uint64_t end)
{
  uint64_t address = block->key - 1, room = end - address;
  bool is_cut = block->size < unsplit->split_most;
  if (room > block->size && (!is_cut || room - block->size <= REST_MOST))
    block->rounded = room;
}

bool gp_import_unsplit_add(gp_import_unsplit_t *unsplit, gp_block_map_t *blocks, uint64_t address)
{
  gp_block_entry_t *block = gp_block_map_find(blocks, address + 1), *before;
  size_t segment_after = find_after(&unsplit->segments, address);
  const gp_import_range_t *segment = segment_after ? &unsplit->segments.items[segment_after - 1] : NULL;

  if (!block || block->size <= REST_MOST || !segment || address - segment->address >= segment->size)
    return true;
  if (!find_at(&unsplit->blocks, address) && !insert(unsplit->import, &unsplit->blocks, address, block->size))
    return false;
  size_t after = find_after(&unsplit->blocks, address);
  uint64_t end = segment->address + segment->size;
  if (after < unsplit->blocks.count && unsplit->blocks.items[after].address < end)
    end = unsplit->blocks.items[after].address;
  end_at(unsplit, block, end);
  if (after < 2 || unsplit->blocks.items[after - 2].address < segment->address)
    return true;
  before = gp_block_map_find(blocks, unsplit->blocks.items[after - 2].address + 1);
  if (before)
    end_at(unsplit, before, address);
  return true;
}

void gp_import_unsplit_remove(gp_import_unsplit_t *unsplit, uint64_t address)
{
  take_away(&unsplit->blocks, address);
}
