#include "pool/reuse/stream_points.h"

#include "pool/reuse/stamps.h"
#include "pool/space/bound_parts.h"
#include "pool/async/stream_blocks.h"

/* Returns true if the point's stream still exists. The caller holds the lock of the point's device. */
static bool is_there(const gp_stream_point_t *point)
{
  gp_assert_internal(gp_lock_is_held(&point->device->lock));
  return point->id != 0 && atomic_load(&point->stream_record->id) == point->id;
}

void gp_stream_point_passed(const gp_stream_point_t *point)
{
  gp_stream_record_t *stream_record = point->stream_record;

  if (!stream_record || point->frees == 0)
    return;
  gp_lock_take(&point->device->lock);
  if (is_there(point) && stream_record->passed < point->frees) {
    stream_record->passed = point->frees;
    if (gp_list_is_empty(&stream_record->passed_link))
      gp_list_push_back(&point->device->passed, &stream_record->passed_link);
  }
  gp_lock_release(&point->device->lock);
}

/* Returns the slot of `by` in which to store a point of stream_record: the slot that already has a point of
 * that stream, else a slot that is free or whose stream has ended, else the oldest slot. */
static gp_stream_point_t *place_of(gp_stream_record_t *by, const gp_stream_record_t *stream_record)
{
  gp_stream_point_t *ended = NULL;

  for (unsigned i = 0; i < GP_AWAITED_POINTS; i++) {
    gp_stream_point_t *known = &by->awaited[i];
    if (known->stream_record == stream_record)
      return known;
    if (!ended && (!known->stream_record || !is_there(known)))
      ended = known;
  }
  return ended ? ended : &by->awaited[by->next_awaited++ % GP_AWAITED_POINTS];
}

void gp_stream_point_awaited(gp_stream_record_t *by, const gp_stream_point_t *point)
{
  if (!by || !point->stream_record || point->frees == 0 || point->stream_record == by ||
      point->device != by->context->device)
    return;
  gp_lock_take(&point->device->lock);
  if (is_there(point) && !by->has_ended) {
    gp_stream_point_t *place = place_of(by, point->stream_record);
    if (place->id != point->id || place->frees < point->frees)
      *place = *point;
    by->awaits = true;
  }
  gp_lock_release(&point->device->lock);
}

static gp_block_t *take_before(gp_engine_t *engine, const gp_stream_point_t *point, const gp_context_t *arena,
    const gp_fit_t *fit, bool is_cut)
{
  gp_block_t *block = is_cut ? gp_bound_find(point->stream_record, fit->fresh, point->frees)
                             : gp_stream_block_find_before(point->stream_record, fit, point->frees);

  /* The memory ends with its context, but the waiting stream may belong to another context. */
  if (!block || block->context != arena)
    return NULL;
  if (is_cut)
    return gp_bound_take(engine, block, fit->fresh) ? block : NULL;
  gp_stamp_leave_deferred(block);
  return block;
}

gp_block_t *gp_stream_points_take(
    gp_engine_t *engine, gp_stream_record_t *by, const gp_context_t *arena, const gp_fit_t *fit, bool is_cut)
{
  gp_block_t *block = NULL;

  if (!by->awaits)
    return NULL;
  for (unsigned i = 0; i < GP_AWAITED_POINTS && !block; i++) {
    const gp_stream_point_t *point = &by->awaited[i];
    if (point->stream_record && is_there(point))
      block = take_before(engine, point, arena, fit, is_cut);
  }
  return block;
}

/* Makes at most `most` blocks of one bin idle, and returns the number of blocks. */
static unsigned drain_bin(gp_engine_t *engine, const gp_stream_record_t *stream_record,
    gp_bin_entry_t *newest, uint64_t now_ns, unsigned most)
{
  unsigned moved = 0;

  for (gp_bin_entry_t *entry = newest, *next; entry && moved < most; entry = next) {
    gp_block_t *block = gp_block_of_entry(entry);
    next = entry->next;
    if (block->freed_as > stream_record->passed)
      continue;
    block->free_epoch = 0; /* any request may reuse the block, so no context needs to complete the epoch */
    gp_stamp_complete(engine, block, now_ns, now_ns);
    moved++;
  }
  return moved;
}

static unsigned drain_bound(
    gp_engine_t *engine, gp_stream_record_t *stream_record, uint64_t now_ns, unsigned most)
{
  gp_block_t *block;
  unsigned moved = 0;

  while (moved < most && (block = gp_bound_find(stream_record, GP_CUT_GRANULE, stream_record->passed))) {
    block->free_epoch = 0;
    gp_stamp_complete(engine, block, now_ns, now_ns);
    moved++;
  }
  return moved;
}

unsigned gp_stream_points_drain_one(
    gp_engine_t *engine, gp_stream_record_t *stream_record, uint64_t now_ns, unsigned most)
{
  unsigned moved = drain_bin(engine, stream_record, stream_record->others.idle, now_ns, most);

  gp_assert_internal(gp_lock_is_held(&stream_record->context->device->lock));
  for (size_t i = 0; i < stream_record->freed.capacity && moved < most; i++) {
    const gp_bin_t *bin = stream_record->freed.slots[i].bin;
    if (bin)
      moved += drain_bin(engine, stream_record, bin->idle, now_ns, most - moved);
  }
  moved += drain_bound(engine, stream_record, now_ns, most - moved);
  if (moved < most)
    gp_list_remove(&stream_record->passed_link);
  return moved;
}

unsigned gp_stream_points_drain(gp_engine_t *engine, gp_device_t *device, uint64_t now_ns, unsigned most)
{
  unsigned moved = 0;

  gp_assert_internal(gp_lock_is_held(&device->lock));
  while (moved < most && !gp_list_is_empty(&device->passed))
    moved += gp_stream_points_drain_one(
        engine, gp_list_entry(device->passed.next, gp_stream_record_t, passed_link), now_ns, most - moved);
  return moved;
}
