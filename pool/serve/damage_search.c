#include "pool/serve/damage_search.h"

#include <string.h>

#include "pool/events.h"
#include "pool/serve/cut_memory.h"
#include "pool/serve/damage.h"
#include "pool/space/block_life.h"
#include "pool/space/driver_calls.h"

/* The watched bytes of a large filled block, its sample: EDGE bytes at each end, and between them PLACES
 * pieces of PLACE bytes. */
#define EDGE        GP_RED_ZONE_MOST
#define PLACES      64
#define PLACE       256
#define SAMPLE_MOST (2 * EDGE + PLACES * PLACE)

_Static_assert(GP_SEARCH_ITEMS *SAMPLE_MOST <= GP_SEARCH_BYTES, "a batch of samples fits into the buffer");

static gp_search_item_t item_of(
    const gp_block_t *block, gp_search_part_t part, uint64_t offset, uint64_t length)
{
  return (gp_search_item_t){.address = block->address,
      .requested = block->requested,
      .block_id = block->block_id,
      .offset = offset,
      .length = length,
      .part = part,
      .is_last = true};
}

/* Returns the distance between the places of a sample. */
static uint64_t stride_of(const gp_search_item_t *item)
{
  return (item->requested - 2 * EDGE) / PLACES;
}

/* Adds an item to the search. Returns false if the search has no room for it. */
static bool add(gp_search_t *search, const gp_search_item_t *item)
{
  if (search->count == GP_SEARCH_ITEMS || item->length > GP_SEARCH_BYTES - search->used)
    return false;
  search->items[search->count] = *item;
  search->items[search->count++].at = search->used;
  search->used += item->length;
  return true;
}

/* Adds a range of a block that may be larger than the buffer, and stores the rest in search->rest for the
 * next batch. Returns false if the search has no room. */
static bool add_all(gp_search_t *search, gp_search_item_t item)
{
  uint64_t room = GP_SEARCH_BYTES - search->used;

  if (search->count == GP_SEARCH_ITEMS || room == 0)
    return false;
  search->rest = item;
  item.is_last = item.length <= room;
  item.length = item.is_last ? item.length : room;
  search->rest.offset += item.length;
  search->rest.length -= item.length;
  return add(search, &item);
}

/* Adds a quarantined block to the search. Returns false if the search has no room for it. */
static bool add_quarantined(const gp_engine_t *engine, gp_search_t *search, const gp_block_t *block)
{
  gp_search_item_t item = item_of(block, GP_SEARCH_RED_ZONE, block->requested, block->red_zone);

  if (!block->is_filled)
    return add(search, &item);
  if (gp_damage_checks(engine, GP_CHECK_FULL) || block->requested <= SAMPLE_MOST)
    return add_all(search, item_of(block, GP_SEARCH_ALL, 0, block->requested));
  item = item_of(block, GP_SEARCH_SAMPLE, 0, SAMPLE_MOST);
  return add(search, &item);
}

/* Returns true if the wish includes the filled block. */
static bool serves(const gp_block_t *block, const gp_search_wish_t *wish)
{
  if (wish->all || !wish->fit)
    return wish->all;
  return wish->is_cut ? block->segment && block->size == wish->fit->fresh
                      : block->bin && block->bin->size == wish->fit->class_bytes &&
                            block->size >= wish->fit->least && block->size <= wish->fit->most;
}

static void collect_live(gp_search_t *search, gp_context_t *arena)
{
  GP_LIST_EACH(&arena->blocks, gp_block_t, all, block) {
    const gp_search_item_t item = item_of(block, GP_SEARCH_LIVE, block->requested, block->red_zone);
    if (block->state != GP_STATE_LIVE || block->red_zone == 0 || block->tainted)
      continue;
    if (!add(search, &item))
      return;
    block->red_zone = 0; /* the red zone is searched only once */
  }
}

void gp_search_collect(
    gp_engine_t *engine, gp_search_t *search, gp_context_t *arena, const gp_search_wish_t *wish)
{
  bool has_served = false;

  search->used = 0;
  search->fills = gp_damage_checks(engine, GP_CHECK_STALE) && !wish->all;
  if (search->rest.length > 0)
    (void)add_all(search, search->rest);
  gp_lock_take(&arena->device->lock);
  if (wish->live)
    collect_live(search, arena);
  GP_LIST_EACH(&arena->quarantine, gp_block_t, order, block) {
    if (wish->live || search->rest.length > 0)
      break;
    if (block->is_searched || (block->is_filled && (has_served || !serves(block, wish))))
      continue;
    if (!add_quarantined(engine, search, block))
      break;
    block->is_searched = true;
    has_served = block->is_filled && !wish->all;
  }
  gp_lock_release(&arena->device->lock);
}

int gp_search_submit(gp_engine_t *engine, gp_context_t *context, const gp_search_t *search)
{
  const gp_driver_context_t *in = &context->driver;
  int code = 0;

  for (size_t i = 0; i < search->count && code == 0; i++) {
    const gp_search_item_t *item = &search->items[i];
    uint8_t *to = search->buffer + item->at;
    if (item->part == GP_SEARCH_SAMPLE) {
      code = gp_driver_copy_out(engine, in, search->stream, to, item->address, EDGE, 1, EDGE);
      if (code == 0)
        code = gp_driver_copy_out(
            engine, in, search->stream, to + EDGE, item->address + EDGE, PLACE, PLACES, stride_of(item));
      if (code == 0)
        code = gp_driver_copy_out(engine, in, search->stream, to + SAMPLE_MOST - EDGE,
            item->address + item->requested - EDGE, EDGE, 1, EDGE);
    } else if (item->length > 0) {
      code = gp_driver_copy_out(
          engine, in, search->stream, to, item->address + item->offset, item->length, 1, item->length);
    }
    if (code == 0 && item->part == GP_SEARCH_RED_ZONE && search->fills)
      code = gp_driver_fill(engine, in, search->stream, item->address, item->requested, engine->check_byte);
  }
  return code;
}

/* Returns the offset, in the block, of the byte at `index` in the item's copy. */
static uint64_t offset_of(const gp_search_item_t *item, uint64_t index)
{
  if (item->part != GP_SEARCH_SAMPLE || index < EDGE)
    return item->offset + index;
  if (index >= SAMPLE_MOST - EDGE)
    return item->requested - (SAMPLE_MOST - index);
  uint64_t place = (index - EDGE) / PLACE;
  return EDGE + place * stride_of(item) + (index - EDGE) % PLACE;
}

void gp_search_compare(const gp_engine_t *engine, const gp_search_t *search, gp_search_item_t *item)
{
  const uint8_t *bytes = search->buffer + item->at;
  uint64_t first = 0, count = 0;

  if (item->length > 0 && bytes[0] == engine->check_byte && memcmp(bytes, bytes + 1, item->length - 1) == 0)
    return; /* the usual case, at the speed of memcmp: all bytes are equal */
  for (uint64_t i = 0; i < item->length; i++) {
    if (bytes[i] == engine->check_byte)
      continue;
    first = count++ == 0 ? i : first;
  }
  if (count > 0)
    item->damage = (gp_damage_t){.offset = offset_of(item, first),
        .bytes = count,
        .kind = item->part == GP_SEARCH_RED_ZONE || item->part == GP_SEARCH_LIVE ? GP_DAMAGE_EDGE
                                                                                 : GP_DAMAGE_STALE};
}

/* Counts the damage of a block and notifies the observer. The caller holds the device's lock. */
static void record(gp_engine_t *engine, const gp_block_t *block, gp_damage_t *damage, uint64_t now_ns)
{
  damage->address = block->address;
  damage->device = block->context->device->ordinal;
  damage->requested = block->requested;
  damage->origin = block->origin;
  gp_device_stats(block->context->device)->num_damages++;
  gp_event_damage(engine, block, damage, now_ns);
}

/* Ends the search of a block: the block is filled, leaves the quarantine, or is searched again later. The
 * caller holds the device's lock. */
static void end_search(
    gp_engine_t *engine, gp_block_t *block, const gp_search_item_t *item, bool is_sound, bool is_filled)
{
  block->is_searched = false;
  if (!gp_damage_checks(engine, GP_CHECK_EDGES | GP_CHECK_STALE) ||
      (is_sound && !item->is_dropped && !is_filled))
    gp_block_leave_quarantine(engine, block, gp_now(engine));
  else
    block->is_filled |= is_sound && is_filled;
}

void gp_search_conclude(gp_engine_t *engine, const gp_search_t *search, gp_search_item_t *item, bool is_sound)
{
  gp_block_t *block = gp_find_and_lock(engine, item->address);
  gp_state_t state = item->part == GP_SEARCH_LIVE ? GP_STATE_LIVE : GP_STATE_QUARANTINED;

  bool is_same = block && block->block_id == item->block_id && block->state == state;
  if (!is_same)
    item->damage.bytes = 0;
  if (!block)
    return;
  gp_device_t *device = block->context->device;
  if (item->damage.bytes > 0)
    record(engine, block, &item->damage, gp_now(engine));
  if (is_same && item->part != GP_SEARCH_LIVE && (item->is_last || item->is_dropped))
    end_search(engine, block, item, is_sound, item->part == GP_SEARCH_RED_ZONE && search->fills);
  gp_lock_release(&device->lock);
}
