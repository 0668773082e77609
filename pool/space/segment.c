#include "pool/space/segment.h"

#include "pool/engine_record.h"
#include "pool/space/block_slab.h"
#include "pool/space/chunks.h"

gp_block_t *gp_segment_above(const gp_block_t *block)
{
  if (block->address + block->size == block->segment->address + block->segment->size)
    return NULL;
  gp_block_t *next = gp_list_entry(block->all.next, gp_block_t, all);
  gp_assert_internal(next->segment == block->segment && next->address == block->address + block->size);
  return next;
}

gp_block_t *gp_segment_below(const gp_block_t *block)
{
  if (block->address == block->segment->address)
    return NULL;
  gp_block_t *previous = gp_list_entry(block->all.prev, gp_block_t, all);
  gp_assert_internal(
      previous->segment == block->segment && previous->address + previous->size == block->address);
  return previous;
}

/* Atomic, since a free that races with the block's end reads these members without the lock. */
static void set_place(gp_block_t *block, uint64_t address, gp_context_t *context)
{
  __atomic_store_n(&block->context, context, __ATOMIC_RELAXED);
  __atomic_store_n(&block->address, address, __ATOMIC_RELAXED);
}

void gp_segment_add(gp_segment_t *segment, gp_block_t *block)
{
  gp_context_t *context = segment->context;

  gp_assert_internal(gp_lock_is_held(&context->device->lock));
  gp_assert_internal(block->address == segment->address && block->size == segment->size);
  block->segment = segment;
  segment->first = block;
  gp_list_push_back(&context->segments, &segment->link);
  gp_list_push_back(&context->blocks, &block->all);
}

void gp_segment_remove(gp_segment_t *segment, gp_block_t *block)
{
  gp_assert_internal(gp_lock_is_held(&segment->context->device->lock));
  gp_assert_internal(block->segment == segment && gp_segment_is_whole(block));
  gp_list_remove(&block->all);
  gp_list_remove(&segment->link);
  block->segment = NULL;
}

uint64_t gp_segment_releasable(const gp_block_t *block)
{
  const gp_range_t *range = block->segment->range;

  if (range)
    return gp_chunks_bytes_within(range, block->address, block->size);
  return gp_segment_is_whole(block) ? block->size : 0;
}

/* Puts an idle block, now of its final size, into the bins. A whole segment also goes
 * into the device's list. */
static void enter(gp_block_t *block)
{
  gp_range_t *range = block->segment->range;
  gp_assert_internal(block->state == GP_STATE_IDLE);
  block->releasable = gp_segment_releasable(block);
  if (range)
    range->releasable += block->releasable;
  if (!block->segment->is_closed) {
    block->in_cut.address = block->address;
    block->in_cut.size = block->size;
    block->in_cut.free_epoch = block->free_epoch;
    gp_cut_bins_add(&block->context->cut, &block->in_cut);
  }
  if (gp_segment_is_whole(block)) {
    gp_list_push_back(&block->context->device->idle, &block->order);
    block->context->device->closed_idle += block->segment->is_closed;
  }
}

static void leave(gp_block_t *block)
{
  if (block->segment->range)
    block->segment->range->releasable -= block->releasable;
  gp_assert_internal(block->state == GP_STATE_IDLE);
  if (!block->segment->is_closed)
    gp_cut_bins_remove(&block->context->cut, &block->in_cut);
  if (gp_segment_is_whole(block)) {
    gp_list_remove(&block->order);
    block->context->device->closed_idle -= block->segment->is_closed;
  }
}

static void count_cached(gp_device_t *device, uint64_t bytes)
{
  gp_gauge_add(&gp_device_stats(device)->cached_bytes, bytes);
  device->part_cached += bytes;
}

static void uncount_cached(gp_device_t *device, uint64_t bytes)
{
  gp_gauge_sub(&gp_device_stats(device)->cached_bytes, bytes);
  device->part_cached -= bytes;
}

/* Bytes of an idle block in the bins that cannot go back to the driver. */
static uint64_t part_bytes(const gp_block_t *block)
{
  return block->size - block->releasable;
}

static void count_parts(const gp_context_t *context, uint64_t before, uint64_t after)
{
  gp_gauge_t *parts = &gp_device_stats(context->device)->inactive_split_bytes;

  if (after > before)
    gp_gauge_add(parts, after - before);
  else
    gp_gauge_sub(parts, before - after);
}

void gp_segment_split(gp_block_t *block, uint64_t bytes, gp_block_t *rest)
{
  gp_assert_internal(bytes > 0 && bytes < block->size && bytes % GP_CUT_GRANULE == 0);
  set_place(rest, block->address + bytes, block->context);
  rest->segment = block->segment;
  rest->size = block->size - bytes;
  rest->requested = 0;
  rest->block_id = 0;
  rest->time_ns = 0;
  rest->origin = 0;
  rest->idle_ns = block->idle_ns;
  rest->free_epoch = block->free_epoch;
  rest->state = block->state;
  gp_list_insert_after(&block->all, &rest->all);
  block->size = bytes;
}

void gp_segment_shrink(gp_engine_t *engine, gp_block_t *block, uint64_t bytes)
{
  gp_assert_internal(gp_lock_is_held(&block->context->device->lock));
  gp_block_t *rest = block->size > bytes ? gp_block_slab_take(engine) : NULL;
  if (!rest)
    return;
  gp_segment_split(block, bytes, rest);
  rest->state = GP_STATE_IDLE;
  enter(rest);
  count_cached(block->context->device, rest->size);
  count_parts(block->context, 0, part_bytes(rest));
}

gp_block_t *gp_segment_take(gp_engine_t *engine, gp_context_t *context, uint64_t bytes)
{
  gp_assert_internal(gp_lock_is_held(&context->device->lock));
  gp_cut_entry_t *entry = gp_cut_bins_find(&context->cut, bytes, UINT64_MAX);
  if (!entry)
    return NULL;
  gp_block_t *block = gp_block_of_cut(entry);
  gp_block_t *rest = block->size > bytes ? gp_block_slab_take(engine) : NULL;
  uint64_t parts = part_bytes(block);
  leave(block);
  if (rest) {
    gp_segment_split(block, bytes, rest);
    enter(rest);
  }
  uncount_cached(context->device, block->size);
  count_parts(context, parts, rest ? part_bytes(rest) : 0);
  return block;
}

void gp_segment_join(gp_engine_t *engine, gp_block_t *block, gp_block_t *neighbour)
{
  if (neighbour->address < block->address) {
    set_place(block, neighbour->address, block->context);
    if (block->segment->first == neighbour)
      block->segment->first = block;
  }
  block->size += neighbour->size;
  if (neighbour->free_epoch > block->free_epoch)
    block->free_epoch = neighbour->free_epoch;
  gp_list_remove(&neighbour->all);
  __atomic_store_n(&neighbour->address, 0, __ATOMIC_RELAXED);
  gp_block_slab_give(engine, neighbour);
}

gp_block_t *gp_segment_enter_idle(gp_engine_t *engine, gp_block_t *block, uint64_t now_ns)
{
  gp_block_t *neighbours[] = {gp_segment_below(block), gp_segment_above(block)};
  uint64_t parts = 0;

  gp_assert_internal(gp_lock_is_held(&block->context->device->lock));
  count_cached(block->context->device, block->size);
  for (int i = 0; i < 2; i++) {
    if (!neighbours[i] || neighbours[i]->state != GP_STATE_IDLE)
      continue;
    parts += part_bytes(neighbours[i]);
    leave(neighbours[i]);
    gp_segment_join(engine, block, neighbours[i]);
  }
  block->state = GP_STATE_IDLE;
  block->idle_ns = now_ns;
  block->requested = 0;
  block->block_id = 0;
  enter(block);
  count_parts(block->context, parts, part_bytes(block));
  return block;
}

void gp_segment_leave_idle(gp_block_t *block)
{
  gp_assert_internal(gp_lock_is_held(&block->context->device->lock));
  leave(block);
  uncount_cached(block->context->device, block->size);
  count_parts(block->context, part_bytes(block), 0);
}

void gp_segment_close(gp_segment_t *segment)
{
  gp_assert_internal(gp_lock_is_held(&segment->context->device->lock));
  if (segment->is_closed)
    return;
  for (gp_block_t *block = segment->first; block; block = gp_segment_above(block)) {
    atomic_store_explicit(&block->home, NULL, memory_order_relaxed);
    if (block->state == GP_STATE_IDLE)
      gp_cut_bins_remove(&segment->context->cut, &block->in_cut);
  }
  segment->context->device->closed_idle +=
      gp_segment_is_whole(segment->first) && segment->first->state == GP_STATE_IDLE;
  segment->is_closed = true;
}

gp_segment_t *gp_segment_at(const gp_context_t *context, uint64_t address)
{
  gp_assert_internal(gp_lock_is_held(&context->device->lock));
  GP_LIST_EACH(&context->segments, gp_segment_t, link, segment)
    if (address - segment->address < segment->size)
      return segment;
  return NULL;
}

uint64_t gp_segment_held(const gp_context_t *context)
{
  uint64_t bytes = context->range ? context->range->mapped : 0;

  gp_assert_internal(gp_lock_is_held(&context->device->lock));
  GP_LIST_EACH(&context->segments, const gp_segment_t, link, segment)
    if (!segment->range) /* else it is a range, of addresses */
      bytes += segment->size;
  return bytes;
}

gp_block_t *gp_segment_block_at(const gp_segment_t *segment, uint64_t address)
{
  gp_block_t *block = segment->first;

  gp_assert_internal(address - segment->address < segment->size);
  while (address - block->address >= block->size)
    block = gp_segment_above(block);
  return block;
}

/* Free memory without a gap that ends at the walk's position. */
typedef struct free_piece {
  const gp_segment_t *segment;
  uint64_t address, size;
} free_piece_t;

static void end_piece(const free_piece_t *piece, uint64_t *whole, uint64_t *largest)
{
  if (piece->size == 0)
    return;
  if (piece->segment->range)
    *whole += gp_chunks_bytes_within(piece->segment->range, piece->address, piece->size);
  else if (piece->size == piece->segment->size)
    *whole += piece->size;
  if (piece->size > *largest && !piece->segment->is_closed)
    *largest = piece->size;
}

void gp_segment_measure(const gp_context_t *context, uint64_t *ret_whole, uint64_t *ret_largest)
{
  free_piece_t piece = {.segment = NULL};

  gp_assert_internal(gp_lock_is_held(&context->device->lock));
  *ret_whole = *ret_largest = 0;
  GP_LIST_EACH(&context->blocks, const gp_block_t, all, block) {
    bool is_free =
        block->state == GP_STATE_IDLE || block->state == GP_STATE_DEFERRED || block->state == GP_STATE_BOUND;
    if (is_free && !block->segment && block->size > GP_DRIVER_SHARED_MAX)
      *ret_whole += block->size; /* smaller ones may share pages with memory in use */
    if (!is_free || block->segment != piece.segment) {
      end_piece(&piece, ret_whole, ret_largest);
      piece = (free_piece_t){.segment = block->segment, .address = block->address};
    }
    if (is_free && block->segment) {
      piece.address = piece.size == 0 ? block->address : piece.address;
      piece.size += block->size;
    }
  }
  end_piece(&piece, ret_whole, ret_largest);
}
