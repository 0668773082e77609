#include "pool/space/segment.h"

#include "pool/space/block_slab.h"
#include "pool/space/mapped.h"
#include "pool/space/budget.h"
#include "pool/device_record.h"

/* Checks the invariants of segments in block_record.h and bins.h, for gp_engine_check. Returns true if they
 * hold. */

static bool check_idle(const gp_block_t *block)
{
  const gp_cut_entry_t *entry = &block->in_cut;
  bool is_listed = block->order.next != &block->order;
  bool good = gp_expect(is_listed == gp_segment_is_whole(block),
      "idle whole segment against the device's list", block->address, block->size);

  if (block->segment->is_closed)
    return good;
  return gp_expect(entry->address == block->address && entry->size == block->size &&
                       entry->free_epoch == block->free_epoch,
             "idle part and its entry differ", block->address, entry->address) &&
         good;
}

static bool check_bound(const gp_block_t *block, const gp_block_t *before)
{
  const gp_cut_entry_t *entry = &block->in_cut;
  bool good = gp_expect(!block->freed_in || (entry->address == block->address && entry->size == block->size &&
                                                entry->free_epoch == block->freed_as),
      "bound part and its entry differ", block->address, entry->address);
  good &= gp_expect(!block->freed_in || !block->segment->is_closed,
      "part of a closed segment is with a stream", block->address, 0);
  return gp_expect(!before || before->state != GP_STATE_BOUND || !block->freed_in ||
                       before->freed_in != block->freed_in,
             "neighbours of one stream", block->address, 0) &&
         good;
}

bool gp_segment_check(const gp_context_t *context)
{
  const gp_segment_t *segment = NULL; /* segment of the previous block */
  uint64_t end = 0;                   /* end of the previous block */
  bool was_idle = false;
  size_t segments = 0, listed = 0, entries = 0, counted;
  uint64_t bytes = 0, counted_bytes;
  bool good = true;

  GP_LIST_EACH(&context->blocks, const gp_block_t, all, block) {
    bool is_first = block->segment != segment;
    if (is_first && segment)
      good &=
          gp_expect(end == segment->address + segment->size, "segment is not covered", segment->address, end);
    segment = block->segment;
    if (!segment)
      continue;
    bool is_idle = block->state == GP_STATE_IDLE;
    segments += is_first;
    good &= gp_expect(
        block->address == (is_first ? segment->address : end), "gap in a segment", block->address, end);
    good &= gp_expect(!is_first || segment->first == block, "first block of a segment", block->address, 0);
    good &= gp_expect(is_first || !was_idle || !is_idle, "idle neighbours", block->address, 0);
    if (is_idle)
      good &= check_idle(block);
    if (block->state == GP_STATE_BOUND)
      good &= check_bound(block, gp_segment_below(block));
    if (is_idle && !segment->is_closed) {
      entries++;
      bytes += block->size;
    }
    end = block->address + block->size;
    was_idle = is_idle;
  }
  if (segment)
    good &=
        gp_expect(end == segment->address + segment->size, "segment is not covered", segment->address, end);
  GP_LIST_EACH(&context->segments, const gp_segment_t, link, each)
    listed += each->context == context;
  good &= gp_expect(segments == listed, "segments of the context", segments, listed);
  good &= gp_expect(gp_cut_bins_check(&context->cut, &counted, &counted_bytes), "bins of cut memory", 0, 0);
  return gp_expect(
             entries == counted && bytes == counted_bytes, "idle parts in the bins", bytes, counted_bytes) &&
         good;
}

/* A large request gets its own segment, which can be released as a whole after the free. It is large from
 * 1/OWN_DIVISION of the context's bytes, and at least OWN_LEAST. */
#define OWN_LEAST    (64 * GP_MIB)
#define OWN_DIVISION 32 /* divides the bytes that the context has */

/* For other requests a new segment also has memory for later requests. It is large at first, so that few
 * driver calls are needed, and relatively smaller later, so that little is wasted. */
#define GROWTH_EARLY_DIVISION 4 /* a quarter of the context's bytes, up to GROWTH_EARLY_MOST */
#define GROWTH_EARLY_MOST     (64 * GP_MIB)
#define GROWTH_DIVISION       24
#define GROWTH_MOST           (512 * GP_MIB)

/* From this size on, a segment is a multiple of the request, so that equal requests waste nothing when the
 * device is almost full. */
#define EQUAL_LEAST GP_MIB

/* Slack beyond the highest use: a percentage of that use, but at least SLACK_BYTES. The percentage grows by
 * one with each release. */
#define SLACK_LEAST 5u
#define SLACK_MOST  15u
#define SLACK_BYTES (32 * GP_MIB)

static uint64_t minimum(uint64_t a, uint64_t b)
{
  return a < b ? a : b;
}

static uint64_t maximum(uint64_t a, uint64_t b)
{
  return a > b ? a : b;
}

uint64_t gp_segment_size(uint64_t held, uint64_t bytes)
{
  if (bytes >= OWN_LEAST && bytes >= held / OWN_DIVISION)
    return gp_round_up(bytes, GP_SEGMENT_STEP);
  uint64_t early = minimum(held / GROWTH_EARLY_DIVISION, GROWTH_EARLY_MOST);
  uint64_t growth = maximum(early, minimum(held / GROWTH_DIVISION, GROWTH_MOST));
  if (bytes >= EQUAL_LEAST && bytes < growth)
    growth -= growth % bytes;
  return gp_round_up(maximum(bytes, growth), GP_SEGMENT_STEP);
}

uint64_t gp_segment_spare_bytes(const gp_device_t *device)
{
  uint64_t percent = minimum(SLACK_LEAST + device->segments_spared, SLACK_MOST);
  uint64_t slack = maximum(device->highest_parts / 100 * percent, SLACK_BYTES);
  uint64_t needed = maximum(device->highest_parts + slack, device->needed_bytes);
  uint64_t reserved = gp_parts_held(device);

  gp_assert_internal(gp_lock_is_held(&device->lock));
  return reserved > needed ? reserved - needed : 0;
}

/* Chooses the smallest segment that has at least the spare bytes, otherwise the largest segment. */
gp_block_t *gp_segment_spare(gp_context_t *context)
{
  uint64_t wanted = gp_segment_spare_bytes(context->device);
  gp_block_t *found = NULL;

  GP_LIST_EACH(&context->device->idle, gp_block_t, order, block) {
    if (block->context != context || !block->segment)
      continue;
    bool is_better = !found || (found->size >= wanted ? block->size >= wanted && block->size < found->size
                                                      : block->size > found->size);
    if (is_better)
      found = block;
  }
  return found;
}

void gp_segment_spared(gp_device_t *device, const gp_block_t *block)
{
  gp_assert_internal(gp_lock_is_held(&device->lock) && block->segment);
  device->segments_spared += device->segments_spared < SLACK_MOST;
  device->largest_spared = maximum(device->largest_spared, block->size);
}

void gp_segment_note_growth(gp_device_t *device, const gp_block_t *block)
{
  gp_assert_internal(gp_lock_is_held(&device->lock) && block->segment);
  if (device->largest_spared == 0 || block->size < device->largest_spared)
    return;
  device->largest_spared = 0;
  device->needed_bytes = maximum(device->needed_bytes, gp_parts_held(device) + block->size);
}

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

/* Stores atomically, because a free that races with the end of the block reads these members without the
 * lock. */
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

/* Puts an idle block, which has its final size, into the bins. Puts a whole segment also into the device's
 * list. */
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

/* Returns the bytes of an idle block in the bins that cannot be released to the driver. */
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
    if (!segment->range) /* the size of a range counts addresses, not memory */
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

/* Free memory without a gap that ends at the current position in a walk over the blocks. */
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
      *ret_whole += block->size; /* smaller blocks may share pages with memory in use */
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
