/*
 * Sorts memory by address. Removes overlaps, and fills segments with their parts and the idle memory
 * between them, which has no slots. Neighbours that one part spans become one segment.
 */
#include "tools/read/record/record_parts.h"
#include "base/pages.h"

static gp_block_view_t *nth(const gp_copied_array_t *array, size_t i)
{
  return gp_record_block(array, array->by_address[i].index);
}

static uint64_t end_of(const gp_block_view_t *block)
{
  return block->address + block->size;
}

/* Sorts by address. Of two blocks that overlap, one is damaged: drops the older. */
static void sort_blocks(gp_record_t *record, gp_copied_array_t *array)
{
  for (size_t i = 0; i < array->count; i++)
    array->by_address[i] = (gp_sort_key_t){.key = gp_record_block(array, i)->address, .index = (uint32_t)i};
  gp_sort_keys(array->by_address, array->count);
  size_t kept = 0;
  for (size_t i = 0; i < array->count; i++) {
    const gp_block_view_t *last = kept ? nth(array, kept - 1) : NULL;
    const gp_block_view_t *block = nth(array, i);
    if (last && block->address < end_of(last)) {
      gp_record_note_damage(record);
      if (block->block_id < last->block_id)
        continue;
      kept--;
    }
    array->by_address[kept++] = array->by_address[i];
  }
  array->count = kept;
}

static void put(gp_copied_array_t *array, const gp_block_view_t *block, const gp_block_view_t *segment)
{
  size_t i = array->count++;
  gp_block_view_t *view = gp_record_block(array, i);
  *view = *block;
  view->segment_address = segment->address;
  view->segment_size = segment->size;
  view->context = segment->context;
  array->by_address[i] = (gp_sort_key_t){.key = view->address, .index = (uint32_t)i};
}

static void put_hole(gp_copied_array_t *array, uint64_t begin, uint64_t end, const gp_block_view_t *segment)
{
  const gp_block_view_t hole = {.address = begin, .size = end - begin, .state = GP_BLOCK_IDLE};
  if (begin < end)
    put(array, &hole, segment);
}

/* Adds a part whose segment has no slot. If slots may be missing, it becomes a segment of
 * its own; otherwise it is damaged. */
static void put_alone(
    gp_record_t *record, gp_copied_array_t *array, const gp_block_view_t *part, uint64_t end)
{
  if (record->misses_slots && end_of(part) <= end)
    put(array, part, part);
  else
    gp_record_note_damage(record);
}

/* Adds the parts [*at, ...) that begin in the segment, and the holes between them. */
static void put_segment(gp_record_t *record, gp_copied_array_t *array, const gp_block_view_t *segment,
    const gp_copied_array_t *parts, size_t *at)
{
  uint64_t begin = segment->address;
  for (; *at < parts->count && nth(parts, *at)->address < end_of(segment); ++*at) {
    const gp_block_view_t *part = nth(parts, *at);
    if (!gp_record_is_cuttable(segment) || end_of(part) > end_of(segment)) {
      gp_record_note_damage(record);
      continue;
    }
    put_hole(array, begin, part->address, segment);
    put(array, part, segment);
    begin = end_of(part);
  }
  if (begin == segment->address)
    put(array, segment, segment); /* the segment is one block */
  else
    put_hole(array, begin, end_of(segment), segment);
}

/* Mapped memory has a slot for each piece. True if segment and next are one, because a part lies in both.
 * at: the first part that may be in segment. */
static bool goes_on(
    const gp_block_view_t *segment, const gp_block_view_t *next, const gp_copied_array_t *parts, size_t at)
{
  if (next->address != end_of(segment) || next->context != segment->context ||
      !gp_record_is_cuttable(segment) || !gp_record_is_cuttable(next))
    return false;
  bool spans = false;
  for (; at < parts->count && nth(parts, at)->address < end_of(segment); at++)
    spans = end_of(nth(parts, at)) > end_of(segment);
  return spans;
}

bool gp_record_order_memory(gp_record_t *record, int device)
{
  gp_device_copy_t *copy = &record->copies[device];
  gp_copied_array_t *parts = &record->parts[device];
  gp_copied_array_t whole = copy->blocks;
  size_t at = 0;

  if (!whole.pages)
    return true; /* the record has nothing about the device */
  for (size_t i = 0; i < copy->forwarded.count; i++)
    copy->forwarded.by_address[i] =
        (gp_sort_key_t){.key = gp_record_forwarded(&copy->forwarded, i)->address, .index = (uint32_t)i};
  gp_sort_keys(copy->forwarded.by_address, copy->forwarded.count);
  sort_blocks(record, &whole);
  sort_blocks(record, parts);
  copy->blocks = (gp_copied_array_t){0};
  bool good = gp_record_make_array(&copy->blocks, whole.count + 2 * parts->count, sizeof(gp_block_view_t));
  for (size_t i = 0; good && i <= whole.count; i++) {
    const gp_block_view_t *segment = i < whole.count ? nth(&whole, i) : NULL;
    uint64_t end = segment ? segment->address : UINT64_MAX;
    for (; at < parts->count && nth(parts, at)->address < end; at++)
      put_alone(record, &copy->blocks, nth(parts, at), end);
    if (!segment)
      continue;
    gp_block_view_t run = *segment;
    while (i + 1 < whole.count && goes_on(&run, nth(&whole, i + 1), parts, at))
      run.size += nth(&whole, ++i)->size;
    put_segment(record, &copy->blocks, &run, parts, &at);
  }
  gp_pages_unmap(whole.pages, whole.bytes);
  gp_record_drop_array(parts);
  return good;
}
