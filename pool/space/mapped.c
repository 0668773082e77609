#include "pool/space/mapped.h"

#include <stdlib.h>

#include "pool/events.h"
#include "pool/space/account.h"
#include "pool/space/block_slab.h"
#include "pool/space/segment.h"
#include "pool/space/budget.h"
#include "pool/device_record.h"

/* Returns the index of the first chunk that begins at or above the address, or range->count if there is none.
 */
static size_t first_from(const gp_range_t *range, uint64_t address)
{
  size_t low = 0, high = range->count;

  gp_assert_internal(gp_lock_is_held(&range->segment.context->device->lock));
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (range->chunks[middle].address < address)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static uint64_t end_of(const gp_chunk_t *chunk)
{
  return chunk->address + chunk->size;
}

bool gp_chunks_promise(gp_range_t *range, size_t count)
{
  size_t needed = range->count + range->promised + count;

  gp_assert_internal(gp_lock_is_held(&range->segment.context->device->lock));
  if (needed > range->capacity) {
    size_t capacity = needed + needed / 2 + 16;
    gp_chunk_t *chunks = malloc(capacity * sizeof(*chunks));
    if (!chunks)
      return false;
    if (range->count > 0)
      memcpy(chunks, range->chunks, range->count * sizeof(*chunks));
    free(range->chunks);
    range->chunks = chunks;
    range->capacity = capacity;
  }
  range->promised += count;
  return true;
}

void gp_chunks_unpromise(gp_range_t *range, size_t count)
{
  gp_assert_internal(gp_lock_is_held(&range->segment.context->device->lock) && range->promised >= count);
  range->promised -= count;
}

/* Adds a chunk for which gp_chunks_promise has reserved a place. */
static void gp_chunks_add(gp_range_t *range, const gp_chunk_t *chunk)
{
  size_t at = first_from(range, chunk->address);

  gp_chunks_unpromise(range, 1);
  gp_assert_internal(range->count < range->capacity);
  gp_assert_internal(at == range->count || chunk->address + chunk->size <= range->chunks[at].address);
  gp_assert_internal(at == 0 || end_of(&range->chunks[at - 1]) <= chunk->address);
  memmove(&range->chunks[at + 1], &range->chunks[at], (range->count - at) * sizeof(*chunk));
  range->chunks[at] = *chunk;
  range->count++;
  range->mapped += chunk->size;
}

/* Removes a chunk from the table, which invalidates pointers into the table. */
static void gp_chunks_remove(gp_range_t *range, gp_chunk_t *chunk)
{
  size_t at = (size_t)(chunk - range->chunks);

  gp_assert_internal(gp_lock_is_held(&range->segment.context->device->lock) && at < range->count);
  range->count--;
  range->mapped -= chunk->size;
  memmove(chunk, chunk + 1, (range->count - at) * sizeof(*chunk));
}

gp_chunk_t *gp_chunks_find(const gp_range_t *range, uint64_t address)
{
  size_t at = first_from(range, address + 1);
  gp_chunk_t *chunk = at > 0 ? &range->chunks[at - 1] : NULL;
  return chunk && address < end_of(chunk) ? chunk : NULL;
}

/* Returns the first of the chunks that lie entirely in [address, address + size), or NULL, and stores their
 * number. */
static gp_chunk_t *gp_chunks_within(
    const gp_range_t *range, uint64_t address, uint64_t size, size_t *ret_count)
{
  *ret_count = 0;
  if (size < GP_CHUNK_STEP)
    return NULL;
  size_t first = first_from(range, address);
  size_t after = first_from(range, address + size);
  if (after > first && end_of(&range->chunks[after - 1]) > address + size)
    after--;
  *ret_count = after - first;
  return after > first ? &range->chunks[first] : NULL;
}

uint64_t gp_chunks_bytes_within(const gp_range_t *range, uint64_t address, uint64_t size)
{
  size_t count;
  const gp_chunk_t *chunks = gp_chunks_within(range, address, size, &count);

  return count > 0 ? end_of(&chunks[count - 1]) - chunks->address : 0;
}

bool gp_chunks_run(const gp_range_t *range, uint64_t address, uint64_t *ret_address, uint64_t *ret_size)
{
  const gp_chunk_t *chunk = gp_chunks_find(range, address);

  if (!chunk)
    return false;
  const gp_chunk_t *first = chunk, *last = chunk;
  while (first > range->chunks && end_of(first - 1) == first->address)
    first--;
  while (last + 1 < range->chunks + range->count && end_of(last) == last[1].address)
    last++;
  *ret_address = first->address;
  *ret_size = end_of(last) - first->address;
  return true;
}

/* Sizes by which the pool grows: large enough for few calls at first, and small enough for little unused
 * memory later. */
#define GROWTH_DIVISION       32 /* 1/32 of the context's bytes, if more than GROWTH_LEAST */
#define GROWTH_LEAST          (16 * GP_MIB)
#define GROWTH_MOST           (512 * GP_MIB)
#define GROWTH_EARLY_DIVISION 8 /* otherwise 1/8 of these bytes, up to GROWTH_LEAST */

/* Minimum size of a new chunk, as a share of the context's memory (some 2,000 chunks in 80 GiB). A chunk
 * moves as a whole, and only if no part of it is in use, so a new chunk is otherwise no larger than its
 * request. But some functions visit all chunks, so there must not be too many. */
#define CHUNK_SHARE 512

/* The pool may reserve this many thousandths of the highest use before it moves memory instead of growing. If
 * the same chunks move repeatedly, more memory avoids that: the value rises by one for each MOVES_A_PERMILLE
 * such moves. */
#define HELD_PERMILLE      1033
#define HELD_PERMILLE_MOST 1150
#define MOVES_A_PERMILLE   2

static uint64_t power_of_two_within(uint64_t bytes)
{
  return bytes == 0 ? 0 : UINT64_C(1) << (63 - (unsigned)__builtin_clzll(bytes));
}

uint64_t gp_mapped_growth(uint64_t held)
{
  uint64_t early = held / GROWTH_EARLY_DIVISION;
  uint64_t size = held / GROWTH_DIVISION;

  if (early > GROWTH_LEAST)
    early = GROWTH_LEAST;
  size = power_of_two_within(size > early ? size : early);
  if (size > GROWTH_MOST)
    return GROWTH_MOST;
  return size < GP_CHUNK_STEP ? GP_CHUNK_STEP : size;
}

uint64_t gp_mapped_chunk_size(uint64_t held, uint64_t request)
{
  uint64_t growth = gp_mapped_growth(held);
  uint64_t size = gp_round_up(request, GP_CHUNK_STEP);
  uint64_t least = power_of_two_within(held / CHUNK_SHARE);

  if (size < least)
    size = least;
  return size < growth ? size : growth;
}

bool gp_mapped_should_move(const gp_device_t *device, uint64_t need, uint64_t bytes)
{
  uint64_t mapped = gp_device_stats(device)->reserved_bytes.current - gp_budget_held(device);
  uint64_t use = device->part_active + need;
  uint64_t highest = use > device->highest_parts ? use : device->highest_parts;
  uint64_t permille = HELD_PERMILLE + device->moved_again / MOVES_A_PERMILLE;

  gp_assert_internal(gp_lock_is_held(&device->lock));
  if (permille > HELD_PERMILLE_MOST)
    permille = HELD_PERMILLE_MOST;
  return mapped + bytes > highest / 1000 * permille;
}

static bool is_usable(const gp_block_t *block)
{
  return block->state == GP_STATE_UNMAPPED || block->state == GP_STATE_IDLE;
}

/* Returns how many of `bytes` that begin with the block are not mapped. With `down`, the bytes end with the
 * block. Returns UINT64_MAX if the idle and unmapped blocks there have fewer than `bytes`. */
static uint64_t missing_from(const gp_block_t *block, bool down, uint64_t bytes)
{
  uint64_t missing = 0, left = bytes;

  for (; block && is_usable(block); block = down ? gp_segment_below(block) : gp_segment_above(block)) {
    uint64_t part = block->size < left ? block->size : left;
    if (block->state == GP_STATE_UNMAPPED)
      missing += gp_round_up(part, GP_CHUNK_STEP);
    left -= part;
    if (left == 0)
      return missing;
  }
  return UINT64_MAX;
}

/* Returns the block that contains the address: `block` or one below it. */
static gp_block_t *block_down_to(gp_block_t *block, uint64_t address)
{
  while (block->address > address)
    block = gp_segment_below(block);
  return block;
}

bool gp_mapped_place(const gp_range_t *range, uint64_t bytes, gp_place_t *ret_place)
{
  ret_place->missing = UINT64_MAX;
  gp_assert_internal(gp_lock_is_held(&range->segment.context->device->lock));
  for (gp_block_t *block = range->segment.first; block; block = gp_segment_above(block)) {
    if (!is_usable(block))
      continue;
    uint64_t missing = missing_from(block, false, bytes);
    if (missing < ret_place->missing)
      *ret_place = (gp_place_t){.first = block, .address = block->address, .missing = missing};
    if (block->state == GP_STATE_UNMAPPED)
      continue;
    missing = missing_from(block, true, bytes);
    if (missing < ret_place->missing) {
      uint64_t address = block->address + block->size - bytes;
      *ret_place =
          (gp_place_t){.first = block_down_to(block, address), .address = address, .missing = missing};
    }
  }
  return ret_place->missing != UINT64_MAX;
}

bool gp_mapped_place_ahead(const gp_range_t *range, uint64_t bytes, gp_place_t *ret_place)
{
  gp_assert_internal(gp_lock_is_held(&range->segment.context->device->lock));
  for (gp_block_t *block = range->segment.first; block; block = gp_segment_above(block)) {
    if (block->state != GP_STATE_UNMAPPED || block->size < bytes)
      continue;
    *ret_place = (gp_place_t){.first = block, .address = block->address, .missing = bytes};
    return true;
  }
  return false;
}

void gp_mapped_add(gp_range_t *range, gp_block_t *block)
{
  gp_context_t *context = range->segment.context;

  gp_assert_internal(!context->range);
  range->segment.range = range;
  block->state = GP_STATE_UNMAPPED;
  gp_segment_add(&range->segment, block);
  context->range = range;
}

/* Returns the rest of a block to its former state, idle or unmapped. None of its neighbours is in that state.
 */
static void put_back(gp_engine_t *engine, gp_block_t *block, gp_state_t state)
{
  block->state = state;
  if (state == GP_STATE_IDLE)
    (void)gp_segment_enter_idle(engine, block, block->idle_ns);
}

gp_block_t *gp_mapped_carve(gp_engine_t *engine, gp_block_t *block, uint64_t address, uint64_t bytes)
{
  const gp_state_t state = block->state;
  const uint64_t below = address - block->address;
  gp_block_t *middle = below > 0 ? gp_block_slab_take(engine) : block;
  gp_block_t *above = below + bytes < block->size ? gp_block_slab_take(engine) : block;

  gp_assert_internal(state == GP_STATE_IDLE || state == GP_STATE_UNMAPPED);
  gp_assert_internal(below + bytes <= block->size);
  if (!middle || !above) {
    if (middle && middle != block)
      gp_block_slab_give(engine, middle);
    if (above && above != block)
      gp_block_slab_give(engine, above);
    return NULL;
  }
  if (state == GP_STATE_IDLE)
    gp_segment_leave_idle(block);
  block->state = GP_STATE_MAPPING;
  if (middle != block)
    gp_segment_split(block, below, middle);
  if (above != block)
    gp_segment_split(middle, bytes, above);
  if (middle != block)
    put_back(engine, block, state);
  if (above != block)
    put_back(engine, above, state);
  return middle;
}

void gp_mapped_become_hole(gp_engine_t *engine, gp_block_t *block)
{
  gp_block_t *neighbours[] = {gp_segment_below(block), gp_segment_above(block)};

  block->state = GP_STATE_UNMAPPED;
  block->free_epoch = 0;
  for (int i = 0; i < 2; i++)
    if (neighbours[i] && neighbours[i]->state == GP_STATE_UNMAPPED)
      gp_segment_join(engine, block, neighbours[i]);
}

void gp_mapped_become_idle(gp_engine_t *engine, gp_block_t *block, uint64_t now_ns)
{
  (void)gp_segment_enter_idle(engine, block, now_ns);
}

void gp_mapped_adopt(
    gp_engine_t *engine, gp_range_t *range, const gp_chunk_t *chunk, uint64_t time_ns, uint64_t duration_ns)
{
  gp_device_t *device = range->segment.context->device;

  gp_chunks_add(range, chunk);
  if (range->segment.context->is_async && device->reserved_peak < range->mapped)
    device->reserved_peak = range->mapped;
  gp_gauge_add(&gp_device_stats(device)->segment, 1);
  gp_gauge_add(&gp_device_stats(device)->reserved_bytes, chunk->size);
  gp_device_stats(device)->driver_allocs++;
  gp_event_chunk(engine, range, gp_chunks_find(range, chunk->address), GP_ACTION_SEGMENT_ALLOC,
      GP_DETAIL_NONE, time_ns, duration_ns);
  gp_event_facts(engine, device);
}

void gp_mapped_forget(gp_engine_t *engine, gp_range_t *range, gp_chunk_t *chunk, gp_detail_t why,
    uint64_t time_ns, uint64_t duration_ns)
{
  gp_device_t *device = range->segment.context->device;

  gp_gauge_sub(&gp_device_stats(device)->segment, 1);
  gp_gauge_sub(&gp_device_stats(device)->reserved_bytes, chunk->size);
  gp_event_chunk(engine, range, chunk, GP_ACTION_SEGMENT_FREE, why, time_ns, duration_ns);
  gp_account_drop(engine, device, chunk->address, chunk->size, GP_SUPPLY_APART);
  gp_chunks_remove(range, chunk);
}

void gp_mapped_move(gp_engine_t *engine, gp_range_t *range, uint64_t from, uint64_t to, uint64_t time_ns)
{
  gp_chunk_t *chunk = gp_chunks_find(range, from);

  gp_event_chunk(engine, range, chunk, GP_ACTION_SEGMENT_FREE, GP_DETAIL_NONE, time_ns, 0);
  gp_chunk_t moved = *chunk;
  gp_chunks_remove(range, chunk);
  moved.address = to;
  range->segment.context->device->moved_again += moved.has_moved;
  moved.has_moved = true;
  range->promised++; /* keeps the place in the table that the chunk has just left */
  gp_chunks_add(range, &moved);
  gp_event_chunk(
      engine, range, gp_chunks_find(range, to), GP_ACTION_SEGMENT_ALLOC, GP_DETAIL_NONE, time_ns, 0);
}

/* Returns true if the block is idle, has whole chunks, and its free_epoch is at most `newest`. */
static bool can_go(const gp_context_t *context, const gp_block_t *block, uint64_t newest)
{
  return block->state == GP_STATE_IDLE && block->segment == &context->range->segment &&
         block->releasable > 0 && block->free_epoch <= newest;
}

gp_block_t *gp_mapped_oldest(
    const gp_context_t *context, uint64_t newest, gp_chunk_t **ret_chunks, size_t *ret_count)
{
  gp_block_t *oldest = NULL;

  gp_assert_internal(gp_lock_is_held(&context->device->lock));
  if (!context->range || context->range->releasable == 0)
    return NULL;
  GP_LIST_EACH(&context->blocks, gp_block_t, all, block)
    if (can_go(context, block, newest) && (!oldest || block->idle_ns < oldest->idle_ns))
      oldest = block;
  if (oldest)
    *ret_chunks = gp_chunks_within(context->range, oldest->address, oldest->size, ret_count);
  return oldest;
}

/* Returns the largest chunk in blocks that can_go() accepts, or NULL. Among equal sizes, returns the one at
 * the highest address. *ret_block is the block with the chunk. */
static gp_chunk_t *largest_of(const gp_context_t *context, uint64_t newest, gp_block_t **ret_block)
{
  gp_chunk_t *largest = NULL;

  GP_LIST_EACH(&context->blocks, gp_block_t, all, block) {
    if (!can_go(context, block, newest))
      continue;
    size_t count;
    gp_chunk_t *chunks = gp_chunks_within(context->range, block->address, block->size, &count);
    for (size_t i = 0; i < count; i++) {
      if (largest && chunks[i].size < largest->size)
        continue;
      largest = &chunks[i];
      *ret_block = block;
    }
  }
  return largest;
}

gp_block_t *gp_mapped_cut_out(gp_engine_t *engine, const gp_context_t *context, uint64_t newest, bool by_age)
{
  gp_chunk_t *chunk = NULL;
  gp_block_t *block = NULL;
  size_t count;

  gp_assert_internal(gp_lock_is_held(&context->device->lock));
  if (!context->range || context->range->releasable == 0)
    return NULL;
  if (by_age)
    block = gp_mapped_oldest(context, newest, &chunk, &count);
  else
    chunk = largest_of(context, newest, &block);
  return chunk ? gp_mapped_carve(engine, block, chunk->address, chunk->size) : NULL;
}

gp_block_t *gp_mapped_cut_to_fit(
    gp_engine_t *engine, const gp_context_t *context, uint64_t newest, uint64_t fit, uint64_t room)
{
  const gp_chunk_t *best = NULL;
  gp_block_t *in = NULL;

  gp_assert_internal(gp_lock_is_held(&context->device->lock));
  GP_LIST_EACH(&context->blocks, gp_block_t, all, block) {
    if (!can_go(context, block, newest))
      continue;
    size_t count;
    const gp_chunk_t *chunks = gp_chunks_within(context->range, block->address, block->size, &count);
    for (size_t i = 0; i < count; i++) {
      uint64_t size = chunks[i].size;
      bool is_better = size <= fit ? !best || best->size > fit || size > best->size
                                   : size <= room && (!best || (best->size > fit && size < best->size));
      if (!is_better || chunks[i].has_no_handle)
        continue;
      best = &chunks[i];
      in = block;
    }
  }
  return best ? gp_mapped_carve(engine, in, best->address, best->size) : NULL;
}

static bool check_chunks(const gp_range_t *range, uint64_t *ret_bytes)
{
  const gp_segment_t *segment = &range->segment;
  uint64_t end = segment->address;
  bool good =
      gp_expect(range->capacity >= range->count + range->promised, "chunks", range->capacity, range->count);

  *ret_bytes = 0;
  for (size_t i = 0; i < range->count; i++) {
    const gp_chunk_t *chunk = &range->chunks[i];
    good &= gp_expect(chunk->address >= end && chunk->size > 0 && chunk->size % GP_CHUNK_STEP == 0 &&
                          (chunk->address - segment->address) % GP_CHUNK_STEP == 0,
        "chunk out of place", chunk->address, chunk->size);
    end = chunk->address + chunk->size;
    *ret_bytes += chunk->size;
  }
  return gp_expect(end <= segment->address + segment->size, "chunk beyond the range", end, 0) && good;
}

bool gp_mapped_check(const gp_context_t *context)
{
  const gp_range_t *range = context->range;
  uint64_t mapped = 0, releasable = 0, chunks;
  bool was_hole = false, good;

  if (!range)
    return true;
  good = check_chunks(range, &chunks);
  for (const gp_block_t *block = range->segment.first; block; block = gp_segment_above(block)) {
    bool is_hole = block->state == GP_STATE_UNMAPPED;
    uint64_t address = 0, size = 0;
    bool has_memory = gp_chunks_run(range, block->address, &address, &size);
    good &= gp_expect(block->state != GP_STATE_MAPPING, "block is still being mapped", block->address, 0);
    good &= gp_expect(!is_hole || !was_hole, "unmapped neighbours", block->address, 0);
    good &= gp_expect(is_hole != has_memory && (is_hole || block->address + block->size <= address + size),
        "block against what is mapped", block->address, block->size);
    mapped += is_hole ? 0 : block->size;
    releasable += block->state == GP_STATE_IDLE ? block->releasable : 0;
    if (block->state == GP_STATE_IDLE)
      good &= gp_expect(block->releasable == gp_chunks_bytes_within(range, block->address, block->size),
          "what could go back of an idle block", block->address, block->releasable);
    was_hole = is_hole;
  }
  good &= gp_expect(range->promised == 0, "promised chunks", range->promised, 0);
  good &= gp_expect(releasable == range->releasable, "releasable", releasable, range->releasable);
  good &= gp_expect(range->mapped == chunks, "mapped", range->mapped, chunks);
  return gp_expect(mapped == chunks, "blocks and chunks", mapped, chunks) && good;
}
