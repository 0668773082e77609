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

static __attribute__((noinline)) uint32_t turn_chunk(gp_recorder_t *recorder, gp_writer_t *writer,
    const gp_observed_t *block, const gp_live_slot_t *slot, int device, uint64_t time_ns)
{
  gp_event_record_t record;
  gp_writer_arm_end(recorder, writer); /* the thread may be at its end, and have been through that */
  fill_record(&record, writer, block, slot, device, time_ns);
  return gp_writer_turn(recorder, writer, &record);
}

/* Returns the place of the record, 0 if it is in no chunk of this thread. */
static inline uint32_t add_record(gp_recorder_t *recorder, gp_writer_t *writer, const gp_observed_t *block,
    const gp_live_slot_t *slot, int device, uint64_t time_ns)
{
  if (__builtin_expect(writer->used == writer->limit, 0))
    return turn_chunk(recorder, writer, block, slot, device, time_ns);
  gp_assert_internal(gp_writer_owns_chunk(recorder, writer));
  fill_record(&writer->records[writer->used], writer, block, slot, device, time_ns);
  return gp_writer_publish(writer, time_ns);
}

/* The time of an event: of a heap whose last one was at *last_ns, or with NULL of the device. The device's
 * clock does not pass a heap's before it joins the heap. */
static inline uint64_t time_of(gp_recorder_t *recorder, int device, uint64_t *last_ns, uint64_t time_ns)
{
  if (!last_ns)
    return gp_recorder_time_ns(recorder, device, time_ns);
  const gp_device_clock_t *clock = &recorder->clocks[device];
  const uint64_t least[] = {*last_ns, atomic_load_explicit(&clock->last_ns, memory_order_relaxed),
      atomic_load_explicit(&clock->floor_ns, memory_order_relaxed)};
  for (int i = 0; i < 3; i++)
    if (time_ns <= least[i])
      time_ns = least[i] + 1;
  *last_ns = time_ns;
  return time_ns;
}

static inline __attribute__((always_inline)) uint64_t free_requested(
    void *self, gp_observed_t *block, int device, bool is_cut, uint64_t *last_ns, uint64_t time_ns)
{
  gp_recorder_t *recorder = self;
  gp_writer_t *writer = &gp_writer;
  gp_cookie_t *cookie = &block->observer_cookie;
  int mode = mode_of(recorder, writer);
  uint32_t place = 0;

  if (mode == GP_TRACE_OFF || cookie->slot == 0)
    return 0;
  gp_live_slot_t *slot = slot_of(recorder, block);
  if (mode == GP_TRACE_ALL) {
    time_ns = time_of(recorder, device, last_ns, time_ns);
    place = add_record(recorder, writer, block, slot, device, time_ns);
  } else if (cookie->note != 0) { /* recording has ended since the alloc */
    return 0;
  }
  gp_live_set_state(slot, GP_LIVE_PENDING, device, is_cut, false);
  cookie->note = place;
  return time_ns;
}

uint64_t gp_pairs_free_requested(
    void *self, gp_observed_t *block, uint64_t context, int device, bool is_cut, uint64_t time_ns)
{
  (void)context;
  return free_requested(self, block, device, is_cut, NULL, time_ns);
}

uint64_t gp_pairs_keep(
    void *self, gp_observed_t *block, int device, bool is_cut, uint64_t *last_ns, uint64_t time_ns)
{
  return free_requested(self, block, device, is_cut, last_ns, time_ns);
}

/* The slot of a part stays with it, but is of no block in between, as a reader expects after a completion. */
uint64_t gp_pairs_hand_on(void *self, gp_observed_t *block, const gp_next_owner_t *next, int device,
    bool is_cut, uint64_t *last_ns, uint64_t time_ns)
{
  gp_recorder_t *recorder = self;
  gp_writer_t *writer = &gp_writer;
  gp_cookie_t *cookie = &block->observer_cookie;
  int mode = mode_of(recorder, writer);
  bool tells_alloc = mode == GP_TRACE_ALL;

  gp_assert_internal(block->stream == 0);
  if (mode == GP_TRACE_OFF || cookie->slot == 0)
    return 0;
  if (tells_alloc) {
    time_ns = time_of(recorder, device, last_ns, time_ns);
    bool is_entered = gp_writer_complete(recorder, writer, cookie->note, block->block_id, time_ns);
    if (!is_entered)
      return 0;
    time_ns = time_of(recorder, device, last_ns, time_ns);
  }
  gp_live_slot_t *slot = slot_of(recorder, block);
  const gp_live_owner_t owner = {
      next->requested, next->block_id, time_ns, next->origin, GP_EVENT_RECORD_NO_STREAM};
  if (is_cut)
    atomic_store_explicit(&slot->word, 0, memory_order_release);
  else
    gp_live_set_state(slot, GP_LIVE_IDLE, device, false, false);
  slot->thread = writer->thread;
  gp_live_set_owner(slot, &owner);
  gp_live_set_state(slot, GP_LIVE_ALLOCATED, device, is_cut, tells_alloc);
  cookie->note = tells_alloc ? gp_note_of_alloc(writer->thread) : 0;
  return time_ns;
}

void gp_pairs_join(void *self, int device, uint64_t last_ns)
{
  gp_recorder_t *recorder = self;
  gp_device_clock_t *clock = &recorder->clocks[device];

  if (atomic_load_explicit(&clock->last_ns, memory_order_relaxed) < last_ns)
    atomic_store_explicit(&clock->last_ns, last_ns, memory_order_relaxed);
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
