#include "pool/space/mapped.h"

#include "pool/events.h"
#include "pool/space/account.h"
#include "pool/space/block_slab.h"
#include "pool/space/chunks.h"
#include "pool/space/segment.h"

void gp_mapped_add(gp_range_t *range, gp_block_t *block)
{
  gp_context_t *context = range->segment.context;

  gp_assert_internal(!context->range);
  range->segment.range = range;
  block->state = GP_STATE_UNMAPPED;
  gp_segment_add(&range->segment, block);
  context->range = range;
}

/* Gives the rest of a block its former state, idle or unmapped. It has no neighbour in that state. */
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
  if (range->segment.context->is_ordered && device->reserved_peak < range->mapped)
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
  range->promised++; /* for its own place in the table */
  gp_chunks_add(range, &moved);
  gp_event_chunk(
      engine, range, gp_chunks_find(range, to), GP_ACTION_SEGMENT_ALLOC, GP_DETAIL_NONE, time_ns, 0);
}

/* The block is idle and has chunks that could go back or move. */
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

/* The largest of these chunks; of equals that at the highest address. *ret_block:
 * the block with the chunk. */
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
