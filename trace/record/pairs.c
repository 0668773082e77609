#include "trace/record/pairs.h"

#include "base/assert.h"
#include "trace/record/writer.h"

/* Whether the thread may take a step by itself, and how: the recorder's mode, or GP_TRACE_OFF, which is also
 * that of a forked child, where there are no slots. */
static inline int mode_of(const gp_recorder_t *recorder, const gp_writer_t *writer)
{
  int mode = atomic_load_explicit(&recorder->mode, memory_order_relaxed);
  return mode != GP_TRACE_ALL || writer->recorder_id == recorder->id ? mode : GP_TRACE_OFF;
}

static inline gp_live_slot_t *slot_of(const gp_recorder_t *recorder, const gp_observed_t *block)
{
  gp_live_slot_t *slot = &recorder->live.slots[block->observer_cookie.slot - 1];
  gp_assert_internal(slot->address == block->address);
  return slot;
}

/* The slot tells of the alloc, so nothing else is written. */
uint64_t gp_pairs_alloc(
    void *self, gp_observed_t *block, uint64_t context, int device, bool is_cut, uint64_t time_ns)
{
  gp_recorder_t *recorder = self;
  gp_writer_t *writer = &gp_writer;
  gp_cookie_t *cookie = &block->observer_cookie;
  int mode = mode_of(recorder, writer);
  bool tells_alloc = mode == GP_TRACE_ALL;
  int16_t stream = GP_EVENT_RECORD_NO_STREAM;

  if (mode == GP_TRACE_OFF)
    return 0;
  if (block->stream != 0) {
    uint64_t handle = block->stream == GP_STREAM_LEGACY ? 0 : block->stream;
    if (!tells_alloc || !writer->has_stream || writer->stream_handle != handle)
      return 0;
    stream = writer->stream;
  }
  if (cookie->slot == 0) {
    cookie->slot = gp_live_take_free(&recorder->live, device);
    if (cookie->slot == 0)
      return 0;
    gp_live_set_place(&recorder->live.slots[cookie->slot - 1], block->address, block->size, context);
  }
  if (tells_alloc)
    time_ns = gp_recorder_time_ns(recorder, device, time_ns);
  gp_live_slot_t *slot = slot_of(recorder, block);
  const gp_live_owner_t owner = {block->requested, block->block_id, time_ns, block->origin, stream};
  gp_live_set_owner(slot, &owner);
  slot->thread = writer->thread;
  gp_live_set_state(slot, GP_LIVE_ALLOCATED, device, is_cut, tells_alloc);
  cookie->note = tells_alloc ? gp_note_of_alloc(writer->thread) : 0;
  return time_ns;
}

/* Fills the record of a free, and of the alloc before it, if only the slot told of that. */
static inline void fill_record(gp_event_record_t *record, const gp_writer_t *writer,
    const gp_observed_t *block, const gp_live_slot_t *slot, int device, uint64_t time_ns)
{
  bool is_pair = gp_note_tells_alloc(block->observer_cookie.note);

  __atomic_store_n(&record->time_ns, time_ns, __ATOMIC_RELAXED);
  record->address = block->address;
  record->size = block->requested;
  record->lifetime_ns = time_ns - block->time_ns;
  gp_event_record_set_block(record, block->size, block->block_id);
  record->duration = is_pair ? gp_note_thread(block->observer_cookie.note) : 0;
  record->stack = (int32_t)block->origin - 1;
  record->stream = slot->stream;
  record->thread = writer->thread;
  record->action = GP_ACTION_FREE_REQUESTED;
  record->detail = GP_DETAIL_NONE;
  record->device = (int8_t)device;
  record->flags = is_pair ? GP_EVENT_RECORD_PAIR : 0;
}

uint64_t gp_pairs_free_requested(
    void *self, gp_observed_t *block, uint64_t context, int device, bool is_cut, uint64_t time_ns)
{
  gp_recorder_t *recorder = self;
  gp_writer_t *writer = &gp_writer;
  gp_cookie_t *cookie = &block->observer_cookie;
  int mode = mode_of(recorder, writer);
  uint32_t place = 0;

  (void)context;
  if (mode == GP_TRACE_OFF || cookie->slot == 0)
    return 0;
  gp_live_slot_t *slot = slot_of(recorder, block);
  if (mode == GP_TRACE_ALL) {
    if (writer->used == writer->limit)
      return 0;
    gp_assert_internal(gp_writer_owns_chunk(recorder, writer));
    time_ns = gp_recorder_time_ns(recorder, device, time_ns);
    fill_record(&writer->records[writer->used], writer, block, slot, device, time_ns);
    place = gp_writer_publish(writer, time_ns);
  } else if (cookie->note != 0) { /* recording has ended since the alloc */
    return 0;
  }
  gp_live_set_state(slot, GP_LIVE_PENDING, device, is_cut, false);
  cookie->note = place;
  return time_ns;
}

uint64_t gp_pairs_free_completed(
    void *self, gp_observed_t *block, uint64_t context, int device, bool is_cut, uint64_t time_ns)
{
  gp_recorder_t *recorder = self;
  gp_writer_t *writer = &gp_writer;
  gp_cookie_t *cookie = &block->observer_cookie;
  int mode = mode_of(recorder, writer);

  (void)context;
  if (mode == GP_TRACE_OFF || cookie->slot == 0)
    return 0;
  if (mode == GP_TRACE_ALL) {
    time_ns = gp_recorder_time_ns(recorder, device, time_ns);
    if (!gp_writer_complete(recorder, writer, cookie->note, block->block_id, time_ns))
      return 0;
  }
  if (is_cut) {
    gp_live_give(&recorder->live, cookie, device);
  } else {
    gp_live_set_state(slot_of(recorder, block), GP_LIVE_IDLE, device, false, false);
    cookie->note = 0;
  }
  return time_ns;
}
