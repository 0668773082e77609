/*
 * Reads the segments of a PyTorch snapshot and their blocks, and finds the sizes of blocks that PyTorch did
 * not split.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/read/pytorch/import_parts.h"
#include "base/size.h"

/*
 * Computes the sizes of blocks that no longer exist at the end. PyTorch splits a free piece for a block only
 * if the remainder is useful. In an ordinary segment of its large pool, the remainder must exceed 1 MiB. A
 * smaller remainder stays with the block, and events do not record it. Free pieces in the large pool are
 * therefore always larger than 1 MiB. So a gap of at most 1 MiB after a block is the block's remainder. The
 * backward pass knows which blocks exist at each moment.
 */

#define REST_MOST GP_MIB /* also the largest block in the small pool, which has its own segments */

/* Returns the index of the first range that begins after `address`. */
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

/* Returns the range that begins at `address`, or NULL. */
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

/* Returns the setting max_split_size. PyTorch never splits larger blocks, whatever the remainder. */
static uint64_t read_split_most(const gp_snapshot_t *snapshot)
{
  const cJSON *settings = cJSON_GetObjectItemCaseSensitive(snapshot->root, "settings");
  long long most = strtoll(gp_snapshot_text(settings, "max_split_size"), NULL, 10);
  return most > 0 ? (uint64_t)most : UINT64_MAX; /* -1 means no limit */
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

/* Sets the rounded size of a block if the next block, or the end of the segment, is at `end`. */
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

static gp_snapshot_state_t state_of(const gp_value_t *state)
{
  if (gp_value_is(state, "active_awaiting_free"))
    return GP_SNAPSHOT_PENDING;
  return gp_snapshot_state_of(state->text, state->length);
}

/* Returns the dict that contains the owner of a block. Until PyTorch 2.0 a block had no stack, but a history
 * of owners, latest first. */
static const gp_value_t *owner_of(const gp_value_t *block)
{
  const gp_value_t *history = gp_value_member(block, "history");
  bool has_owner = history && history->kind == GP_VALUE_LIST && history->container->count > 0 &&
                   history->container->items[0].kind == GP_VALUE_DICT;
  return has_owner ? &history->container->items[0] : block;
}

static bool read_block(const gp_import_place_t *place, const gp_snapshot_segment_t *segment,
    size_t segment_index, uint64_t *address, gp_snapshot_block_t *block)
{
  const gp_value_t *state = gp_value_member(place->dict, "state");
  const gp_value_t *owner = owner_of(place->dict);
  const gp_value_t *real_size = gp_value_member(owner, "real_size");

  *block = (gp_snapshot_block_t){.address = *address,
      .segment = segment_index,
      .device = segment->device,
      .stream = segment->stream,
      .stack = -1};
  if (!state || state->kind != GP_VALUE_TEXT)
    return gp_import_fail(place, "state", "is missing");
  block->state = state_of(state);
  if (!gp_import_number(place, "size", GP_IMPORT_NUMBER_MOST, true, &block->size))
    return false;
  block->requested = real_size && real_size->kind == GP_VALUE_INTEGER && real_size->integer >= 0
                         ? (uint64_t)real_size->integer
                         : block->size;
  /* "address" exists since PyTorch 2.1. Before, it follows from the sizes of the preceding blocks. */
  *address += block->size;
  return gp_import_number(place, "address", INT64_MAX, false, &block->address) &&
         gp_import_number(place, "requested_size", GP_IMPORT_NUMBER_MOST, false, &block->requested) &&
         gp_import_stack(place->import, gp_value_member(owner, "frames"), &block->stack);
}

static bool read_segment(const gp_import_place_t *place, size_t *block_room)
{
  gp_import_t *import = place->import;
  gp_snapshot_t *snapshot = import->snapshot;
  gp_snapshot_segment_t *segment = &snapshot->segments[snapshot->segment_count];
  const gp_value_t *is_expandable = gp_value_member(place->dict, "is_expandable");
  const gp_container_t *blocks;
  uint64_t device = 0;

  *segment = (gp_snapshot_segment_t){.first_block = snapshot->block_count,
      .is_expandable = is_expandable && is_expandable->kind == GP_VALUE_BOOL && is_expandable->integer};
  if (!gp_import_number(place, "device", GP_SNAPSHOT_DEVICES - 1, true, &device) ||
      !gp_import_number(place, "address", INT64_MAX, true, &segment->address) ||
      !gp_import_number(place, "total_size", GP_IMPORT_NUMBER_MOST, true, &segment->size) ||
      !gp_import_stream(place, &segment->stream) ||
      !gp_import_pool(place, "segment_pool_id", &segment->pool) ||
      !gp_import_list(place, "blocks", true, &blocks))
    return false;
  segment->device = (int)device;
  segment->pool = segment->pool < 0 ? 0 : segment->pool;
  uint64_t address = segment->address;
  for (uint32_t i = 0; i < blocks->count; i++) {
    gp_import_place_t at = *place;
    at.dict = &blocks->items[i];
    at.inner = ".blocks";
    at.inner_at = i;
    if (!gp_import_is_dict(&at) ||
        !GP_IMPORT_RESERVE(import, snapshot->blocks, snapshot->block_count, *block_room) ||
        !read_block(
            &at, segment, snapshot->segment_count, &address, &snapshot->blocks[snapshot->block_count]))
      return false;
    snapshot->block_count++;
  }
  if (address != segment->address + segment->size)
    gp_snapshot_note(snapshot, "segment 0x%" PRIx64 " of device %d is not filled by its blocks",
        segment->address, segment->device);
  segment->block_count = snapshot->block_count - segment->first_block;
  snapshot->segment_count++;
  return gp_import_device(import, segment->device);
}

static int64_t sort_key(const gp_value_t *segment, const char *name)
{
  const gp_value_t *value = gp_value_member(segment, name);
  return value && value->kind == GP_VALUE_INTEGER ? value->integer : -1;
}

static int compare_segments(const void *a, const void *b)
{
  static const char *const names[] = {"device", "address"};
  for (size_t i = 0; i < 2; i++) {
    int64_t x = sort_key(a, names[i]), y = sort_key(b, names[i]);
    if (x != y)
      return x < y ? -1 : 1;
  }
  return 0;
}

bool gp_import_segments(gp_import_t *import, const gp_container_t *list)
{
  size_t block_room = 0;
  if (!gp_value_tree_account(&import->tree, list->count * sizeof(gp_snapshot_segment_t)))
    return false;
  import->snapshot->segments = calloc((size_t)list->count + 1, sizeof(gp_snapshot_segment_t));
  if (!import->snapshot->segments)
    return gp_import_no_memory(import);
  if (list->count)
    qsort(list->items, list->count, sizeof(gp_value_t), compare_segments);
  for (uint32_t i = 0; i < list->count; i++) {
    const gp_import_place_t place = {
        .import = import, .dict = &list->items[i], .list = "segments", .is_item = true, .at = i};
    if (!gp_import_is_dict(&place) || !read_segment(&place, &block_room))
      return false;
  }
  return true;
}
