#include "trace/record/writer.h"

#include "trace/stacks/known_stacks.h"
#include "trace/stacks/unwind.h"

/* Returns the mode in which this thread may use the fast path: the recorder's mode, or GP_TRACE_OFF if the
 * thread must call record_event instead. A forked child has no slots, so its mode is also GP_TRACE_OFF. */
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

/* Records an alloc in the slot only, without an event record. Returns the recorded time, or 0 if the caller
 * must use the general event function. */
uint64_t gp_pairs_alloc(
    void *self, gp_observed_t *block, uint64_t context, int device, bool is_cut, uint64_t time_ns)
{
  gp_recorder_t *recorder = self;
  gp_writer_t *writer = &gp_writer;
  gp_cookie_t *cookie = &block->observer_cookie;
  int mode = mode_of(recorder, writer);
  bool records_alloc = mode == GP_TRACE_ALL;
  int16_t stream = GP_EVENT_RECORD_NO_STREAM;

  if (mode == GP_TRACE_OFF)
    return 0;
  if (block->stream != 0) {
    uint64_t handle = block->stream == GP_STREAM_LEGACY ? 0 : block->stream;
    if (!records_alloc || !writer->has_stream || writer->stream_handle != handle)
      return 0;
    stream = writer->stream;
  }
  if (cookie->slot == 0) {
    cookie->slot = gp_live_take_free(&recorder->live, device);
    if (cookie->slot == 0)
      return 0;
    gp_live_set_place(&recorder->live.slots[cookie->slot - 1], block->address, block->size, context);
  }
  if (records_alloc)
    time_ns = gp_recorder_time_ns(recorder, device, time_ns);
  gp_live_slot_t *slot = slot_of(recorder, block);
  const gp_live_owner_t owner = {block->requested, block->block_id, time_ns, block->origin, stream};
  gp_live_set_owner(slot, &owner);
  slot->thread = writer->thread;
  gp_live_set_state(slot, GP_LIVE_ALLOCATED, device, is_cut, records_alloc);
  cookie->note = records_alloc ? gp_note_of_alloc(writer->thread) : 0;
  return time_ns;
}

/* Fills the record of a free. If the slot was the only record of the alloc, the event record represents the
 * alloc, too. */
static inline void fill_pair(gp_event_record_t *record, const gp_writer_t *writer, const gp_observed_t *block,
    const gp_live_slot_t *slot, int device, uint64_t time_ns)
{
  bool is_pair = gp_note_records_alloc(block->observer_cookie.note);

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
  gp_writer_arm_end(recorder, writer); /* the key's destructor may have run already in this ending thread */
  fill_pair(&record, writer, block, slot, device, time_ns);
  return gp_writer_turn(recorder, writer, &record);
}

/* Appends a record of the free. Returns the record's place, or 0 if the record is not in a chunk of this
 * thread. */
static inline uint32_t add_record(gp_recorder_t *recorder, gp_writer_t *writer, const gp_observed_t *block,
    const gp_live_slot_t *slot, int device, uint64_t time_ns)
{
  if (__builtin_expect(writer->used == writer->limit, 0))
    return turn_chunk(recorder, writer, block, slot, device, time_ns);
  gp_assert_internal(gp_writer_owns_chunk(recorder, writer));
  fill_pair(&writer->records[writer->used], writer, block, slot, device, time_ns);
  return gp_writer_publish(writer, time_ns);
}

/* Returns the time to record for an event. last_ns points to the time of the heap's last event; it is NULL
 * for an event that belongs to no heap. Events of a heap do not advance the device's clock; gp_pairs_join
 * does. */
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
  } else if (cookie->note != 0) { /* recording was switched off after the alloc */
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

/* Gives a heap's block to its next owner: records the completion of the free, and the alloc. The block keeps
 * its slot. The slot's word is reset in between, as readers expect after a completion. */
uint64_t gp_pairs_reuse(void *self, gp_observed_t *block, const gp_next_owner_t *next, int device,
    bool is_cut, uint64_t *last_ns, uint64_t time_ns)
{
  gp_recorder_t *recorder = self;
  gp_writer_t *writer = &gp_writer;
  gp_cookie_t *cookie = &block->observer_cookie;
  int mode = mode_of(recorder, writer);
  bool records_alloc = mode == GP_TRACE_ALL;

  gp_assert_internal(block->stream == 0);
  if (mode == GP_TRACE_OFF || cookie->slot == 0)
    return 0;
  if (records_alloc) {
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
  gp_live_set_state(slot, GP_LIVE_ALLOCATED, device, is_cut, records_alloc);
  cookie->note = records_alloc ? gp_note_of_alloc(writer->thread) : 0;
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

__thread gp_writer_t gp_writer __attribute__((tls_model("initial-exec")));

bool gp_writer_owns_chunk(const gp_recorder_t *recorder, const gp_writer_t *writer)
{
  const gp_chunk_t *chunk = &recorder->chunks.chunks[writer->chunk];
  return chunk->state == GP_CHUNK_OPEN && writer->count == &chunk->count &&
         atomic_load_explicit(&chunk->count, memory_order_relaxed) == writer->used;
}

static int16_t stream_index(gp_recorder_t *recorder, gp_writer_t *writer, const gp_event_t *event)
{
  if (!event->has_stream)
    return GP_EVENT_RECORD_NO_STREAM;
  if (!writer->has_stream || writer->stream_handle != event->stream) {
    writer->stream = gp_handles_intern(&recorder->handles, event->stream);
    writer->stream_handle = event->stream;
    writer->has_stream = true;
  }
  return writer->stream;
}

/* Returns the number of an event's stack. A free has the stack of its allocation, unless frees get stacks of
 * their own. */
static uint32_t origin_of(const gp_recorder_t *recorder, const gp_event_t *event)
{
  bool is_free = event->action == GP_ACTION_FREE_REQUESTED || event->action == GP_ACTION_FORWARDED_FREE;
  return is_free && recorder->origins.has_frees ? gp_origin_tls.origin : event->origin;
}

static void fill_record(gp_recorder_t *recorder, gp_writer_t *writer, gp_event_record_t *record,
    const gp_event_t *event, uint64_t time_ns)
{
  const gp_cookie_t *cookie = event->observer_cookie;
  bool is_pair = event->action == GP_ACTION_FREE_REQUESTED && cookie && gp_note_records_alloc(cookie->note);

  gp_assert_internal(event->rounded_size >= event->size);
  __atomic_store_n(&record->time_ns, time_ns, __ATOMIC_RELAXED);
  record->address = event->address;
  record->size = event->size;
  record->lifetime_ns = event->alloc_ns != 0 ? time_ns - event->alloc_ns : 0;
  gp_event_record_set_block(record, event->rounded_size, event->block_id);
  if (!cookie || cookie->slot == 0 || recorder->origins.has_frees) /* the completion gets a separate record */
    record->completion = gp_completion_set(record->completion, GP_COMPLETION_CLOSED);
  record->duration =
      is_pair ? gp_note_thread(cookie->note) : gp_event_record_duration_pack(event->duration_ns);
  record->stack = (int32_t)origin_of(recorder, event) - 1;
  record->stream = stream_index(recorder, writer, event);
  record->thread = writer->thread;
  record->action = (uint8_t)event->action;
  record->detail = (uint8_t)event->detail;
  record->device = (int8_t)event->device;
  record->flags = (uint8_t)((event->hit ? GP_EVENT_RECORD_HIT : 0) | (is_pair ? GP_EVENT_RECORD_PAIR : 0));
}

void gp_writer_thread_ended(void *self)
{
  gp_recorder_t *recorder = self;
  gp_writer_t *writer = &gp_writer;
  /* A destructor that runs later may allocate or free GPU memory, which arms this destructor again. */
  writer->will_close = false;
  gp_unwind_thread_ended();
  gp_known_stacks_thread_ended();
  if (writer->recorder_id != recorder->id || atomic_load(&recorder->silent) || getpid() != recorder->pid)
    return;
  if (writer->limit)
    gp_chunks_close(&recorder->chunks, writer->chunk, writer->newest_ns);
  writer->limit = 0;
  writer->used = 0;
}

uint32_t gp_writer_turn(gp_recorder_t *recorder, gp_writer_t *writer, const gp_event_record_t *record)
{
  uint32_t full = writer->limit ? writer->chunk : GP_CHUNK_NONE;
  uint32_t chunk = gp_chunks_rotate(&recorder->chunks, full, writer->newest_ns, writer->thread, record);
  writer->newest_ns = 0;
  writer->used = 0;
  writer->limit = 0;
  if (chunk == GP_CHUNK_NONE)
    return 0;
  writer->chunk = chunk;
  writer->limit = recorder->chunks.header->chunk_records;
  writer->records = gp_chunks_records(&recorder->chunks, chunk);
  writer->count = &recorder->chunks.chunks[chunk].count;
  gp_event_record_copy(&writer->records[0], record);
  return gp_writer_publish(writer, gp_event_record_time_ns(record));
}

uint32_t gp_writer_append(
    gp_recorder_t *recorder, gp_writer_t *writer, const gp_event_t *event, uint64_t time_ns)
{
  if (writer->used < writer->limit) {
    gp_assert_internal(gp_writer_owns_chunk(recorder, writer));
    fill_record(recorder, writer, &writer->records[writer->used], event, time_ns);
    return gp_writer_publish(writer, time_ns);
  }
  gp_event_record_t record;
  fill_record(recorder, writer, &record, event, time_ns);
  return gp_writer_turn(recorder, writer, &record);
}

/* Appends the buffered events at the beginning of the record, each with the thread that caused it. */
static void append_prestart(gp_recorder_t *recorder, gp_writer_t *writer)
{
  const gp_prestart_t *prestart = &recorder->prestart;
  const uint16_t own = writer->thread;
  const int32_t own_tid = gp_threads_describe_caller().tid;
  uint16_t threads[GP_PRESTART_EVENTS];
  for (unsigned i = 0; i < prestart->count; i++) {
    const gp_prestart_event_t *kept = &prestart->events[i];
    unsigned same = 0;
    while (prestart->events[same].thread.tid != kept->thread.tid)
      same++;
    if (same < i)
      threads[i] = threads[same];
    else
      threads[i] = kept->thread.tid == own_tid ? own : gp_threads_add(&recorder->threads, &kept->thread);
    writer->thread = threads[i];
    (void)gp_writer_append(recorder, writer, &kept->event, kept->event.time_ns);
  }
  writer->thread = own;
}

void gp_writer_know_thread(gp_recorder_t *recorder, gp_writer_t *writer)
{
  if (writer->recorder_id != recorder->id) {
    *writer = (gp_writer_t){.recorder_id = recorder->id};
    writer->thread = gp_threads_add_caller(&recorder->threads);
  }
  gp_writer_arm_end(recorder, writer);
}

uint32_t gp_writer_begin(gp_recorder_t *recorder, const gp_event_t *event, uint64_t time_ns)
{
  gp_writer_t *writer = &gp_writer;
  if (event->action == GP_ACTION_MODE && !gp_region_is_started(&recorder->region)) {
    gp_event_t kept = *event;
    kept.time_ns = time_ns;
    if (gp_prestart_keep(&recorder->prestart, &kept))
      return 0;
  }
  gp_writer_know_thread(recorder, writer);
  if (gp_prestart_end(&recorder->prestart))
    append_prestart(recorder, writer);
  return gp_writer_append(recorder, writer, event, time_ns);
}
